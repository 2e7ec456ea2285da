from pathlib import Path

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import repair
from tests.unit.lab.analysis.made import values


def test_a_temperature_fitted_on_validation_helps_the_test_split(digit_runs: list[Path]) -> None:
    numbers = values(repair.compute(RunOutputs(digit_runs[2]), split="test"))
    assert numbers["temperature"] < 0.9
    assert all(numbers[f"{name}_after"] < numbers[f"{name}_before"] for name in ("nll", "ece"))


def test_what_is_fitted_is_not_judged(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    assert repair.obstacle(run, split="test") is None
    assert "must be evaluated on another one" in str(repair.obstacle(run, split="val"))
    unheld = RunOutputs(digit_runs[0], overrides=["data.val_share=0"])
    assert "held none out" in str(repair.obstacle(unheld, split="test"))
