"""Runs of a study carried out: its folder, workers, and who launches them."""
