"""Runs for tests that nobody trained: a seeded body and a head from a closed formula, so that their numbers are stable.

Training amplifies the last bits of a machine's arithmetic; a forward pass and a ridge regression do not.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxsup.lab.core.config import Recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import load_recipe, write_recipe
from maxsup.lab.data import DataBundle, Split, load_data
from maxsup.lab.models import Classifier
from maxsup.lab.training.builders import build_data, build_model, split_pipeline
from maxsup.lab.training.state.checkpoint import pack_checkpoint

SCALES = {"ce": 9.0, "ls": 4.0, "maxsup": 3.0}
WIDTHS = "model.options.widths=[8, 16, 24]"
MASKS = ("data.options={by_digit: false, num_train: 20, num_test: 6}", "model.options.channels=8")
NO_TEMPLATES = ("model.classifier=tde", "model.options.widths=[8, 16]")


def make_run(folder: Path, loss: str = "maxsup", *overrides: str, recipe: str = "digits_cnn") -> Path:
    """A finished run directory without a training run: weights, recipe and a summary."""
    settings = [f"loss.name={loss}", *([] if any("model" in word for word in overrides) else [WIDTHS]), *overrides]
    checked = load_recipe(recipe, settings)
    bundle = build_data(checked)
    model = build_model(checked, bundle)
    if isinstance(model, Classifier) and isinstance(model.head, nn.Linear):
        _fit(checked, bundle, model, SCALES.get(loss, 5.0))
    run = RunDir(folder)
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    write_recipe(run, checked)
    sizes = {"num_train": len(bundle.train), "num_val": len(bundle.val), "num_classes": bundle.num_classes}
    data = {**sizes, "mean": list(bundle.mean), "std": list(bundle.std)}
    packed_values = pack_checkpoint(model.state_dict(), {}, {"best": "step-00000001", "data": data})
    run.save_checkpoint("step-00000001", "step-00000001", packed_values)
    return folder


def _fit(recipe: Recipe, bundle: DataBundle, model: Classifier, scale: float) -> None:
    images = plain_images(recipe, bundle, bundle.train)
    with torch.no_grad():
        model.train()
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.momentum = None
        for batch in images.split(256):
            model(batch)
        model.eval()
        features = torch.cat([model.features(batch) for batch in images.split(256)]).double()
        rows = torch.nn.functional.pad(features, (0, 1), value=1.0)
        targets = scale * torch.nn.functional.one_hot(bundle.train.labels, bundle.num_classes).double()
        penalty = 1e-3 * rows.square().sum(dim=0).mean() * torch.eye(rows.shape[1], dtype=torch.float64)
        solution = torch.linalg.solve(rows.T @ rows + penalty, rows.T @ targets)
        model.head.weight.copy_(solution[:-1].T)
        model.head.bias.copy_(solution[-1])


def plain_images(recipe: Recipe, bundle: DataBundle, split: Split) -> Tensor:
    """All images of a split as the model sees them in evaluation."""
    return torch.cat([batch.images for batch in split_pipeline(recipe, bundle, split).epoch(0)])


def special_runs(folder: Path) -> dict[str, Path]:
    """A run with known factors and objects, one with a long tail, one on masks."""
    return {
        "drawn": make_run(folder / "drawn", "maxsup", "data.options.copies=1", recipe="synthetic_cnn"),
        "tail": make_run(folder / "tail", "maxsup", f"data.name=arrays:{long_tail(folder)}"),
        "masks": make_run(folder / "masks", "ce", *MASKS, recipe="synthetic_upernet"),
    }


def values(result: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a result by name."""
    return {name: entry["value"] for name, entry in result["numbers"].items()}


def long_tail(folder: Path) -> Path:
    """Digits, fewer from class to class: 150 images of the first, 8 of the last."""
    data = load_data("digits", val_share=0.0)
    kept = []
    for label in range(10):
        members = (data.train.labels == label).nonzero().flatten()
        kept.append(members[: round(140 * (8 / 140) ** (label / 9))])
    chosen = torch.cat(kept)
    parts = {"train": data.train.subset(chosen), "test": data.test}
    arrays = {f"{name}_images": part.images.permute(0, 2, 3, 1).numpy() for name, part in parts.items()}
    arrays |= {f"{name}_labels": part.labels.numpy() for name, part in parts.items()}
    path = folder / "tail.npz"
    np.savez(path, class_names=np.array(data.class_names), **arrays)
    return path
