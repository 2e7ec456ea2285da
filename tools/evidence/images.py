"""One run on images by ``maxsup train`` and ``maxsup analyze``, and what is kept of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file

from maxsup.lab.analysis import analyze
from maxsup.lab.training import train
from tools.evidence.losses import register_losses
from tools.evidence.measures import Outputs, measure
from tools.evidence.plan import Arm, Pool
from tools.evidence.results import Row, write_result

# cifar10_10k_*: the first 10,000 training images of CIFAR-10, with the published labels or with CIFAR-10N's worst ones;
# validation is the next 2,000 with published labels.
NUM_FITTED, NUM_HELD_OUT = 10_000, 2_000


def train_images(pool_name: str, pool: Pool, arm: Arm, seed: int, root: Path, folder: Path) -> None:
    """Train one arm under one seed and write its result to ``folder``; an interrupted run goes on."""
    register_losses()
    run = folder / "run"
    words = [*pool.overrides, f"data.root={root}", f"seed={seed}", "threads=1"]
    if pool.data is not None:
        words.append(f"data.name=arrays:{_made(pool.data, root)}")
    if pool.lr is not None:
        words.append(f"optimizer.lr={pool.lr * arm.rate:g}")
    assert pool.recipe is not None
    summary = train(pool.recipe, run, overrides=words, loss=arm.loss_config(pool.num_classes))
    collapse = analyze(run, ["collapse"], with_figures=False, options={"collapse": {"num_resamples": 2}})
    numbers: dict[str, Any] = next(iter(collapse.results["collapse"].values()))["numbers"]
    splits = {}
    for split in ("val", "test"):
        files = list((run / "outputs").glob(f"*-{split}-last.safetensors"))
        if not files:  # long-tailed sets hold nothing out
            continue
        splits[split] = load_file(files[0])
    val = splits.get("val", splits["test"])
    found, record = measure(Outputs(val["logits"], val["labels"], splits["test"]["logits"], splits["test"]["labels"]))
    for name in ("within", "r_squared", "nc1", "accuracy"):
        for split in ("train", "test"):
            found[f"{split}_{name}"] = _value(numbers[f"{split}_{name}"])
    curve = [_val_accuracy(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    timing = [json.loads(line)["cpu_seconds"] for line in (run / "timing.jsonl").read_text().splitlines()]
    kept = {f"{split}_{name}": part[name].numpy() for split, part in splits.items() for name in ("logits", "labels")}
    np.savez(folder / "outputs.npz", **kept)
    row = Row(pool_name, arm.name, seed, found | {"cpu_seconds": sum(timing)}, curve, head=None)
    write_result(folder, [row], [record])
    assert summary["epochs"] == len(curve)
    for name in ("checkpoints", "outputs"):
        shutil.rmtree(run / name)


def _value(number: Any) -> float:
    return float(number["value"] if isinstance(number, dict) else number)


def _val_accuracy(line: str) -> float:
    val = json.loads(line)["val"]
    return float("nan") if val is None else float(val["accuracy"])


def _made(name: str, root: Path) -> Path:
    """A data set that is made of CIFAR-10, written once."""
    path = root / f"{name}.npz"
    if not path.exists():
        stored = np.load(root / "cifar10.npz")
        labels = stored["train_noisy_labels" if name.endswith("noisy") else "train_labels"]
        fitted, held_out = slice(NUM_FITTED), slice(NUM_FITTED, NUM_FITTED + NUM_HELD_OUT)
        parts: dict[str, NDArray[Any]] = {
            "train_images": stored["train_images"][fitted],
            "train_labels": labels[fitted],
            "val_images": stored["train_images"][held_out],
            "val_labels": stored["train_labels"][held_out],
            **{key: stored[key] for key in ("test_images", "test_labels", "class_names")},
        }
        temporary = path.with_suffix(".tmp.npz")
        np.savez(temporary, **parts)
        temporary.rename(path)
    return path
