"""How long a run will take, from a few steps of it."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from maxsup.core.config import Recipe
from maxsup.core.interrupt import SignalGuard
from maxsup.core.rundir import RunDir
from maxsup.training.loop import Trainer
from maxsup.training.parts import build_data, build_loss, build_model
from maxsup.training.processes import create_accelerator
from maxsup.training.progress import Reporter


def estimated_seconds(recipe: Recipe, num_steps: int = 8) -> float:
    """Seconds that all epochs of a recipe will take in one process, validation left out.

    Nothing is left on disk. The first steps, which allocate and compile, are not counted.

    Args:
        recipe: What would be trained.
        num_steps: How many steps are timed.
    """
    bundle = build_data(recipe)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(Path(folder))
        accelerator = create_accelerator(recipe, run)
        trainer = Trainer(
            recipe,
            run,
            accelerator,
            bundle,
            build_model(recipe, bundle),
            build_loss(recipe.loss),
            SignalGuard(),
            Reporter(),
        )
        trainer.criterion.set_progress(0.0)
        steps = trainer.train_epoch()
        for _ in islice(steps, 2):
            pass
        start, done = time.perf_counter(), 0
        for _ in islice(steps, num_steps):
            done += 1
        seconds = time.perf_counter() - start
    return recipe.epochs * trainer.batches.num_batches * seconds / max(done, 1)


def estimated_total(recipes: Sequence[Recipe]) -> float:
    """Seconds of all recipes one after another; those that differ in loss and seed alone are taken to last alike."""
    keys = [recipe.model_dump_json(exclude={"loss", "seed"}) for recipe in recipes]
    examples = dict(zip(reversed(keys), reversed(recipes), strict=True))
    return sum(count * estimated_seconds(examples[key]) for key, count in Counter(keys).items())
