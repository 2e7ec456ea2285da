from pathlib import Path

import pytest
import torch

from maxsup.analysis import RunOutputs
from maxsup.analysis.analyses import probing
from maxsup.analysis.analyses.factors import factor_r_squared
from maxsup.diagnosis.probe import fit_probe
from tests.unit.analysis.made import make_run

pytestmark = pytest.mark.slow


def test_the_probe_is_fitted_on_plain_features_and_judged_on_test(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    result = probing.compute(run, split="test")
    train, val, test = (run.split(name) for name in ("train", "val", "test"))
    expected = fit_probe(train.features, train.labels, val.features, val.labels)
    assert result["numbers"]["accuracy"]["value"] == pytest.approx(expected.accuracy(test.features, test.labels))
    assert result["numbers"]["strength"]["value"] == pytest.approx(expected.strength)
    assert len(result["data"]["strengths"]) == len(result["data"]["val_accuracies"]) == 45
    is_right = (test.logits.argmax(dim=1) == test.labels).double()
    assert result["numbers"]["head_accuracy"]["value"] == pytest.approx(float(is_right.mean()))
    # A head of least squares is no better than the best one.
    assert result["numbers"]["accuracy"]["value"] > result["numbers"]["head_accuracy"]["value"]
    assert 0.5 < result["numbers"]["knn_accuracy"]["value"] <= 1


def test_other_data_is_probed_with_its_own_classes(drawn_run: Path) -> None:
    result = probing.compute(RunOutputs(drawn_run), split="test", target="digits")
    assert (result["data"]["target"], result["data"]["num_test"]) == ("digits", 359)
    assert "head_accuracy" not in result["numbers"]
    assert result["data"]["factors"] == []
    assert result["numbers"]["accuracy"]["value"] > 0.3


def test_known_factors_are_probed_in_the_order_of_the_samples(drawn_run: Path) -> None:
    run = RunOutputs(drawn_run)
    result = probing.compute(run, split="test")
    assert result["data"]["factors"] == ["background", "hue", "scale", "x", "y"]
    splits = {name: getattr(run.bundle, name) for name in ("train", "val", "test")}
    rows = [(run.split(name).features, split.factors["background"]) for name, split in splits.items()]
    value = result["numbers"]["r_squared_background"]["value"]
    assert value == pytest.approx(factor_r_squared("background", *rows))
    # The background covers most of each image; even an untrained network passes it on.
    assert value > 0.5


def test_without_a_validation_split_some_of_the_training_split_is_held_out(tmp_path: Path) -> None:
    run = RunOutputs(make_run(tmp_path / "run", "ce", "data.val_share=0"))
    data = probing.compute(run, split="test")["data"]
    assert data["num_train"] + data["num_val"] == 1438
    assert 130 <= data["num_val"] <= 155


def test_what_was_fitted_on_is_not_judged(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    assert probing.obstacle(run, split="test") is None
    assert "must be judged on the test split, not on val" in str(probing.obstacle(run, split="val"))


def test_features_of_other_data_are_extracted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(tmp_path / "run", "ce", "data.options.copies=1", recipe="synthetic_cnn")
    probing.compute(RunOutputs(path), split="test", target="digits")

    def refuse(*arguments: object) -> torch.Tensor:
        raise AssertionError("a second pass")

    monkeypatch.setattr("maxsup.models.Classifier.feature_map", refuse)
    again = probing.compute(RunOutputs(path), split="test", target="digits")
    assert again["data"]["num_test"] == 359
