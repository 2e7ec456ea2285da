"""Several models side by side: the diagnosis of each, and differences on the same images, paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.core.finding import LEVELS, Finding
from maxsup.diagnosis import measures
from maxsup.diagnosis.array_files import read_array_files, read_sample_ids
from maxsup.diagnosis.diagnosis import PROTOCOL, Diagnosis, diagnosis_of
from maxsup.diagnosis.findings import MIN_A_CLASS
from maxsup.diagnosis.outputs import Outputs, checked_others, checked_outputs
from maxsup.diagnosis.pair_findings import novelty_pair_finding, pair_findings
from maxsup.metrics import novelty_scores
from maxsup.metrics.facts import numbers as named
from maxsup.metrics.paired import (
    MIN_PAIRED,
    Differences,
    McNemar,
    linear_cka,
    mcnemar,
    paired_detections,
    paired_differences,
    paired_separations,
)

Model = Outputs | tuple[Any, ...] | str | Path
"""Outputs, arrays in the order of ``diagnose`` (logits, labels, features, class names), or a file of them."""

Models = Sequence[Model] | Mapping[str, Model]

MIN_SAMPLES = 2 * MIN_PAIRED
"""A half of the images fits temperatures, and the other half judges them."""

_CKA_SAMPLES = 4000
_TEMPERED = ("ece", "nll", "brier")  # compared before and after a temperature of each model


class Pair(NamedTuple):
    """The second model against the first: numbers are differences, the second minus the first."""

    first: str
    second: str
    numbers: dict[str, dict[str, Any]]
    test: McNemar
    agreement: float  # share of the images that both take for the same class
    cka: float | None  # linear CKA of their features, None without
    findings: list[Finding]


@dataclass(frozen=True, repr=False)
class SideBySide:
    """Diagnoses of several models, and what differs between them. Shows its findings when printed or displayed.

    Attributes:
        diagnoses: By the name of the model.
        pairs: All pairs of models, in their order.
        num_samples: Images that all models have.
        num_left_out: Images that some model lacks.
    """

    diagnoses: dict[str, Diagnosis]
    pairs: list[Pair]
    num_samples: int
    num_left_out: int

    @property
    def headline(self) -> str:
        """Number of images and classes, and the accuracy of each model, in one line."""
        first = next(iter(self.diagnoses.values()))
        accuracies = (f"{name} {each.numbers['accuracy']['value']:.2%}" for name, each in self.diagnoses.items())
        return f"{self.num_samples:,} samples, {first.data['num_classes']:,} classes; accuracy {', '.join(accuracies)}"

    def __repr__(self) -> str:
        lines = [self.headline]
        for pair in self.pairs:
            lines += ["", f"{pair.second} against {pair.first}"]
            lines += [f"  {LEVELS[found.level]}: {found.topic}\n    {found.sentence}" for found in pair.findings]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td><b>{escape(pair.second)}</b> against {escape(pair.first)}</td><td>{escape(found.topic)}</td>"
            f'<td style="text-align:left">{escape(found.sentence)}</td></tr>'
            for pair in self.pairs
            for found in pair.findings
        ]
        return f"<p>{escape(self.headline)}</p><table>{''.join(rows)}</table>"

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, ready for JSON."""
        return {
            "protocol": PROTOCOL,
            "num_samples": self.num_samples,
            "num_left_out": self.num_left_out,
            "models": {name: found.as_dict() for name, found in self.diagnoses.items()},
            "pairs": [
                {**pair._asdict(), "test": pair.test._asdict(), "findings": [vars(found) for found in pair.findings]}
                for pair in self.pairs
            ],
        }


def diagnose_side_by_side(
    models: Models,
    *,
    heads: Mapping[str, tuple[Tensor | None, Tensor | None]] | None = None,
    ood: Mapping[str, Tensor] | None = None,
    seed: int = 0,
) -> SideBySide:
    """Diagnose at least two models on the same images, and compare each two of them.

    Images are matched by the ``indices`` of :class:`Outputs` where all models have them, else by their order. Names of
    models are the keys of a mapping, or A, B, C.

    Args:
        models: Outputs of each model.
        heads: Weight and bias of the last layer by the name of the model, for neural collapse.
        ood: Logits of images of another kind by the name of the model, the same images in the same order for all.
        seed: Seed of the split into halves and of the bootstrap.

    Raises:
        DataError: If the models differ in their classes or images, or there are too few images.
    """
    if not isinstance(models, Sequence | Mapping) or isinstance(models, str):
        raise ValueError(
            f"labels must be given for one model; got None with {type(models).__name__}. Give a list for several."
        )
    given = models if isinstance(models, Mapping) else {_letter(index): each for index, each in enumerate(models)}
    if len(given) < 2:
        raise ValueError(f"models must be at least two to stand side by side; got {len(given)}. Give more.")
    checked = {name: _checked(name, each) for name, each in given.items()}
    outputs, num_left_out = _matched(checked)
    num_samples = len(next(iter(outputs.values())))
    if num_samples < MIN_SAMPLES:
        raise DataError(
            f"models must have at least {MIN_SAMPLES} images in common for paired intervals; got {num_samples}. "
            "Give more of the data.",
            code="too-few-samples",
        )
    rescaled = {name: measures.rescale(each, None, seed) for name, each in outputs.items()}
    everything = [each.everything.predictions for each in rescaled.values()]
    tables = {
        "": everything,
        "_before": [each.before.predictions for each in rescaled.values()],
        "_after": [each.after.predictions for each in rescaled.values()],
    }
    found = {when: paired_differences(each, seed=seed, with_ranking=when == "") for when, each in tables.items()}
    separations = _separations(list(outputs.values()), seed)
    others = _others(ood or {}, outputs)
    detections = _detections(outputs, others, seed)
    diagnoses = {}
    for name, each in outputs.items():
        weight, bias = (heads or {}).get(name, (None, None))
        diagnoses[name] = diagnosis_of(
            each, rescaled[name], weight=weight, bias=bias, others=others.get(name), seed=seed
        )
    pairs, names = [], list(outputs)
    for first, second in combinations(range(len(names)), 2):
        numbers = dict(found[""][first, second])
        for when in ("_before", "_after"):
            numbers |= {f"{name}{when}": found[when][first, second][name] for name in _TEMPERED}
        numbers |= separations.get((first, second), {})
        numbers |= detections.get((first, second), {})
        left, right = everything[first], everything[second]
        test = mcnemar(left.is_correct, right.is_correct)
        cka = _cka(outputs[names[first]].features, outputs[names[second]].features)
        shown = named(numbers)
        judged = pair_findings(names[first], names[second], shown, test, cka, len(left.labels))
        if others:
            num_others = len(others[names[first]])
            judged.append(novelty_pair_finding(names[first], names[second], shown, num_others))
        agreement = float((left.predicted == right.predicted).double().mean())
        pairs.append(Pair(names[first], names[second], shown, test, agreement, cka, judged))
    return SideBySide(diagnoses, pairs, num_samples, num_left_out)


