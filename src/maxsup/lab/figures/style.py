"""The style of all figures: a colour and a marker for each loss, column widths, reproducible files.

Figures are made without pyplot, so nothing depends on a display or on the settings of other code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup.lab.core.files.storage import make_folder, replace_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

Results = Mapping[str, Mapping[str, Any]]
"""Results of an analysis by label of the run: ``facts`` (with ``loss``), ``numbers`` and ``data``, as stored."""

# Widths in inches of a column and of a page.
COLUMN, WIDE = 3.4, 6.6
DPI = 200
INK, SOFT, GREY = "#000000", "#5a5a5a", "#8A8A8A"

_SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 7.0, "axes.titlesize": 7.5, "axes.labelsize": 7.0,
    "xtick.labelsize": 6.5, "ytick.labelsize": 6.5, "legend.fontsize": 6.5,
    "legend.frameon": False, "legend.handlelength": 2.0, "legend.columnspacing": 1.2,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "axes.axisbelow": True,
    "axes.titlepad": 4.0, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5,
    "ytick.major.size": 2.5, "grid.color": "#E4E4E4", "grid.linewidth": 0.5, "lines.linewidth": 1.2,
    "lines.markersize": 4.0, "savefig.dpi": DPI, "svg.hashsalt": "maxsup",
    # Outlines, because the width of text would depend on the reader's fonts.
    "svg.fonttype": "path",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """The look of one run: name in a legend, colour, marker, line and marker filling."""

    label: str
    color: str
    marker: str
    line: Any = "-"
    fill: str = "full"

    @property
    def marks(self) -> dict[str, Any]:
        """Options of ``plot`` for markers without a line."""
        options = {"marker": self.marker, "color": self.color, "fillstyle": self.fill}
        return options | {"markerfacecoloralt": "white", "linestyle": "none"}

    @property
    def filled_marks(self) -> dict[str, Any]:
        """Options of ``plot`` for filled markers, whatever ``fill`` is."""
        return self.marks | {"fillstyle": "full"}

    @property
    def hollow_marks(self) -> dict[str, Any]:
        """Options of ``plot`` for markers filled with white."""
        return self.filled_marks | {"markerfacecolor": "white"}

    @property
    def stroke(self) -> dict[str, Any]:
        """Options of ``plot`` for a line without markers."""
        return {"color": self.color, "linestyle": self.line}


# The most common losses have colours of Okabe and Ito, with a grey; the others were found by a search. Any two differ
# by at least 15 (CIE 1976) for normal vision and for each of the three colour deficiencies.
LOOKS: dict[str, Look] = {
    "ce": Look("CE", "#4D4D4D", "o"),
    "ls": Look("LS", "#D55E00", "s"),
    "maxsup": Look("MaxSup", "#0072B2", "^"),
    "ols": Look("OLS", "#009E73", "D"),
    "zipf_ls": Look("Zipf-LS", "#E69F00", "v"),
    "logit_penalty": Look("Logit penalty", "#CC79A7", "P"),
    "confidence_penalty": Look("Conf. penalty", "#56B4E9", "X"),
    "logit_norm": Look("LogitNorm", "#56138E", "<"),
    "adaptive_ls": Look("Adaptive LS", "#702802", ">"),
    "focal": Look("Focal", "#8C6E3B", "p"),
    "focal_ls": Look("Focal + LS", "#ACC56D", "h"),
    "focal_maxsup": Look("Focal + MaxSup", "#1703B0", "*"),
    "reg_only": Look("Reg. only", "#7C35FF", "d"),
    "err_amp_mean": Look("Err. amp. (mean)", "#B95CFF", "8"),
    "err_amp_max": Look("Err. amp. (max)", "#641F63", "H"),
    "mbls": Look("MbLS", "#0F005A", r"$\spadesuit$"),
    "acls": Look("ACLS", "#E1B4B4", r"$\clubsuit$"),
    "poly1": Look("Poly-1", "#3C2D1E", r"$\heartsuit$"),
    "dual_focal": Look("Dual focal", "#2D002D", r"$\diamondsuit$"),
    "distillation": Look("Distillation", "#000000", r"$\oplus$"),
}

_FILLS = ("full", "left", "bottom", "right", "top")
_LINES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))


def loss_look(loss: str) -> Look:
    """Return the look of a loss. A loss of another package is grey and keeps its name.

    Example:
        >>> loss_look("maxsup").color, loss_look("mine").label
        ('#0072B2', 'mine')
    """
    return LOOKS.get(loss, Look(loss, GREY, "o"))


def run_looks(losses: Mapping[str, str], titles: Mapping[str, str] | None = None) -> dict[str, Look]:
    """Return a look for each label: the colour of its loss, with another line and filling for each run of that loss.

    ``titles`` are names in legends that differ from the labels.

    Example:
        >>> looks = run_looks({"LS 0.1": "ls", "LS 0.2": "ls"})
        >>> {look.color for look in looks.values()}, looks["LS 0.1"].line == looks["LS 0.2"].line
        ({'#D55E00'}, False)
    """
    looks, seen = {}, dict[str, int]()
    for label, loss in losses.items():
        count = seen[loss] = seen.get(loss, -1) + 1
        variant = count % len(_LINES)
        title = short_text((titles or {}).get(label, label))
        looks[label] = replace(loss_look(loss), label=title, line=_LINES[variant], fill=_FILLS[variant])
    return looks


def result_looks(results: Results) -> dict[str, Look]:
    """Return a look for each labelled result."""
    return run_looks({label: str(result["facts"]["loss"]) for label, result in results.items()})


def short_text(text: str, limit: int = 28) -> str:
    r"""Shorten text for a figure, and escape it so that it is never read as a formula.

    Example:
        >>> short_text("$x$ and a long rest", 10)
        '\\$x\\$ and a…'
    """
    whole = " ".join(text.split())
    return re.sub(r"(?<!\\)\$", r"\\$", whole if len(whole) <= limit else f"{whole[: limit - 1]}…")


@contextmanager
def styled() -> Iterator[None]:
    """Draw with our settings, and restore the caller's afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        # Ignore matplotlibrc files too: the same input must give the same picture.
        matplotlib.rcdefaults()
        parameters: Any = matplotlib.rcParams
        parameters.update(_SETTINGS)
        yield


