"""What every loss says of its first step, and of options that were meant for another library's loss."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import maxsup
from maxsup.losses import LOSSES, LinearMaxSupLoss, create_loss, list_losses
from maxsup.schedules import Linear

LABELS = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])


def made_logits(*more: int) -> Tensor:
    return (4 * torch.randn(8, 4, *more)).requires_grad_()


def warned(loss: torch.nn.Module, *inputs: Tensor, times: int = 2, **more: Tensor) -> list[str]:
    """The beginnings of what a loss warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(times):
            loss(*inputs, **more)
    return [str(each.message).partition(":")[0].partition(",")[0] for each in seen]


def extras(loss: maxsup.losses.RegularizedLoss, logits: Tensor) -> dict[str, Tensor]:
    return {need: torch.zeros_like(logits) for need in loss.needs}


def ready_loss(name: str) -> maxsup.losses.RegularizedLoss:
    loss = create_loss(name)
    loss.end_epoch()
    return loss


@pytest.mark.parametrize("name", list_losses())
def test_an_ordinary_first_step_says_nothing(name: str) -> None:
    loss, logits = ready_loss(name), made_logits()
    assert warned(loss, logits, LABELS, **extras(loss, logits)) == []
    assert warned(loss, torch.zeros(8, 4), LABELS, **extras(loss, logits)) == []
    with torch.no_grad():
        assert warned(loss.eval(), logits, LABELS) == []


@pytest.mark.parametrize("name", list_losses())
def test_probabilities_in_place_of_logits_are_told_once_by_every_loss(name: str) -> None:
    loss, logits = ready_loss(name), made_logits()
    said = warned(loss, logits.softmax(1), LABELS, **extras(loss, logits))
    assert said == [f"The logits given to {type(loss).__name__} are probabilities"]


SOFTMAX = {
    "in the graph": lambda logits: logits.softmax(1),
    "behind views": lambda logits: logits.softmax(1).unsqueeze(0).squeeze(0).clone(),
    "values alone": lambda logits: logits.detach().softmax(1),
    "half precision": lambda logits: logits.detach().softmax(1).bfloat16(),
    "of a map": lambda logits: made_logits(3, 2).softmax(1),
}


@pytest.mark.parametrize("made", SOFTMAX.values(), ids=SOFTMAX)
def test_a_softmax_is_seen(made) -> None:
    scores = made(made_logits())
    labels = LABELS.reshape(8, *[1] * (scores.dim() - 2)).expand(8, *scores.shape[2:])
    assert warned(maxsup.MaxSupLoss(), scores, labels) == ["The logits given to MaxSupLoss are probabilities"]


def test_log_probabilities_are_seen_and_called_harmless_to_the_value() -> None:
    said = warned(maxsup.MaxSupLoss(), made_logits().log_softmax(1), LABELS)
    assert said == ["The logits given to MaxSupLoss are log-probabilities"]


def test_a_softmax_inside_the_network_is_no_softmax_of_its_logits() -> None:
    attention = made_logits().softmax(1)
    assert warned(maxsup.MaxSupLoss(), 3 * attention @ torch.randn(4, 4), LABELS) == []
    assert warned(maxsup.MaxSupLoss(), attention.sqrt(), LABELS) == []


def test_a_criterion_in_evaluation_mode_while_training_is_told_once() -> None:
    with pytest.warns(UserWarning, match=r"eval\(\) mode and the logits require a gradient.+criterion\.train\(\)"):
        maxsup.MaxSupLoss().eval()(made_logits(), LABELS)
    head, hidden = torch.randn(4, 3), torch.randn(8, 3, requires_grad=True)
    for loss, inputs in ((maxsup.MaxSupLoss(), (made_logits(), LABELS)), (LinearMaxSupLoss(), (hidden, head, LABELS))):
        assert len(warned(loss.eval(), *inputs)) == 1
    assert warned(maxsup.MaxSupLoss(0.0).eval(), made_logits(), LABELS) == []
    assert warned(create_loss("ce").eval(), made_logits(), LABELS) == []


