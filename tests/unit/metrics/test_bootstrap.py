"""Intervals that repeat, agree with plain resampling, and cover the truth about as often as they say."""

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from maxsup import metrics
from maxsup.metrics import (
    ClassSeparation,
    Interval,
    PredictionTable,
    bootstrap_interval,
    bootstrap_intervals,
    class_separation,
    classwise_calibration_error,
)
from maxsup.metrics.bootstrap import class_counts, counts, separation_statistic
from tests.unit.metrics.cases import Case

pytestmark = pytest.mark.slow

BY_COUNTS = ("negative_log_likelihood", "aurc", "auroc", "fpr95", "accuracy", "brier_score", "risk_at_coverage")
OF_LOGITS = {
    **{name: {} for name in (*BY_COUNTS, "mean_confidence", "excess_aurc")},
    **{f"{kind}_calibration_error": {"num_bins": 10} for kind in ("expected", "adaptive", "classwise")},
    "risk_at_coverage": {"coverage": 0.7},
}
OF_FEATURES = {"class_separation": {}, "neural_collapse": {}}


def flat(value: object) -> list[Interval]:
    return [value] if isinstance(value, Interval) else list(value)


def table_of(logits: Tensor, labels: Tensor) -> PredictionTable:
    table = PredictionTable()
    table.update(logits, labels)
    return table


@pytest.fixture
def clusters() -> tuple[Tensor, Tensor]:
    labels = torch.arange(120) % 4
    return torch.randn(120, 6, dtype=torch.float64) + 1.5 * torch.randn(4, 6, dtype=torch.float64)[labels], labels


@pytest.mark.parametrize("name", OF_LOGITS)
def test_every_metric_of_logits_has_an_interval_around_its_value(predictions: Case, name: str) -> None:
    options = OF_LOGITS[name]
    found = flat(bootstrap_interval(name, *predictions, num_resamples=100, **options))
    expected = getattr(metrics, name)(*predictions, **options)
    assert [part.estimate for part in found] == pytest.approx(
        list(expected) if isinstance(expected, tuple) else [expected], abs=1e-12
    )
    assert all(part.low <= part.estimate <= part.high for part in found)
    assert all(part.low < part.high for part in found)


@pytest.mark.parametrize("name", OF_FEATURES)
def test_every_metric_of_features_has_intervals_under_its_fields(clusters: tuple[Tensor, Tensor], name: str) -> None:
    found = bootstrap_interval(name, *clusters, num_resamples=50)
    expected = getattr(metrics, name)(*clusters)
    assert type(found) is type(expected)
    assert [part.estimate for part in found] == pytest.approx(list(expected), nan_ok=True)
    assert all(part.low < part.estimate < part.high for part in found if not math.isnan(part.estimate))


@pytest.mark.parametrize("name", BY_COUNTS)
def test_counts_give_what_moving_the_logits_would_give(predictions: Case, name: str) -> None:
    metric, options = getattr(metrics, name), OF_LOGITS[name]

    def unknown(logits: Tensor, labels: Tensor) -> float:
        return metric(logits, labels, **options)

    # The fast way draws samples in the order of their confidence.
    by_confidence = table_of(*predictions).predictions.confidence.sort(descending=True, stable=True).indices
    shuffled = predictions[0][by_confidence], predictions[1][by_confidence]
    fast = bootstrap_interval(metric, *predictions, num_resamples=40, **options)
    assert list(fast) == pytest.approx(list(bootstrap_interval(unknown, *shuffled, num_resamples=40)), abs=1e-10)


def test_the_classwise_way_gives_what_moving_the_logits_would_give(predictions: Case) -> None:
    fast = bootstrap_interval("classwise_calibration_error", *predictions, num_resamples=200)

    def unknown(logits: Tensor, labels: Tensor) -> float:
        return classwise_calibration_error(logits, labels)

    plain = bootstrap_interval(unknown, *predictions, num_resamples=200)
    # One is mirrored, the other not; both have the same width up to the noise of other draws.
    estimate = fast.estimate
    assert plain.estimate == pytest.approx(estimate, abs=1e-12)
    assert estimate - fast.low == pytest.approx(plain.high - estimate, rel=0.25)


def test_first_order_separation_spreads_as_new_samples_do() -> None:
    """Over many draws of a population, the standard deviation of each number is that of the resampled ones."""
    centres = torch.randn(5, 8, dtype=torch.float64)
    labels = torch.arange(200) % 5
    drawn = [class_separation(torch.randn(200, 8, dtype=torch.float64) + centres[labels], labels) for _ in range(200)]
    true = torch.tensor(drawn).std(dim=0)
    widths = torch.zeros(3)
    for seed in range(10):
        rows = torch.randn(200, 8, dtype=torch.float64) + centres[labels]
        found = bootstrap_interval("class_separation", rows, labels, num_resamples=200, seed=seed)
        widths += torch.tensor([(part.high - part.low) / 3.92 / 10 for part in found])
    assert (widths / true).tolist() == pytest.approx([1.0] * 3, rel=0.2)


