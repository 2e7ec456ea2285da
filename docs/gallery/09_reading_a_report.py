"""
Reading a report
================

A comparison ends with a page, ``report.html``, and a file of numbers, ``summary.json``. This example makes both and
goes through what they say, from the sentence at the top to the seeds at the bottom.
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
# Label smoothing and MaxSup on scikit-learn's digits, six seeds each. The network is small and training is stopped far
# too early, so that this page takes seconds; do not read anything about the losses into it.

print(shell("maxsup compare --data digits --losses ls,maxsup --seeds 6 epochs=2 model.options.widths=[4,4,8]"))

# %%
# **The sentence at the top** names the differences that chance does not explain. If it says that there is no
# conclusion, that is the result, and more seeds may change it.

summary = json.loads((folder / "comparison" / "summary.json").read_text())
print(*summary["conclusions"], sep="\n")

# %%
# **The table** has a mean and a standard deviation over seeds, and under it the difference from the baseline. Seeds
# are paired: seed 3 of one loss began with the same weights and saw the same images in the same order as seed 3 of
# the other. So look at the differences, seed by seed.

losses = {row["loss"]: row["metrics"] for row in summary["losses"]}
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for axis, name in zip(axes, ("accuracy", "nll", "ece"), strict=True):
    pairs = [(losses["ls"][name]["values"][seed], value) for seed, value in losses["maxsup"][name]["values"].items()]
    for pair in pairs:
        axis.plot([0, 1], pair, color="#9ca3af", marker="o")
    axis.set(xticks=[0, 1], xticklabels=["ls", "maxsup"], xlim=(-0.3, 1.3), title=name)
plt.show()

# %%
# **The interval** is Student's 95 % interval of the mean difference. A difference is called conclusive if the interval
# excludes 0 and there are at least six pairs. The *p* beside it is exact: of all ways to flip the signs of the
# differences, the share that gives a mean at least as large. With six pairs the smallest possible p is 2/64.

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
shown = [metric for metric in summary["metrics"] if losses["maxsup"][metric["name"]]["difference"] is not None]
for place, metric in enumerate(shown):
    found = losses["maxsup"][metric["name"]]
    # In units of the interval's half width, so that one picture holds them all.
    half = (found["high"] - found["low"]) / 2 or 1.0
    colour = "#0b62a3" if found["is_conclusive"] else "#9ca3af"
    axis.errorbar(found["difference"] / half, place, xerr=1, fmt="o", color=colour, capsize=4)
    print(f"{metric['title']:22} difference {found['difference']:+.4f}, p {found['p']:.3f}, {found['is_conclusive']=}")
axis.axvline(0, color="black", linewidth=0.8)
axis.set(yticks=range(len(shown)), yticklabels=[metric["title"] for metric in shown], xlabel="maxsup minus ls, scaled")
axis.invert_yaxis()
plt.show()

# %%
# **What "better" means** differs from row to row: accuracy should rise, NLL and calibration error should fall. "within"
# and "r_squared" describe features, and more of them is neither good nor bad by itself. For accuracy the report also
# asks whether the losses are *equivalent*, that is, whether the 90 % interval, which is narrower than the one drawn,
# lies within 0.3 points.

accuracy = losses["maxsup"]["accuracy"]
print(
    f"conclusive: {accuracy['is_conclusive']}, equivalent: {accuracy['is_equivalent']}, pairs: {accuracy['num_pairs']}"
)

# %%
# The page, with every run and its log, is ``comparison/report.html``. It needs nothing
# else, so it can be sent as it is; under every figure are its data and the picture as files.
