"""The figures of the damage report, each with the data behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxsup.diagnosis.findings import REFERENCE_SOURCE, REFERENCES
from maxsup.diagnosis.smoothing import plateau_gap
from maxsup.figures.style import GREY, LOOKS, panels, styled
from maxsup.reports.page import Column, Plot, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maxsup.diagnosis.diagnosis import Diagnosis

_RIGHT, _WRONG, _AFTER = "#0072B2", "#D55E00", "#009E73"
_WIDE = 6.4
_GUIDES = (0.05, 0.1, 0.2)
_METHODS = {"CE": "ce", "LS": "ls", "OLS": "ols", "Zipf-LS": "zipf_ls", "MaxSup": "maxsup"}


def smoothing_plot(diagnosis: Diagnosis) -> Plot | None:
    """Gap of the top logit, and who gets the probability that is left over."""
    traces = diagnosis.data["traces"]
    if "gap" not in traces or "left_over" not in traces:
        return None
    num_classes = diagnosis.data["num_classes"]
    found = diagnosis.smoothing
    edges, counts = traces["gap"]["edges"], traces["gap"]["count"]
    total = sum(counts) or 1.0
    with styled():
        figure, [[left, right]] = panels(1, 2, height=2.3, width=_WIDE)
        left.stairs([count / total for count in counts], edges, fill=True, color=_RIGHT, alpha=0.75)
        if found.alpha and found.low and found.high:
            left.axvspan(
                *(plateau_gap(alpha, num_classes) for alpha in (found.high, found.low)), color=_WRONG, alpha=0.15
            )
            _vertical(left, plateau_gap(found.alpha, num_classes), _WRONG, "-")
        for alpha in _GUIDES:
            gap = plateau_gap(alpha, num_classes)
            if edges[0] <= gap <= edges[-1]:
                _vertical(left, gap, GREY, ":")
                left.annotate(
                    f"{alpha:g}",
                    (gap, 1),
                    xycoords=("data", "axes fraction"),
                    ha="center",
                    va="bottom",
                    color=GREY,
                )
        left.set_xlabel("gap of the top logit to the mean of the others")
        left.set_ylabel("share of right predictions")
        right.plot(traces["left_over"]["share"], traces["left_over"]["probability"], color=_RIGHT)
        if found.alpha:
            right.axhline(found.alpha / num_classes, color=_WRONG, linewidth=1.0)
        right.set_yscale("log")
        right.set_xlabel("share of pairs of classes")
        right.set_ylabel("mean probability of the other class")
        right.grid(axis="y")
    rows = [
        *(["gap", low, high, count] for low, high, count in zip(edges, edges[1:], counts, strict=False)),
        *(
            ["left over", share, None, value]
            for share, value in zip(traces["left_over"]["share"], traces["left_over"]["probability"], strict=True)
        ),
    ]
    columns = [Column("curve", is_number=False), Column("x or lower edge"), Column("upper edge"), Column("value")]
    shown = "the orange line and band are the estimate and its interval, " if found.alpha else ""
    return Plot(
        "smoothing",
        "Traces of label smoothing",
        f"Left: how far the top logit is above the others where the prediction is right; {shown}dotted lines are the "
        "plateaus of strengths 0.05, 0.1 and 0.2. Right: mean probability of a class where another one is predicted, "
        "over all pairs of classes; label smoothing makes this line flat, cross-entropy steep.",
        figure,
        Table("Traces of label smoothing", columns, rows),
    )


def confidence_plot(diagnosis: Diagnosis) -> Plot:
    """Confidence of right and of wrong predictions."""
    found = diagnosis.data["confidence"]
    with styled():
        figure, [[axes]] = panels(height=2.1, width=4.6)
        for name, color in (("right", _RIGHT), ("wrong", _WRONG)):
            axes.stairs(found[name], found["edges"], fill=True, color=color, alpha=0.45)
            axes.stairs(found[name], found["edges"], color=color, label=name, linewidth=1.2)
            mean = diagnosis.numbers[f"confidence_{'correct' if name == 'right' else name}"]["value"]
            if math.isfinite(mean):
                _vertical(axes, mean, color, "--")
        axes.set_xlabel("confidence (top probability)")
        axes.set_ylabel("share of predictions")
        axes.set_xlim(0, 1)
        figure.legend(loc="outside upper center", ncols=2)
    rows = [
        [low, high, right, wrong]
        for low, high, right, wrong in zip(
            found["edges"], found["edges"][1:], found["right"], found["wrong"], strict=False
        )
    ]
    columns = [Column("lower edge"), Column("upper edge"), Column("share of right"), Column("share of wrong")]
    return Plot(
        "confidence",
        "Confidence of right and wrong predictions",
        "Share of predictions by confidence, right and wrong ones each adding up to 1; dashed lines are their means.",
        figure,
        Table("Confidence of right and wrong predictions", columns, rows),
    )


def reliability_plot(diagnosis: Diagnosis) -> Plot:
    """Accuracy by confidence, before and after the temperature."""
    found: Mapping[str, Any] = diagnosis.data["reliability"]
    temperature = diagnosis.numbers["temperature"]["value"]
    titles = {"before": "as it is", "after": f"logits / {temperature:.2f}"}
    with styled():
        figure, [row] = panels(1, 2, height=2.7, width=_WIDE, sharey=True)
        for axes, (when, title), color in zip(row, titles.items(), (_RIGHT, _AFTER), strict=True):
            _reliability_panel(axes, found[when], color)
            axes.set_title(f"{title}: ECE {diagnosis.numbers[f'ece_{when}']['value']:.3f}")
            axes.set_xlabel("confidence")
        row[0].set_ylabel("accuracy")
    rows = [
        [when, low, high, count, confidence, accuracy]
        for when in titles
        for low, high, count, confidence, accuracy in zip(
            found[when]["edges"],
            found[when]["edges"][1:],
            found[when]["count"],
            found[when]["confidence"],
            found[when]["accuracy"],
            strict=False,
        )
    ]
    columns = [Column("when", is_number=False)]
    columns += [Column(title) for title in ("lower edge", "upper edge", "samples", "confidence", "accuracy")]
    return Plot(
        "reliability",
        "Reliability before and after a temperature",
        f"Accuracy of predictions of the same confidence, in 15 bins, of {diagnosis.data['judged']}; on the dashed "
        "line confidence can be taken at its word, above it the model is better than it says. Larger dots stand for "
        "more samples.",
        figure,
        Table("Reliability", columns, rows),
    )


def risk_plot(diagnosis: Diagnosis) -> Plot:
    """Risk by coverage, softmax and normalised logits."""
    found = diagnosis.data["risk"]
    power = diagnosis.numbers["norm_power"]["value"]
    looks = {"softmax": (_RIGHT, "-", "top probability"), "norm": (_AFTER, "--", f"logits over {power:g}-norm")}
    with styled():
        figure, [[axes]] = panels(height=2.2, width=4.6)
        for name, curve in found.items():
            color, line, label = looks[name]
            axes.plot(curve["coverage"], curve["risk"], color=color, linestyle=line, label=label)
        axes.set_xlabel("coverage (share of predictions kept)")
        axes.set_ylabel("risk (share of errors)")
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        figure.legend(loc="outside upper center", ncols=2)
    rows = [
        [looks[name][2], coverage, risk]
        for name, curve in found.items()
        for coverage, risk in zip(curve["coverage"], curve["risk"], strict=True)
    ]
    columns = [Column("ranked by", is_number=False), Column("coverage"), Column("risk")]
    return Plot(
        "risk",
        "Risk and coverage",
        "Share of errors among the predictions kept when the least confident ones are rejected; lower is better.",
        figure,
        Table("Risk and coverage", columns, rows),
    )


def collapse_plot(diagnosis: Diagnosis) -> Plot | None:
    """The model among the paper's reference values."""
    numbers = diagnosis.numbers
    if "within" not in numbers:
        return None
    own = numbers["within"]["value"], numbers["r_squared"]["value"]
    with styled():
        figure, [[axes]] = panels(height=2.5, width=4.6)
        for name, (within, r_squared) in REFERENCES.items():
            look = LOOKS[_METHODS.get(name, "logit_penalty")]
            axes.plot([within], [r_squared], marker=look.marker, linestyle="none", color=look.color, markersize=5)
            offset = (5, -8) if name == "Zipf-LS" else (5, 3)
            axes.annotate(name, (within, r_squared), xytext=offset, textcoords="offset points", color="#555555")
        axes.plot([own[0]], [own[1]], "*", color="#000000", markersize=11)
        axes.annotate("this model", own, xytext=(7, -9), textcoords="offset points", fontweight="bold", color="#000000")
        axes.margins(0.2)
        axes.set_xlabel("within (mean cosine distance inside a class)")
        axes.set_ylabel("$R^2$ (separation of classes)")
        axes.grid()
    rows = [["this model", *own], *([name, *values] for name, values in REFERENCES.items())]
    columns = [Column("model", is_number=False), Column("within", 4), Column("r_squared", 4)]
    return Plot(
        "collapse",
        "Variation within classes and separation between them",
        f"The star is this model; the others are ResNet-50 on ImageNet validation images ({REFERENCE_SOURCE} of the "
        "paper). Only the same network on the same data can be compared closely.",
        figure,
        Table("Collapse", columns, rows),
    )


def _vertical(axes: Axes, position: float, color: str, line: str) -> None:
    axes.axvline(position, color=color, linestyle=line, linewidth=1.0)


def _reliability_panel(axes: Axes, found: Mapping[str, Any], color: str) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=0.8)
    total = sum(found["count"]) or 1
    points = [
        (confidence, accuracy, 8 + 160 * count / total)
        for confidence, accuracy, count in zip(found["confidence"], found["accuracy"], found["count"], strict=True)
        if count
    ]
    axes.plot([point[0] for point in points], [point[1] for point in points], color=color)
    axes.scatter(*zip(*points, strict=True), color=color, alpha=0.8, linewidths=0)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(0, 1.02)
    axes.set_aspect("equal")
    axes.grid()
