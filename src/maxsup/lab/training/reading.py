"""Reading a run back: its recipe, data, model and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from maxsup.core.checks import check_choice
from maxsup.core.errors import DataError
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.files.storage import kept_if_possible
from maxsup.lab.core.interrupt import raise_if_noted
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.data import DataBundle
from maxsup.lab.tasks import TASKS
from maxsup.lab.training.builders import build_data, build_model, split_pipeline
from maxsup.lab.training.preprocessing import resolve_preprocessing
from maxsup.lab.training.state.checkpoint import load_weights, read_tensors, read_trained_on

SPLITS = ("train", "val", "test")
WEIGHTS = ("last", "best")

# The keys that matter to the evaluation of a trained model.
EVALUATED = (
    *("data.name", "data.options", "data.root", "data.download", "data.image_size", "data.val_share"),
    *("data.split_seed", "data.num_workers", "data.tolerance"),
    *("augment.crop_pct", "augment.crop_mode", "augment.interpolation", "augment.mean", "augment.std"),
    *("dense.resize", "dense.evaluation", "dense.stride", "batch_size", "precision", "channels_last", "threads"),
)


def load_run(
    path: str | Path, *, weights: str = "last", overrides: Iterable[str] = ()
) -> tuple[Recipe, DataBundle, nn.Module]:
    """Load recipe, data and trained model of a run directory.

    ``weights`` are the ``last``, or the ``best`` on the validation split; ``overrides`` are ``key.sub=value`` each, for
    instance another ``data.root``. Images are normalised as in training, even if an override names other data, unless
    one sets ``augment.mean``.
    """
    raise_if_noted()
    check_choice("weights", weights, WEIGHTS)
    run = RunDir(path).require()
    recipe = resolve_preprocessing(run_recipe(run, overrides))
    file = run.weights(weights)
    num_classes, mean, std = read_trained_on(file)
    bundle = build_data(recipe)
    if bundle.num_classes != num_classes or len(bundle.mean) != len(mean):
        raise DataError(
            f"data must have the {num_classes} classes and {len(mean)} channels that the "
            f"model was trained on; got {bundle.num_classes} and {len(bundle.mean)} in {bundle.name!r}. "
            "Choose other data.",
            code="damaged-file",
        )
    if recipe.augment.mean is None:
        bundle = replace(bundle, mean=mean, std=std)
    model = build_model(recipe, bundle, is_trained=True)
    load_weights(model, read_tensors(file), file)
    return recipe, bundle, model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def load_teacher(path: str | Path, bundle: DataBundle) -> nn.Module:
    """Load the network of a run, in evaluation mode and without gradient, for images of ``bundle``."""
    run = RunDir(path).require()
    file = run.weights("last")
    num_classes, mean, std = read_trained_on(file)
    if (num_classes, mean, std) != (bundle.num_classes, tuple(bundle.mean), tuple(bundle.std)):
        raise DataError(
            f"teacher must have learnt the {bundle.num_classes} classes of {bundle.name!r} from images that are "
            f"normalised alike; got {num_classes} classes in {str(run.path)!r}. Train one on the same data.",
            code="wrong-teacher",
        )
    model = build_model(run_recipe(run), bundle, is_trained=True)
    load_weights(model, read_tensors(file), file)
    return model.eval().requires_grad_(False)


def evaluate_run(
    path: str | Path, split: str = "test", *, weights: str = "last", overrides: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the numbers of :func:`evaluate` for a split of a run, and write them to its folder ``analysis``.

    ``weights`` and ``overrides`` are as in :func:`load_run`, but only keys that matter to evaluation may be overridden.
    """
    check_choice("split", split, SPLITS)
    overrides = list(overrides)
    check_evaluated(overrides)
    recipe, bundle, model = load_run(path, weights=weights, overrides=overrides)
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    run, images, task = RunDir(path), getattr(bundle, split), TASKS[bundle.task]
    batches = split_pipeline(recipe, bundle, images, bad_files=run.path / f"bad_files_{split}.csv")
    groups = task.class_groups(bundle)
    found = task.evaluate(recipe, model, batches, num_classes=bundle.num_classes, split=split, groups=groups)
    result = {**found, "weights": weights, "data": bundle.name, "run": str(run.path)}
    with kept_if_possible("these numbers are"):
        run.write_json(run.analysis / f"eval-{bundle.name.partition(':')[0]}-{split}-{weights}.json", result)
    return result


def check_evaluated(overrides: Iterable[str]) -> None:
    """Raise for an override that would not change the evaluation of a trained model.

    Example:
        >>> check_evaluated(["data.options.imbalance=50", "batch_size=16"])
        >>> check_evaluated(["epochs=3"])
        Traceback (most recent call last):
        ValueError: key must be one that evaluation looks at; got 'epochs'. The run is trained; these may change: ...
    """
    for override in overrides:
        key = override.partition("=")[0]
        if not any(key == known or key.startswith(f"{known}.") for known in EVALUATED):
            raise ValueError(
                f"key must be one that evaluation looks at; got {key!r}. The run is trained; these may change: "
                f"{', '.join(EVALUATED)}."
            )
