"""timm: MaxSup as the criterion of its parts, and its training script run by our launcher."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from maxsup import MaxSupLoss
from maxsup.integrations import replace_label_smoothing
from maxsup.integrations.timm import main
from tests.integration.integrations.captured import captured_calls, reference_mean

pytest.importorskip("timm", reason="the extra timm is not installed")

STAND_IN = Path(__file__).with_name("stand_in_train.py")
OPTIONS = ["--script", str(STAND_IN), "--loss", "maxsup"]


def logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_criterion_of_timm_is_replaced_at_equal_strength() -> None:
    from timm.loss import LabelSmoothingCrossEntropy

    smoothed = LabelSmoothingCrossEntropy(0.1)
    logits = torch.randn(32, 10)
    target = logits.argmax(dim=1)
    difference = replace_label_smoothing(smoothed)(logits, target) - smoothed(logits, target)
    assert abs(difference.item()) < 1e-6


def test_mixup_that_smooths_is_warned_of() -> None:
    from timm.data import Mixup

    mixup = Mixup(mixup_alpha=0.2, label_smoothing=0.1, num_classes=4)
    _, target = mixup(torch.randn(4, 3, 8, 8), torch.arange(4))
    with pytest.warns(UserWarning, match=r"Targets are smoothed already \(smallest probability 0.025\)"):
        MaxSupLoss(0.1)(torch.randn(4, 4), target)


def test_the_script_trains_with_maxsup_and_without_smoothing(tmp_path: Path) -> None:
    with captured_calls() as calls:
        assert main(["train", str(tmp_path), *OPTIONS, "--alpha", "0.1", "--alpha-end", "0.2"]) == 0
    rows = logged(tmp_path)
    assert [row["alpha"] for row in rows] == pytest.approx([0.1, 0.15, 0.2], abs=1e-12)
    assert {(row["criterion"], row["smoothing"]) for row in rows} == {("MaxSupLoss", 0.0)}
    assert rows[0]["first_loss"] == pytest.approx(reference_mean(calls[0]), abs=1e-5)
    assert rows[-1]["loss"] < 0.8 * rows[0]["first_loss"]


def test_mixed_labels_reach_the_loss_unsmoothed(tmp_path: Path) -> None:
    with captured_calls() as calls:
        # An odd number of words per option: what follows one of ours must still reach the script in its order.
        assert main(["train", *OPTIONS, "--mixup", "0.8", "--alpha=0.3", str(tmp_path), "--epochs", "1"]) == 0
    assert min(call.target.min().item() for call in calls) == 0.0
    [row] = logged(tmp_path)
    assert row["alpha"] == 0.3
    assert row["first_loss"] == pytest.approx(reference_mean(calls[0]), abs=1e-5)


def test_a_resumed_run_has_the_strengths_of_the_whole_one(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    for folder in (whole, part):
        folder.mkdir()
    words = [*OPTIONS, "--alpha", "0.1", "--alpha-end", "0.3"]
    assert main(["train", str(whole), *words]) == 0
    assert main(["train", str(part), *words, "--resume", str(whole / "epoch0.pt")]) == 0
    assert [(row["epoch"], row["alpha"]) for row in logged(part)] == [
        (row["epoch"], row["alpha"]) for row in logged(whole)[1:]
    ]
    assert [row["loss"] for row in logged(part)] == pytest.approx([row["loss"] for row in logged(whole)[1:]], abs=1e-6)


def test_a_schedule_over_a_single_epoch_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(tmp_path), *OPTIONS, "--alpha-end", "0.2", "--epochs", "1"]) == 2
    assert "which moves between epochs; got 1. Raise --epochs" in capsys.readouterr().err


def test_class_weights_of_the_script_are_taken_over(tmp_path: Path) -> None:
    assert main(["train", str(tmp_path), *OPTIONS, "--epochs", "1"]) == 0
    assert main(["train", str(tmp_path), *OPTIONS, "--epochs", "1", "--class-weight", "1", "1", "9"]) == 0
    plain, weighted = logged(tmp_path)
    assert abs(plain["first_loss"] - weighted["first_loss"]) > 0.01


def test_both_kinds_of_smoothing_need_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(tmp_path), *OPTIONS, "--smoothing", "0.1"]) == 2
    assert "--smoothing must be 0 with --loss maxsup, which replaces it; got 0.1" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mixing", [[], ["--mixup", "0.8"]])
def test_both_kinds_of_smoothing_can_be_had(tmp_path: Path, mixing: list[str]) -> None:
    words = ["train", str(tmp_path), *OPTIONS, "--smoothing", "0.1", "--allow-both", "--epochs", "1", *mixing]
    with captured_calls() as calls, pytest.warns(UserWarning, match="smoothed already"):
        assert main(words) == 0
    assert min(call.target.min().item() for call in calls) == pytest.approx(0.1 / 3, abs=1e-6)
    [row] = logged(tmp_path)
    assert row["first_loss"] == pytest.approx(reference_mean(calls[0]), abs=1e-5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--two-outputs"], "the model must give one tensor of logits in training; got 2 outputs"),
        (["--bce-loss", "--smoothing", "0.1", "--allow-both"], "for --loss maxsup; got BinaryCrossEntropy"),
    ],
)
def test_what_maxsup_is_not_defined_for_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(["train", str(tmp_path), *OPTIONS, *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_without_a_script_the_command_says_where_to_get_it(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "MAXSUP_TIMM_SCRIPT"}
    done = subprocess.run(
        [sys.executable, "-m", "maxsup.integrations.timm", "train", "data"],
        cwd=tmp_path,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "git clone --depth 1 --branch v" in done.stderr


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("images")
    for split in ("train", "validation"):
        for label in range(2):
            (folder / split / str(label)).mkdir(parents=True)
            for index in range(8):
                pixels = torch.randint(0, 120, (32, 32, 3), dtype=torch.uint8)
                pixels[..., label] += 120
                image.fromarray(pixels.numpy()).save(folder / split / str(label) / f"{index}.png")
    return folder


def run_real_script(data: Path, output: Path, *words: str) -> list[dict[str, str]]:
    """The rows of summary.csv that timm's own script leaves."""
    small = ["--model", "test_resnet", "--num-classes", "2", "--input-size", "3", "32", "32", "-b", "4", "-j", "0"]
    run = ["--epochs", "3", "--warmup-epochs", "0", "--device", "cpu", "--lr", "0.01", "--output", str(output)]
    loss = ["--loss", "maxsup", "--alpha", "0.1", "--alpha-end", "0.2"]
    subprocess.run(
        [sys.executable, "-m", "maxsup.integrations.timm", "train", str(data), *small, *run, *loss, *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    [summary] = output.rglob("summary.csv")
    return list(csv.DictReader(summary.open()))


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("MAXSUP_TIMM_SCRIPT"), reason="MAXSUP_TIMM_SCRIPT does not name timm's train.py")
def test_the_script_of_timm_trains_and_resumes(image_folder: Path, tmp_path: Path) -> None:
    rows = run_real_script(image_folder, tmp_path / "whole")
    assert [float(row["train_alpha"]) for row in rows] == pytest.approx([0.1, 0.15, 0.2], abs=1e-9)
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])
    [checkpoint] = (tmp_path / "whole").rglob("checkpoint-0.pth.tar")
    resumed = run_real_script(image_folder, tmp_path / "resumed", "--resume", str(checkpoint), "--mixup", "0.8")
    assert [(row["epoch"], row["train_alpha"]) for row in resumed] == [
        (row["epoch"], row["train_alpha"]) for row in rows[1:]
    ]
