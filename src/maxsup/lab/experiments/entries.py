"""What a study is made of: entries of its axes, metrics, analyses, scales, published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from maxsup.lab.core.config import LossConfig, Section
from maxsup.metrics.facts import Direction, find_fact

Name = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]

EMBEDDED = ("digits", "synthetic", "synthetic_masks")
"""Data sets that come with the package's dependencies and are always available."""


class Cell(NamedTuple):
    """A place in the table, by the names of its row and column."""

    row: str
    column: str


class Metric(Section):
    """Which number of a run a cell shows, and how it is printed.

    ``source`` is ``test`` (the test split in ``summary.json``), ``timing`` (mean over epochs in ``timing.jsonl``), or
    the name of an analysis of the study. The printed number is ``factor`` times the stored one. Differences below
    ``margin``, in printed units, do not matter; if it is given, equivalence is tested. Defaults for a known number come
    from :mod:`maxsup.metrics.facts`.
    """

    source: str = "test"
    name: str = "accuracy"
    title: str = ""
    factor: float = Field(default=1.0, gt=0.0)
    digits: int = Field(default=2, ge=0, le=8)
    unit: str = ""
    direction: Direction = "none"
    form: Literal["number", "duration"] = "number"
    margin: float | None = Field(default=None, gt=0.0)

    @model_validator(mode="before")
    @classmethod
    def _with_facts(cls, values: Any) -> Any:
        name = values.get("name", "accuracy") if isinstance(values, Mapping) else None
        known = find_fact(name) if isinstance(name, str) else None
        if known is None:
            return values
        printed = {"title": known.title, "factor": known.factor, "unit": known.printed_unit, "digits": known.digits}
        if "factor" in values and values["factor"] != known.factor:
            printed["unit"] = known.unit
        return {**printed, "direction": known.direction, **values}

    def text(self, printed: float, std: float | None = None) -> str:
        """A number in printed units as the table shows it: ``76.41 ± 0.10``, or ``3 min 51 s`` for a duration."""
        if self.form == "duration":
            minutes, seconds = divmod(round(printed), 60)
            length = f"{minutes} min {seconds} s" if minutes else f"{printed:.{self.digits}f} s"
            return length if std is None else f"{length} ± {std:.{self.digits}f} s"
        spread = "" if std is None else f" ± {std:.{self.digits}f}"
        return f"{printed:.{self.digits}f}{spread}"


class Entry(Section):
    """A row or a column: its name, and what it means for its cells.

    ``arm`` is the name in comparisons (``name`` by default); entries of one ``group`` are compared with the entry whose
    arm is the study's baseline. ``losses`` are options for the losses of the other axis, by the loss's name.
    """

    name: Name
    title: str
    group: str = ""
    arm: Name | None = None
    loss: LossConfig | None = None
    losses: dict[str, dict[str, Any]] = Field(default_factory=dict)
    metric: Metric | None = None

    @property
    def compared_as(self) -> str:
        """Name in a comparison."""
        return self.arm or self.name


class DataChoice(Section):
    """Data to train or to analyse on; ``options`` and ``image_size`` are those of a recipe's ``data``.

    ``overrides`` apply to runs that train on this choice, for instance fewer epochs where there are more images.
    """

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    image_size: int | None = Field(default=None, gt=0)
    overrides: tuple[str, ...] = ()

    @property
    def is_embedded(self) -> bool:
        """Whether it needs no file."""
        return self.name in EMBEDDED


class AnalysisPlan(Section):
    """An analysis of every run: ``what`` is its registered name, ``name`` what metrics call its result.

    ``data`` is the set to analyse on, if not the run's own: the target of a probe, corrupted images.
    """

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

    def choices(self) -> list[tuple[DataChoice, ...]]:
        """Every list of choices of data."""
        entries = (*self.rows.values(), *self.columns.values())
        return [self.data, *(entry.data for entry in entries), *(each.data for each in self.analyses.values())]


class PublishedValue(Section):
    """A printed mean, perhaps with its standard deviation; ``76.41±0.10`` in YAML."""

    mean: float
    std: float | None = Field(default=None, ge=0.0)

    @model_validator(mode="before")
    @classmethod
    def _parsed(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"mean": value}
        if isinstance(value, str):
            mean, sign, std = value.partition("±")
            try:
                return {"mean": float(mean), "std": float(std) if sign else None}
            except ValueError:
                raise ValueError(f"published value must be a number or mean±std; got {value!r}. Correct it.") from None
        return value


class PublishedTable(Section):
    """Numbers as the paper prints them, row by row; ``label`` is the table's label in the paper's source."""

    label: str = Field(pattern=r"^[a-z]+:[A-Za-z0-9:_-]+$")
    columns: tuple[str, ...]
    rows: dict[str, tuple[PublishedValue, ...]]

    @model_validator(mode="after")
    def _is_complete(self) -> PublishedTable:
        for name, values in self.rows.items():
            if len(values) != len(self.columns):
                expected = f"a number for each of {len(self.columns)} columns"
                raise ValueError(f"published row must have {expected}; got {len(values)} in {name!r}. Correct it.")
        return self


class PublishedNumber(NamedTuple):
    """One printed number and where it stands."""

    label: str
    row: str
    column: str
    mean: float
    std: float | None


class Unstated(Section):
    """Something the paper leaves open, and what is done here."""

    what: str
    choice: str
