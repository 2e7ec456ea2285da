"""How many operators a loss calls, forward and backward: not more for more samples, only for more blocks of bytes.

Counts, not times: a loop over samples shows on any machine, however busy.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from maxsup.functional import linear_maxsup_cross_entropy
from tests.contract.calls import MIXABLE, call_function
from tests.contract.samples import NUM_CLASSES, WEIGHT, labels_for, mixed_for, scattered

MOST = 130
"""Operators of one call whose logits are one block: the formula of the longest loss takes about a hundred."""
BLOCK_BYTES = 512 * 1024
"""Half of what blocks have at least, since the last block of a plane may be short; in float32."""
MOST_OF_A_BLOCK = 100

WHOLE = [(5000, 4), (1, 4, 9), (512, 4, 16), (4096, 4, 2), (1000, 4, 3, 3), (1, 4, 90, 90), (500, 4, 2, 2, 2)]
"""Logits of less than 512 KiB, all one block, in few and in many samples."""
LARGE = [(100000, 4), (8000, 4, 16), (1000, 4, 14, 14), (2, 4, 250, 250)]

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "class weights": {"weight": WEIGHT},
    "ignored labels": {"ignore_index": 1},
    "no reduction": {"reduction": "none"},
    "sum": {"reduction": "sum"},
    "num_items": {"num_items": 7},
    "empty": {"empty": "zero"},
    "z-loss": {"z_loss": 1e-3},
}


class AtMost(TorchDispatchMode):
    """Ends the test at one operator below autograd too many, so that a loop does not run to its end."""

    def __init__(self, most: float, what: str) -> None:
        super().__init__()
        self.most, self.what, self.count = most, what, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        assert self.count <= self.most, f"{self.what}: more than {self.most:.0f} operators"
        return func(*args, **(kwargs or {}))


def operators(most: float, what: str, name: str, logits: Tensor, target: Tensor, **options: Any) -> int:
    """Operators of forward and backward of a loss."""
    logits = logits.detach().requires_grad_()
    with AtMost(most, what) as counting:
        torch.autograd.grad(call_function(name, logits, target, **options).sum(), logits)
    return counting.count


def logits_of(shape: tuple[int, ...]) -> Tensor:
    return scattered(shape).float()


@pytest.mark.parametrize("shape", WHOLE, ids=str)
def test_no_option_makes_a_loss_go_sample_by_sample(name: str, shape: tuple[int, ...]):
    logits = logits_of(shape)
    labels = labels_for(logits)
    for option, given in OPTIONS.items():
        assert operators(MOST, option, name, logits, labels, **given) <= MOST
    assert operators(MOST, "bfloat16", name, logits.bfloat16(), labels) <= MOST
    assert (
        operators(MOST, "a masked class", name, logits.index_fill(1, torch.tensor(3), -torch.inf), labels % 3) <= MOST
    )
    assert operators(MOST, "channels last", name, logits.movedim(1, -1).contiguous().movedim(-1, 1), labels) <= MOST
    if name in MIXABLE:
        assert operators(MOST, "probabilities", name, logits, mixed_for(logits)) <= MOST


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_the_operators_of_large_logits_follow_their_bytes(name: str, shape: tuple[int, ...]):
    logits = logits_of(shape)
    most = MOST + MOST_OF_A_BLOCK * 4 * logits.numel() / BLOCK_BYTES
    for dtype in (torch.float32, torch.bfloat16):
        assert operators(most, str(dtype), name, logits.to(dtype), labels_for(logits)) <= most


@pytest.mark.parametrize("terms", [{}, {"margin": 1.0}, {"soft_cap": 5.0, "z_loss": 1e-3}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_rows", [8, 257, 5000, 400000])
def test_the_operators_of_a_head_follow_the_bytes_of_its_logits(num_rows: int, dtype: torch.dtype, terms: dict):
    hidden, weight = torch.randn(num_rows, 2).to(dtype), torch.randn(NUM_CLASSES, 2).to(dtype)
    hidden.requires_grad_()
    weight.requires_grad_()
    target = torch.arange(num_rows) % NUM_CLASSES
    most = MOST + MOST_OF_A_BLOCK * 4 * num_rows * NUM_CLASSES / BLOCK_BYTES
    with AtMost(most, "the head") as counting:
        loss = linear_maxsup_cross_entropy(hidden, weight, target, **terms)
        torch.autograd.grad(loss, (hidden, weight))
    assert counting.count <= most
