"""The first edition of the evidence: pools of runs, claims, and their pages."""
