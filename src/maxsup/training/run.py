"""One run from a recipe to its directory."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypedDict, cast

import torch

from maxsup import __version__
from maxsup.core.config import CIRCUMSTANCES, Recipe, differing_keys, flat_items, parse_recipe
from maxsup.core.display import create_display
from maxsup.core.errors import DataError, Interruption, MaxsupError
from maxsup.core.files.reading import read_json, read_json_lines
from maxsup.core.files.rundir import RunDir
from maxsup.core.files.storage import check_folder, json_text
from maxsup.core.interrupt import SignalGuard
from maxsup.core.recipes import load_recipe, override_words, recipe_path, run_recipe
from maxsup.core.repro import changes_that_matter, environment, set_deterministic
from maxsup.data import PythonData, data_name
from maxsup.losses import RegularizedLoss
from maxsup.models import Factory, model_name
from maxsup.training.builders import build_data, build_loss, build_model, loss_config
from maxsup.training.loop import Trainer
from maxsup.training.preflight.defaults import fitted, settled_before
from maxsup.training.preprocessing import resolved
from maxsup.training.processes import Processes, create_accelerator
from maxsup.training.progress import Reporter
from maxsup.training.state.checkpoint import load_weights, read_tensors
from maxsup.training.state.snapshot import restore, save

PROTOCOL = 1
"""Version of how numbers in ``summary.json`` are made; it changes when they would."""

# A folder with one of these is ours, however early an attempt ended: the lock comes first, a study's order before that.
_SIGNS = (".lock", "job.json", "checkpoints")


class TrainingSummary(TypedDict):
    """``summary.json`` of a run; ``val`` and ``test`` hold the numbers of the ``last`` and of the ``best`` weights."""

    protocol: int
    version: str
    run: str
    recipe: str
    loss: str
    seed: int
    epochs: int
    steps: int
    best_epoch: int | None
    val: dict[str, dict[str, Any] | None]
    test: dict[str, dict[str, Any]]
    images_per_second: float
    time_shares: dict[str, float]
    seconds: float


def train(
    recipe: Recipe | str | Path,
    output: str | Path | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    data: str | PythonData | None = None,
    model: str | Factory | None = None,
    loss: str | RegularizedLoss | Mapping[str, Any] | None = None,
    name: str | None = None,
    resume: str = "auto",
    reporter: Reporter | None = None,
) -> TrainingSummary:
    """Train what a recipe describes and leave it in a run directory.

    The same call after an interruption goes on from the last checkpoint and ends as if nothing had happened; after the
    end it only gives the summary again. What the recipe leaves to the data is settled first and kept with the run.

    Args:
        recipe: What to train: a recipe, a name from ``maxsup ls recipes``, or a ``.yaml`` file.
        output: The run directory; ``runs/`` and a name made from the recipe by default.
        overrides: ``key.sub=value`` each, or a mapping of such keys.
        data: In place of the recipe's: a name, or data as :func:`maxsup.data.data_name` takes it, which is kept beside
            the run directory.
        model: In place of the recipe's: a name, or a function as :func:`maxsup.models.model_name` takes it.
        loss: In place of the recipe's: a name, a mapping with ``name`` and options, or a loss.
        name: What the recipe is called in the summary; its own name by default.
        resume: ``auto`` goes on where a run is; ``never`` refuses to.
        reporter: Shows progress; chosen by the terminal by default.

    Returns:
        The content of ``summary.json``.
    """
    if name is None:
        name = "recipe" if isinstance(recipe, Recipe) else recipe_path(str(recipe)).stem
    words = override_words(overrides)
    if data is not None:
        words.insert(0, f"data.name={data_name(data, Path('runs') if output is None else Path(output).parent)}")
    if model is not None:
        words.insert(0, f"model.name={model_name(model)}")
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(str(recipe), words)
    elif words:
        recipe = parse_recipe(recipe.model_dump(mode="json"), words)
    if loss is not None:
        recipe = recipe.model_copy(update={"loss": loss_config({"name": loss} if isinstance(loss, str) else loss)})
    if resume not in ("auto", "never"):
        raise ValueError(f"resume must be 'auto' or 'never'; got {resume!r}. Use auto to go on after an interruption.")
    try:
        recipe, choices = fitted(recipe)
    except DataError:
        # A run that is there answers without its data; what it settled when it had some is in its own recipe.
        if output is None or not RunDir(output).config.is_file():
            raise
        recipe, choices = settled_before(recipe, RunDir(output)), []
    run = RunDir(output or default_output(recipe, name))
    recipe = resolved(recipe)
    _check_output(run)
    criterion = build_loss(recipe.loss)
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    set_deterministic(recipe.deterministic)
    with ExitStack() as stack:
        guard = stack.enter_context(SignalGuard())
        accelerator = create_accelerator(recipe, run)
        processes = Processes(accelerator)
        changes: list[str] = []
        # A run is refused or given back at once; a new directory waits until data and model are found to exist.
        is_claimed = processes.is_main and run.config.exists()
        if is_claimed:
            stack.callback(run.lock())
            changes = _claim(run, recipe, resume)
        processes.wait()
        if run.summary.exists():
            return cast("TrainingSummary", read_json(run.summary))
        reporter = stack.enter_context(reporter or Reporter(create_display(processes.is_main)))
        for sentence in choices:
            reporter.say(sentence)
        with accelerator.main_process_first():
            bundle = build_data(recipe)
        trainer = Trainer(recipe, run, accelerator, bundle, build_model(recipe, bundle), criterion, guard, reporter)
        if processes.is_main and not is_claimed:
            stack.callback(run.lock())
            changes = _claim(run, recipe, resume)
        processes.wait()
        if recipe.tracker is not None:
            settings = {
                key: value if isinstance(value, int | float | str) else str(value)
                for key, value in _plain(recipe).items()
            }
            accelerator.init_trackers(__name__.partition(".")[0], config=settings)
            stack.callback(accelerator.end_training)
        if restore(trainer):
            at = trainer.position
            reporter.say(f"going on in {run.path} at epoch {at.epoch + 1}, step {at.step}")
            if changes:
                reporter.say(f"the last bits may differ from an uninterrupted run: {'; '.join(changes)}")
        guard.is_deferring = True
        _fit(trainer)
        return _finish(trainer, name)


def default_output(recipe: Recipe, name: str) -> Path:
    """A directory that the same experiment always gets, and no other.

    Example:
        >>> default_output(Recipe(), "digits_cnn") == default_output(Recipe(threads=1), "digits_cnn")
        True
    """
    return Path("runs") / f"{name}-{recipe.loss.name}-s{recipe.seed}-{recipe_digest(recipe)}"


def recipe_digest(recipe: Recipe) -> str:
    """A short word that differs between any two experiments; circumstances such as threads do not count.

    Example:
        >>> recipe_digest(Recipe()) == recipe_digest(Recipe(threads=1))
        True
    """
    experiment = {key: value for key, value in _plain(recipe).items() if key not in CIRCUMSTANCES}
    if recipe.teacher is None:  # runs from before there were teachers keep their names
        del experiment["teacher"]
    return hashlib.blake2b(json_text(experiment).encode(), digest_size=4).hexdigest()


def _fit(trainer: Trainer) -> None:
    """Run the epochs that are left."""
    recipe, clock = trainer.recipe, trainer.clock
    try:
        while trainer.position.epoch < recipe.epochs:
            before, images, cpu = clock.total, clock.num_images, time.process_time()
            at = trainer.position
            trainer.reporter.start_epoch(at.epoch, recipe.epochs, at.step, trainer.batches.num_batches)
            for _ in trainer.train_epoch():
                trainer.raise_if_signalled()
                if recipe.save_every_steps and at.global_step % recipe.save_every_steps == 0:
                    save(trainer)
            val = trainer.validate()
            line, is_best = trainer.end_epoch(val)
            seconds = clock.total - before
            rate = (clock.num_images - images) / seconds
            if trainer.processes.is_main:
                epoch = line["epoch"]
                trainer.run.append_json(trainer.run.metrics, line, num_before=epoch)
                timing = {"epoch": epoch, "seconds": seconds, "images_per_second": rate}
                timing["cpu_seconds"] = time.process_time() - cpu
                trainer.run.append_json(trainer.run.timing, timing, num_before=epoch)
            if recipe.tracker is not None:
                trainer.accelerator.log(_numbers(line), step=line["epoch"])
            save(trainer, is_best=is_best)
            trainer.reporter.end_epoch(line, seconds, rate)
            trainer.raise_if_signalled()
    except Interruption:
        save(trainer)
        raise


def _finish(trainer: Trainer, name: str) -> TrainingSummary:
    """Evaluate the test split with the last and the best weights, and write the summary."""
    recipe, run = trainer.recipe, trainer.run
    batches = trainer.pipeline(trainer.bundle.test)
    paths = {which: run.weights(which).resolve() for which in ("last", "best")}
    results = {}
    for path in dict.fromkeys(paths.values()):
        load_weights(trainer.evaluated_model, read_tensors(path), path)
        results[path] = trainer.evaluate(batches, "test")
    lines = read_json_lines(run.check(run.metrics))
    best = trainer.position.best_epoch
    summary: TrainingSummary = {
        "protocol": PROTOCOL,
        "version": __version__,
        "run": str(run.path),
        "recipe": name,
        "loss": recipe.loss.name,
        "seed": recipe.seed,
        "epochs": recipe.epochs,
        "steps": trainer.position.global_step,
        "best_epoch": best,
        "val": {"last": lines[-1]["val"], "best": None if best is None else lines[best]["val"]},
        "test": {which: results[path] for which, path in paths.items()},
        "images_per_second": trainer.clock.images_per_second(),
        "time_shares": trainer.clock.shares(),
        "seconds": trainer.clock.total,
    }
    if trainer.processes.is_main:
        run.write_json(run.summary, summary)
    trainer.processes.wait()
    return summary


def _check_output(run: RunDir) -> None:
    """Raise where a run cannot be, or where something else is: its files and ours would get mixed up."""
    check_folder(run.path)
    is_own = any((run.path / sign).exists() for sign in _SIGNS)
    other = None if is_own or not run.path.is_dir() else next(run.path.iterdir(), None)
    if other is not None:
        raise MaxsupError(
            f"run directory must be new, empty or that of a run; got {str(run.path)!r}, which holds {other.name!r} and "
            "no run. Choose another output."
        )


def _claim(run: RunDir, recipe: Recipe, resume: str) -> list[str]:
    """Write the recipe into a directory where nothing was trained yet, or see that it is the same experiment.

    Returns:
        What has changed around it since it ran last.
    """
    if resume == "never" and run.config.exists():
        raise MaxsupError(
            f"run directory must be new with resume=never; got {str(run.path)!r}, which holds a run. "
            "Choose another output, or leave resume out."
        )
    record, changes = environment(), []
    if run.newest() is not None:
        differing = differing_keys(run_recipe(run), recipe)
        if differing:
            key, (old, new) = next(iter(differing.items()))
            raise MaxsupError(
                f"a run must go on with its own recipe; got {key}={new!r} in place of {old!r} in {run.path}. "
                "Choose another output for another experiment."
            )
        if os.path.lexists(run.env):
            before = read_json(run.env)
            changes = changes_that_matter(before, record)
            record["earlier"] = [*before.pop("earlier", []), before]
    else:
        import yaml

        run.write_text(run.config, yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False))
    # What an earlier attempt stumbled over; this one has not.
    run.nonfinite.unlink(missing_ok=True)
    run.write_json(run.env, record)
    return changes


def _plain(recipe: Recipe) -> dict[str, Any]:
    return flat_items(recipe.model_dump(mode="json"))


def _numbers(line: dict[str, Any]) -> dict[str, float]:
    return {key: value for key, value in flat_items(line).items() if isinstance(value, int | float)}
