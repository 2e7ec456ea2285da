"""Seeds are functions of position; the record says what a run ran on."""

import json
import signal

import pytest

from maxsup.core.errors import DataError, Interruption, MaxsupError, NonFiniteError, StorageError
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.core.repro import environment, mixed_seed


def test_seeds_differ_in_every_part_and_fit_a_generator() -> None:
    seeds = {
        mixed_seed(seed, kind, epoch, step)
        for seed in range(3)
        for kind in "ab"
        for epoch in range(4)
        for step in range(5)
    }
    assert len(seeds) == 3 * 2 * 4 * 5
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_parts_do_not_run_into_each_other() -> None:
    assert mixed_seed(1, 23) != mixed_seed(12, 3)


def test_the_record_is_json_and_names_versions() -> None:
    record = json.loads(json.dumps(environment()))
    assert record["packages"]["torch"]
    assert {"python", "threads", "device", "num_processes", "git_commit"} <= set(record)


@pytest.mark.parametrize(("kind", "code"), [(MaxsupError, 2), (NonFiniteError, 3), (DataError, 4), (StorageError, 5)])
def test_every_error_has_its_exit_code(kind: type[MaxsupError], code: int) -> None:
    assert kind("sentence.").exit_code == code


def test_a_signal_is_noted_once_there_is_something_to_save_and_a_second_one_leaves() -> None:
    with SignalGuard() as guard:
        guard.is_deferring = True
        signal.raise_signal(signal.SIGTERM)
        assert guard.received == signal.SIGTERM
        with pytest.raises(Interruption) as caught:
            signal.raise_signal(signal.SIGINT)
    assert caught.value.exit_code == 130


def test_a_signal_before_that_leaves_at_once_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interruption) as caught, SignalGuard():
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before
