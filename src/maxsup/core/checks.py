"""Checks of arguments, one sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Rational, Real
from typing import Any

from maxsup.core.errors import coded, hint

LARGEST = 1e30
"""Beyond what any option can mean, and well within single precision."""


def check_number(
    name: str,
    value: Any,
    low: float = 0.0,
    high: float = LARGEST,
    *,
    above: bool = False,
    at_low: str = "to switch the term off",
) -> None:
    """Raise unless ``value`` is a number in ``[low, high]`` (``(low, high]`` with ``above``).

    ``at_low`` completes the advice to use ``low``.

    Example:
        >>> check_number("alpha", -0.1)
        Traceback (most recent call last):
        ValueError: alpha must be a number of at least 0; got -0.1. Use 0 to switch the term off.
    """
    require_number(name, value)
    number = float(value)
    # Only comparisons: while a loss is compiled for all shapes, a number may be a symbol. nan fails every comparison.
    if not (number > low or (number == low and not above)):
        bound = f"above {low:g}" if above else f"of at least {low:g}"
        fix = "Use a small positive value." if above else f"Use {low:g} {at_low}."
        raise coded(ValueError(f"{name} must be a number {bound}; got {value!r}. {fix}"), "too-small")
    most = min(high, LARGEST)
    if number > most:
        raise coded(ValueError(f"{name} must be at most {most:g}; got {value!r}. Use a smaller one."), "too-large")


def require_number(name: str, value: Any) -> None:
    """Raise unless ``value`` is a number that torch computes with: Python's, or a scalar of numpy.

    Example:
        >>> from fractions import Fraction
        >>> require_number("alpha", Fraction(1, 10))
        Traceback (most recent call last):
        TypeError: alpha must be a number; got Fraction(1, 10). Pass one number, such as float(alpha).
    """
    if type(value) in (float, int):  # asking an abstract class takes ten times as long
        return
    is_fraction = isinstance(value, Rational) and not isinstance(value, Integral)
    is_number = isinstance(value, Real) and not is_fraction
    if is_number and type(value) is not bool:
        return
    fix = f"Write it without quotes, for instance {name}=0.1."
    if not isinstance(value, str):
        is_convertible = hasattr(type(value), "__float__")
        fix = f"Pass one number, such as float({name})." if is_convertible else f"Write for instance {name}=0.1."
    raise coded(TypeError(f"{name} must be a number; got {value!r}. {fix}"), "not-a-number")


def check_count(name: str, value: Any, least: int = 1, *, fix: str | None = None) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``.

    Example:
        >>> check_count("num_classes", 0)
        Traceback (most recent call last):
        ValueError: num_classes must be a whole number of at least 1; got 0. Write for instance num_classes=2.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        fix = fix or f"Write for instance {name}=2."
        sentence = f"{name} must be a whole number of at least {least}; got {value!r}. {fix}"
        raise coded(ValueError(sentence), "not-a-count")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        sentence = f"{name} must be one of {listed}; got {value!r}. {hint(str(value), choices)}"
        raise coded(ValueError(sentence), "unknown-choice")
