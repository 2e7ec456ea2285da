"""Collect runs into ``docs/evidence/results``, and write the pages of the first edition from them.

python -m tools.evidence.first collect studies/runs [--output DIR] [--keep]
python -m tools.evidence.first report [docs/evidence]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.evidence.first.claims import RESULTS, claim_entries, pool_entries, sweep_entries
from tools.evidence.first.pages import difference_text, write_evidence
from tools.evidence.first.pools import collect, strength_entries
from tools.evidence.first.prose import prose_entries

EVIDENCE = Path("docs/evidence")


def report(folder: Path) -> None:
    """Judge the claims of a folder again, and write its pages and figures."""
    claims = claim_entries(folder)
    written = write_evidence(
        folder,
        claims,
        sweeps=sweep_entries(folder),
        pools=pool_entries(folder),
        strengths=strength_entries(folder / RESULTS),
        texts=prose_entries(folder, claims),
    )
    for claim in claims:
        print(f"{claim['name']}: {claim['word']}, {claim['reason']} ({difference_text(claim)})")
    print(*written, sep="\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.evidence.first", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    collecting = verbs.add_parser("collect", help="write the numbers of every finished run of a pool as CSV")
    collecting.add_argument("runs", type=Path, help="the folder of runs that studies share: studies/runs")
    collecting.add_argument("--output", type=Path, default=EVIDENCE / RESULTS)
    collecting.add_argument("--keep", action="store_true", help="keep lines of losses and seeds that have no run here")
    reporting = verbs.add_parser("report", help="judge the claims and write their pages")
    reporting.add_argument("folder", type=Path, nargs="?", default=EVIDENCE)
    given = parser.parse_args()
    if given.verb == "collect":
        for pool, count in collect(given.runs, given.output, keep=given.keep).items():
            print(f"{given.output / pool}.csv: {count} run{'' if count == 1 else 's'}")
    else:
        report(given.folder)


if __name__ == "__main__":
    main()
