"""Checks, defaults and estimates before a run."""
