"""The benchmarks measure what they say, and do not time what is wrong."""

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks import head, head_bound, losses
from benchmarks.cases import CASES, Case
from benchmarks.checks import SCALES, errors, is_right, references, relative_error
from benchmarks.goals import HEAD_GOALS, goals_for
from benchmarks.peers import OTHERS, Candidate, candidates
from benchmarks.plot import draw
from benchmarks.report import goal_table, judged, lined_up, surroundings, write_result
from maxsup.functional import maxsup_cross_entropy
from maxsup.lab.bench.baselines import naive_maxsup
from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.lab.bench.timing import MIN_ROUNDS, interleaved_times, one_thread, time_ratio
from maxsup.losses.head import blocks, products

pytestmark = pytest.mark.slow

SMALL = Case((12, 20), compiled=())
SMALL_HALF = Case((12, 20), "bfloat16", compiled=())
SMALL_DENSE = Case((2, 7, 4, 3), ignore_index=255, compiled=())


@pytest.fixture
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are not looked at, so they need not be good."""
    for module in (losses, head):
        monkeypatch.setattr(module, "interleaved_times", partial(interleaved_times, min_seconds=0))


def spin(count: int) -> None:
    for _ in range(count):
        pass


# Time


def test_every_candidate_takes_one_turn_in_every_round_and_none_always_follows_the_same():
    calls: list[str] = []
    work = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    times = interleaved_times(work, rounds=8, min_seconds=0)
    assert {name: len(values) for name, values in times.items()} == {"a": 8, "b": 8, "c": 8}
    # Two calls of each to settle the repetitions, then the rounds.
    rounds = [tuple(calls[start : start + 3]) for start in range(6, len(calls), 3)]
    assert len(rounds) == 8
    assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
    assert len(set(rounds)) > 1


def test_a_quick_candidate_is_repeated_until_a_measurement_lasts():
    calls: list[None] = []
    times = interleaved_times({"quick": lambda: calls.append(None)}, rounds=1, min_seconds=0.002)
    assert len(calls) > 1000
    assert times["quick"][0] < 2e-5


def test_twice_the_work_takes_twice_the_time():
    work = {"once": lambda: spin(50_000), "twice": lambda: spin(100_000)}
    times = interleaved_times(work, rounds=9)
    assert 1.6 < time_ratio(times, "twice", "once").median < 2.5


def test_waiting_is_not_work():
    times = interleaved_times({"waits": lambda: time.sleep(0.02)}, rounds=1, min_seconds=0)
    assert times["waits"][0] < 0.01


def test_a_ratio_is_taken_within_a_round_so_that_a_slow_round_does_not_show():
    times = {"ours": [1.0, 10.0, 1.0, 1.0], "theirs": [2.0, 20.0, 2.0, 2.0]}
    assert time_ratio(times, "ours", "theirs") == (0.5, 0.5, 0.5)


def test_no_round_begins_after_the_budget_once_there_are_a_few():
    times = interleaved_times({"slow": lambda: spin(20_000)}, rounds=1000, budget=0.0)
    assert len(times["slow"]) == MIN_ROUNDS


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            inside = torch.get_num_threads()
        assert (inside, torch.get_num_threads()) == (1, 2)
    finally:
        torch.set_num_threads(before)


# Memory


def test_the_peak_is_that_of_what_is_held_at_the_same_time():
    held = torch.ones(1000, 100)

    def three_then_one() -> torch.Tensor:
        first, second = held + held, held * held
        third = first + second
        del first, second
        return third + third

    # Three of them at once; after two are freed, a fourth is no new peak.
    assert peak_memory(three_then_one) == 3 * held.nbytes


def test_memory_that_was_held_before_does_not_count():
    held = [torch.ones(1000, 100)]
    num_bytes = held[0].nbytes
    assert peak_memory(lambda: held.append(held[0] + held[0])) == num_bytes
    assert peak_memory(lambda: held.clear()) == 0


def test_the_peak_of_a_backward_pass_counts_the_gradient():
    logits = torch.ones(1000, 100, requires_grad=True)
    # exp keeps its result for backward, where the incoming gradient is expanded and multiplied with it.
    assert peak_memory(lambda: torch.autograd.grad(logits.exp().sum(), logits)) == pytest.approx(
        2 * logits.nbytes, rel=1e-3
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_resident_peak_sees_memory_that_is_touched_and_given_back():
    num_bytes = 200_000_000
    # In a process of its own: threads that other tests left behind may give memory back meanwhile.
    script = (
        "import torch; from benchmarks.memory import resident_peak; "
        f"print(resident_peak(lambda: torch.ones({num_bytes // 4}).amax()))"
    )
    command, root = [sys.executable, "-c", script], Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert int(done.stdout) == pytest.approx(num_bytes, rel=0.05)


# Right before fast


@pytest.mark.parametrize("case", [SMALL, SMALL_DENSE], ids=lambda case: case.name)
def test_the_reference_is_the_formula_in_float64(case: Case):
    logits = case.logits(3.0).detach().double().requires_grad_()
    rows, labels = logits.detach().movedim(1, -1).reshape(-1, case.num_classes), case.target().reshape(-1)
    expected = references(rows, labels, case.ignore_index, torch.arange(len(rows)))["maxsup"]
    loss = naive_maxsup(logits, case.target(), case.ignore_index)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert expected.loss == pytest.approx(loss.item(), rel=1e-12)
    assert relative_error(gradient.movedim(1, -1).reshape(rows.shape), expected.gradient) < 1e-12


@pytest.mark.parametrize("case", [SMALL, SMALL_HALF, SMALL_DENSE], ids=lambda case: case.name)
def test_every_loss_that_is_timed_agrees_with_the_reference(case: Case):
    served = candidates(case)
    found = errors(served, case)
    assert len(served) >= 4
    assert {candidate.name for candidate in served if not is_right(candidate, case, found[candidate.name])} == set()


def test_losses_that_know_rows_only_are_not_asked_for_masks():
    assert not {candidate.peer for candidate in candidates(SMALL_DENSE)} & set(OTHERS)


class _ReadsTooLate(torch.autograd.Function):
    """A gradient in place that looks at the true logit after overwriting it."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return maxsup_cross_entropy(logits, target)

    @staticmethod
    def backward(ctx, upstream):
        logits, target = ctx.saved_tensors
        grad = logits.softmax(dim=1)
        true = grad.gather(1, target.unsqueeze(1))  # a probability where the logit was
        grad = grad.scatter_add(1, logits.argmax(dim=1, keepdim=True), torch.full_like(true, 0.1)) - 0.1 / grad.shape[1]
        overwritten = (true - logits.logsumexp(dim=1, keepdim=True)).exp()
        grad = grad.scatter(1, target.unsqueeze(1), overwritten - 1.0 - 0.1 / grad.shape[1])
        return upstream * grad / len(logits), None


