"""``maxsup bench``: what the loss costs on your device, beside what you would use instead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.core.checks import check_choice
from maxsup.lab.cli.options import JsonOption
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import flag, option

if TYPE_CHECKING:
    from torch import Tensor

DEVICES = {"cpu": "cpu", "cuda": "cuda"}
"""Kind of device and where its tensors are."""
DTYPES = ("float32", "bfloat16")
YARDSTICK = "torch label smoothing"
MAX_SIDE = 10**9
"""Most samples or classes: beyond it, torch cannot count the bytes of the logits."""


def bench(
    device: Annotated[str, option("|".join(DEVICES), "Where to run.")] = "cpu",
    classes: Annotated[int, typer.Option(min=2, max=MAX_SIDE, help="Number of classes.")] = 1000,
    batch: Annotated[int, typer.Option(min=1, max=MAX_SIDE, help="Number of samples.")] = 256,
    dtype: Annotated[str, option("|".join(DTYPES), "Type of the logits.")] = "float32",
    compiled: Annotated[bool, flag("--compile", "Also time each under torch.compile.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Number of timed rounds.")] = 15,
    as_json: JsonOption = False,
) -> None:
    """Measure time and memory of MaxSup beside label smoothing."""
    check_choice("device", device, tuple(DEVICES))
    check_choice("dtype", dtype, DTYPES)
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be one that torch can use; got 'cuda' without a GPU. Use --device cpu.")
    try:
        result = _measured(device, (batch, classes), dtype, compiled, rounds)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"--compile must find a compiler; got {reason}. Install one or leave out --compile."
        ) from error
    show(result, _lines(result), as_json=as_json)


def _measured(device: str, shape: tuple[int, int], dtype: str, compiled: bool, rounds: int) -> dict[str, Any]:
    import torch

    from maxsup.functional import maxsup_cross_entropy
    from maxsup.lab.bench.baselines import naive_maxsup, torch_cross_entropy, torch_label_smoothing
    from maxsup.lab.bench.peak_memory import peak_memory
    from maxsup.lab.bench.timing import interleaved_times, one_thread, time_ratio
    from maxsup.lab.core.repro import environment
    from maxsup.losses.computing.forms import default_form

    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "torch cross-entropy": torch_cross_entropy,
        YARDSTICK: torch_label_smoothing,
        "naive MaxSup": naive_maxsup,
        "maxsup": maxsup_cross_entropy,
    }
    if compiled:
        losses |= {f"{name}, compiled": torch.compile(loss, dynamic=False) for name, loss in losses.items()}
    logits = (3.0 * torch.randn(shape)).to(DEVICES[device], getattr(torch, dtype)).requires_grad_()
    target = torch.randint(shape[1], shape[:1]).to(DEVICES[device])

    def forward_and_backward(loss: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(logits, target), logits)

    steps = {name: partial(forward_and_backward, loss) for name, loss in losses.items()}
    with one_thread():
        times = interleaved_times(steps, rounds=rounds, device=device)
        peaks = {name: peak_memory(step, device=device) for name, step in steps.items()}
        facts = environment()
    return {
        "device": device,
        "hardware": facts["cpu"] if device == "cpu" else facts["device"],
        "torch": facts["packages"]["torch"],
        "batch": shape[0],
        "classes": shape[1],
        "dtype": dtype,
        "rounds": rounds,
        "form": default_form(device)._asdict(),
        "losses": [
            {
                "name": name,
                "milliseconds": 1000 * min(times[name]),
                "time_ratio": time_ratio(times, name, YARDSTICK)._asdict(),
                "peak_memory_ratio": peaks[name] / logits.nbytes,
            }
            for name in steps
        ],
    }


def _lines(result: dict[str, Any]) -> list[str]:
    width = max(len(row["name"]) for row in result["losses"])
    clock = "CPU time of one thread" if result["device"] == "cpu" else "time on the device"
    lines = [
        f"{result['hardware']}, torch {result['torch']}",
        f"{result['batch']} samples, {result['classes']} classes, {result['dtype']}",
        f"forward and backward, {clock}",
        f"maxsup in the form {result['form']['name']!r}: {result['form']['reason']}",
        "",
        f"{'loss':<{width}}  {'best ms':>9}  {'time / LS':>18}  {'memory / logits':>15}",
    ]
    for row in result["losses"]:
        ratio = row["time_ratio"]
        spread = f"{ratio['median']:.2f} [{ratio['low']:.2f}-{ratio['high']:.2f}]"
        lines.append(
            f"{row['name']:<{width}}  {row['milliseconds']:>9.3f}  {spread:>18}  {row['peak_memory_ratio']:>15.2f}"
        )
    return [*lines, "", f"time / LS: median and quartiles of {result['rounds']} rounds; memory: peak beyond the logits"]
