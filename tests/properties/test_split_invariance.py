"""Gradients of any partition of a batch, given the batch's number of items, equal those of the whole."""

from itertools import pairwise

import pytest
import torch
from hypothesis import strategies as st

import maxsup
import maxsup.functional
from tests.conftest import examples
from tests.properties.batches import holds_for
from tests.reference.cases import CASE_OF, CASES

EXAMPLES = examples(20)
SEEDS = st.integers(0, 1000)
TOLERANCE = 1e-6
NUM_CLASSES = 4


def call(name: str, logits: torch.Tensor, target: torch.Tensor, rows: slice, **keywords) -> torch.Tensor:
    """The loss on some rows, with whatever the loss needs for them."""
    generator = torch.Generator().manual_seed(3)
    needed = {need: torch.randn(len(logits), NUM_CLASSES, generator=generator)[rows] for need in CASE_OF[name].needs}
    if name == "ols":
        needed["matrix"] = torch.rand(NUM_CLASSES, NUM_CLASSES, generator=generator).softmax(-1)
    function = getattr(maxsup.functional, CASE_OF[name].function)
    return function(logits[rows], target[rows], **needed, **keywords)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[int, list[slice]]:
    """A batch size and consecutive micro-batches that cover it, some of them empty."""
    size = draw(st.integers(1, 9))
    edges = [0, *sorted(draw(st.lists(st.integers(0, size), max_size=5))), size]
    return size, [slice(start, stop) for start, stop in pairwise(edges)]


def accumulated(name: str, logits: torch.Tensor, target: torch.Tensor, parts: list[slice], **keywords) -> torch.Tensor:
    leaf = logits.clone().requires_grad_()
    for part in parts:
        call(name, leaf, target, part, **keywords).backward()
    return leaf.grad


@pytest.mark.parametrize("name", maxsup.list_losses())
def test_micro_batches_with_num_items_add_up_to_the_whole_batch(name: str):
    @holds_for(EXAMPLES, partition=partitions(), seed=SEEDS, weighted=st.booleans(), as_tensor=st.booleans())
    def holds(partition: tuple[int, list[slice]], seed: int, weighted: bool, as_tensor: bool) -> None:
        size, parts = partition
        generator = torch.Generator().manual_seed(seed)
        logits = 3.0 * torch.randn(size, NUM_CLASSES, generator=generator)
        target = torch.randint(NUM_CLASSES, (size,), generator=generator)
        target[1::3] = -100
        weight = torch.tensor([0.5, 2.0, 1.0, 3.0]) if weighted else None
        kept = target[target != -100]
        num_items = weight[kept].sum() if weighted else torch.tensor(float(len(kept)))
        denominator = num_items if as_tensor else num_items.item()
        whole = accumulated(name, logits, target, [slice(0, size)], weight=weight)
        split = accumulated(name, logits, target, parts, weight=weight, num_items=denominator)
        assert (whole - split).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", [case.name for case in CASES if case.takes_probabilities])
def test_micro_batches_of_probability_targets_add_up_to_the_whole_batch(name: str):
    @holds_for(EXAMPLES, partition=partitions(), seed=SEEDS)
    def holds(partition: tuple[int, list[slice]], seed: int) -> None:
        size, parts = partition
        generator = torch.Generator().manual_seed(seed)
        logits = 3.0 * torch.randn(size, NUM_CLASSES, generator=generator)
        target = torch.randn(size, NUM_CLASSES, generator=generator).softmax(-1)
        whole = accumulated(name, logits, target, [slice(0, size)])
        split = accumulated(name, logits, target, parts, num_items=size)
        assert (whole - split).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", maxsup.list_losses())
def test_an_empty_micro_batch_adds_exactly_nothing(name: str):
    logits = torch.randn(3, NUM_CLASSES)
    target = torch.tensor([0, 1, 2])
    gradient = accumulated(name, logits, target, [slice(0, 0)], num_items=3)
    assert torch.equal(gradient, torch.zeros_like(logits))
