"""The analyses, one module each; each registers itself."""
