"""Whether published weights can be had, without waiting for a download to fail."""

import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from maxsup.lab.models import list_models
from maxsup.lab.models.libraries import hf_models as module
from maxsup.lab.models.libraries.pretrained import has_weights_here


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))


@pytest.mark.parametrize("name", [*list_models(), "timm:resnet18", "resnet18", "torchvision:resnet18"])
def test_there_are_none_where_nothing_is_stored_and_nobody_answers(name: str) -> None:
    start = time.monotonic()
    assert not has_weights_here(name)
    assert time.monotonic() - start < 30  # a download takes a minute to give up


def test_a_stored_file_is_enough(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub/models--timm--resnet18.a1_in1k/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"x")
    refs = tmp_path / "hub/models--timm--resnet18.a1_in1k/refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    assert has_weights_here("timm:resnet18")


def test_a_place_that_answers_is_enough_unless_downloads_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_answers", lambda address: True)
    assert has_weights_here("resnet18")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not has_weights_here("resnet18")
