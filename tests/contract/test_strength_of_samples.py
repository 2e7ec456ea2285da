"""A strength for each sample gives every sample the loss that it has alone."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from maxsup import MaxSupLoss
from maxsup.functional import (
    confidence_penalty_cross_entropy,
    implementation,
    label_smoothing_cross_entropy,
    linear_maxsup_cross_entropy,
    logit_penalty_cross_entropy,
    maxsup_cross_entropy,
    mbls_cross_entropy,
    poly1_cross_entropy,
)
from maxsup.losses import LabelSmoothingLoss, LinearMaxSupLoss, LogitPenaltyLoss
from tests.contract.samples import distinct_logits, labels_for

FUNCTIONS = {
    "maxsup": maxsup_cross_entropy,
    "ls": label_smoothing_cross_entropy,
    "mbls": lambda input, target, alpha, **options: mbls_cross_entropy(input, target, alpha, 0.5, **options),
    "logit_penalty": logit_penalty_cross_entropy,
    "confidence_penalty": confidence_penalty_cross_entropy,
    "poly1": poly1_cross_entropy,
}
SHAPES = [(6, 5), (40, 700), (3, 4, 2, 3), (5,)]


def batch(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, targets of which one is ignored, and a strength for each sample."""
    torch.manual_seed(3)
    logits = distinct_logits(*shape)
    target = labels_for(logits)
    strengths = torch.rand(target.shape, dtype=torch.float64)
    if target.dim() > 0:
        target[1] = -100
    return logits, target, strengths


