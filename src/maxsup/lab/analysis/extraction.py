"""Compute the outputs of a split in one pass, and cache them for every analysis."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxsup.core.errors import DataError
from maxsup.lab.core.display import Display
from maxsup.lab.core.files.storage import json_text, make_folder, replace_bytes
from maxsup.lab.data import DataBundle, MemorySplit, Pipeline, Split, stratified_split
from maxsup.lab.models import Classifier, Program
from maxsup.lab.models.inference import autocast, evaluation_mode

Tensors = dict[str, Tensor]

FORMAT = 1

_LUMA = (0.299, 0.587, 0.114)


def limited_indices(split: Split, limit: int | None) -> Tensor:
    """Return the indices of at most ``limit`` images of a split, the same share of every class."""
    if limit is None or len(split) <= limit:
        return torch.arange(len(split))
    return stratified_split(split.labels, limit / len(split), seed=0)[1]


def limited(split: Any, limit: int | None) -> Any:
    """Return at most ``limit`` images of a split, the same share of every class."""
    return split if limit is None or len(split) <= limit else split.subset(limited_indices(split, limit))


def suited(other: DataBundle, own: DataBundle) -> DataBundle:
    """Convert other data to the channels and the normalisation of the data a model was trained on."""
    splits = (other.train, other.val, other.test)
    train, val, test = (_with_channels(split, len(own.mean), other.name) for split in splits)
    return replace(other, train=train, val=val, test=test, mean=own.mean, std=own.std)


def _with_channels(split: Split, num_channels: int, name: str) -> Split:
    has = split.images.shape[1] if isinstance(split, MemorySplit) else 3
    if has == num_channels:
        return split
    if not isinstance(split, MemorySplit) or (has, num_channels) not in {(1, 3), (3, 1)}:
        raise DataError(
            f"{name!r} must have the {num_channels} channels the model was trained on; got {has}. Choose other data.",
            code="damaged-file",
        )
    if has == 1:
        return replace(split, images=split.images.expand(-1, 3, -1, -1).contiguous())
    # The weights with which Pillow converts colour to grey.
    shares = torch.tensor(_LUMA).view(1, 3, 1, 1)
    grey = torch.cat([(part * shares).sum(1, keepdim=True).round() for part in split.images.split(4096)])
    return replace(split, images=grey.to(torch.uint8))


def extracted(model: Classifier | Program, pipeline: Pipeline, *, precision: str, progress: Display) -> Tensors:
    """Return logits, features, labels and indices of all samples, in float32. A ``Program`` has no features."""
    device = next(model.parameters(), torch.empty(0)).device
    columns: dict[str, list[Tensor]] = {"logits": [], "labels": [], "indices": []}
    with evaluation_mode(model), torch.no_grad(), autocast(device, precision):
        for batch in pipeline.epoch(0, device=device):
            images = batch.images
            if isinstance(model, Program):
                columns["logits"].append(model(images).float().cpu())
            else:
                features = model.features(images)
                columns["logits"].append(model.head(features).float().cpu())
                columns.setdefault("features", []).append(features.float().cpu())
            columns["labels"].append(batch.labels.cpu())
            columns["indices"].append(batch.indices)
            progress.advance()
    return {name: torch.cat(parts) for name, parts in columns.items()}


@torch.no_grad()
def affine_head(head: nn.Module, num_features: int) -> tuple[Tensor, Tensor] | None:
    """Return weight ``(K, D)`` and bias ``(K,)`` of a head, or None if it is not an affine map.

    A head of several layers is tested on random inputs.

    Example:
        >>> weight, bias = affine_head(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), 3)
        >>> weight.shape, affine_head(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), 3)
        (torch.Size([2, 3]), None)
    """
    if type(head) is nn.Linear:
        zero = torch.zeros(head.out_features)
        return head.weight.detach().float().cpu(), zero if head.bias is None else head.bias.detach().float().cpu()
    device = next(head.parameters()).device
    with evaluation_mode(head):
        bias = head(torch.zeros(1, num_features, device=device))[0]
        columns = head(torch.eye(num_features, device=device)) - bias
        tried = torch.randn(8, num_features, generator=torch.Generator().manual_seed(0)).to(device)
        if not torch.allclose(head(tried), tried @ columns + bias, rtol=1e-3, atol=1e-4):
            return None
    return columns.T.contiguous().cpu(), bias.cpu()


def keep(path: Path, key: Mapping[str, Any], tensors: Tensors, notes: Any) -> None:
    """Cache tensors and notes in a file for :func:`read_kept`."""
    from safetensors.torch import save

    plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
    make_folder(path.parent)
    replace_bytes(path, save(plain, metadata={"key": _digest(key), "notes": json_text(notes)}))


def read_kept(path: Path, key: Mapping[str, Any]) -> tuple[Tensors, Any] | None:
    """Read what :func:`keep` cached under the same key, or return None if the file is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("key") != _digest(key):
                return None
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata["notes"])  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError):
        # The file is damaged, but its content can be computed again.
        return None


def _digest(key: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json_text({"format": FORMAT, **key}).encode(), digest_size=16).hexdigest()
