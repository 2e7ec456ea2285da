"""A run gives its numbers by source and name; an experiment compares its arms by any of them."""

import json
import math
from pathlib import Path

import pytest

from maxsup.lab.core.config import LossConfig, Recipe
from maxsup.lab.experiments.experiment import Arm, Experiment, Setting
from maxsup.lab.experiments.run import Result, Run
from tests.unit.lab.experiments.made import finish_run

SEEDS = tuple(range(6))


def test_a_number_is_found_by_its_source_and_name(tmp_path: Path) -> None:
    finish_run(tmp_path, 0.9, nll=0.3, val_accuracy=0.8)
    (tmp_path / "timing.jsonl").write_text('{"epoch": 0, "seconds": 1.0}\n{"epoch": 1, "seconds": 2.0}\n')
    found = {"facts": {"split": "test"}, "numbers": {"train_within": {"value": 0.25}}, "data": {}}
    (tmp_path / "collapse.json").write_text(json.dumps(found))
    run = Run(tmp_path, Recipe(), {"collapse": tmp_path / "collapse.json", "probe": tmp_path / "probe.json"})
    names = ("test.accuracy", "val.accuracy", "test.nll", "timing.seconds", "collapse.train_within")
    assert [run.number(name) for name in names] == [0.9, 0.8, 0.3, 1.5, 0.25]
    assert all(math.isnan(run.number(name)) for name in ("test.ace", "probe.top1", "logits.confidence"))


def test_a_run_that_was_not_made_has_no_numbers(tmp_path: Path) -> None:
    run = Run(tmp_path / "none", Recipe(loss=LossConfig(name="ls", alpha=0.1)))
    assert run.loss.label == "ls alpha=0.1"
    assert math.isnan(run.number("test.accuracy"))


@pytest.fixture
def result(tmp_path: Path) -> Result:
    arms = [Arm(name=name, loss=LossConfig(name=name)) for name in ("ce", "maxsup")]
    runs = {}
    for arm, accuracy, nll in (("ce", 0.8, 0.5), ("maxsup", 0.9, 0.7)):
        for seed in SEEDS:
            finish_run(tmp_path / f"{arm}{seed}", accuracy + 0.001 * seed, nll=nll + 0.01 * seed)
            runs[arm, seed] = Run(tmp_path / f"{arm}{seed}", Recipe())
    return Result(Experiment(setting=Setting(recipe="digits_cnn"), arms=arms, seeds=SEEDS), runs)


@pytest.mark.parametrize(("name", "finding"), [("test.accuracy", "better"), ("test.nll", "worse")])
def test_arms_are_compared_in_the_direction_of_the_number(result: Result, name: str, finding: str) -> None:
    found = result.compare(name, "ce")
    assert list(found) == ["maxsup"]
    assert (found["maxsup"].finding(), found["maxsup"].num_pairs) == (finding, 6)


def test_a_seed_without_a_run_takes_its_pair_with_it(result: Result) -> None:
    runs = {key: run for key, run in result.runs.items() if key != ("maxsup", 3)}
    found = Result(result.experiment, runs).compare("test.accuracy", "ce")["maxsup"]
    assert (found.num_pairs, found.num_missing, found.finding()) == (5, 1, "too few seeds")
