"""Out-of-distribution detection (:mod:`maxsup.metrics.novelty`): does the network notice images of another kind?

The other images come from another data set (``ood.data=NAME``). By default they are the run's own held-out images with
their pixels shuffled: the same colours without any shape, which is far from the data. OpenOOD calls sets near if they
differ from the data in meaning and far if they differ in looks too; known pairs are marked in the result.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maxsup import metrics
from maxsup.lab.analysis.extraction import extracted, limited
from maxsup.lab.analysis.other_data import shared_classes
from maxsup.lab.analysis.outputs import MAX_IMAGES, RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.data import MemorySplit
from maxsup.lab.figures.probes import ood_figures
from maxsup.metrics.facts import numbers
from maxsup.metrics.novelty import NUM_NEIGHBOURS

SHUFFLED = "shuffled pixels"

NEAR = {frozenset(("cifar10", "cifar100"))}
"""Pairs of data sets that OpenOOD calls near; other photographs than those of training are far."""


def obstacle(
    run: RunOutputs, *, split: str, data: str | None = None, num_neighbours: int = NUM_NEIGHBOURS
) -> str | None:
    """Refuse images that cannot be shuffled, and data with classes of the run's own."""
    if data is None:
        if isinstance(getattr(run.bundle, split), MemorySplit):
            return None
        return "its images are files, whose pixels are not shuffled; name other images with ood.data=NAME"
    if shared := shared_classes(run.bundle.class_names, run.data(data).class_names):
        return f"{data} has classes of the run's own data ({shared}), so its images are not out of distribution"
    return None


def compute(run: RunOutputs, *, split: str, data: str | None = None, num_neighbours: int = NUM_NEIGHBOURS) -> Result:
    """Compute AUROC and FPR95 of top probability, top logit, energy and k-NN.

    Options:
        data: A registered data set, or ``folder:PATH``; by default the run's own images with their pixels shuffled.
        num_neighbours: The neighbour among the training features whose distance counts.
    """
    known, train = run.split(split), run.features("train")[0]
    if data is None:
        other_logits, other_features = _shuffled(run, split)
    else:
        other = run.split("test", data)
        assert other.features is not None
        other_logits, other_features = other.logits, other.features
    assert known.features is not None
    k = min(num_neighbours, len(train))
    ours, theirs = (
        {**metrics.novelty_scores(logits), "knn": metrics.neighbour_score(train, features, k)}
        for logits, features in ((known.logits, known.features), (other_logits, other_features))
    )
    found = dict[str, float]()
    for name, score in ours.items():
        measured = metrics.detection(score, theirs[name])
        found |= {f"ood_auroc_{name}": measured.auroc, f"ood_fpr95_{name}": measured.fpr95}
    own = run.recipe.data.name
    facts = {
        "others": data or SHUFFLED,
        "distance": "near" if frozenset((own, data)) in NEAR else "far" if data is None else "",
        "num_known": len(known),
        "num_others": len(other_logits),
        "num_neighbours": k,
    }
    return {"numbers": numbers(found), "data": facts}


def _shuffled(run: RunOutputs, split: str) -> tuple[Tensor, Tensor]:
    """Return logits and features of images whose pixels are shuffled, each image in its own way."""
    whole = limited(getattr(run.bundle, split), MAX_IMAGES)
    generator = torch.Generator().manual_seed(0)
    images = whole.images.flatten(2)
    order = torch.rand(len(images), images.shape[2], generator=generator).argsort(dim=1)
    mixed = images.gather(2, order.unsqueeze(1).expand_as(images)).view_as(whole.images)
    pipeline = run.pipeline(replace(whole, images=mixed.contiguous()))
    run.progress.start(f"{run.label}: outputs of {SHUFFLED}", pipeline.num_batches)
    found = extracted(run.model, pipeline, precision=run.recipe.precision, progress=run.progress)
    return found["logits"], found["features"]


ANALYSES.register(
    "ood",
    summary="out-of-distribution detection by probability, logit, energy and k-NN: AUROC and FPR95",
    paper="-",
)(Analysis(compute, ood_figures, obstacle, counts=("num_neighbours",)))
