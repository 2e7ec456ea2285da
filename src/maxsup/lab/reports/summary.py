"""``summary.json`` of a comparison or a study: every number of every seed, and the conclusions in words.

A report needs only this file and the run directories. Numbers are in stored units (shares, not percent); ``text`` is
the printed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import stdev
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, PlainSerializer

from maxsup.lab.core.files.records import Measured, Number, Record
from maxsup.metrics.facts import Direction

MIN_SEEDS = 6
"""Fewer seeds cannot reach p <= 0.05 in a sign-flip test: 5 give 2/32."""

Real = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(lambda value: value if math.isfinite(value) else None, when_used="json"),
]
"""A number, nan where there is none, which JSON knows as null."""


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


Finding = Literal["nothing", "too few seeds", "better", "worse", "higher", "lower", "equal", "open"]
"""What a comparison shows; ``nothing`` is no pair at all, ``open`` that no difference and no equality was shown."""

DIFFERENT: tuple[Finding, ...] = ("better", "worse", "higher", "lower")
"""Findings of a difference."""


class PairedComparison(Record):
    """A loss against a baseline over paired seeds, in statistics and in ``summary.json`` alike.

    Numbers that do not exist are nan. Everything but ``baseline_mean`` and ``baseline_std`` is over the ``num_pairs``
    seeds for which both values are finite. ``p`` is that of the sign-flip test, ``adjusted_p`` the same after Holm's
    correction. Files of 0.1.0 have other names for ``difference`` and ``p``.
    """

    difference: Real = Field(default=math.nan, validation_alias=AliasChoices("difference", "mean_difference"))
    p: Real = Field(default=math.nan, validation_alias=AliasChoices("p", "p_value"))
    low: Real = math.nan
    high: Real = math.nan
    adjusted_p: Real = math.nan
    is_conclusive: bool = False  # may be printed bold: enough seeds, and an interval without 0
    is_better: bool = False  # the difference is in the wanted direction, if one is wanted
    is_equivalent: bool = False  # equal within the margin, shown at level 0.05
    holds_after_correction: bool = False
    num_pairs: int = 0
    num_missing: int = 0
    differences: tuple[float, ...] = ()
    baseline_mean: Real = math.nan
    baseline_std: Real = math.nan
    direction: Direction = "none"
    margin: float | None = None
    equivalence_p: Real = math.nan

    @property
    def std_difference(self) -> float:
        """Spread of the paired differences: what decides how much a number of seeds can show."""
        return stdev(self.differences) if len(self.differences) > 1 else math.nan

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 is outside the interval."""
        return self.low > 0 or self.high < 0

    def finding(self, direction: Direction | None = None) -> Finding:
        """What is found; a difference is better or worse where a ``direction`` is wanted, else higher or lower."""
        if self.is_conclusive:
            if (direction or self.direction) == "none":
                return "higher" if self.difference > 0 else "lower"
            return "better" if self.is_better else "worse"
        if self.num_pairs < MIN_SEEDS:
            return "too few seeds" if self.num_pairs else "nothing"
        return "equal" if self.is_equivalent else "open"


class LossNumber(Spread, PairedComparison):
    """A number of a loss and its paired difference to the baseline."""


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
    comparison: PairedComparison | None = None
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


class Summary(Measured):
    """The whole file."""

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


def join_words(words: Sequence[str]) -> str:
    """Words joined for a sentence.

    Example:
        >>> join_words(["ce"]), join_words(["ce", "ls", "maxsup"])
        ('ce', 'ce, ls and maxsup')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
