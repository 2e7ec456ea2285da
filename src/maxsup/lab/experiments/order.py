"""What is to be carried out: a comparison or a study, planned from the arguments of a call. Nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from maxsup.core.checks import check_choice
from maxsup.core.errors import DataError
from maxsup.lab.core.config import differing_keys
from maxsup.lab.core.recipes import override_words
from maxsup.lab.data import PythonData, data_name
from maxsup.lab.experiments.comparison import LossChoice, comparison, recipe_for
from maxsup.lab.experiments.design import Design
from maxsup.lab.experiments.execution.study_folder import StudyFolder, plan_folder
from maxsup.lab.experiments.experiment import read_recipe
from maxsup.lab.experiments.local_data import obstacle_in
from maxsup.lab.experiments.study_files import load_study
from maxsup.lab.experiments.study_format import SCALES, ScaleName, Study
from maxsup.lab.experiments.tuning import Strengths, add_tuned_rows, trials_of
from maxsup.lab.models import Factory, model_name
from maxsup.lab.training.preflight.defaults import settle_recipe

Overrides = Iterable[str] | Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """A design to carry out, and how its strengths are tuned first, if they are."""

    design: Design
    output: Path
    data_root: Path | None = None
    notes: tuple[str, ...] = ()  # sentences about what the data decided
    tuned: Callable[[Strengths], Design] | None = None  # the design with the strengths that trials chose
    tuned_rows: Collection[str] | None = None  # None: all that have a strength
    trials_output: Path = Path()

    @cached_property
    def folder(self) -> StudyFolder:
        """The design laid out before tuning; nothing is written."""
        return plan_folder(self.design, self.output, data_root=self.data_root)

    @cached_property
    def trials(self) -> StudyFolder | None:
        """The runs that choose strengths; None if nothing is tuned."""
        if self.tuned is None:
            return None
        return plan_folder(trials_of(self.design, self.tuned_rows), self.trials_output, data_root=self.data_root)

    def folders(self) -> list[StudyFolder]:
        """Everything that is planned before tuning."""
        return [folder for folder in (self.trials, self.folder) if folder is not None]

    def folder_with(self, strengths: Strengths) -> StudyFolder:
        """The design laid out with the strengths that trials chose."""
        design = self.design if self.tuned is None else self.tuned(strengths)
        return plan_folder(design, self.output, data_root=self.data_root)


def comparison_order(
    data: str | PythonData = "synthetic",
    model: str | Factory | None = None,
    losses: Sequence[LossChoice] | None = None,
    seeds: int | Sequence[int] = 6,
    baseline: str | None = None,
    recipe: str | Path | None = None,
    overrides: Overrides = (),
    tune: str | None = None,
    output: str | Path = "comparison",
    data_root: str | Path | None = None,
    is_elsewhere: bool = False,
) -> Order:
    """What :func:`compare` will do; ``is_elsewhere`` says that runs are made on machines that may have other data."""
    if tune is not None:
        check_choice("tune", tune, ("alpha",))
    output, root = Path(output), None if data_root is None else Path(data_root)
    name = data_name(data, output)
    base = recipe_for(name) if recipe is None else str(recipe)
    words = [*([f"model.name={model_name(model)}"] if model is not None else []), *override_words(overrides)]
    if recipe is None or name != "synthetic":
        words.insert(0, f"data.name={name}")
    notes: Sequence[str] = ()
    try:
        words, notes = _settle(base, words, root)
    except DataError:
        if not is_elsewhere:
            raise  # other machines may have the data; there each run settles it

    def design(strengths: Strengths | None = None) -> Design:
        return comparison(base, losses, seeds=seeds, baseline=baseline, overrides=words, strengths=strengths)

    tuned, trials = None if tune is None else design, output / "tuning"
    return Order(design(), output, root, tuple(notes), tuned, trials_output=trials)


def study_order(
    name: str | Study,
    scale: str = "tiny",
    *,
    output: str | Path | None = None,
    overrides: Overrides = (),
    tune: bool = False,
    data_root: str | Path | None = None,
) -> Order:
    """What :func:`run_study` will do; trials are beside the study because studies share them."""
    check_choice("scale", scale, SCALES)
    size = cast("ScaleName", scale)
    study = name if isinstance(name, Study) else load_study(name)
    path = Path("studies") / f"{study.name}-{scale}" if output is None else Path(output)
    rows, root = study.scale(size).tuned if tune else (), None if data_root is None else Path(data_root)
    words = override_words(overrides)

    def design(strengths: Strengths | None = None) -> Design:
        found = study if strengths is None else add_tuned_rows(study, size, strengths)
        return found.at(size, obstacle=obstacle_in(root), overrides=words)

    trials = path.with_name(f"{path.name}-tuning")
    return Order(design(), path, root, tuned=design if rows else None, tuned_rows=rows, trials_output=trials)


def _settle(recipe: str, overrides: Sequence[str], data_root: Path | None = None) -> tuple[list[str], list[str]]:
    """Overrides that also state what the recipe leaves to its data, and sentences about what was chosen.

    All runs of a comparison then have it from their recipe, and a later comparison with the same words gets the same.
    """
    base = read_recipe(recipe, tuple(overrides))
    base = base.changed(data={"root": str(data_root.resolve())}) if data_root else base
    settled, sentences = settle_recipe(base)
    chosen = {key: new for key, (_, new) in differing_keys(base, settled).items()}
    return [*overrides, *(f"{key}={json.dumps(value)}" for key, value in chosen.items())], sentences
