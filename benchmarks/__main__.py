"""``python -m benchmarks``: measure, print, and keep what was found."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch

from benchmarks import (
    catalogue,
    device,
    grid,
    head,
    head_bound,
    input,
    launch,
    lm_head,
    losses,
    metrics,
    probe,
    torch_head,
    train_loop,
    z_loss,
)
from benchmarks.plot import draw
from benchmarks.report import goal_table, surroundings, write_result

RESULTS = Path(__file__).parent / "results"
_HEADS = (head, torch_head, lm_head, z_loss)
MODULES = (losses, grid, catalogue, device, *_HEADS, train_loop, input, metrics, probe, launch)
PARTS = {module.__name__.rpartition(".")[2]: module.run for module in MODULES}


def main() -> None:
    """Run the parts that are asked for; exits with 0 whether goals are met or not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all"], default="all", help="what to measure")
    parser.add_argument("--quick", action="store_true", help="small batches, as a test; written only with --output")
    parser.add_argument("--rounds", type=int, help="how often each candidate takes its turn (default: 15, quick: 3)")
    parser.add_argument("--shape", choices=list(head_bound.SHAPES), help="with lm_head: bounds of a head on a GPU")
    parser.add_argument("--output", type=Path, help="folder of the results (default: benchmarks/results)")
    options = parser.parse_args()
    if options.shape is not None:
        if options.part != "lm_head":
            parser.error(f"--shape goes with lm_head; got {options.part}")
        bound = head_bound.run(head_bound.SHAPES[options.shape], print)
        print(f"\n{goal_table(bound['goals'])}")
        return
    rounds = options.rounds or (3 if options.quick else 15)
    folder = options.output or (None if options.quick else RESULTS)

    torch.set_num_threads(1)
    if (load := os.getloadavg()[0]) > 0.5:
        print(f"Others use this machine (load average {load:.1f}): expect wide quartiles.", file=sys.stderr)
    for name in PARTS if options.part == "all" else [options.part]:
        before = surroundings()
        result = PARTS[name](is_quick=options.quick, rounds=rounds, show=lambda text: print(text, flush=True))
        print(f"\n{goal_table(result['goals'])}", flush=True)
        if options.quick:
            print("(quick: smaller batches than the goals are about)")
        if folder is not None:
            facts = {"environment": before, "load_average_after": list(os.getloadavg()), "is_quick": options.quick}
            print(f"written: {write_result(folder, name, facts | result)}")
            if name == "losses":
                draw(result, folder / "losses.png")
            elif name == "grid":
                grid.write_tables(result, folder / "grid.txt")


if __name__ == "__main__":
    main()
