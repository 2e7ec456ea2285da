"""Intervals cover, contrasts are those of the protocol, and verdicts follow its table."""

import numpy as np
import pytest
import torch
from scipy import stats

from maxsup import metrics
from tools.evidence.claims import Claim
from tools.evidence.contrasts import NoOverlapError, contrast_weights, curve_weights, line_weights
from tools.evidence.judge import Estimate, judge, mean_covariance, two_way, verdict
from tools.evidence.measures import ImageRecord
from tools.evidence.plan import Plan, Run, blocks
from tools.evidence.resample import draw_counts, resampled_number
from tools.evidence.results import Row
from tools.evidence.store import add_runs

SEEDS = range(100, 106)
STRENGTHS = (0.05, 0.1, 0.2)
NUM_IMAGES = 40


# Intervals


def _covered(num_seeds, of_seeds, of_images, of_both, num_trials=4000, num_images=100):
    """How often the interval holds the true mean, 0; covariances are those of infinitely many resamples."""
    rng = np.random.default_rng(num_seeds)
    hits = []
    for _ in range(4):
        size = num_trials // 4
        x = of_both * rng.standard_normal((size, num_seeds, num_images), np.float32)
        x += of_seeds * rng.standard_normal((size, num_seeds, 1), np.float32)
        x += of_images * rng.standard_normal((size, 1, num_images), np.float32)
        shared = (x.sum(1).var(-1) - x.var(-1).sum(1)) / (num_seeds * (num_seeds - 1) * num_images)
        contrasts = x.mean(-1)
        variance, freedom = two_way(contrasts, shared, num_images)
        hits.append(np.abs(contrasts.mean(1)) <= stats.t.ppf(0.975, freedom) * variance**0.5)
    return np.mean(hits)


@pytest.mark.parametrize("num_seeds", [6, 12, 40])
@pytest.mark.parametrize("scales", [(1, 0, 1), (0, 0, 10), (1, 10, 5), (0, 10, 10)], ids=str)
def test_intervals_cover_the_truth_whatever_varies(num_seeds, scales):
    assert 0.94 <= _covered(num_seeds, *scales) <= 0.965


def test_seeds_alone_cover_too_little_where_images_are_shared():
    rng = np.random.default_rng(0)
    contrasts = rng.standard_normal((2000, 12)) + 2 * rng.standard_normal((2000, 1))
    variance, freedom = two_way(contrasts, 0.0, np.inf)
    covered = np.mean(np.abs(contrasts.mean(1)) <= stats.t.ppf(0.975, freedom) * variance**0.5)
    assert covered < 0.5


def test_covariance_over_resamples_is_that_over_images():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, 500)) + 2 * rng.standard_normal(500)
    between = np.cov(values, ddof=0)[~np.eye(6, dtype=bool)].mean() / 500
    resampled = values @ draw_counts("images", 500).T.astype(float) / 500
    assert mean_covariance(resampled) == pytest.approx(between, rel=0.15)


# Numbers on resamples


def _arrays(num_images=200):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_images, 6, generator=generator, dtype=torch.float64) * 2
    labels = torch.where(torch.rand(num_images, generator=generator) < 0.6, logits.argmax(1), 0)
    probabilities = logits.softmax(1)
    arrays = {
        "is_right": (logits.argmax(1) == labels).numpy(),
        "confidence": probabilities.amax(1).numpy(),
        "cooled_confidence": probabilities.amax(1).numpy(),
        "cooled_truth": probabilities.gather(1, labels[:, None]).squeeze(1).numpy(),
    }
    return logits, labels, arrays


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("accuracy", metrics.accuracy),
        ("aurc", metrics.aurc),
        ("ece", metrics.expected_calibration_error),
        ("ece_after", metrics.expected_calibration_error),
        ("nll_after", metrics.negative_log_likelihood),
    ],
)
def test_numbers_on_a_resample_are_the_metrics_of_its_images(name, metric):
    logits, labels, arrays = _arrays()
    counts = draw_counts("images", len(labels), 3)
    found = resampled_number(name, arrays, counts)
    for number, row in zip(found, counts, strict=True):
        images = np.repeat(np.arange(len(labels)), row.astype(int))
        assert number == pytest.approx(metric(logits[images], labels[images]), abs=1e-5)


def test_gap_and_confidence_of_errors_on_a_resample():
    arrays = {"is_right": np.array([True, True, False]), "confidence": np.array([0.9, 0.7, 0.5])}
    counts = np.array([[1, 1, 1], [3, 1, 2]], np.float32)
    np.testing.assert_allclose(resampled_number("gap", arrays, counts), [0.3, 0.35], rtol=1e-5)
    np.testing.assert_allclose(resampled_number("confidence_wrong", arrays, counts), [0.5, 0.5], rtol=1e-5)


