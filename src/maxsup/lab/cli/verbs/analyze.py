"""``maxsup analyze``: numbers and pictures of runs, side by side."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.core.errors import ExitCode
from maxsup.lab.cli import say
from maxsup.lab.cli.listings import complete_analyses
from maxsup.lab.cli.options import DataRootOption, JsonOption, SplitOption, WeightsOption, split_words, with_data_root
from maxsup.lab.cli.printing import create_table, print_json
from maxsup.lab.cli.shorthands import argument, option

if TYPE_CHECKING:
    from maxsup.lab.analysis import Analyzed

_WORDS = (
    "Run directories; and options of analyses, such as probe.target=cifar100, or changes to the recipe, such as "
    "data.name=cifar10_c."
)
_WHAT = "From `maxsup ls analyses`, separated by commas; else all that apply."


def analyze(
    words: Annotated[list[str], argument("RUN|KEY=VALUE", _WORDS)],
    what: Annotated[str | None, option("NAMES", _WHAT, complete_analyses)] = None,
    split: SplitOption = "test",
    weights: WeightsOption = "last",
    output: Annotated[
        Path | None, option("DIR", "Folder for figures (default: RUN/figures; ./figures for several runs).")
    ] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Analyse runs: collapse, probes, pictures, calibration, repair. Numbers go to RUN/analysis."""
    paths, settings = split_words(words)
    if not paths:
        raise ValueError("analyze needs a run. Name the directory that maxsup train printed.")
    # Late: a mistake among the words above is reported before torch is imported, which takes seconds.
    from maxsup.lab.analysis import analyze as run_analyses
    from maxsup.lab.training.reading import check_evaluated

    options, overrides = _sorted_settings(settings)
    check_evaluated(overrides)
    done = run_analyses(
        paths,
        None if what is None else [name.strip() for name in what.split(",")],
        output=output,
        split=split,
        weights=weights,
        overrides=with_data_root(overrides, data_root),
        options=options,
    )
    if as_json:
        kept = ("facts", "options", "numbers")
        results = {
            name: {label: {key: result[key] for key in kept} for label, result in found.items()}
            for name, found in done.results.items()
        }
        print_json({"results": results, "skipped": done.skipped, "files": [str(path) for path in done.files]})
    else:
        _print(done)
    for sentence in done.skipped:
        say(sentence)
    if not done.results:
        raise typer.Exit(ExitCode.INPUT)


def _sorted_settings(settings: Sequence[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Options by analysis, and overrides of the recipe."""
    from maxsup.core.errors import hint
    from maxsup.lab.analysis import ANALYSES
    from maxsup.lab.core.config import Recipe
    from maxsup.lab.core.recipes import parse_yaml

    options: dict[str, dict[str, Any]] = {}
    overrides = []
    for word in settings:
        key, _, value = word.partition("=")
        first, _, option = key.partition(".")
        if first in Recipe.model_fields:
            overrides.append(word)
        elif first in ANALYSES.names() and option:
            options.setdefault(first, {})[option] = parse_yaml(value, source=f"value of {key}")
        else:
            fix = hint(first, [*ANALYSES.names(), *Recipe.model_fields])
            raise ValueError(f"KEY must begin with an analysis or a section of the recipe; got {key!r}. {fix}")
    return options, overrides


def _print(done: Analyzed) -> None:
    for name, results in done.results.items():
        facts = next(iter(results.values()))["facts"]
        title = f"{name}: {facts['dataset']}, {facts['split']} split, {facts['weights']} weights"
        _print_table(title, _table(results))
    figures = sorted({str(path.parent) for path in done.files if path.suffix == ".png"})
    if figures:
        typer.echo(f"figures: {', '.join(figures)}\nnumbers: analysis/ in each run directory")


def _table(results: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """A header, and a row for each number; for a single run with its interval."""
    names = list(dict.fromkeys(name for result in results.values() for name in result["numbers"]))
    is_single = len(results) == 1
    rows = [["", *results, *(["95 % interval"] if is_single else []), "better"]]
    for name in names:
        entries = [result["numbers"].get(name, {}) for result in results.values()]
        entry = next(entry for entry in entries if entry)
        cells = [_text(entry.get("value")) for entry in entries]
        if is_single:
            has_interval = entry.get("low") is not None
            cells.append(f"{_text(entry['low'])} to {_text(entry['high'])}" if has_interval else "")
        unit = f" ({entry['unit']})" if entry["unit"] else ""
        rows.append([name + unit, *cells, "" if entry["direction"] == "none" else entry["direction"]])
    return rows


def _text(value: float | None) -> str:
    """Four digits after the point, or as many as a very small or large number needs."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) >= 1:
        return str(int(value))
    return f"{value:.2e}" if value and not 5e-4 <= abs(value) < 1e4 else f"{value:.4f}"


def _print_table(title: str, rows: list[list[str]]) -> None:
    header, *body = rows
    last = len(header) - 1
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        table = create_table(header, left=(0, last), title=Text(title), title_justify="left")
        for row in body:
            table.add_row(*map(Text, row))
        Console(highlight=False).print(table)
    else:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        typer.echo(title)
        for row in rows:
            inner = [cell.rjust(width) for cell, width in zip(row[1:last], widths[1:last], strict=True)]
            typer.echo("  ".join([row[0].ljust(widths[0]), *inner, row[last]]).rstrip())
    typer.echo("")
