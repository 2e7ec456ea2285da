"""How the tables and figures of the paper are written down, and their translation into experiments and a table.

A study has two axes, rows and columns; a cell belongs to one entry of each. One of the two says which loss is trained;
either may say which number the cell shows. What a cell trains depends on the scale: ``full`` is the paper's setting,
``small`` asks the same question of real images in hours on two cores, ``tiny`` fills the same table from small data,
small models and few epochs, to check that everything works. :meth:`Study.at` is the one place that turns cells into
experiments; everything else knows these alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from maxsup.lab.core.config import LossConfig, Section
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.experiments.design import Choice, Design
from maxsup.lab.experiments.experiment import EMBEDDED, Analysis, Arm, DataChoice, Experiment, Name, Setting
from maxsup.lab.experiments.table import Cell, Layout, Line, Place, Table, look_up

ScaleName = Literal["full", "small", "tiny"]

SCALES: tuple[ScaleName, ...] = ("full", "small", "tiny")

Obstacle = Callable[[DataChoice], str]
"""Why data cannot be used; "" if it can."""

# The small scale is optional.
_NEEDED: tuple[ScaleName, ...] = ("full", "tiny")

# Sources of numbers that every run has without an analysis.
_BUILT_IN_SOURCES = ("test", "timing")


class Entry(Line):
    """A row or a column with what it trains; ``losses`` are options for the losses of the other axis, by their name."""

    loss: LossConfig | None = None
    losses: dict[str, dict[str, Any]] = Field(default_factory=dict)


class AnalysisPlan(Section):
    """An analysis of every run; ``data`` names the set to analyse on, if not the run's own."""

    name: Name
    what: str
    split: Literal["train", "val", "test"] = "test"
    options: dict[str, Any] = Field(default_factory=dict)
    data: str | None = None


class AnalysisScale(Section):
    """What a scale changes in an analysis; the first available choice of ``data`` is used."""

    options: dict[str, Any] = Field(default_factory=dict)
    data: tuple[DataChoice, ...] = ()


class EntryScale(Section):
    """What the cells of a row or column train at a scale, on top of what the scale says.

    ``loss`` replaces the entry's own. ``left_out`` says why these cells stay empty; published numbers are still shown.
    """

    recipe: str | None = None
    pool: Name | None = None
    overrides: tuple[str, ...] = ()
    data: tuple[DataChoice, ...] = ()
    loss: LossConfig | None = None
    left_out: str = ""


class Scale(Section):
    """Recipe, overrides and seeds of all runs; ``note`` is what a reader must know first about the numbers.

    The first available choice of ``data`` is used; without any, the recipe's own data. ``{seed}`` in an override stands
    for the seed of the run. Runs of a ``pool`` are shared with other studies. The strengths of the entries under
    ``tuned`` can be chosen on validation images.
    """

    note: str = ""
    recipe: str
    pool: Name | None = None
    tuned: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    data: tuple[DataChoice, ...] = ()
    rows: dict[str, EntryScale] = Field(default_factory=dict)
    columns: dict[str, EntryScale] = Field(default_factory=dict)
    analyses: dict[str, AnalysisScale] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_sound(self) -> Scale:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must differ; got {list(self.seeds)}. A seed counts once.")
        return self

    def entry(self, cell: Cell) -> tuple[EntryScale, EntryScale]:
        """What the scale says about the row and the column of a cell."""
        return self.rows.get(cell.row, EntryScale()), self.columns.get(cell.column, EntryScale())

    def left_out(self, cell: Cell) -> str:
        """Why a cell stays empty; "" where it does not."""
        row, column = self.entry(cell)
        return row.left_out or column.left_out

    def choices(self) -> list[tuple[DataChoice, ...]]:
        """Every list of choices of data."""
        entries = (*self.rows.values(), *self.columns.values())
        return [self.data, *(entry.data for entry in entries), *(each.data for each in self.analyses.values())]


@dataclass
class _Draft:
    """An experiment that is being put together from the cells of one comparison."""

    group: str
    other: str
    setting: Setting
    arms: dict[str, LossConfig] = field(default_factory=dict)


