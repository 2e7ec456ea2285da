"""Images with masks: their sets, files, transforms and pipeline."""
