"""
Gradient accumulation
=====================

A batch that does not fit into memory is split into micro-batches whose gradients are added. If each takes its own
mean, the sum is not the gradient of the batch: parts with few targets count too much. The same happens with padding,
with ignored labels, and on several processes.
"""

import matplotlib.pyplot as plt
import torch

import maxsup

torch.manual_seed(0)
NUM_TOKENS, NUM_CLASSES, NUM_PARTS = 240, 50, 4
logits = 2 * torch.randn(NUM_TOKENS, NUM_CLASSES, dtype=torch.float64)
target = torch.randint(NUM_CLASSES, (NUM_TOKENS,))
# Sequences end at different places: the parts hold 60, 40, 20 and 4 targets.
for part, kept in enumerate((60, 40, 20, 4)):
    target[part * 60 + kept : (part + 1) * 60] = -100
criterion = maxsup.MaxSupLoss(alpha=0.1)


def gradient(loss_of_parts):
    """Gradient of the sum over micro-batches."""
    asked = logits.clone().requires_grad_()
    parts = zip(asked.chunk(NUM_PARTS), target.chunk(NUM_PARTS), strict=True)
    sum(loss_of_parts(z, y) for z, y in parts).backward()
    return asked.grad


# %%
# The whole batch at once, the mean of means, and the right way: every part gets the number of targets of the
# optimiser step.

num_items = (target != -100).sum()
asked = logits.clone().requires_grad_()
criterion(asked, target).backward()
whole = asked.grad
means = gradient(lambda z, y: criterion(z, y) / NUM_PARTS)
shared = gradient(lambda z, y: criterion(z, y, num_items=num_items))

for name, found in {"mean of means": means, "num_items": shared}.items():
    print(f"{name:14} relative error of the gradient {(found - whole).norm() / whole.norm():.1e}")

# %%
# How much one token of each part pulls, relative to what it should:

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for place, (name, found, colour) in enumerate((("mean of means", means, "#d97706"), ("num_items", shared, "#0b62a3"))):
    ratios = [own.norm() / right.norm() for own, right in zip(found.chunk(4), whole.chunk(4), strict=True)]
    axis.bar(torch.arange(4) + 0.36 * (place - 0.5), ratios, width=0.34, color=colour, label=name)
axis.axhline(1, color="black", linewidth=0.8)
axis.set(xticks=range(4), xticklabels=["60 targets", "40", "20", "4 targets"], ylabel="pull of a token")
axis.legend(frameon=False)
plt.show()

# %%
# A token in the part with four targets pulls almost eight times as much as it should. With ``num_items`` the parts
# add up to the whole, however the batch is split, and a part without any target adds nothing.

empty = torch.full((60,), -100)
print(criterion(logits[:60], empty, num_items=num_items).item())

# %%
# Over several processes ``num_items`` is the number of targets of all of them divided by the number of processes,
# because DDP takes the mean of gradients; :doc:`/integrations/accelerate` shows the code.
