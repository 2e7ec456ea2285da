"""MaxSup on logits and on a linear head, and the loss of a causal language model as a layer."""

from . import layers
from .losses.head.linear import linear_maxsup_cross_entropy
from .losses.maxsup import maxsup_cross_entropy

__all__ = ["layers", "linear_maxsup_cross_entropy", "maxsup_cross_entropy"]
