"""State to files and back."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from maxsup.core.errors import StorageError
from maxsup.lab.core.config import OptimizerConfig
from maxsup.lab.training.optimization import create_optimizer
from maxsup.lab.training.state import checkpoint


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2)).to(
        memory_format=torch.channels_last
    )


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    images = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    model(images.to(memory_format=torch.channels_last)).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_an_optimizer_brought_back_goes_on_bit_equal_in_channels_last(name: str) -> None:
    config = OptimizerConfig(name=name, lr=0.05, weight_decay=0.1, decay_filter="weights")
    whole, cut = network(), network()
    first, second = create_optimizer(whole, config), create_optimizer(cut, config)
    for seed in range(3):
        step(whole, first, seed)
        step(cut, second, seed)
    again = network()
    again.load_state_dict({key: value.contiguous() for key, value in cut.state_dict().items()})
    third = create_optimizer(again, config)
    checkpoint.restore_optimizer(
        third, {key: value.clone().contiguous() for key, value in checkpoint.optimizer_tensors(second).items()}
    )
    for seed in range(3, 6):
        step(whole, first, seed)
        step(again, third, seed)
    for key, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[key]), key


def test_files_give_back_what_they_were_given(tmp_path: Path) -> None:
    weights = {"a": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "b": torch.tensor(3)}
    for name, content in checkpoint.pack_checkpoint(weights, {"x": torch.empty(0)}, {"best": "step-1"}).items():
        (tmp_path / name).write_bytes(content)
    read, other, values = checkpoint.unpack_checkpoint(tmp_path)
    assert all(torch.equal(read[name], weights[name]) for name in weights)
    assert other["x"].shape == (0,)
    assert values["best"] == "step-1"


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    for name, content in checkpoint.pack_checkpoint({}, {}, {}).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "state.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(StorageError, match="must be a checkpoint of format 1; got format 99"):
        checkpoint.unpack_checkpoint(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 20, b"\xff" * 8 + b"{}", b"PK\x03\x04 a pickle in disguise"])
def test_a_file_that_is_no_safetensors_is_a_storage_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(StorageError, match="must be a readable safetensors file") as caught:
        checkpoint.read_tensors(tmp_path / "model.safetensors")
    assert caught.value.exit_code == 5


def test_weights_of_another_model_are_named() -> None:
    with pytest.raises(StorageError, match=r"must hold the weights of the model in the recipe; got: Missing key"):
        checkpoint.load_weights(nn.Linear(2, 2), {"weight": torch.zeros(2, 2)}, Path("run/model.safetensors"))


def test_prefixes_are_taken_off_again() -> None:
    tensors = {"a": torch.zeros(1), "b/c": torch.ones(1)}
    both = checkpoint.with_prefix("rank1", tensors) | checkpoint.with_prefix("rank10", {"a": torch.ones(1)})
    assert checkpoint.under_prefix("rank1", both).keys() == tensors.keys()
