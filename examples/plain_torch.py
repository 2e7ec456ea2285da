"""Plain PyTorch. The one changed line is the criterion:

    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)      # before
    criterion = MaxSupLoss(alpha=0.1)                         # after

Where the criterion is made out of reach, ``replace_label_smoothing(criterion)`` gives the same loss from the old one.
"""

import torch
from torch import Tensor, nn

from maxsup import MaxSupLoss


def blobs(num_samples: int, num_classes: int = 4) -> tuple[Tensor, Tensor]:
    """Overlapping clouds of points, one a class, so that some predictions stay wrong."""
    labels = torch.arange(num_samples) % num_classes
    centres = torch.randn(num_classes, 8, generator=torch.Generator().manual_seed(1))
    return 1.5 * centres[labels] + torch.randn(num_samples, 8), labels


def main(num_epochs: int = 10) -> list[float]:
    """The training loss of every step."""
    torch.manual_seed(0)
    inputs, labels = blobs(256)
    held_out_inputs, held_out_labels = blobs(256)
    network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    criterion = MaxSupLoss(alpha=0.1)  # the one changed line

    losses = []
    for epoch in range(num_epochs):
        criterion.train()
        for batch in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            loss = criterion(network(inputs[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        criterion.eval()  # plain cross-entropy: comparable between losses
        with torch.no_grad():
            held_out = criterion(network(held_out_inputs), held_out_labels)
        print(f"epoch {epoch}: training loss {losses[-1]:.3f}, held-out cross-entropy {held_out:.3f}")
    return losses


if __name__ == "__main__":
    main()
