"""What compilers for four GPUs say of the kernels as we launch them; no GPU is needed."""

import sys

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("triton", minversion="3.4", reason="Triton is not installed, or compiles ahead in another way")
if sys.platform != "linux":
    pytest.skip("Triton's assemblers come with its Linux builds", allow_module_level=True)

from benchmarks.kernels import KERNELS, TARGETS, assembly, compiled  # noqa: E402 - after the check that Triton is there
from maxsup.losses.device.rows import PENALTIES  # noqa: E402

LAUNCHES = [
    ("fp32", 10, True),
    ("fp16", 100, True),
    ("bf16", 1000, True),
    ("fp32", 32000, True),
    ("bf16", 32000, True),
    ("bf16", 152, False),
]
"""Type, classes, and whether they are innermost: many rows to a tile, one, many tiles to a row, planes.

``python -m benchmarks device`` goes through every type at every launch.
"""


@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_spills_and_loads_are_128_bits_wide(target: str):
    for kernel in KERNELS:
        for dtype, num_classes, is_rows in LAUNCHES:
            found = compiled(target, kernel, dtype, num_classes, is_rows=is_rows)
            assert found.spills == 0, (kernel, dtype, num_classes)
            assert found.wide_loads > 0 or num_classes % 8 != 0, (kernel, dtype, num_classes)
            # Three programs of 128 threads side by side.
            assert found.registers <= 168, (kernel, dtype, num_classes)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_no_penalty_spills(penalty: str):
    for kernel in KERNELS:
        assert compiled("sm_80", kernel, "fp32", 32000, penalty=penalty).spills == 0


def test_odd_numbers_of_classes_do_not_spill_and_have_narrow_loads():
    for kernel in KERNELS:
        odd = compiled("sm_80", kernel, "bf16", 50257)
        assert (odd.spills, odd.wide_loads) == (0, 0)


@pytest.mark.parametrize(
    ("target", "finish", "before", "after"),
    [
        ("sm_80", "atom.global.gpu.acq_rel.add", "bar.sync", "ld.global.cg"),
        ("gfx942", "global_atomic_add", "buffer_wbl2", "buffer_inv"),
    ],
)
def test_a_program_is_finished_when_its_sums_are_in_memory(target: str, finish: str, before: str, after: str):
    first, second = assembly(target, "statistics", "bf16", 1000).split(finish)  # once, by one thread
    assert before in first
    assert after in second
    if target == "sm_80":  # no sum of another program is read earlier
        assert after not in first
