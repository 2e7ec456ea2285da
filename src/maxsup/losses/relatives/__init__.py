"""The relatives of MaxSup: other ways to keep a classifier from being too sure, one module each."""
