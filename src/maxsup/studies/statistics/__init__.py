"""Paired statistics over seeds."""
