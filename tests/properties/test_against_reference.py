"""Every loss against plain loops over Python floats."""

import math
import zlib

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import maxsup
import maxsup.functional
from tests.conftest import examples
from tests.properties.batches import Batch, batches, holds_for
from tests.reference import gradients
from tests.reference.cases import CASE_OF, CASES, NUM_LOSSES, LossCase
from tests.reference.losses import ls_with_torch_weights, reference_of, sample_weight, squared_log_sum, weighted
from tests.reference.reduction import reduced

FULL_CASES = 100
"""Calls drawn for each loss, dtype and implementation in the full run."""
NUM_IMPLEMENTATIONS = {True: 4, False: 2}
"""By whether a loss has a closed gradient."""
QUICK_CASES = 5
GRADIENT_CASES = examples(50)
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
"""Largest difference allowed, relative to ``max(1, |value|)``."""


def reference_value(case: LossCase, batch: Batch, z_loss: float) -> float | list[float]:
    weight = batch.shared.get("weight")

    def value(i: int) -> float:
        options = batch.reference_options(i)
        row, target = batch.rows[i], batch.targets[i]
        if options.pop("weight_mode", "sample") == "torch":
            return ls_with_torch_weights(row, target, weight, **options)
        term = z_loss * sample_weight(target, weight) * squared_log_sum(row)
        return weighted(reference_of(case.name), row, target, weight, **options) + term

    return reduced(value, batch.targets, **batch.shared)


def differs(actual: torch.Tensor, expected: float | list[float], tolerance: float) -> bool:
    got = actual.double().reshape(-1).tolist()
    wanted = expected if isinstance(expected, list) else [expected]
    return len(got) != len(wanted) or any(
        math.isnan(a) != math.isnan(b) or abs(a - b) > tolerance * max(1.0, abs(b))
        for a, b in zip(got, wanted, strict=True)
    )


def test_the_full_run_has_at_least_ten_thousand_cases():
    assert len(maxsup.list_losses()) == NUM_LOSSES
    ways = sum(NUM_IMPLEMENTATIONS[case.is_fused] for case in CASES)
    assert FULL_CASES * ways * len(TOLERANCE) >= 10_000


@pytest.mark.parametrize("cases", [QUICK_CASES, pytest.param(FULL_CASES, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("name", maxsup.list_losses())
def test_a_loss_equals_its_plain_loop(name: str, dtype: torch.dtype, cases: int, each_implementation: str):
    case = CASE_OF[name]
    function = getattr(maxsup.functional, case.function)
    seen = 0

    @seed(zlib.crc32(f"{name} {dtype} {each_implementation}".encode()))
    @settings(max_examples=cases, derandomize=False)
    @given(batch=batches(case, dtype), z_loss=st.sampled_from((0.0, 0.01)))
    def agrees(batch: Batch, z_loss: float) -> None:
        nonlocal seen
        seen += 1
        if batch.options.get("weight_mode") == "torch":
            z_loss = 0.0
        loss = function(batch.input(dtype), batch.target(dtype), z_loss=z_loss, **batch.keywords(dtype))
        assert loss.dtype == dtype
        assert loss.shape == (batch.sample_shape if batch.shared["reduction"] == "none" else ())
        assert not differs(loss, reference_value(case, batch, z_loss), TOLERANCE[dtype])

    agrees()
    assert seen >= cases


CLOSED_FORMS = {"ce": gradients.ce_gradient, "ls": gradients.ls_gradient, "maxsup": gradients.maxsup_gradient}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_a_gradient_equals_its_closed_form(name: str):
    case = CASE_OF[name]
    function = getattr(maxsup.functional, case.function)

    @holds_for(GRADIENT_CASES, batch=batches(case))
    def agrees(batch: Batch) -> None:
        options = {} if name == "ce" else {"alpha": 0.1}
        logits = batch.input(torch.float64).requires_grad_()
        target = batch.target(torch.float64)
        function(logits, target, reduction="sum", ignore_index=batch.shared["ignore_index"], **options).backward()
        rows = logits.grad.movedim(0 if logits.dim() == 1 else 1, -1).reshape(len(batch.rows), -1).tolist()
        for row, z, t in zip(rows, batch.rows, batch.targets, strict=True):
            is_ignored = t == batch.shared["ignore_index"] or t == [0.0] * len(z)
            expected = [0.0] * len(z) if is_ignored else CLOSED_FORMS[name](z, t)
            assert max(abs(a - b) for a, b in zip(row, expected, strict=True)) <= 1e-12
