"""``z_loss=c`` adds ``c (log sum exp z)^2`` to every sample of every loss, and nothing at all where c is 0."""

import math

import pytest
import torch
from torch import Tensor

import maxsup
from maxsup.functional import linear_maxsup_cross_entropy, mbls_cross_entropy
from maxsup.losses import LinearMaxSupLoss
from tests.contract.calls import MIXABLE, call_function, make_loss, value_and_gradient
from tests.contract.samples import WEIGHT, distinct_logits, labels_for, mixed_for, needs_of

FACTOR = 0.03


def term_and_gradient(logits: Tensor, scale: Tensor, denominator: float | Tensor) -> tuple[Tensor, Tensor]:
    """The term alone, from its formula; ``scale`` says how much each sample counts."""
    leaf = logits.clone().requires_grad_()
    squares = leaf.exp().sum(1).log().square()
    term = (FACTOR * scale * squares.where(scale != 0, 0)).sum() / denominator
    return term.detach(), torch.autograd.grad(term, leaf)[0]


@pytest.mark.usefixtures("each_implementation")
def test_value_and_gradient_are_those_of_the_formula_on_labels(name: str):
    for logits in (distinct_logits(6, 4), distinct_logits(3, 4, 2)):
        target = labels_for(logits)
        target.view(-1)[1] = -100
        valid = target != -100
        scale = torch.where(valid, WEIGHT[target.where(valid, 0)], 0)
        without = value_and_gradient(name, logits, target, weight=WEIGHT)
        found = value_and_gradient(name, logits, target, weight=WEIGHT, z_loss=FACTOR)
        for own, plain, term in zip(found, without, term_and_gradient(logits, scale, scale.sum()), strict=True):
            assert torch.allclose(own, plain + term, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize("name", MIXABLE)
def test_value_and_gradient_are_those_of_the_formula_on_probabilities(name: str):
    logits = distinct_logits(6, 4)
    target = mixed_for(logits)
    target[2] = 0  # such a row counts nothing
    scale = (target * WEIGHT).sum(1)
    without = value_and_gradient(name, logits, target, weight=WEIGHT)
    found = value_and_gradient(name, logits, target, weight=WEIGHT, z_loss=FACTOR)
    for own, plain, term in zip(found, without, term_and_gradient(logits, scale, 6), strict=True):
        assert torch.allclose(own, plain + term, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("each_implementation")
def test_a_factor_of_zero_changes_no_bit(name: str):
    logits = distinct_logits(6, 4, dtype=torch.float32)
    target = labels_for(logits)
    for options in ({}, {"weight": WEIGHT.float()}, {"reduction": "none"}):
        pairs = zip(
            value_and_gradient(name, logits, target, **options),
            value_and_gradient(name, logits, target, z_loss=0.0, **options),
            strict=True,
        )
        assert all(torch.equal(left, right) for left, right in pairs)


@pytest.mark.usefixtures("each_implementation")
def test_a_masked_class_stays_out_and_an_ignored_row_may_hold_anything(name: str):
    logits = distinct_logits(6, 4)
    target = labels_for(logits) % 2
    target[3] = -100
    expected = value_and_gradient(name, logits, target, z_loss=FACTOR)
    poisoned = logits.clone()
    poisoned[3] = torch.nan
    for left, right in zip(value_and_gradient(name, poisoned, target, z_loss=FACTOR), expected, strict=True):
        assert torch.equal(left, right)
    logits[:, 3] = -math.inf
    value, gradient = value_and_gradient("maxsup", logits, target, z_loss=FACTOR)
    kept, kept_gradient = value_and_gradient("maxsup", logits[:, :3], target, z_loss=FACTOR)
    assert torch.allclose(value, kept, rtol=1e-13)
    assert torch.allclose(gradient[:, :3], kept_gradient, rtol=1e-12, atol=1e-15)
    assert torch.equal(gradient[:, 3], torch.zeros(6, dtype=torch.float64))


def test_the_term_is_for_training_alone_and_is_printed(name: str):
    logits = distinct_logits(6, 4)
    loss = make_loss(name, z_loss=FACTOR)
    assert f"z_loss={FACTOR}" in repr(loss)
    trained = loss(logits, labels_for(logits), **needs_of(name, logits))
    assert torch.equal(trained, call_function(name, logits, labels_for(logits), z_loss=FACTOR))
    plain = torch.nn.functional.cross_entropy(logits, labels_for(logits))
    assert torch.equal(loss.eval()(logits, labels_for(logits)), plain)


HEADS = [{}, {"margin": 1.0}, {"soft_cap": 3.0}, {"margin": 1.0, "soft_cap": 3.0}]


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize("terms", HEADS, ids=str)
@pytest.mark.parametrize("options", [{}, {"reduction": "none"}, {"num_items": 40}], ids=str)
def test_a_head_gives_the_loss_and_gradients_of_its_logits(options: dict, terms: dict):
    hidden, weight = (torch.randn(size, 3, dtype=torch.float64, requires_grad=True) for size in (9, 7))
    bias = torch.randn(7, dtype=torch.float64)
    bias[5] = -math.inf
    bias.requires_grad_()
    target = torch.arange(9) % 5
    target[4] = -100
    tensors = [hidden, weight, bias]
    found = linear_maxsup_cross_entropy(hidden, weight, target, 0.3, bias=bias, z_loss=FACTOR, **options, **terms)
    logits = hidden @ weight.t() + bias
    if "soft_cap" in terms:
        cap = terms["soft_cap"]
        logits = torch.where(logits == -math.inf, logits, cap * torch.tanh(logits / cap))
    expected = mbls_cross_entropy(logits, target, 0.3, terms.get("margin", 0.0), z_loss=FACTOR, **options)
    assert torch.allclose(found, expected, rtol=1e-12)
    upstream = torch.linspace(-1, 2, found.numel(), dtype=torch.float64).reshape(found.shape)
    for create_graph in (True, False):
        results = (
            torch.autograd.grad(loss, tensors, upstream, retain_graph=True, create_graph=create_graph)
            for loss in (found, expected)
        )
        for ours, theirs in zip(*results, strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("each_implementation")
def test_an_ignored_row_of_a_capped_head_may_hold_anything():
    hidden, weight = torch.randn(5, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    target = torch.tensor([0, 1, -100, 3, 2])
    results = []
    for row in (torch.zeros(3), torch.full((3,), torch.nan)):
        hidden[2] = row
        leaf = hidden.clone().requires_grad_()
        loss = linear_maxsup_cross_entropy(leaf, weight, target, z_loss=FACTOR, soft_cap=2.0)
        results.append((loss.detach(), torch.autograd.grad(loss, leaf)[0]))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_the_module_of_a_head_keeps_its_cap_in_evaluation_and_drops_the_other_terms():
    hidden, weight, target = torch.randn(5, 3), torch.randn(4, 3), torch.tensor([0, 1, 2, 3, 2])
    criterion = LinearMaxSupLoss(0.3, margin=1.0, z_loss=FACTOR, soft_cap=2.0)
    capped = 2.0 * torch.tanh(hidden @ weight.t() / 2.0)
    expected = mbls_cross_entropy(capped, target, 0.3, 1.0, z_loss=FACTOR)
    assert torch.allclose(criterion(hidden, weight, target), expected, rtol=1e-5)
    plain = torch.nn.functional.cross_entropy(capped, target)
    assert torch.allclose(criterion.eval()(hidden, weight, target), plain, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: maxsup.create_loss("maxsup", z_loss=-1e-4), "z_loss must be a number of at least 0; got -0.0001"),
        (lambda: maxsup.create_loss("ls", weight_mode="torch", z_loss=1), "z_loss must be 0 with weight_mode='torch'"),
        (lambda: call_function("ls", torch.zeros(2, 4), torch.tensor([0, 1]), weight_mode="torch", z_loss=1e-4),
         "z_loss must be 0 with weight_mode='torch'"),
        (lambda: LinearMaxSupLoss(soft_cap=-1.0), "soft_cap must be a number of at least 0; got -1.0"),
        (lambda: maxsup.create_loss("mbls", margin=-1.0), "margin must be a number of at least 0; got -1.0. Use 0 for"),
        (lambda: LinearMaxSupLoss(margin=-1.0), "margin must be a number of at least 0; got -1.0. Use 0 for MaxSup"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_in_one_sentence(make, sentence: str):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the message is looked at
        make()
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)
