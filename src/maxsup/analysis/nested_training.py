"""A training that an analysis needs, in a folder of the run it is about."""

from __future__ import annotations

from pathlib import Path

from maxsup.analysis.outputs import RunOutputs
from maxsup.core.config import Recipe
from maxsup.core.files.rundir import RunDir
from maxsup.training import train
from maxsup.training.progress import Reporter


def trained(run: RunOutputs, plan: Recipe, folder: Path, *, name: str, what: str) -> RunOutputs:
    """The outputs of a training that goes on in ``folder`` after an interruption and is done once.

    ``name`` is what the recipe is called in its summary, ``what`` what is said when it starts.
    """
    if not RunDir(folder).summary.is_file():
        run.progress.say(f"{run.label}: {what} in {folder}")
        train(plan, folder, name=name, reporter=Reporter(run.progress))
    words = [f"data.root={plan.data.root}"] if plan.data.root else []
    return RunOutputs(folder, overrides=words, label=run.label, progress=run.progress)
