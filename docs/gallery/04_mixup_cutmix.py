"""
Mixup and cutmix
================

Mixed images come with mixed labels: probabilities instead of class indices. MaxSup takes them as they are. The mixed
label goes into the cross-entropy, and the penalty never looks at it.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torchvision.transforms import v2

import maxsup

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(labels)

# %%
# Torchvision mixes a batch and returns one row of probabilities per image.

torch.manual_seed(3)
mixed = {
    "as they are": (images[:4], torch.eye(10)[labels[:4]]),
    "mixup": v2.MixUp(alpha=1.0, num_classes=10)(images[:4], labels[:4]),
    "cutmix": v2.CutMix(alpha=1.0, num_classes=10)(images[:4], labels[:4]),
}
figure, axes = plt.subplots(3, 4, figsize=(6, 5.4), layout="constrained")
for row, (name, (pictures, targets)) in zip(axes, mixed.items(), strict=True):
    for axis, picture, target in zip(row, pictures, targets, strict=True):
        axis.imshow(picture[0], cmap="gray_r")
        shares = ", ".join(f"{share:.0%} {digit}" for digit, share in enumerate(target) if share > 0)
        axis.set(xticks=[], yticks=[], xlabel=shares)
    row[0].set_ylabel(name)
plt.show()

# %%
# The criterion does not change.

criterion = maxsup.MaxSupLoss(alpha=0.1)
logits = torch.randn(4, 10)
for name, (_, targets) in mixed.items():
    print(f"{name:12} targets {tuple(targets.shape)}   loss {criterion(logits, targets):.3f}")

# %%
# With such a label, ``z_gt`` means the mean of the logits under it. The penalty is the same as with a hard label, so
# the loss has two separate parts: cross-entropy of the mixed label, and the gap of the top logit.

pictures, targets = mixed["mixup"]
cross_entropy = torch.nn.functional.cross_entropy(logits, targets)
penalty = maxsup.functional.maxsup_penalty(logits).mean()
assert torch.allclose(criterion(logits, targets), cross_entropy + 0.1 * penalty)
print(f"cross-entropy {cross_entropy:.3f} + 0.1 x {penalty:.3f} = {criterion(logits, targets):.3f}")

# %%
# **The trap**: mixing functions often smooth as well. timm's ``Mixup`` does so by default (``label_smoothing=0.1``),
# and then the network gets both. The criterion notices smoothed probabilities and says so.

import warnings

smoothed = 0.9 * targets + 0.1 / 10
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    maxsup.MaxSupLoss(alpha=0.1)(logits, smoothed)
print(caught[0].message)
