"""The layer against the formula, and under a compiler."""

import pytest
import torch
import torch.nn.functional as F
from maxsup_loss import layers

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def batch(num_tokens):
    generator = torch.Generator().manual_seed(num_tokens)
    logits = torch.randn(2, num_tokens, 11, generator=generator)
    labels = torch.randint(11, (2, num_tokens), generator=generator)
    labels[0, 2] = -100
    return logits.to(DEVICE).requires_grad_(), labels.to(DEVICE)


def formula(logits, labels, alpha):
    """Token by token: position t predicts label t + 1."""
    total, count = logits.new_zeros(()), 0
    for row, own in zip(logits, labels, strict=True):
        for z, label in zip(row[:-1], own[1:], strict=True):
            if label != -100:
                total, count = total + F.cross_entropy(z, label) + alpha * (z.max() - z.mean()), count + 1
    return total, count


@pytest.mark.parametrize("num_items", [None, 7, torch.tensor(7)], ids=str)
def test_the_layer_is_the_formula(num_items):
    logits, labels = batch(6)
    loss = layers.MaxSupForCausalLMLossLayer()(logits, labels, 11, num_items_in_batch=num_items, alpha=0.3)
    total, count = formula(logits, labels, 0.3)
    expected = total / (count if num_items is None else 7)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (loss, expected)))


def test_alpha_0_is_plain_cross_entropy():
    logits, labels = batch(6)
    loss = layers.MaxSupForCausalLMLossLayer()(logits, labels, 11, alpha=0.0)
    assert torch.equal(loss, F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()))


def test_labels_that_are_shifted_already_are_not_shifted_again():
    logits, labels = batch(6)
    layer, shifted = layers.MaxSupForCausalLMLossLayer(), F.pad(labels, (0, 1), value=-100)[:, 1:]
    assert torch.equal(layer(logits, labels, 11), layer(logits, None, 11, shift_labels=shifted))


def test_a_compiler_meets_no_graph_break_and_compiles_once_for_all_lengths():
    torch._dynamo.reset()
    graphs = []

    def count(module, inputs):
        graphs.append(module)
        return module.forward

    layer = torch.compile(layers.MaxSupForCausalLMLossLayer(), fullgraph=True, dynamic=True, backend=count)
    for num_tokens in (6, 9, 14):
        logits, labels = batch(num_tokens)
        loss = layer(logits, labels, 11, num_items_in_batch=torch.tensor(num_tokens))
        torch.testing.assert_close(loss, formula(logits, labels, 0.1)[0] / num_tokens)
    assert len(graphs) == 1
