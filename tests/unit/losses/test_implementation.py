"""The choice of a form belongs to who made it, and an ordinary call goes through few functions."""

import sys
import threading
from types import FrameType

import pytest
import torch

import maxsup
from maxsup.functional import implementation, maxsup_cross_entropy
from maxsup.losses import LabelSmoothingLoss, MaxSupLoss
from maxsup.losses.computing import forms


def test_threads_that_leave_in_the_order_they_came_leave_nothing_switched():
    entered, first_left, seen = threading.Event(), threading.Event(), []

    def first() -> None:
        with implementation("reference"):
            entered.wait(5)
        first_left.set()

    def second() -> None:
        with implementation("reference"):
            entered.set()
            first_left.wait(5)
        seen.append(forms._implementation.get())

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    with implementation("fused"):
        for thread in threads:
            thread.join()
        assert forms._implementation.get() == "fused"
    assert seen == [None]


def test_a_compiled_loss_keeps_to_its_own_form():
    torch.compiler.reset()  # what other tests compiled counts against the limit of recompilations
    compiled = torch.compile(maxsup_cross_entropy, backend="eager", fullgraph=True)
    logits, target = torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0])
    with implementation("reference"):
        inside, formula = compiled(logits, target), maxsup_cross_entropy(logits, target)
    assert torch.equal(inside, compiled(logits, target))
    assert torch.allclose(inside, formula, rtol=1e-6, atol=0)


@pytest.mark.parametrize("loss", [MaxSupLoss, LabelSmoothingLoss])
def test_an_ordinary_call_goes_through_few_functions_of_ours(loss: type):
    ours = maxsup.__file__.removesuffix("__init__.py")
    criterion, logits, target = loss(alpha=0.1), torch.randn(64, 100, requires_grad=True), torch.arange(64)
    criterion(logits, target)  # the first call says more
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        criterion(logits, target)
    finally:
        sys.setprofile(None)
    assert 4 < len(called) <= 30, called
