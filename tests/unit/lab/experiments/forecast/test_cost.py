"""What a study needs at full scale, from its recipes alone."""

from __future__ import annotations

import pytest

from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.experiments.forecast.cost import OPERATIONS_PER_SECOND, expected_cost, study_cost
from maxsup.lab.experiments.study_files import load_study


def test_operations_of_a_known_network_are_counted() -> None:
    cost = expected_cost([load_recipe("cifar100_resnet", ["model.name=resnet18_cifar", "epochs=1"])])
    # He et al.: 0.56 G multiply-adds of this network at 32 pixels; two operations each, three passes, 50,000 images.
    assert cost.gpu_hours * 3600 == pytest.approx(3 * 2 * 0.556e9 * 50_000 / OPERATIONS_PER_SECOND, rel=0.02)
    assert cost.data == {"cifar100": 0.2}
    # 11.2 M weights and their momentum, of the last and the best epoch, and outputs of three splits.
    assert cost.disk_gb == pytest.approx((2 * 2 * 11.2e6 * 4 + 3 * 50_000 * (100 + 512) * 4) / 1e9, rel=0.02)


def test_what_is_not_known_is_not_counted_but_said() -> None:
    cost = expected_cost([load_recipe("folder_finetune", ["data.name=folder:photos", "model.name=resnet18"])])
    assert (cost.gpu_hours, cost.num_unknown, cost.data) == (0.0, 1, {"folder:photos": None})
    assert "1 of the runs not counted" in cost.lines()[-1]


def test_a_study_states_its_estimate_and_from_what() -> None:
    cost = study_cost(load_study("tab_corrupted"), "full")
    hours, disk, data = cost.lines()
    assert hours.startswith("about 13 GPU-hours of training: an estimate from")
    assert "at 30 TFLOP/s" in hours
    assert "GB of disk" in disk
    assert data == "data: cifar10 (0.2 GB), cifar10_c (2.9 GB)"
    assert study_cost(load_study("tab_corrupted"), "tiny").lines()[0].startswith("less than 0.1 GPU-hours")
