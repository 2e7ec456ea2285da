"""Write the pages of the second edition from the collected runs: ``python -m tools.evidence.pages``.

``README.md`` has every claim with its verdict, or with how many of its seeds are there; ``pools.md`` describes the
pools of which all runs are there.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from tools.evidence.claims import Contrast, load_claims
from tools.evidence.contrasts import value
from tools.evidence.judge import Collected, Estimate, Judgement, estimate, judge
from tools.evidence.plan import SECOND, Plan, Run, blocks, load_plan
from tools.evidence.store import RESULTS, done_runs

EXPERIMENTS = {
    "A": "Networks that are trained for a short time",
    "B": "Networks that fit their labels",
    "C": "Heads on frozen features",
    "D": "Translation",
    "E": "What the first edition left out",
}
CONTRASTS = {
    "strength": "at equal strength",
    "confidence": "at equal confidence",
    "rate": "at its own learning rate",
    "slope": "slope over training errors",
    "intercept": "at no training errors",
    "arms": "{claim} minus {than}",
}
NAMES = {
    "accuracy": "accuracy, %",
    "gap": "gap of confidence",
    "confidence_wrong": "confidence on errors",
    "nll_after": "NLL after a temperature",
    "ece_after": "ECE after a temperature",
    "bleu": "BLEU",
    "chrf": "chrF",
}
FACTORS = {"accuracy": 100.0}

HEADING = """# Evidence, second edition

Does MaxSup do anything that another strength of label smoothing, a larger learning rate or a temperature would not
do? What is run, what is compared and what counts as an answer was written down first: [protocol.md](protocol.md),
[experiments.yaml](experiments.yaml), [claims.yaml](claims.yaml). The [first edition](../README.md) stays as it is.

```
python -m tools.evidence.run --data DIR --output OUT     # runs what is missing
python -m tools.evidence.collect --output OUT            # adds what is finished to results/
python -m tools.evidence.pages                           # judges the claims and writes this page and pools.md
```

`results/POOL.csv` has a line for each run, and the folder `results/POOL` what is kept of every test image, which the
intervals need; probabilities have 64 levels there, because they give the variance over images and no number itself.
A claim is judged when all of its seeds are there. Differences have 95 % intervals over seeds and test images; p is
after Holm's correction within the experiment.
"""

POOLS_HEADING = """# Pools of the second edition

