"""The analyses, one self-registering module each."""
