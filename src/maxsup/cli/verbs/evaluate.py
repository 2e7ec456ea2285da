"""``maxsup eval``: plain numbers of a run on a split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maxsup.cli.options import (
    DataRootOption,
    JsonOption,
    OverrideArguments,
    SplitOption,
    WeightsOption,
    percent,
    show,
    with_data_root,
)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    overrides: OverrideArguments = None,
    split: SplitOption = "test",
    weights: WeightsOption = "last",
    corruptions: Annotated[
        bool, typer.Option("--corruptions", help="Every corruption at every severity of the split too.")
    ] = False,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a run on a split.

    Accuracy, plain NLL, calibration and confidence on errors; mIoU of masks.
    """
    from maxsup.training import evaluate_run

    result = evaluate_run(
        run, split, weights=weights, has_corruptions=corruptions, overrides=with_data_root(overrides, data_root)
    )
    show(result, _lines(result), as_json=as_json)


def _lines(result: dict[str, Any]) -> list[str]:
    lines = [
        f"{result['data']}, {result['split']} split, {result['n']} images, "
        f"{result['weights']} weights of {result['run']}",
        *(_mask_lines(result) if "miou" in result else _label_lines(result)),
    ]
    for name, accuracy in result.get("groups", {}).items():
        lines.append(f"{name + ' shot':<15} {percent(accuracy)}")
    if "corrupted" in result:
        mean = result["corrupted"]
        lines.append(
            f"corrupted       {percent(mean['accuracy'])} accuracy, nll {mean['nll']:.4f}, ece {mean['ece']:.4f} "
            f"(mean of {len(result['corruptions'])} sets)"
        )
    if result["missing"]:
        lines.append(f"missing         {result['missing']} images could not be read")
    return lines


def _label_lines(result: dict[str, Any]) -> list[str]:
    return [
        f"accuracy        {percent(result['accuracy'])} (top 5: {percent(result['accuracy_top5'])})",
        f"nll             {result['nll']:.4f}",
        f"ece             {result['ece']:.4f} (15 bins)",
        f"confidence      {percent(result['confidence_correct'])} where right, "
        f"{percent(result['confidence_wrong'])} where wrong",
    ]


def _mask_lines(result: dict[str, Any]) -> list[str]:
    return [
        f"mIoU            {percent(result['miou'])} (commonest class everywhere: {percent(result['majority_miou'])})",
        f"pixel accuracy  {percent(result['accuracy'])}",
        f"class accuracy  {percent(result['class_accuracy'])}",
        f"nll             {result['nll']:.4f}",
    ]
