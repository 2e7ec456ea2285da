"""Pages say what was found where all runs are there, and elsewhere how many are."""

import numpy as np

from tools.evidence.claims import load_claims
from tools.evidence.measures import ImageRecord
from tools.evidence.pages import write_pages
from tools.evidence.plan import blocks, load_plan
from tools.evidence.results import Row
from tools.evidence.store import add_runs

PLAN = load_plan()
NUM_SENTENCES = 6


def _write_translation(folder, seeds):
    """Runs of which MaxSup has 2 BLEU more than label smoothing, which has as much as cross-entropy."""
    rows, records = [], []
    for block in (block for block in blocks(PLAN) if block.pool == "translation" and block.seeds[0] in seeds):
        for run in block.runs:
            gain = 2.0 if run.arm.startswith("maxsup") else 0.0
            strength = float(run.arm.split("=")[1].split()[0]) if "=" in run.arm else 0.0
            numbers = {"bleu": 30.0 + gain + run.seed % 2 / 50, "accuracy": 0.6, "val_confidence": 0.6 - strength}
            numbers |= {name: 0.25 for name in ("nll_after", "ece_after", "gap", "confidence_wrong", "chrf")}
            rows.append(Row(run.pool, run.arm, run.seed, numbers, [], None))
            codes = np.full((3, 2 * NUM_SENTENCES), 128, np.uint8)
            sums = np.array([[9, 9, 8, 6, 4, 2, 9, 8, 7, 6]] * NUM_SENTENCES, np.uint8)
            lengths = np.full(NUM_SENTENCES, 2, np.uint8)
            records.append(ImageRecord(np.arange(2 * NUM_SENTENCES) % 3 > 0, *codes, lengths, sums))
    add_runs(PLAN, load_claims(PLAN).values(), rows, records, folder)


def _line(page, start):
    return next(line for line in page.splitlines() if line.startswith(start))


def test_claims_have_a_verdict_when_their_seeds_are_there(tmp_path):
    _write_translation(tmp_path, range(100, 103))
    write_pages(tmp_path, tmp_path)
    assert "3 of 6 seeds are there" in _line((tmp_path / "README.md").read_text(), "| `D_bleu`")
    assert "30 of 60 runs are there" in (tmp_path / "pools.md").read_text()
    _write_translation(tmp_path, range(100, 106))
    write_pages(tmp_path, tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "+2.00 [+2.00, +2.00] BLEU" in _line(page, "| `D_bleu`")
    assert "**confirmed**" in _line(page, "| `D_bleu`")
    assert "**no difference within the margin**" in _line(page, "| `D_ls_bleu`")
    assert "0 of 12 seeds are there" in _line(page, "| `A_gap_strength`")
    assert "60 of 60" in _line(page, "| D.")


def test_pools_are_described_arm_by_arm(tmp_path):
    _write_translation(tmp_path, range(100, 106))
    write_pages(tmp_path, tmp_path)
    page = (tmp_path / "pools.md").read_text()
    assert "32.01" in _line(page, "| maxsup alpha=0.2 ")
    assert "60.00 (+0.00 [" in _line(page, "| mbls alpha=0.1 margin=4")
    assert "0 of 4,760 runs are there" in page
