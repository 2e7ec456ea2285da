import math
from pathlib import Path

import pytest
import torch

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import longtail
from tests.unit.lab.analysis.made import long_tail, make_run, values


@pytest.fixture(scope="module")
def tail_run(tmp_path_factory: pytest.TempPathFactory) -> RunOutputs:
    folder = tmp_path_factory.mktemp("tail")
    return RunOutputs(make_run(folder / "run", "ls", f"data.name=arrays:{long_tail(folder)}"))


def test_groups_average_their_classes(tail_run: RunOutputs) -> None:
    assert longtail.obstacle(tail_run, split="test") is None
    result = longtail.compute(tail_run, split="test")
    counts = result["data"]["num_train"]
    assert (counts[0], counts[-1]) == (140, 8)
    found = tail_run.split("test")
    is_right = (found.logits.argmax(dim=1) == found.labels).double()
    per_class = torch.stack([is_right[found.labels == label].mean() for label in range(10)])
    numbers = values(result)
    for name, is_member in (("many", lambda count: count > 100), ("low", lambda count: count < 20)):
        members = [label for label in range(10) if is_member(counts[label])]
        assert numbers[f"accuracy_{name}"] == pytest.approx(float(per_class[members].mean()))
    assert numbers["balanced_accuracy"] == pytest.approx(float(per_class.mean()))
    assert numbers["accuracy"] == pytest.approx(float(is_right.mean()))
    assert result["data"]["accuracy"] == pytest.approx(per_class.tolist())


def test_a_group_without_classes_has_no_accuracy(tail_run: RunOutputs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longtail, "shot_groups", lambda counts: {"many": list(range(10))})
    numbers = values(longtail.compute(tail_run, split="test"))
    assert math.isnan(numbers["accuracy_low"])
    assert numbers["accuracy_many"] > 0.3


def test_balanced_data_is_an_obstacle(digit_runs: list[Path]) -> None:
    reason = longtail.obstacle(RunOutputs(digit_runs[0]), split="test")
    assert reason == "all classes have about equally many training images (139 to 146)"
