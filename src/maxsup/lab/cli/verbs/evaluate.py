"""``maxsup eval``: plain numbers of a run on a split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from maxsup.lab.cli.options import (
    DataRootOption,
    JsonOption,
    OverrideArguments,
    SplitOption,
    WeightsOption,
    with_data_root,
)
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import argument


def evaluate(
    run: Annotated[Path, argument("RUN", "A run directory.")],
    overrides: OverrideArguments = None,
    split: SplitOption = "test",
    weights: WeightsOption = "last",
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a run on a split.

    Accuracy, plain NLL, calibration and confidence on errors; mIoU of masks.
    """
    from maxsup.lab.training import evaluate_run

    result = evaluate_run(run, split, weights=weights, overrides=with_data_root(overrides, data_root))
    show(result, _lines(result), as_json=as_json)


def _lines(result: dict[str, Any]) -> list[str]:
    from maxsup.lab.tasks import task_of_numbers

    rows = task_of_numbers(result).describe(result)
    if result["missing"]:
        rows["missing"] = f"{result['missing']} images could not be read"
    what = f"{result['data']}, {result['split']} split, {result['n']} images, {result['weights']} weights"
    return [f"{what} of {result['run']}", *(f"{name:<15} {text}" for name, text in rows.items())]
