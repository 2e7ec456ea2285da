"""Two gloo processes train what one process trains with the same global batch."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from maxsup.core.errors import Interruption
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter
from tests.integration.integrations.launch import run_two_ranks
from tests.integration.runs import StopAt, what_is_kept
from tests.integration.two_ranks import CUT

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

TOLERANCE = 1e-5
# 21 steps an epoch, the last of which has 15 images: 7 for one process, 8 for the other.
WORDS = [
    "loss.name=ols",
    "augment.crop_padding=1",
    "optimizer.lr=0.5",
    "optimizer.weight_decay=5e-4",
    "schedule.warmup_epochs=1",
    "batchnorm=frozen",
    "accumulation=2",
    "batch_size=64",
    "epochs=2",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of one process, the run of two, one of two that was cut, and one of 2, 1 and 3."""
    folder = tmp_path_factory.mktemp("runs")
    train(parse_recipe({}, WORDS), folder / "one", reporter=Reporter())
    run_two_ranks("tests.integration.two_ranks", folder, *WORDS)
    with contextlib.suppress(Interruption):
        train(parse_recipe({}, WORDS), folder / "elastic", reporter=StopAt(5))
    run_two_ranks("tests.integration.some_ranks", folder / "elastic", "default", "0", *WORDS, num_ranks=3)
    return folder


def state(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints/last/state.safetensors")


def numbers(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_weights_after_42_steps_agree(runs: Path) -> None:
    one, two = (load_file(runs / name / "checkpoints/last/model.safetensors") for name in ("one", "two"))
    assert numbers(runs / "two")[-1]["step"] == 42
    assert max(float((one[name].double() - two[name].double()).abs().max()) for name in one) <= TOLERANCE


def test_momentum_agrees(runs: Path) -> None:
    one, two = state(runs / "one"), state(runs / "two")
    names = [name for name in one if name.startswith("optimizer/")]
    assert len(names) > 5
    assert max(float((one[name] - two[name]).abs().max()) for name in names) <= TOLERANCE


def test_the_matrix_of_online_label_smoothing_is_the_same_on_both_ranks_and_that_of_one_process(runs: Path) -> None:
    one, two = state(runs / "one"), state(runs / "two")
    assert torch.equal(two["rank0/loss/matrix"], two["rank1/loss/matrix"])
    assert float((one["rank0/loss/matrix"] - two["rank0/loss/matrix"]).abs().max()) <= TOLERANCE
    assert float(two["rank0/loss/matrix"].max()) > 0.2


def test_the_numbers_of_an_epoch_are_those_of_the_whole_split(runs: Path) -> None:
    for one, two in zip(numbers(runs / "one"), numbers(runs / "two"), strict=True):
        assert two["val"]["n"] == one["val"]["n"]
        assert two["decomposition"]["num_samples"] == one["decomposition"]["num_samples"]
        assert two["train"]["accuracy"] == pytest.approx(one["train"]["accuracy"], abs=1e-9)
        for key in ("loss", "grad_norm"):
            assert two["train"][key] == pytest.approx(one["train"][key], rel=1e-4)
        assert two["val"]["nll"] == pytest.approx(one["val"]["nll"], rel=1e-4)


def test_two_processes_of_which_one_got_a_signal_stop_together_and_go_on_bit_equal(runs: Path) -> None:
    cut = what_is_kept(runs / "cut")
    assert cut == what_is_kept(runs / "two")
    environment = json.loads((runs / "cut/env.json").read_text())
    assert environment["num_processes"] == 2
    assert len(environment["earlier"]) == 1
    assert CUT % 21 != 0


def test_a_run_cut_inside_an_epoch_goes_on_with_one_process_and_then_with_three(runs: Path) -> None:
    environment = json.loads((runs / "elastic/env.json").read_text())
    assert [each["num_processes"] for each in (*environment["earlier"], environment)] == [2, 1, 3]
    one, elastic = (load_file(runs / name / "checkpoints/last/model.safetensors") for name in ("one", "elastic"))
    assert max(float((one[name].double() - elastic[name].double()).abs().max()) for name in one) <= TOLERANCE
    first, second = (state(runs / name)["rank0/loss/matrix"] for name in ("one", "elastic"))
    assert float((first - second).abs().max()) <= TOLERANCE
    for whole, line in zip(numbers(runs / "one"), numbers(runs / "elastic"), strict=True):
        assert line["decomposition"]["num_samples"] == whole["decomposition"]["num_samples"]
        assert line["train"]["accuracy"] == pytest.approx(whole["train"]["accuracy"], abs=1e-9)
        assert line["train"]["loss"] == pytest.approx(whole["train"]["loss"], rel=1e-4)


def test_a_step_has_one_collective_besides_that_of_the_gradient(tmp_path: Path) -> None:
    # With norms, whose statistics are usually sent along with every batch. In the second step the reducer of the
    # gradients agrees on its buckets.
    run_two_ranks("tests.integration.counted_ranks", tmp_path / "noted.json", "batch_size=64", "model.name=small_cnn")
    steps = json.loads((tmp_path / "noted.json").read_text())
    assert len(steps) == 4
    for names in steps[2:]:
        assert names == ["allreduce_", "allreduce_"]
