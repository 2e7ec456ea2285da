"""A design: experiments, the table that shows their numbers, and what a page says about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from maxsup.lab.core.config import Recipe, Section
from maxsup.lab.experiments.experiment import Analysis, Experiment, Name
from maxsup.lab.experiments.table import Cell, Table


class Choice(Section):
    """Something that is left open, by the paper or by the call, and what is done here."""

    what: str
    choice: str


@dataclass(frozen=True)
class PlannedRun:
    """A run that a design needs, and the cells that show its numbers; runs of a ``pool`` serve several studies."""

    recipe: Recipe
    arm: str
    seed: int
    cells: tuple[Cell, ...] = ()
    pool: str = ""


class Design(Section):
    """What a folder holds: the experiments of a comparison, of a study at one scale, of tuning, or finished runs."""

    name: Name
    kind: Literal["comparison", "study", "tuning", "runs"]
    title: str = ""
    label: str = ""
    question: str = ""
    scale: str = ""
    note: str = ""
    stated: tuple[str, ...] = ()
    unstated: tuple[Choice, ...] = ()
    errata: tuple[str, ...] = ()
    weights: Literal["last", "best"] = "last"
    experiments: tuple[Experiment, ...]
    table: Table = Table()
    missing: tuple[str, ...] = ()  # sentences about analyses that are left out for lack of data

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of all experiments."""
        return tuple(dict.fromkeys(seed for experiment in self.experiments for seed in experiment.seeds))

    @property
    def analyses(self) -> list[Analysis]:
        """The analyses of all experiments."""
        found: list[Analysis] = []
        for experiment in self.experiments:
            found += [analysis for analysis in experiment.analyses if analysis not in found]
        return found

    def runs(self) -> list[PlannedRun]:
        """The runs of all experiments, seed by seed; experiments with the same recipe share one run."""
        cells: dict[tuple[int, str], list[Cell]] = {}
        for cell in self.table.cells():
            if (place := self.table.place(cell)) is not None:
                cells.setdefault((place.experiment, place.arm), []).append(cell)
        runs: dict[str, PlannedRun] = {}
        expanded = [experiment.runs() for experiment in self.experiments]
        for seed in self.seeds:
            for index, experiment in enumerate(self.experiments):
                for run in (run for run in expanded[index] if run.seed == seed):
                    new = PlannedRun(run.recipe, run.arm, seed, pool=experiment.setting.pool or "")
                    same = runs.setdefault(run.recipe.model_dump_json(), new)
                    shown = (*same.cells, *cells.get((index, run.arm), ()))
                    runs[run.recipe.model_dump_json()] = replace(same, cells=shown)
        return list(runs.values())