@pytest.mark.parametrize(
    "loss",
    [
        _ReadsTooLate.apply,
        lambda logits, target: 1.001 * maxsup_cross_entropy(logits, target),
        lambda logits, target: maxsup_cross_entropy(logits, target) + 0.0 * logits.sum() / 0.0,
        lambda logits, target: torch.nn.functional.cross_entropy(logits, target, label_smoothing=0.1),
    ],
    ids=["reads too late", "a thousandth too large", "not a number", "another loss"],
)
def test_a_wrong_loss_is_found(loss):
    candidate = Candidate("maxsup", "eager", "maxsup", loss)
    assert not is_right(candidate, SMALL, errors([candidate], SMALL)["maxsup"])


def test_our_own_loss_is_not_timed_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.peers.maxsup_cross_entropy", lambda *given: 1.01 * maxsup_cross_entropy(*given))
    with pytest.raises(RuntimeError, match="maxsup must agree with the reference on 12x20 float32; loss off by 1e-02"):
        losses.measured_case(SMALL, rounds=1)


def test_a_peer_that_is_wrong_is_left_out_with_the_reason(short_measurements: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.peers.naive_maxsup", lambda logits, target: logits.sum())
    measured = losses.measured_case(SMALL, rounds=1)
    assert "loss off by" in measured["left_out"]["naive MaxSup"]
    assert "naive MaxSup" not in {row["loss"] for row in measured["losses"]}


# Goals and results


@pytest.mark.parametrize(
    ("num_classes", "dtype", "layout", "form", "limits"),
    [
        (10, "float32", "rows", "eager", {"time_ratio": 1.1, "peak_memory_ratio": 1.1}),
        (1000, "float32", "rows", "eager", {"time_ratio": 0.85, "peak_memory_ratio": 1.1}),
        (32000, "float32", "rows", "eager", {"time_ratio": 0.6, "peak_memory_ratio": 1.1}),
        (1000, "float32", "rows", "compiled", {"time_ratio": 0.65, "peak_memory_ratio": 1.1}),
        (10, "float32", "rows", "compiled", {"peak_memory_ratio": 1.1}),
        (100, "bfloat16", "rows", "eager", {"time_ratio": 1.3, "peak_memory_ratio": 1.5, "loss_error": 1e-6}),
        (32000, "bfloat16", "rows", "compiled", {"time_ratio": 0.65, "peak_memory_ratio": 1.5, "loss_error": 1e-6}),
        (150, "float32", "dense", "eager", {"time_ratio": 0.9, "peak_memory_ratio": 1.1}),
    ],
)
def test_each_case_has_its_goals(num_classes: int, dtype: str, layout: str, form: str, limits: dict[str, float]):
    assert {goal.quantity: goal.limit for goal in goals_for(num_classes, dtype, layout, form)} == limits


def test_the_cases_are_those_of_the_goals():
    assert {(case.num_classes, case.dtype) for case in CASES if case.layout == "rows"} == {
        (num_classes, dtype) for num_classes in (10, 100, 1000, 32000, 128256) for dtype in ("float32", "bfloat16")
    }
    assert [case.ignore_index for case in CASES if case.shape == (4, 150, 128, 128)] == [-100, 255]
    assert SCALES == (0.05, 3.0, 30.0)


def test_the_median_decides_and_the_table_says_so():
    goals = [judged("time", "a", {"median": 0.6, "low": 0.5, "high": 0.9}, 0.65), judged("error", "b", 2e-6, 1e-6)]
    assert [goal["is_met"] for goal in goals] == [True, False]
    lines = goal_table(goals).splitlines()
    assert lines[1].split() == ["time:", "a", "0.60", "[0.50-0.90]", "<=", "0.65", "met"]
    assert lines[2].split() == ["error:", "b", "2.0e-06", "<=", "1e-06", "missed"]
    assert lines[3] == "1 of 2 met"


def test_columns_line_up():
    assert lined_up(["", "ms"], [["a", "1.0"], ["long", "10.0"]]) == "        ms\na      1.0\nlong  10.0"


def test_the_surroundings_tell_what_the_numbers_depend_on_and_name_no_folder():
    facts = surroundings()
    assert facts["packages"]["torch"]
    assert facts["threads"] == 1
    assert len(facts["load_average"]) == 3
    assert str(Path.cwd()) not in json.dumps(facts)


def test_losses_are_measured_shown_written_and_drawn(
    tmp_path: Path, short_measurements: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(losses, "QUICK_CASES", (SMALL, SMALL_HALF, SMALL_DENSE))
    shown: list[str] = []
    result = losses.run(is_quick=True, rounds=2, show=shown.append)
    written = json.loads(write_result(tmp_path, "losses", result).read_text())
    assert [case["case"] for case in written["cases"]] == [case.name for case in (SMALL, SMALL_HALF, SMALL_DENSE)]
    for case, table in zip(written["cases"], shown, strict=True):
        [yardstick] = [row for row in case["losses"] if row["loss"] == written["yardstick"]]
        assert yardstick["time_ratio"] == {"median": 1.0, "low": 1.0, "high": 1.0}
        assert all(row["milliseconds"] > 0 and row["peak_memory_ratio"] >= 1 for row in case["losses"])
        assert [row["copy"] for row in case["copies"]] == ["copy_", "clone"]
        assert all(row["loss"] in table for row in case["losses"])
    assert {goal["goal"] for goal in written["goals"]} >= {"time, eager, dense", "loss error, bfloat16"}
    draw(written, tmp_path / "losses.png")
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


def test_the_head_is_checked_and_measured(short_measurements: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "SMALL_BYTES", 0)  # logits of a few MiB are held, which is faster
    monkeypatch.setattr(products, "BLOCK_BYTES", 1)
    monkeypatch.setattr(head, "QUICK_TIMED", head.Head(300, 8, 50))
    monkeypatch.setattr(head, "QUICK_LARGE", head.Head(300, 8, 50))
    shown: list[str] = []
    result = head.run(is_quick=True, rounds=2, show=shown.append)
    assert result["gradient_error"] < 1e-4
    assert [goal["goal"] for goal in result["goals"]] == [text for text, _ in HEAD_GOALS.values()]
    peaks = {row["head"]: row["peak_bytes"] for row in result["usual"]["heads"]}
    # By construction: a batch of logits is held by all but the fused one, which holds a block of rows.
    assert peaks[head.NAIVE] > peaks[head.YARDSTICK] > peaks[head.FUSED] > 0
    assert "N=300, D=8, K=50" in shown[0]


def test_a_wrong_head_is_not_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(head.HEADS, head.FUSED, lambda *tensors: 1.01 * head.HEADS[head.NAIVE](*tensors))
    monkeypatch.setattr(head, "QUICK_TIMED", head.Head(20, 8, 50))
    with pytest.raises(RuntimeError, match="fused head must agree with float64; they are off by 1e-02"):
        head.run(is_quick=True, rounds=1, show=print)


def test_the_bound_of_a_head_counts_products_and_all_else() -> None:
    shown: list[str] = []
    found = head_bound.run(head_bound.SHAPES["trl"], shown.append)
    assert found["products_bytes"] == 2 * 3 * (8192 * 4096 + 151936 * 4096 + 8192 * 151936)
    assert found["operations"] == 6 * 8192 * 4096 * 151936
    # Inputs, both gradients in float32 and in bf16, and a block of logits.
    least = (2 + 4 + 2) * (8192 + 151936) * 4096 + 2 * found["block_rows"] * 151936
    assert least < found["memory_bytes"] < 1.05 * least
    assert all(goal["is_met"] for goal in found["goals"])
    assert "H100" in "".join(shown)