class Study(Layout[Entry]):
    """A table or figure of the paper: its question, its runs, its numbers."""

    name: Name
    label: str
    also: tuple[str, ...] = ()
    kind: Literal["table", "figure"] = "table"
    title: str
    question: str
    stated: tuple[str, ...]
    unstated: tuple[Choice, ...]
    errata: tuple[str, ...] = ()
    baseline: str
    weights: Literal["last", "best"] = "last"
    rows: tuple[Entry, ...] = Field(min_length=1)
    columns: tuple[Entry, ...] = Field(min_length=1)
    analyses: tuple[AnalysisPlan, ...] = ()
    scales: dict[ScaleName, Scale]

    def scale(self, name: ScaleName) -> Scale:
        """The scale of that name, if the study has it."""
        if name not in self.scales:
            raise ValueError(
                f"scale must be one that study {self.name} has; got {name!r}. Use {' or '.join(self.scales)}."
            )
        return self.scales[name]

    def at(
        self, scale: ScaleName = "tiny", *, obstacle: Obstacle | None = None, overrides: Iterable[str] = ()
    ) -> Design:
        """The experiments of a scale, and the table that shows their numbers.

        ``obstacle`` says why data cannot be used; by default only data that needs no file is used, and no analysis is
        left out. Overrides are for every recipe, after everything else.

        Example:
            >>> from maxsup.lab.experiments.study_files import load_study
            >>> design = load_study("tab_alpha").at("full")
            >>> [[arm.loss.label for arm in experiment.arms] for experiment in design.experiments]
            [['ce', 'ls alpha=0.1', 'maxsup alpha=0.1'], ['ce', 'ls alpha=0.1..0.2', 'maxsup alpha=0.1..0.2']]
        """
        plan, words = self.scale(scale), tuple(overrides)
        for word in words:
            if word.partition("=")[0].partition(".")[0] in ("loss", "seed"):
                raise ValueError(
                    f"overrides must leave losses and seeds to the study, whose table they are; got {word!r}. Copy the "
                    "study's file, change them there and run that."
                )
        find = obstacle or _not_embedded
        drafts, places = list[_Draft](), dict[Cell, tuple[_Draft, str]]()
        for cell in self.cells():
            if not plan.left_out(cell):
                places[cell] = self._find_draft(drafts, plan, cell, find, words)
        analyses, missing = self._analyses(scale, find, may_miss=obstacle is not None and scale == "small")
        experiments: list[Experiment] = []
        index: dict[int, int] = {}
        for draft in drafts:
            arms = tuple(Arm(name=name, loss=loss) for name, loss in draft.arms.items())
            made = Experiment(setting=draft.setting, arms=arms, seeds=plan.seeds, analyses=analyses)
            if made not in experiments:
                experiments.append(made)
            index[id(draft)] = experiments.index(made)
        sources: dict[str, dict[str, Place | str]] = {row.name: {} for row in self.rows}
        for cell in self.cells():
            found: Place | str = plan.left_out(cell)
            if cell in places:
                draft, arm = places[cell]
                found = Place(experiment=index[id(draft)], arm=arm)
            sources[cell.row][cell.column] = found
        keys = ("name", "title", "label", "question", "stated", "unstated", "errata", "weights")
        return Design(
            **{key: getattr(self, key) for key in keys},
            kind="study",
            scale=scale,
            note=plan.note,
            experiments=tuple(experiments),
            table=Table(
                baseline=self.baseline,
                metric=self.metric,
                rows=tuple(Line(**line.model_dump(exclude={"loss", "losses"})) for line in self.rows),
                columns=tuple(Line(**line.model_dump(exclude={"loss", "losses"})) for line in self.columns),
                published=self.published,
                sources=sources,
            ),
            missing=tuple(missing),
        )

    def _find_draft(
        self, drafts: list[_Draft], plan: Scale, cell: Cell, obstacle: Obstacle, words: Sequence[str]
    ) -> tuple[_Draft, str]:
        """The experiment and the arm that fill a cell; cells that are compared belong to one experiment."""
        by_row, by_column = plan.entry(cell)
        arm = self.row(cell.row) if self.compares_rows else self.column(cell.column)
        other = cell.column if self.compares_rows else cell.row
        data = first_usable(by_row.data or by_column.data or plan.data, obstacle)
        setting = Setting(
            recipe=by_row.recipe or by_column.recipe or plan.recipe,
            overrides=(*plan.overrides, *by_row.overrides, *by_column.overrides, *_data_words(data), *words),
            pool=by_row.pool or by_column.pool or plan.pool,
        )
        loss = by_row.loss or by_column.loss or self._loss(cell)
        for draft in drafts:
            is_same = (draft.group, draft.other, draft.setting) == (arm.group, other, setting)
            if is_same and draft.arms.setdefault(arm.arm_name, loss) == loss:
                return draft, arm.arm_name
        drafts.append(_Draft(arm.group, other, setting, {arm.arm_name: loss}))
        return drafts[-1], arm.arm_name

    def _loss(self, cell: Cell) -> LossConfig:
        row, column = self.row(cell.row), self.column(cell.column)
        own, other = (row, column) if row.loss is not None else (column, row)
        assert own.loss is not None, "the study's own check gives every cell a loss"
        return LossConfig(**{**own.loss.model_dump(), **other.losses.get(own.loss.name, {})})

    def _analyses(
        self, scale: ScaleName, obstacle: Obstacle, *, may_miss: bool
    ) -> tuple[tuple[Analysis, ...], list[str]]:
        """Every analysis with the options and data of a scale, except those that only left-out cells show.

        Those whose data is not here are named in sentences if they may be missing.
        """
        plan, shown, left_out = self.scale(scale), set[str](), set[str]()
        for cell in self.cells():
            (left_out if plan.left_out(cell) else shown).add(self.metric_of(cell).source)
        found, missing = list[Analysis](), list[str]()
        for each in self.analyses:
            if each.name in left_out - shown:
                continue
            change = plan.analyses.get(each.name, AnalysisScale())
            own = DataChoice(name=each.data) if each.data else None
            data = first_usable(change.data, obstacle) or own
            options = each.options | change.options
            needed = _data_of(data, options) if may_miss else None
            if needed is not None and (sentence := obstacle(needed)):
                missing.append(f"{each.name} is left out: {sentence}")
            else:
                found.append(Analysis(name=each.name, what=each.what, split=each.split, options=options, data=data))
        return tuple(found), missing

    @model_validator(mode="after")
    def _is_sound(self) -> Study:
        for kind, names in (
            ("row", [entry.name for entry in self.rows]),
            ("column", [entry.name for entry in self.columns]),
            ("analysis", [plan.name for plan in self.analyses]),
            ("published number", [f"{number.row}/{number.column}" for number in self.published_numbers()]),
        ):
            if repeated := [name for name, count in Counter(names).items() if count > 1]:
                raise ValueError(f"{kind} must have a name of its own; got {repeated[0]!r} twice. Rename one.")
        self._check_meaning()
        self._check_scales()
        for number in self.published_numbers():
            self.row(number.row), self.column(number.column)
        return self

    def _check_meaning(self) -> None:
        sources = dict.fromkeys([*_BUILT_IN_SOURCES, *(plan.name for plan in self.analyses)])
        for cell in self.cells():
            row, column = self.row(cell.row), self.column(cell.column)
            if (row.loss is None) == (column.loss is None):
                raise ValueError(
                    f"loss must be given by either the row or the column; got {cell} with "
                    f"{'both' if row.loss else 'none'}. Correct one of them."
                )
            if row.metric is not None and column.metric is not None:
                raise ValueError(f"metric must be given by either the row or the column; got both in {cell}. Drop one.")
            look_up(self.metric_of(cell).source, sources, "source")
        groups: dict[str, list[str]] = {}
        for entry in self.arms:
            groups.setdefault(entry.group, []).append(entry.arm_name)
        for group, arms in groups.items():
            if arms.count(self.baseline) != 1:
                raise ValueError(
                    f"baseline must be in every group once; got {arms.count(self.baseline)} of {self.baseline!r} in "
                    f"{group or 'the table'} with {', '.join(arms)}. Correct baseline, arm or group."
                )

    def _check_scales(self) -> None:
        if missing := [name for name in _NEEDED if name not in self.scales]:
            raise ValueError(f"scales must be {' and '.join(_NEEDED)}; got no {missing[0]}. Add it.")
        for kind, scale in self.scales.items():
            if kind != "full" and not scale.note:
                raise ValueError(f"note of the {kind} scale must say what was reduced; got none. Write it.")
        for choices in self.scales["tiny"].choices():
            if choices and not choices[-1].is_embedded:
                raise ValueError(
                    f"the last choice of data at the tiny scale must always be there; got {choices[-1].name!r}. End "
                    f"the list with one of {', '.join(EMBEDDED)}."
                )
        for scale in self.scales.values():
            for part, named, names in (
                ("row", scale.rows, [entry.name for entry in self.rows]),
                ("column", scale.columns, [entry.name for entry in self.columns]),
                ("analysis", scale.analyses, [plan.name for plan in self.analyses]),
                ("tuned row", scale.tuned, [entry.name for entry in self.rows if entry.loss is not None]),
            ):
                for name in named:
                    look_up(name, dict.fromkeys(names), part)


def first_usable(choices: Sequence[DataChoice], obstacle: Obstacle) -> DataChoice | None:
    """The first choice that can be used, else the first of all; None without any choice."""
    usable = (choice for choice in choices if choice.is_embedded or not obstacle(choice))
    return next(usable, choices[0] if choices else None)


def _not_embedded(choice: DataChoice) -> str:
    return "" if choice.is_embedded else f"{choice.name} needs files"


def _data_words(data: DataChoice | None) -> list[str]:
    """A choice of data as overrides of a recipe."""
    if data is None:
        return []
    values = {"options": data.options, "image_size": data.image_size}
    return [*data.overrides, f"data.name={data.name}", *(f"data.{key}={json.dumps(values[key])}" for key in values)]


def _data_of(data: DataChoice | None, options: Mapping[str, Any]) -> DataChoice | None:
    """The data that an analysis needs besides the run's: its own, or that of the recipe it fine-tunes with."""
    if data is None and "recipe" in options:
        own = load_recipe(options["recipe"], options.get("overrides", ())).data
        return DataChoice(name=own.name, options=own.options)
    return data
