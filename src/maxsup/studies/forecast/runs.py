"""What can be said of runs before they are made: what their data decides, how long they take, which of them fail."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from maxsup.analysis import ANALYSES, RunOutputs
from maxsup.core.config import Recipe, differing_keys
from maxsup.core.errors import DataError
from maxsup.core.recipes import load_recipe
from maxsup.data import DataBundle, MaskSplit, Split
from maxsup.training.builders import build_data
from maxsup.training.preflight.defaults import fitted
from maxsup.training.preflight.estimate import estimated_seconds, rehearsed_run, try_step

_NUM_CLASSES, _PER_CLASS = 10, 8

Names = dict[str, list[str]]


@dataclass(frozen=True)
class Preview:
    """What a few steps of each setting tell.

    Args:
        seconds: That training takes, one run after another; of runs that can be made here. None where none can.
        missing: Names of runs by the sentence about their data, where that cannot be used.
        failing: Names of runs that fail at their first step, by the sentence about it.
        analyses: What goes wrong with analyses, by their name.
    """

    seconds: float | None
    missing: Names = field(default_factory=dict)
    failing: Names = field(default_factory=dict)
    analyses: dict[str, str] = field(default_factory=dict)


def preview(
    recipes: Mapping[str, Recipe],
    *,
    analyses: Mapping[str, Mapping[str, Any]] | None = None,
    is_elsewhere: bool = False,
) -> Preview:
    """Make the first step of every loss, and every analysis of a few images.

    Args:
        recipes: By name of the run.
        analyses: Options of analyses that will be made of every run, by name.
        is_elsewhere: Whether they may be made on machines that have data which this one lacks.

    Raises:
        Exception: What the first step raised, where no run can be made: there is nothing to begin with.
    """
    seconds, missing, failing, errors = 0.0, Names(), Names(), list[Exception]()
    problems: dict[str, str] | None = None
    for losses in _settings(recipes):
        bundle, each = None, None
        for names in losses:
            recipe = recipes[names[0]]
            try:
                bundle = bundle or build_data(recipe)
                if each is None:
                    each = estimated_seconds(recipe, bundle)
                else:
                    try_step(recipe, bundle)
            except DataError as error:
                errors.append(error)
                missing.setdefault(str(error), []).extend(names)
            except Exception as error:  # a run that cannot even begin is not the end of the others
                errors.append(error)
                failing.setdefault(str(error) or type(error).__name__, []).extend(names)
            else:
                seconds += len(names) * each
                if problems is None:
                    problems = _failing_analyses(recipe, bundle, analyses or {})
    num_refused = sum(len(names) for found in (missing, failing) for names in found.values())
    if recipes and num_refused == len(recipes) and not (is_elsewhere and missing):
        raise errors[0]
    return Preview(None if num_refused == len(recipes) else seconds, missing, failing, problems or {})


def settled_overrides(
    recipe: str, overrides: Sequence[str], data_root: Path | None = None
) -> tuple[list[str], list[str]]:
    """Overrides that also say what the recipe leaves to its data, and sentences about what was chosen.

    All runs of a comparison then have it from their recipe, and a later one with the same words finds the same.
    """
    place = [f"data.root={data_root.resolve()}"] if data_root else []
    base = load_recipe(recipe, [*overrides, *place])
    settled, sentences = fitted(base)
    chosen = {key: new for key, (_, new) in differing_keys(base, settled).items()}
    return [*overrides, *(f"{key}={json.dumps(value)}" for key, value in chosen.items())], sentences


def _settings(recipes: Mapping[str, Recipe]) -> list[list[list[str]]]:
    """Names of runs that differ in the seed alone, in lists of those that differ in the loss besides."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, recipe in recipes.items():
        losses = found.setdefault(recipe.model_dump_json(exclude={"loss", "seed"}), {})
        losses.setdefault(recipe.loss.model_dump_json(), []).append(name)
    return [list(losses.values()) for losses in found.values()]


def _failing_analyses(recipe: Recipe, bundle: DataBundle, analyses: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Sentences of analyses that raise after one step on a few images."""
    if not analyses or bundle.is_dense:
        return {}
    few = replace(bundle, train=_few(bundle.train), val=_few(bundle.val), test=_few(bundle.test))
    problems = {}
    with rehearsed_run(recipe, few) as (run, model):
        outputs = RunOutputs(run.path, loaded=(few, model))
        for name, options in analyses.items():
            analysis = ANALYSES[name]
            if analysis.trains:
                continue
            try:
                if analysis.obstacle(outputs, split="test", **options) is None:
                    shared = {**options, **analysis.agree([outputs], split="test", **options)}
                    analysis.compute(outputs, split="test", **shared)
            except Exception as error:
                problems[name] = f"{type(error).__name__}: {error}"
    return problems


def _few(split: Split) -> Split:
    """Some images of some classes."""
    if isinstance(split, MaskSplit):
        return split
    labels: Sequence[int] = split.labels.tolist()
    kept, counts = [], dict[int, int]()
    for index, label in enumerate(labels):
        if len(counts) < _NUM_CLASSES or label in counts:
            counts[label] = counts.get(label, 0) + 1
            if counts[label] <= _PER_CLASS:
                kept.append(index)
    return split.subset(split.labels.new_tensor(kept))
