"""The path of logistic regressions against scikit-learn's optimum, in easy and in nasty cases."""

import warnings
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from maxsup.diagnosis import logistic
from maxsup.diagnosis.logistic import LogisticPath
from maxsup.diagnosis.probe import DEFAULT_STRENGTHS

pytestmark = pytest.mark.slow

Data = tuple[Tensor, Tensor]
STRENGTHS = sorted(DEFAULT_STRENGTHS, reverse=True)


def noisy() -> Data:
    """Five classes of 400 samples, a few labels wrong: no weights fit all."""
    labels = torch.randint(5, (400,))
    features = torch.randn(400, 20) + torch.randn(5, 20)[labels]
    return features, labels.where(torch.rand(400) > 0.1, torch.randint(5, (400,)))


def separable() -> Data:
    """Without a penalty the weights would grow for ever."""
    labels = torch.arange(90) % 3
    return torch.randn(90, 6) + 8 * torch.eye(3, 6)[labels], labels


def wide() -> Data:
    """More dimensions than samples."""
    labels = torch.arange(40) % 4
    return torch.randn(40, 150) + torch.randn(4, 150)[labels], labels


def constant() -> Data:
    """Features that never change, one of them large, and one that is another's double."""
    features, labels = noisy()
    return torch.cat([features, torch.zeros(400, 1), torch.full((400, 1), 1e4), 2 * features[:, :1]], dim=1), labels


def skewed() -> Data:
    """Scales from 1e-3 to 1e3, far from the origin, and classes of very different sizes."""
    features, labels = noisy()
    scales = torch.logspace(-3, 3, 20)
    return (features + 5) * scales, (labels - 2).clamp(min=0)


def two_classes() -> Data:
    features, labels = noisy()
    return features, (labels > 2).long()


def float64() -> Data:
    features, labels = noisy()
    return features.double(), labels


CASES = {case.__name__: case for case in (noisy, separable, wide, constant, skewed, two_classes, float64)}


def objective(weight: Tensor, bias: Tensor, data: Data, strength: float) -> float:
    features, labels = data
    logits = features.double() @ weight.double().T + bias.double()
    return float(F.cross_entropy(logits, labels, reduction="sum") + strength / 2 * weight.double().square().sum())


def converged(data: Data, found: logistic.Solution) -> float:
    """How low scikit-learn gets from there, with a gradient of 0 in float64."""
    features, labels = data[0].double().numpy(), data[1].numpy()
    # It stops on the mean gradient, which is small by itself where the mean loss is.
    tolerance = 1e-9 * min(1.0, found.objective / len(labels))
    has_two = len(found.bias) == 2
    # Two classes are one vector of differences to scikit-learn: the penalty on both halves is half of that on it.
    model = LogisticRegression(C=(2 if has_two else 1) / found.strength, tol=tolerance, max_iter=3000, warm_start=True)
    weight, bias = found.weight.numpy(), found.bias.numpy()
    model.coef_, model.intercept_ = (weight[1:] - weight[:1], bias[1:] - bias[:1]) if has_two else (weight, bias)
    model.classes_ = sorted(set(labels.tolist()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features, labels)
    weight, bias = torch.from_numpy(model.coef_), torch.from_numpy(model.intercept_)
    if has_two:
        weight, bias = torch.cat([-weight / 2, weight / 2]), torch.cat([-bias / 2, bias / 2])
    return objective(weight, bias, data, found.strength)


def path_of(data: Data, strengths: Sequence[float] = STRENGTHS) -> list[logistic.Solution]:
    path = LogisticPath(*data, int(data[1].max()) + 1)
    return [path.solve(strength) for strength in strengths]


# Without a preconditioner scikit-learn does not get to the end of the other cases.
@pytest.mark.parametrize("case", ["noisy", "separable", "wide", "two_classes"])
def test_every_strength_reaches_the_optimum_of_scikit_learn(case: str) -> None:
    data = CASES[case]()
    for found in path_of(data):
        own = objective(found.weight, found.bias, data, found.strength)
        assert own <= converged(data, found) * (1 + 1e-4)
        assert found.objective == pytest.approx(own, rel=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_float32_gets_as_low_as_float64(case: str) -> None:
    data = CASES[case]()
    exact = LogisticPath(*data, int(data[1].max()) + 1, dtype=torch.float64)
    for found in path_of(data):
        best = exact.solve(found.strength, tolerance=1e-10)
        assert found.objective <= best.objective * (1 + 1e-4)
        assert objective(found.weight, found.bias, data, found.strength) <= best.objective * (1 + 1e-4)


def test_strengths_in_any_order_reach_the_same_optimum() -> None:
    data = noisy()
    falling = {found.strength: found.objective for found in path_of(data)}
    mixed = path_of(data, [STRENGTHS[index] for index in torch.randperm(45).tolist()] + [1.0, 1.0])
    assert [found.objective for found in mixed] == pytest.approx(
        [falling.get(f.strength, falling[1.0]) for f in mixed], rel=1e-4
    )


def test_a_path_that_starts_at_the_optimum_stays_there() -> None:
    data = noisy()
    first = path_of(data, [3.0])[0]
    again = LogisticPath(*data, 5)
    again.start_at(first.weight, first.bias)
    found = again.solve(3.0)
    assert found.num_steps <= 1
    assert found.objective == pytest.approx(first.objective, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "strengths", "tolerance"),
    [("BLOCK_ELEMENTS", 35, [10.0, 0.1], 1e-5), ("REFRESH_STEPS", 0, STRENGTHS, 1e-4)],
)
def test_blocks_of_any_size_and_logits_computed_anew_give_the_same_path(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int, strengths: list[float], tolerance: float
) -> None:
    data = noisy()
    expected = [found.objective for found in path_of(data, strengths)]
    monkeypatch.setattr(logistic, name, value)
    assert [found.objective for found in path_of(data, strengths)] == pytest.approx(expected, rel=tolerance)


def test_the_penalty_leaves_the_bias_alone() -> None:
    """Under an enormous penalty only the bias is left, and it gives the shares of the classes."""
    features, labels = noisy()
    found = path_of((features, labels), [1e12])[0]
    assert float(found.weight.abs().max()) < 1e-6
    shares = labels.bincount().double() / len(labels)
    torch.testing.assert_close(found.bias.softmax(dim=0), shares, rtol=1e-3, atol=1e-4)


def test_features_that_never_change_get_no_weight() -> None:
    found = path_of(constant(), [1.0])[0]
    assert float(found.weight[:, 20:22].abs().max()) < 1e-9


def test_a_whole_path_takes_few_steps() -> None:
    """What the path remembers is worth most of the steps: without it, several times as many."""
    steps = sum(found.num_steps for found in path_of(noisy()))
    alone = sum(path_of(noisy(), [strength])[0].num_steps for strength in STRENGTHS)
    assert steps < 0.5 * alone
