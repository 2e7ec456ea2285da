"""Losses of logits whose classes are split over processes, which exchange a few numbers a sample."""
