"""Cards of a machine that has none: torch reports four, and workers note what they are given."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from maxsup.lab.experiments.execution.cards import Cards, visible_cards
from maxsup.lab.experiments.execution.launch import Job, JobState, create_launcher
from maxsup.lab.experiments.execution.launch_local import LocalLauncher, num_processors
from tests.unit.lab.experiments.launching import make_jobs

NUM_CARDS = 4

# A job ends when all of its round of four have begun, so that four must be under way at once.
PRETENDING = r"""
import glob, json, os, sys, time
for line in open(int(sys.argv[-1])):
    folder = json.loads(line)
    number = int(os.path.basename(folder))
    with open(folder + "/card", "a") as file:
        print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid(), file=file)
    open(folder + "/started.json", "w").write("{}")
    end = time.time() + 300
    while len(glob.glob(folder + "/../*/card")) < number // 4 * 4 + 4 and time.time() < end:
        time.sleep(0.01)
    while os.path.exists(folder + "/hold"):
        time.sleep(0.01)
    open(folder + "/summary.json", "w").write("{}")
    os.write(1, b"done\n")
"""


@pytest.fixture(autouse=True)
def four_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: NUM_CARDS)
    monkeypatch.setattr(LocalLauncher, "_command", (sys.executable, "-c", PRETENDING))


def cards_of(job: Job) -> list[str]:
    return [line.split()[0] for line in (job.folder / "card").read_text().splitlines()]


def test_twelve_runs_take_four_cards_at_a_time_and_three_runs_each(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, *map(str, range(12)))
    said: list[str] = []
    launcher = create_launcher("local")
    launcher.say = said.append
    assert {state.status for state in launcher.launch(jobs)} == {"done"}
    # A round can only end if its four runs are under way together.
    rounds = [[card for job in jobs[at : at + 4] for card in cards_of(job)] for at in (0, 4, 8)]
    assert [sorted(cards) for cards in rounds] == [["0", "1", "2", "3"]] * 3
    assert said == ["4 GPUs: 4 runs at a time"]


def test_a_killed_worker_gives_its_card_back(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, *map(str, range(4)))
    for job in jobs:
        (job.folder / "hold").touch()
    killed, lost = list[int](), jobs[2].folder

    def look(states: Sequence[JobState]) -> None:
        lines = (lost / "card").read_text().splitlines() if (lost / "card").exists() else []
        if len(lines) == 1 and not killed and all((job.folder / "card").exists() for job in jobs):
            killed.append(int(lines[0].split()[1]))
            os.kill(killed[0], signal.SIGKILL)
        if len(lines) == 2:  # all others hold their cards until then
            for job in jobs:
                (job.folder / "hold").unlink(missing_ok=True)

    states = create_launcher("local").launch(jobs, look)
    assert [state.status for state in states] == ["done"] * 4
    first, again = cards_of(jobs[2])
    assert first == again
    assert sorted(card for job in jobs for card in cards_of(job)[:1]) == ["0", "1", "2", "3"]


def test_more_workers_than_cards_share_them_in_turns(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, *map(str, range(4)))
    launcher = create_launcher("local", num_workers=6)
    assert [launcher._cards.environment(slot, 1)["CUDA_VISIBLE_DEVICES"] for slot in range(6)] == list("012301")  # type: ignore[attr-defined]
    assert launcher.sharing() == "4 GPUs: 6 runs at a time, which share them"
    assert launcher.num_at_full_speed(12) == 4
    assert {state.status for state in launcher.launch(jobs)} == {"done"}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, ("0", "1", "2", "3")),
        ("", ()),
        ("-1", ()),
        ("2", ("2",)),
        ("3, 1", ("3", "1")),
        ("1,-1,2", ("1",)),
        ("GPU-8f3c,MIG-17aa", ("GPU-8f3c", "MIG-17aa")),
    ],
)
def test_the_cards_that_the_user_left_visible_are_handed_on(
    given: str | None, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    cards = visible_cards()
    assert cards.names == names
    launcher = LocalLauncher()
    assert launcher.num_workers == (len(names) or num_processors())
    seen = [cards.environment(slot, 1).get("CUDA_VISIBLE_DEVICES") for slot in range(len(names))]
    assert seen == list(names)


def test_a_machine_without_cards_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    jobs = make_jobs(tmp_path, "0")
    for number in range(1, 4):
        (tmp_path / f"runs/{number}").mkdir()
        (tmp_path / f"runs/{number}/card").touch()
    said: list[str] = []
    launcher = create_launcher("local")
    launcher.say = said.append
    launcher.launch(jobs)
    assert launcher.num_workers == num_processors()
    assert (cards_of(jobs[0]), said) == (["None"], [])


def test_the_gpu_of_a_mac_is_one_that_nobody_is_handed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    launcher = LocalLauncher()
    assert (launcher.num_workers, launcher.sharing()) == (1, "1 GPU: 1 run at a time")
    assert visible_cards() == Cards(("mps",))
    assert visible_cards().environment(0, 1) == {}


def test_the_worker_notes_its_cards_for_the_table(tmp_path: Path) -> None:
    from maxsup.lab.experiments.execution.launch import read_state

    [job] = make_jobs(tmp_path, "0")
    (job.folder / "started.json").write_text(json.dumps({"process": 1, "gpus": "2,3"}))
    assert read_state(job).gpus == "2,3"


def test_runs_of_two_cards_see_two_each() -> None:
    launcher = LocalLauncher(gpus_per_run=2)
    assert (launcher.num_workers, launcher.sharing()) == (2, "4 GPUs: 2 runs at a time, 2 GPUs each")
    assert launcher.num_at_full_speed(12) == 2
    seen = [visible_cards().environment(slot, 2)["CUDA_VISIBLE_DEVICES"] for slot in range(2)]
    assert seen == ["0,1", "2,3"]


@pytest.mark.parametrize(("num_cards", "has_mps"), [(4, False), (0, True), (0, False)])
def test_more_cards_a_run_than_there_are_are_refused(
    num_cards: int, has_mps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_cards)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: has_mps)
    with pytest.raises(ValueError, match=r"gpus_per_run must be .*; got 5\."):
        create_launcher("local", gpus_per_run=5)


@pytest.mark.parametrize(
    ("settings", "gpus_per_run"),
    [
        ({"num_gpus": 4}, None),
        ({"gpus_per_node": 4}, None),
        ({"gres": "gpu:a100:4"}, None),
        ({"num_gpus": 4}, 2),
        ({}, 0),
    ],
)
def test_slurm_asks_for_no_card_that_a_run_would_not_use(settings: dict[str, Any], gpus_per_run: int | None) -> None:
    pytest.importorskip("submitit")
    with pytest.raises(ValueError, match=r"(num_gpus|gpus_per_run) must be"):
        create_launcher("slurm", cluster="local", gpus_per_run=gpus_per_run, **settings)


def test_gpus_per_run_is_what_slurm_is_asked_for() -> None:
    pytest.importorskip("submitit")
    settings = create_launcher("slurm", cluster="local", partition="gpu", gpus_per_run=4).settings(2)
    assert (settings["gpus_per_node"], settings["cpus_per_task"]) == (4, 12)
    settings = create_launcher("slurm", cluster="local", gpus_per_run=4, gres="gpu:a100:4").settings(0)
    assert ("gpus_per_node" in settings, settings["slurm_gres"]) == (False, "gpu:a100:4")


@pytest.mark.parametrize(
    ("nodes", "asked", "taken", "said"),
    [
        ([2.0, 4.0], {}, 1.0, "6 GPUs in the cluster: each run takes one"),
        ([2.0, 4.0], {"num_gpus": 0}, 0, ""),
        ([2.0, 4.0], {"num_gpus": 0.5}, 0.5, ""),
        ([2.0, 4.0], {"gpus_per_run": 2}, 2, ""),
        ([0.0], {}, 0.0, ""),
    ],
)
def test_a_run_on_ray_takes_one_card_if_nobody_said_otherwise(
    nodes: list[float], asked: dict[str, Any], taken: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    launcher = create_launcher("ray", address="somewhere", **asked)
    needs: list[dict[str, Any]] = []
    alive = [{"Alive": True, "Resources": {"GPU": gpus} if gpus else {}} for gpus in nodes]

    def remote(**options: Any) -> Any:
        needs.append(options)
        return lambda function: SimpleNamespace(remote=lambda *words: "task")

    ray = SimpleNamespace(is_initialized=lambda: True, nodes=lambda: alive, remote=remote)
    monkeypatch.setattr(launcher, "_ray", ray)
    launcher._open(1)
    launcher._submit([Job("a", Path("a"), 1)])
    assert needs[0]["num_gpus"] == taken
    assert launcher.sharing()[: len(said)] == said
    assert bool(launcher.sharing()) == bool(said)