def panels(
    num_rows: int = 1,
    num_columns: int = 1,
    *,
    height: float = 2.2,
    width: float = COLUMN,
    pad: float = 0.03,
    is_square: bool = False,
    **options: Any,
) -> tuple[Figure, list[list[Axes]]]:
    """Create a figure and its axes by row and column, with lengths in inches. Call it inside :func:`styled`.

    ``is_square`` packs axes with a fixed aspect ratio. ``options`` are those of ``Figure.subplots``.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=pad, h_pad=pad, hspace=pad / 2, wspace=pad / 2, compress=is_square)
    figure = Figure(figsize=(width, height), layout=layout)
    grid = figure.subplots(num_rows, num_columns, squeeze=False, **options)
    for axes in grid.flat:
        # The number of ticks must not depend on the size of the axes, or the layout is computed for other labels.
        axes.locator_params(nbins=5)
    return figure, [list(row) for row in grid]


def legend_above(
    figure: Figure, looks: Iterable[Look], *, has_lines: bool = True, others: Sequence[Line2D] = ()
) -> None:
    """Put one legend above all axes, in as many rows as needed: the runs as lines or markers, then ``others``."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], **(look.marks | {"linestyle": look.line if has_lines else "none"}), label=look.label)
        for look in looks
    ]
    handles += others
    # A character of the legend is about 0.055 inches wide, a handle with its gaps 0.42 inches.
    widest = max(0.055 * len(str(handle.get_label())) + 0.42 for handle in handles)
    num_columns = max(1, min(len(handles), int(figure.get_figwidth() / widest)))
    figure.legend(handles=handles, loc="outside upper center", ncols=num_columns)


def spread_labels(
    figure: Figure,
    labels: Sequence[Annotation],
    offsets: Sequence[tuple[float, float]],
    *,
    dots: Sequence[tuple[float, float]] = (),
) -> None:
    """Move each label to the first of ``offsets``, in points, at which it covers no dot and no earlier label."""
    for place, label in enumerate(labels):
        assert label.axes is not None
        for across, up in offsets:
            label.set_position((across, up))
            label.set_horizontalalignment("center" if across == 0 else "left" if across > 0 else "right")
            figure.draw_without_rendering()
            box = label.get_window_extent()
            # A marker extends about two points from its centre.
            around = box.padded(2 * figure.dpi / 72)
            is_clear = not any(around.contains(*label.axes.transData.transform(dot)) for dot in dots)
            if is_clear and not any(box.overlaps(other.get_window_extent()) for other in labels[:place]):
                break


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as ``NAME.png`` and ``NAME.svg``. The same figure gives the same bytes."""
    from io import BytesIO

    make_folder(folder)
    written = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    with styled():
        for kind, metadata in written.items():
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata)
            replace_bytes(folder / f"{name}.{kind}", buffer.getvalue())
    return [folder / f"{name}.{kind}" for kind in written]
