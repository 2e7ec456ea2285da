"""Models on the same images: how they are matched, what is said of their differences, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from maxsup.core.errors import DataError
from maxsup.diagnosis import Outputs, SideBySide, diagnose
from maxsup.diagnosis.side_by_side import diagnose_side_by_side
from maxsup.lab.core.files.storage import json_text
from maxsup.lab.reports.side_by_side import side_by_side_page
from maxsup.metrics import accuracy, detection, negative_log_likelihood, novelty_scores

NUM_CLASSES = 6
LABELS = torch.arange(400) % NUM_CLASSES


def outputs(noise: float, scale: float, seed: int, *, labels: torch.Tensor = LABELS) -> Outputs:
    """Logits on the same images: what they have in common, and the noise of a model."""
    shared = torch.Generator().manual_seed(99)
    own = torch.Generator().manual_seed(seed)
    logits = 2.5 * F.one_hot(labels, NUM_CLASSES) + torch.randn(len(labels), NUM_CLASSES, generator=shared)
    logits = scale * (logits + noise * torch.randn(logits.shape, generator=own))
    return Outputs(logits, labels, logits @ torch.randn(NUM_CLASSES, 9, generator=own))


MODELS = {
    "good": outputs(0.1, 1.2, 0),
    "the same, less sure": outputs(0.1, 0.5, 0),
    "bad": outputs(3.0, 1.0, 1),
}


@pytest.fixture(scope="module")
def found() -> SideBySide:
    return diagnose(MODELS)


def test_differences_are_the_second_minus_the_first(found: SideBySide) -> None:
    assert [(pair.first, pair.second) for pair in found.pairs] == [
        ("good", "the same, less sure"),
        ("good", "bad"),
        ("the same, less sure", "bad"),
    ]
    logits = [model.logits for model in MODELS.values()]
    for metric, name in ((accuracy, "accuracy"), (negative_log_likelihood, "nll")):
        expected = metric(logits[2], LABELS) - metric(logits[0], LABELS)
        assert found.pairs[1].numbers[name]["value"] == pytest.approx(expected, abs=1e-9)
        assert found.pairs[1].numbers[name]["low"] < expected < found.pairs[1].numbers[name]["high"]


def test_a_scale_of_the_logits_is_a_difference_as_trained_and_none_after_a_temperature(found: SideBySide) -> None:
    pair = found.pairs[0]
    assert pair.test.p_value == pair.agreement == 1.0
    assert abs(pair.numbers["ece"]["value"]) > 0.1
    for name in ("ece_after", "nll_after", "brier_after"):
        assert abs(pair.numbers[name]["value"]) < 1e-5
    assert pair.cka is not None
    said = {each.topic: each for each in pair.findings}
    assert said["Accuracy"].level == "unknown"
    assert said["Calibration"].level == "note"


def test_a_worse_model_is_called_less_accurate(found: SideBySide) -> None:
    [said] = [each for each in found.pairs[1].findings if each.topic == "Accuracy"]
    assert said.level == "note"
    assert "less accurate" in said.sentence
    assert found.pairs[1].test.p_value < 1e-6


def test_each_model_has_the_diagnosis_that_it_has_alone(found: SideBySide) -> None:
    bad = MODELS["bad"]
    alone = diagnose(bad.logits, bad.labels, bad.features)
    assert found.diagnoses["bad"].findings == alone.findings
    assert repr(found.diagnoses["bad"].numbers) == repr(alone.numbers)  # nan is not equal to itself


def test_ids_match_images_in_any_order_and_leave_out_what_one_lacks() -> None:
    first, second = outputs(0.1, 1.0, 0), outputs(1.0, 1.0, 1)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))[:390]
    mixed = Outputs(second.logits[order], LABELS[order], None, indices=order)
    whole = Outputs(first.logits, LABELS, None, indices=torch.arange(400))
    found = diagnose([whole, mixed])
    assert (found.num_samples, found.num_left_out) == (390, 10)
    kept = order.sort().values
    expected = accuracy(second.logits[kept], LABELS[kept]) - accuracy(first.logits[kept], LABELS[kept])
    assert found.pairs[0].numbers["accuracy"]["value"] == pytest.approx(expected)


def test_files_with_ids_are_matched_by_them(tmp_path: Path) -> None:
    first = outputs(0.1, 1.0, 0)
    for name, order in (("a", torch.arange(400)), ("b", torch.arange(400).flip(0))):
        arrays = {"logits": first.logits[order], "labels": LABELS[order], "ids": order}
        np.savez(tmp_path / f"{name}.npz", **{key: value.numpy() for key, value in arrays.items()})
    found = diagnose([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert found.pairs[0].agreement == 1.0


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ((torch.randn(400, 7), LABELS), "the same classes; got 6 of A and 7 of B"),
        ((torch.randn(399, 6), LABELS[:399]), "the same images; got 400 of A and 399 of B"),
        ((torch.randn(400, 6), LABELS.flip(0)), "the same images; got class 0 in A and 3 in B"),
    ],
)
def test_other_classes_and_other_images_are_refused(second: tuple[torch.Tensor, torch.Tensor], words: str) -> None:
    with pytest.raises(DataError, match=words):
        diagnose([(MODELS["good"].logits, LABELS), second])


def test_too_few_images_and_one_model_are_refused() -> None:
    few = MODELS["good"].logits[:60], LABELS[:60]
    with pytest.raises(DataError, match="at least 200 images in common"):
        diagnose([few, few])
    with pytest.raises(ValueError, match="at least two"):
        diagnose([few])
    with pytest.raises(ValueError, match="labels must be given"):
        diagnose(MODELS["good"].logits)
    with pytest.raises(ValueError, match="features must be left out"):
        diagnose([few, few], features=MODELS["good"].features)  # type: ignore[call-overload]


def test_the_page_names_every_model_and_the_result_is_json(found: SideBySide) -> None:
    page = side_by_side_page(found, {name: {"Model": "made"} for name in MODELS})
    assert all(f"{pair.second} against {pair.first}" in page for pair in found.pairs)
    assert 'href="#accuracy"' not in page
    assert json.loads(json_text(found.as_dict()))["pairs"][1]["test"]["only_first"] == found.pairs[1].test.only_first
    assert "bad against good" in repr(found)
    assert "<b>bad</b> against good" in found._repr_html_()


def novelties(num_others: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(num_others, NUM_CLASSES, generator=generator)
    return {"good": 0.1 * logits, "bad": 20.0 * logits}


def side_by_side(ood: dict[str, torch.Tensor]) -> SideBySide:
    return diagnose_side_by_side({name: MODELS[name] for name in ("good", "bad")}, ood=ood)


def test_a_model_that_is_sure_of_other_images_notices_less() -> None:
    others = novelties(150)
    found = side_by_side(others)
    scores = [
        detection(*(novelty_scores(each)["energy"] for each in (MODELS[name].logits, others[name]))).auroc
        for name in ("good", "bad")
    ]
    assert found.diagnoses["bad"].numbers["ood_auroc_energy"]["value"] == scores[1]
    number = found.pairs[0].numbers["ood_auroc_energy"]
    assert number["value"] == pytest.approx(scores[1] - scores[0], abs=1e-12)
    assert number["high"] < 0
    finding = found.pairs[0].findings[-1]
    assert (finding.topic, finding.level) == ("Other images", "note")
    assert "Other images" in side_by_side_page(found)


def test_too_few_other_images_give_a_sentence_and_no_difference() -> None:
    [pair] = side_by_side(novelties(99)).pairs
    assert (pair.findings[-1].topic, pair.findings[-1].level) == ("Other images", "unknown")
    assert "ood_auroc_energy" not in pair.numbers


@pytest.mark.parametrize("what", ["missing", "number"])
def test_other_images_that_models_do_not_share_are_refused(what: str) -> None:
    others = novelties(150)
    others["bad"] = others["bad"][:140]
    with pytest.raises(DataError) as refused:
        side_by_side({"good": others["good"]} if what == "missing" else others)
    assert refused.value.code == "other-samples"
