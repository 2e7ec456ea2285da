"""The estimate of alpha against models of known strength: trained ones, small ones made here, and ideal ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from maxsup.diagnosis.findings import smoothing_finding
from maxsup.diagnosis.smoothing import (
    MIN_SAMPLES,
    SmoothingEstimate,
    alpha_of_gap,
    estimate_alpha,
    estimate_from,
    logit_traces,
    plateau_gap,
)
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter
from maxsup.losses import create_loss

pytestmark = pytest.mark.slow

TOLERANCE = 0.03


@cache
def trained(loss: str, alpha: float, num_classes: int = 10, num_steps: int = 400) -> tuple[Tensor, Tensor]:
    """Logits and labels of fresh samples, from a small network trained on groups of similar Gaussian classes."""
    generator = torch.Generator().manual_seed(num_classes)
    groups = 1.5 * torch.randn(max(1, num_classes // 5), 16, generator=generator)
    means = groups[torch.arange(num_classes) % len(groups)] + torch.randn(num_classes, 16, generator=generator)
    labels = torch.arange(2000) % num_classes
    seen, fresh = (means[labels] + torch.randn(2000, 16, generator=generator) for _ in range(2))
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(16, 128), torch.nn.BatchNorm1d(128), torch.nn.ReLU(), torch.nn.Linear(128, num_classes)
    )
    criterion = create_loss(loss, **({"alpha": alpha} if alpha else {}))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.2, momentum=0.9, nesterov=True, weight_decay=5e-4)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_steps)
    for _ in range(num_steps):
        batch = torch.randint(2000, (128,))
        optimizer.zero_grad()
        criterion(network(seen[batch]), labels[batch]).backward()
        optimizer.step()
        decay.step()
    with torch.no_grad():
        return network.eval()(fresh), labels


def ideal(alpha: float, num_classes: int, num_samples: int = 1000, spread: float = 0.2) -> tuple[Tensor, Tensor]:
    """Logits at the minimum of label smoothing, and a little noise."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(num_samples) % num_classes
    gap = plateau_gap(alpha, num_classes)
    noise = spread * torch.randn(num_samples, num_classes, generator=generator)
    return gap * F.one_hot(labels, num_classes) + noise, labels


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("num_classes", [5, 10, 100, 1000])
def test_the_minimum_of_label_smoothing_gives_its_strength(alpha: float, num_classes: int) -> None:
    found = estimate_alpha(*ideal(alpha, num_classes, num_samples=max(1000, 6 * num_classes)))
    assert found.verdict == "smoothed"
    assert found.alpha == pytest.approx(alpha, abs=0.01)
    assert found.low < alpha < found.high


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.4])
@pytest.mark.parametrize("num_classes", [2, 10, 1000])
def test_gap_and_strength_are_inverse(alpha: float, num_classes: int) -> None:
    gap = plateau_gap(alpha, num_classes)
    assert alpha_of_gap(gap, num_classes) == pytest.approx(alpha, rel=1e-12)
    # At that gap the probability of the true class is the smoothed target.
    logits = gap * F.one_hot(torch.tensor(0), num_classes).double()
    assert float(logits.softmax(0)[0]) == pytest.approx(1 - alpha + alpha / num_classes, rel=1e-12)


@pytest.mark.parametrize(("loss", "alpha"), [("ls", 0.1), ("ls", 0.2), ("maxsup", 0.1), ("maxsup", 0.2)])
def test_a_trained_network_gives_the_strength_it_was_trained_with(loss: str, alpha: float) -> None:
    found = estimate_alpha(*trained(loss, alpha))
    assert found.verdict == "smoothed"
    assert found.alpha == pytest.approx(alpha, abs=TOLERANCE)
    assert found.low < alpha < found.high


@pytest.mark.parametrize("num_classes", [2, 3, 5, 10])
def test_cross_entropy_shows_no_smoothing(num_classes: int) -> None:
    found = estimate_alpha(*trained("ce", 0.0, num_classes))
    assert (found.verdict, found.alpha, found.low) == ("none", 0.0, 0.0)
    assert abs(found.by_scale) < 0.02


@pytest.mark.parametrize("temperature", [2.0, 3.0, 4.0])
def test_cross_entropy_under_a_temperature_does_not_pass_for_smoothing(temperature: float) -> None:
    logits, labels = trained("ce", 0.0)
    assert estimate_alpha(logits / temperature, labels).verdict != "smoothed"


def test_a_smoothed_model_that_was_calibrated_afterwards_is_not_called_plain() -> None:
    logits, labels = trained("ls", 0.1)
    found = estimate_alpha(logits / 0.6, labels)
    assert found.by_scale < 0.03
    assert found.verdict == "cannot tell"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: trained("ce", 0.0, num_steps=3), ""),
        (lambda: trained("ls", 0.1, num_steps=3), ""),
        (lambda: trained("ls", 0.2, num_classes=2), "2 classes"),
        (lambda: ideal(0.6, 10), "more than any usual smoothing"),
        (lambda: ideal(0.1, 10, num_samples=MIN_SAMPLES - 1), "are too few"),
        (lambda: (torch.zeros(500, 10), torch.arange(500) % 10), "0 right predictions are too few"),
    ],
    ids=["untrained", "untrained smoothed", "two classes", "too strong", "few samples", "all alike"],
)
def test_what_does_not_decide_gives_no_verdict(made: Callable[[], tuple[Tensor, Tensor]], reason: str) -> None:
    found = estimate_alpha(*made())
    assert (found.verdict, found.alpha) == ("cannot tell", None)
    assert reason in found.reason
    assert math.isnan(found.by_scale) == reason.startswith("0 right")


