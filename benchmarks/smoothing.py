"""``python -m benchmarks.smoothing``: does the estimate of alpha find what models were really trained with?

Trains the same network with several losses, strengths and seeds, and estimates the strength from the logits of training
and test images: as they are, and under temperatures, where the estimate should refuse to answer or see nothing. Sets
that are not under the data root are left out. Runs that ``--runs`` holds already are not trained again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import surroundings, write_result
from maxsup.core.errors import DataError
from maxsup.diagnosis.smoothing import estimate_alpha
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.training import train

RESULTS = Path(__file__).parent / "results"
# Recipe and changes to it; all of them small enough for a CPU.
SETTINGS: dict[str, tuple[str, list[str]]] = {
    "digits": ("digits_cnn", []),
    "mnist": ("digits_cnn", ["data.name=arrays:mnist.npz", "epochs=3"]),
    "cifar10_quick": ("cifar10_quick", ["epochs=4", "threads=1"]),
}
ARMS = (("ce", None), ("ls", 0.1), ("ls", 0.2), ("maxsup", 0.1), ("maxsup", 0.2))
TEMPERATURES = (2.0, 3.0)
TOLERANCE = 0.03


def main() -> None:
    """Train what is missing, estimate, print a table and keep it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.smoothing", description=__doc__)
    parser.add_argument("--data-root", type=Path, default=Path("data"), help="where mnist.npz and cifar10 are")
    parser.add_argument("--runs", type=Path, default=Path("runs/smoothing"), help="folder of the run directories")
    parser.add_argument("--sets", default=",".join(SETTINGS), help="which sets, with commas")
    parser.add_argument("--seeds", type=int, default=2, help="how many seeds")
    parser.add_argument("--only-finished", action="store_true", help="train nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of smoothing.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name in options.sets.split(","):
        for seed in range(options.seeds):
            for loss, alpha in ARMS:
                try:
                    found = estimates(name, loss, alpha, seed, options)
                except DataError as error:
                    print(f"{name}: {error}")
                    break
                for row in found:
                    print(line(row))
                rows += found
    write_result(options.output, "smoothing", {**surroundings(), "tolerance": TOLERANCE, "rows": rows})
    asked = [row for row in rows if row["temperature"] == 1]
    print(f"{sum(row['is_right'] for row in asked)} of {len(asked)} right (within {TOLERANCE}; none for ce)")


def estimates(
    name: str, loss: str, alpha: float | None, seed: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """One row for each split and temperature."""
    folder = options.runs / f"{name}-{loss}-{alpha or 0}-seed{seed}"
    root = f"data.root={options.data_root.resolve()}"
    if not (folder / "summary.json").is_file():
        if options.only_finished:
            return []
        recipe, changes = SETTINGS[name]
        strength = [] if alpha is None else [f"loss.alpha={alpha}"]
        train(load_recipe(recipe, [*changes, root, f"loss.name={loss}", *strength, f"seed={seed}"]), folder)
    run = RunOutputs(folder, overrides=[root])
    rows = []
    for split in ("train", "test"):
        outputs = run.split(split)
        for temperature in (1.0, *TEMPERATURES):
            if temperature != 1 and loss != "ce":
                continue  # the logits of a smoothed model under a temperature look like another strength
            found = estimate_alpha(outputs.logits / temperature, outputs.labels)
            is_near = abs((found.alpha or 0.0) - (alpha or 0.0)) <= TOLERANCE
            rows.append(
                {"data": name, "loss": loss, "alpha": alpha or 0.0, "seed": seed, "split": split,
                 "temperature": temperature,
                 "accuracy": float((outputs.logits.argmax(dim=1) == outputs.labels).double().mean()),
                 "verdict": found.verdict, "estimate": found.alpha, "low": found.low, "high": found.high,
                 "by_scale": found.by_scale, "by_gap": found.by_gap, "unevenness": found.unevenness,
                 "is_right": found.verdict == ("smoothed" if alpha else "none") and is_near}
            )  # fmt: skip
    return rows


def line(row: dict[str, Any]) -> str:
    estimate = "" if row["estimate"] is None else f"{row['estimate']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
    return (
        f"{row['data']:<14} {row['loss']:<7} {row['alpha']:<4g} seed {row['seed']} {row['split']:<5} "
        f"T={row['temperature']:g} {row['verdict']:<12} {estimate}"
    )


if __name__ == "__main__":
    main()
