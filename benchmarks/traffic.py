"""Bytes that a piece of work moves and kernels it starts, counted without running it.

On a GPU the arithmetic of a loss is free and the time goes into reading and writing memory. Every operator that torch
dispatches counts, on ``meta`` tensors too, with what it reads and what it writes. Views cost nothing; gathers and
scatters cost what they touch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_GATHERS = {"gather", "index", "index_select", "nll_loss_forward", "nll_loss2d_forward"}
_SCATTERS = {"scatter", "scatter_add"}
# They write without reading what was there before.
_FILLS = {"fill", "zero", "copy"}
# They only look at the size and type of their input.
_MADE_LIKE = {"new_full", "new_zeros", "new_ones", "full_like", "zeros_like", "ones_like"}
_FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view"}


class Traffic(NamedTuple):
    """Bytes read and written, and kernels."""

    num_bytes: int
    kernels: tuple[str, ...]


def traffic(work: Callable[[], object]) -> Traffic:
    """What the operators of ``work`` move.

    Example:
        >>> logits = torch.empty(256, 1000, device="meta")
        >>> moved = traffic(lambda: torch.softmax(logits, dim=1))
        >>> moved.num_bytes / logits.nbytes, moved.kernels  # one read, one write
        (2.0, ('_softmax',))
    """
    with _Counter() as counter:
        work()
    return Traffic(counter.num_bytes, tuple(counter.kernels))


def allocated(work: Callable[[], object]) -> int:
    """Bytes of all tensors that the operators of ``work`` make, as if none were ever freed.

    Example:
        >>> logits = torch.empty(256, 1000, device="meta")
        >>> allocated(lambda: torch.softmax(logits, dim=1).log()) / logits.nbytes
        2.0
    """
    with _Counter() as counter:
        work()
    return counter.num_allocated


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.num_bytes = 0
        self.num_allocated = 0
        self.kernels: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        plain = name.removesuffix("_") if func._schema.is_mutable else name
        if not any(item.alias_info is not None for item in func._schema.returns):
            self.num_allocated += sum(map(_num_bytes, _tensors(result)))
        is_view = any(item.alias_info is not None and not item.alias_info.is_write for item in func._schema.returns)
        if not is_view and plain not in _FREE:
            read = {name: value for name, value in (kwargs or {}).items() if name != "out"}
            outputs = _tensors(result if func._schema.returns else _written(func, args))
            self.num_bytes += _moved(plain, func._schema.is_mutable, _tensors((args, read)), outputs)
            self.kernels.append(name)
        return result


def _written(func: Any, args: tuple[Any, ...]) -> list[Any]:
    """The arguments that an operator without a result writes to."""
    places = zip(func._schema.arguments, args, strict=False)
    return [value for place, value in places if place.alias_info is not None and place.alias_info.is_write]


def _moved(name: str, is_in_place: bool, inputs: list[Tensor], outputs: list[Tensor]) -> int:
    written = sum(map(_num_bytes, outputs))
    if name in _GATHERS:
        index = sum(_num_bytes(value) for value in inputs[1:])
        return index + 2 * written
    if name in _SCATTERS:
        places, *sources = inputs[1:]
        touched = _num_bytes(places) + sum(map(_num_bytes, sources)) + 2 * places.numel() * inputs[0].element_size()
        return touched if is_in_place else touched + _num_bytes(inputs[0]) + written
    if name in _MADE_LIKE:
        return written
    if name in _FILLS and is_in_place:
        inputs = inputs[1:]
    if name == "nll_loss_backward":  # the gradient of one entry a row, the labels, and zeros elsewhere
        inputs = [value for value in inputs if value.numel() < outputs[0].numel()]
    if name.endswith("_backward_data") and len(inputs) > 2:
        inputs = inputs[:2]
    return sum(map(_num_bytes, inputs)) + written


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def _num_bytes(tensor: Tensor) -> int:
    """Bytes in memory, where an element that is expanded exists once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride != 0 else min(size, 1)
    return count * tensor.element_size()
