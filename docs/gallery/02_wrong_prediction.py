"""
What label smoothing does to a wrong prediction
===============================================

Label smoothing pulls the logit of the true class towards the mean of all logits. That curbs a network that is right
and too sure. Where the network is wrong, the true class already loses, and it is pulled down further. MaxSup pulls
down the top logit instead.
"""

import matplotlib.pyplot as plt
import torch

import maxsup

LOGITS = torch.tensor([2.0, 0.5, -1.0, 0.0, 1.0])
COLOURS = {"ce": "#9ca3af", "ls": "#d97706", "maxsup": "#0b62a3"}
TITLES = {"ce": "cross-entropy", "ls": "label smoothing", "maxsup": "MaxSup"}


def step(name, logits, target):
    """How gradient descent moves the logits: the negative gradient."""
    logits = logits.clone().requires_grad_()
    maxsup.create_loss(name)(logits, torch.tensor(target)).backward()
    return -logits.grad


# %%
# The network prefers class 0. First let it be right, then let class 4 be the true one.

figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for axis, (title, target) in zip(axes, {"right: class 0": 0, "wrong: class 4 is true": 4}.items(), strict=True):
    for place, name in enumerate(COLOURS):
        moves = step(name, LOGITS, target)
        axis.bar(torch.arange(5) + 0.26 * (place - 1), moves, width=0.24, color=COLOURS[name], label=TITLES[name])
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(title=title, xlabel="class", xticks=range(5))
axes[0].set_ylabel("step of the logit")
axes[0].legend(frameon=False)
plt.show()

# %%
# On the left, label smoothing and MaxSup have the same bars. On the right, label smoothing raises the true class
# *less* than cross-entropy does, and lowers the wrong winner less. MaxSup strengthens both. In numbers, for the true
# class and the winner:

for name, title in TITLES.items():
    moves = step(name, LOGITS, 4)
    print(f"{title:16} true class {moves[4]:+.3f}   wrong winner {moves[0]:+.3f}")

# %%
# Follow the same prediction over many steps. The dotted line is where the true class overtakes the winner: MaxSup
# gets there first, label smoothing last.

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for name, colour in COLOURS.items():
    logits, leads = LOGITS.clone(), []
    for _ in range(60):
        leads.append((logits[4] - logits[0]).item())
        logits = logits + 0.05 * step(name, logits, 4)
    crossed = next(place for place, lead in enumerate(leads) if lead > 0)
    axis.plot(leads, color=colour, label=f"{TITLES[name]}: right after {crossed} steps")
axis.axhline(0, color="black", linestyle=":")
axis.set(xlabel="step", ylabel="true logit minus winner")
axis.legend(frameon=False)
plt.show()

# %%
# The difference between the two losses is exactly ``alpha (z_max - z_gt)``: 0 where the prediction is right.

logits, target = torch.randn(1000, 10), torch.randint(10, (1000,))
smoothing = maxsup.functional.label_smoothing_cross_entropy(logits, target, 0.1, reduction="none")
suppression = maxsup.functional.maxsup_cross_entropy(logits, target, 0.1, reduction="none")
gap = logits.max(dim=1).values - logits.gather(1, target[:, None])[:, 0]
print(f"largest deviation from the identity: {(suppression - smoothing - 0.1 * gap).abs().max():.0e}")
