"""Hooks on saved tensors see all that a loss keeps for backward: checkpointing frees it, offloading moves it."""

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.losses.head import blocks as head_blocks
from tests.contract.calls import NAMES, call_with_head
from tests.contract.samples import scattered

ROWS = 5000
FORMS = [*NAMES, "head"]


@pytest.fixture(autouse=True)
def _a_head_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logits, which are held, would be those of any loss."""
    monkeypatch.setattr(head_blocks, "SMALL_BYTES", 0)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    target = torch.arange(ROWS) % 4
    target[1] = -100
    return scattered((ROWS, 4)).requires_grad_(), target


def gradients(name: str, upstreams: tuple[float, ...], **options) -> list[torch.Tensor]:
    logits, target = batch()
    loss = call_with_head(name, logits, target, **options)
    return [
        torch.autograd.grad(loss, logits, torch.full_like(loss, upstream), retain_graph=True)[0]
        for upstream in upstreams
    ]


@pytest.mark.parametrize("options", [{}, {"reduction": "none"}], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_hooks_that_keep_copies_leave_every_backward_right(name: str, options: dict):
    upstreams = (1.0, 3.0, 1.0)
    expected = gradients(name, (1.0,), **options)[0]
    kept = []

    def pack(tensor: torch.Tensor) -> int:
        kept.append((tensor.detach().clone(), tensor.detach().clone()))
        return len(kept) - 1

    with saved_tensors_hooks(pack, lambda index: kept[index][0]):
        found = gradients(name, upstreams, **options)
    for upstream, gradient in zip(upstreams, found, strict=True):
        assert torch.allclose(gradient, upstream * expected, rtol=1e-12, atol=1e-15)
    # The loss must not write into what a hook has stored.
    assert all(torch.equal(stored, original) for stored, original in kept)


@pytest.mark.parametrize("name", FORMS)
def test_a_checkpointed_or_offloaded_loss_gives_the_same_gradient(name: str):
    expected = gradients(name, (1.0,))[0]
    logits, target = batch()
    loss = checkpoint(call_with_head, name, logits, target, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(loss, logits)[0], expected)
    with save_on_cpu():
        loss = call_with_head(name, logits, target)
    assert torch.equal(torch.autograd.grad(loss, logits)[0], expected)


@pytest.mark.parametrize("name", FORMS)
def test_checkpointed_chunks_keep_nothing_until_backward(name: str):
    logits, target = batch()
    num_chunks = 8

    def forward() -> list[torch.Tensor]:
        return [checkpoint(call_with_head, name, logits, target, use_reentrant=False) for _ in range(num_chunks)]

    forward()
    one = peak_memory(lambda: checkpoint(call_with_head, name, logits, target, use_reentrant=False))
    # Less than one more chunk, and not seven.
    assert peak_memory(forward) < one + logits.nbytes
