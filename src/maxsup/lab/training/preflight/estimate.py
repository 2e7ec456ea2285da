"""A few steps of a run in advance: they show that it can be trained, and how long it will take."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from maxsup.lab.core.config import Recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import write_recipe
from maxsup.lab.data import DataBundle
from maxsup.lab.models import Classifier
from maxsup.lab.training.builders import build_loss, build_model, split_pipeline
from maxsup.lab.training.loop import Trainer
from maxsup.lab.training.preflight.memory import settle_accumulation
from maxsup.lab.training.preprocessing import resolve_preprocessing
from maxsup.lab.training.state.snapshot import save

_NUM_FIRST, _NUM_STEPS = 2, 8


def create_trainer(recipe: Recipe, bundle: DataBundle) -> Trainer:
    """Create a trainer without a run, which leaves nothing on disk."""
    recipe = resolve_preprocessing(recipe)
    trainer = Trainer(recipe, bundle, build_model(recipe, bundle), build_loss(recipe.loss))
    settle_accumulation(trainer)
    return trainer


def take_steps(trainer: Trainer, most: int) -> list[float]:
    """Take the first steps, at most so many; return the time before the first one and after each."""
    trainer.start_epoch()
    times = [time.perf_counter()]
    for batch in islice(trainer.remaining_batches(), most):
        trainer.step(batch)
        times.append(time.perf_counter())
    trainer.settle()
    return times


def estimate_seconds(recipe: Recipe, bundle: DataBundle, num_ranks: int = 1) -> float:
    """Estimate the seconds that all epochs of a recipe will take, without validation.

    The first steps, which allocate and compile, only count if there are no others. Of several processes this one takes
    the share of the first, and the time for their communication is not counted.
    """
    trainer = create_trainer(_share(recipe, num_ranks), bundle)
    times = take_steps(trainer, _NUM_FIRST + _NUM_STEPS)
    counted = times[_NUM_FIRST:] if len(times) > _NUM_FIRST + 1 else times
    each = (counted[-1] - counted[0]) / max(len(counted) - 1, 1)
    whole = split_pipeline(resolve_preprocessing(recipe), bundle, bundle.train, is_training=True)
    return recipe.epochs * whole.num_batches * each


def try_step(recipe: Recipe, bundle: DataBundle, num_ranks: int = 1) -> float:
    """Return the mean loss of the first step, through data, model, loss and optimiser; raise what training would."""
    trainer = create_trainer(_share(recipe, num_ranks), bundle)
    take_steps(trainer, 1)
    return trainer.meter.means()["loss"]


def _share(recipe: Recipe, num_ranks: int) -> Recipe:
    """Return the recipe with the part of a batch that one of several processes gets."""
    if num_ranks == 1:
        return recipe
    return recipe.changed(batch_size=math.ceil(recipe.batch_size / num_ranks), data={"drop_last": True})


@contextmanager
def rehearse_run(recipe: Recipe, bundle: DataBundle) -> Iterator[tuple[RunDir, Classifier]]:
    """Give a run after one step, and its model, to analyses that need a folder; nothing is left on disk."""
    trainer = create_trainer(recipe, bundle)
    take_steps(trainer, 1)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(Path(folder))
        write_recipe(run, recipe)
        save(trainer, run)
        model = trainer.evaluated_model.eval()
        assert isinstance(model, Classifier)
        yield run, model
