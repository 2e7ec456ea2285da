from pathlib import Path

import pytest
import torch

from maxsup.analysis import RunOutputs
from maxsup.analysis.analyses import longtail
from tests.unit.analysis.made import long_tail, make_run


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
    numbers = {name: entry["value"] for name, entry in result["numbers"].items()}
    many = [label for label in range(10) if counts[label] > 100]
    low = [label for label in range(10) if counts[label] < 20]
    assert numbers["accuracy_many"] == pytest.approx(float(per_class[many].mean()))
    assert numbers["accuracy_low"] == pytest.approx(float(per_class[low].mean()))
    assert numbers["balanced_accuracy"] == pytest.approx(float(per_class.mean()))
    assert numbers["accuracy"] == pytest.approx(float(is_right.mean()))
    assert result["data"]["accuracy"] == pytest.approx(per_class.tolist())


def test_a_group_without_classes_has_no_accuracy(tail_run: RunOutputs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longtail, "shot_groups", lambda counts: {"many": list(range(10))})
    numbers = longtail.compute(tail_run, split="test")["numbers"]
    assert numbers["accuracy_low"]["value"] != numbers["accuracy_low"]["value"]
    assert numbers["accuracy_many"]["value"] > 0.3


def test_balanced_data_is_an_obstacle(digit_runs: list[Path]) -> None:
    reason = longtail.obstacle(RunOutputs(digit_runs[0]), split="test")
    assert reason == "all classes have alike many training images (139 to 146)"
