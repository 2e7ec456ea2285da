"""What compilers for four GPUs say of the kernels as we launch them; no GPU is needed."""

import sys

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("triton", minversion="3.4", reason="Triton is not installed, or compiles ahead in another way")
if sys.platform != "linux":
    pytest.skip("Triton's assemblers come with its Linux builds", allow_module_level=True)

from benchmarks.kernels import KERNELS, TARGETS, compiled  # noqa: E402 - after the check that Triton is there
from maxsup.losses.device.rows import PENALTIES  # noqa: E402

SHAPES = [(1000, True), (32000, True), (152, False)]
"""Classes, and whether they are innermost: in a row, in a row of many tiles, in planes."""


@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_spills_and_loads_are_128_bits_wide(target: str):
    for kernel in KERNELS:
        for num_classes, is_rows in SHAPES:
            found = compiled(target, kernel, "bf16", num_classes, is_rows=is_rows)
            assert found.spills == 0, (kernel, num_classes)
            assert found.wide_loads > 0, (kernel, num_classes)
            assert found.registers <= 168, (kernel, num_classes)  # three programs of 128 threads side by side


@pytest.mark.parametrize("penalty", PENALTIES)
def test_no_penalty_spills(penalty: str):
    for kernel in KERNELS:
        assert compiled("sm_80", kernel, "fp32", 32000, penalty=penalty).spills == 0


def test_few_classes_and_odd_numbers_of_them_do_not_spill():
    for kernel in KERNELS:
        assert compiled("sm_80", kernel, "fp32", 10).spills == 0
        odd = compiled("sm_80", kernel, "bf16", 50257)
        assert (odd.spills, odd.wide_loads) == (0, 0)
