"""
Compare losses on your own folder
=================================

You have images in folders, one folder per class, and want to know which loss to train with. For each seed,
``maxsup compare`` trains every loss from the same initial weights on the same order of images, and says which
differences can be distinguished from chance.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image
from sklearn.datasets import load_digits

folder = Path(tempfile.mkdtemp())

# %%
# Your folder looks like this one. It is made from those of scikit-learn's digits that are easily confused.

images, labels = load_digits(return_X_y=True)
counts = dict.fromkeys((1, 7, 8, 9), 0)
for pixels, label in zip(images.reshape(-1, 8, 8), labels, strict=True):
    if label in counts and counts[label] < 60:
        place = folder / "photos" / f"digit_{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15.9).astype("uint8")).save(place / f"{counts[label]:03d}.png")
        counts[label] += 1
for place in sorted((folder / "photos").iterdir()):
    names = sorted(file.name for file in place.iterdir())
    print(f"photos/{place.name}: {len(names)} files, {names[0]} to {names[-1]}")

# %%
# One command runs the comparison. Test and validation images are split off class by class, unless there are folders
# ``train`` and ``test``. The network and its training depend on the files; here they are set to something small. Two
# seeds show how it works. They cannot prove anything, and the program says so: it takes six to distinguish a
# difference from chance.


def shell(line):
    """Run a command in the folder, as you would in a terminal, and return what it prints."""
    return subprocess.run(line.split(), cwd=folder, check=True, capture_output=True, text=True).stdout


small = "data.image_size=8 model.options.widths=[8,16] epochs=15 optimizer.lr=0.02"
plain = "augment.scale=[0.8,1.0] augment.flip=false data.num_workers=0"
print(shell(f"maxsup compare --data folder:photos --model small_cnn --losses ls,maxsup --seeds 2 {small} {plain}"))

# %%
# Each run is a separate directory that can be evaluated, diagnosed or exported. The log of an epoch is a line of
# JSON.

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for run in sorted((folder / "comparison" / "runs").iterdir()):
    epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    name, seed = run.name.split("-")[:2]
    style = {"color": "#d97706" if name == "ls" else "#0b62a3", "linestyle": "-" if seed == "s0" else "--"}
    axis.plot([epoch["train"]["accuracy"] for epoch in epochs], label=f"{name}, seed {seed[1:]}", **style)
axis.set(xlabel="epoch", ylabel="accuracy while training")
axis.legend(frameon=False)
plt.show()

# %%
# For an answer take six seeds or more, and leave the network to the recipe or name your own:
#
# .. code-block:: console
#
#    $ maxsup compare --data folder:PHOTOS --model timm:resnet18 --losses ce,ls,maxsup --seeds 6
#
# The same command resumes where it was stopped. :doc:`09_reading_a_report` explains how to read what it writes.
