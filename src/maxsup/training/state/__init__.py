"""The state of training, saved and brought back."""
