"""Pieces of a batch that fit into memory: a network that refuses more than some images stands for a small device."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from maxsup.core.errors import ExitCode, exit_code, out_of_memory
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.experiments import forecast
from maxsup.lab.training import train
from maxsup.lab.training.builders import build_data, build_loss, build_model
from maxsup.lab.training.loop import Trainer
from maxsup.lab.training.preflight import memory
from maxsup.lab.training.progress import Reporter

TINY = {"model": {"name": "small_cnn", "options": {"widths": [4]}}, "epochs": 1, "batch_size": 200}
SHORTAGE = "CUDA out of memory. Tried to allocate 2.00 GiB."


class Narrow(nn.Module):
    """Fails as a device does whose memory holds so many images."""

    def __init__(self, inner: nn.Module, most: int) -> None:
        super().__init__()
        self.inner, self.most = inner, most

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.most:
            raise torch.OutOfMemoryError(SHORTAGE)
        return self.inner(images)  # type: ignore[no-any-return]


def narrow_trainer(most: int) -> Trainer:
    recipe = parse_recipe(TINY, ["accumulation=auto"])
    bundle = build_data(recipe)
    return Trainer(recipe, bundle, Narrow(build_model(recipe, bundle), most), build_loss(recipe.loss))


@pytest.mark.parametrize(("most", "pieces"), [(200, 1), (199, 2), (60, 4), (25, 8), (1, 200), (0, 200)])
def test_a_batch_is_split_until_a_piece_fits(most: int, pieces: int) -> None:
    trainer = narrow_trainer(most)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    assert memory.fewest_pieces(trainer) == pieces
    assert all(torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())
    assert not trainer.optimizer.state


def test_an_error_of_another_kind_is_not_taken_for_a_lack_of_memory() -> None:
    trainer = narrow_trainer(200)
    trainer.model.forward = lambda images: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        memory.fewest_pieces(trainer)


def test_auto_is_one_piece_on_a_cpu_and_what_was_chosen_is_kept_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = parse_recipe(TINY, ["accumulation=auto"])
    auto = train(recipe, tmp_path / "auto", reporter=Reporter())
    plain = train(parse_recipe(TINY), tmp_path / "plain", reporter=Reporter())
    assert auto["test"] == plain["test"]
    assert run_recipe(RunDir(tmp_path / "auto")).accumulation == 1
    # The same call again is the same run, although the recipe still says auto.
    assert train(recipe, tmp_path / "auto", reporter=Reporter()) == auto


def test_too_little_memory_names_the_settings_and_has_a_code() -> None:
    known = out_of_memory(torch.OutOfMemoryError(SHORTAGE))
    assert known is not None
    assert (known.code, exit_code(known)) == ("out-of-memory", ExitCode.INPUT)
    for setting in ("2.00 GiB", "accumulation=auto", "precision=bfloat16", "--gpus-per-run", "batch_size"):
        assert setting in str(known)


def test_the_largest_batch_is_tried_before_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def estimate(recipe: Any, bundle: Any, num_ranks: int) -> float:
        if recipe.loss.name == "ls":
            raise torch.OutOfMemoryError(SHORTAGE)
        return 4.0

    monkeypatch.setattr(forecast, "estimate_seconds", estimate)
    monkeypatch.setattr(forecast, "peak_text", lambda: "31.2 of 79.1 GiB of a GPU")
    losses = {name: parse_recipe(TINY, [f"loss.name={name}"]) for name in ("ls", "ce")}
    found = forecast.preview(losses)
    [(sentence, names)] = found.failing.items()
    assert (found.seconds, names, found.memory) == (4.0, ["ls"], "31.2 of 79.1 GiB of a GPU")
    assert "Set accumulation=auto" in sentence