@pytest.mark.parametrize("has_self_pairs", [True, False])
def test_first_order_is_exact_in_the_limit_of_small_changes(has_self_pairs: bool) -> None:
    """A sample counted a little more often: the change of the closed form, to first order."""
    labels = torch.arange(60) % 3
    rows = torch.randn(60, 5, dtype=torch.float64) + torch.randn(3, 5, dtype=torch.float64)[labels]
    unit = rows / rows.norm(dim=1, keepdim=True)
    change = torch.randn(60, dtype=torch.float64)
    for k in range(3):
        change[labels == k] -= change[labels == k].mean()

    def weighted(counted: Tensor) -> list[float]:
        """Pairs weighted by the product of the counts, a sample's pair with itself as in the definition."""
        gram = unit @ unit.T
        pairs = counted[:, None] * counted[None]
        own, means = [], []
        for k in range(3):
            part = labels == k
            block = pairs[part][:, part]
            others = float((gram[part][:, part] * block).sum() - (gram.diagonal() * pairs.diagonal())[part].sum())
            mean = others / float(block.sum() - block.diagonal().sum())
            own.append((mean * 19 + 1) / 20 if has_self_pairs else mean)
            means.append((unit[part] * counted[part, None]).sum(dim=0) / 20)
        stacked = torch.stack(means)
        cross = float((stacked @ stacked.T).sum() - (stacked @ stacked.T).diagonal().sum())
        return [1 - sum(own) / 3, 1 - (cross + sum(own)) / 9]

    estimate = class_separation(rows, labels, has_self_pairs=has_self_pairs)
    statistic = separation_statistic(rows, labels, estimate, has_self_pairs=has_self_pairs)
    one = torch.ones(60, dtype=torch.float64)
    assert weighted(one) == pytest.approx(estimate[:2], abs=1e-12)
    small = 1e-4
    above, below = (torch.tensor(weighted(one + sign * small * change), dtype=torch.float64) for sign in (1, -1))
    found = torch.tensor(statistic(one + change)[:2], dtype=torch.float64) - torch.tensor(estimate[:2]).double()
    assert found.tolist() == pytest.approx(((above - below) / (2 * small)).tolist(), rel=1e-5, abs=1e-8)


def test_the_same_seed_gives_the_same_interval(predictions: Case) -> None:
    def draw(seed: int) -> list[object]:
        names = ("aurc", "classwise_calibration_error", "class_separation")
        found = [bootstrap_interval(name, *predictions, num_resamples=50, seed=seed) for name in names]
        return [*found, bootstrap_intervals(table_of(*predictions), num_resamples=50, seed=seed)]

    first, again, other = draw(1), draw(1), draw(2)
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize(("name", "options"), (OF_LOGITS | OF_FEATURES).items())
def test_drawing_leaves_inputs_and_the_random_state_alone(predictions: Case, name: str, options: dict) -> None:
    logits, labels = (tensor.clone() for tensor in predictions)
    before = torch.get_rng_state()
    bootstrap_interval(getattr(metrics, name), *predictions, num_resamples=2, **options)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(predictions[0], logits)
    assert torch.equal(predictions[1], labels)


def test_intervals_of_a_table_are_those_of_its_metrics(predictions: Case) -> None:
    table = table_of(*predictions)
    found = bootstrap_intervals(table, num_resamples=60)
    computed = table.compute()
    computed.pop("smooth_ece")  # has no interval
    assert {name: part.estimate for name, part in found.items()} == pytest.approx(computed)
    assert list(found) == list(computed)
    assert found["ece"] == bootstrap_interval("expected_calibration_error", *predictions, num_resamples=60)
    assert found["auroc"] == bootstrap_interval("auroc", *predictions, num_resamples=60)
    assert list(bootstrap_intervals(table, ["nll", "aurc"], num_resamples=5)) == ["nll", "aurc"]


def test_intervals_rank_by_another_confidence(predictions: Case) -> None:
    confidence = predictions[0].max(dim=1).values
    found = bootstrap_intervals(table_of(*predictions), ["aurc"], confidence=confidence, num_resamples=20)["aurc"]
    assert found == bootstrap_interval("aurc", *predictions, num_resamples=20, confidence=confidence)


