"""What a recipe can ask of the loop."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import maxsup.lab.training.loop
from maxsup.core.errors import NonFiniteError
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.data import Batch
from maxsup.lab.training import evaluate, load_run, train
from maxsup.lab.training.builders import split_pipeline
from maxsup.lab.training.loop import Trainer
from maxsup.lab.training.progress import Reporter

pytestmark = pytest.mark.slow

DIGITS = {
    "optimizer": {"lr": 0.1, "nesterov": True, "weight_decay": 5e-4},
    "model": {"name": "small_cnn", "options": {"widths": [8, 16]}},
    "epochs": 1,
    "batch_size": 200,
    "augment": {"crop_padding": 1},
}


def trained(output: Path, *words: str) -> dict[str, torch.Tensor]:
    train(parse_recipe(DIGITS, words), output, reporter=Reporter())
    return load_file(output / "checkpoints/last/model.safetensors")


def largest_difference(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    return max(float((first[name].double() - second[name].double()).abs().max()) for name in first)


def test_accumulation_gives_the_weights_of_the_whole_batch(tmp_path: Path) -> None:
    words = ["batchnorm=frozen", "augment.mixup=0.8", "augment.cutmix=1.0"]
    whole, pieces = trained(tmp_path / "1", *words), trained(tmp_path / "4", *words, "accumulation=4")
    assert largest_difference(whole, pieces) <= 1e-6


@pytest.mark.parametrize(
    "words",
    [
        ["optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.decay_filter=weights"],
        ["optimizer.decay_filter=paper_names"],
        ["precision=bfloat16"],
        ["channels_last=true"],
        ["clip_norm=0.1"],
        ["schedule.name=step", "schedule.step_size=1"],
        ["schedule.name=linear", "schedule.warmup_epochs=0.5"],
        ["model.name=tiny_vit", "model.options={depth: 1, embed_dim: 48}"],
        ["data.val_share=0"],
        ["model.classifier=tde"],
    ],
    ids=lambda words: words[0],
)
def test_an_option_trains_and_changes_the_result(words: list[str], tmp_path: Path) -> None:
    plain, changed = trained(tmp_path / "plain"), trained(tmp_path / "changed", *words)
    assert all(bool(torch.isfinite(tensor.float()).all()) for tensor in changed.values())
    assert plain.keys() != changed.keys() or largest_difference(plain, changed) > 0


def test_the_moving_average_is_the_weights_of_the_run_unless_it_is_only_kept(tmp_path: Path) -> None:
    plain = trained(tmp_path / "plain")
    used = trained(tmp_path / "used", "ema.decay=0.5")
    kept = trained(tmp_path / "kept", "ema.decay=0.5", "ema.is_evaluated=false")
    assert largest_difference(plain, kept) == 0
    assert largest_difference(plain, used) > 1e-4
    other = load_file(tmp_path / "used/checkpoints/last/state.safetensors")
    assert torch.equal(other["other_weights/head.weight"], plain["head.weight"])


def test_a_tracker_gets_every_epoch(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    trained(tmp_path / "run", "tracker=tensorboard", "epochs=2")
    events = [path.read_bytes() for path in (tmp_path / "run").rglob("events.out.tfevents*")]
    assert any(b"val.accuracy" in content and b"train.loss" in content for content in events)


def test_a_tracker_that_is_not_installed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxsup.lab.training.processes.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="tracker must be installed; got 'wandb', which is not"):
        trained(tmp_path / "run", "tracker=wandb")


def test_a_compiled_model_is_saved_under_the_names_of_the_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without code generation, which takes a minute and is torch's own business.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    assert largest_difference(trained(tmp_path / "eager"), trained(tmp_path / "compiled", "compile=true")) <= 1e-6


def test_the_summary_says_how_fast_it_was_and_where_the_time_went(tmp_path: Path) -> None:
    summary = train(parse_recipe(DIGITS, ["epochs=2"]), tmp_path, reporter=Reporter())
    shares = summary["time_shares"]
    assert summary["images_per_second"] > 100
    assert 0 < shares["step"] < 1
    assert shares["outside"] == pytest.approx(1 - shares["step"] - shares["validation"])
    assert json.loads((tmp_path / "summary.json").read_text())["steps"] == summary["steps"] == 14


def test_evaluation_of_the_run_gives_the_numbers_of_its_summary(tmp_path: Path) -> None:
    summary = train(parse_recipe(DIGITS), tmp_path, reporter=Reporter())
    recipe, bundle, model = load_run(tmp_path)
    assert evaluate(model, split_pipeline(recipe, bundle, bundle.test), split="test") == summary["test"]["last"]


def poisoned_step(trainer: type[Trainer], at: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """From step ``at`` on one pixel of the third image is not a number; gives what the trainer held before it."""
    before: dict[str, Any] = {}
    step = Trainer.step

    def poisoned(self: Trainer, batch: Batch) -> Any:
        if self.position.global_step == at:
            before["weights"] = {name: value.clone() for name, value in self.model.named_parameters()}
            before["index"] = int(batch.indices[2])
            batch.images[2, 0, 0, 0] = torch.nan
        before["trainer"] = self
        return step(self, batch)

    monkeypatch.setattr(trainer, "step", poisoned)
    return before


def test_a_loss_that_is_no_number_stops_before_the_update_and_names_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Layer norm, so that one image cannot poison the others through the statistics of the batch.
    words = ["model.name=tiny_vit", "model.options={depth: 1, embed_dim: 48}", "epochs=3"]
    before = poisoned_step(maxsup.lab.training.loop.Trainer, 9, monkeypatch)
    with pytest.raises(NonFiniteError) as caught:
        trained(tmp_path, *words)
    assert caught.value.exit_code == 3
    assert f"got nan at epoch 1, step 2, training samples {before['index']} (" in str(caught.value)
    for name, value in before["trainer"].model.named_parameters():
        assert torch.equal(value, before["weights"][name])
    state = json.loads((tmp_path / "checkpoints/last/state.json").read_text())
    assert state["global_step"] == 7
    assert json.loads((tmp_path / "nonfinite.json").read_text())["samples"] == [before["index"]]
    assert all(
        bool(tensor.isfinite().all()) for tensor in load_file(tmp_path / "checkpoints/last/model.safetensors").values()
    )
