"""Gather finished tasks into the files that are committed: ``python -m tools.evidence.collect --output DIR``.

Runs that are already there stay as they are, so machines can take turns.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.evidence.claims import load_claims
from tools.evidence.plan import load_plan, tasks
from tools.evidence.results import is_done, read_result
from tools.evidence.store import RESULTS, add_runs


def collect(output: Path, results: Path) -> int:
    """Add what is finished under ``output`` to ``results``; says how many runs are new."""
    plan = load_plan()
    rows, records = [], []
    for task in tasks(plan):
        if is_done(output / task.name):
            task_rows, task_records = read_result(output / task.name)
            rows += task_rows
            records += task_records
    return add_runs(plan, load_claims(plan).values(), rows, records, results)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    print(f"{collect(given.output, given.results)} runs are new in {given.results}.")


if __name__ == "__main__":
    main()
