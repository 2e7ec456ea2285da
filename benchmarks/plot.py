"""One picture: time and memory against the number of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# (loss, form) -> label, colour (Okabe and Ito, told apart by all kinds of colour vision), marker, line.
SERIES = {
    ("torch label smoothing", "eager"): ("torch label smoothing", "#000000", "s", "-"),
    ("torch cross-entropy", "eager"): ("torch cross-entropy", "#999999", "D", "-"),
    ("naive MaxSup", "eager"): ("naive MaxSup", "#D55E00", "^", "-"),
    ("naive MaxSup", "compiled"): ("naive MaxSup, compiled", "#E69F00", "v", "--"),
    ("maxsup", "eager"): ("maxsup", "#0072B2", "o", "-"),
    ("maxsup", "compiled"): ("maxsup, compiled", "#56B4E9", "P", "--"),
}
DTYPES = ("float32", "bfloat16")


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw what :func:`benchmarks.losses.run` returned; the largest batch represents those with the same K."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, NullFormatter

    plain = FuncFormatter(lambda value, position: f"{value:g}")
    figure, grid = pyplot.subplots(2, 2, figsize=(7.0, 5.4), sharex=True, sharey="row", layout="constrained")
    for column, dtype in enumerate(DTYPES):
        cases = {
            case["num_classes"]: case
            for case in sorted(result["cases"], key=lambda case: case["shape"][0])
            if case["dtype"] == dtype and case["layout"] == "rows"
        }
        time, memory = grid[:, column]
        for key, (label, colour, marker, line) in SERIES.items():
            rows = {
                num_classes: row
                for num_classes in sorted(cases)
                for row in cases[num_classes]["losses"]
                if (row["loss"], row["form"]) == key
            }
            style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 5, "linewidth": 1.4}
            low, median, high = ([row["time_ratio"][key] for row in rows.values()] for key in ("low", "median", "high"))
            time.plot(list(rows), median, label=label, **style)
            time.fill_between(list(rows), low, high, color=colour, alpha=0.15, linewidth=0)
            memory.plot(list(rows), [row["peak_memory_ratio"] for row in rows.values()], **style)
        time.set_title(dtype, fontsize=10)
        memory.set_xlabel("number of classes K")
        for axes in (time, memory):
            axes.set_xscale("log")
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(plain)
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.grid(alpha=0.3, linewidth=0.6)
    grid[0, 0].set_ylabel("time / label smoothing")
    grid[1, 0].set_ylabel("peak memory / logits")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    pyplot.close(figure)
