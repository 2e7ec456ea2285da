import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from maxsup.diagnosis.rescaling import MIN_ERRORS, fit_norm, fit_temperature, normalized_confidence
from maxsup.metrics import aurc, negative_log_likelihood


def predictions(scale: float = 1.0, count: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(5, (count,), generator=generator)
    logits = torch.randn(count, 5, generator=generator, dtype=torch.float64)
    logits[torch.arange(count), labels] += 1.5
    return scale * logits, labels


@pytest.mark.parametrize("scale", [0.05, 1.0, 7.0, 300.0])
def test_the_temperature_is_the_one_a_general_optimiser_finds(scale: float) -> None:
    logits, labels = predictions(scale)
    oracle = minimize_scalar(
        lambda log: negative_log_likelihood(logits / math.exp(log), labels),
        bounds=(-6, 8),
        method="bounded",
        options={"xatol": 1e-9},
    )
    # The optimiser looks at values, which are flat to 1e-8 around the minimum.
    assert fit_temperature(logits, labels) == pytest.approx(math.exp(oracle.x), rel=1e-5)


def test_the_temperature_undoes_a_scale() -> None:
    logits, labels = predictions()
    one, other = fit_temperature(logits, labels), fit_temperature(12.5 * logits, labels)
    assert other == pytest.approx(12.5 * one, rel=1e-8)


@pytest.mark.parametrize(("sign", "ratio"), [(1.0, 1 / 400), (-1.0, 400.0)])
def test_without_an_optimum_the_temperature_is_a_bound(sign: float, ratio: float) -> None:
    logits = sign * torch.eye(3)
    below_top = logits - logits.max(dim=1, keepdim=True).values
    spread = below_top.square().mean().sqrt().item()
    assert fit_temperature(logits, torch.arange(3)) == pytest.approx(ratio * spread, rel=1e-6)


def test_the_norm_does_not_see_shift_or_scale_of_a_sample() -> None:
    logits, _ = predictions(count=20)
    moved = torch.rand(20, 1).double() * 9 * logits + torch.randn(20, 1).double()
    for power in (1, 2, 10):
        expected = normalized_confidence(logits, power)
        torch.testing.assert_close(normalized_confidence(moved, power), expected, rtol=1e-9, atol=0)


def test_the_norm_is_the_formula_in_a_loop() -> None:
    logits = torch.tensor([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0]])
    z = [2.0 - 0.5, -1.0 - 0.5, 0.5 - 0.5]
    expected = max(z) / sum(abs(value) ** 3 for value in z) ** (1 / 3)
    assert normalized_confidence(logits, 3).tolist() == pytest.approx([expected, 0.0], abs=1e-12)


def test_the_power_is_the_best_of_ten_and_only_taken_if_it_helps() -> None:
    logits, labels = predictions()
    # Wrong predictions with large logits, as label smoothing makes them.
    is_wrong = logits.argmax(dim=1) != labels
    assert is_wrong.sum() >= MIN_ERRORS
    shown = torch.where(is_wrong.unsqueeze(1), 4 * logits, logits)
    chosen = fit_norm(shown, labels)
    found = {power: aurc(shown, labels, normalized_confidence(shown, power)) for power in range(1, 11)}
    assert chosen == min(found, key=lambda power: (found[power], power))
    assert found[chosen] < aurc(shown, labels)


def test_few_errors_choose_nothing() -> None:
    logits = torch.eye(4).repeat(50, 1)
    labels = torch.arange(4).repeat(50)
    labels[: MIN_ERRORS - 1] = (labels[: MIN_ERRORS - 1] + 1) % 4
    assert fit_norm(logits, labels) is None
