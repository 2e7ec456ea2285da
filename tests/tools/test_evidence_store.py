"""Collected runs come back as they were, add up over machines, and are not run again."""

import math

import numpy as np
import pytest

from tools.evidence.claims import load_claims
from tools.evidence.collect import collect
from tools.evidence.measures import ImageRecord, from_codes
from tools.evidence.plan import Run, blocks, load_plan, tasks
from tools.evidence.results import Row, write_result
from tools.evidence.run import missing
from tools.evidence.store import add_runs, done_runs, read_arrays, read_rows

PLAN = load_plan()
CLAIMS = load_claims(PLAN)
NUM_IMAGES = 50


def _block(name):
    return next(block for block in blocks(PLAN) if block.name == name)


def _task(name):
    return next(task for task in tasks(PLAN) if task.name == name)


def _made(run, seed=0):
    rng = np.random.default_rng([seed, run.seed, len(run.arm)])
    codes = rng.integers(0, 256, (3, NUM_IMAGES), dtype=np.uint8)
    numbers = {"accuracy": 0.5 + seed / 8, "val_confidence": 0.123456, "gap": None}
    row = Row(run.pool, run.arm, run.seed, numbers, [0.25, math.nan, 0.5], run.head)
    return row, ImageRecord(rng.random(NUM_IMAGES) < 0.7, *codes)


def _add(runs, folder, seed=0):
    rows, records = zip(*(_made(run, seed) for run in runs), strict=True)
    return add_runs(PLAN, CLAIMS.values(), rows, records, folder)


@pytest.mark.parametrize("name", ["c10-ce-s100", "heads_pets-linear-16-ce-s120"])
def test_runs_come_back_as_they_were(tmp_path, name):
    block = _block(name)
    assert _add(block.runs, tmp_path) == len(block.runs)
    found = read_arrays(block, tmp_path)
    assert list(found) == block.runs
    for row in read_rows(block.pool, tmp_path):
        assert row.numbers == {"accuracy": 0.5, "val_confidence": 0.12346, "gap": None}
        _, record = _made(row.run)
        np.testing.assert_array_equal(found[row.run]["is_right"], record.is_right)
        np.testing.assert_array_equal(found[row.run]["curve"], [0.25, math.nan, 0.5])


def test_probabilities_come_back_to_a_fifth_of_their_log_odds_where_a_claim_needs_them(tmp_path):
    block = _block("c10-ce-s100")
    _add(block.runs, tmp_path)
    for run, arrays in read_arrays(block, tmp_path).items():
        _, record = _made(run)
        assert "confidence" in arrays  # of all strengths, for curves over confidence
        assert ("cooled_truth" in arrays) == (run.arm in ("ls alpha=0.1", "maxsup alpha=0.1"))
        odds = [np.log(p / (1 - p)) for p in (arrays["confidence"].astype(float), from_codes(record.confidence))]
        assert np.abs(odds[0] - odds[1]).max() < 0.2


def test_heads_keep_no_probability_that_no_claim_needs(tmp_path):
    for name, is_kept in (("heads_pets-linear-16-ce-s100", True), ("heads_pets-linear-64-ce-s100", False)):
        block = _block(name)
        _add(block.runs, tmp_path)
        kept = {run.arm for run, arrays in read_arrays(block, tmp_path).items() if "cooled_truth" in arrays}
        assert kept == ({"ls alpha=0.1", "maxsup alpha=0.1"} if is_kept else set())


def test_machines_add_to_what_is_there_and_change_nothing_of_it(tmp_path):
    block = _block("c100-ce-s101")
    assert _add(block.runs[:4], tmp_path) == 4
    before = read_arrays(block, tmp_path)
    assert _add(block.runs[2:], tmp_path, seed=1) == len(block.runs) - 4
    after = read_arrays(block, tmp_path)
    assert list(after) == block.runs
    for run, arrays in before.items():
        for name, values in arrays.items():
            np.testing.assert_array_equal(after[run][name], values)
    accuracies = [row.numbers["accuracy"] for row in read_rows("c100", tmp_path)]
    assert sorted(accuracies) == [0.5] * 4 + [0.625] * (len(block.runs) - 4)


def test_finished_tasks_are_collected_and_collected_runs_are_not_run_again(tmp_path):
    output, results = tmp_path / "output", tmp_path / "results"
    for name in ("c10-ce-s100", "heads_cub100-hidden-8-ce-s100"):
        rows, records = zip(*(_made(run) for run in _task(name).runs), strict=True)
        (output / name).mkdir(parents=True)
        write_result(output / name, rows, records)
    assert collect(output, results) == 1 + 220
    assert collect(output, results) == 0
    assert Run("c10", None, "ce", 100) in done_runs(PLAN, results)
    empty = tmp_path / "another machine"
    names = {task.name for task in missing(PLAN, empty, {"A", "C"}, range(1000), results)}
    everything = {task.name for task in missing(PLAN, empty, {"A", "C"}, range(1000), tmp_path)}
    assert everything - names == {"c10-ce-s100", "heads_cub100-hidden-8-ce-s100"}
