"""Folders of comparisons made by hand: a summary, and run directories with what training and analyses would leave."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import yaml

from maxsup.core.config import parse_recipe
from maxsup.figures.gallery import encoded

LOSSES = ("ce", "ls", "maxsup")
SEEDS = (0, 1, 2, 3, 4, 5)
METRICS = (
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
    titles = titles or arms
    runs = []
    for place, arm in enumerate(arms):
        loss = LOSSES[place % len(LOSSES)]
        for seed in seeds:
            folder = f"runs/{loss}{place}-s{seed}"
            is_failed = (arm, seed) in failed
            if is_failed:
                (path / folder).mkdir(parents=True)
                (path / folder / "worker.log").write_text("epoch 1\nthe end of <b>this</b> log\n")
            else:
                make_run(path / folder, loss, place, seed, class_names, has_analyses=has_analyses)
            named = run_names[len(runs)] if run_names else folder
            runs.append(
                {
                    "folder": named,
                    "arm": arm,
                    "loss": loss,
                    "seed": seed,
                    "status": "failed" if is_failed else "done",
                    "sentence": "loss must be finite; got nan. Lower optimizer.lr." if is_failed else "",
                    "log": f"{folder}/worker.log" if is_failed else None,
                }
            )
    summary = make_summary(arms, titles, seeds, failed, runs, scale=scale, published=published)
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def make_summary(
    arms: Sequence[str],
    titles: Sequence[str],
    seeds: Sequence[int],
    failed: Sequence[tuple[str, int]],
    runs: list[dict[str, Any]],
    *,
    scale: str,
    published: bool,
) -> dict[str, Any]:
    cells: dict[str, dict[str, Any]] = {}
    losses = []
    for place, (arm, title) in enumerate(zip(arms, titles, strict=True)):
        metrics = {}
        for metric in METRICS:
            name, factor, digits = str(metric["name"]), float(metric["factor"]), int(metric["digits"])  # type: ignore[arg-type]
            values = {str(s): None if (arm, s) in failed else value(place, s, name) for s in seeds}
            found = [number for number in values.values() if number is not None]
            pairs = [values[str(s)] - value(1, s, name) for s in seeds if values[str(s)] is not None]  # type: ignore[operator]
            mean = fmean(found) if found else None
            std = stdev(found) if len(found) > 1 else None
            text = "-" if mean is None else f"{mean * factor:.{digits}f}"
            text += f" ± {std * factor:.{digits}f}" if std is not None else ""
            is_baseline = place == 1
            has_pairs = not is_baseline and bool(pairs)
            difference = fmean(pairs) if has_pairs else None
            low, high = (min(pairs), max(pairs)) if has_pairs else (None, None)
            is_conclusive = has_pairs and len(pairs) >= 6 and (min(pairs) > 0 or max(pairs) < 0)
            is_better = has_pairs and (difference > 0) == (metric["direction"] == "higher")  # type: ignore[operator]
            comparison = {
                "mean_difference": difference,
                "low": low,
                "high": high,
                "p_value": 0.03125,
                "adjusted_p": 0.0625,
                "num_pairs": len(pairs),
            }
            printed = "" if difference is None else f"{difference * factor:+.{digits}f}"
            cells.setdefault(arm, {})[name] = {
                "text": text,
                "mean": mean,
                "std": std,
                "values": values,
                "is_bold": is_conclusive,
                "is_baseline": is_baseline,
                "left_out": "",
                "comparison": comparison if has_pairs else None,
                "difference_text": printed,
                "published": {"text": "76.41 ± 0.10", "mean": 76.41, "std": 0.1, "label": "tab:some"}
                if published and name == "accuracy"
                else None,
            }
            metrics[name] = {
                "mean": mean,
                "std": std,
                "values": values,
                "difference": difference,
                "low": low,
                "high": high,
                "p": 0.03125 if has_pairs else None,
                "adjusted_p": 0.0625 if has_pairs else None,
                "is_conclusive": is_conclusive,
                "is_better": is_better,
            }
        losses.append({"loss": arm, "title": title, "group": "", "is_baseline": place == 1, "metrics": metrics})
    return {
        "protocol": 1,
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
        "baseline": arms[1],
        "seeds": list(seeds),
        "environment": {"torch": "2.9", "maxsup": "0.1.0", "python": "3.11", "device": "cpu"},
        "runs": runs,
        "metrics": [dict(metric) for metric in METRICS],
        "losses": losses,
        "table": {
            "corner": "",
            "columns": [{"name": m["name"], "title": m["title"], "group": ""} for m in METRICS],
            "rows": [{"name": a, "title": t, "group": ""} for a, t in zip(arms, titles, strict=True)],
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
        for name, result in make_results(loss, seed, class_names).items():
            (path / "analysis").mkdir(exist_ok=True)
            facts = {"label": loss, "loss": loss, "dataset": "digits", "seed": seed, "split": "test", "weights": "last"}
            (path / "analysis" / f"{name}-test.json").write_text(json.dumps({"facts": facts, "numbers": {}, **result}))


def make_results(loss: str, seed: int, class_names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What analyses would say, small and made up."""
    shift = 0.1 * LOSSES.index(loss) + 0.01 * seed
    edges = [step / 5 for step in range(6)]
    image = encoded(np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5)
    heat = encoded((np.arange(16, dtype=np.uint8) * 16).reshape(4, 4, 1))
    cumulative = [step / 20 for step in range(21)]
    points = [[[x + shift, y + group] for x, y in ((0.0, 0.1), (0.2, 0.0), (0.1, 0.3))] for group in range(3)]
    return {
        "calibration": {
            "data": {
                "reliability": {
                    "edges": edges,
                    "count": [0, 5, 10, 20, 65],
                    "accuracy": [0.0, 0.3, 0.5, 0.7, 0.95],
                    "confidence": [0.1, 0.3, 0.5, 0.7, 0.9],
                },
                "risk_coverage": {"coverage": [0.5, 0.8, 1.0], "risk": [0.0, 0.02, 0.1 - shift / 10]},
            }
        },
        "logits": {
            "numbers": {"confidence_right": {"value": 0.9}, "confidence_wrong": {"value": 0.6}},
            "data": {
                "raw": {"edges": edges, "density": [0.5, 1, 2, 1, 0.5]},
                "centred": {"edges": edges, "density": [0.5, 1, 2, 1, 0.5]},
                "confidence_right": cumulative,
                "confidence_wrong": cumulative,
            },
        },
        "collapse": {
            "numbers": {
                f"{split}_{key}": {"value": 0.3 + shift}
                for split in ("train", "test")
                for key in ("within", "r_squared")
            },
            "data": {},
        },
        "projection": {
            "data": {
                "classes": list(class_names[:3]),
                "basis": "templates",
                "corners": [[0, 0], [1, 0], [0, 1]],
                "points": {"train": points, "test": points},
            }
        },
        "gradcam": {
            "data": {
                "target": "label",
                "indices": list(range(4)),
                "cells": [
                    {"image": image, "map": heat, "label": name, "predicted": class_names[0]}
                    for name in class_names[:4]
                ],
            }
        },
        "corruption": {
            "data": {
                "cells": [
                    {"corruption": kind, "severity": level, "error": 0.1 * level + shift, "nll": 0.5, "ece": 0.1}
                    for kind in ("fog", "shot_noise")
                    for level in (1, 3, 5)
                ]
            }
        },
    }
