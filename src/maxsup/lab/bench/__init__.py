"""Benchmark the time and memory of a loss against the usual implementations."""
