"""The table of numbers: complete, consistent, and what its functions give is what it says."""

import math

import pytest
import torch

from maxsup.diagnosis import diagnose
from maxsup.lab.experiments.comparison import MASK_METRICS, METRICS
from maxsup.lab.experiments.study_files import load_study, study_names
from maxsup.metrics import (
    ConfusionSums,
    PredictionSums,
    PredictionTable,
    class_separation,
    feature_rank,
    neural_collapse,
)
from maxsup.metrics.facts import DIRECTIONS, FACTS, fact, numbers

GENERATOR = torch.Generator().manual_seed(0)
LABELS = torch.arange(400) % 4
LOGITS = 3.0 * torch.nn.functional.one_hot(LABELS) + 1.5 * torch.randn(400, 4, generator=GENERATOR)


def test_every_number_of_an_evaluation_is_in_the_table() -> None:
    sums, table, masks = PredictionSums(), PredictionTable(), ConfusionSums(4)
    sums.update(LOGITS, LABELS)
    table.update(LOGITS, LABELS)
    masks.update(LOGITS.argmax(dim=1), LABELS)
    names = {*sums.compute(), *table.compute(), *masks.compute(), "majority_miou"}
    assert len(names) > 15
    assert all(fact(name).title for name in names)


def test_every_number_of_a_diagnosis_is_in_the_table_with_its_direction_and_unit() -> None:
    found = diagnose(LOGITS, LABELS, LOGITS).numbers
    assert len(found) > 40
    assert {name: (entry["direction"], entry["unit"]) for name, entry in found.items()} == {
        name: (fact(name).direction, fact(name).unit) for name in found
    }
    assert found["accuracy_top5"]["direction"] == "higher"


@pytest.mark.parametrize("name", study_names())
def test_a_study_shows_numbers_of_the_table_and_never_turns_their_direction(name: str) -> None:
    study = load_study(name)
    metrics = [study.metric_of(cell) for cell in study.cells()]
    assert metrics
    assert all(metric.direction == fact(metric.name).direction for metric in metrics)


def test_a_comparison_shows_numbers_as_the_table_has_them() -> None:
    for metric in (*METRICS.values(), *MASK_METRICS.values()):
        known = fact(metric.name)
        shown = (metric.direction, metric.unit, metric.factor, metric.digits)
        assert shown == (known.direction, known.printed_unit, known.factor, known.digits)


@pytest.mark.parametrize("name", FACTS)
def test_an_entry_is_complete_and_its_function_gives_a_number(name: str) -> None:
    entry = FACTS[name]
    assert name.isidentifier()
    assert entry.title
    assert entry.full_name
    assert entry.direction in DIRECTIONS
    assert (entry.factor == 100) == (entry.printed_unit == "%")
    if entry.function is None:
        return
    if entry.function is neural_collapse:
        found = getattr(neural_collapse(LOGITS, LABELS, torch.eye(4)), name)
    elif entry.function in (class_separation, feature_rank):
        found = getattr(entry.function(LOGITS, LABELS), name)
    else:
        found = entry.function(LOGITS, LABELS)
    assert math.isfinite(found)


@pytest.mark.parametrize("name", [name for name, entry in FACTS.items() if entry.function is not None])
def test_what_a_number_measures_decides_its_direction(name: str) -> None:
    """Logits that know the labels against logits of chance."""
    direction = FACTS[name].direction
    if direction == "none":
        return
    noise = torch.randn(400, 4, generator=torch.Generator().manual_seed(1))
    good, bad = 4.0 * torch.nn.functional.one_hot(LABELS) + noise, 3.0 * noise
    function = FACTS[name].function
    assert function is not None
    gain = function(good, LABELS) - function(bad, LABELS)
    assert gain >= 0 if direction == "higher" else gain <= 0


def test_confidence_on_errors_has_no_direction() -> None:
    assert numbers({"confidence_wrong": 0.5})["confidence_wrong"]["direction"] == "none"
