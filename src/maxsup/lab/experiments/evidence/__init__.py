"""The paper's claims, and the numbers of pools of runs that they are judged by."""