Means over seeds, and behind accuracy the difference to cross-entropy in points with its 95 % interval over seeds and
test images. For heads the difference is MaxSup minus label smoothing, both with alpha 0.1. Nothing here is a verdict,
and a pool is described when all of its runs are there.
"""


def front_page(plan: Plan, judgements: Mapping[str, Judgement], done: set[Run]) -> str:
    """Runs that are there by experiment, and the table of claims of each."""
    parts = [HEADING, "## Runs\n", _table(("experiment", "pools", "runs that are there"), _counts(plan, done))]
    by_family = sorted(judgements.items(), key=lambda item: item[1].claim.family)
    for family, own in groupby(by_family, key=lambda item: item[1].claim.family):
        lines = [
            (f"`{name}` {found.claim.says}", _contrast(found.claim), _difference(found), _p(found), _word(found))
            for name, found in own
        ]
        parts += [
            f"## {family}. {EXPERIMENTS[family]}\n",
            _table(("claim", "compared", "difference", "p", "verdict"), lines),
        ]
    return "\n".join([*parts, "Means of every arm are in [pools.md](pools.md).\n"])


def pools_page(plan: Plan, done: set[Run], folder: Path) -> str:
    """Means of every arm of the pools that are complete, and accuracy minus that of cross-entropy with its interval."""
    parts = [POOLS_HEADING]
    for pool in plan.pools:
        runs = _planned(plan, pool)
        if not runs:
            continue
        parts.append(f"## {pool}\n")
        if missing := len(runs - done):
            parts.append(f"{len(runs) - missing:,} of {len(runs):,} runs are there.\n")
        else:
            collected = Collected(plan, [pool], folder)
            is_heads = plan.pools[pool].kind == "heads"
            parts.append(_heads_table(pool, collected) if is_heads else _arms_table(pool, collected))
    return "\n".join(parts)


def _arms_table(pool: str, collected: Collected) -> str:
    first = next(iter(collected.rows.values()))
    names = [name for name in NAMES if name in first.numbers]
    lines = []
    for arm in collected.plan.pool_arms(pool):
        seeds = sorted(collected.plan.seeds(pool, arm.name))
        cells = [_number(_mean(collected, [Run(pool, None, arm.name, s) for s in seeds], name), name) for name in names]
        if arm.name != "ce":
            contrast = Contrast(
                pools=(pool,), contrast="arms", number="accuracy", factor=100, claim=arm.name, than="ce"
            )
            cells[0] += f" ({_interval(estimate(contrast, collected, seeds))})"
        lines.append((arm.name, str(len(seeds)), *cells))
    return _table(("arm", "seeds", *(NAMES[name] for name in names)), lines)


def _heads_table(pool: str, collected: Collected) -> str:
    lines = []
    for head in collected.plan.heads:
        cells = []
        for arm in ("ce", "ls alpha=0.1", "maxsup alpha=0.1"):
            runs = [Run(pool, head.name, arm, seed) for seed in sorted(collected.plan.seeds(pool, arm))]
            cells.append(_number(_mean(collected, runs, "accuracy"), "accuracy"))
            if arm.startswith("ls"):
                errors = f"{100 - 100 * _mean(collected, runs, 'train_accuracy'):.1f}"
        contrast = Contrast(pools=(pool,), heads=(head.name,), contrast="strength", number="accuracy", factor=100)
        found = estimate(contrast, collected, sorted(collected.plan.seeds(pool, contrast.claim)))
        lines.append((head.name, errors, *cells, _interval(found)))
    columns = ("head", "training errors of LS, %", "CE, %", "LS, %", "MaxSup, %", "MaxSup minus LS, points")
    return _table(columns, lines)


def _mean(collected: Collected, runs: Sequence[Run], name: str) -> float:
    return float(np.mean([value(collected.rows[run], name) for run in runs]))


def _planned(plan: Plan, pool: str) -> set[Run]:
    return {run for block in blocks(plan) if block.pool == pool for run in block.runs}


def _counts(plan: Plan, done: set[Run]) -> Iterable[tuple[str, ...]]:
    for letter, title in EXPERIMENTS.items():
        pools = [name for name, pool in plan.pools.items() if pool.experiment == letter]
        runs = {run for name in pools for run in _planned(plan, name)}
        if runs:
            yield (
                f"{letter}. {title}",
                ", ".join(f"`{name}`" for name in pools),
                f"{len(runs & done):,} of {len(runs):,}",
            )


def _contrast(contrast: Contrast) -> str:
    words = CONTRASTS[contrast.contrast].format(claim=contrast.claim, than=contrast.than)
    return f"`{contrast.number}` {words}"


def _difference(found: Judgement) -> str:
    if found.estimate is None:
        return ""
    return f"{_interval(found.estimate, digits=2 if found.claim.unit else 4)} {found.claim.unit}".strip()


def _interval(found: Estimate, digits: int = 2) -> str:
    low, high = found.interval
    return f"{found.mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def _p(found: Judgement) -> str:
    return "" if found.holm is None else f"{found.holm:.2g}"


def _word(found: Judgement) -> str:
    if not found.is_complete:
        return f"{found.num_there} of {found.num_planned} seeds are there"
    return f"**{found.verdict}**"


def _number(number: float, name: str) -> str:
    return f"{FACTORS.get(name, 1.0) * number:.{2 if name in ('accuracy', 'bleu', 'chrf') else 4}f}"


def _table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [columns, ["---"] * len(columns), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_pages(results: Path, target: Path) -> None:
    """Write both pages to ``target``."""
    plan = load_plan()
    done = done_runs(plan, results)
    (target / "README.md").write_text(front_page(plan, judge(load_claims(plan), plan, results), done))
    (target / "pools.md").write_text(pools_page(plan, done, results))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--target", type=Path, default=SECOND)
    given = parser.parse_args()
    write_pages(given.results, given.target)


if __name__ == "__main__":
    main()
