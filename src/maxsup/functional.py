"""The losses as pure functions of logits and targets, as in ``torch.nn.functional``."""

from typing import Any

from maxsup.losses import LOSSES
from maxsup.losses.computing.forms import implementation
from maxsup.losses.cross_entropy import cross_entropy
from maxsup.losses.head.linear import linear_maxsup_cross_entropy
from maxsup.losses.label_smoothing import LabelSmoothingTerms, label_smoothing_cross_entropy, label_smoothing_terms
from maxsup.losses.maxsup import maxsup_cross_entropy, maxsup_penalty
from maxsup.losses.mbls import mbls_cross_entropy
from maxsup.losses.relatives.acls import acls_cross_entropy
from maxsup.losses.relatives.adaptive_label_smoothing import adaptive_alpha, adaptive_label_smoothing_cross_entropy
from maxsup.losses.relatives.confidence_penalty import confidence_penalty_cross_entropy
from maxsup.losses.relatives.distillation import distillation_cross_entropy
from maxsup.losses.relatives.dual_focal import dual_focal_cross_entropy
from maxsup.losses.relatives.focal import (
    focal_cross_entropy,
    focal_label_smoothing_cross_entropy,
    focal_maxsup_cross_entropy,
)
from maxsup.losses.relatives.logit_norm import logit_norm_cross_entropy
from maxsup.losses.relatives.logit_penalty import logit_penalty_cross_entropy
from maxsup.losses.relatives.ls_ablations import (
    error_amplification_max_cross_entropy,
    error_amplification_mean_cross_entropy,
    regularization_only_cross_entropy,
)
from maxsup.losses.relatives.online_label_smoothing import online_label_smoothing_cross_entropy
from maxsup.losses.relatives.poly1 import poly1_cross_entropy
from maxsup.losses.relatives.zipf_label_smoothing import dense_votes, zipf_label_smoothing_cross_entropy

__all__ = [
    "LabelSmoothingTerms", "acls_cross_entropy", "adaptive_alpha", "adaptive_label_smoothing_cross_entropy",
    "confidence_penalty_cross_entropy", "cross_entropy", "dense_votes", "distillation_cross_entropy",
    "dual_focal_cross_entropy", "error_amplification_max_cross_entropy", "error_amplification_mean_cross_entropy",
    "focal_cross_entropy", "focal_label_smoothing_cross_entropy", "focal_maxsup_cross_entropy", "implementation",
    "label_smoothing_cross_entropy", "label_smoothing_terms", "linear_maxsup_cross_entropy", "logit_norm_cross_entropy",
    "logit_penalty_cross_entropy", "maxsup_cross_entropy", "maxsup_penalty", "mbls_cross_entropy",
    "online_label_smoothing_cross_entropy", "poly1_cross_entropy", "regularization_only_cross_entropy",
    "zipf_label_smoothing_cross_entropy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The function of a registered loss that is not imported above, such as one that you add."""
    for loss in map(LOSSES.__getitem__, LOSSES):
        if loss.function.__name__ == name:
            return loss.function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
