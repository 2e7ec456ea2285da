"""Linear transfer: do features of a network tell the classes of another data set apart?"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.diagnosis.probe import DEFAULT_STRENGTHS, fit_probe
from maxsup.lab.analysis.other_data import OtherData
from maxsup.lab.core.display import Display
from maxsup.lab.models import Classifier, Program


class Transfer(NamedTuple):
    """A linear probe of frozen features on another data set, as in the analysis ``probe``."""

    accuracy: float
    strength: float
    num_train: int  # training and validation images
    num_test: int


def transferred(network: Classifier | Program, target: OtherData, *, label: str, progress: Display) -> Transfer:
    """Fit a probe on the training split of other data, choose its strength on validation, and judge it on test."""
    if isinstance(network, Program):
        raise DataError(
            f"transfer must be from a network with features; got {label!r}, which gives logits alone. Leave it out."
        )
    train, val, test = (_features(network, target, split, label, progress) for split in ("train", "val", "test"))
    progress.start(f"{label}: probe on {target.name}", len(DEFAULT_STRENGTHS))
    probe = fit_probe(*train, *val, on_step=lambda done, total: progress.advance())
    return Transfer(probe.accuracy(*test), probe.strength, len(train[1]) + len(val[1]), len(test[1]))


def _features(
    network: Classifier, target: OtherData, split: str, label: str, progress: Display
) -> tuple[Tensor, Tensor]:
    found = target.outputs(network, split, label=label, progress=progress)
    return found["features"], found["labels"]
