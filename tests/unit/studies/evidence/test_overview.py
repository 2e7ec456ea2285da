"""All pools at a glance: means over seeds, and differences within a seed."""

import math

import pytest

from maxsup.studies.evidence.overview import pool_entry


def rows(loss: str, accuracies: list[float], **others: float) -> list[dict[str, object]]:
    return [{"loss": loss, "seed": seed, "test.accuracy": value, **others} for seed, value in enumerate(accuracies)]


def test_a_pool_has_the_means_of_its_losses_in_a_fixed_order() -> None:
    table = rows("poly1", [0.5]) + rows("maxsup alpha=0.1", [0.7, 0.9]) + rows("ls alpha=0.1", [0.6, 0.7])
    entry = pool_entry("p", {"p": table}, [])
    assert [row["loss"] for row in entry["rows"]] == ["ls alpha=0.1", "maxsup alpha=0.1", "poly1"]
    assert [row["num_seeds"] for row in entry["rows"]] == [2, 2, 1]
    assert entry["rows"][1]["means"] == [pytest.approx(0.8)]


def test_differences_are_taken_within_a_seed_and_only_where_both_losses_ran() -> None:
    table = rows("maxsup alpha=0.1", [0.7, 0.9, 0.1]) + rows("ls alpha=0.1", [0.6, 0.7])
    mean, low, high, num_pairs = pool_entry("p", {"p": table}, [])["contrast"]["test.accuracy"]
    assert (mean, num_pairs) == (pytest.approx(0.15), 2)
    assert low < 0.1 < 0.2 < high


def test_the_two_losses_that_are_contrasted_have_one_strength_and_no_schedule() -> None:
    table = rows("ls alpha=0.1..0.2", [0.1]) + rows("ls alpha=0.1 convention=k-1", [0.5])
    table += rows("maxsup alpha=0.1..0.2", [0.9]) + rows("maxsup alpha=0.1", [0.7])
    entry = pool_entry("p", {"p": table}, [])
    assert entry["smoothing"] == "ls alpha=0.1 convention=k-1"
    assert entry["contrast"]["test.accuracy"][0] == pytest.approx(0.2)


def test_a_pool_without_label_smoothing_has_means_and_no_differences() -> None:
    entry = pool_entry("p", {"p": rows("ce", [0.5, 0.6])}, [])
    assert entry["contrast"] == {"test.accuracy": None}
    assert entry["rows"][0]["difference"] is None


def test_numbers_that_no_run_has_are_left_out_and_single_holes_are_empty() -> None:
    table = rows("ce", [0.5], **{"probe.accuracy": math.nan}) + rows("poly1", [0.5], **{"probe.accuracy": 0.3})
    entry = pool_entry("p", {"p": table}, ["probe.accuracy", "masks.miou"])
    assert entry["numbers"] == ["test.accuracy", "probe.accuracy"]
    assert entry["rows"][0]["means"] == [0.5, None]
