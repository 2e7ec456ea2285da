"""The state of training as safetensors and JSON, and back, to the last bit.

One flat mapping holds the tensors of every part, prefixed with its name; numbers go to JSON. Nothing is pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from maxsup.core.errors import StorageError
from maxsup.lab.core.files.reading import as_written, read_json, read_plain
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.files.storage import json_text

Tensors = dict[str, Tensor]

FORMAT = 1


def pack_checkpoint(
    weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor], values: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the files of a checkpoint by name, from evaluated weights, other tensors and numbers."""
    return {
        "model.safetensors": tensor_bytes(weights),
        "state.safetensors": tensor_bytes(tensors),
        "state.json": (json_text({"format": FORMAT, **values}, indent=2) + "\n").encode(),
    }


def unpack_checkpoint(folder: Path) -> tuple[Tensors, Tensors, dict[str, Any]]:
    """Read weights, other tensors and values of a checkpoint."""
    values = checkpoint_values(folder)
    if values.get("format") != FORMAT:
        raise StorageError(
            f"{folder} must be a checkpoint of format {FORMAT}; got format {values.get('format')}. "
            "Go on with the version of maxsup that wrote it (env.json).",
            code="checkpoint-format",
        )
    return read_tensors(folder / "model.safetensors"), read_tensors(folder / "state.safetensors"), values


def checkpoint_values(folder: Path) -> dict[str, Any]:
    """Read numbers and names of a checkpoint."""
    return read_json(_check_file(folder / "state.json"))


def read_trained_on(file: Path) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    """Read number of classes, mean and deviation of the data that a file of weights was trained on."""
    with as_written(file.parent / "state.json"):
        data = checkpoint_values(file.parent)["data"]
        mean, std = (tuple(float(value) for value in data[key]) for key in ("mean", "std"))
        return int(data["num_classes"]), mean, std


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Write tensors as a safetensors file in memory."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(plain, metadata={"format": "pt"})


def read_tensors(path: Path) -> Tensors:
    """Read the tensors in a safetensors file of a checkpoint."""
    from safetensors import SafetensorError
    from safetensors.torch import load, load_file

    _check_file(path)
    try:
        # The library only takes names in UTF-8.
        tensors: Tensors = load_file(path) if str(path).isprintable() else load(read_plain(path))
    except (OSError, SafetensorError) as error:
        raise StorageError(
            f"{path} must be a readable safetensors file; got an error: {error}. Copy it again or train anew.",
            code="damaged-file",
        ) from error
    return tensors


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """Return the same tensors under the names ``prefix/name``."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def under_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """Return the tensors named ``prefix/name``, under ``name``."""
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def optimizer_tensors(optimizer: Optimizer) -> Tensors:
    """Return the optimiser's state of every parameter; rates and decays follow from the recipe."""
    return {
        f"{index}/{key}": value
        for index, memory in optimizer.state_dict()["state"].items()
        for key, value in memory.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the optimiser's state in the memory format of its parameters, which fused kernels rely on."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    memories: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition("/")
        like = parameters[int(number)]
        value = torch.empty_like(like).copy_(tensor) if tensor.shape == like.shape else tensor
        memories.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({"state": memories, "param_groups": optimizer.state_dict()["param_groups"]})


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], source: Path) -> None:
    """Load all weights; raises for the first one that is missing, unknown or of another shape."""
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        first = " ".join(str(error).split("\n\t")[1:2]) or str(error)
        raise StorageError(
            f"{source} must hold the weights of the model in the recipe; got: {first.strip()} Check model.name.",
            code="weights-mismatch",
        ) from error


def _check_file(path: Path) -> Path:
    return RunDir(path.parent.parent.parent).check(path)