def _separations(models: list[Outputs], seed: int) -> dict[tuple[int, int], Differences]:
    """Return differences of features within and between classes, if all models have features of enough samples."""
    features = [each.features for each in models if each.features is not None]
    if len(features) < len(models) or models[0].num_a_class < MIN_A_CLASS:
        return {}
    return paired_separations(features, models[0].labels, seed=seed)


def _others(given: Mapping[str, Tensor], models: Mapping[str, Outputs]) -> dict[str, Tensor]:
    """Return checked logits of other images, of all models or of none."""
    if missing := [name for name in models if given and name not in given]:
        raise DataError(
            f"ood must have logits of every model; got none of {missing[0]}. Give those of the same images for all, "
            "or leave ood out.",
            code="other-samples",
        )
    others = {name: checked_others(given[name], each.num_classes) for name, each in models.items() if given}
    if len(sizes := {len(each) for each in others.values()}) > 1:
        raise DataError(
            f"ood must be of the same images for all models; got {' and '.join(map(str, sorted(sizes)))} of them. "
            "Use one set.",
            code="other-samples",
        )
    return others


def _detections(
    models: Mapping[str, Outputs], others: Mapping[str, Tensor], seed: int
) -> dict[tuple[int, int], Differences]:
    """Return differences in noticing other images, if there are enough of them."""
    if not others or len(next(iter(others.values()))) < MIN_PAIRED:
        return {}
    scores = [(novelty_scores(each.logits), novelty_scores(others[name])) for name, each in models.items()]
    return paired_detections(scores, seed=seed)


def _letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else f"model {index + 1}"


def _checked(name: str, model: Model) -> Outputs:
    try:
        if isinstance(model, Outputs):
            found = checked_outputs(model.logits, model.labels, model.features, model.class_names)
            return replace(found, indices=model.indices, num_missing=model.num_missing)
        if isinstance(model, str | Path):
            return replace(checked_outputs(*read_array_files(model)), indices=read_sample_ids(model))
        return checked_outputs(*model)
    except DataError as error:
        raise DataError(f"{name}: {error}", code=error.code) from error


def _matched(models: Mapping[str, Outputs]) -> tuple[dict[str, Outputs], int]:
    """Return the samples that all models have, in the same order, and how many some model lacks."""
    (first, own), *others = models.items()
    for name, each in others:
        if each.num_classes != own.num_classes:
            raise DataError(
                f"models must have the same classes; got {own.num_classes} of {first} and {each.num_classes} of "
                f"{name}. Compare models of one task.",
                code="other-classes",
            )
    keys = [each.indices for each in models.values()]
    if any(key is None for key in keys):
        for name, each in others:
            if len(each) != len(own):
                raise _other_images(f"{len(own)} of {first} and {len(each)} of {name}")
        matched, num_left_out = dict(models), 0
    else:
        sets = [set(key.tolist()) for key in keys if key is not None]
        common = torch.tensor(sorted(set.intersection(*sets)), dtype=torch.int64)
        if len(common) == 0:
            raise _other_images("none that all of them have")
        matched = {name: _selected(each, common) for name, each in models.items()}
        num_left_out = len(set.union(*sets)) - len(common)
    labels = next(iter(matched.values())).labels
    for name, each in matched.items():
        if not torch.equal(each.labels, labels):
            row = int((each.labels != labels).nonzero()[0])
            raise _other_images(f"class {int(labels[row])} in {first} and {int(each.labels[row])} in {name} for one")
    return matched, num_left_out


def _selected(model: Outputs, wanted: Tensor) -> Outputs:
    assert model.indices is not None
    ordered, order = model.indices.sort()
    rows = order[torch.searchsorted(ordered, wanted)]
    return replace(
        model,
        logits=model.logits[rows],
        labels=model.labels[rows],
        features=None if model.features is None else model.features[rows],
        indices=wanted,
    )


def _other_images(found: str) -> DataError:
    return DataError(
        f"models must be judged on the same images; got {found}. Use the same data and split for all, and keep the "
        "order, or give each file an array of sample ids called 'ids'.",
        code="other-samples",
    )


def _cka(first: Tensor | None, second: Tensor | None) -> float | None:
    if first is None or second is None:
        return None
    rows = torch.linspace(0, len(first) - 1, min(len(first), _CKA_SAMPLES)).round().long()
    return linear_cka(first[rows], second[rows])
