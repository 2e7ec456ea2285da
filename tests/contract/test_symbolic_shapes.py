"""Sizes that are not known while a loss is traced: batches picked by a mask, and exported programs.

One trace holds all losses, because a trace takes seconds. Losses compiled for all shapes are in ``test_compile.py``.
"""

import pytest
import torch
import torch._dynamo.testing

from tests.contract.calls import NAMES, call_with_head
from tests.contract.samples import distinct_logits, labels_for

pytestmark = pytest.mark.slow


def all_losses(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Every loss of these logits, and the head that multiplies by 1."""
    return torch.stack([call_with_head(name, logits, target) for name in (*NAMES, "head")])


class AllLosses(torch.nn.Module):
    """What ``torch.export`` takes."""

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return all_losses(logits, target)


def values_and_gradients(function, logits: torch.Tensor, *others: torch.Tensor) -> list[torch.Tensor]:
    leaf = logits.clone().requires_grad_()
    values = function(leaf, *others)
    return [values.detach(), torch.autograd.grad(values, leaf, torch.linspace(1, 2, len(values)).double())[0]]


@pytest.mark.skipif(torch.__version__ < "2.6", reason="torch's own log-softmax cannot be traced for such rows there")
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_losses_of_rows_that_a_mask_picks_compile():
    def picked(logits: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return all_losses(logits[mask], target[mask])

    compiled = torch.compile(picked, fullgraph=True, backend="aot_eager")
    logits = distinct_logits(8, 4)
    for mask in (torch.arange(8) % 2 == 0, torch.arange(8) < 3, torch.arange(8) == 5):
        found, expected = (values_and_gradients(f, logits, labels_for(logits), mask) for f in (compiled, picked))
        assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(found, expected, strict=True))


def test_losses_of_a_marked_size_compile_once():
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(all_losses, fullgraph=True, backend=counter)
    for num_rows in (6, 9):
        logits = distinct_logits(num_rows, 4)
        target = labels_for(logits)
        torch._dynamo.mark_dynamic(logits, 0)
        torch._dynamo.mark_dynamic(target, 0)
        assert torch.allclose(compiled(logits, target), all_losses(logits, target), rtol=1e-12, atol=1e-12)
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    "strict",
    [
        pytest.param(
            True,
            id="strict",
            marks=pytest.mark.skipif(torch.__version__ < "2.6", reason="the gradient of an operator is lost there"),
        ),
        pytest.param(False, id="not strict"),
    ],
)
def test_exported_losses_serve_batches_of_any_size(strict: bool):
    logits = distinct_logits(6, 4)
    batch = torch.export.Dim("batch")
    program = torch.export.export(
        AllLosses(), (logits, labels_for(logits)), dynamic_shapes=({0: batch}, {0: batch}), strict=strict
    )
    for num_rows in (6, 9):
        logits = distinct_logits(num_rows, 4)
        found, expected = (values_and_gradients(f, logits, labels_for(logits)) for f in (program.module(), all_losses))
        assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(found, expected, strict=True))
