"""What docs/errata.md says of published numbers follows from these numbers."""

import re

import pytest

from maxsup.lab.experiments.study_files import load_study, study_names
from tests.architecture.source import ROOT

ERRATA = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (\w+): .+\n\n((?:(?!^#).*\n?)+)", ERRATA, re.MULTILINE))


def published(name: str) -> dict[tuple[str, str], tuple[float, float | None]]:
    return {(number.row, number.column): (number.mean, number.std) for number in load_study(name).published_numbers()}


def test_every_entry_says_what_is_done_about_it() -> None:
    silent = [name for name, text in ENTRIES.items() if "**We** " not in text and name != "appendix_typo"]
    assert silent == []
    assert len(ENTRIES) == ERRATA.count("\n### ") >= 25


def test_studies_refer_to_entries_that_exist_and_every_entry_is_referred_to() -> None:
    referred = {name for study in study_names() for name in load_study(study).errata}
    assert referred | {"appendix_typo"} == set(ENTRIES)


def test_three_cells_of_r_squared_do_not_follow_from_their_row() -> None:
    numbers = published("tab_feature2")
    wrong = {}
    for row in ("ce", "ls", "ols", "zipf_ls", "maxsup", "logit_penalty"):
        for split in ("train", "val"):
            within, total, printed = (numbers[row, f"{name}_{split}"][0] for name in ("within", "total", "r_squared"))
            follows = 1 - within / total
            # Rounding of the two distances moves the ratio by 0.0002 at most.
            if abs(follows - printed) > 2e-4:
                wrong[row, split] = round(follows, 4)
    assert wrong == {("ls", "train"): 0.4587, ("ce", "val"): 0.4431, ("zipf_ls", "train"): 0.5508}
    for (_, split), value in wrong.items():
        assert f"{value}" in ENTRIES["r_squared_arithmetic"], split


def test_the_short_feature_table_is_the_long_one_rounded() -> None:
    long = published("tab_feature2")
    for cell, (value, _) in published("tab_feature").items():
        assert value == pytest.approx(long[cell][0], abs=5.001e-4), cell


def test_two_recipes_share_their_spreads() -> None:
    long, short = published("tab_comparison_new"), published("tab_general_training")
    networks = ("resnet18", "resnet50", "resnet101", "mobilenetv2")
    equal = {
        row: sum(long[row, f"imagenet_{network}"][1] == short[row, network][1] for network in networks)
        for row in ("ce", "ls", "zipf_ls", "ols", "maxsup", "logit_penalty")
    }
    assert equal == {"ce": 4, "ls": 3, "zipf_ls": 1, "ols": 4, "maxsup": 4, "logit_penalty": 0}
    rises = {
        row: [network for network in networks if short[row, network][0] > long[row, f"imagenet_{network}"][0]]
        for row in equal
    }
    assert rises == {
        "ce": list(networks),
        "ls": [],
        "zipf_ls": ["resnet18", "resnet50", "mobilenetv2"],
        "ols": [],
        "maxsup": [],
        "logit_penalty": [],
    }
    assert short["ols", "resnet18"] == long["ols", "imagenet_resnet18"] == (69.45, 0.15)


def test_the_deeper_baseline_is_below_the_shallower_one() -> None:
    for name, prefix in (("tab_comparison_new", "imagenet_"), ("tab_general_training", "")):
        numbers = published(name)
        for row in ("ce", "ls", "zipf_ls", "ols", "maxsup", "logit_penalty"):
            deeper, shallower = numbers[row, f"{prefix}resnet101"][0], numbers[row, f"{prefix}resnet50"][0]
            assert (deeper < shallower) == (row == "ce")


def test_the_logit_penalty_does_not_always_help() -> None:
    for name, worse in (("tab_comparison_new", 2), ("tab_general_training", 4)):
        numbers = published(name)
        columns = [column for row, column in numbers if row == "ce" and not column.startswith("cifar100")]
        assert sum(numbers["logit_penalty", column] < numbers["ce", column] for column in columns) == worse


def test_overall_accuracy_of_the_long_tail_follows_from_two_groups() -> None:
    numbers = published("tab_lt")
    for row in {row for row, _ in numbers}:
        share = 0.9 if "_50_" in row else 0.8
        overall, many, medium, low = (numbers[row, column][0] for column in ("overall", "many", "medium", "low"))
        assert overall == pytest.approx(share * many + (1 - share) * medium, abs=0.11)
        assert low == 0.0
    assert numbers["test_100_ls", "overall"] == numbers["test_100_maxsup", "overall"]


def test_the_same_setting_has_other_numbers_in_other_tables() -> None:
    deit, alpha = published("tab_deit_small_comparison"), published("tab_alpha")
    for row in ("ce", "ls", "maxsup"):
        assert deit[row, "accuracy"][0] != alpha[row, "linear"][0]
        assert published("tab_pre")[row, "accuracy"] == alpha[row, "constant"]
    assert published("tab_ablation_alpha")["accuracy", "linear"] == (77.65, None)
    assert published("tab_comparison_new")["maxsup", "imagenet_resnet50"] == (77.69, 0.07)


def test_cross_entropy_leads_five_of_six_probes() -> None:
    numbers = published("tab_extended_feature")
    columns = ("cifar10", "cifar100", "cub", "flowers", "foods", "pets")
    leaders = {
        column: max(("ce", "ls", "ols", "maxsup"), key=lambda row, column=column: numbers[row, column][0])
        for column in columns
    }
    assert [column for column in columns if leaders[column] == "ce"] == list(columns[:5])
    assert numbers["ols", "cub"] > numbers["maxsup", "cub"]


def test_maxsup_keeps_most_variation_on_training_images_only() -> None:
    numbers = published("tab_feature")
    for split, leader in (("train", "maxsup"), ("val", "logit_penalty")):
        regularised = ("ls", "ols", "zipf_ls", "maxsup", "logit_penalty")
        assert max(regularised, key=lambda row, split=split: numbers[row, f"within_{split}"][0]) == leader


def test_tables_without_a_spread_are_those_that_are_listed() -> None:
    tables = ("tab_pre", "tab_feature", "tab_validation_performance", "tab_fine_grained", "tab_lt")
    for name in tables:
        assert all(std is None for _, std in published(name).values())
        assert f"`{load_study(name).label}`" in ENTRIES["no_spread"]
