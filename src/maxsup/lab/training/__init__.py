"""Training and evaluation: a recipe goes in, a run directory comes out."""

from __future__ import annotations

from maxsup.lab.tasks import evaluate
from maxsup.lab.training.reading import evaluate_run, load_run
from maxsup.lab.training.run import TrainingSummary, default_output, train

__all__ = ["TrainingSummary", "default_output", "evaluate", "evaluate_run", "load_run", "train"]
