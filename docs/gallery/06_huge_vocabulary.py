"""
A huge vocabulary
=================

With 50,000 classes the logits are the largest thing in memory, and label smoothing keeps three copies of them. The
fused head takes hidden states and the weight of the last layer, goes through the classes in blocks, and never holds
the logits.
"""

import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # torch's profiler announces itself otherwise

import matplotlib.pyplot as plt
import torch
from torch.autograd.profiler import profile

import maxsup

torch.manual_seed(0)
NUM_TOKENS, WIDTH, NUM_CLASSES = 512, 64, 50_000
hidden = torch.randn(NUM_TOKENS, WIDTH, requires_grad=True)
head = torch.nn.Linear(WIDTH, NUM_CLASSES, bias=False)
target = torch.randint(NUM_CLASSES, (NUM_TOKENS,))
logits_size = 4 * NUM_TOKENS * NUM_CLASSES / 2**20


def label_smoothing():
    """The usual way: logits, then the loss of torch."""
    return torch.nn.functional.cross_entropy(head(hidden), target, label_smoothing=0.1)


def maxsup_of_logits():
    """Logits, then MaxSup: one copy less, because the gradient takes the place of what torch keeps."""
    return maxsup.functional.maxsup_cross_entropy(head(hidden), target, alpha=0.1)


def fused_head():
    """No logits."""
    return maxsup.functional.linear_maxsup_cross_entropy(hidden, head.weight, target, alpha=0.1)


# %%
# Torch's profiler counts what is allocated in forward and backward.


def peak_mib(loss):
    """Largest memory held at one time, in MiB, beyond the inputs and the gradient of the weight."""
    with profile(profile_memory=True) as record:
        gradients = torch.autograd.grad(loss(), (hidden, head.weight))
    events = [event for event in record.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return (peak - gradients[1].nbytes) / 2**20


candidates = {"label smoothing": label_smoothing, "MaxSup of logits": maxsup_of_logits, "fused head": fused_head}
peaks = {}
for name, loss in candidates.items():
    loss()  # what is made on first use does not count
    peaks[name] = peak_mib(loss)
    print(f"{name:17} {peaks[name]:6.0f} MiB, {peaks[name] / logits_size:.2f} times the logits")

figure, axis = plt.subplots(figsize=(7, 2.6), layout="constrained")
axis.barh(list(peaks), list(peaks.values()), color=["#d97706", "#6db3f2", "#0b62a3"])
axis.axvline(logits_size, color="black", linestyle=":", label=f"the logits: {logits_size:.0f} MiB")
axis.set(xlabel="peak memory of a step, MiB")
axis.invert_yaxis()
axis.legend(frameon=False)
plt.show()

# %%
# The gradients are the same.

gradients = {
    name: torch.autograd.grad(loss(), (hidden, head.weight))
    for name, loss in candidates.items()
    if name != "label smoothing"
}
for what, own, other in zip(("hidden states", "weight"), *gradients.values(), strict=True):
    print(f"{what}: relative difference {(own - other).norm() / own.norm():.0e}")

# %%
# The head also supports a margin, a z-loss and a soft cap on the logits. ``use_linear_loss`` installs it in models of
# Hugging Face; :doc:`/integrations/huggingface` shows the code.

loss = maxsup.functional.linear_maxsup_cross_entropy(hidden, head.weight, target, alpha=0.1, z_loss=1e-4, soft_cap=30.0)
print(f"with z-loss and soft cap: {loss.item():.3f}")
