"""Sentences whose numbers are computed: a text with places in braces, filled from the results when pages are written.

A place names a number as the pages of claims do, or a claim::

    {test.ece of c10: maxsup alpha=0.1 - ls alpha=0.1}     mean difference with its 95 % interval
    {test.accuracy of c100: ce}                            mean over seeds
    {reg_only alpha=0.1 - 10/9 ls alpha=0.1 + 1/9 ce}      ... any weighted sum of losses, after a number and its pools
    {test.ece: slope of c10_w}, {test.ece: intercept of c10_w}    the line of a sweep over widths
    {training errors of c10_w}                             from the widest network to the narrowest
    {test.gap: pools below 0}                              how many pools have an interval below 0, MaxSup minus LS
    {verdict of accuracy}, {p of accuracy}, {exact p of accuracy}, {holm p of accuracy}, {paper of accuracy}
    {tuned accuracy}, {tuned losses of accuracy}           the same claim with tuned strengths
    {single seeds that decide accuracy}                    without how many of the seeds the interval holds 0
    {test images of c10}, {pools}                          how many there are

Options follow a semicolon: ``mean`` or ``interval`` alone, ``90 %``, ``1 digit``, ``without seed 0``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any, NamedTuple

from maxsup.lab.core.config import Section
from maxsup.lab.core.recipes import read_yaml
from maxsup.lab.core.validation import validated
from maxsup.lab.experiments.statistics import LEVEL, student_interval
from maxsup.metrics.facts import Fact, find_fact
from tools.evidence.first.contrasts import combined, finite, pool_entry, width_sweep
from tools.evidence.first.pools import Tables, read_tables

PROSE = "prose.yaml"
_WIDTH = 130
_PLACE = re.compile(r"\{([^{}]+)\}")
_OWN_FACTS = {
    "overconfidence": Fact("confidence minus accuracy"),
    "relative_seconds": Fact("time", factor=100.0, digits=1),
}

Entry = Mapping[str, Any]


class Prose(Section):
    """A text, and the page that has it between its marks; the page's path starts at the folder of evidence."""

    page: str
    text: str


class Options(NamedTuple):
    """How a number is printed, and of which seeds."""

    part: str = "all"
    level: float = LEVEL
    digits: int | None = None
    left_out: int | None = None


def prose_entries(folder: Path, claims: Sequence[Entry]) -> list[dict[str, Any]]:
    """The texts of a folder of evidence with all numbers in their places; none if it has no such file."""
    if not (folder / PROSE).is_file():
        return []
    tables = read_tables(folder / "results")
    texts = {
        name: validated(Prose, values, source=f"text {name}") for name, values in read_yaml(folder / PROSE).items()
    }
    return [
        {"name": name, "page": each.page, "text": wrapped(filled(each.text, tables, claims))}
        for name, each in texts.items()
    ]


def filled(text: str, tables: Tables, claims: Sequence[Entry]) -> str:
    """The text with every place in braces replaced by what it names."""
    return _PLACE.sub(lambda match: _value(match[1], tables, claims), text)


def wrapped(text: str) -> str:
    """Markdown with lines of one length; items of lists are indented, tables and pictures stay as they are."""
    made: list[str] = []
    for line in text.splitlines():
        is_new = not line.strip() or not made or not made[-1].strip() or re.match(r"[-#|!>]|\d+\. |```", line)
        if is_new:
            made.append(line.rstrip())
        else:
            made[-1] += f" {line.strip()}"
    return "\n".join(_line(line) for line in made)


