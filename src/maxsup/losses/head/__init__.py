"""Losses from hidden states and the weight of a linear head, without the logits of the batch."""
