"""
A new loss in one file
======================

You have an idea for a penalty. Write what it adds to cross-entropy, one value per sample. Class weights, ignored
targets, masked classes, half precision, images and sequences, gradient accumulation and evaluation are already
handled.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import maxsup
from maxsup.losses.base import LOSSES, AlphaLoss
from maxsup.losses.penalized import penalized_cross_entropy


def runner_up_cross_entropy(input, target, alpha=0.1, **options):
    """Cross-entropy plus alpha times the gap between the top logit and the next one."""

    def gap(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
        first, second = rows.topk(2, dim=-1).values.unbind(dim=-1)
        return first - second

    return penalized_cross_entropy(input, target, alpha, gap, **options)


@LOSSES.register(
    "runner_up", summary="gap to the next logit", formula="CE + alpha (z_max - z_second)", source="this page"
)
class RunnerUpLoss(AlphaLoss):
    """Module form of :func:`runner_up_cross_entropy`."""

    function = staticmethod(runner_up_cross_entropy)


# %%
# That is the whole registration. The loss has a name, checks its options, and takes schedules.

print(maxsup.create_loss("runner_up", alpha=0.2))
try:
    maxsup.create_loss("runner_up", alpah=0.2)
except TypeError as error:
    print(f"TypeError: {error}")

# %%
# The contract of ``nn.CrossEntropyLoss`` holds at once: ignored targets lose both terms, the class axis of images is
# the second, and evaluation is plain cross-entropy.

criterion = maxsup.create_loss("runner_up", alpha=0.2)
logits, target = torch.randn(2, 5, 4, 4), torch.randint(5, (2, 4, 4))
target[0, :2] = -100
print(f"training {criterion(logits, target):.4f}")
print(
    f"evaluation {criterion.eval()(logits, target):.4f}, torch {torch.nn.functional.cross_entropy(logits, target):.4f}"
)

# %%
# Draw its gradient beside those of its relatives. This one lowers the winner and raises the next class, whether or
# not that is the true one: a wrong class can profit from it.

z = torch.tensor([2.0, 0.5, -1.0, 0.0, 1.0])
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for place, (name, colour) in enumerate({"ce": "#9ca3af", "maxsup": "#0b62a3", "runner_up": "#d97706"}.items()):
    asked = z.clone().requires_grad_()
    maxsup.create_loss(name)(asked, torch.tensor(1)).backward()
    axis.bar(torch.arange(5) + 0.26 * (place - 1), -asked.grad, width=0.24, color=colour, label=name)
axis.axhline(0, color="black", linewidth=0.8)
axis.set(title="wrong: class 1 is true", xlabel="class", xticks=range(5), ylabel="step of the logit")
axis.legend(frameon=False)
plt.show()

# %%
# A correct gradient agrees with finite differences of the value.

inputs = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(lambda x: runner_up_cross_entropy(x, torch.tensor([0, 1, 2])), inputs)

# %%
# To make it part of the package, put the file into ``src/maxsup/losses/relatives`` and follow :doc:`/contributing`: the
# contract tests, the command line and the cards of :doc:`/losses/index` then find it automatically.
