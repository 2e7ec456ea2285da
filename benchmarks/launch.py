"""Many small runs: workers of one thread each, their start included, against one run after another with all threads."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.report import judged, lined_up, spread
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.core.recipes import read_yaml, recipe_path
from maxsup.lab.experiments.execution.launch import Job, create_launcher
from maxsup.lab.experiments.execution.launch_local import num_processors
from maxsup.lab.experiments.execution.worker import JOB
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter

NUM_RUNS = 12
# As in the recipe. With fewer, the import of torch in each worker dominates (3 epochs: a ratio of 1.2).
NUM_EPOCHS = 20
LIMIT = 0.6
ALL_THREADS = "one after another, all threads"
# Without threads that wait for each other, as they do where others use the machine.
ONE_THREAD = "one after another, one thread"
# Each round makes all runs three times, by the clock on the wall: a few rounds take minutes.
MAX_ROUNDS = 3


def recipe(seed: int, threads: int, epochs: int) -> Recipe:
    words = [f"seed={seed}", f"threads={threads}", f"epochs={epochs}"]
    return parse_recipe(read_yaml(recipe_path("digits_cnn")), words)


def one_after_another(folder: Path, num_runs: int, epochs: int, threads: int) -> float:
    """Seconds for all runs in this process, which has imported everything already."""
    begin = time.perf_counter()
    for seed in range(num_runs):
        train(recipe(seed, threads, epochs), folder / str(seed), reporter=Reporter())
    return time.perf_counter() - begin


def launched(folder: Path, num_runs: int, epochs: int) -> float:
    """Seconds for the same runs with the local launcher, from the first process to the last."""
    jobs = []
    for seed in range(num_runs):
        job = Job(str(seed), folder / str(seed), epochs)
        job.folder.mkdir(parents=True)
        content = {"recipe": recipe(seed, 1, epochs).model_dump(mode="json"), "name": "digits_cnn", "analyses": []}
        (job.folder / JOB).write_text(json.dumps(content))
        jobs.append(job)
    begin = time.perf_counter()
    states = create_launcher("local").launch(jobs)
    seconds = time.perf_counter() - begin
    assert all(state.status == "done" for state in states), [state.sentence for state in states]
    return seconds


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of all three, in turn, and the ratio in each round."""
    num_runs, epochs = (4, 1) if is_quick else (NUM_RUNS, NUM_EPOCHS)
    before = torch.get_num_threads()
    times: dict[str, list[float]] = {ALL_THREADS: [], ONE_THREAD: [], "launched": []}
    try:
        with TemporaryDirectory() as scratch:
            # Late imports happen before the clock starts, to the launcher's disadvantage.
            one_after_another(Path(scratch) / "warm", 1, 1, 1)
            for index in range(min(rounds, MAX_ROUNDS)):
                folder = Path(scratch) / str(index)
                for name, threads in ((ALL_THREADS, num_processors()), (ONE_THREAD, 1)):
                    times[name].append(one_after_another(folder / name, num_runs, epochs, threads))
                times["launched"].append(launched(folder / "launched", num_runs, epochs))
    finally:
        torch.set_num_threads(before)
    ratios = {name: _ratio(times["launched"], times[name]) for name in (ALL_THREADS, ONE_THREAD)}
    rows = [[name, f"{min(seconds):.1f}", f"{statistics.median(seconds):.1f}"] for name, seconds in times.items()]
    title = f"{num_runs} runs of digits_cnn, {epochs} epochs, {num_processors()} processors"
    show(f"\n{title}\n{lined_up(['', 'best s', 'median s'], rows)}")
    for name, ratio in ratios.items():
        show(f"launched takes {spread(ratio)} of {name}")
    goal = "time of many runs against one after another with all threads"
    goals = [judged(goal, f"{num_runs} runs", ratios[ALL_THREADS], LIMIT)]
    return {"num_runs": num_runs, "epochs": epochs, "seconds": times, "ratios": ratios, "goals": goals}


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Median over rounds, with the extremes in place of quartiles: there are only a few."""
    ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
    return {"low": min(ratios), "median": statistics.median(ratios), "high": max(ratios)}
