"""The study of released weights, on made-up networks of their shape and pictures of noise."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import StorageError
from maxsup.diagnosis.side_by_side import diagnose_side_by_side
from maxsup.lab.experiments import released_weights
from maxsup.lab.experiments.released_weights import (
    CLAIMS,
    LOSSES,
    _paper_section,
    fetched,
    loss_of,
    run_released_weights,
    verdict,
)
from maxsup.lab.models import class_names_of
from maxsup.lab.reports.blocks import Table, Text
from tests.unit.lab.models.test_released_weights import released, saved

SAMPLES = "MAXSUP_IMAGENET_SAMPLES"


def pictures(folder: Path, names: Iterable[str], num_each: int) -> Path:
    dice = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        for index in range(num_each):
            pixels = dice.integers(0, 256, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{index}.png")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    names = class_names_of("torchvision:resnet18", 1000)[:1000:100]
    return pictures(tmp_path / "val", [aliases[0] for aliases in names], 20)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A small network in the place of the ResNet-50, under the names that Lightning, torch and nobody add."""
    monkeypatch.setattr(released_weights, "NETWORK", "torchvision:resnet18")
    small = [word for word in released_weights.TRANSFORM if "image_size" not in word]
    monkeypatch.setattr(released_weights, "TRANSFORM", [*small, "data.image_size=32"])
    network = released("resnet18", 1000)
    made = {}
    for loss, prefix in zip(LOSSES, ("", "module.", "model."), strict=True):
        made[loss] = saved(tmp_path / f"{loss}.ckpt", network, prefix)
        with torch.no_grad():
            network.fc.weight.mul_(3.0)
            network.fc.bias.mul_(3.0)
    return made


@pytest.mark.slow
def test_three_files_become_a_page_with_every_claim(photos: Path, files: dict[str, Path], tmp_path: Path) -> None:
    others = pictures(tmp_path / "others", ("stripes", "dots"), 50)
    target = pictures(tmp_path / "target", ("left", "right"), 30)
    compared, judgements = run_released_weights(
        photos, files, tmp_path / "out", ood=f"folder:{others}", transfer=f"folder:{target}"
    )
    assert list(compared.diagnoses) == list(LOSSES)
    assert compared.num_samples == 200
    assert [each.claim for each in judgements] == list(CLAIMS)
    assert {each.verdict for each in judgements} <= {
        "confirmed",
        "not reproduced",
        "no difference within the margin",
        "inconclusive",
    }
    # The three networks differ in the scale of their logits alone.
    assert all(pair.agreement == 1.0 and pair.cka == pytest.approx(1.0, abs=1e-6) for pair in compared.pairs)
    by_number = {each.claim.number: each for each in judgements if each.claim.second == "maxsup"}
    assert by_number["within"].value == pytest.approx(0.0, abs=1e-9)
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert len(written["facts"]["maxsup"]["SHA-256"].split()[0]) == 64
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Beside the paper" in page
    assert f"linear transfer to folder:{target}" in page
    assert "ood_auroc_energy" in compared.pairs[0].numbers
    # The features of the three are the same, so their probes are.
    assert len({tuple(each.items()) for each in written["transfer"].values()}) == 1
    assert written["transfer"]["ce"]["num_train"] + written["transfer"]["ce"]["num_test"] == 60


def test_without_other_data_the_page_names_the_options_that_fill_it() -> None:
    labels = torch.arange(210) % 3
    logits = torch.randn(210, 3, generator=torch.Generator().manual_seed(0))
    compared = diagnose_side_by_side({loss: (logits, labels) for loss in LOSSES})
    table, text = _paper_section(compared, None, {}).blocks
    assert isinstance(table, Table)
    assert isinstance(text, Text)
    [row] = [row for row in table.rows if row[4] == "tab:validation_performance (CIFAR-10)"]
    assert row == ["linear transfer: --transfer cifar10 fills it", None, None, None, row[4], 0.814, 0.746, 0.810]
    assert "--transfer cifar10" in text.text
    assert "--ood folder:PATH" in text.text


@pytest.mark.slow
@pytest.mark.skipif(SAMPLES not in os.environ, reason=f"needs {SAMPLES}, a folder of ImageNet images by WordNet id")
def test_photographs_of_imagenet_go_through(files: dict[str, Path], tmp_path: Path) -> None:
    compared, _ = run_released_weights(Path(os.environ[SAMPLES]), files, tmp_path / "out")
    assert compared.num_samples >= 100


def test_a_missing_file_without_a_network_names_what_to_fetch_and_where_to_put_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(released_weights, "hub_has", lambda *_: False)
    with pytest.raises(StorageError, match=r"huggingface\.co/zhouyuxuanyx/MaxSup-Regularized-ResNet50 .* maxsup=FILE"):
        fetched("maxsup")


def test_other_losses_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="weights must be of ce, ls, maxsup"):
        run_released_weights(tmp_path, {"ols": tmp_path / "x"}, tmp_path / "out")
    with pytest.raises(StorageError, match="must be a file that is there"):
        run_released_weights(tmp_path, dict.fromkeys(LOSSES, tmp_path / "x"), tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("MaxSup_resnet50.pth", "maxsup"),
        ("resnet50-ls.ckpt", "ls"),
        ("label_smoothing/last.ckpt", "ls"),
        ("resnet50_baseline.pt", "ce"),
        ("inference.pt", None),
    ],
)
def test_names_of_files_say_their_loss(name: str, loss: str | None) -> None:
    assert loss_of(name) == loss


def test_a_claim_of_less_is_confirmed_below_0() -> None:
    lower = next(claim for claim in CLAIMS if claim.sign < 0)
    assert verdict(lower, -0.03, -0.01) == "confirmed"
    assert verdict(lower, 0.01, 0.03) == "not reproduced"
