"""Long tails: accuracy of classes by their number of training images.

Groups are the usual ones (many: above 100 images, low: below 20, medium: between), and every class has the same weight
in its group. A group without classes has no accuracy; published tables print 0 for it.
"""

from __future__ import annotations

import torch

from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.data import shot_groups
from maxsup.lab.figures.probes import longtail_figures
from maxsup.lab.tasks.classification import class_sizes
from maxsup.metrics.facts import numbers

# A tail is long if the largest class has at least twice the images of the smallest.
_MIN_RATIO = 2.0


def obstacle(run: RunOutputs, *, split: str) -> str | None:
    """Refuse data whose classes have about the same size."""
    counts = class_sizes(run.bundle)
    if max(counts) < _MIN_RATIO * max(1, min(counts)):
        return f"all classes have about equally many training images ({min(counts)} to {max(counts)})"
    return None


def compute(run: RunOutputs, *, split: str) -> Result:
    """Compute the accuracy of all samples, of each group and of each class."""
    outputs = run.split(split)
    counts = class_sizes(run.bundle)
    is_right = (outputs.logits.argmax(dim=1) == outputs.labels).double()
    sizes = torch.bincount(outputs.labels, minlength=len(counts))
    per_class = torch.bincount(outputs.labels, is_right, minlength=len(counts)) / sizes
    groups = shot_groups(counts)
    found = {"accuracy": float(is_right.mean()), "balanced_accuracy": float(per_class[sizes > 0].mean())}
    for name in ("many", "medium", "low"):
        members = [label for label in groups.get(name, []) if sizes[label] > 0]
        found[f"accuracy_{name}"] = float(per_class[members].mean()) if members else float("nan")
    data = {
        "class_names": list(outputs.class_names),
        "num_train": counts,
        "accuracy": per_class.tolist(),
        "groups": groups,
    }
    return {"numbers": numbers(found), "data": data}


ANALYSES.register(
    "longtail", summary="accuracy of many-, medium- and low-shot classes, and of each class", paper="tab:lt"
)(Analysis(compute, longtail_figures, obstacle))
