"""What runs are called where several are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxsup.analysis.outputs import RunOutputs
from maxsup.figures.style import loss_look


def label_runs(runs: Sequence[RunOutputs]) -> list[str]:
    """Names that tell runs apart: the loss, and of runs with the same loss what they differ in."""
    labels = [loss_look(run.loss).label for run in runs]
    facets = (
        [_strength_text(run.strength) for run in runs],
        [run.recipe.model.name for run in runs],
        [run.recipe.data.name for run in runs],
        [f"seed {run.recipe.seed}" for run in runs],
        [run.weights for run in runs],
        [run.run.path.resolve().name for run in runs],
        [str(run.run.path) for run in runs],
    )
    for facet in facets:
        groups: dict[str, set[str]] = {}
        for label, value in zip(labels, facet, strict=True):
            groups.setdefault(label, set()).add(value)
        if len(groups) == len(labels):
            break
        labels = [
            f"{label} {value}".strip() if len(groups[label]) > 1 else label
            for label, value in zip(labels, facet, strict=True)
        ]
    return labels


def _strength_text(strength: Any) -> str:
    if isinstance(strength, int | float):
        return f"{strength:g}"
    if isinstance(strength, dict):
        return " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in strength.values())
    return "" if strength is None else str(strength)
