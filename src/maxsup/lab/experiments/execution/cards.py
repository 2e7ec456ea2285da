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


def check_gpus_per_run(gpus_per_run: int | None, cards: Cards) -> int:
    """Return how many cards of this machine a run gets; raise if there are not so many."""
    if gpus_per_run is None:
        return 1
    _check_positive(gpus_per_run)
    if gpus_per_run > 1 and cards and not cards.variable:
        raise ValueError(f"gpus_per_run must be 1 on a Mac, whose one GPU (MPS) is not divided; got {gpus_per_run}.")
    if gpus_per_run > len(cards):
        raise ValueError(
            f"gpus_per_run must be at most the GPUs that this machine has, {len(cards)}; got {gpus_per_run}. Ask for "
            "fewer, leave it out, or use the launcher slurm or ray."
        )
    return gpus_per_run


def check_requested_gpus(num_gpus: float | None, gpus_per_run: int | None) -> int:
    """Return how many processes train a run of a cluster; raise if it would leave GPUs idle that were asked for."""
    if gpus_per_run is None:
        if num_gpus is not None and num_gpus > 1:
            raise ValueError(
                f"num_gpus must be at most 1 for a run of one process; got {num_gpus:g}. Give --gpus-per-run "
                f"{num_gpus:g} in its place (gpus_per_run in Python), and each run uses all of them."
            )
        return 1
    _check_positive(gpus_per_run)
    if num_gpus not in (None, gpus_per_run):
        raise ValueError(f"num_gpus must be that of gpus_per_run, {gpus_per_run}; got {num_gpus:g}. Leave it out.")
    return gpus_per_run


def _check_positive(gpus_per_run: int) -> None:
    if gpus_per_run < 1:
        raise ValueError(f"gpus_per_run must be at least 1; got {gpus_per_run}. Leave it out for one GPU a run.")


def visible_names() -> str:
    """The GPUs that were handed to this process, as its environment names them; "" if nobody did."""
    return os.environ.get(_HIP) or os.environ.get(_CUDA, "")
