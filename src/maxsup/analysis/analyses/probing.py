"""Linear and nearest-neighbour probes: what frozen features are worth, here and on data the model never saw.

Multinomial logistic regression on features without augmentation, its strength chosen on validation data from 45 values
(:func:`maxsup.diagnosis.fit_probe`), then fitted on both and judged on the test split; a vote of the 20 nearest
neighbours by cosine beside it. On data whose within-class factors are known (``synthetic``) each of them is probed as
well: a loss that collapses classes loses them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxsup.analysis.analyses.factors import factor_r_squared
from maxsup.analysis.outputs import RunOutputs
from maxsup.analysis.registry import ANALYSES, Analysis, Result
from maxsup.data import MemorySplit, stratified_split
from maxsup.diagnosis.outputs import Outputs
from maxsup.diagnosis.probe import NUM_STRENGTHS, fit_probe, knn_accuracy
from maxsup.figures.probes import probe_figures
from maxsup.metrics import accuracy
from maxsup.metrics.facts import numbers

_HELD_OUT = 0.1


def obstacle(run: RunOutputs, *, split: str, **options: Any) -> str | None:
    """What is fitted must not be judged."""
    if split != "test":
        return f"it fits on the training and validation splits and must be judged on the test split, not on {split}"
    return None


def compute(run: RunOutputs, *, split: str, target: str | None = None, num_neighbours: int = 20) -> Result:
    """Accuracy of both probes, and what is left of known factors.

    Args:
        run: The run.
        split: Which is judged.
        target: A registered data set to probe on; the run's own if None.
        num_neighbours: That vote.
    """
    train, test = run.split("train", target), run.split(split, target)
    parts = _parts(run, train, target)
    run.progress.start(f"{run.label}: probe on {target or run.recipe.data.name}", NUM_STRENGTHS)
    (fit_x, fit_y), (val_x, val_y) = parts
    probe = fit_probe(fit_x, fit_y, val_x, val_y, on_step=lambda done, total: run.progress.advance())
    assert test.features is not None
    everything = torch.cat([fit_x, val_x]), torch.cat([fit_y, val_y])
    num_voting = min(num_neighbours, len(everything[1]))
    found = {
        "accuracy": probe.accuracy(test.features, test.labels),
        "knn_accuracy": knn_accuracy(*everything, test.features, test.labels, k=num_voting),
        "strength": probe.strength,
    }
    if target is None:
        found["head_accuracy"] = accuracy(test.logits, test.labels)
    factors = _factors(run, target)
    found |= {f"r_squared_{name}": value for name, value in factors.items()}
    data = {
        "target": target or run.recipe.data.name,
        "num_train": len(fit_y),
        "num_val": len(val_y),
        "num_test": len(test),
        "strengths": [float(strength) for strength in probe.strengths],
        "val_accuracies": [float(found) for found in probe.accuracies],
        "factors": list(factors),
    }
    return {"numbers": numbers(found), "data": data}


def _parts(run: RunOutputs, train: Outputs, target: str | None) -> list[tuple[Tensor, Tensor]]:
    """Features and labels to fit on and to choose by; without a validation split some of the first are held out."""
    assert train.features is not None
    if target is not None or run.has_val:
        val = run.split("val", target)
        assert val.features is not None
        return [(train.features, train.labels), (val.features, val.labels)]
    halves = stratified_split(train.labels, _HELD_OUT, seed=0)
    return [(train.features[members], train.labels[members]) for members in halves]


def _factors(run: RunOutputs, target: str | None) -> dict[str, float]:
    """What features hold of each factor that is known and continuous in all three splits."""
    if target is None and not run.has_val:
        return {}
    bundle = run.data(target)
    splits = {name: getattr(bundle, name) for name in ("train", "val", "test")}
    known = [set(split.factors) if isinstance(split, MemorySplit) else set() for split in splits.values()]
    names = [name for name in set.intersection(*known) if splits["train"].factors[name].is_floating_point()]
    found = {}
    for factor in sorted(names):
        rows = []
        for name, split in splits.items():
            outputs = run.split(name, target)
            assert outputs.features is not None
            assert outputs.indices is not None
            rows.append((outputs.features, split.factors[factor][outputs.indices]))
        found[factor] = factor_r_squared(factor, *rows)
    return found


ANALYSES.register(
    "probe",
    summary="linear and k-NN probe on own or other data; what features hold of known factors",
    paper="tab:extended_feature",
)(Analysis(compute, probe_figures, obstacle, counts=("num_neighbours",)))
