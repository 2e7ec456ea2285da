"""Training and evaluation: a recipe goes in, a run directory comes out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxsup.lab.tasks import evaluate
    from maxsup.lab.training.reading import evaluate_run, load_run
    from maxsup.lab.training.run import TrainingSummary, default_output, train

__all__ = ["TrainingSummary", "default_output", "evaluate", "evaluate_run", "load_run", "train"]

_HOMES = {"evaluate": "maxsup.lab.tasks"}
_HOMES |= dict.fromkeys(("evaluate_run", "load_run"), "maxsup.lab.training.reading")
_HOMES |= dict.fromkeys(("TrainingSummary", "default_output", "train"), "maxsup.lab.training.run")


def __getattr__(name: str) -> Any:
    # Late: a recipe is checked, and a comparison planned, without the loop.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
