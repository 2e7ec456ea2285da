"""A next-token head on Liger's fused kernel with MaxSup: the logits of the batch are never held.

The changed line is `criterion = LigerMaxSupLoss(alpha=0.1)`, in place of
`LigerFusedLinearCrossEntropyLoss(label_smoothing=0.1)`; it takes hidden states, weight, target as torch orders them.
Without a GPU the kernel runs, slowly, on the interpreter of Triton; `maxsup.losses.LinearMaxSupLoss` needs neither.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

from torch import nn

from maxsup.integrations.liger import LigerMaxSupLoss

VOCABULARY, LENGTH, WIDTH = 20, 6, 16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def texts(num_samples: int) -> torch.Tensor:
    """Rows that count upwards."""
    start = torch.randint(VOCABULARY, (num_samples, 1))
    return (start + torch.arange(LENGTH)) % VOCABULARY


def main(num_steps: int = 12) -> list[float]:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Tanh()).to(DEVICE)
    head = nn.Linear(WIDTH, VOCABULARY).to(DEVICE)
    criterion = LigerMaxSupLoss(alpha=0.1)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.05)
    losses = []
    for _ in range(num_steps):
        tokens = texts(4).to(DEVICE)
        target = tokens[:, 1:].clone()
        target[0, :2] = -100  # a prompt that is not learnt
        hidden = body(tokens[:, :-1])
        loss = criterion(hidden.flatten(0, 1), head.weight, target.flatten(), bias=head.bias)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
