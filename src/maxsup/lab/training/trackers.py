"""Trackers: one page for a run however often it stops, and training that goes on when its tracker cannot be reached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from maxsup.core.errors import first_line
from maxsup.lab.core.config import Recipe, flat_items, recipe_digest
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.training.loop import Observer, Trainer
from maxsup.lab.training.progress import EpochMeter

PROJECT = "maxsup"
_KEPT = "tracker.json"

# Trackers that choose the id of a page themselves, and where it is found; it is kept in the run folder.
_OWN_IDS = {"mlflow": "info.run_id", "aim": "hash", "clearml": "id"}


@dataclass(frozen=True)
class Page:
    """What a run is called: by its loss and seed, among the runs of ``group``, under an ``id`` of 32 digits."""

    name: str
    group: str
    id: str

    @classmethod
    def of(cls, recipe: Recipe, group: str) -> Page:
        """The page of a recipe in a comparison; the same one whenever it is asked for."""
        digest = hashlib.blake2b(f"{group} {recipe_digest(recipe)}".encode(), digest_size=16).hexdigest()
        return cls(f"{recipe.loss.label} s{recipe.seed}", group, digest)


def page_options(tracker: str, page: Page, folder: Path, known: str | None = None) -> dict[str, Any]:
    """What Accelerate hands to a tracker, in its own words; ``known`` is the id that it chose earlier.

    Example:
        >>> page_options("wandb", Page("maxsup s0", "compare", "4f"), Path("run"))
        {'name': 'maxsup s0', 'group': 'compare', 'id': '4f', 'resume': 'allow', 'dir': 'run'}
    """
    named = {"name": page.name, "group": page.group}
    match tracker:
        case "wandb":
            return {**named, "id": page.id, "resume": "allow", "dir": str(folder)}
        case "trackio":  # knows a run by its name alone
            return {**named, "name": f"{page.name} {page.id[:8]}", "resume": "allow"}
        case "swanlab":  # ids of 21 characters
            return {**named, "id": page.id[:21], "resume": "allow"}
        case "comet_ml":
            config = import_module("comet_ml").ExperimentConfig(name=page.name, tags=[page.group])
            return {"experiment_key": page.id, "mode": "get_or_create", "experiment_config": config}
        case "dvclive":
            return {"dir": str(folder / "dvclive"), "resume": True, "exp_message": f"{page.group}: {page.name}"}
        case "mlflow":
            return {"run_name": page.name, "tags": {"group": page.group, "id": page.id}, "run_id": known}
        case "aim":
            return {"experiment": page.group, "run_hash": known}
        case "clearml":
            project = f"{PROJECT}/{page.group}"
            return {"task_name": page.name, "project_name": project, "continue_last_task": known or False}
    return {}  # tensorboard writes into the run folder, where everything it finds is one page


class Tracker(Observer):
    """Gives the numbers of every epoch, and with ``log_every`` of every so many steps, to the tracker of the recipe."""

    def __init__(self, run: RunDir, say: Callable[[str], None]) -> None:
        self._run, self._say = run, say
        self._is_told = False
        self._before = EpochMeter()

    def start(self, accelerator: Accelerator, recipe: Recipe, group: str) -> Callable[[], None]:
        """Open the page of the run; returns the function that closes it."""
        assert recipe.tracker is not None
        settings = flat_items(recipe.model_dump(mode="json")).items()
        config = {key: value if isinstance(value, int | float | str) else str(value) for key, value in settings}
        page, kept = Page.of(recipe, group), self._run.path / _KEPT

        def init() -> None:
            known = read_json(kept).get(str(recipe.tracker)) if kept.is_file() else None
            options = page_options(str(recipe.tracker), page, self._run.path, known)
            accelerator.init_trackers(PROJECT, config=config, init_kwargs={recipe.tracker: options})

        if not self._done(init):
            accelerator.trackers = []
        elif recipe.tracker in _OWN_IDS and accelerator.is_main_process:
            found: Any = accelerator.get_tracker(recipe.tracker, unwrap=True)
            for name in _OWN_IDS[recipe.tracker].split("."):
                found = getattr(found, name, None)
            if found is not None:
                self._run.write_json(kept, {recipe.tracker: str(found)})
        return lambda: self._close(accelerator)

    def on_step(self, trainer: Trainer) -> None:
        """Log the means since the last time, if the recipe wants curves by step."""
        every, at = trainer.recipe.log_every, trainer.position
        if not every or at.global_step % every:
            return
        now = EpochMeter(**asdict(trainer.meter))
        before = self._before if now.num_steps >= self._before.num_steps else EpochMeter()  # another epoch
        if now.num_steps == before.num_steps:  # the numbers of a step come one step late
            return
        names = [field.name for field in fields(EpochMeter)]
        since = EpochMeter(**{name: getattr(now, name) - getattr(before, name) for name in names})
        self._before = now
        numbers = {f"step.{name}": value for name, value in since.means().items()}
        self._done(lambda: trainer.accelerator.log(numbers, step=at.global_step))

    def on_epoch_end(self, trainer: Trainer, line: dict[str, Any]) -> None:
        """Log all numbers of the line, at its epoch, or at its step where there are curves by step."""
        numbers = {key: value for key, value in flat_items(line).items() if isinstance(value, int | float)}
        step = line["step" if trainer.recipe.log_every else "epoch"]
        self._before = EpochMeter()
        self._done(lambda: trainer.accelerator.log(numbers, step=step))

    def _close(self, accelerator: Accelerator) -> None:
        for tracker in accelerator.trackers:
            with suppress(Exception):  # what it has to say was said
                tracker.finish()
        accelerator.trackers = []
        accelerator.end_training()

    def _done(self, act: Callable[[], None]) -> bool:
        """Whether something could be done; if not, training goes on and says so the first time."""
        try:
            act()
        except Exception as error:  # whatever a service and its client come up with
            if not self._is_told:
                self._is_told = True
                self._say(
                    f"the tracker cannot be reached ({type(error).__name__}: {first_line(error)}); training goes on, "
                    "and metrics.jsonl has all numbers"
                )
            return False
        return True
