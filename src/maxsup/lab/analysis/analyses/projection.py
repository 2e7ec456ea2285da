"""Project samples of three classes on the plane through their class templates.

**Templates** (Mueller et al. 2019): the rows of the last layer with the bias as an additional coordinate; features get
a 1 there. The plane goes through the three templates and preserves distances. **Centroids**: the plane goes through the
mean features of the three classes, as in the code behind the paper's figure. This also works if the head is not an
affine map.

Choose the three most confused classes, the three with the most similar mean features, or name them. Compared runs share
classes, samples and axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.core.checks import check_choice
from maxsup.core.errors import hint
from maxsup.diagnosis.outputs import Outputs
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.figures.features import projection_figures
from maxsup.metrics.facts import numbers

BASES = ("templates", "centroids")
CHOICES = ("confused", "similar")


def obstacle(run: RunOutputs, *, split: str, basis: str | None = None, **options: Any) -> str | None:
    """Refuse data with fewer than three classes, and templates of a head that has none."""
    if len(run.split(split).labels.unique()) < 3:
        return "a plane goes through three classes, and this data has fewer"
    if basis == "templates" and run.weight is None:
        return "its head is not an affine map and has no templates (use projection.basis=centroids)"
    return None


def agree(
    runs: Sequence[RunOutputs], *, split: str, classes: str | Sequence[str] = "confused", **options: Any
) -> dict[str, Any]:
    """Choose three classes from the outputs of all runs together."""
    return {"classes": list(pick_classes([run.split(split) for run in runs], classes))}


def compute(
    run: RunOutputs,
    *,
    split: str,
    classes: str | Sequence[str] = "confused",
    basis: str | None = None,
    num_samples: int = 80,
) -> Result:
    """Compute coordinates of training and held-out samples of three classes.

    Options:
        classes: ``confused``, ``similar``, or three class names.
        basis: ``templates`` or ``centroids``; by default templates if the head has them.
        num_samples: Largest number of samples of each class in each split.
    """
    if basis is not None:
        check_choice("basis", basis, BASES)
    outputs = run.split(split)
    names = pick_classes([outputs], classes)
    chosen = [outputs.class_names.index(name) for name in names]
    used = basis or ("templates" if run.weight is not None else "centroids")
    if used == "templates":
        if run.weight is None or run.bias is None:
            raise ValueError("basis must be centroids for a head without templates; got 'templates'. Leave it out.")
        plane = Plane(torch.cat([run.weight, run.bias.unsqueeze(1)], dim=1)[chosen])
    else:
        features, labels = run.features(split)
        plane = Plane(torch.stack([features[labels == label].double().mean(dim=0) for label in chosen]))
    found, points = dict[str, float](), {}
    for part in dict.fromkeys(("train", split)):
        features, labels = run.features(part)
        drawn = [features[_sample(labels, label, num_samples)] for label in chosen]
        if used == "templates":
            drawn = [F.pad(rows, (0, 1), value=1.0) for rows in drawn]  # a 1 for the bias coordinate
        groups = [plane.coordinates(rows) for rows in drawn]
        points[part] = [group.tolist() for group in groups]
        spread, gap = _spread(groups)
        ratio = gap / spread if spread else float("nan")
        found |= {f"{part}_spread": spread, f"{part}_gap": gap, f"{part}_gap_over_spread": ratio}
    data = {"classes": list(names), "basis": used, "corners": plane.corners.tolist(), "points": points}
    return {"numbers": numbers(found), "data": data}


def pick_classes(outputs: Sequence[Outputs], classes: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of three classes: as given, or those that all models together confuse or resemble most."""
    names = outputs[0].class_names
    if isinstance(classes, str):
        check_choice("classes", classes, CHOICES)
        likeness = sum((_confusion(each) if classes == "confused" else _similarity(each)) for each in outputs)
        assert isinstance(likeness, Tensor)
        if classes == "confused":
            # Break ties between classes that are never confused by similarity.
            likeness = likeness + 1e-3 * sum(_similarity(each) for each in outputs)
        return tuple(names[label] for label in _closest_three(likeness))
    wanted = tuple(str(name) for name in classes)
    for name in wanted:
        if name not in names:
            raise ValueError(f"class must be one of the data; got {name!r}. {hint(name, names)}")
    if len(set(wanted)) != 3:
        raise ValueError(f"classes must be three different names; got {list(wanted)}. Write classes=[a, b, c].")
    return wanted