def test_sentences_are_resampled_with_all_of_their_tokens():
    arrays = {"is_right": np.array([True, False, True, True]), "lengths": np.array([1, 3], np.uint8)}
    counts = np.array([[1, 1], [2, 0], [0, 2]], np.float32)
    np.testing.assert_allclose(resampled_number("accuracy", arrays, counts), [0.75, 1.0, 2 / 3], rtol=1e-5)


# Contrasts


def test_curves_that_are_lines_differ_by_how_far_they_are_apart():
    ours, theirs = np.array([0.5, 0.8, 0.6, 0.7, 0.9]), np.array([0.55, 0.65, 0.75, 0.85, 0.95])
    ours_at, theirs_at = curve_weights(ours, theirs)
    assert ours_at @ (2 * ours + 0.02) - theirs_at @ (2 * theirs) == pytest.approx(0.02)


def test_a_curve_with_a_kink_has_the_mean_of_its_pieces():
    ours_at, theirs_at = curve_weights(np.array([0.4, 0.5, 0.6]), np.array([0.4, 0.6]))
    assert ours_at @ np.array([0.0, 1.0, 0.0]) == pytest.approx(50 / 101)  # a triangle on 101 points
    assert theirs_at @ np.array([3.0, 3.0]) == pytest.approx(3.0)


def test_curves_without_a_common_confidence_are_refused():
    with pytest.raises(NoOverlapError):
        curve_weights(np.array([0.1, 0.2]), np.array([0.3, 0.4]))


def test_slope_and_intercept_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    errors, differences = rng.random(7), rng.random(7)
    intercept, slope = line_weights(errors)
    np.testing.assert_allclose([slope @ differences, intercept @ differences], np.polyfit(errors, differences, 1))


# From collected runs to verdicts


def _plan(kind="images"):
    arms = [{"loss": loss, "alpha": alpha} for alpha in STRENGTHS for loss in ("ls", "maxsup")]
    arms += [{"loss": loss, "alpha": 0.1, "rate": rate} for rate in (0.5, 2) for loss in ("ls", "maxsup")]
    return Plan.model_validate(
        {
            "arms": {"all": [{"loss": "ce"}, *arms]},
            "heads": [{"kind": "linear", "width": width, "lr": 0.1} for width in (16, 32, 64)],
            "pools": {name: {"experiment": "A", "kind": kind, "num_classes": 10} for name in ("one", "two")},
            "stages": [{"pools": ["one", "two"], "arms": ["all"], "seeds": [SEEDS[0], SEEDS[-1]]}],
        }
    )


def _claim(**values):
    return Claim.model_validate(
        {"says": "", "family": "A", "pools": ["one", "two"], "direction": "higher", "margin": 0.01, **values}
    )


def _runs(plan):
    return [run for block in blocks(plan) for run in block.runs]


def _rows(plan, numbers):
    return {run: Row(run.pool, run.arm, run.seed, numbers(run), [], run.head) for run in _runs(plan)}


def _write(plan, claims, numbers, folder, seeds=SEEDS):
    rows = [row for row in _rows(plan, numbers).values() if row.seed in seeds]
    codes = np.full((3, NUM_IMAGES), 100, np.uint8)
    records = [ImageRecord(np.arange(NUM_IMAGES) < 30, *codes) for _ in rows]
    add_runs(plan, claims.values(), rows, records, folder)


def _gained(run, gain):
    """A number whose contrast at alpha 0.1 is ``gain`` on average, and 1 more or less under each seed."""
    return gain + (-1) ** run.seed if run.arm == "maxsup alpha=0.1" else 0.0


def _p(mean):
    return 2 * stats.t.sf(mean / (1.2**0.5 / 6**0.5), 5)


def test_holm_multiplies_the_p_values_of_a_family_by_hand(tmp_path):
    plan = _plan()
    gains = {"train_within": 3.0, "train_nc1": 1.5, "train_r_squared": 1.4}
    claims = {name: _claim(contrast="strength", number=name) for name in gains}
    _write(plan, claims, lambda run: {name: _gained(run, gain) for name, gain in gains.items()}, tmp_path)
    judged = judge(claims, plan, tmp_path)
    assert judged["train_within"].holm == pytest.approx(3 * _p(3.0), rel=1e-3)
    assert judged["train_nc1"].holm == pytest.approx(2 * _p(1.5), rel=1e-3)
    assert judged["train_r_squared"].holm == pytest.approx(max(2 * _p(1.5), _p(1.4)), rel=1e-3)
    assert judged["train_within"].estimate.mean == pytest.approx(3.0)
    half = stats.t.ppf(0.975, 5) * (1.2 / 6) ** 0.5
    assert judged["train_within"].estimate.interval[1] == pytest.approx(3.0 + half)


