"""Data sets, one module a kind; each registers itself."""
