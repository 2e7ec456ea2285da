"""
How to choose alpha
===================

``alpha`` sets how strongly the top logit is held down. The paper trains with 0.1, or lets it rise from 0.1 to 0.2.
What does it change? A network that is too small for its task shows it best, because MaxSup and label smoothing differ
on errors only.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import maxsup
from maxsup import metrics

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
# Validation data to choose with; the test split of a real study would stay untouched.
train_images, train_labels = images[:1000], labels[:1000]
val_images, val_labels = images[1000:], labels[1000:]
ALPHAS = (0.0, 0.1, 0.2, 0.4)
SEEDS = range(3)


def val_logits(name, alpha, seed):
    """Logits on validation data of a network with five hidden units."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 10))
    criterion = maxsup.create_loss(name, alpha=alpha)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(20):
        for batch in torch.randperm(len(train_images)).split(100):
            optimizer.zero_grad()
            criterion(model(train_images[batch]), train_labels[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return model(val_images)


# %%
# Every number is a mean over three seeds, with its standard deviation. ``maxsup.metrics`` computes it from logits.

MEASURES = {
    "accuracy": metrics.accuracy,
    "NLL (plain cross-entropy)": metrics.negative_log_likelihood,
    "calibration error (ECE)": metrics.expected_calibration_error,
}
results = {
    name: torch.tensor(
        [
            [[measure(val_logits(name, alpha, seed), val_labels) for measure in MEASURES.values()] for seed in SEEDS]
            for alpha in ALPHAS
        ]
    )
    for name in ("ls", "maxsup")
}

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for name, colour in {"ls": "#d97706", "maxsup": "#0b62a3"}.items():
    means, deviations = results[name].mean(dim=1), results[name].std(dim=1)
    for column, (axis, title) in enumerate(zip(axes, MEASURES, strict=True)):
        axis.errorbar(ALPHAS, means[:, column], deviations[:, column], color=colour, marker="o", capsize=3, label=name)
        axis.set(title=title, xlabel="alpha")
axes[0].legend(frameon=False)
plt.show()

# %%
# Read it as you would read your own sweep. If the error bars overlap, the sweep does not choose an alpha. NLL and
# calibration of a network that is not over-confident get worse with any smoothing, and more so with more of it.

for alpha, row in zip(ALPHAS, results["maxsup"], strict=True):
    numbers = "   ".join(f"{value:.3f} ± {spread:.3f}" for value, spread in zip(row.mean(0), row.std(0), strict=True))
    print(f"alpha {alpha:<4} accuracy, NLL, ECE: {numbers}")

# %%
# A strength that rises during training is a schedule. You cannot forget to advance it: a schedule that is never told
# how far training is raises an error.

from maxsup.schedules import Linear, epoch_progress

criterion = maxsup.MaxSupLoss(alpha=Linear(0.1, 0.2))
for epoch in range(3):
    criterion.set_progress(epoch_progress(epoch, num_epochs=3))
    print(f"epoch {epoch}: alpha {criterion.alpha:.2f}")

try:
    maxsup.MaxSupLoss(alpha=Linear(0.1, 0.2))(torch.randn(2, 3), torch.tensor([0, 1]))
except RuntimeError as error:
    print(f"RuntimeError: {error}")

# %%
# ``maxsup compare --tune alpha`` does such a sweep with paired seeds, on validation data, and gives every loss the
# same number of runs; :doc:`/laboratory` says how.