def _line(line: str) -> str:
    if line.startswith(("|", "!", "#", "```")):
        return line
    item = re.match(r"(- |\d+\. )", line)
    indent = " " * len(item[1]) if item else ""
    return fill(line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _value(place: str, tables: Tables, claims: Sequence[Entry]) -> str:
    query, *words = (" ".join(part.split()) for part in place.split(";"))
    options = _options(words)
    for pattern, compute in _QUERIES.items():
        if match := re.fullmatch(pattern, query):
            return compute(match, options, tables, claims)
    raise ValueError(f"a place in a text must name a number; got {place!r}. See the head of {__name__}.")


def _options(words: Sequence[str]) -> Options:
    found: dict[str, Any] = {}
    for word in words:
        if word in ("mean", "interval"):
            found["part"] = word
        elif match := re.fullmatch(r"(\d+) %", word):
            found["level"] = 1 - int(match[1]) / 100
        elif match := re.fullmatch(r"(\d) digits?", word):
            found["digits"] = int(match[1])
        elif match := re.fullmatch(r"without seed (\d+)", word):
            found["left_out"] = int(match[1])
        else:
            raise ValueError(f"an option must be mean, interval, N %, N digits or without seed N; got {word!r}.")
    return Options(**found)


def _fact(number: str) -> Fact:
    name = number.rpartition(".")[2]
    known = _OWN_FACTS.get(name) or find_fact(name)
    if known is None:
        raise ValueError(f"a place in a text must have a number of the results; got {number!r}.")
    return known


def _contrast(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    number, pools, terms = match[1], match[2].split(", "), _weights(match[3])
    known = _fact(number)
    found = combined(tables, pools, number, terms)
    values = [value for seed, value in found.items() if seed != options.left_out]
    if not values:
        raise ValueError(f"a place in a text must have runs; got {match[0]!r}, which has none in common.")
    return _printed(values, known, options, is_difference=len(terms) > 1)


def _weights(text: str) -> dict[str, float]:
    """Losses and their weights: ``reg_only alpha=0.1 - 10/9 ls alpha=0.1``."""
    first, *others = re.split(r" ([+-]) ", text)
    weights = {first: 1.0}
    for sign, term in zip(others[::2], others[1::2], strict=True):
        share = re.match(r"(\d+/\d+) ", term)
        loss = term[share.end() :] if share else term
        weights[loss] = (1 if sign == "+" else -1) * float(Fraction(share[1]) if share else 1)
    return weights


def _printed(values: Sequence[float], known: Fact, options: Options, *, is_difference: bool) -> str:
    digits = known.digits if options.digits is None else options.digits
    mean = known.factor * fmean(values)
    if not is_difference:
        return f"{mean:.{digits}f}"
    unit = {"accuracy": " points", "mIoU": " points", "time": " %"}.get(known.title.split(" ")[0], "")
    low, high = (known.factor * end for end in student_interval(values, options.level))
    interval = f"[{low:+.{digits}f}, {high:+.{digits}f}]"
    parts = {"all": f"{mean:+.{digits}f}{unit} {interval}", "mean": f"{mean:+.{digits}f}", "interval": interval}
    return parts[options.part]


def _line_of_sweep(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    number, side, prefix = match.groups()
    known, found = _fact(number), width_sweep(tables, prefix, number)
    digits = (1 if known.factor == 100 else 2) if options.digits is None else options.digits
    mean, low, high = (known.factor * value for value in (found[side], *found[f"{side}_interval"]))
    return f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def _training_errors(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    points = [point[0] for point in width_sweep(tables, match[1])["points"]]
    return f"{100 * min(points):.0f} to {100 * max(points):.0f} %"


def _count(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    number, side = match.groups()
    found = [pool_entry(pool, rows, [])["losses"] for pool, rows in tables.items()]
    intervals = [
        student_interval(list(combined(tables, [pool], number, {own: 1.0, other: -1.0}).values()))
        for pool, (own, other) in zip(tables, found, strict=True)
        if own
    ]
    return str(sum(low > 0 if side == "above" else high < 0 for low, high in intervals))


def _of_claim(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    claim = _named(match[2], claims)
    if match[1] in ("verdict", "paper"):
        return str(claim["word" if match[1] == "verdict" else "paper"])
    return f"{claim[match[1].replace(' ', '_')]:.2g}"


def _tuned(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    claim, tuned = _named(match[2], claims), _named(match[2], claims)["tuned"]
    if match[1]:
        return f"{tuned['claim']} against {tuned['than']}"
    digits = options.digits
    query = f"{claim['number']} of {', '.join(claim['pools'])}: {tuned['claim']} - {tuned['than']}"
    return _value(query if digits is None else f"{query}; {digits} digits", tables, claims)


def _deciding_seeds(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    """Without how many single seeds the 95 % interval holds 0, of all seeds."""
    differences = [own - other for _, own, other in _named(match[1], claims)["values"]]
    rest = [differences[:place] + differences[place + 1 :] for place in range(len(differences))]
    return f"{sum(low <= 0 <= high for low, high in map(student_interval, rest))} of {len(rest)}"


def _named(name: str, claims: Sequence[Entry]) -> Entry:
    for claim in claims:
        if claim["name"] == name:
            return claim
    raise ValueError(f"a place in a text must name a claim; got {name!r}.")


def _images(match: re.Match[str], options: Options, tables: Tables, claims: Sequence[Entry]) -> str:
    return f"{sum(int(max(finite(tables[pool], 'test.n'))) for pool in match[1].split(', ')):,}"


_QUERIES: dict[str, Callable[[re.Match[str], Options, Tables, Sequence[Entry]], str]] = {
    r"([\w.]+): (slope|intercept) of (\w+)": _line_of_sweep,
    r"([\w.]+): pools (above|below) 0": _count,
    r"training errors of (\w+)": _training_errors,
    r"test images of ([\w, ]+)": _images,
    r"pools": lambda match, options, tables, claims: str(len(tables)),
    r"(verdict|paper|p|exact p|holm p) of (\w+)": _of_claim,
    r"single seeds that decide (\w+)": _deciding_seeds,
    r"tuned( losses of)? (\w+)": _tuned,
    r"([\w.]+) of ([\w, ]+): (.+)": _contrast,
}
