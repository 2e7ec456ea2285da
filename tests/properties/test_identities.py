"""The identities that tie MaxSup to label smoothing and to cross-entropy."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from maxsup.functional import cross_entropy, label_smoothing_cross_entropy, label_smoothing_terms, maxsup_cross_entropy
from tests.conftest import examples
from tests.properties.batches import ALPHAS, Batch, batches
from tests.reference.cases import CASE_OF
from tests.reference.losses import argmax

EXAMPLES = examples(150)
BATCHES = batches(CASE_OF["maxsup"])
"""Calls with any shape, kind of target, weights, ignored index and reduction."""


def shared_keywords(batch: Batch) -> dict:
    return {key: value for key, value in batch.keywords(torch.float64).items() if key in batch.shared}


def axis_of(logits: Tensor) -> int:
    return 0 if logits.dim() == 1 else 1


def target_probabilities(batch: Batch, logits: Tensor) -> Tensor:
    """The target as probabilities; ignored samples are rows of zeros."""
    target = batch.target(torch.float64)
    if batch.holds_probabilities:
        return target
    valid = target != batch.shared["ignore_index"]
    one_hot = torch.nn.functional.one_hot(torch.where(valid, target, 0), logits.shape[axis_of(logits)])
    return (one_hot * valid.unsqueeze(-1)).movedim(-1, axis_of(logits)).double()


@settings(max_examples=EXAMPLES)
@given(batch=BATCHES, alpha=ALPHAS)
def test_maxsup_is_label_smoothing_on_correct_predictions(batch: Batch, alpha: float):
    batch.targets = [argmax(row) for row in batch.rows]
    logits, target, keywords = batch.input(torch.float64), batch.target(torch.float64), shared_keywords(batch)
    ls = label_smoothing_cross_entropy(logits, target, alpha, **keywords)
    assert torch.allclose(
        maxsup_cross_entropy(logits, target, alpha, **keywords), ls, rtol=1e-12, atol=1e-12, equal_nan=True
    )


@settings(max_examples=EXAMPLES)
@given(batch=BATCHES, alpha=ALPHAS)
def test_maxsup_is_label_smoothing_plus_the_gap_to_the_top_logit(batch: Batch, alpha: float):
    batch.shared["reduction"] = "none"
    batch.without_num_items()
    logits, target, keywords = batch.input(torch.float64), batch.target(torch.float64), shared_keywords(batch)
    axis = axis_of(logits)
    probabilities = target_probabilities(batch, logits)
    weight = keywords.get("weight")
    by_class = [-1 if i == axis else 1 for i in range(logits.dim())]
    mass = probabilities if weight is None else probabilities * weight.reshape(by_class)
    gap = mass.sum(axis) * logits.amax(axis) - (mass * logits).sum(axis)
    expected = label_smoothing_cross_entropy(logits, target, alpha, **keywords) + alpha * gap
    assert torch.allclose(maxsup_cross_entropy(logits, target, alpha, **keywords), expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=EXAMPLES)
@given(batch=BATCHES, alpha=ALPHAS)
def test_maxsup_is_cross_entropy_with_a_signed_target(batch: Batch, alpha: float):
    batch.without_num_items()
    batch.shared = {"reduction": "none", "ignore_index": batch.shared["ignore_index"]}
    logits, target, keywords = batch.input(torch.float64), batch.target(torch.float64), shared_keywords(batch)
    axis = axis_of(logits)
    probabilities = target_probabilities(batch, logits)
    top = torch.zeros_like(logits).scatter_(axis, logits.argmax(axis, keepdim=True), 1.0)
    signed = probabilities + alpha / logits.shape[axis] - alpha * top
    kept = probabilities.sum(axis)
    expected = -(signed * torch.log_softmax(logits, axis)).sum(axis) * kept
    assert torch.allclose(maxsup_cross_entropy(logits, target, alpha, **keywords), expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=EXAMPLES)
@given(batch=BATCHES, alpha=ALPHAS)
def test_label_smoothing_is_what_torch_computes_without_weights(batch: Batch, alpha: float):
    batch.shared.pop("weight", None)
    batch.without_num_items()
    if batch.holds_probabilities:
        batch.targets = [row if any(row) else [1.0] + [0.0] * (len(row) - 1) for row in batch.targets]
    logits, target, keywords = batch.input(torch.float64), batch.target(torch.float64), shared_keywords(batch)
    expected = torch.nn.functional.cross_entropy(logits, target, label_smoothing=alpha, **keywords)
    actual = label_smoothing_cross_entropy(logits, target, alpha, **keywords)
    assert torch.allclose(actual, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


@settings(max_examples=EXAMPLES)
@given(batch=BATCHES, alpha=ALPHAS)
def test_torch_weight_mode_is_what_torch_computes_with_weights(batch: Batch, alpha: float):
    batch.without_num_items()
    logits, target, keywords = batch.input(torch.float64), batch.target(torch.float64), shared_keywords(batch)
    expected = torch.nn.functional.cross_entropy(logits, target, label_smoothing=alpha, **keywords)
    actual = label_smoothing_cross_entropy(logits, target, alpha, weight_mode="torch", **keywords)
    assert torch.allclose(actual, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


@settings(max_examples=EXAMPLES)
@given(batch=BATCHES)
def test_the_two_label_smoothing_terms_sum_to_the_gap_to_the_mean(batch: Batch):
    batch.targets = [
        label if isinstance(label, int) and label in range(len(batch.rows[0])) else 0 for label in batch.targets
    ]
    logits = batch.input(torch.float64)
    target = batch.target(torch.float64)
    terms = label_smoothing_terms(logits, target)
    axis = axis_of(logits)
    gap = logits.gather(axis, target.unsqueeze(axis)).squeeze(axis) - logits.mean(axis)
    assert torch.allclose(terms.regularization + terms.error_amplification, gap, rtol=1e-12, atol=1e-12)
    assert (terms.regularization >= 0).all()
    assert (terms.error_amplification <= 0).all()


@settings(max_examples=EXAMPLES)
@given(batch=BATCHES, alpha=st.sampled_from((0.1, 0.5, 3.0)))
def test_maxsup_is_never_below_cross_entropy(batch: Batch, alpha: float):
    batch.shared["reduction"] = "none"
    batch.without_num_items()
    logits, target, keywords = batch.input(torch.float64), batch.target(torch.float64), shared_keywords(batch)
    assert (
        maxsup_cross_entropy(logits, target, alpha, **keywords) >= cross_entropy(logits, target, **keywords) - 1e-12
    ).all()
