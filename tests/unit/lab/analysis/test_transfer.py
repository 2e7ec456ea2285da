"""A linear probe of a checkpoint's features on other data, against scikit-learn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from maxsup.core.errors import DataError
from maxsup.lab.analysis.foreign_checkpoints import checkpoint_outputs
from maxsup.lab.analysis.other_data import OtherData
from maxsup.lab.analysis.transfer import transferred
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.core.display import Display
from maxsup.lab.data import load_data
from maxsup.lab.models import Program, create_model

OPTIONS = ["model.options.widths=[4, 8]"]


def test_transfer_is_the_accuracy_of_a_logistic_regression_on_the_features(tmp_path: Path) -> None:
    torch.manual_seed(0)
    file = tmp_path / "weights.pth"
    torch.save(create_model("small_cnn", 10, in_channels=1, widths=(4, 8)).state_dict(), file)
    parts = {
        split: checkpoint_outputs("small_cnn", file, "digits", split=split, overrides=OPTIONS).outputs
        for split in ("train", "val")
    }
    found = checkpoint_outputs("small_cnn", file, "digits", transfer="digits", overrides=OPTIONS)
    assert found.transfer is not None
    features, labels = (torch.cat([getattr(each, name) for each in parts.values()]) for name in ("features", "labels"))
    expected = LogisticRegression(C=1 / found.transfer.strength, max_iter=5000, tol=1e-8).fit(features, labels)
    assert found.transfer.accuracy == pytest.approx(
        expected.score(found.outputs.features, found.outputs.labels), abs=1 / 359 + 1e-9
    )
    assert found.transfer.num_train == len(labels)
    assert found.transfer.num_test == len(found.outputs)


def test_a_network_without_features_is_refused() -> None:
    data = OtherData("digits", parse_recipe({"data": {"name": "digits"}}, [], source="test"), load_data("digits"))
    with pytest.raises(DataError, match="a network with features"):
        transferred(object.__new__(Program), data, label="net.onnx", progress=Display())
