"""Plots of the damage report, each with the numbers behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxsup.diagnosis.findings import REFERENCE_SOURCE, REFERENCES
from maxsup.diagnosis.smoothing import plateau_gap
from maxsup.figures.calibration import confidence_figure, reliability_figure, risk_figure
from maxsup.figures.features import collapse_figure
from maxsup.figures.logits import smoothing_figure
from maxsup.figures.style import INK, WIDE, Look, loss_look
from maxsup.reports.blocks import Plot, csv_text

if TYPE_CHECKING:
    from maxsup.diagnosis.diagnosis import Diagnosis

_WIDTH = 4.6
_BEFORE, _AFTER = "#0072B2", "#009E73"
_GUIDES = (0.05, 0.1, 0.2)
_THIS_MODEL = "this model"
_METHODS = {"CE": "ce", "LS": "ls", "OLS": "ols", "Zipf-LS": "zipf_ls", "MaxSup": "maxsup"}


def smoothing_plot(diagnosis: Diagnosis) -> Plot | None:
    """Gap of the top logit, and who gets the probability that is left over."""
    traces, found = diagnosis.data["traces"], diagnosis.smoothing
    if "gap" not in traces or "left_over" not in traces:
        return None
    num_classes = diagnosis.data["num_classes"]
    edges, counts = traces["gap"]["edges"], traces["gap"]["count"]
    shares, probabilities = traces["left_over"]["share"], traces["left_over"]["probability"]
    estimate = None
    if found.alpha and found.low and found.high:
        gap, low, high = (plateau_gap(alpha, num_classes) for alpha in (found.alpha, found.high, found.low))
        estimate = (gap, low, high)
    figure = smoothing_figure(
        (edges, counts),
        (shares, probabilities),
        plateaus={alpha: plateau_gap(alpha, num_classes) for alpha in _GUIDES},
        estimate=estimate,
        level=found.alpha / num_classes if found.alpha else None,
        width=WIDE,
    )
    rows = [["gap", *entry] for entry in zip(edges, edges[1:], counts, strict=False)]
    rows += [["left over", share, None, value] for share, value in zip(shares, probabilities, strict=True)]
    shown = "the orange line and band are the estimate and its interval, " if found.alpha else ""
    return Plot(
        "smoothing",
        "Traces of label smoothing",
        f"Left: how far the top logit is above the others where the prediction is right; {shown}dotted lines are the "
        "plateaus of strengths 0.05, 0.1 and 0.2. Right: mean probability of a class where another one is predicted, "
        "over all pairs of classes; label smoothing makes this line flat, cross-entropy steep.",
        figure,
        csv_text(["curve", "x or lower edge", "upper edge", "value"], rows),
    )


def confidence_plot(diagnosis: Diagnosis) -> Plot:
    """Confidence of right and of wrong predictions."""
    found, numbers = diagnosis.data["confidence"], diagnosis.numbers
    edges = found["edges"]
    means = {name: numbers[f"confidence_{key}"]["value"] for name, key in (("right", "correct"), ("wrong", "wrong"))}
    rows = zip(edges, edges[1:], found["right"], found["wrong"], strict=False)
    return Plot(
        "confidence",
        "Confidence of right and wrong predictions",
        "Share of predictions by confidence, right and wrong ones each adding up to 1; dashed lines are their means.",
        confidence_figure(edges, found, means, width=_WIDTH),
        csv_text(["lower edge", "upper edge", "share of right", "share of wrong"], rows),
    )


def reliability_plot(diagnosis: Diagnosis) -> Plot:
    """Accuracy by confidence, before and after the temperature."""
    found, numbers = diagnosis.data["reliability"], diagnosis.numbers
    words = {"before": "as it is", "after": f"logits / {numbers['temperature']['value']:.2f}"}
    titles = {when: f"{text}: ECE {numbers[f'ece_{when}']['value']:.3f}" for when, text in words.items()}
    looks = {"before": Look(titles["before"], _BEFORE, "o"), "after": Look(titles["after"], _AFTER, "^", "--")}
    keys = ("count", "confidence", "accuracy")
    rows = [
        [when, *entry]
        for when in looks
        for entry in zip(
            found[when]["edges"], found[when]["edges"][1:], *(found[when][key] for key in keys), strict=False
        )
    ]
    return Plot(
        "reliability",
        "Reliability before and after a temperature",
        f"Accuracy of predictions of the same confidence, in 15 bins, of {diagnosis.data['judged']}; on the dotted "
        "line confidence can be taken at its word, above it the model is better than it says. Below: how the "
        "predictions are spread over confidence.",
        reliability_figure({when: found[when] for when in looks}, looks, width=_WIDTH),
        csv_text(["when", "lower edge", "upper edge", "samples", "confidence", "accuracy"], rows),
    )


def risk_plot(diagnosis: Diagnosis) -> Plot:
    """Risk by coverage, softmax and normalised logits."""
    found = diagnosis.data["risk"]
    power = diagnosis.numbers["norm_power"]["value"]
    looks = {
        "softmax": Look("top probability", _BEFORE, "o"),
        "norm": Look(f"logits over {power:g}-norm", _AFTER, "^", "--"),
    }
    looks = {name: looks[name] for name in found}
    rows = [
        [looks[name].label, *point]
        for name, curve in found.items()
        for point in zip(curve["coverage"], curve["risk"], strict=True)
    ]
    return Plot(
        "risk",
        "Risk and coverage",
        "Share of errors among the predictions kept when the least confident ones are rejected; lower is better.",
        risk_figure(found, looks, width=_WIDTH),
        csv_text(["ranked by", "coverage", "risk"], rows),
    )


def collapse_plot(diagnosis: Diagnosis) -> Plot | None:
    """The model among the paper's reference values."""
    numbers = diagnosis.numbers
    if "within" not in numbers:
        return None
    points = [(_THIS_MODEL, numbers["within"]["value"], numbers["r_squared"]["value"])]
    points += [(name, *values) for name, values in REFERENCES.items()]
    looks = {_THIS_MODEL: Look(_THIS_MODEL, INK, "*")}
    for name in REFERENCES:
        look = loss_look(_METHODS.get(name, "logit_penalty"))
        looks[name] = Look(name, look.color, look.marker)
    return Plot(
        "collapse",
        "Variation within classes and separation between them",
        f"The star is this model; the others are ResNet-50 on ImageNet validation images ({REFERENCE_SOURCE} of the "
        "paper). Only the same network on the same data can be compared closely.",
        collapse_figure({"": points}, looks, width=_WIDTH, names_dots=True),
        csv_text(["model", "within", "r_squared"], points),
    )
