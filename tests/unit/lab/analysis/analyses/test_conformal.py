from pathlib import Path

import torch

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import conformal
from tests.unit.lab.analysis.made import values


def test_sets_grow_with_the_wanted_coverage(digit_runs: list[Path]) -> None:
    found = conformal.compute(RunOutputs(digit_runs[1]), split="test")
    numbers = values(found)
    assert all(numbers[f"set_size_{name}_90"] <= numbers[f"set_size_{name}_95"] for name in ("lac", "aps", "raps"))
    assert numbers["worst_class_coverage_aps_95"] == min(found["data"]["classes"]["aps_95"]["coverage"])
    assert torch.tensor(found["data"]["classes"]["lac_90"]["size"]).shape == (10,)


def test_what_chooses_the_threshold_is_not_judged_and_must_be_enough(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    assert conformal.obstacle(run, split="test") is None
    assert "must be evaluated on another one" in str(conformal.obstacle(run, split="val"))
    unheld = RunOutputs(digit_runs[0], overrides=["data.val_share=0"])
    assert "held none out" in str(conformal.obstacle(unheld, split="test"))
    few = RunOutputs(digit_runs[0], overrides=["data.val_share=0.01"])
    assert str(conformal.obstacle(few, split="test")).startswith("19 validation images are needed, and there are 1")
