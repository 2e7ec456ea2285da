"""The GPUs of this machine, and how the workers of a launch share them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import takewhile

from maxsup.core.errors import counted

_CUDA, _HIP = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Cards:
    """GPUs by the words that ``variable`` names them with; without a variable a process cannot be given one of them."""

    names: tuple[str, ...] = ()
    variable: str = ""

    def __len__(self) -> int:
        return len(self.names)

    def environment(self, slot: int, num_each: int) -> dict[str, str]:
        """What the worker in a slot sees: ``num_each`` cards of its own, shared in turns if there are too few.

        Example:
            >>> cards = Cards(("0", "1", "2", "3"), "CUDA_VISIBLE_DEVICES")
            >>> cards.environment(1, 2), cards.environment(5, 1)
            ({'CUDA_VISIBLE_DEVICES': '2,3'}, {'CUDA_VISIBLE_DEVICES': '1'})
        """
        if not self.variable:
            return {}
        first = slot % self.num_groups(num_each) * num_each
        return {self.variable: ",".join(self.names[first : first + num_each])}

    def num_groups(self, num_each: int) -> int:
        """How many runs with ``num_each`` cards each have cards of their own."""
        return len(self) // num_each

    def sharing(self, num_workers: int, num_each: int) -> str:
        """How the workers share the cards, in words.

        Example:
            >>> Cards(("0", "1", "2", "3")).sharing(4, 1), Cards(("0", "1", "2", "3")).sharing(2, 2)
            ('4 GPUs: 4 runs at a time', '4 GPUs: 2 runs at a time, 2 GPUs each')
            >>> Cards(("0",)).sharing(2, 1)
            '1 GPU: 2 runs at a time, which share it'
        """
        text = f"{counted(len(self), 'GPU')}: {counted(num_workers, 'run')} at a time"
        text += f", {num_each} GPUs each" if num_each > 1 else ""
        if num_workers > self.num_groups(num_each):
            text += f", which share {'it' if len(self) == 1 else 'them'}"
        return text


def visible_cards() -> Cards:
    """The GPUs that this process may use; Apple's (MPS) is one that all processes share."""
    import torch

    if count := torch.cuda.device_count():
        variable = _HIP if torch.version.hip and _HIP in os.environ else _CUDA
        given = os.environ.get(variable)
        words = map(str, range(count)) if given is None else (word.strip() for word in given.split(","))
        # As the driver reads it: what follows an entry that is no card does not count.
        return Cards(tuple(takewhile(lambda word: word and not word.startswith("-"), words))[:count], variable)
    return Cards(("mps",)) if torch.backends.mps.is_available() else Cards()


def visible_names() -> str:
    """The GPUs that were handed to this process, as its environment names them; "" if nobody did."""
    return os.environ.get(_HIP) or os.environ.get(_CUDA, "")
