"""What callbacks log of a loss, whatever its trainer."""

import math
import warnings

import pytest
import torch

from maxsup.integrations import logged_terms
from maxsup.integrations.logged_terms import LoggedTerms
from maxsup.losses import MaxSupLoss, create_loss
from maxsup.losses.head.rows import Objective
from maxsup.monitor import DecompositionMonitor


def expected(monitor: DecompositionMonitor) -> dict[str, float]:
    found = {f"maxsup/{name}": value for name, value in monitor.compute().items() if not math.isnan(value)}
    return found | {"maxsup/alpha": 0.1}


@pytest.mark.parametrize("shape", [(7, 5), (7, 5, 2, 3), (5,)])
def test_small_batches_are_counted_whole(shape: tuple[int, ...]) -> None:
    logits, target = torch.randn(shape), torch.randint(5, (*shape[:-1],) if len(shape) < 3 else (shape[0], *shape[2:]))
    whole = DecompositionMonitor()
    whole.update(logits if len(shape) > 1 else logits[None], target if len(shape) > 1 else target[None], alpha=0.1)
    terms = LoggedTerms(MaxSupLoss(alpha=0.1))
    terms.update(logits, target)
    assert terms.collected() == pytest.approx(expected(whole), abs=1e-6)


@pytest.mark.parametrize("is_head", [True, False])
def test_of_large_batches_each_row_gets_its_turn(is_head: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, target = torch.randn(7, 2), torch.randn(5, 2), torch.randint(5, (7,))
    monkeypatch.setattr(logged_terms, "_NUMEL", 12)  # of 35 logits: every third row
    terms, whole = LoggedTerms(MaxSupLoss(alpha=0.1)), DecompositionMonitor()
    whole.update(hidden @ weight.T, target, alpha=0.1)
    for _ in range(3):
        if is_head:
            terms.update_head(hidden, weight, None, target, Objective())
        else:
            terms.update(hidden @ weight.T, target)
    assert terms.collected() == pytest.approx(expected(whole), abs=1e-6)


def test_a_row_is_looked_at_however_many_classes_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged_terms, "_NUMEL", 1)
    terms = LoggedTerms(MaxSupLoss(alpha=0.1))
    terms.update(torch.randn(2, 3), torch.tensor([0, 1]))
    terms.update(torch.randn(0, 3), torch.tensor([], dtype=torch.long))
    assert terms.collected()["maxsup/num_samples"] == 1


def test_counting_starts_anew_after_a_log() -> None:
    terms = LoggedTerms(MaxSupLoss(alpha=0.1))
    for num_samples in (4, 2):
        terms.update(torch.randn(num_samples, 3), torch.zeros(num_samples, dtype=torch.long))
        assert terms.collected()["maxsup/num_samples"] == num_samples


def test_a_strength_goes_by_its_name_and_does_not_scale_the_penalty_of_another_loss() -> None:
    logits, target = torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0])
    terms = LoggedTerms(create_loss("focal", gamma=2.0))
    terms.update(logits, target)
    logged = terms.collected()
    assert (logged["maxsup/gamma"], logged["maxsup/penalty"]) == (2.0, 2.0)


def test_a_z_loss_is_logged_beside_the_other_terms() -> None:
    terms = LoggedTerms(create_loss("ce", z_loss=0.01))
    terms.update(torch.zeros(2, 3), torch.tensor([0, 1]))
    logged = terms.collected()
    assert logged["maxsup/z_loss"] == pytest.approx(0.01 * math.log(3) ** 2, rel=1e-6)
    assert logged["maxsup/ce"] == pytest.approx(math.log(3), rel=1e-6)


def test_a_loss_without_a_strength_logs_none() -> None:
    assert LoggedTerms(create_loss("ce"), monitor=False).collected() == {}


def test_mixed_labels_are_left_out_with_one_warning() -> None:
    terms = LoggedTerms(MaxSupLoss(alpha=0.1))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            terms.update(torch.randn(2, 3), torch.full((2, 3), 1 / 3))
    assert len(seen) == 1
    assert terms.collected()["maxsup/num_samples"] == 0
