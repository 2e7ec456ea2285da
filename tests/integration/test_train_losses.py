"""Every loss trains through the same loop, which knows none of them."""

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest

import maxsup
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.training import train
from maxsup.lab.training.loss_inputs import SERVED
from maxsup.lab.training.progress import Reporter
from tests.architecture.source import PACKAGE, parsed_files
from tests.reference.cases import NUM_LOSSES

# Adam, because the gradients of the losses differ in scale by a factor of 25 (logit_norm).
DIGITS = {"optimizer": {"name": "adamw", "lr": 3e-3}, "epochs": 2, "batch_size": 64}


def lines_of(run: Path, *words: str) -> list[dict[str, Any]]:
    train(parse_recipe(DIGITS, words), run, reporter=Reporter())
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", maxsup.list_losses())
def test_every_loss_trains_on_digits_for_two_epochs(name: str, tmp_path: Path) -> None:
    first, second = lines_of(tmp_path, f"loss.name={name}")
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
@pytest.mark.parametrize(
    "words",
    [["loss.name=zipf_ls", "loss.ranking=dense"], ["loss.weight=[2, 1, 1, 1, 1, 1, 1, 1, 1, 0]"]],
    ids=["dense logits from the same pass", "class weights as a list"],
)
def test_what_else_a_loss_takes_is_served(words: list[str], tmp_path: Path) -> None:
    [line] = lines_of(tmp_path, *words, "epochs=1")
    assert math.isfinite(line["train"]["loss"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [(["epochs=3"], [0.1, 0.2, 0.3]), (["epochs=2", "alpha_per_step=true"], [0.1 + 0.2 / 3, 0.3])],
    ids=["by epoch", "by step, to its end in the last step"],
)
def test_alpha_follows_its_schedule_and_is_written_down(
    words: list[str], expected: list[float], tmp_path: Path
) -> None:
    schedule = "loss.alpha={schedule: linear, start: 0.1, end: 0.3}"
    assert [line["alpha"] for line in lines_of(tmp_path, schedule, "batch_size=700", *words)] == pytest.approx(expected)
