"""One run from a recipe to its directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import torch

from maxsup import __version__
from maxsup.core.errors import DataError, MaxsupError
from maxsup.lab.core.config import AUTO, Recipe, differing_keys, parse_recipe, recipe_digest
from maxsup.lab.core.display import create_display
from maxsup.lab.core.files.reading import read_json, read_json_lines
from maxsup.lab.core.files.records import PROTOCOL
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.files.storage import check_folder
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.core.recipes import load_recipe, override_words, recipe_path, run_recipe, write_recipe
from maxsup.lab.core.repro import changes_that_matter, environment, set_deterministic
from maxsup.lab.data import PythonData, data_name
from maxsup.lab.models import Factory, model_name
from maxsup.lab.training.builders import build_data, build_loss, build_model, loss_config
from maxsup.lab.training.loop import Trainer, fit
from maxsup.lab.training.observers import Progress, RunFiles, StopSignals
from maxsup.lab.training.preflight.defaults import settle_from_run, settle_recipe
from maxsup.lab.training.preflight.memory import settle_accumulation
from maxsup.lab.training.preprocessing import resolve_preprocessing
from maxsup.lab.training.processes import create_accelerator, lost_processes_named
from maxsup.lab.training.progress import Reporter
from maxsup.lab.training.state.checkpoint import load_weights, read_tensors
from maxsup.lab.training.state.snapshot import restore
from maxsup.losses import RegularizedLoss

if TYPE_CHECKING:
    from maxsup.lab.training.trackers import Tracker

# A folder with one of these is a run, however early an attempt ended: the lock comes first, a study's job before that.
_SIGNS = (".lock", "job.json", "checkpoints")


class TrainingSummary(TypedDict):
    """``summary.json`` of a run; ``val`` and ``test`` hold the numbers of the ``last`` and the ``best`` weights."""

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
    """Train a recipe in a run directory and return the content of ``summary.json``.

    After an interruption the same call resumes from the last checkpoint, with the same result as an uninterrupted run;
    after the end it returns the summary. Settings that the recipe leaves to the data are chosen first and saved with
    the run.

    Args:
        recipe: A recipe, a name from ``maxsup ls recipes``, or a ``.yaml`` file.
        output: The run directory; ``runs/`` and a name made from the recipe by default.
        overrides: ``key.sub=value`` each, or a mapping of such keys.
        data: Replaces the recipe's: a name, or data for :func:`maxsup.lab.data.data_name`, saved beside the run.
        model: Replaces the recipe's: a name, or a function for :func:`maxsup.lab.models.model_name`.
        loss: Replaces the recipe's: a name, a mapping with ``name`` and options, or a loss.
        name: The recipe's name in the summary; its own name by default.
        resume: ``auto`` continues an existing run; ``never`` raises if there is one.
        reporter: Shows progress; by default chosen for the terminal.
    """
    if name is None:
        name = "recipe" if isinstance(recipe, Recipe) else recipe_path(str(recipe)).stem
    if resume not in ("auto", "never"):
        raise ValueError(f"resume must be 'auto' or 'never'; got {resume!r}. Use auto to go on after an interruption.")
    recipe = _asked_recipe(recipe, output, overrides, data, model, loss)
    recipe, choices = _settled_recipe(recipe, output)
    run = RunDir(output or default_output(recipe, name))
    recipe = resolve_preprocessing(recipe)
    _check_output(run)
    if recipe.accumulation == AUTO and run.config.is_file():
        recipe = recipe.changed(accumulation=run_recipe(run).accumulation)  # what fitted when the run began
    criterion = build_loss(recipe.loss)
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    set_deterministic(recipe.deterministic)
    with ExitStack() as stack:
        guard = stack.enter_context(SignalGuard())
        accelerator = create_accelerator(recipe, run.path)
        stack.enter_context(lost_processes_named(accelerator))
        if accelerator.is_main_process:
            _check_existing(run, recipe, resume)  # so that a run that is there is refused before its data is read
        accelerator.wait_for_everyone()
        if run.summary.exists():
            return cast("TrainingSummary", read_json(run.summary))
        reporter = stack.enter_context(reporter or Reporter(create_display(accelerator.is_main_process)))
        for sentence in choices:
            reporter.say(sentence)
        with accelerator.main_process_first():
            bundle = build_data(recipe)
        trackers = _trackers(recipe, run, reporter)
        observers = [Progress(reporter), RunFiles(run), *trackers, StopSignals(guard, run)]
        network = build_model(recipe, bundle)
        trainer = Trainer(
            recipe, bundle, network, criterion, accelerator=accelerator, observers=observers, bad_files=run.bad_files
        )
        settle_accumulation(trainer)
        recipe = trainer.recipe
        # Only now, so that training that cannot begin leaves no folder.
        changes = _claim(run, recipe, resume, stack) if accelerator.is_main_process else []
        accelerator.wait_for_everyone()
        for tracker in trackers:
            stack.callback(tracker.start(accelerator, recipe, name))
        if restore(trainer, run):
            at = trainer.position
            reporter.say(f"going on in {run.path} at epoch {at.epoch + 1}, step {at.step}")
            if changes:
                reporter.say(f"the last bits may differ from an uninterrupted run: {'; '.join(changes)}")
        guard.is_deferring = True
        fit(trainer)
        return _finish(trainer, run, name)


def _trackers(recipe: Recipe, run: RunDir, reporter: Reporter) -> list[Tracker]:
    """Return what logs to the recipe's tracker, if it has one; most have none, and load nothing for it."""
    if recipe.tracker is None:
        return []
    from maxsup.lab.training.trackers import Tracker

    return [Tracker(run, reporter.say)]


