"""``summary.json`` of a comparison or a study: every number of every seed, and the conclusions in words.

A report needs only this file and the run directories. Numbers are in stored units (shares, not percent); ``text`` is
the printed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from maxsup.lab.core.files.records import Number, Record
from maxsup.metrics.facts import Direction


class SummaryMetric(Record):
    """A number that losses are compared by; in print it is multiplied by ``factor``.

    Example:
        >>> accuracy = SummaryMetric(title="accuracy", unit="%", factor=100, digits=2)
        >>> accuracy.size(-0.0123), accuracy.signed(-0.0123), accuracy.printed(0.9)
        ('1.23 points', '-1.23', 90.0)
    """

    title: str
    name: str = ""
    column: str = ""
    group: str = ""
    unit: str = ""
    direction: Direction = "none"
    digits: int = 3
    factor: float = 1.0
    margin: float | None = None

    @property
    def label(self) -> str:
        """The group and the title, or the column if several columns show this number."""
        return ", ".join(word for word in (self.group, self.column or self.title) if word)

    @property
    def difference_unit(self) -> str:
        """The unit of differences: two percentages differ by points."""
        return "points" if self.unit == "%" else self.unit

    def printed(self, value: float | None) -> float:
        """A stored number in printed units; ``nan`` for None."""
        return math.nan if value is None else value * self.factor

    def signed(self, value: float) -> str:
        """A difference with its sign and without unit."""
        return f"{self.printed(value):+.{self.digits}f}"

    def plain(self, value: float) -> str:
        """A number without unit."""
        return f"{self.printed(value):.{self.digits}f}"

    def size(self, value: float) -> str:
        """The size of a difference with its unit."""
        return f"{self.plain(abs(value))} {self.difference_unit}".rstrip()


class Spread(Record):
    """Mean and standard deviation over seeds, and the value of each seed."""

    text: str = ""
    mean: Number = None
    std: Number = None
    values: dict[str, Number] = Field(default_factory=dict)


class LossNumber(Spread):
    """A number of a loss and its paired difference to the baseline."""

    difference: Number = None
    low: Number = None
    high: Number = None
    p: Number = None
    adjusted_p: Number = None
    is_conclusive: bool = False
    is_better: bool = False
    is_equivalent: bool = False
    holds_after_correction: bool = False
    num_pairs: int = 0


class SummaryLoss(Record):
    """A loss with all its numbers in the table."""

    loss: str
    title: str
    group: str = ""
    is_baseline: bool = False
    metrics: dict[str, LossNumber]

    def number(self, metric: SummaryMetric) -> LossNumber:
        """The number of a metric, empty if the loss has none."""
        return self.metrics.get(metric.name) or LossNumber()


class CellComparison(Record):
    """The paired comparison of a cell with the baseline."""

    mean_difference: Number = None
    low: Number = None
    high: Number = None
    p_value: Number = None
    adjusted_p: Number = None
    num_pairs: int = 0


class PublishedCell(Record):
    """The paper's number in printed units, and the label of its table."""

    text: str = ""
    mean: Number = None
    std: Number = None
    label: str = ""


class SummaryCell(Spread):
    """A cell of the table; ``left_out`` is the reason if it stays empty."""

    is_baseline: bool = False
    is_bold: bool = False
    left_out: str = ""
    comparison: CellComparison | None = None
    difference_text: str = ""
    published: PublishedCell | None = None


class SummaryEntry(Record):
    """A row or a column of the table."""

    name: str
    title: str
    group: str = ""


class SummaryTable(Record):
    """Cells by the names of their row and column."""

    corner: str = ""
    rows: Sequence[SummaryEntry]
    columns: Sequence[SummaryEntry]
    cells: dict[str, dict[str, SummaryCell]]

    def cell(self, row: SummaryEntry, column: SummaryEntry) -> SummaryCell | None:
        """The cell of a row and a column, None if there is none."""
        return self.cells.get(row.name, {}).get(column.name)

    def filled(self) -> Iterator[tuple[SummaryEntry, SummaryEntry, SummaryCell]]:
        """Row, column and cell of every cell."""
        for row in self.rows:
            for column in self.columns:
                if (cell := self.cell(row, column)) is not None:
                    yield row, column, cell


class SummaryRun(Record):
    """A planned run; its ``status`` is ``done``, ``failed`` or ``missing``."""

    folder: str
    arm: str
    loss: str
    seed: int
    status: str
    sentence: str = ""
    log: str | None = None


class SummaryVerdict(Record):
    """What can be concluded about a metric, in sentences."""

    title: str
    sentences: Sequence[str]


class Choice(Record):
    """A setting that the paper leaves open, and what was chosen."""

    what: str
    choice: str


class Summary(Record):
    """The whole file."""

    version: str = ""
    protocol: int = 1
    kind: str = "comparison"
    name: str
    title: str
    label: str = ""
    question: str = ""
    scale: str = ""
    note: str = ""
    stated: Sequence[str] = ()
    unstated: Sequence[Choice] = ()
    errata: Sequence[str] = ()
    baseline: str
    seeds: Sequence[int]
    environment: dict[str, Any] = Field(default_factory=dict)
    runs: Sequence[SummaryRun]
    metrics: Sequence[SummaryMetric]
    losses: Sequence[SummaryLoss]
    conclusions: Sequence[str] = ()
    table: SummaryTable
    verdicts: Sequence[SummaryVerdict] = ()
    bold_rule: str = ""

    @property
    def is_study(self) -> bool:
        """Whether it repeats an experiment of the paper."""
        return self.kind == "study"

    @property
    def is_reduced(self) -> bool:
        """Whether the scale is smaller than the paper's."""
        return self.scale in ("tiny", "small")

    @property
    def num_done(self) -> int:
        """The number of finished runs."""
        return sum(run.status == "done" for run in self.runs)

    @property
    def missing(self) -> str:
        """How many runs are missing, in words; empty if there are none."""
        num = len(self.runs) - self.num_done
        return f"{num} of {len(self.runs)} runs {'is' if num == 1 else 'are'} missing" if num else ""

    @property
    def arm_titles(self) -> dict[str, str]:
        """The title of each arm."""
        return {entry.loss: entry.title for entry in self.losses}

    @property
    def baseline_title(self) -> str:
        """The title of the baseline."""
        return self.arm_titles.get(self.baseline, self.baseline)


def listed(words: Sequence[str]) -> str:
    """Words joined for a sentence.

    Example:
        >>> listed(["ce"]), listed(["ce", "ls", "maxsup"])
        ('ce', 'ce, ls and maxsup')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
