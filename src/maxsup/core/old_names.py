"""Names of numbers that results of earlier versions have, translated to those of this one."""

from __future__ import annotations

from typing import Any

_NUMBERS = {"confidence_right": "confidence_correct"}


def number_name(name: str) -> str:
    """Return today's name of a number, which may follow what it was measured on.

    Example:
        >>> number_name("confidence_right"), number_name("logits.confidence_right"), number_name("test.ece")
        ('confidence_correct', 'logits.confidence_correct', 'test.ece')
    """
    source, dot, last = name.rpartition(".")
    return f"{source}{dot}{_NUMBERS.get(last, last)}"


def with_number_names(result: Any) -> Any:
    """Return the stored result of an analysis with today's names of its numbers, and of the curves behind them."""
    if not isinstance(result, dict):
        return result
    renamed = {
        key: {number_name(name): entry for name, entry in result[key].items()}
        for key in ("numbers", "data")
        if isinstance(result.get(key), dict)
    }
    return result | renamed
