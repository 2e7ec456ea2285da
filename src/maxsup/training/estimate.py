"""What a few steps of a run tell before it is made: that it can be made at all, and how long it will take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from maxsup.core.config import Recipe
from maxsup.core.interrupt import SignalGuard
from maxsup.core.rundir import RunDir
from maxsup.data import DataBundle
from maxsup.training.loop import Trainer
from maxsup.training.parts import build_data, build_loss, build_model
from maxsup.training.processes import create_accelerator
from maxsup.training.progress import Reporter


@contextmanager
def rehearsal(recipe: Recipe, bundle: DataBundle | None = None) -> Iterator[Trainer]:
    """A trainer that leaves nothing on disk.

    Args:
        recipe: What would be trained.
        bundle: Its data, where that is loaded already.
    """
    bundle = bundle or build_data(recipe)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(Path(folder))
        accelerator = create_accelerator(recipe, run)
        model, criterion = build_model(recipe, bundle), build_loss(recipe.loss)
        trainer = Trainer(recipe, run, accelerator, bundle, model, criterion, SignalGuard(), Reporter())
        trainer.criterion.set_progress(0.0)
        yield trainer


def estimated_seconds(recipe: Recipe, num_steps: int = 8) -> float:
    """Seconds that all epochs of a recipe will take in one process, validation left out.

    Nothing is left on disk. The first steps, which allocate and compile, are not counted.

    Args:
        recipe: What would be trained.
        num_steps: How many steps are timed.
    """
    with rehearsal(recipe) as trainer:
        steps = trainer.train_epoch()
        for _ in islice(steps, 2):
            pass
        start, done = time.perf_counter(), 0
        for _ in islice(steps, num_steps):
            done += 1
        seconds = time.perf_counter() - start
    return recipe.epochs * trainer.batches.num_batches * seconds / max(done, 1)


def try_step(recipe: Recipe, bundle: DataBundle | None = None) -> float:
    """The mean loss of the first step, through data, model, loss and optimiser; raises what training would raise."""
    with rehearsal(recipe, bundle) as trainer:
        for _ in islice(trainer.train_epoch(), 1):
            pass
        return trainer.meter.means()["loss"]


def estimated_total(recipes: Sequence[Recipe]) -> float:
    """Seconds of all recipes one after another; those that differ in loss and seed alone are taken to last alike.

    Every loss makes a step, so that one which cannot be trained is known before hours are spent on the others.
    """
    losses: dict[str, dict[str, Recipe]] = {}
    counts: dict[str, int] = {}
    for recipe in recipes:
        key = recipe.model_dump_json(exclude={"loss", "seed"})
        losses.setdefault(key, {}).setdefault(recipe.loss.model_dump_json(), recipe)
        counts[key] = counts.get(key, 0) + 1
    total = 0.0
    for key, examples in losses.items():
        first, *others = examples.values()
        total += counts[key] * estimated_seconds(first)
        bundle = build_data(first)
        for recipe in others:
            try_step(recipe, bundle)
    return total
