"""``maxsup analyze``: numbers and pictures of runs, side by side."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.cli.completion import complete_analyses
from maxsup.cli.options import DataRootOption, JsonOption, SplitOption, WeightsOption, print_json, with_data_root

if TYPE_CHECKING:
    from maxsup.analysis import Analyzed

Row = list[str]


def analyze(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|KEY=VALUE",
            help="Run directories; and options of analyses, such as probe.target=cifar100, or changes to the recipe, "
            "such as data.name=cifar10_c.",
        ),
    ],
    what: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="From `maxsup ls analyses`, separated by commas; else all that apply.",
            autocompletion=complete_analyses,
        ),
    ] = None,
    split: SplitOption = "test",
    weights: WeightsOption = "last",
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For figures; by default RUN/figures, or ./figures for several.")
    ] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Analyse runs: collapse, probes, pictures, calibration, repair. Numbers go to RUN/analysis."""
    paths, settings = _sorted_words(words)
    # Late: a mistake among the words above is said before torch is paid for.
    from maxsup.analysis import analyze as run_analyses
    from maxsup.training.reading import check_evaluated

    options, overrides = _sorted_settings(settings)
    check_evaluated(overrides)
    names = None if what is None else [name.strip() for name in what.split(",")]
    done = run_analyses(
        paths,
        names,
        output=output,
        split=split,
        weights=weights,
        overrides=with_data_root(overrides, data_root),
        options=options,
    )
    if as_json:
        print_json(_summary(done))
    else:
        _print(done)
    for sentence in done.skipped:
        print(f"maxsup: {sentence}", file=sys.stderr)
    if not done.results:
        raise typer.Exit(2)


def _sorted_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Run directories, and words of the form key=value."""
    paths = [word for word in words if "=" not in word or Path(word).exists()]
    if not paths:
        raise ValueError("RUN must be given at least once; got none. Name the directory that maxsup train printed.")
    return paths, [word for word in words if word not in paths]


def _sorted_settings(settings: Sequence[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Options by analysis, and overrides of the recipe."""
    from maxsup.analysis import ANALYSES
    from maxsup.core.config import Recipe
    from maxsup.core.errors import hint
    from maxsup.core.recipes import parse_yaml

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


def _summary(done: Analyzed) -> dict[str, Any]:
    kept = ("facts", "options", "numbers")
    results = {
        name: {label: {key: result[key] for key in kept} for label, result in found.items()}
        for name, found in done.results.items()
    }
    return {"results": results, "skipped": done.skipped, "files": [str(path) for path in done.files]}


def _print(done: Analyzed) -> None:
    for name, results in done.results.items():
        facts = next(iter(results.values()))["facts"]
        title = f"{name}: {facts['dataset']}, {facts['split']} split, {facts['weights']} weights"
        _print_table(title, _table(results))
    figures = sorted({str(path.parent) for path in done.files if path.suffix == ".png"})
    if figures:
        typer.echo(f"figures: {', '.join(figures)}")
        typer.echo("numbers: analysis/ in each run directory")


def _table(results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """A header and a row a number; of a single run its interval too."""
    names = list(dict.fromkeys(name for result in results.values() for name in result["numbers"]))
    is_single = len(results) == 1
    rows: list[Row] = [["", *results, *(["95 % interval"] if is_single else []), "better"]]
    for name in names:
        entries = [result["numbers"].get(name, {}) for result in results.values()]
        entry = next(entry for entry in entries if entry)
        cells = [_text(entry.get("value")) for entry in entries]
        if is_single:
            has_interval = entry.get("low") is not None
            cells.append(f"{_text(entry['low'])} to {_text(entry['high'])}" if has_interval else "")
        unit = f" ({entry['unit']})" if entry["unit"] else ""
        direction = "" if entry["direction"] == "none" else entry["direction"]
        rows.append([name + unit, *cells, direction])
    return rows


def _text(value: float | None) -> str:
    """Four digits after the point, or as many as a very small or large number needs."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) >= 1:
        return str(int(value))
    if value and not 5e-4 <= abs(value) < 1e4:
        return f"{value:.2e}"
    return f"{value:.4f}"


def _print_table(title: str, rows: list[Row]) -> None:
    header, *body = rows
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
        for place, name in enumerate(header):
            table.add_column(Text(name), justify="left" if place in (0, len(header) - 1) else "right", overflow="fold")
        for row in body:
            table.add_row(*(Text(cell) for cell in row))
        Console(highlight=False).print(table)
        typer.echo("")
        return
    widths = [max(len(row[place]) for row in rows) for place in range(len(header))]
    typer.echo(title)
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        cells[-1] = row[-1]
        typer.echo("  ".join(cells).rstrip())
    typer.echo("")
