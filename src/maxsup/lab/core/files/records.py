"""JSON files with a type, which runs, analyses and comparisons write and read back.

A file names the version of the program that wrote it. Files of 0.1.0 name none and are still read; unknown keys are
kept.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from maxsup.core.old_names import number_name, with_number_names
from maxsup.lab.core.files.reading import damaged, read_json


class Record(BaseModel):
    """Part of a file, or all of it."""

    model_config = ConfigDict(frozen=True, extra="allow")


Kind = TypeVar("Kind", bound=Record)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or None where there is none: JSON knows no nan."""


class RunSummary(Record):
    """``summary.json`` of a run; ``val`` and ``test`` hold the numbers of the ``last`` and of the ``best`` weights."""

    version: str = ""
    val: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    test: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    seconds: float = 0.0


class MeasuredNumber(Record):
    """One number of an analysis; ``low`` and ``high`` bound it where it was bootstrapped."""

    value: Number
    direction: str = "none"
    unit: str = ""
    low: Number = None
    high: Number = None


class ResultFacts(Record):
    """What was analysed."""

    split: str
    loss: str = ""


class AnalysisResult(Record):
    """What ``maxsup analyze`` writes about a run; ``data`` is what figures are drawn from."""

    version: str = ""
    facts: ResultFacts
    numbers: dict[str, MeasuredNumber]
    data: dict[str, Any]

    _renamed = model_validator(mode="before")(with_number_names)

    def value(self, name: str) -> float | None:
        """A number by name; None where the analysis has none."""
        found = self.numbers.get(number_name(name))
        return None if found is None else found.value


def read_record(kind: type[Kind], path: Path) -> Kind:
    """The content of a file; damage is an error that names the file."""
    return as_record(kind, read_json(path), path)


def as_record(kind: type[Kind], values: Any, path: Path) -> Kind:
    """The content of a file that was read already.

    Example:
        >>> as_record(RunSummary, {"test": {"last": {"accuracy": 0.9}}}, Path("run/summary.json")).test["last"]
        {'accuracy': 0.9}
        >>> as_record(RunSummary, {"test": 1}, Path("run/summary.json"))
        Traceback (most recent call last):
        maxsup.core.errors.StorageError: run/summary.json must be as it was written; got 1 at test. Copy it again ...
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        detail = error.errors()[0]
        found = "nothing" if detail["type"] == "missing" else repr(detail["input"])[:60]
        raise damaged(path, f"{found} at {'.'.join(str(part) for part in detail['loc'])}") from error
