"""Which form computes a loss: the device of the logits decides, unless the user chooses.

``"fused"`` serves a CPU, ``"triton"`` GPUs that Triton supports, ``"eager"`` all other devices and ``meta``; the tests
compare them with ``"reference"``. :func:`implementation` says what they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.core.checks import check_choice

IMPLEMENTATIONS = ("fused", "triton", "eager", "reference")
# The kinds of device that Triton has a back end for; torch calls AMD's GPUs cuda too.
TRITON_DEVICES = ("cuda", "xpu")
# Triton does not support older GPUs; our kernels were not tried with older versions of it.
OLDEST_CAPABILITY = (7, 0)
OLDEST_TRITON = (3, 3)
# The first version that comes with such a Triton.
TRACES_CONSTANTS = torch.__version__ >= "2.7"
# A context variable: each thread and asynchronous task has its own choice.
_implementation: ContextVar[str | None] = ContextVar("implementation", default=None)


class Form(NamedTuple):
    """A form and why it was chosen."""

    name: str
    reason: str


@contextmanager
def implementation(name: str) -> Iterator[None]:
    """Choose how losses are computed in a ``with`` block, in place of the form that fits the device.

    ``"fused"`` uses blocks that fit a CPU's cache, ``"triton"`` kernels for a GPU, ``"eager"`` few operators and
    ``"reference"`` the formula. All give the same numbers; the reference is slower, needs more memory and is easy to
    read. Each thread chooses for itself, and a compiled loss keeps its own form.

    Example:
        >>> from maxsup.functional import implementation, maxsup_cross_entropy
        >>> with implementation("reference"):
        ...     maxsup_cross_entropy(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0]))
        tensor(0.2949)
    """
    check_choice("implementation", name, IMPLEMENTATIONS)
    token = _implementation.set(name)
    try:
        yield
    finally:
        _implementation.reset(token)


def form_for(logits: Tensor) -> str:
    """Name of the form for some logits; without a kernel, a compiled loss has its own form (``traced.py``)."""
    kind = logits.device.type
    if torch.compiler.is_compiling():
        # Not every supported version of torch can trace a context variable, or a function that is marked constant.
        return compiled_form(kind) if kind in TRITON_DEVICES and TRACES_CONSTANTS else "fused"
    chosen = _implementation.get()
    if chosen is None:
        return "fused" if kind == "cpu" else default_form(kind).name
    obstacle = triton_obstacle(kind) if chosen == "triton" and kind != "meta" else None
    if obstacle is not None:
        raise RuntimeError(f"implementation('triton') cannot serve logits on {kind}: {obstacle}.")
    return chosen


def compiled_form(device_type: str) -> str:
    """Name of the form of a compiled loss on a kind of device that Triton may serve."""
    return "triton" if default_form(device_type).name == "triton" else "fused"


# A compiler treats the answer as a constant and does not trace the function. torch.compiler.assume_constant_result has
# the same effect but would import the compiler at once.
compiled_form._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def default_form(device_type: str) -> Form:
    """The form for logits on a kind of device.

    Example:
        >>> default_form("cpu")
        Form(name='fused', reason='blocks of logits fit the cache of a CPU')
    """
    if device_type == "cpu":
        return Form("fused", "blocks of logits fit the cache of a CPU")
    obstacle = triton_obstacle(device_type)
    return Form("triton", "Triton serves this device") if obstacle is None else Form("eager", obstacle)


def triton_obstacle(device_type: str) -> str | None:
    """Why the kernels cannot run on a kind of device; None where they can."""
    if find_spec("triton") is None:
        return "the package triton is not installed"
    if device_type == "cpu":
        is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        return None if is_interpreted else "on a CPU Triton only runs in a process with TRITON_INTERPRET=1"
    if device_type not in TRITON_DEVICES:
        return f"Triton has no back end for {device_type}"
    version = import_module("triton").__version__
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_TRITON:
        return f"triton is {version}, and the kernels need 3.3"
    if device_type == "cuda" and torch.version.hip is None:
        if not torch.cuda.is_available():
            return "torch finds no GPU"
        if torch.cuda.get_device_capability() < OLDEST_CAPABILITY:
            return "Triton needs a GPU of compute capability 7.0"
    return None
