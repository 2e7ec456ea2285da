"""The Triton kernels compiled for GPUs that are not here, and what the compilers report.

A compilation needs a target, not a device. Registers and spills come from the reports of the assemblers, the width of
loads from the code.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from maxsup.losses.device import kernels
from maxsup.losses.device.layout import VECTOR, launch_of
from maxsup.losses.device.rows import PARTIALS_BLOCK

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""A100, H100, B200 and MI300X."""
KERNELS = {"statistics": kernels.statistics_kernel, "gradient": kernels.gradient_kernel}
_TYPES = {"target": "*i64", "top_indices": "*i32", "num_finished": "*i32", "strength": "fp32"}
_SINGLE = ("weight", "values", "scales", "statistics", "upstream", "partials", "loss", "denominator")


class Compiled(NamedTuple):
    """What the compiler says of one kernel."""

    registers: int
    spills: int
    wide_loads: int
    """Loads of 128 bits."""


def compiled(
    target: str, kernel: str, dtype: str, num_classes: int, *, is_rows: bool = True, penalty: str = "maxsup"
) -> Compiled:
    """What the compiler says of one kernel, for logits of ``num_classes`` in ``"bf16"``, ``"fp16"`` or ``"fp32"``."""
    code = assembly(target, kernel, dtype, num_classes, is_rows=is_rows, penalty=penalty)
    return _read_amd(code) if target.startswith("gfx") else _read_nvidia(code, TARGETS[target].arch)


def assembly(
    target: str, kernel: str, dtype: str, num_classes: int, *, is_rows: bool = True, penalty: str = "maxsup"
) -> str:
    """Code of one kernel for one GPU, launched as we launch it: PTX, or AMD's assembly."""
    function = KERNELS[kernel]
    launch = launch_of(num_classes, is_rows, TARGETS[target].warp_size)
    aligned = "positions" if not is_rows else "classes" if num_classes % VECTOR == 0 else "none"
    unit = "class_stride" if is_rows else "position_stride"
    constants: dict[str, Any] = {
        "PENALTY": penalty,
        "IN_MEMORY": False,
        "ITEMS_IN_MEMORY": False,
        "REDUCTION": "mean",
        "PARTIALS": PARTIALS_BLOCK,
        "IS_ZERO_IF_EMPTY": False,
        "MARGIN": 10.0 if penalty == "mbls" else 0.0,
        "Z_LOSS": 0.0,
        "IS_SOFT": False,
        "ALIGNED": aligned,
        "IS_DOUBLE": False,
        "HAS_ENTROPY": False,
        "ROWS": launch.rows,
        "BLOCK": launch.block,
        # What a launch specialises on: a stride of 1, and what is absent.
        unit: 1,
        f"gradient_{unit}": 1,
        "target_class_stride": 0,
        "upstream_stride": 0,
        "weight": None,
        "num_items": None,
    }
    names = function.arg_names
    constants = {name: value for name, value in constants.items() if name in names}
    signature = {name: "constexpr" if name in constants else _type_of(name, dtype) for name in names}
    divisible = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(names) if signature[name][0] == "*"}
    result = triton.compile(
        ASTSource(function, signature, constants, divisible),
        target=TARGETS[target],
        options={"num_warps": launch.num_warps, "enable_fp_fusion": True},
    )
    return result.asm["amdgcn" if target.startswith("gfx") else "ptx"]


def _type_of(name: str, dtype: str) -> str:
    if name in ("logits", "gradient"):
        return f"*{dtype}"
    return _TYPES.get(name, "*fp32" if name in _SINGLE else "i32")


def _read_nvidia(code: str, capability: int) -> Compiled:
    architecture = re.findall(r"\.target (sm_\w+)", code)[0]
    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    # The newer assembler also serves GPUs that are older than its name says.
    assembler = folder / ("ptxas-blackwell" if capability >= 90 else "ptxas")
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "kernel.ptx")
        source.write_text(code)
        words = [str(assembler), "-v", f"--gpu-name={architecture}", str(source), "-o", str(source.with_suffix(".o"))]
        report = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    registers, spills = (int(re.findall(form, report)[0]) for form in (r"Used (\d+) reg", r"(\d+) bytes spill stores"))
    return Compiled(registers, spills, len(re.findall(r"ld\.global\S*\.v4\.b32|ld\.global\S*\.v2\.b64", code)))


def _read_amd(code: str) -> Compiled:
    registers, spills = (int(re.findall(rf"\.{name}: +(\d+)", code)[0]) for name in ("vgpr_count", "vgpr_spill_count"))
    # Loads of scalars are wide too, and come in another kind.
    return Compiled(registers, spills, len(re.findall(r"(?:buffer|global|flat)_load_dwordx4", code)))
