import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from maxsup.diagnosis.probe import fit_probe
from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import probing
from maxsup.lab.analysis.analyses.probing import RIDGE_STRENGTHS, factor_r_squared
from tests.unit.lab.analysis.made import make_run, values

pytestmark = pytest.mark.slow


def test_the_probe_is_fitted_on_plain_features_and_judged_on_test(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    result = probing.compute(run, split="test")
    train, val, test = (run.split(name) for name in ("train", "val", "test"))
    expected = fit_probe(train.features, train.labels, val.features, val.labels)
    numbers = values(result)
    assert numbers["accuracy"] == pytest.approx(expected.accuracy(test.features, test.labels))
    assert numbers["strength"] == pytest.approx(expected.strength)
    assert len(result["data"]["strengths"]) == len(result["data"]["val_accuracies"]) == 45
    is_right = (test.logits.argmax(dim=1) == test.labels).double()
    assert numbers["head_accuracy"] == pytest.approx(float(is_right.mean()))
    # A head of least squares is no better than the best one.
    assert numbers["accuracy"] > numbers["head_accuracy"]
    assert 0.5 < numbers["knn_accuracy"] <= 1


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
    assert "must be evaluated on the test split, not on val" in str(probing.obstacle(run, split="val"))


def test_features_of_other_data_are_extracted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(tmp_path / "run", "ce", "data.options.copies=1", recipe="synthetic_cnn")
    probing.compute(RunOutputs(path), split="test", target="digits")

    def refuse(*arguments: object) -> torch.Tensor:
        raise AssertionError("a second pass")

    monkeypatch.setattr("maxsup.lab.models.Classifier.feature_map", refuse)
    again = probing.compute(RunOutputs(path), split="test", target="digits")
    assert again["data"]["num_test"] == 359


def parts(noise: float, count: int = 200, width: int = 6) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    features = 3 + torch.randn(3 * count, width, generator=generator, dtype=torch.float64)
    weight = torch.randn(width, generator=generator, dtype=torch.float64)
    factor = features @ weight + noise * torch.randn(3 * count, generator=generator, dtype=torch.float64)
    return list(zip(features.split(count), factor.split(count), strict=True))


def test_it_is_the_ridge_regression_of_scikit_learn_chosen_on_validation() -> None:
    train, val, test = parts(noise=4.0, count=30)

    def score(strength: float, fitted: list[tuple[torch.Tensor, torch.Tensor]], judged: tuple) -> float:
        rows, values = (torch.cat(column).numpy() for column in zip(*fitted, strict=True))
        unit = np.linalg.eigvalsh(np.cov(rows.T, bias=True) * len(rows)).mean()
        return float(Ridge(alpha=strength * unit).fit(rows, values).score(judged[0].numpy(), judged[1].numpy()))

    best = max(RIDGE_STRENGTHS, key=lambda strength: score(strength, [train], val))
    expected = score(best, [train, val], test)
    assert factor_r_squared("x", train, val, test) == pytest.approx(expected, abs=1e-8)


def test_what_features_do_not_hold_is_not_found() -> None:
    rows = parts(noise=0.0)
    generator = torch.Generator().manual_seed(5)
    shuffled = [(features, torch.rand(len(features), generator=generator)) for features, _ in rows]
    assert abs(factor_r_squared("x", *shuffled)) < 0.1
    assert factor_r_squared("x", *rows) == pytest.approx(1.0, abs=1e-6)


def test_a_hue_that_passes_its_end_is_still_one_colour() -> None:
    hue = torch.rand(600, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    angle = 2 * math.pi * hue
    features = torch.stack([angle.cos(), angle.sin(), torch.ones_like(angle)], dim=1)
    rows = list(zip(features.split(200), hue.split(200), strict=True))
    assert factor_r_squared("hue", *rows) == pytest.approx(1.0, abs=1e-6)
    # As a number from 0 to 1 it would jump where red meets red.
    assert factor_r_squared("other", *rows) < 0.8
