"""The doctor finds traps in settings by their names, and says nothing about healthy ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxsup.doctor import config_kind, examine_config
from maxsup.lab.core.recipes import list_recipes, load_recipe

HF = {"label_smoothing_factor": 0.0, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"loss": "maxsup", "alpha": 0.1, "smoothing": 0.1, "mixup": 0.8}, ["double_smoothing"]),
        ({"loss": {"name": "maxsup", "alpha": 0.1}, "label_smoothing": "0.1"}, ["double_smoothing"]),
        ({"--loss": "maxsup", "--label-smoothing": 0.1}, ["double_smoothing"]),
        ({"loss": {"label_smoothing": 0.1}, "mixup": {"label_smoothing": 0.1}}, ["double_smoothing"]),
        ({"loss": {"name": "ls", "alpha": 0.1}, "mixup": {"label_smoothing": 0.1}}, ["double_smoothing"]),
        ({"loss": {"type": "MaxSupLoss", "alpha": 0.2}, "label_smooth": 0.1}, ["double_smoothing"]),
        ({"losses": [{"name": "maxsup"}, {"name": "dice"}], "label_smoothing": 0.1}, ["double_smoothing"]),
        (
            {"loss": {"label_smooth_val": 0.1}, "augments": [{"type": "Mixup", "label_smoothing": 0.1}]},
            ["double_smoothing"],
        ),
        (
            {"loss": {"name": "maxsup", "alpha": {"start": 0.2, "end": 0.0}}, "smoothing": 0.1, "epochs": 3},
            ["double_smoothing"],
        ),
        ({"validation": {"label_smoothing": 0.1}}, ["smoothed_evaluation"]),
        ({"label_smoothing": 0.1, "mixup_alpha": 0.2, "cutmix_alpha": 1.0}, ["smoothed_evaluation"]),
        (
            {**HF, "label_smoothing_factor": 0.1, "eval_strategy": "epoch"},
            ["smoothed_evaluation", "accumulation_denominator"],
        ),
        ({**HF, "average_tokens_across_devices": False}, ["accumulation_denominator"]),
        ({"criterion": "label_smoothed_cross_entropy", "label_smoothing": 0.1, "arch": "t"}, ["k_minus_1_convention"]),
        ({"criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1}}, ["k_minus_1_convention"]),
        ({"loss": {"name": "ls", "convention": "k-1"}, "epochs": 3}, ["k_minus_1_convention"]),
        ({"trainer": {"accumulate_grad_batches": 4}, "data": {"max_length": 128}}, ["accumulation_denominator"]),
        ({"loss": {"name": "maxsup", "alpha": {"start": 0.1, "end": 0.2}}, "epochs": 1}, ["schedule_not_advanced"]),
        ({"loss": "maxsup", "smoothing": 0.0, "mixup": 0.8, "bce_loss": True}, ["sigmoid_loss"]),
        ({"--loss": "maxsup", "--smoothing": 0.0, "--mixup": 0.8, "--bce-loss": True}, ["sigmoid_loss"]),
    ],
)
def test_traps_in_settings_are_found(values: dict[str, Any], expected: list[str]) -> None:
    found = examine_config(values)
    assert [finding.topic for finding in found] == expected
    assert all(finding.sentence.endswith(".") and finding.advice.endswith(".") for finding in found)


def test_the_advice_for_a_trainer_of_transformers_has_the_callback_that_it_asks_for() -> None:
    found = examine_config({**HF, "label_smoothing_factor": 0.1, "eval_strategy": "epoch"})
    assert all("callbacks=[loss.callback()]" in finding.advice for finding in found)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("flags of timm", {"smoothing": 0.1, "mixup": 0.8, "cutmix": 1.0, "model": "resnet50", "grad_accum_steps": 4}),
        ("flags of timm", {"smoothing": 0.1, "mixup": 0.0, "model": "resnet50", "bce_loss": False}),
        ("flags of timm", {"loss": "maxsup", "alpha": 0.1, "alpha_end": 0.2, "smoothing": 0.0, "mixup": 0.8}),
        ("TrainingArguments of transformers", {**HF, "eval_strategy": "epoch", "average_tokens_across_devices": True}),
        ("flags of torchvision's references", {"label_smoothing": 0.0, "mixup_alpha": 0.2, "cutmix_alpha": 1.0}),
        ("settings of fairseq", {"criterion": "cross_entropy", "arch": "transformer", "update_freq": [8]}),
        ("settings", {"accumulate_grad_batches": 4, "image_size": 224}),
        ("settings", {"val_smoothing_window": 5, "optimizer": {"name": "sgd"}}),
        ("settings", {"name": "maxsup_and_ls", "logger": {"name": "maxsup"}, "label_smoothing": 0.1}),
        ("settings", {}),
    ],
)
def test_no_finding_for_healthy_settings(kind: str, values: dict[str, Any]) -> None:
    assert config_kind(values) == kind
    assert examine_config(values) == []


@pytest.mark.parametrize("name", list_recipes())
def test_no_finding_for_the_recipes_of_the_package(name: str) -> None:
    values = load_recipe(name).model_dump(mode="json")
    assert config_kind(values) == "a recipe of maxsup"
    assert examine_config(values) == []


@given(
    st.dictionaries(
        st.text("abcdefghijklmnop_-.", min_size=1, max_size=12),
        st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=8), st.lists(st.integers(), max_size=3)),
        max_size=8,
    )
)
def test_settings_about_other_things_give_no_finding(values: dict[str, Any]) -> None:
    assert examine_config({"settings": values}) == []