def test_an_alpha_above_one_is_told_once() -> None:
    with pytest.warns(UserWarning, match=r"MaxSupLoss has alpha=10, and published strengths are 0\.1 to 0\.2"):
        maxsup.MaxSupLoss(10)(made_logits(), LABELS)
    assert len(warned(maxsup.MaxSupLoss(10), made_logits(), LABELS)) == 1
    assert len(warned(LinearMaxSupLoss(10), torch.randn(8, 3), torch.randn(4, 3), LABELS)) == 1
    assert warned(maxsup.MaxSupLoss(1.0), made_logits(), LABELS) == []
    rising = maxsup.MaxSupLoss(Linear(5.0, 10.0))
    rising.set_progress(0.5)
    assert len(warned(rising, made_logits(), LABELS)) == 1


@pytest.mark.parametrize("transform", ["grad", "vmap", "fake", "make_fx"])
def test_nothing_is_said_inside_transforms_and_the_next_ordinary_step_still_says_it(transform: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    # The plain formula, which every transform can trace.
    loss, probs = maxsup.MaxSupLoss(10, reduction="sum"), made_logits().detach().softmax(1)

    def inside() -> None:
        if transform == "grad":
            torch.func.grad(lambda each: loss(each, LABELS))(probs)
        elif transform == "vmap":
            torch.vmap(loss)(probs, LABELS)
        elif transform == "fake":
            with FakeTensorMode() as mode:
                loss(mode.from_tensor(probs), mode.from_tensor(LABELS))
        else:
            make_fx(loss)(probs, LABELS)

    with warnings.catch_warnings(), maxsup.functional.implementation("reference"):
        warnings.simplefilter("error")
        inside()
    assert len(warned(loss, probs, LABELS)) == 2


@pytest.mark.slow
def test_nothing_is_said_while_compiled() -> None:
    loss = torch.compile(maxsup.MaxSupLoss(10), backend="eager", fullgraph=True)
    assert warned(loss, made_logits().softmax(1), LABELS) == []


@pytest.mark.parametrize("name", [*list_losses(), "head"])
def test_class_weights_as_first_argument_are_refused_with_the_line_to_write(name: str) -> None:
    loss = LinearMaxSupLoss if name == "head" else LOSSES[name]
    for weights in (torch.ones(4), [1.0, 2.0], torch.ones(4).numpy()):
        with pytest.raises(TypeError, match=rf"class weights, write {loss.__name__}\(weight=weights\)"):
            loss(weights)


@pytest.mark.parametrize("name", [*list_losses(), "head"])
def test_label_smoothing_of_torch_is_refused_with_the_line_to_write(name: str) -> None:
    loss = LinearMaxSupLoss if name == "head" else LOSSES[name]
    line = r"Did you mean alpha=0.1\?" if loss.strength == "alpha" else r"MaxSupLoss\(alpha=0.1\)"
    with pytest.raises(TypeError, match=line):
        loss(label_smoothing=0.1)


def test_a_misspelled_option_is_refused_with_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"^options of MaxSupLoss must .+got aplha=0\.1\. Did you mean alpha=0\.1\?$"):
        maxsup.MaxSupLoss(aplha=0.1)
    with pytest.raises(TypeError, match=r"Did you mean ignore_index=255\?"):
        create_loss("ls").__class__(ignored_index=255)
    with pytest.raises(TypeError, match=r"Known: .*alpha.*weight"):
        maxsup.MaxSupLoss(qqq=1)


def test_the_value_is_the_same_whatever_is_said() -> None:
    probs = made_logits().softmax(1)
    with pytest.warns(UserWarning, match="probabilities"):
        told = maxsup.MaxSupLoss(0.0)(probs, LABELS)
    assert torch.equal(told, F.cross_entropy(probs, LABELS))
