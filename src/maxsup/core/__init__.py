"""Ground floor: what everything else stands on, and what stands on nothing of ours."""
