"""The way of batches to a device that is no CPU; ``meta`` takes its part."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch

from maxsup.lab.data.pipelines.feeding import fed

META = torch.device("meta")


@dataclass
class Numbered:
    """A batch that knows its number."""

    number: int
    images: torch.Tensor

    def on(self, move: Callable[[torch.Tensor], torch.Tensor]) -> "Numbered":
        return Numbered(self.number, move(self.images))


def batches(read: list[int], last: int = 5) -> Iterator[Numbered]:
    for number in range(last):
        read.append(number)
        yield Numbered(number, torch.zeros(2))


def test_batches_arrive_on_the_device_in_their_order() -> None:
    found = list(fed(batches([]), META))
    assert [batch.number for batch in found] == list(range(5))
    assert {batch.images.device for batch in found} == {META}


def test_one_batch_is_read_ahead_and_no_more() -> None:
    read: list[int] = []
    coming = fed(batches(read), META)
    next(coming)
    coming.close()  # waits for what is under way
    assert read == [0, 1]


def test_an_error_of_the_reading_thread_reaches_the_one_that_trains() -> None:
    def failing() -> Iterator[Numbered]:
        yield from batches([], 2)
        raise OSError("disk gone")

    coming = fed(failing(), META)
    assert [next(coming).number, next(coming).number] == [0, 1]
    with pytest.raises(OSError, match="disk gone"):
        next(coming)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("feed")]


def test_a_host_reads_without_a_thread() -> None:
    read: list[int] = []
    coming = fed(batches(read), torch.device("cpu"))
    next(coming)
    assert read == [0]