def alone(name: str, logits: Tensor, target: Tensor, strengths: Tensor, **options: object) -> Tensor:
    """The loss of each sample by itself, at its own strength as a plain number."""
    columns = logits.movedim(1, -1).flatten(end_dim=-2) if logits.dim() > 1 else logits.unsqueeze(0)
    values = [
        FUNCTIONS[name](row.unsqueeze(0), label.reshape(1), float(strength), reduction="none", **options)
        for row, label, strength in zip(columns, target.flatten(), strengths.flatten(), strict=True)
    ]
    return torch.cat(values).reshape(target.shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", ["fused", "eager", "reference"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_sample_has_the_loss_that_it_has_alone(name: str, form: str, shape: tuple[int, ...]):
    with implementation(form):
        assert_each_is_as_alone(name, FUNCTIONS[name], *shape)


@pytest.mark.parametrize("name", ["maxsup", "mbls"])
def test_a_compiled_loss_takes_strengths_of_samples(name: str):
    torch._dynamo.reset()
    assert_each_is_as_alone(name, torch.compile(FUNCTIONS[name], backend="eager", fullgraph=True), 3, 4, 2, 3)


def assert_each_is_as_alone(name: str, loss: Callable[..., Tensor], *shape: int) -> None:
    logits, target, strengths = batch(*shape)
    leaf, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found = loss(leaf, target, strengths, reduction="none")
    with implementation("reference"):
        expected = alone(name, other, target, strengths)
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)
    upstream = torch.linspace(-1, 2, expected.numel(), dtype=torch.float64).reshape(expected.shape)
    gradients = [torch.autograd.grad(value, point, upstream)[0] for value, point in ((found, leaf), (expected, other))]
    assert torch.allclose(*gradients, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", ["fused", "eager", "reference"])
def test_class_weights_z_loss_and_soft_targets_go_with_strengths_of_samples(form: str):
    logits, target, strengths = batch(8, 5)
    weight = torch.arange(1, 6, dtype=torch.float64)
    options = {"weight": weight, "z_loss": 0.1}
    with implementation("reference"):
        expected = alone("maxsup", logits, target, strengths, **options)
        soft = logits.roll(1, 0).softmax(1)
        of_soft = torch.cat([
            maxsup_cross_entropy(row[None], share[None], float(strength))[None]
            for row, share, strength in zip(logits, soft, strengths, strict=True)
        ])  # fmt: skip
    with implementation(form):
        mean = maxsup_cross_entropy(logits, target, strengths, **options)
        assert torch.allclose(maxsup_cross_entropy(logits, soft, strengths, reduction="none"), of_soft)
    assert torch.allclose(mean, expected.sum() / weight[target[target != -100]].sum())


@pytest.mark.parametrize("form", ["fused", "eager", "reference"])
def test_a_strength_that_asks_for_it_gets_the_penalty_of_its_sample(form: str):
    logits, target, strengths = batch(8, 5)
    strengths.requires_grad_()
    with implementation(form):
        loss = maxsup_cross_entropy(logits, target, strengths, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, strengths)
    gaps = logits.max(1).values - logits.mean(1)
    assert torch.allclose(gradient, gaps.where(target != -100, 0))


@pytest.mark.parametrize("form", ["fused", "eager"])
@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("size", [5, 30_000], ids=["held", "blocks"])
def test_a_head_has_the_loss_and_gradients_of_its_logits(size: int, margin: float, form: str):
    torch.manual_seed(4)
    hidden, weight = torch.randn(40, 3, dtype=torch.float64), torch.randn(size, 3, dtype=torch.float64)
    target, strengths = torch.randint(size, (40,)), torch.rand(40, dtype=torch.float64)
    target[1] = -100
    found = []
    for is_head in (True, False):
        leaves = [hidden.clone().requires_grad_(), weight.clone().requires_grad_()]
        with implementation(form):
            if is_head:
                loss = linear_maxsup_cross_entropy(*leaves, target, strengths, margin=margin)
            else:
                loss = mbls_cross_entropy(leaves[0] @ leaves[1].t(), target, strengths, margin)
        found.append([loss, *torch.autograd.grad(loss, leaves)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)


def test_half_precision_keeps_its_types():
    logits, target, strengths = batch(8, 5)
    leaf = logits.bfloat16().requires_grad_()
    loss = maxsup_cross_entropy(leaf, target, strengths)
    loss.backward()
    assert (loss.dtype, leaf.grad.dtype) == (torch.float32, torch.bfloat16)


def test_a_strength_changed_before_backward_is_noticed():
    logits, target, strengths = batch(40, 700)
    loss = maxsup_cross_entropy(logits.requires_grad_(), target, strengths)
    strengths.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("criterion", [MaxSupLoss(0.5), MaxSupLoss(0.5, adaptive=True), LabelSmoothingLoss(0.5)])
def test_a_module_takes_strengths_in_a_call(criterion: MaxSupLoss):
    logits, target, strengths = batch(8, 5)
    whole = criterion(logits, target)
    assert torch.allclose(criterion(logits, target, alpha=torch.full_like(strengths, 0.5)), whole)
    assert not torch.allclose(criterion(logits, target, alpha=strengths), whole)
    criterion.eval()
    with torch.no_grad():
        assert criterion(logits, target, alpha=strengths) == torch.nn.functional.cross_entropy(logits, target)


def test_a_module_takes_its_strength_by_its_own_name():
    logits, target, strengths = batch(8, 5)
    found = LogitPenaltyLoss(0.5)(logits, target, beta=strengths)
    assert torch.allclose(found, logit_penalty_cross_entropy(logits, target, strengths))


def test_a_module_of_a_head_takes_strengths_in_a_call():
    hidden, target, strengths = batch(8, 5)
    weight = torch.randn(4, 5, dtype=torch.float64)
    found = LinearMaxSupLoss(0.5)(hidden, weight, target % 4, alpha=strengths)
    assert torch.allclose(found, maxsup_cross_entropy(hidden @ weight.t(), target % 4, strengths))


@pytest.mark.parametrize("wrong", [torch.ones(5), torch.ones(8, 1), torch.ones(8, dtype=torch.int64)])
def test_strengths_of_another_shape_are_refused_in_a_sentence(wrong: Tensor):
    logits, target, _ = batch(8, 5)
    with pytest.raises(ValueError, match=r"alpha must be one number .+ or one a sample, .+ of shape \(8,\); got"):
        maxsup_cross_entropy(logits, target, wrong)


def test_class_weights_as_first_argument_stay_refused():
    with pytest.raises(TypeError, match=r"MaxSupLoss\(weight=weights\)"):
        MaxSupLoss(torch.ones(5))
