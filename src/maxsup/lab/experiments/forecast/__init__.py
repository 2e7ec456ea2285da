"""What is said of runs before they are made: cost, duration, what is missing."""