class Plane:
    """A plane through three points ``(3, D)``, not on one line, with coordinates of other points projected on it.

    Example:
        >>> plane = Plane(torch.tensor([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 3.0, 0.0]]))
        >>> plane.coordinates(torch.tensor([[1.0, 1.0, 5.0], [2.0, 1.0, -7.0]])).tolist()
        [[0.0, 0.0], [1.0, 0.0]]
    """

    def __init__(self, corners: Tensor) -> None:
        corners = corners.double()
        first, second = corners[1] - corners[0], corners[2] - corners[0]
        along = F.normalize(first, dim=0)
        across = second - (second @ along) * along
        if not torch.linalg.vector_norm(across) > 1e-6 * torch.linalg.vector_norm(second):
            raise ValueError("corners of the plane must not lie on one line. Choose other classes.")
        self._origin = corners.mean(dim=0)
        self._axes = torch.stack([along, F.normalize(across, dim=0)], dim=1)
        self.corners = self.coordinates(corners)

    def coordinates(self, points: Tensor) -> Tensor:
        """Return the two coordinates of each point, ``(N, 2)``."""
        return (points.double() - self._origin) @ self._axes


def _confusion(outputs: Outputs) -> Tensor:
    """Return symmetric confusion: the shares of each class predicted as the other, summed over both directions."""
    num_classes = outputs.logits.shape[1]
    pairs = outputs.labels * num_classes + outputs.logits.argmax(dim=1)
    counts = torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes).double()
    shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    return shares + shares.T


def _similarity(outputs: Outputs) -> Tensor:
    """Return cosines between mean features of classes, centred on the mean of all classes."""
    assert outputs.features is not None
    num_classes = outputs.logits.shape[1]
    sums = torch.zeros(num_classes, outputs.features.shape[1], dtype=torch.float64)
    sums.index_add_(0, outputs.labels, outputs.features.double())
    counts = torch.bincount(outputs.labels, minlength=num_classes).unsqueeze(1)
    means = sums / counts.clamp(min=1)
    present = counts.squeeze(1) > 0
    directions = F.normalize(means - means[present].mean(dim=0), dim=1)
    return (directions @ directions.T).masked_fill(~(present & present.unsqueeze(1)), -torch.inf)


def _closest_three(likeness: Tensor) -> list[int]:
    """Return the closest pair and the class closest to both, in ascending order."""
    likeness = likeness.clone().fill_diagonal_(-torch.inf)
    pair = sorted(divmod(int(likeness.argmax()), len(likeness)))
    third = likeness[pair[0]] + likeness[pair[1]]
    third[pair] = -torch.inf
    return sorted([*pair, int(third.argmax())])


def _sample(labels: Tensor, label: int, count: int) -> Tensor:
    """Draw samples of a class, the same for every run."""
    members = (labels == label).nonzero().flatten()
    generator = torch.Generator().manual_seed(mixed_seed(0, "projection", label))
    return members[torch.randperm(len(members), generator=generator)[:count]].sort().values


def _spread(groups: Sequence[Tensor]) -> tuple[float, float]:
    """Return the RMS distance of samples from their class centre, and the mean distance between these centres."""
    centres = torch.stack([group.mean(dim=0) for group in groups])
    squares = [(group - centre).square().sum(dim=1).mean() for group, centre in zip(groups, centres, strict=True)]
    gaps = [torch.linalg.vector_norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    return float(torch.stack(squares).mean().sqrt()), float(torch.stack(gaps).mean())


ANALYSES.register(
    "projection",
    summary="three classes on the plane of their templates, train and held out, same axes for all runs",
    paper="fig:comparison",
)(Analysis(compute, projection_figures, obstacle, agree, counts=("num_samples",)))