def default_output(recipe: Recipe, name: str) -> Path:
    """Return the directory under ``runs/`` that belongs to this experiment alone."""
    return Path("runs") / f"{name}-{recipe.loss.name}-s{recipe.seed}-{recipe_digest(recipe)}"


def _asked_recipe(
    recipe: Recipe | str | Path,
    output: str | Path | None,
    overrides: Iterable[str] | Mapping[str, Any],
    data: str | PythonData | None,
    model: str | Factory | None,
    loss: str | RegularizedLoss | Mapping[str, Any] | None,
) -> Recipe:
    """Return the checked recipe that the arguments of :func:`train` describe."""
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
        recipe = recipe.changed(loss=loss_config({"name": loss} if isinstance(loss, str) else loss))
    return recipe


def _settled_recipe(recipe: Recipe, output: str | Path | None) -> tuple[Recipe, list[str]]:
    """Return the recipe with the settings that it leaves to the data, and sentences about what was chosen."""
    try:
        return settle_recipe(recipe)
    except DataError:
        # An existing run answers without its data; its own recipe has the settings that the data decided.
        if output is None or not RunDir(output).config.is_file():
            raise
        return settle_from_run(recipe, RunDir(output)), []


def _finish(trainer: Trainer, run: RunDir, name: str) -> TrainingSummary:
    """Evaluate the test split with the last and the best weights, and write the summary."""
    recipe = trainer.recipe
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
    if trainer.accelerator.is_main_process:
        run.write_json(run.summary, summary)
    trainer.accelerator.wait_for_everyone()
    return summary


def _check_output(run: RunDir) -> None:
    """Raise if the directory cannot hold a run, or holds other files, which would get mixed up with those of a run."""
    check_folder(run.path)
    is_own = any((run.path / sign).exists() for sign in _SIGNS)
    if run.path.is_dir() and not is_own and (other := next(run.path.iterdir(), None)) is not None:
        raise MaxsupError(
            f"run directory must be new, empty or that of a run; got {str(run.path)!r}, which holds {other.name!r} and "
            "no run. Choose another output.",
            code="not-a-run-folder",
        )


def _check_existing(run: RunDir, recipe: Recipe, resume: str) -> None:
    """Raise if a run is in the directory that must not go on, or must not go on with this recipe."""
    if resume == "never" and run.config.exists():
        raise MaxsupError(
            f"run directory must be new with resume=never; got {str(run.path)!r}, which holds a run. "
            "Choose another output, or leave resume out.",
            code="run-exists",
        )
    if run.newest() is not None:
        differing = differing_keys(run_recipe(run), recipe)
        if differing:
            key, (old, new) = next(iter(differing.items()))
            raise MaxsupError(
                f"a run must go on with its own recipe; got {key}={new!r} in place of {old!r} in {run.path}. "
                "Choose another output for another experiment.",
                code="recipe-changed",
            )


def _claim(run: RunDir, recipe: Recipe, resume: str, stack: ExitStack) -> list[str]:
    """Lock the directory until ``stack`` ends, write the recipe to a new one, and return the changes of environment.

    The changes are those since the run was last active.
    """
    stack.callback(run.lock())
    _check_existing(run, recipe, resume)  # another process may have begun here meanwhile
    record, changes = environment(), []
    if run.newest() is not None:
        if os.path.lexists(run.env):
            before = read_json(run.env)
            changes = changes_that_matter(before, record)
            record["earlier"] = [*before.pop("earlier", []), before]
    else:
        write_recipe(run, recipe)
    # An earlier attempt wrote it; this one has seen nothing wrong yet.
    run.nonfinite.unlink(missing_ok=True)
    run.write_json(run.env, record)
    return changes
