"""The claims of the paper, one test each, named by the LaTeX label of the statement."""
