"""What a step sends to a device, and how often the host waits for it: counted on a device that counts, by recipe."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from benchmarks.counting import DEVICE, CountedTensor, CountingDevice
from maxsup.core.errors import NonFiniteError
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.data.pipelines import augment, feeding
from maxsup.lab.training import optimization
from maxsup.lab.training.builders import build_data, build_loss, build_model
from maxsup.lab.training.loop import Trainer

SIDE = 32
BASE = {
    "model": {"name": "small_cnn", "options": {"widths": [4, 8]}},
    "loss": {"name": "maxsup", "alpha": 0.1},
    "optimizer": {"lr": 0.05, "momentum": 0.9},
    "batch_size": 16,
    "channels_last": True,
}
PLAIN: list[str] = []
CIFAR = ["augment.crop_padding=2", "augment.flip=true", "augment.color_jitter=0.2"]
MIXED = ["augment.mixup=0.2", "augment.cutmix=1.0", "augment.random_erasing=0.5"]
KEPT = ["accumulation=2", "clip_norm=1.0", "ema.decay=0.9"]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingDevice:
    """The device, in place of a GPU with fused optimisers."""
    seeds: list[int] = []
    monkeypatch.setattr(torch, "meta", SimpleNamespace(manual_seed=seeds.append), raising=False)
    monkeypatch.setattr(
        import_module("torch.optim.sgd"), "_device_dtype_check_for_fused", lambda *given, **options: None
    )
    monkeypatch.setattr(optimization, "FUSED", {"cpu", DEVICE.type})
    generators = {"Generator": lambda device=None: torch.Generator()}
    monkeypatch.setattr(augment, "torch", SimpleNamespace(**{**vars(torch), **generators}))
    device, sent = CountingDevice(), feeding._Sender.sent

    def sent_and_counted(sender: feeding._Sender, batch: Any) -> Any:
        # A mode holds for a thread, and this is another one.
        with CountingDevice(device.counts):
            return sent(sender, batch)

    monkeypatch.setattr(feeding._Sender, "sent", sent_and_counted)
    return device


class OnDevice(Accelerator):
    """An accelerator whose device is the one that counts."""

    @property
    def device(self) -> torch.device:
        return DEVICE


def trainer_of(folder: Path, *words: str, on: type[Accelerator] | None = None) -> Trainer:
    recipe = recipe_of(folder, *words)
    bundle = build_data(recipe)
    accelerator = None if on is None else on(cpu=True)
    return Trainer(recipe, bundle, build_model(recipe, bundle), build_loss(recipe.loss), accelerator=accelerator)


def recipe_of(folder: Path, *words: str) -> Recipe:
    path = folder / "images.npz"
    if not path.exists():
        dice = np.random.default_rng(0)
        images = dice.integers(0, 256, (96, SIDE, SIDE, 3), dtype=np.uint8)
        labels = dice.integers(0, 4, 96)
        np.savez(path, train_images=images, train_labels=labels, test_images=images[:8], test_labels=labels[:8])
    return parse_recipe({**BASE, "data": {"name": f"arrays:{path}", "val_share": 0.0}}, words)


def steps(trainer: Trainer) -> int:
    trainer.start_epoch()
    count = 0
    for batch in trainer.remaining_batches():
        trainer.step(batch)
        count += 1
    return count


@pytest.mark.parametrize("words", [PLAIN, CIFAR, MIXED, KEPT], ids=["plain", "cifar", "mixed", "accumulated"])
def test_a_step_sends_the_bytes_of_its_images_and_waits_once(
    tmp_path: Path, counting: CountingDevice, words: list[str]
) -> None:
    with counting:
        trainer = trainer_of(tmp_path, *words, on=OnDevice)
        counting.counts.clear()
        num_steps = steps(trainer)
        counts = dict(counting.counts)
        trainer.settle()
    pixels = 96 * 3 * SIDE * SIDE
    assert counts["bytes"] <= 1.05 * pixels
    # The last step is read afterwards.
    assert counts.get("waits", 0) == num_steps - 1 == 5
    assert trainer.meter.num_steps == num_steps


@pytest.mark.parametrize("words", [PLAIN, CIFAR, MIXED, KEPT], ids=["plain", "cifar", "mixed", "accumulated"])
def test_the_device_computes_what_the_host_computes(tmp_path: Path, counting: CountingDevice, words: list[str]) -> None:
    host = trainer_of(tmp_path, *words)
    steps(host)
    host.settle()
    with counting:
        device = trainer_of(tmp_path, *words, on=OnDevice)
        steps(device)
        device.settle()
    assert device.meter.num_correct == host.meter.num_correct
    # The fused optimiser rounds in another way.
    assert device.meter.loss_sum == pytest.approx(host.meter.loss_sum, rel=1e-5)
    for expected, found in zip(host.model.parameters(), device.model.parameters(), strict=True):
        assert torch.allclose(held(found), expected, atol=1e-5)


def test_a_device_takes_no_update_from_a_loss_that_is_no_number_nor_after_it(
    tmp_path: Path, counting: CountingDevice
) -> None:
    with counting:
        trainer = trainer_of(tmp_path, on=OnDevice)
        trainer.start_epoch()
        batches = trainer.remaining_batches()
        trainer.step(next(batches))
        before = [held(parameter).clone() for parameter in trainer.model.parameters()]
        poisoned = next(batches)
        poisoned.images[3] = torch.nan
        trainer.step(poisoned)
        with pytest.raises(NonFiniteError, match="epoch 0, step 1"):
            trainer.step(next(batches))
    for expected, found in zip(before, trainer.model.parameters(), strict=True):
        assert torch.equal(held(found), expected)


def held(parameter: Any) -> torch.Tensor:
    assert isinstance(parameter, CountedTensor)
    return parameter.held
