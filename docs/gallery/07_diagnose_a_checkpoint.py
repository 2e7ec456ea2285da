"""
Diagnose a checkpoint
=====================

Somebody hands you a network. Was it trained with label smoothing? Is it sure of its errors? Can its probabilities be
used? ``maxsup diagnose`` answers from its outputs. Here it looks at a network that is trained in seconds.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

folder = Path(tempfile.mkdtemp())


def shell(line):
    """Run a command in the folder, as you would in a terminal, and return what it prints."""
    return subprocess.run(line.split(), cwd=folder, check=True, capture_output=True, text=True).stdout


# %%
# This network is too small for the drawn digits it learns, so some of its predictions are wrong. It is trained with
# label smoothing, in about ten seconds; nothing is downloaded.

shell("maxsup train synthetic_compare loss.name=ls loss.alpha=0.1 --output run")
print(shell("maxsup diagnose run"))

# %%
# Each verdict says how it was reached and what to do next, and "cannot tell" is a verdict too. The page
# ``diagnosis.html`` has the same with figures. A program reads the numbers with ``--json``.

found = json.loads(shell("maxsup diagnose run --json"))
for name in ("accuracy", "nll", "ece", "confidence_correct", "confidence_wrong"):
    number = found["numbers"][name]
    print(f"{name:18} {number['value']:.3f}, between {number['low']:.3f} and {number['high']:.3f}")

# %%
# Two pictures tell most of it: how often the network is right at each confidence, and the numbers above with their
# intervals.

bins = found["data"]["reliability"]["before"]
filled = [place for place, count in enumerate(bins["count"]) if count > 0]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.plot([0, 1], [0, 1], color="black", linestyle=":", label="calibrated")
middles = [(bins["edges"][place] + bins["edges"][place + 1]) / 2 for place in filled]
left.plot(middles, [bins["accuracy"][place] for place in filled], color="#0b62a3", marker="o", label="this network")
left.set(xlabel="confidence", ylabel="share that is right", title="reliability")
left.legend(frameon=False)
names = ["confidence_correct", "confidence_wrong", "ece"]
values = [found["numbers"][name] for name in names]
right.barh(names, [number["value"] for number in values], color=["#0b62a3", "#d97706", "#9ca3af"])
right.errorbar(
    [number["value"] for number in values],
    names,
    xerr=[[n["value"] - n["low"] for n in values], [n["high"] - n["value"] for n in values]],
    fmt="none",
    color="black",
    capsize=3,
)
right.invert_yaxis()
right.set(title="with 95 % intervals", xlim=(0, 1))
plt.show()

# %%
# It works on networks that never saw this package, on checkpoints of timm, torchvision and Hugging Face, and on bare
# arrays:
#
# .. code-block:: console
#
#    $ maxsup diagnose --model timm:resnet50 --weights FILE --data folder:PHOTOS
#    $ maxsup diagnose --logits logits.npy --labels labels.npy
