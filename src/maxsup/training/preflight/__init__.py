"""What can be said of a run before it is made."""
