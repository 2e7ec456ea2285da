import json
import math
from pathlib import Path

import pytest
import torch

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import logits
from maxsup.lab.core.files.storage import json_text
from maxsup.lab.figures.logits import logit_figures
from tests.unit.lab.analysis.made import values


def test_numbers_and_histograms_are_those_of_plain_loops(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    found = run.split("test")
    result = logits.compute(run, split="test", near_zero=0.1)
    numbers = values(result)
    rows = found.logits.double().tolist()
    centred = [[value - sum(row) / len(row) for value in row] for row in rows]
    near = sum(abs(value) < 0.1 for row in centred for value in row) / sum(map(len, rows))
    assert numbers["near_zero_share_centred"] == pytest.approx(near)
    is_wrong = [row.index(max(row)) != label for row, label in zip(rows, found.labels.tolist(), strict=True)]
    gaps = [max(row) for row, wrong in zip(centred, is_wrong, strict=True) if wrong]
    assert numbers["top_gap_wrong"] == pytest.approx(sum(gaps) / len(gaps))
    assert (result["data"]["num_wrong"], result["data"]["num_right"]) == (sum(is_wrong), 359 - sum(is_wrong))
    kept = result["data"]["raw"]
    width = kept["edges"][1] - kept["edges"][0]
    # All but a thousandth of the values lie in the drawn range.
    assert 0.998 <= sum(kept["density"]) * width <= 1.0
    confidence = [max(torch.tensor(row).softmax(0).tolist()) for row in rows]
    below = [value <= 0.5 for value, wrong in zip(confidence, is_wrong, strict=True) if wrong]
    assert result["data"]["confidence_wrong"][100] == pytest.approx(sum(below) / len(below), abs=0.03)
    assert result["data"]["confidence_wrong"][-1] == 1.0


def test_a_shift_of_all_logits_moves_the_raw_ones_only(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    before = values(logits.compute(run, split="test"))
    run.split("test").logits.add_(5.0)
    after = values(logits.compute(run, split="test"))
    assert after["mean_logit"] == pytest.approx(before["mean_logit"] + 5, abs=1e-5)
    for name in ("std_centred", "confidence_wrong"):
        assert after[name] == pytest.approx(before[name], abs=1e-5)


def test_a_model_without_errors_is_drawn_without_them(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    found = run.split("test")
    found.logits.copy_(10.0 * torch.eye(10)[found.labels])
    result = {"facts": run.facts("test"), **logits.compute(run, split="test")}
    assert math.isnan(values(result)["confidence_wrong"])
    assert math.isnan(values(result)["top_gap_wrong"])
    assert set(logit_figures({"CE": json.loads(json_text(result))})) == {"logits", "confidence"}
