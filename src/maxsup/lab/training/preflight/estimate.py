"""A few steps of a run in advance: they show that it can be trained, and how long it will take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from maxsup.lab.core.config import Recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.core.recipes import write_recipe
from maxsup.lab.data import DataBundle
from maxsup.lab.models import Classifier
from maxsup.lab.training.builders import build_loss, build_model
from maxsup.lab.training.loop import Trainer
from maxsup.lab.training.preprocessing import resolve_preprocessing
from maxsup.lab.training.processes import create_accelerator
from maxsup.lab.training.progress import Reporter
from maxsup.lab.training.state.snapshot import save

_NUM_FIRST, _NUM_STEPS = 2, 8


@contextmanager
def rehearsal(recipe: Recipe, bundle: DataBundle) -> Iterator[Trainer]:
    """A trainer that leaves nothing on disk."""
    recipe = resolve_preprocessing(recipe)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(Path(folder))
        accelerator = create_accelerator(recipe, run)
        model, criterion = build_model(recipe, bundle), build_loss(recipe.loss)
        yield Trainer(recipe, run, accelerator, bundle, model, criterion, SignalGuard(), Reporter())


def estimate_seconds(recipe: Recipe, bundle: DataBundle) -> float:
    """Seconds that all epochs of a recipe will take in one process, without validation.

    The first steps, which allocate and compile, only count if there are no others.
    """
    with rehearsal(recipe, bundle) as trainer:
        times = [time.perf_counter()]
        for _ in islice(trainer.train_epoch(), _NUM_FIRST + _NUM_STEPS):
            times.append(time.perf_counter())
    counted = times[_NUM_FIRST:] if len(times) > _NUM_FIRST + 1 else times
    each = (counted[-1] - counted[0]) / max(len(counted) - 1, 1)
    return recipe.epochs * trainer.batches.num_batches * each


def try_step(recipe: Recipe, bundle: DataBundle) -> float:
    """The mean loss of the first step, through data, model, loss and optimiser; raises what training would raise."""
    with rehearsal(recipe, bundle) as trainer:
        next(trainer.train_epoch(), None)
        return trainer.meter.means()["loss"]


@contextmanager
def rehearse_run(recipe: Recipe, bundle: DataBundle) -> Iterator[tuple[RunDir, Classifier]]:
    """The run directory and the model after one step, for analyses; nothing is left on disk."""
    with rehearsal(recipe, bundle) as trainer:
        next(trainer.train_epoch(), None)
        write_recipe(trainer.run, recipe)
        save(trainer)
        model = trainer.evaluated_model.eval()
        assert isinstance(model, Classifier)
        yield trainer.run, model
