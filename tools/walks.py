"""Which files each walk of docs/architecture.md goes through: ``python -m tools.walks`` writes the lists there.

A file is on a walk if one of its functions is called, in the process of the command or in one that it starts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = ROOT / "src" / "maxsup"

# Python imports a module of this name when it starts, in every process that a command starts too.
SITE = """
import os, sys, threading
seen = set()
def look(frame, event, argument):
    code = frame.f_code
    # Bodies of modules and classes have no fast locals, functions do. Written at once: a process may be killed.
    if event == "call" and code.co_flags & 1 and code.co_filename not in seen:
        seen.add(code.co_filename)
        if code.co_filename.startswith(os.environ["WALK_PACKAGE"]):
            with open(os.path.join(os.environ["WALK_OUTPUT"], str(os.getpid())), "a") as file:
                file.write(code.co_filename + "\\n")
threading.setprofile(look)
sys.setprofile(look)
"""

CRITERION = """
import torch, maxsup
criterion = maxsup.MaxSupLoss(alpha=0.1)
logits = torch.randn(64, 100, requires_grad=True)
criterion(logits, torch.randint(100, (64,))).backward()
"""

WALKS: Mapping[str, Sequence[str]] = {
    "criterion(logits, target)": ("-c", CRITERION),
    "maxsup train digits_cnn": ("-m", "maxsup", "train", "digits_cnn", "epochs=1", "--output", "run"),
    "maxsup compare": ("-m", "maxsup", "compare", "--losses", "ls,maxsup", "--seeds", "2", "epochs=1"),
    "maxsup diagnose --logits": ("-m", "maxsup", "diagnose", "--logits", "batch.npz"),
}

BATCH = """
import numpy as np
labels = np.arange(600) % 3
logits = 3 * np.eye(3)[labels] + np.random.default_rng(0).normal(size=(600, 3))
np.savez("batch.npz", logits=logits.astype(np.float32), labels=labels)
"""


def files_on(walk: str) -> list[str]:
    """Run a walk in a folder of its own, and return the files of the package that it goes through."""
    with tempfile.TemporaryDirectory() as folder:
        home, output, site = (Path(folder) / name for name in ("home", "output", "site"))
        for place in (home, output, site):
            place.mkdir()
        subprocess.run([sys.executable, "-c", BATCH], cwd=home, check=True)
        (site / "sitecustomize.py").write_text(SITE)
        paths = [str(site), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        environment |= {"WALK_PACKAGE": f"{PACKAGE}{os.sep}", "WALK_OUTPUT": str(output)}
        command = [sys.executable, *WALKS[walk]]
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{walk} failed: {done.stderr}")
        found = {line for path in output.iterdir() for line in path.read_text().splitlines()}
    return sorted(Path(path).relative_to(PACKAGE).as_posix() for path in found)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def listing(walk: str, files: Sequence[str]) -> str:
    """Return the list of a walk as the page shows it: a line for each folder."""
    lines = [f"`{walk}`: {len(files)} files.", ""]
    for folder, inside in groupby(sorted(files, key=_folder), key=_folder):
        names = ", ".join(path.rpartition("/")[2].removesuffix(".py") for path in inside)
        lines.append(f"- `{folder or '.'}`: {names}")
    return "\n".join([*lines, ""])


def listed(walk: str, page: str) -> re.Match[str] | None:
    """Return where the page lists a walk."""
    return re.search(rf"^`{re.escape(walk)}`: \d+ files\.\n\n(?:- .+\n)*", page, re.MULTILINE)


def main() -> None:
    """Write the lists of all walks to the page."""
    text = PAGE.read_text()
    for walk in WALKS:
        new = listing(walk, files_on(walk))
        old = listed(walk, text)
        text = text.replace(old[0], new) if old else f"{text.rstrip()}\n\n{new}"
        print(new)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