def test_a_claim_is_judged_when_all_of_its_seeds_are_there(tmp_path):
    plan = _plan()
    claims = {"claim": _claim(contrast="strength", number="train_within")}
    _write(plan, claims, lambda run: {"train_within": _gained(run, 5.0)}, tmp_path, seeds=SEEDS[:4])
    judged = judge(claims, plan, tmp_path)["claim"]
    assert (judged.num_there, judged.num_planned, judged.estimate, judged.verdict) == (4, 6, None, None)
    _write(plan, claims, lambda run: {"train_within": _gained(run, 5.0)}, tmp_path)
    assert judge(claims, plan, tmp_path)["claim"].verdict == "confirmed"


def test_curves_without_overlap_make_a_claim_inconclusive(tmp_path):
    plan = _plan()
    claims = {"claim": _claim(contrast="confidence", number="accuracy")}

    def numbers(run):
        return {"accuracy": 0.75, "val_confidence": 0.9 - len(run.arm) / 100 if run.arm[0] == "l" else 0.3}

    _write(plan, claims, numbers, tmp_path)
    judged = judge(claims, plan, tmp_path)["claim"]
    assert judged.verdict == "inconclusive"
    assert judged.estimate is None


def test_equal_test_images_make_an_equal_accuracy_a_difference_within_the_margin(tmp_path):
    plan = _plan()
    claims = {"claim": _claim(contrast="strength", number="accuracy")}
    _write(plan, claims, lambda run: {"accuracy": 0.75 + _gained(run, 0.0) / 1000}, tmp_path)
    assert judge(claims, plan, tmp_path)["claim"].verdict == "no difference within the margin"


def test_each_loss_has_the_rate_with_the_best_validation_accuracy():
    plan, claim = _plan(), _claim(contrast="rate", number="accuracy")
    best = {"ls": "ls alpha=0.1 rate=2", "maxsup": "maxsup alpha=0.1 rate=0.5"}
    rows = _rows(plan, lambda run: {"val_accuracy": 0.6 if run.arm in best.values() else 0.5})
    weights = contrast_weights(claim, plan, rows, SEEDS)[103]
    assert weights == {
        Run(pool, None, arm, 103): sign / 2
        for pool in ("one", "two")
        for arm, sign in ((best["maxsup"], 1), (best["ls"], -1))
    }


def test_slopes_of_pools_are_averaged():
    plan, claim = _plan("heads"), _claim(contrast="slope", number="accuracy", factor=100)
    errors = {"linear-16": 0.4, "linear-32": 0.2, "linear-64": 0.0}
    slopes = {"one": 0.03, "two": 0.01}

    def numbers(run):
        gain = slopes[run.pool] * errors[run.head] if run.arm.startswith("maxsup") else 0.0
        return {"train_accuracy": 1 - errors[run.head], "accuracy": 0.5 + gain}

    rows = _rows(plan, numbers)
    for weights in contrast_weights(claim, plan, rows, SEEDS).values():
        assert sum(weight * rows[run].numbers["accuracy"] for run, weight in weights.items()) == pytest.approx(2.0)


def test_an_estimate_far_within_the_margin_is_not_beyond_it():
    found = Estimate(mean=-0.1, error=0.1, freedom=10.0)
    assert found.p_beyond(0.3) == pytest.approx(stats.t.sf(2.0, 10))
    assert found.p == pytest.approx(2 * stats.t.sf(1.0, 10))
    assert Estimate(mean=0.5, error=0.1, freedom=10.0).p_beyond(0.3) == pytest.approx(stats.t.sf(-2.0, 10))


@pytest.mark.parametrize(
    ("direction", "mean", "p", "beyond", "word"),
    [
        ("higher", 0.5, 0.01, 0.9, "confirmed"),
        ("higher", -0.5, 0.01, 0.9, "not reproduced"),
        ("lower", -0.5, 0.05, 0.9, "confirmed"),
        ("higher", 0.005, 0.01, 0.05, "no difference within the margin"),
        ("equal", 0.005, 0.01, 0.01, "confirmed"),
        ("equal", -0.5, 0.01, 0.9, "not reproduced"),
        ("higher", 0.5, 0.06, 0.06, "inconclusive"),
    ],
)
def test_verdicts_follow_the_table(direction, mean, p, beyond, word):
    claim = _claim(contrast="strength", number="accuracy", direction=direction)
    assert verdict(claim, Estimate(mean, 1.0, 5.0), p, beyond) == word
