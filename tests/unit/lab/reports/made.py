"""Folders of comparisons made by hand: a summary, and run directories with what training and analyses would leave."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import yaml

from maxsup.lab.core.config import parse_recipe
from maxsup.lab.figures.gallery import encoded

LOSSES = ("ce", "ls", "maxsup")
SEEDS = (0, 1, 2, 3, 4, 5)
METRICS: Sequence[dict[str, Any]] = (
    {"name": "accuracy", "title": "accuracy", "unit": "%", "direction": "higher", "digits": 2, "factor": 100},
    {"name": "nll", "title": "NLL", "unit": "", "direction": "lower", "digits": 3, "factor": 1},
)
HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</style><script>alert(1)</script>",
    "\"><svg onload=document.title='owned'>",
    "javascript:alert(1)",
    "{{ 7 * 7 }} {% raw %}",
    "&lt;b&gt; & ]]> <!--",
    '=HYPERLINK("http://example.invalid")',
    "$\\frac{1}{$ 50% _x_ ^y~ {z} \\",
    "| a | **b** | `c` [d](http://example.invalid)",
    "\u202egnp.exe \u0000\u0007\x1b[31m \ud800",
    "line one\nline two",
    "表 é 😀 ‮",
    "x" * 300,
    "../../../etc/passwd",
)


def hostile_names(count: int) -> list[str]:
    """So many different names that try to be more than text."""
    return [f"{HOSTILE[place % len(HOSTILE)]} {place}" for place in range(count)]


def value(loss: int, seed: int, metric: str) -> float:
    """A number of a run, different for all of them."""
    wobble = 0.004 * math.sin(3 * seed + loss)
    return 0.9 + 0.01 * loss + wobble if metric == "accuracy" else 0.4 - 0.05 * loss + wobble


def make_folder(
    path: Path,
    *,
    arms: Sequence[str] = LOSSES,
    seeds: Sequence[int] = SEEDS,
    failed: Sequence[tuple[str, int]] = (),
    class_names: Sequence[str] = ("cat", "dog", "owl", "yak"),
    has_analyses: bool = True,
    scale: str = "",
    titles: Sequence[str] | None = None,
    run_names: Sequence[str] | None = None,
    published: bool = False,
) -> Path:
    """A folder with runs for every arm and seed; the second arm is the baseline."""
    runs = []
    for place, arm in enumerate(arms):
        loss = LOSSES[place % len(LOSSES)]
        for seed in seeds:
            folder = f"runs/{loss}{place}-s{seed}"
            run = {"folder": run_names[len(runs)] if run_names else folder, "arm": arm, "loss": loss, "seed": seed}
            if (arm, seed) in failed:
                (path / folder).mkdir(parents=True)
                (path / folder / "worker.log").write_text("epoch 1\nthe end of <b>this</b> log\n")
                sentence = "loss must be finite; got nan. Lower optimizer.lr."
                runs.append(run | {"status": "failed", "sentence": sentence, "log": f"{folder}/worker.log"})
            else:
                make_run(path / folder, loss, place, seed, class_names, has_analyses=has_analyses)
                runs.append(run | {"status": "done"})
    named = dict(zip(arms, titles or arms, strict=True))
    summary = make_summary(named, seeds, failed, scale=scale, published=published) | {"runs": runs}
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def make_summary(
    titles: Mapping[str, str],
    seeds: Sequence[int],
    failed: Sequence[tuple[str, int]],
    *,
    scale: str,
    published: bool,
) -> dict[str, Any]:
    cells: dict[str, dict[str, Any]] = {}
    losses = []
    for place, (arm, title) in enumerate(titles.items()):
        is_baseline, metrics = place == 1, {}
        for metric in METRICS:
            name, factor, digits = metric["name"], metric["factor"], metric["digits"]
            values = {seed: value(place, seed, name) for seed in seeds if (arm, seed) not in failed}
            pairs = [] if is_baseline else [found - value(1, seed, name) for seed, found in values.items()]
            mean = fmean(values.values()) if values else None
            std = stdev(values.values()) if len(values) > 1 else None
            difference, low, high = (fmean(pairs), min(pairs), max(pairs)) if pairs else (None, None, None)
            is_conclusive = len(pairs) >= 6 and (min(pairs) > 0 or max(pairs) < 0)
            ends = {"low": low, "high": high, "adjusted_p": 0.0625 if pairs else None}
            numbers = {"mean": mean, "std": std, "values": {str(seed): values.get(seed) for seed in seeds}}
            text = "-" if mean is None else f"{mean * factor:.{digits}f}"
            printed = {"text": "76.41 ± 0.10", "mean": 76.41, "std": 0.1, "label": "tab:some"}
            cells.setdefault(arm, {})[name] = numbers | {
                "text": text if std is None else f"{text} ± {std * factor:.{digits}f}",
                "is_bold": is_conclusive,
                "is_baseline": is_baseline,
                "comparison": {"difference": difference, "p": 0.03125, **ends, "num_pairs": len(pairs)}
                if pairs
                else None,
                "difference_text": "" if difference is None else f"{difference * factor:+.{digits}f}",
                "published": printed if published and name == "accuracy" else None,
            }
            metrics[name] = (
                numbers
                | ends
                | {
                    "difference": difference,
                    "p": 0.03125 if pairs else None,
                    "is_conclusive": is_conclusive,
                    "is_better": difference is not None and (difference > 0) == (metric["direction"] == "higher"),
                }
            )
        losses.append({"loss": arm, "title": title, "is_baseline": is_baseline, "metrics": metrics})
    return {
        "kind": "study" if scale else "comparison",
        "name": "made",
        "title": "Losses on made-up data",
        "label": "tab:some" if scale else "",
        "question": "Which of these is better?",
        "scale": scale,
        "note": "Four epochs of nothing.",
        "stated": ["200 epochs."] if scale else [],
        "unstated": [{"what": "Learning rate", "choice": "0.1"}],
        "errata": ["no_spread"] if scale else [],
        "baseline": list(titles)[1],
        "seeds": list(seeds),
        "environment": {"torch": "2.9", "maxsup": "0.1.0", "python": "3.11", "device": "cpu"},
        "metrics": METRICS,
        "losses": losses,
        "table": {
            "columns": [{"name": metric["name"], "title": metric["title"]} for metric in METRICS],
            "rows": [{"name": arm, "title": title} for arm, title in titles.items()],
            "cells": cells,
        },
        "verdicts": [{"title": "accuracy", "sentences": ["All of them are better than nothing."]}],
        "bold_rule": "Bold: as the rule says.",
    }


def make_run(
    path: Path, loss: str, place: int, seed: int, class_names: Sequence[str], *, has_analyses: bool = True
) -> None:
    """A run directory as training and analyses leave it, without weights."""
    path.mkdir(parents=True)
    values = {"model": {"name": "small_cnn"}, "loss": {"name": loss, "alpha": (place + 1) / 10}, "seed": seed}
    (path / "config.yaml").write_text(yaml.safe_dump(parse_recipe(values).model_dump(mode="json")))
    lines = [
        {
            "epoch": epoch,
            "alpha": None if loss == "ce" else 0.1 * (place + 1),
            "train": {"loss": 2.0 / (epoch + 1)},
            "val": {"accuracy": 0.5 + 0.1 * epoch, "nll": 1.0 / (epoch + 1)},
            "decomposition": {"regularization": 0.5 * epoch, "error_amplification": -0.1 / (epoch + 1)},
        }
        for epoch in range(4)
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    numbers = {"accuracy": value(place, seed, "accuracy"), "nll": value(place, seed, "nll"), "ece": 0.05}
    (path / "summary.json").write_text(json.dumps({"test": {"last": numbers}, "seconds": 1.5}))
    if has_analyses:
        (path / "analysis").mkdir()
        facts = {"label": loss, "loss": loss, "dataset": "digits", "seed": seed, "split": "test", "weights": "last"}
        for name, result in make_results(loss, seed, class_names).items():
            (path / "analysis" / f"{name}-test.json").write_text(json.dumps({"facts": facts, "numbers": {}, **result}))


def make_results(loss: str, seed: int, class_names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What analyses would say, small and made up."""
    shift = 0.1 * LOSSES.index(loss) + 0.01 * seed
    edges = [step / 5 for step in range(6)]
    image = encoded(np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5)
    heat = encoded((np.arange(16, dtype=np.uint8) * 16).reshape(4, 4, 1))
    density = {"edges": edges, "density": [0.5, 1, 2, 1, 0.5]}
    cumulative = [step / 20 for step in range(21)]
    points = [[[x + shift, y + group] for x, y in ((0.0, 0.1), (0.2, 0.0), (0.1, 0.3))] for group in range(3)]
    reliability = {
        "edges": edges,
        "count": [0, 5, 10, 20, 65],
        "accuracy": [0.0, 0.3, 0.5, 0.7, 0.95],
        "confidence": [0.1, 0.3, 0.5, 0.7, 0.9],
    }
    risk = {"coverage": [0.5, 0.8, 1.0], "risk": [0.0, 0.02, 0.1 - shift / 10]}
    within = [f"{split}_{key}" for split in ("train", "test") for key in ("within", "r_squared")]
    gallery = [{"image": image, "map": heat, "label": name, "predicted": class_names[0]} for name in class_names[:4]]
    damage = [
        {"corruption": kind, "severity": level, "error": 0.1 * level + shift, "nll": 0.5, "ece": 0.1}
        for kind in ("fog", "shot_noise")
        for level in (1, 3, 5)
    ]
    planes = {"classes": list(class_names[:3]), "basis": "templates", "points": {"train": points, "test": points}}
    return {
        "calibration": {"data": {"reliability": reliability, "risk_coverage": risk}},
        "logits": {
            "numbers": {"confidence_correct": {"value": 0.9}, "confidence_wrong": {"value": 0.6}},
            "data": {"raw": density, "centred": density}
            | {"confidence_correct": cumulative, "confidence_wrong": cumulative},
        },
        "collapse": {"numbers": {name: {"value": 0.3 + shift} for name in within}, "data": {}},
        "projection": {"data": planes},
        "gradcam": {"data": {"target": "label", "indices": list(range(4)), "cells": gallery}},
        "corruption": {"data": {"cells": damage}},
    }
