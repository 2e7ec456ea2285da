"""
A strength for each sample
==========================

The strength may be a tensor with one number a sample. FeDLaS (Bahavan, Seneviratne and Halgamuge, arXiv 2606.28654,
2026) chooses it by the norm of the sample's features: a large norm marks confidence. A small learned gate looks at the
logits and decides for each sample whether confidence means more smoothing or less.

The formula below is read from the code released with the paper (``calibrate/losses/fedlas.py``), because the paper
itself could not be read here. There it wraps label smoothing and MbLS; here it wraps MaxSup.
"""

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from maxsup import MaxSupLoss

# %%
# The strength of a sample is ``2 alpha sigmoid(beta g n)``: ``n`` says how far its feature norm lies from a running
# mean, in standard deviations, and ``g`` is 1 or -1. The gate is trained by the gradient of its strength, which passes
# straight through the sign. That is the whole method:


class FeDLaS(nn.Module):
    def __init__(self, num_classes: int, alpha: float = 0.05, beta: float = 4.0, momentum: float = 0.95) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.Linear(num_classes, num_classes // 2), nn.LeakyReLU(), nn.Linear(num_classes // 2, 2)
        )
        self.criterion, self.beta, self.momentum = MaxSupLoss(alpha), beta, momentum
        self.register_buffer("running", torch.tensor([20.0, 100.0]))  # mean and standard deviation

    def strengths(self, logits: Tensor, features: Tensor) -> Tensor:
        norms = features.detach().norm(p=1, dim=1)
        if self.training:
            self.running.lerp_(torch.stack([norms.mean(), norms.std()]), self.momentum)
        side = self.gate(logits.detach()).softmax(dim=1) @ torch.tensor([-1.0, 1.0])
        side = side + (side.sign() - side).detach()
        return 2 * self.criterion.alpha * torch.sigmoid(self.beta * side * (norms - self.running[0]) / self.running[1])

    def forward(self, logits: Tensor, target: Tensor, features: Tensor) -> Tensor:
        return self.criterion(logits, target, alpha=self.strengths(logits, features))


# %%
# Train a small network on three clusters, one of which is wide. Gate and network learn together.

torch.manual_seed(0)
target = torch.arange(600) % 3
inputs = torch.randn(600, 2) * torch.tensor([0.4, 0.4, 1.5])[target, None] + 2 * torch.eye(3, 2)[target]
body, head, loss = nn.Sequential(nn.Linear(2, 32), nn.ReLU()), nn.Linear(32, 3), FeDLaS(num_classes=3)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters(), *loss.parameters()], lr=0.01)
for _ in range(200):
    features = body(inputs)
    value = loss(head(features), target, features)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
print(f"loss {value:.4f}, gradient of the gate {loss.gate[0].weight.grad.norm():.1e}")

# %%
# The strengths lie between 0 and twice ``alpha``, which a module keeps as one number.

with torch.no_grad():
    features = body(inputs)
    strengths = loss.strengths(head(features), features)
print(f"strengths {strengths.min():.3f} to {strengths.max():.3f}, alpha {loss.criterion.alpha}")
figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
points = axis.scatter(*inputs.T, c=strengths, s=8, cmap="viridis")
figure.colorbar(points, label="strength")
axis.set(title="strength of each sample", xlabel="first input", ylabel="second input")
plt.show()

# %%
# In evaluation the loss is plain cross-entropy, whatever the strengths.

loss.eval()
with torch.no_grad():
    print(f"{loss(head(features), target, features):.4f}", f"{nn.functional.cross_entropy(head(features), target):.4f}")
