"""A device that counts: what is sent to it, and how often the host waits for it.

Its tensors say that they are on the device ``meta`` and hold their values on the host, so a whole training step runs on
it with real numbers, and every copy and every look at a number passes through here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
DEVICE = torch.device("meta")
HOST = torch.device("cpu")
# Their result has a size or a value that the host must know before it goes on.
_WAITS = {aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten._unique2.default}


class CountedTensor(Tensor):
    """A tensor of the counting device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> CountedTensor:
        """Wrap a tensor of the host."""
        form = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made: CountedTensor = Tensor._make_wrapper_subclass(cls, held.shape, device=DEVICE, **form)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator on the values, and count nothing: there is no :class:`CountingDevice` around."""
        return _run(function, args, kwargs or {}, Counter())


class CountingDevice(TorchDispatchMode):
    """Inside, tensors may be made on or moved to ``meta``, and ``counts`` has what happened.

    ``bytes`` were sent to the device; ``waits`` are the times when the host needed a result before it could go on.
    """

    def __init__(self, counts: Counter[str] | None = None) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter() if counts is None else counts

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operator, and run it."""
        return _run(function, args, kwargs or {}, self.counts)


def _run(function: Any, args: Any, kwargs: dict[str, Any], counts: Counter[str]) -> Any:
    found: list[CountedTensor] = []

    def opened(value: Any) -> Any:
        if isinstance(value, CountedTensor):
            found.append(value)
            return value.held
        return HOST if isinstance(value, torch.device) and value.type == DEVICE.type else value

    target = kwargs.get("device")
    plain_args, plain_kwargs = tree_map(opened, (args, kwargs))
    is_copy = function in (aten._to_copy.default, aten.copy_.default)
    source = (args[1] if function is aten.copy_.default else args[0]) if is_copy else None
    is_on_device = bool(found) if target is None else target.type == DEVICE.type
    if is_copy:
        if is_on_device and not isinstance(source, CountedTensor) and source.dim():
            counts["bytes"] += source.nbytes
        to_host = (target is not None and target.type == HOST.type) or not isinstance(args[0], CountedTensor)
        if isinstance(source, CountedTensor) and to_host and not is_on_device:
            counts["waits"] += 1
    elif found and function in _WAITS:
        counts["waits"] += 1
    result = function(*plain_args, **plain_kwargs)
    if not is_on_device:
        return result
    known = {id(each.held): each for each in found}

    def wrapped(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        # What was changed in place is the tensor that came in.
        return known[id(value)] if id(value) in known else CountedTensor(value)

    return tree_map(wrapped, result)
