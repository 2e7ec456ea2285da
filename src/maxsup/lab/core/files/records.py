"""JSON files with a type, which runs, analyses and comparisons write and read back.

A file names the version of the program that wrote it. Files of 0.1.0 name none and are still read; unknown keys are
kept.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from maxsup.core.errors import StorageError
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


PROTOCOL = 1
"""Version of how numbers are measured; it rises when the same run would get others."""


class Measured(Record):
    """A file of numbers, which cannot be compared with those of another protocol."""

    version: str = ""
    protocol: int = PROTOCOL


class RunSummary(Measured):
    """``summary.json`` of a run; ``val`` and ``test`` hold the numbers of the ``last`` and of the ``best`` weights."""

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


class AnalysisResult(Measured):
    """What ``maxsup analyze`` writes about a run; ``data`` is what figures are drawn from."""

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
        record = kind.model_validate(values)
    except ValidationError as error:
        detail = error.errors()[0]
        found = "nothing" if detail["type"] == "missing" else repr(detail["input"])[:60]
        raise damaged(path, f"{found} at {'.'.join(str(part) for part in detail['loc'])}") from error
    if isinstance(record, Measured) and record.protocol != PROTOCOL:
        raise StorageError(
            f"{path} must hold numbers of protocol {PROTOCOL}, as this version measures them; got protocol "
            f"{record.protocol}. Use the version that wrote it ({record.version or '0.1.0'}), or make it again.",
            code="protocol-differs",
        )
    return record
