"""The state of training, saved and restored."""
