"""The damage report as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from maxsup.diagnosis.findings import REFERENCE_SOURCE, REFERENCES
from maxsup.metrics.facts import BETTER
from maxsup.reports.blocks import Block, Chapter, Column, Findings, Page, Plot, Section, Table, Text, anchor, shown
from maxsup.reports.diagnosis_plots import collapse_plot, confidence_plot, reliability_plot, risk_plot, smoothing_plot
from maxsup.reports.page import page_html

if TYPE_CHECKING:
    from maxsup.diagnosis.diagnosis import Diagnosis

MAX_CLASS_ROWS = 200

# The numbers of each topic, in their order.
_NUMBERS = {
    "Label smoothing": "alpha alpha_by_scale alpha_by_gap unevenness",
    "Confidence on errors": "mean_confidence confidence_correct confidence_wrong confidence_wrong_if_calibrated",
    "Calibration": "ece ece_if_calibrated temperature ece_before ece_after nll_before nll_after adaptive_ece brier",
    "Selective classification": "norm_power aurc_before aurc_after excess_aurc_before excess_aurc_after "
    "auroc_before auroc_after fpr95_before fpr95_after",
    "Collapse": "within total r_squared nc1 nc2_norm nc2_angle nc3 nc4",
    "Probe": "accuracy_judged probe_accuracy knn_accuracy",
}
_PLOTS: dict[str, Callable[[Diagnosis], Plot | None]] = {
    "Label smoothing": smoothing_plot,
    "Confidence on errors": confidence_plot,
    "Calibration": reliability_plot,
    "Selective classification": risk_plot,
    "Collapse": collapse_plot,
}


def diagnosis_page(diagnosis: Diagnosis, *, source: str = "", facts: Mapping[str, str] | None = None) -> str:
    """The damage report as one HTML file.

    Args:
        diagnosis: What was found.
        source: Where the outputs came from, as the reader knows it.
        facts: Further names and values under the title.
    """
    data, numbers = diagnosis.data, diagnosis.numbers
    named = {
        **({"Source": source} if source else {}),
        "Samples": shown(data["num_samples"]),
        "Classes": shown(data["num_classes"]),
        "Accuracy": f"{numbers['accuracy']['value']:.2%}",
        "NLL": f"{numbers['nll']['value']:.4f}",
        "ECE": f"{numbers['ece']['value']:.4f}",
        **(facts or {}),
    }
    sections = [Section("Verdicts", [Findings(diagnosis.findings)])]
    sections += [Section(found.topic, _blocks(found.topic, diagnosis)) for found in diagnosis.findings]
    sections.append(_classes(data["classes"]))
    sections.append(_methods(data))
    lead = "What the outputs of this model say about its training, and how far its confidence can be trusted."
    return page_html(Page("Damage report", [Chapter("Damage report", sections, lead, named)]))


def _blocks(topic: str, diagnosis: Diagnosis) -> list[Block]:
    plot = _PLOTS[topic](diagnosis) if topic in _PLOTS else None
    rows = []
    for name in _NUMBERS[topic].split():
        found = diagnosis.numbers.get(name)
        if found is not None and found["value"] == found["value"]:
            rows.append([name, found["value"], found.get("low"), found.get("high"), BETTER[found["direction"]]])
    numbers = [Column(title, 4) for title in ("value", "from", "to")]
    columns = [Column("number", is_number=False), *numbers, Column("direction", is_number=False)]
    blocks: list[Block] = [] if plot is None else [plot]
    if topic == "Label smoothing":
        blocks.append(Text(f"The verdict is {diagnosis.smoothing.verdict!r}: {diagnosis.smoothing.reason}."))
    caption = f"{topic}: numbers with their 95 % intervals"
    return [*blocks, Table(caption, columns, rows, name=f"numbers-{anchor(topic)}")]


def _classes(rows: list[dict[str, Any]]) -> Section:
    worst = sorted(rows, key=lambda row: (row["accuracy"], -row["count"]))[:MAX_CLASS_ROWS]
    titles = ("samples", "accuracy", "mean confidence", "confidence on errors", "others taken for it")
    columns = [Column("class", is_number=False), *map(Column, titles)]
    keys = ("name", "count", "accuracy", "confidence", "confidence_wrong", "mistaken_for")
    left_out = f"; the {len(worst)} least accurate of {len(rows)}" if len(worst) < len(rows) else ""
    values = [[row[key] for key in keys] for row in worst]
    return Section("Classes", [Table(f"One row a class{left_out}", columns, values, name="numbers-classes")])


def _methods(data: Mapping[str, Any]) -> Section:
    references = ", ".join(f"{name} {within}" for name, (within, _) in REFERENCES.items())
    return Section(
        "How the numbers are made",
        [
            Text(
                f"Label smoothing is estimated from the logits of {data['traced']}: the strength for which their scale "
                "is the best one, checked against the gap of the top logit and against how evenly what is left over is "
                "shared among classes. A temperature that was applied to the logits before can pass for another "
                "strength, and mixed images (mixup, cutmix) for weak smoothing."
            ),
            Text(
                f"Temperature and norm are {data['how_fitted']} ({data['num_fitted']:,} samples fitted, "
                f"{data['num_judged']:,} judged); numbers called before and after are of the judged samples alone, "
                "all others of all samples. ECE has 15 equally wide bins; ece_if_calibrated is what a calibrated model "
                "with the same confidences stays below in 95 of 100 such samples. Intervals come from 200 bootstrap "
                "resamples."
            ),
            Text(
                "AURC is the mean share of errors over all numbers of accepted samples. Distances are cosine distances "
                f"between features, pairs of a sample with itself included; reference values of within: {references} "
                f"({REFERENCE_SOURCE} of the paper, ResNet-50 on ImageNet, validation images)."
            ),
        ],
    )
