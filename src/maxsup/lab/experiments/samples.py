"""What losses do to single classes and single images, seed by seed, from the outputs that runs keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from maxsup.core.errors import hint
from maxsup.diagnosis.outputs import Outputs
from maxsup.lab.experiments.run import Result
from maxsup.lab.experiments.statistics import PairedComparison, compare_losses, holm
from maxsup.metrics import class_scores, likely_label_errors
from maxsup.metrics.facts import Direction

ArmOutputs = Mapping[str, Mapping[int, Outputs]]
"""Outputs by arm and seed, all of the same images in the same order."""

_KEPT = ("difference", "low", "high", "p", "num_pairs", "is_conclusive")


def kept_outputs(result: Result, split: str = "test") -> dict[str, dict[int, Outputs]]:
    """Return the outputs of all finished runs; those that no analysis kept are computed."""
    from maxsup.lab.analysis.outputs import RunOutputs
    from maxsup.lab.core.files.rundir import RunDir

    found: dict[str, dict[int, Outputs]] = {arm.name: {} for arm in result.experiment.arms}
    for (arm, seed), run in result.runs.items():
        if RunDir(run.path).summary.exists():
            found[arm][seed] = RunOutputs(run.path, weights=result.weights).split(split)
    return found


def class_differences(outputs: ArmOutputs, baseline: str) -> list[dict[str, Any]]:
    """Return the paired differences of each loss and class in accuracy and mean confidence.

    ``adjusted_p`` is p after Holm's correction over all rows of the same number.
    """
    _check_arm(baseline, outputs)
    seeds = sorted({seed for runs in outputs.values() for seed in runs})
    scores = {
        arm: {seed: class_scores(runs[seed].logits, runs[seed].labels) for seed in runs}
        for arm, runs in outputs.items()
    }
    first = next(each for runs in outputs.values() for each in runs.values())
    rows = list[dict[str, Any]]()
    directions: dict[str, Direction] = {"accuracy": "higher", "confidence": "none"}
    for number, direction in directions.items():
        found = list[tuple[str, str, PairedComparison]]()
        for label in range(first.num_classes):
            values = {
                arm: [float(getattr(each[seed], number)[label]) if seed in each else math.nan for seed in seeds]
                for arm, each in scores.items()
            }
            name = first.class_names[label] if first.class_names else f"class {label}"
            compared = compare_losses(values, baseline, direction=direction)
            found += [(arm, name, entry) for arm, entry in compared.items()]
        adjusted = holm([entry.p for *_, entry in found])
        for (arm, name, entry), p in zip(found, adjusted, strict=True):
            kept = {key: getattr(entry, key) for key in _KEPT}
            rows.append({"loss": arm, "class": name, "number": number, **kept, "adjusted_p": p})
    return rows


def disagreements(outputs: ArmOutputs, one: str, other: str) -> list[dict[str, Any]]:
    """Return the images for which two losses predict different classes in every seed they share.

    ``index`` is the place in the split; ``num_right`` and ``num_right_other`` count the seeds in which the first and
    the second loss are right.
    """
    for name in (one, other):
        _check_arm(name, outputs)
    seeds = sorted(outputs[one].keys() & outputs[other].keys())
    if not seeds:
        return []
    first = outputs[one][seeds[0]]
    predicted, others = (
        torch.stack([outputs[arm][seed].logits.argmax(dim=1) for seed in seeds]) for arm in (one, other)
    )
    rows = (predicted != others).all(dim=0).nonzero().squeeze(1).tolist()
    indices = range(len(first)) if first.indices is None else first.indices.tolist()
    return [
        {
            "index": indices[row],
            "label": int(first.labels[row]),
            "predicted": predicted[:, row].tolist(),
            "predicted_other": others[:, row].tolist(),
            "num_right": int((predicted[:, row] == first.labels[row]).sum()),
            "num_right_other": int((others[:, row] == first.labels[row]).sum()),
        }
        for row in rows
    ]


def label_errors(outputs: ArmOutputs) -> list[dict[str, Any]]:
    """Return images whose label is likely wrong, by the mean probability over all runs."""
    everything = [each for runs in outputs.values() for each in runs.values()]
    first = everything[0]
    # The logarithm of a mean probability is a logit.
    mean = torch.stack([each.logits.double().log_softmax(dim=1) for each in everything]).logsumexp(dim=0)
    found = likely_label_errors(mean, first.labels)
    indices = torch.arange(len(first)) if first.indices is None else first.indices
    return [
        {
            "index": int(indices[row]),
            "label": int(first.labels[row]),
            "suggested": suggested,
            "probability": probability,
        }
        for row, suggested, probability in zip(*(each.tolist() for each in found), strict=True)
    ]


def _check_arm(name: str, outputs: ArmOutputs) -> None:
    if name not in outputs:
        raise ValueError(f"loss must be one of the comparison; got {name!r}. {hint(name, outputs)}")
