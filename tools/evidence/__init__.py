"""The second edition of the evidence: what is run, how it is measured, and how it is judged."""
