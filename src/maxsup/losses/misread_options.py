"""Options as another library's loss takes them: refused with the line to write."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from maxsup.core.errors import coded, hint
from maxsup.losses.reduction import LossOptions


def refuse_unknown_options(loss: type, strength: str | None, unknown: Mapping[str, Any]) -> None:
    """Raise for keyword arguments that a loss does not have."""
    for option, value in unknown.items():
        known = {*inspect.signature(loss).parameters, *LossOptions.__annotations__} - {"options", "unknown"}
        meant = get_close_matches(option, known, n=1)
        fix = f"Did you mean {meant[0]}={value!r}?" if meant else hint(option, known)
        if option in ("label_smoothing", "smoothing"):
            fix = f"Write LabelSmoothingLoss(alpha={value!r}) or MaxSupLoss(alpha={value!r})."
            if strength == "alpha":
                fix = f"Did you mean alpha={value!r}?"
        sentence = f"options of {loss.__name__} must be those it has; got {option}={value!r}. {fix}"
        raise coded(TypeError(sentence), "unknown-option")


def refuse_class_weights(loss: type, value: Any) -> None:
    """Raise for several numbers as the first argument, where torch's losses take class weights."""
    if isinstance(value, list | tuple) or bool(getattr(value, "ndim", False)):
        size = tuple(value.shape) if hasattr(value, "shape") else (len(value),)
        raise TypeError(
            f"the first argument of {loss.__name__} must be one number; got numbers of shape {size}. "
            f"If these are class weights, write {loss.__name__}(weight=weights)."
        )
