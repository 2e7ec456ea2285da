"""Time, memory and accuracy of the losses against what people use today: ``make bench``."""
