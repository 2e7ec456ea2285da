"""Every loss trains through the same loop, which knows none of them."""

import ast
import json
import math
from pathlib import Path

import pytest
import torch

import maxsup
from maxsup.core.config import parse_recipe
from maxsup.training import train
from maxsup.training.loss_inputs import SERVED
from maxsup.training.progress import Reporter
from tests.architecture.source import PACKAGE, parsed_files
from tests.reference.cases import NUM_LOSSES

# Adam, because the gradients of the losses differ in scale by a factor of 25 (logit_norm).
DIGITS = {"optimizer": {"name": "adamw", "lr": 3e-3}, "epochs": 2, "batch_size": 64}


@pytest.mark.slow
@pytest.mark.parametrize("name", maxsup.list_losses())
def test_every_loss_trains_on_digits_for_two_epochs(name: str, tmp_path: Path) -> None:
    train(parse_recipe(DIGITS, [f"loss.name={name}"]), tmp_path, reporter=Reporter())
    first, second = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert second["step"] == 2 * first["step"]
    assert math.isfinite(second["train"]["loss"])
    assert second["train"]["accuracy"] > max(first["train"]["accuracy"], 0.5)
    assert second["val"]["split"] == "val"
    assert second["decomposition"]["num_samples"] > 1000


def test_all_losses_were_seen() -> None:
    assert len(maxsup.list_losses()) == NUM_LOSSES
    needed = {need for name in maxsup.list_losses() for need in maxsup.create_loss(name).needs}
    assert needed | {"dense_logits"} == set(SERVED)


def test_nothing_in_training_knows_a_loss_by_name() -> None:
    names = set(maxsup.list_losses())
    found = [
        f"{path.name}:{node.lineno} {node.value!r}"
        for path, tree in parsed_files(PACKAGE / "training")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert found == []


@pytest.mark.slow
def test_zipf_by_dense_votes_is_served_by_the_same_pass(tmp_path: Path) -> None:
    words = ["loss.name=zipf_ls", "loss.ranking=dense", "epochs=1"]
    train(parse_recipe(DIGITS, words), tmp_path, reporter=Reporter())
    [line] = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert math.isfinite(json.loads(line)["train"]["loss"])


@pytest.mark.slow
def test_alpha_follows_its_schedule_and_is_written_down(tmp_path: Path) -> None:
    words = ["loss.alpha={schedule: linear, start: 0.1, end: 0.3}", "epochs=3", "batch_size=700"]
    train(parse_recipe(DIGITS, words), tmp_path, reporter=Reporter())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [round(line["alpha"], 9) for line in lines] == [0.1, 0.2, 0.3]


@pytest.mark.slow
def test_alpha_by_step_reaches_its_end_in_the_last_step(tmp_path: Path) -> None:
    words = ["loss.alpha={schedule: linear, start: 0.1, end: 0.3}", "alpha_per_step=true", "epochs=2", "batch_size=700"]
    train(parse_recipe(DIGITS, words), tmp_path, reporter=Reporter())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [round(line["alpha"], 9) for line in lines] == [pytest.approx(0.1 + 0.2 / 3), 0.3]


@pytest.mark.slow
def test_class_weights_are_written_as_a_list(tmp_path: Path) -> None:
    words = ["loss.weight=[2, 1, 1, 1, 1, 1, 1, 1, 1, 0]", "epochs=1"]
    train(parse_recipe(DIGITS, words), tmp_path, reporter=Reporter())
    assert torch.isfinite(torch.tensor(json.loads((tmp_path / "metrics.jsonl").read_text())["train"]["loss"]))
