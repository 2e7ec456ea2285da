"""Outputs of several models for the same images, each a run, a file of logits, or a checkpoint of any library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.diagnosis.array_files import read_array_files, read_sample_ids
from maxsup.diagnosis.outputs import Outputs, checked_outputs
from maxsup.lab.analysis.foreign_checkpoints import checkpoint_outputs
from maxsup.lab.analysis.other_data import OtherData
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.result_files import data_label
from maxsup.lab.analysis.transfer import Transfer
from maxsup.lab.core.display import Display

ARRAY_SUFFIXES = (".npy", ".npz", ".safetensors", ".csv")
PLACE_OF_WEIGHTS = "@"
"""Between the name of a network and its file of weights: ``timm:resnet50@FILE``."""


class ModelOutputs(NamedTuple):
    """Outputs of a model, its last layer if that is affine, and what they depend on, for the reader."""

    outputs: Outputs
    head: tuple[Tensor | None, Tensor | None]
    facts: dict[str, str]
    place: str | None  # data and split, whose ids are positions; None for a file, whose ids are its own
    ood: Tensor | None = None  # logits of images of another kind
    transfer: Transfer | None = None


def outputs_of_models(
    words: Sequence[str],
    *,
    model: str | None = None,
    data: str | None = None,
    split: str | None = None,
    weights: str | None = None,
    labels: str | None = None,
    class_names: str | None = None,
    ood: str | None = None,
    transfer: str | None = None,
    overrides: Sequence[str] = (),
    progress: Display | None = None,
) -> dict[str, ModelOutputs]:
    """Return the outputs of each model by a name for it.

    Args:
        words: A run directory, a file of logits, ``NETWORK``, ``NETWORK@WEIGHTS``, or with ``model`` a file of weights.
        model: The network of all files of weights.
        data: Images for networks; runs have their own.
        split: ``train``, ``val`` or ``test``.
        weights: ``last`` or ``best`` of runs.
        labels: Labels of files that hold logits alone.
        class_names: A file that maps outputs of networks to classes.
        ood: Images of another kind for all models, a data set or ``folder:PATH``.
        transfer: Data that a linear probe of the features of networks is fitted on.
        overrides: Changes ``key.sub=value`` of recipes.
        progress: Progress display of forward passes.
    """
    found: dict[str, ModelOutputs] = {}
    kinds = {word: _kind(word, model) for word in words}
    for name, value, owner in (
        ("--labels", labels, "file"),
        ("--weights", weights, "run"),
        ("--data", data, "network"),
        ("--class-names", class_names, "network"),
        ("transfer", transfer, "network"),
    ):
        if value is not None and owner not in kinds.values():
            raise ValueError(f"{name} must come with a {owner}; got {value!r} with none. Leave it out.")
    if ood is not None and "file" in kinds.values():
        file = next(word for word, kind in kinds.items() if kind == "file")
        raise ValueError(
            f"--ood must come with runs and networks alone, which see its images; got the file of logits {file!r}. "
            "Leave it out, or diagnose each file by itself: --logits FILE --ood FILE."
        )
    for word, kind in kinds.items():
        if kind == "run":
            made = _of_run(word, split or "test", weights or "last", ood, overrides, progress)
        elif kind == "file":
            made = _of_file(word, labels)
        else:
            made = _of_network(word, model, data, split, class_names, ood, transfer, overrides, progress)
        found[_free_name(word, found)] = made
    places = {each.place for each in found.values() if each.place is not None}
    if len(places) > 1:
        raise DataError(
            f"models must be judged on the same images; got {' and '.join(sorted(places))}. Choose one data set and "
            "one split for all.",
            code="other-samples",
        )
    has_files = any(each.place is None for each in found.values())
    if places and has_files:  # ids of files are not positions in the data: only the order is left
        return {name: each._replace(outputs=replace(each.outputs, indices=None)) for name, each in found.items()}
    return found


def _kind(word: str, model: str | None) -> str:
    if Path(word).is_dir():
        return "run"
    is_array = model is None and PLACE_OF_WEIGHTS not in word and word.partition(":")[0].endswith(ARRAY_SUFFIXES)
    return "file" if is_array else "network"


def _of_run(
    word: str, split: str, weights: str, ood: str | None, overrides: Sequence[str], progress: Display | None
) -> ModelOutputs:
    run = RunOutputs(word, weights=weights, overrides=overrides, progress=progress)
    others = None if ood is None else run_novelties(run, ood)[0]
    outputs = run.split(split)
    recipe = run.recipe
    facts = {"Model": recipe.model.name, "Loss": run.label, "Data": recipe.data.name, "Split": split}
    place = f"{data_label(recipe.data.name, recipe.data.options)} {split}"
    if others is not None:
        facts["Other images"] = f"{ood}, {len(others):,} images"
    return ModelOutputs(outputs, (run.weight, run.bias), facts, place, others)


def run_novelties(run: RunOutputs, ood: str) -> tuple[Tensor, Tensor]:
    """Return logits and features of a run for images of another kind."""
    others = OtherData(ood, run.recipe, run.bundle, is_whole=True)
    others.check_classes(run.bundle.class_names)
    found = others.outputs(run.model, "test", label=run.label, progress=run.progress)
    return found["logits"], found["features"]


def _of_file(word: str, labels: str | None) -> ModelOutputs:
    outputs = checked_outputs(*read_array_files(word, labels))
    return ModelOutputs(replace(outputs, indices=read_sample_ids(word)), (None, None), {"File": Path(word).name}, None)


def _of_network(
    word: str,
    model: str | None,
    data: str | None,
    split: str | None,
    class_names: str | None,
    ood: str | None,
    transfer: str | None,
    overrides: Sequence[str],
    progress: Display | None,
) -> ModelOutputs:
    if data is None:
        raise ValueError(
            f"{word!r} must be a run, a file of logits, or a network with --data; got a network without images. Add "
            "for instance --data folder:PATH."
        )
    name, mark, file = word.partition(PLACE_OF_WEIGHTS)
    network, weights = (name, file if mark else None) if model is None else (model, word)
    if model is None and not mark and Path(word).is_file() and not word.endswith((".pt2", ".onnx")):
        raise ValueError(
            f"{word!r} must come with the network that it is for; got the file alone. Write --model NAME for all "
            f"files, or NAME{PLACE_OF_WEIGHTS}{word}."
        )
    found = checkpoint_outputs(
        network,
        weights,
        data,
        split=split,
        class_names=class_names,
        ood=ood,
        transfer=transfer,
        overrides=overrides,
        progress=progress,
    )
    facts = {"Model": network, "Weights": Path(weights).name if weights else "published", **found.facts}
    place = f"{data} {split or 'test'}"
    return ModelOutputs(found.outputs, (found.weight, found.bias), facts, place, found.ood, found.transfer)


def _free_name(word: str, taken: dict[str, Any]) -> str:
    """The last part of a path, or as many more as it takes to be new."""
    network, mark, file = word.partition(PLACE_OF_WEIGHTS)
    parts = Path(file if mark else network).parts
    names = [str(Path(*parts[-count:])) for count in range(1, len(parts) + 1)]
    return next((name for name in names if name not in taken), f"{word} ({len(taken) + 1})")
