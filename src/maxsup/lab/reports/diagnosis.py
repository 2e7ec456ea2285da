"""The damage report as a page: findings, plots with the numbers behind them, and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from maxsup.diagnosis.findings import REFERENCE_SOURCE, REFERENCES
from maxsup.diagnosis.smoothing import plateau_gap
from maxsup.lab.figures.calibration import confidence_figure, reliability_figure, risk_figure
from maxsup.lab.figures.features import collapse_figure
from maxsup.lab.figures.logits import smoothing_figure
from maxsup.lab.figures.style import INK, LOOKS, WIDE, Look
from maxsup.lab.reports.blocks import (
    Block,
    Chapter,
    Column,
    Findings,
    Page,
    Plot,
    Section,
    Table,
    Text,
    anchor,
    csv_text,
)
from maxsup.lab.reports.page import page_html
from maxsup.metrics.facts import BETTER

if TYPE_CHECKING:
    from maxsup.diagnosis.diagnosis import Diagnosis

MAX_CLASS_ROWS = 200
_WIDTH = 4.6
_BEFORE, _AFTER = "#0072B2", "#009E73"
_GUIDES = (0.05, 0.1, 0.2)
_THIS_MODEL = "this model"
# The numbers of each topic, in their order.
NUMBERS = {
    "Classes": "accuracy worst_class_accuracy top_confusion",
    "Label smoothing": "alpha alpha_by_scale alpha_by_gap unevenness",
    "Confidence on errors": "mean_confidence confidence_correct confidence_wrong confidence_wrong_if_calibrated",
    "Calibration": "ece ece_if_calibrated temperature ece_before ece_after nll_before nll_after nll_calibration "
    "brier_before brier_after brier_calibration adaptive_ece brier",
    "Selective classification": "norm_power aurc_before aurc_after excess_aurc_before excess_aurc_after "
    "auroc_before auroc_after fpr95_before fpr95_after set_size_lac_90 set_coverage_lac_90 worst_class_coverage_lac_90 "
    "set_size_lac_95 set_coverage_lac_95 worst_class_coverage_lac_95",
    "Other images": "ood_auroc_max_probability ood_auroc_max_logit ood_auroc_energy ood_fpr95_max_probability "
    "ood_fpr95_max_logit ood_fpr95_energy ood_auroc_knn ood_fpr95_knn",
    "Collapse": "within total r_squared nc1 nc2_norm nc2_angle nc3 nc4 effective_rank "
    "effective_rank_within participation_ratio participation_ratio_within rankme rankme_within",
    "Probe": "accuracy_judged probe_accuracy knn_accuracy",
}
_METHOD_TEXTS = (
    "Label smoothing is estimated from the logits of {traced}: the strength that fits their scale best, checked with "
    "the gap of the top logit and with how evenly the remaining probability is shared among classes. A temperature "
    "that was applied to the logits earlier can look like another strength, and mixed images (mixup, cutmix) like weak "
    "smoothing.",
    "Temperature and norm are {how_fitted} ({num_fitted:,} samples fitted, {num_judged:,} judged). Numbers called "
    "before and after come from the judged samples only, all others from all samples. ECE has 15 bins of equal width; "
    "a calibrated model with the same confidences stays below ece_if_calibrated in 95 of 100 such samples. Intervals "
    "come from 200 bootstrap resamples.",
    "What remains of NLL and Brier score after the temperature is their refinement part, what it removes their "
    "calibration part.",
    "A prediction set (LAC) names all classes above a probability that was chosen on the fitted samples, so that 90 or "
    "95 % of such sets hold the true class.",
    "AURC is the mean share of errors over all numbers of accepted samples. Distances are cosine distances between "
    "features and include pairs of a sample with itself; reference values of within: {references} ({source} of the "
    "paper, ResNet-50 on ImageNet, validation images).",
)


def diagnosis_page(diagnosis: Diagnosis, *, source: str = "", facts: Mapping[str, str] | None = None) -> str:
    """The damage report as one HTML file; ``source`` names the outputs, ``facts`` are more lines under the title."""
    data, numbers = diagnosis.data, diagnosis.numbers
    named = {
        **({"Source": source} if source else {}),
        "Samples": f"{data['num_samples']:,}",
        "Classes": f"{data['num_classes']:,}",
        "Accuracy": f"{numbers['accuracy']['value']:.2%}",
        "NLL": f"{numbers['nll']['value']:.4f}",
        "ECE": f"{numbers['ece']['value']:.4f}",
        **(facts or {}),
    }
    references = ", ".join(f"{name} {within}" for name, (within, _) in REFERENCES.items())
    methods = [Text(text.format(**data, references=references, source=REFERENCE_SOURCE)) for text in _METHOD_TEXTS]
    sections = [
        Section("Verdicts", [Findings(diagnosis.findings)]),
        *(Section(found.topic, _blocks(found.topic, diagnosis)) for found in diagnosis.findings),
        Section("How the numbers are made", methods),
    ]
    lead = "What the outputs of this model say about its training, and how far its confidence can be trusted."
    return page_html(Page("Damage report", [Chapter("Damage report", sections, lead, named)]))


def _blocks(topic: str, diagnosis: Diagnosis) -> list[Block]:
    plot = _PLOTS[topic](diagnosis) if topic in _PLOTS else None
    rows = []
    for name in NUMBERS[topic].split():
        found = diagnosis.numbers.get(name)
        if found is not None and found["value"] == found["value"]:
            rows.append([name, found["value"], found.get("low"), found.get("high"), BETTER[found["direction"]]])
    numbers = [Column(title, 4) for title in ("value", "from", "to")]
    columns = [Column("number", is_number=False), *numbers, Column("direction", is_number=False)]
    blocks: list[Block] = [] if plot is None else [plot]
    if topic == "Label smoothing":
        blocks.append(Text(f"The verdict is {diagnosis.smoothing.verdict!r}: {diagnosis.smoothing.reason}."))
    caption = f"{topic}: numbers with their 95 % intervals"
    blocks.append(Table(caption, columns, rows, name=f"numbers-{anchor(topic)}"))
    if topic == "Classes":
        blocks += [_class_table(diagnosis.data["classes"]), _confusion_table(diagnosis.data["confusions"])]
    return blocks


def _class_table(rows: list[dict[str, Any]]) -> Table:
    worst = sorted(rows, key=lambda row: (row["accuracy"], -row["count"]))[:MAX_CLASS_ROWS]
    titles = ("samples", "accuracy", "mean confidence", "confidence on errors", "others taken for it")
    keys = ("name", "count", "accuracy", "confidence", "confidence_wrong", "mistaken_for")
    caption = f"One row per class; the {len(worst)} least accurate of {len(rows)}"
    return Table(
        caption if len(worst) < len(rows) else "One row per class",
        [Column("class", is_number=False), *map(Column, titles)],
        [[row[key] for key in keys] for row in worst],
        name="every-class",
    )


def _confusion_table(rows: list[dict[str, Any]]) -> Table:
    titles = ("times", "of", "share", "from", "to")
    keys = ("label", "predicted", "count", "size", "share", "low", "high")
    return Table(
        "The strongest confusions, by the lower bound of their share; intervals hold for all pairs of classes at once",
        [*(Column(title, is_number=False) for title in ("true class", "taken for")), *map(Column, titles)],
        [[row[key] for key in keys] for row in rows],
        name="confusions",
    )


def _smoothing_plot(diagnosis: Diagnosis) -> Plot | None:
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
    words = "the orange line and band are the estimate and its interval, " if found.alpha else ""
    return Plot(
        "smoothing",
        "Traces of label smoothing",
        f"Left: how far the top logit of right predictions is above the others; {words}dotted lines are the plateaus "
        "of strengths 0.05, 0.1 and 0.2. Right: mean probability of a class when another one is predicted, "
        "over all pairs of classes; label smoothing makes this line flat, cross-entropy makes it steep.",
        figure,
        csv_text(["curve", "x or lower edge", "upper edge", "value"], rows),
    )


def _confidence_plot(diagnosis: Diagnosis) -> Plot:
    found, numbers = diagnosis.data["confidence"], diagnosis.numbers
    edges = found["edges"]
    means = {name: numbers[f"confidence_{key}"]["value"] for name, key in (("right", "correct"), ("wrong", "wrong"))}
    rows = zip(edges, edges[1:], found["right"], found["wrong"], strict=False)
    return Plot(
        "confidence",
        "Confidence of right and wrong predictions",
        "Share of predictions by confidence; right and wrong ones each add up to 1, dashed lines are their means.",
        confidence_figure(edges, found, means, width=_WIDTH),
        csv_text(["lower edge", "upper edge", "share of right", "share of wrong"], rows),
    )


def _reliability_plot(diagnosis: Diagnosis) -> Plot:
    found, numbers = diagnosis.data["reliability"], diagnosis.numbers
    words = {"before": "as it is", "after": f"logits / {numbers['temperature']['value']:.2f}"}
    titles = {when: f"{text}: ECE {numbers[f'ece_{when}']['value']:.3f}" for when, text in words.items()}
    looks = {"before": Look(titles["before"], _BEFORE, "o"), "after": Look(titles["after"], _AFTER, "^", "--")}
    rows: list[list[Any]] = []
    for when in looks:
        edges, *columns = (found[when][key] for key in ("edges", "count", "confidence", "accuracy"))
        rows += [[when, *entry] for entry in zip(edges, edges[1:], *columns, strict=False)]
    return Plot(
        "reliability",
        "Reliability before and after a temperature",
        f"Accuracy by confidence in 15 bins, of {diagnosis.data['judged']}. On the dashed line confidence equals "
        "accuracy; above it the model is better than it says. Below: how the predictions are spread over confidence.",
        reliability_figure({when: found[when] for when in looks}, looks, width=_WIDTH),
        csv_text(["when", "lower edge", "upper edge", "samples", "confidence", "accuracy"], rows),
    )


def _risk_plot(diagnosis: Diagnosis) -> Plot:
    found = diagnosis.data["risk"]
    power = diagnosis.numbers["norm_power"]["value"]
    looks = {
        "softmax": Look("top probability", _BEFORE, "o"),
        "norm": Look(f"logits over {power:g}-norm", _AFTER, "^", "--"),
    }
    rows = [
        [looks[name].label, *point]
        for name, curve in found.items()
        for point in zip(curve["coverage"], curve["risk"], strict=True)
    ]
    return Plot(
        "risk",
        "Risk and coverage",
        "Errors among the predictions that are kept when the least confident ones are rejected; lower is better.",
        risk_figure(found, {name: looks[name] for name in found}, width=_WIDTH),
        csv_text(["ranked by", "coverage", "risk"], rows),
    )


def _collapse_plot(diagnosis: Diagnosis) -> Plot | None:
    numbers = diagnosis.numbers
    if "within" not in numbers:
        return None
    points = [(_THIS_MODEL, numbers["within"]["value"], numbers["r_squared"]["value"])]
    points += [(name, *values) for name, values in REFERENCES.items()]
    looks = {look.label: look for look in (*LOOKS.values(), Look(_THIS_MODEL, INK, "*"))}
    return Plot(
        "collapse",
        "Variation within classes and separation between them",
        f"The star is this model; the others are ResNet-50 on ImageNet validation images ({REFERENCE_SOURCE} of the "
        "paper). Only the same network on the same data can be compared closely.",
        collapse_figure({"": points}, looks, width=_WIDTH, names_dots=True),
        csv_text(["model", "within", "r_squared"], points),
    )


_PLOTS: dict[str, Callable[[Diagnosis], Plot | None]] = {
    "Label smoothing": _smoothing_plot,
    "Confidence on errors": _confidence_plot,
    "Calibration": _reliability_plot,
    "Selective classification": _risk_plot,
    "Collapse": _collapse_plot,
}