def test_a_higher_level_is_wider(predictions: Case) -> None:
    narrow, wide = (bootstrap_interval("accuracy", *predictions, level=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_what_is_undefined_has_no_interval() -> None:
    logits, labels = torch.eye(3), torch.arange(3)
    assert all(math.isnan(value) for value in bootstrap_interval("auroc", logits, labels, num_resamples=5))
    found = bootstrap_interval("mean_confidence", logits, labels, num_resamples=5)
    assert math.isnan(found.wrong.low)
    assert not math.isnan(found.correct.low)


def test_resamples_in_which_a_metric_is_undefined_are_left_out() -> None:
    # One wrong prediction of six: a third of the resamples have none.
    logits, labels = torch.eye(6) * torch.arange(1.0, 7.0), torch.tensor([0, 1, 2, 3, 4, 4])
    found = bootstrap_interval("auroc", logits, labels, num_resamples=200)
    assert 0.0 <= found.low <= found.high <= 1.0


def test_counts_draw_as_many_samples_as_there_are() -> None:
    drawn = torch.stack(list(counts(50, 400, seed=0)))
    assert drawn.sum(dim=1).unique().tolist() == [50.0]
    assert float(drawn.var()) == pytest.approx(1 - 1 / 50, rel=0.05)


def test_counts_by_class_keep_the_size_of_every_class() -> None:
    labels = torch.tensor([5, 0, 5, 3, 5, 0, 5])
    for drawn in class_counts(labels, 30, seed=0):
        assert [float(drawn[labels == k].sum()) for k in (0, 3, 5)] == [2.0, 1.0, 4.0]


class Pair(NamedTuple):
    first: float
    second: float


def test_any_function_has_an_interval(predictions: Case) -> None:
    def mean_logits(logits: Tensor, labels: Tensor, scale: float = 1.0) -> Pair:
        return Pair(scale * float(logits.mean()), float(labels.double().mean()))

    found = bootstrap_interval(mean_logits, *predictions, num_resamples=200, scale=2.0)
    assert isinstance(found, Pair)
    assert found.first.estimate == pytest.approx(2 * float(predictions[0].mean()))
    spread = float(predictions[1].double().std()) / 20
    assert found.second.high - found.second.low == pytest.approx(3.92 * spread, rel=0.2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metric": "acuracy"}, "metric must be a known name, or a function; got 'acuracy'. Did you mean 'accuracy'?"),
        ({"level": 95}, "level must be a probability between 0 and 1; got 95"),
        ({"level": 1.0}, "level must be a probability between 0 and 1; got 1.0"),
        ({"num_resamples": 1}, "num_resamples must be an integer of at least 2; got 1"),
        ({"inputs": torch.zeros(0, 3), "labels": torch.zeros(0).long()}, "inputs must hold at least one sample"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change: dict[str, object], sentence: str) -> None:
    good = {"metric": "accuracy", "inputs": torch.eye(3), "labels": torch.arange(3)}
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        bootstrap_interval(**{**good, **change})


def test_a_name_that_no_table_has_is_refused() -> None:
    table = table_of(torch.eye(3), torch.arange(3))
    with pytest.raises(ValueError, match="name must be one that a table computes; got 'eec'"):
        bootstrap_intervals(table, ["eec"])


def drawn_from_model(num_samples: int, temperature: float) -> Case:
    """Labels drawn from the probabilities of the logits before they are sharpened."""
    logits = 2 * torch.randn(num_samples, 6, dtype=torch.float64)
    return temperature * logits, torch.multinomial(logits.softmax(dim=1), 1).squeeze(1)


@pytest.mark.parametrize("temperature", [1.0, 1.6], ids=["calibrated", "overconfident"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(temperature: float) -> None:
    names = ["accuracy", "nll", "brier", "ece", "aurc", "auroc", "fpr95", "confidence_wrong"]
    true = table_of(*drawn_from_model(200_000, temperature)).compute()
    hits = dict.fromkeys(names, 0)
    num_trials = 100
    for trial in range(num_trials):
        table = table_of(*drawn_from_model(300, temperature))
        for name, part in bootstrap_intervals(table, names, num_resamples=120, seed=trial).items():
            hits[name] += part.low <= true[name] <= part.high
    # 95 % of 100, less three standard errors.
    assert {name: count for name, count in hits.items() if count < 88} == {}


def test_intervals_of_separation_cover_the_truth_about_as_often_as_they_say() -> None:
    centres = torch.randn(6, 10, dtype=torch.float64)
    everyone = torch.arange(60_000) % 6
    true = class_separation(torch.randn(60_000, 10, dtype=torch.float64) + centres[everyone], everyone)
    labels = torch.arange(240) % 6
    hits = torch.zeros(3)
    for trial in range(150):
        rows = torch.randn(240, 10, dtype=torch.float64) + centres[labels]
        found = bootstrap_interval(
            "class_separation", rows, labels, num_resamples=150, seed=trial, has_self_pairs=False
        )
        hits += torch.tensor([part.low <= value <= part.high for part, value in zip(found, true, strict=True)])
    assert isinstance(found, ClassSeparation)
    assert (hits / 150).tolist() == pytest.approx([0.95] * 3, abs=0.07)
