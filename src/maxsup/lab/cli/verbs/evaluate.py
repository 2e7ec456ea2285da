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
from maxsup.lab.cli.printing import miou_text, percent, show
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
    accuracy, nll = percent(result["accuracy"]), f"{result['nll']:.4f}"
    if "miou" in result:
        rows = {
            "mIoU": miou_text(result),
            "pixel accuracy": accuracy,
            "class accuracy": percent(result["class_accuracy"]),
            "nll": nll,
        }
    else:
        right, wrong = percent(result["confidence_correct"]), percent(result["confidence_wrong"])
        rows = {
            "accuracy": f"{accuracy} (top 5: {percent(result['accuracy_top5'])})",
            "nll": nll,
            "ece": f"{result['ece']:.4f} (15 bins)",
            "confidence": f"{right} where right, {wrong} where wrong",
        }
    rows |= {f"{name} shot": percent(share) for name, share in result.get("groups", {}).items()}
    if result["missing"]:
        rows["missing"] = f"{result['missing']} images could not be read"
    what = f"{result['data']}, {result['split']} split, {result['n']} images, {result['weights']} weights"
    return [f"{what} of {result['run']}", *(f"{name:<15} {text}" for name, text in rows.items())]
