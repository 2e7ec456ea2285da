import math
from pathlib import Path

import pytest
import torch

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import collapse
from maxsup.metrics import neural_collapse
from tests.unit.lab.analysis.made import NO_TEMPLATES, make_run, values


def plain_separation(features: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Mean cosine distances from all pairs, classes counting alike."""
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    distance = 1 - unit @ unit.T
    groups = [(labels == label).nonzero().flatten() for label in labels.unique()]
    blocks = [[distance[one][:, other].mean() for other in groups] for one in groups]
    within = torch.stack([blocks[place][place] for place in range(len(groups))]).mean()
    return float(within), float(torch.stack([cell for row in blocks for cell in row]).mean())


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_separation_is_that_of_all_pairs_of_features(digit_runs: list[Path], split: str) -> None:
    run = RunOutputs(digit_runs[1])
    numbers = values(collapse.compute(run, split="test", num_resamples=5))
    found = run.split(split)
    within, total = plain_separation(found.features, found.labels)
    assert numbers[f"{split}_within"] == pytest.approx(within, abs=1e-9)
    assert numbers[f"{split}_total"] == pytest.approx(total, abs=1e-9)
    assert numbers[f"{split}_r_squared"] == pytest.approx(1 - within / total, abs=1e-9)
    expected = neural_collapse(found.features, found.labels, run.weight, run.bias)
    assert numbers[f"{split}_nc3"] == pytest.approx(expected.nc3)
    right = (found.logits.argmax(1) == found.labels).tolist()
    assert numbers[f"{split}_accuracy"] == pytest.approx(sum(right) / len(right))


def test_no_direction_is_called_better(digit_runs: list[Path]) -> None:
    numbers = collapse.compute(RunOutputs(digit_runs[0]), split="test", num_resamples=5)["numbers"]
    assert all(numbers[f"train_{name}"]["direction"] == "none" for name in ("within", "total", "r_squared"))


def test_a_run_that_held_nothing_out_has_two_splits(tmp_path: Path) -> None:
    run = RunOutputs(make_run(tmp_path / "run", "ce", "data.val_share=0"))
    result = collapse.compute(run, split="test", num_resamples=5)
    assert set(result["data"]["num_samples"]) == {"train", "test"}


def test_a_head_without_templates_leaves_two_numbers_undefined(tmp_path: Path) -> None:
    run = RunOutputs(make_run(tmp_path / "tde", "ce", *NO_TEMPLATES))
    numbers = values(collapse.compute(run, split="test", num_resamples=5))
    assert math.isnan(numbers["test_nc3"])
    assert numbers["test_nc1"] > 0
