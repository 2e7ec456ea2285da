"""All losses, each as a pure function and as a module, found by name.

A file in this folder or in ``relatives`` with an ``@LOSSES.register`` decorator is all that a loss needs:
``create_loss``, ``maxsup ls losses``, this module, ``maxsup.functional`` and the contract tests find it. The imports
below are for type checkers.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from maxsup.losses import relatives
from maxsup.losses.base import LOSSES, RegularizedLoss
from maxsup.losses.cross_entropy import CrossEntropyLoss
from maxsup.losses.head.linear import LinearMaxSupLoss
from maxsup.losses.label_smoothing import LabelSmoothingLoss
from maxsup.losses.maxsup import MaxSupLoss
from maxsup.losses.mbls import MarginLabelSmoothingLoss
from maxsup.losses.relatives.acls import AdaptiveConditionalLabelSmoothingLoss
from maxsup.losses.relatives.adaptive_label_smoothing import AdaptiveLabelSmoothingLoss
from maxsup.losses.relatives.confidence_penalty import ConfidencePenaltyLoss
from maxsup.losses.relatives.distillation import DistillationLoss
from maxsup.losses.relatives.dual_focal import DualFocalLoss
from maxsup.losses.relatives.focal import FocalLabelSmoothingLoss, FocalLoss, FocalMaxSupLoss
from maxsup.losses.relatives.logit_norm import LogitNormLoss
from maxsup.losses.relatives.logit_penalty import LogitPenaltyLoss
from maxsup.losses.relatives.ls_ablations import (
    ErrorAmplificationMaxLoss,
    ErrorAmplificationMeanLoss,
    RegularizationOnlyLoss,
)
from maxsup.losses.relatives.online_label_smoothing import OnlineLabelSmoothingLoss
from maxsup.losses.relatives.poly1 import Poly1Loss
from maxsup.losses.relatives.zipf_label_smoothing import ZipfLabelSmoothingLoss
from maxsup.losses.shards.loss import SplitOptions

for _folder in (__name__, relatives.__name__):
    for _module in iter_modules(import_module(_folder).__path__):
        import_module(f"{_folder}.{_module.name}")

__all__ = [
    "LOSSES", "AdaptiveConditionalLabelSmoothingLoss", "AdaptiveLabelSmoothingLoss", "ConfidencePenaltyLoss",
    "CrossEntropyLoss", "DistillationLoss", "DualFocalLoss", "ErrorAmplificationMaxLoss", "ErrorAmplificationMeanLoss",
    "FocalLabelSmoothingLoss", "FocalLoss", "FocalMaxSupLoss", "LabelSmoothingLoss", "LinearMaxSupLoss",
    "LogitNormLoss", "LogitPenaltyLoss", "MarginLabelSmoothingLoss", "MaxSupLoss", "OnlineLabelSmoothingLoss",
    "Poly1Loss", "RegularizationOnlyLoss", "RegularizedLoss", "ZipfLabelSmoothingLoss", "create_loss",
    "describe_losses", "list_losses",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The class of a loss that is not imported above, such as one that you add."""
    for loss in map(LOSSES.__getitem__, LOSSES):
        if loss.__name__ == name:
            return loss
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def create_loss(name: str, **options: Any) -> RegularizedLoss:
    """The loss registered under ``name``; an unknown option is an error.

    Example:
        >>> create_loss("maxsup", alpha=0.2)
        MaxSupLoss(alpha=0.2, ignore_index=-100, reduction='mean')
        >>> create_loss("maxsup", alpah=0.2)
        Traceback (most recent call last):
        TypeError: option of loss 'maxsup' must be one it has; got 'alpah'. Did you mean 'alpha'?
    """
    loss = LOSSES[name]
    for option in options:
        if option in ("label_smoothing", "smoothing"):
            raise ValueError(
                f"loss {name!r} must not be combined with label smoothing; got {option}={options[option]!r}. "
                "Use create_loss('ls', alpha=...) for label smoothing, create_loss('maxsup', alpha=...) in its place."
            )
    of_parts = SplitOptions.__annotations__ if loss.takes_parts else {}
    LOSSES.check_options(name, [option for option in options if option not in of_parts])
    return loss(**options)


def list_losses() -> list[str]:
    """Names of all losses.

    Example:
        >>> [name for name in list_losses() if name.startswith("focal")]
        ['focal', 'focal_ls', 'focal_maxsup']
    """
    return LOSSES.names()


def describe_losses() -> list[dict[str, Any]]:
    """One entry per loss: name, summary, formula, strength (the option that sets it) and default, source, and needs."""
    rows = []
    for name in LOSSES:
        loss, facts = LOSSES[name], LOSSES.facts(name)
        default = None if loss.strength is None else loss().current_strength
        needs = [*loss.needs, *(f"{need} (optional)" for need in loss.optional_needs)]
        rows.append({
            "name": name, "summary": facts["summary"], "formula": facts["formula"],
            "strength": loss.strength, "default": default, "source": facts["source"], "needs": needs,
        })  # fmt: skip
    return rows
