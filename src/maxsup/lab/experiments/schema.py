"""Studies as typed, frozen values: which runs fill which cells of a table, and what was published for them.

A study has two axes, rows and columns; a cell belongs to one entry of each. One of the two says which loss is trained;
either may say which number the cell shows. What a cell trains depends on the scale: ``full`` is the paper's setting,
``small`` asks the same question of real images in hours on two cores, ``tiny`` fills the same table from small data,
small models and few epochs, to check that everything works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal, TypeVar

from pydantic import Field, model_validator

from maxsup.core.errors import hint
from maxsup.lab.core.config import Section
from maxsup.lab.experiments.entries import (
    EMBEDDED,
    AnalysisPlan,
    Cell,
    Entry,
    Metric,
    Name,
    PublishedNumber,
    PublishedTable,
    Scale,
    Unstated,
)

T = TypeVar("T")
ScaleName = Literal["full", "small", "tiny"]

SCALES: tuple[ScaleName, ...] = ("full", "small", "tiny")

# The small scale is optional.
_NEEDED: tuple[ScaleName, ...] = ("full", "tiny")

# Sources of numbers that every run has without an analysis.
_BUILT_IN_SOURCES = ("test", "timing")


class Study(Section):
    """A table or figure of the paper: its question, its runs, its numbers."""

    name: Name
    label: str
    also: tuple[str, ...] = ()
    kind: Literal["table", "figure"] = "table"
    title: str
    question: str
    stated: tuple[str, ...]
    unstated: tuple[Unstated, ...]
    errata: tuple[str, ...] = ()
    baseline: str
    metric: Metric = Metric(factor=100.0, unit="%", margin=0.3)
    weights: Literal["last", "best"] = "last"
    rows: tuple[Entry, ...] = Field(min_length=1)
    columns: tuple[Entry, ...] = Field(min_length=1)
    analyses: tuple[AnalysisPlan, ...] = ()
    published: tuple[PublishedTable, ...] = ()
    scales: dict[ScaleName, Scale]

    def row(self, name: str) -> Entry:
        """The row of that name."""
        return _known(name, {entry.name: entry for entry in self.rows}, "row")

    def column(self, name: str) -> Entry:
        """The column of that name."""
        return _known(name, {entry.name: entry for entry in self.columns}, "column")

    def cells(self) -> Iterator[Cell]:
        """All cells of the table, row by row."""
        return (Cell(row.name, column.name) for row in self.rows for column in self.columns)

    def metric_of(self, cell: Cell) -> Metric:
        """The number that a cell shows."""
        return self.row(cell.row).metric or self.column(cell.column).metric or self.metric

    def left_out(self, scale: ScaleName, cell: Cell) -> str:
        """Why a cell stays empty at a scale; "" where it does not."""
        row, column = self.scale(scale).entry(cell)
        return row.left_out or column.left_out

    def scale(self, name: ScaleName) -> Scale:
        """The scale of that name, if the study has it."""
        if name not in self.scales:
            raise ValueError(
                f"scale must be one that study {self.name} has; got {name!r}. Use {' or '.join(self.scales)}."
            )
        return self.scales[name]

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
        return self.baseline in {entry.compared_as for entry in self.rows}

    @property
    def arms(self) -> tuple[Entry, ...]:
        """The entries that are compared."""
        return self.rows if self.compares_rows else self.columns

    @property
    def others(self) -> tuple[Entry, ...]:
        """The entries of the other axis."""
        return self.columns if self.compares_rows else self.rows

    def cell(self, arm: Entry, other: Entry) -> Cell:
        """The cell of an arm and an entry of the other axis."""
        return Cell(arm.name, other.name) if self.compares_rows else Cell(other.name, arm.name)

    def arm(self, cell: Cell) -> str:
        """What a cell is compared as."""
        return (self.row(cell.row) if self.compares_rows else self.column(cell.column)).compared_as

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
            _known(self.metric_of(cell).source, sources, "source")
        groups: dict[str, list[str]] = {}
        for entry in self.arms:
            groups.setdefault(entry.group, []).append(entry.compared_as)
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
            for part, named, known in (
                ("row", scale.rows, [entry.name for entry in self.rows]),
                ("column", scale.columns, [entry.name for entry in self.columns]),
                ("analysis", scale.analyses, [plan.name for plan in self.analyses]),
                ("tuned row", scale.tuned, [entry.name for entry in self.rows if entry.loss is not None]),
            ):
                for name in named:
                    _known(name, dict.fromkeys(known), part)


def _known(name: str, known: Mapping[str, T], kind: str) -> T:
    if name not in known:
        raise ValueError(f"{kind} must be one that the study has; got {name!r}. {hint(name, known)}")
    return known[name]
