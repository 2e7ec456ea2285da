"""Corruptions of images at five severities."""
