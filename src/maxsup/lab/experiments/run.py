"""A run as its folder tells it, and an experiment with the numbers of its runs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from maxsup.lab.core.config import LossConfig, Recipe
from maxsup.lab.core.files.reading import as_written, read_json_lines
from maxsup.lab.core.files.records import AnalysisResult, RunSummary, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.experiment import Experiment
from maxsup.lab.experiments.statistics import PairedComparison, compare_losses
from maxsup.metrics.facts import find_fact


@dataclass(frozen=True)
class Run:
    """A run that was planned; ``results`` are the files that its analyses write, by their names."""

    path: Path
    recipe: Recipe
    results: Mapping[str, Path] = field(default_factory=dict)

    @property
    def loss(self) -> LossConfig:
        """The loss that is trained."""
        return self.recipe.loss

    def number(self, name: str, weights: str = "last") -> float:
        """A number by its source and name, ``test.accuracy``, ``timing.seconds`` or ``collapse.train_within``.

        It is nan if the run or its analysis is missing. Times are means over epochs.
        """
        source, _, key = name.partition(".")
        run, value = RunDir(self.path), None
        if source == "timing":
            with as_written(run.timing):
                seconds = [float(line[key]) for line in read_json_lines(run.timing)]
            return fmean(seconds) if seconds else math.nan
        if source in ("val", "test"):
            if os.path.lexists(run.summary):
                found: dict[str, dict[str, Any] | None] = getattr(read_record(RunSummary, run.summary), source)
                value = (found.get(weights) or {}).get(key)
        elif source in self.results and os.path.lexists(path := self.results[source]):
            value = read_record(AnalysisResult, path).value(key)
        return float(value) if isinstance(value, int | float) else math.nan


@dataclass(frozen=True)
class Result:
    """An experiment and its runs, by arm and seed."""

    experiment: Experiment
    runs: Mapping[tuple[str, int], Run]
    weights: str = "last"

    def numbers(self, arm: str, name: str) -> dict[int, float]:
        """A number of every seed of an arm; nan where a run is missing."""
        runs = {seed: self.runs.get((arm, seed)) for seed in self.experiment.seeds}
        return {seed: math.nan if run is None else run.number(name, self.weights) for seed, run in runs.items()}

    def compare(self, name: str, baseline: str) -> dict[str, PairedComparison]:
        """Every arm against the baseline by any number that its runs have, ``test.accuracy`` for instance."""
        fact = find_fact(name.partition(".")[2])
        values = {arm.name: list(self.numbers(arm.name, name).values()) for arm in self.experiment.arms}
        return compare_losses(values, baseline, direction="none" if fact is None else fact.direction)