def unfinished(alpha: float, num_samples: int = 4000) -> tuple[Tensor, Tensor]:
    """What label smoothing makes of a network that is often in doubt: its logits at their best scale, 70 % right."""
    generator = torch.Generator().manual_seed(2)
    probs = (3.0 * torch.randn(num_samples, 10, generator=generator)).softmax(dim=1)
    labels = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    return ((1 - alpha) * probs + alpha / 10).log(), labels


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
def test_before_the_end_of_training_the_range_of_the_strength_is_known_and_the_verdict_is_not(alpha: float) -> None:
    found = estimate_alpha(*unfinished(alpha))
    assert (found.verdict, found.alpha) == ("cannot tell", None)
    assert found.possible is not None
    low, high = found.possible
    assert low < alpha < high
    assert high - low < alpha
    finding = smoothing_finding(found, 10)
    assert finding.level == "unknown"
    assert f"of strength {low:.3f} to {high:.3f}, from images" in finding.sentence
    assert "no images were mixed" in finding.advice


def test_a_range_is_known_only_where_the_scale_says_one() -> None:
    logits, labels = ideal(0.1, 10)
    assert estimate_alpha(logits, labels).possible is None
    assert estimate_alpha(logits[:50], labels[:50]).possible is None
    assert estimate_alpha(logits / 50, labels).possible is None
    assert estimate_alpha(*trained("ce", 0.0)).possible is None


def test_two_classes_still_give_the_number() -> None:
    assert estimate_alpha(*trained("ls", 0.2, num_classes=2)).by_scale == pytest.approx(0.2, abs=TOLERANCE)


def test_nothing_depends_on_a_shift_of_the_logits_or_the_order_of_classes() -> None:
    logits, labels = trained("ls", 0.1)
    order = torch.randperm(10)
    moved = estimate_alpha((logits + 7.0)[:, order], order.argsort()[labels])
    assert moved.by_scale == pytest.approx(estimate_alpha(logits, labels).by_scale, rel=1e-5)


def test_the_scale_is_the_strength_for_which_no_other_scale_is_better() -> None:
    logits, labels = trained("ls", 0.1)
    found = estimate_alpha(logits, labels).by_scale

    def loss(scale: float) -> float:
        return float(F.cross_entropy(scale * logits.double(), labels, label_smoothing=found))

    assert loss(1.0) < min(loss(0.99), loss(1.01))


def test_traces_are_those_of_a_plain_loop() -> None:
    logits, labels = torch.randn(40, 3), torch.arange(40) % 3
    found = logit_traces(logits, labels)
    for row in range(40):
        z = logits[row].double()
        q = z.softmax(0)
        assert float(found.lead[row]) == pytest.approx(float(z[labels[row]] - q @ z), abs=1e-12)
        others = [float(value) for index, value in enumerate(z) if index != int(z.argmax())]
        assert float(found.gap[row]) == pytest.approx(float(z.max()) - sum(others) / 2, abs=1e-12)
    predicted = logits.argmax(1)
    pairs = [
        float(logits[predicted == top].double().softmax(1)[:, other].mean())
        for top in range(3)
        for other in range(3)
        if top != other and int((predicted == top).sum()) >= 5
    ]
    assert found.left_over.tolist() == pytest.approx(sorted(pairs), abs=1e-12)


def test_of_very_many_classes_only_frequent_ones_are_paired() -> None:
    logits, labels = ideal(0.1, 3000, num_samples=9000)
    assert len(logit_traces(logits, labels).left_over) <= 1000 * 999


def test_the_same_seed_gives_the_same_interval() -> None:
    logits, labels = trained("ls", 0.1)
    assert estimate_alpha(logits, labels) == estimate_alpha(logits, labels)


def test_labels_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one label for each row"):
        estimate_alpha(torch.zeros(4, 3), torch.zeros(5, dtype=torch.long))


def test_a_verdict_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="verdict must be one of"):
        SmoothingEstimate(None, None, None, "perhaps", "", 0.0, 0.0, 0.0)


def test_an_uneven_rest_speaks_against_smoothing() -> None:
    traces = logit_traces(*ideal(0.1, 10))
    steep = traces._replace(left_over=torch.logspace(-5, -1, 90, dtype=torch.float64))
    assert estimate_from(traces).verdict == "smoothed"
    assert estimate_from(steep).verdict == "cannot tell"


@pytest.mark.parametrize(
    ("loss", "alpha"), [("ce", None), ("ls", 0.1), ("ls", 0.2), ("maxsup", 0.1)], ids=lambda value: str(value)
)
def test_the_digits_recipe_gives_the_strength_it_was_trained_with(
    tmp_path: Path, loss: str, alpha: float | None
) -> None:
    strength = [] if alpha is None else [f"loss.alpha={alpha}"]
    train(load_recipe("digits_cnn", [f"loss.name={loss}", *strength]), tmp_path / "run", reporter=Reporter())
    run = RunOutputs(tmp_path / "run")
    for split in ("train", "test"):
        found = estimate_alpha(run.split(split).logits, run.split(split).labels)
        assert found.verdict == ("none" if alpha is None else "smoothed")
        assert found.alpha == pytest.approx(alpha or 0.0, abs=TOLERANCE)
