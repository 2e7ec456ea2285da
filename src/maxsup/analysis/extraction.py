"""One pass over a split, kept in a file: what every analysis of a run starts from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxsup.core.display import Display
from maxsup.core.files.storage import json_text, kept_if_possible, make_folder, replace_bytes
from maxsup.data import Pipeline
from maxsup.models import Classifier, Program
from maxsup.models.inference import autocast, evaluation_mode

Tensors = dict[str, Tensor]

FORMAT = 1


def extracted(model: Classifier | Program, pipeline: Pipeline, *, precision: str, progress: Display) -> Tensors:
    """Logits, features, labels and indices of all samples, from one forward pass each.

    Features and logits are kept in float32; of a program there are no features.
    """
    device = next(model.parameters(), torch.empty(0)).device
    columns: dict[str, list[Tensor]] = {"logits": [], "labels": [], "indices": []}
    with evaluation_mode(model), torch.no_grad(), autocast(device, precision):
        for batch in pipeline.epoch(0):
            images = batch.images.to(device, non_blocking=True)
            if isinstance(model, Program):
                columns["logits"].append(model(images).float().cpu())
            else:
                features = model.features(images)
                columns["logits"].append(model.head(features).float().cpu())
                columns.setdefault("features", []).append(features.float().cpu())
            columns["labels"].append(batch.labels)
            columns["indices"].append(batch.indices)
            progress.advance()
    return {name: torch.cat(parts) for name, parts in columns.items()}


@torch.no_grad()
def affine_head(head: nn.Module, num_features: int) -> tuple[Tensor, Tensor] | None:
    """Weight ``(K, D)`` and bias ``(K,)`` of a head that is an affine map, whatever it is made of; else None.

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


def cached(path: Path, key: Mapping[str, Any], make: Callable[[], tuple[Tensors, Any]]) -> tuple[Tensors, Any]:
    """Tensors and notes from a file if they were made under the same ``key``, else from ``make``, and kept."""
    kept = read_kept(path, key)
    if kept is not None:
        return kept
    tensors, notes = make()
    with kept_if_possible("outputs are"):
        keep(path, key, tensors, notes)
    return tensors, json.loads(json_text(notes))


def keep(path: Path, key: Mapping[str, Any], tensors: Tensors, notes: Any) -> None:
    """Write tensors and notes for :func:`read_kept`."""
    from safetensors.torch import save

    plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
    make_folder(path.parent)
    replace_bytes(path, save(plain, metadata={"key": _digest(key), "notes": json_text(notes)}))


def read_kept(path: Path, key: Mapping[str, Any]) -> tuple[Tensors, Any] | None:
    """What :func:`keep` wrote under the same key; None where there is nothing, or nothing whole."""
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
        # Damaged: it is only a copy of what can be made again.
        return None


def _digest(key: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json_text({"format": FORMAT, **key}).encode(), digest_size=16).hexdigest()
