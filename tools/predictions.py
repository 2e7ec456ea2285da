"""``python -m tools.predictions``: the real predictions of the page to play with.

Train the network of the demo with cross-entropy (seed 0). Take eight wrong and four right predictions of test images,
classes in turns. Write ``explore_predictions.js`` beside the other scripts of the page.
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from maxsup.lab import train
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.reports.page import TEMPLATES

NUM_WRONG, NUM_RIGHT = 8, 4
_HEAD = "// Drawn digits of the test split and the logits of a run, written by tools/predictions.py.\n"
FILE = TEMPLATES / "explore_predictions.js"


def chosen(logits: Tensor, labels: Tensor) -> list[int]:
    """Return the places of wrong, then right predictions; classes take turns."""
    is_right = logits.argmax(1) == labels
    places = []
    for wanted, count in ((False, NUM_WRONG), (True, NUM_RIGHT)):
        by_class = [torch.nonzero((is_right == wanted) & (labels == k)).flatten().tolist() for k in range(10)]
        turns = [place[turn] for turn in range(count) for place in by_class if turn < len(place)]
        places += turns[:count]
    return places


def main() -> None:
    """Train, choose and write."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train(load_recipe("synthetic_compare", ["loss={name: ce}"]), output=run)
        outputs = RunOutputs(run)
        test, seen = outputs.bundle.test, outputs.split("test")
        names = list(outputs.bundle.class_names)
    images = [
        {
            "pixels": base64.b64encode(test.images[place].permute(1, 2, 0).contiguous().numpy().tobytes()).decode(),
            "logits": [round(float(logit), 2) for logit in seen.logits[place]],
            "target": int(seen.labels[place]),
        }
        for place in chosen(seen.logits, seen.labels)
    ]
    found = {"names": names, "size": test.images.shape[-1], "images": images}
    FILE.write_text(f"{_HEAD}const PREDICTIONS = {json.dumps(found, separators=(',', ':'))};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
