"""What a loss does to logits: their distribution, raw and mean-centred, and how sure right and wrong answers are.

Most losses do not change when a constant is added to all logits of a sample and leave that constant to chance; others
(logit penalty) pin it. So raw logits of different losses are comparable only after the mean of each sample is taken
away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from maxsup.analysis.registry import ANALYSES, Analysis, Result
from maxsup.core.checks import check_number
from maxsup.figures.style import legend_above, panels, run_looks, styled
from maxsup.metrics import mean_confidence
from maxsup.metrics.facts import numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from maxsup.analysis.outputs import RunOutputs

_NUM_BINS = 80
_NUM_POINTS = 201
# Shares of all logits that lie outside the drawn range on either side.
_TAIL = 0.0005
# Enough to place a quantile, and torch.quantile takes no more.
_MAX_SORTED = 1 << 23


def compute(run: RunOutputs, *, split: str, near_zero: float = 0.01) -> Result:
    """Histograms of logits, shares near zero, gaps and confidence of right and wrong predictions.

    Args:
        run: The run.
        split: Which images.
        near_zero: What counts as near zero.
    """
    check_number("logits.near_zero", near_zero, above=True)
    outputs = run.split(split)
    logits = outputs.logits.double()
    centred = logits - logits.mean(dim=1, keepdim=True)
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    is_right = predicted == outputs.labels
    gap = centred.max(dim=1).values
    means = mean_confidence(outputs.logits, outputs.labels)
    found = {
        "mean_logit": float(logits.mean()),
        "std": float(logits.std()),
        "std_centred": float(centred.std()),
        "near_zero_share": _near_zero(logits, near_zero),
        "near_zero_share_centred": _near_zero(centred, near_zero),
        "top_gap_right": _mean(gap[is_right]),
        "top_gap_wrong": _mean(gap[~is_right]),
        "confidence_right": means.correct,
        "confidence_wrong": means.wrong,
    }
    data = {
        "near_zero": near_zero,
        "num_right": int(is_right.sum()),
        "num_wrong": int((~is_right).sum()),
        "raw": _histogram(logits),
        "centred": _histogram(centred),
        "confidence_right": _cumulative(confidence[is_right]),
        "confidence_wrong": _cumulative(confidence[~is_right]),
    }
    return {"numbers": numbers(found), "data": data}


def draw(results: Mapping[str, Result]) -> dict[str, Figure]:
    """Densities of raw and mean-centred logits; cumulative top-1 confidence of right and wrong predictions."""
    looks = run_looks(results)
    with styled():
        densities, [row] = panels(1, 2, height=1.9, sharey=True)
        for axes, (key, title) in zip(
            row, (("raw", "logit"), ("centred", "logit \u2212 mean of the sample")), strict=True
        ):
            for label, result in results.items():
                kept, look = result["data"][key], looks[label]
                axes.stairs(kept["density"], kept["edges"], color=look.color, linestyle=look.line, linewidth=1.0)
            axes.set_xlabel(title)
            axes.set_ylim(bottom=0)
            axes.margins(x=0)
        row[0].set_ylabel("density (per unit of logit)")
        legend_above(densities, list(looks.values()), has_lines=True)
        confidences, [row] = panels(1, 2, height=1.9, sharex=True, sharey=True)
        for axes, kind in zip(row, ("right", "wrong"), strict=True):
            _draw_confidence(axes, results, kind)
        row[0].set_ylabel("predictions up to here (%)")
        legend_above(confidences, list(looks.values()))
    return {"logits": densities, "confidence": confidences}


def _draw_confidence(axes: Axes, results: Mapping[str, Result], kind: str) -> None:
    looks = run_looks(results)
    for label, result in results.items():
        look, shares = looks[label], result["data"][f"confidence_{kind}"]
        mean = result["numbers"][f"confidence_{kind}"]["value"]
        if mean is None:
            continue
        grid = [step / (len(shares) - 1) for step in range(len(shares))]
        percents = [100 * share for share in shares]
        axes.plot(grid, percents, color=look.color, linestyle=look.line)
        # The mean, as a mark on the curve.
        axes.plot([mean], [percents[round(mean * (len(shares) - 1))]], **look.marks, zorder=3)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 103)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.grid()
    axes.set_xlabel(f"confidence where {kind}")


def _histogram(values: Tensor) -> dict[str, Any]:
    """Density over the range that holds nearly all values."""
    flat = values.flatten()
    sampled = flat[:: len(flat) // _MAX_SORTED + 1]
    low, high = sampled.quantile(torch.tensor([_TAIL, 1 - _TAIL], dtype=flat.dtype)).tolist()
    if high <= low:
        low, high = low - 0.5, high + 0.5
    counts = torch.histc(flat, _NUM_BINS, low, high)
    width = (high - low) / _NUM_BINS
    edges = [low + step * width for step in range(_NUM_BINS + 1)]
    return {"edges": edges, "density": (counts / (len(flat) * width)).tolist()}


def _cumulative(confidence: Tensor) -> list[float]:
    """Share of values up to each point of an even grid from 0 to 1."""
    grid = torch.linspace(0, 1, _NUM_POINTS, dtype=confidence.dtype)
    places = torch.searchsorted(confidence.sort().values, grid, right=True)
    return (places / max(1, len(confidence))).tolist()


def _near_zero(values: Tensor, limit: float) -> float:
    return float((values.abs() < limit).double().mean())


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else float("nan")


ANALYSES.register(
    "logits",
    summary="histograms of raw and mean-centred logits, share near zero, confidence right and wrong",
    paper="fig:logit-analysis",
)(Analysis(compute, draw))
