"""A table: how the numbers of experiments are laid out, which are compared, and what was published for them.

A table has two axes, rows and columns; a cell belongs to a line of each. One axis holds the arms, which are compared
with the baseline; either may say which number a cell shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field, model_validator

from maxsup.core.errors import hint
from maxsup.lab.core.config import Section
from maxsup.lab.experiments.experiment import Name
from maxsup.metrics.facts import Direction, find_fact

T = TypeVar("T")


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


class Line(Section):
    """A row or a column: its name, and what it means for its cells.

    ``arm`` is the name in comparisons (``name`` by default); lines of one ``group`` are compared with the line whose
    arm is the baseline.
    """

    name: Name
    title: str
    group: str = ""
    arm: Name | None = None
    metric: Metric | None = None

    @property
    def arm_name(self) -> str:
        """Name in a comparison."""
        return self.arm or self.name


class Place(Section):
    """Where the number of a cell comes from: an arm of the experiment with that index."""

    experiment: int
    arm: Name


@dataclass(frozen=True)
class ComparedCells:
    """Cells whose values are compared with the baseline's, seed by seed: one table of statistics."""

    group: str
    other: str
    cells: dict[str, Cell]


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


LineKind = TypeVar("LineKind", bound=Line)


class Layout(Section, Generic[LineKind]):
    """Rows and columns, and which of them are compared."""

    baseline: str = ""
    metric: Metric = Metric(factor=100.0, unit="%", margin=0.3)
    rows: tuple[LineKind, ...] = ()
    columns: tuple[LineKind, ...] = ()
    published: tuple[PublishedTable, ...] = ()

    def row(self, name: str) -> LineKind:
        """The row of that name."""
        return look_up(name, {line.name: line for line in self.rows}, "row")

    def column(self, name: str) -> LineKind:
        """The column of that name."""
        return look_up(name, {line.name: line for line in self.columns}, "column")

    def cells(self) -> Iterator[Cell]:
        """All cells of the table, row by row."""
        return (Cell(row.name, column.name) for row in self.rows for column in self.columns)

    def metric_of(self, cell: Cell) -> Metric:
        """The number that a cell shows."""
        return self.row(cell.row).metric or self.column(cell.column).metric or self.metric

    def published_numbers(self) -> list[PublishedNumber]:
        """Every printed number with its label and place; durations in seconds, others in the units of the table."""
        return [
            PublishedNumber(table.label, row, column, value.mean, value.std)
            for table in self.published
            for row, values in table.rows.items()
            for column, value in zip(table.columns, values, strict=True)
        ]

    @property
    def compares_rows(self) -> bool:
        """Whether rows are compared with the baseline, rather than columns."""
        return self.baseline in {line.arm_name for line in self.rows}

    @property
    def arms(self) -> tuple[LineKind, ...]:
        """The lines that are compared."""
        return self.rows if self.compares_rows else self.columns

    @property
    def others(self) -> tuple[LineKind, ...]:
        """The lines of the other axis."""
        return self.columns if self.compares_rows else self.rows

    def cell(self, arm: Line, other: Line) -> Cell:
        """The cell of an arm and a line of the other axis."""
        return Cell(arm.name, other.name) if self.compares_rows else Cell(other.name, arm.name)

    def arm(self, cell: Cell) -> str:
        """What a cell is compared as."""
        return (self.row(cell.row) if self.compares_rows else self.column(cell.column)).arm_name


class Table(Layout[Line]):
    """A layout whose cells are filled by experiments; ``cells`` that stay empty have a reason in place of a source."""

    sources: dict[str, dict[str, Place | str]] = Field(default_factory=dict)

    def place(self, cell: Cell) -> Place | None:
        """Where the number of a cell comes from; None if the cell stays empty."""
        found = self.sources[cell.row][cell.column]
        return None if isinstance(found, str) else found

    def left_out(self, cell: Cell) -> str:
        """Why a cell stays empty; "" where it does not."""
        found = self.sources[cell.row][cell.column]
        return found if isinstance(found, str) else ""

    def comparisons(self) -> list[ComparedCells]:
        """What is compared with what: the arms of each group, for every line of the other axis."""
        found = []
        for group in dict.fromkeys(arm.group for arm in self.arms):
            for other in self.others:
                cells = {arm.arm_name: self.cell(arm, other) for arm in self.arms if arm.group == group}
                filled = {arm: cell for arm, cell in cells.items() if not self.left_out(cell)}
                if len(filled) > 1 and self.baseline in filled:
                    found.append(ComparedCells(group, other.name, filled))
        return found


def look_up(name: str, found: Mapping[str, T], kind: str) -> T:
    """The entry of that name; a mistake is an error with the nearest one."""
    if name not in found:
        raise ValueError(f"{kind} must be one that the study has; got {name!r}. {hint(name, found)}")
    return found[name]
