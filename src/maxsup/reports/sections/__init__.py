"""Sections of a report: words, figures, tables."""
