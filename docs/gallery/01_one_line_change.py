"""
The one-line change
===================

A training loop stays as it is; one line of it changes. Here is the loop of a small network on scikit-learn's digits,
once with torch's label smoothing and once with MaxSup.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import maxsup

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
train_images, train_labels = images[:1200], labels[:1200]
test_images, test_labels = images[1200:], labels[1200:]


def train(criterion, num_epochs=30):
    """Test accuracy and test loss after every epoch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    history = []
    for _ in range(num_epochs):
        criterion.train()
        for batch in torch.randperm(len(train_images)).split(64):
            optimizer.zero_grad()
            criterion(model(train_images[batch]), train_labels[batch]).backward()
            optimizer.step()
        criterion.eval()
        with torch.no_grad():
            logits = model(test_images)
        accuracy = (logits.argmax(dim=1) == test_labels).float().mean()
        history.append((accuracy.item(), criterion(logits, test_labels).item()))
    return history


# %%
# This is the line. The strength keeps its number, and its name becomes ``alpha``.

before = nn.CrossEntropyLoss(label_smoothing=0.1)
after = maxsup.MaxSupLoss(alpha=0.1)

histories = {"label smoothing": train(before), "MaxSup": train(after)}
for name, history in histories.items():
    print(f"{name:16} test accuracy {history[-1][0]:.1%}, loss that criterion.eval() reports {history[-1][1]:.3f}")

# %%
# The accuracies are close, as one expects on a set that is learnt almost without errors: on correct predictions the
# two losses are the same. The reported losses are not comparable. After ``criterion.eval()`` MaxSup is plain
# cross-entropy, so that a validation loss says something about the network. Torch's criterion has no such mode and
# reports its training objective.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for (name, history), colour in zip(histories.items(), ("#d97706", "#0b62a3"), strict=True):
    accuracies, losses = zip(*history, strict=True)
    left.plot(accuracies, color=colour, label=name)
    right.plot(losses, color=colour, label=name)
left.set(title="test accuracy", xlabel="epoch", ylim=(0.8, 1))
right.set(title="what the criterion reports on test", xlabel="epoch", ylim=(0, None))
left.legend(frameon=False)
plt.show()

# %%
# Code that somebody else wrote may hide the line. ``replace_label_smoothing`` finds the criterion's smoothing and
# returns the MaxSup loss that replaces it, with the same weights, ignored label and reduction.

from maxsup.integrations import replace_label_smoothing

print(replace_label_smoothing(nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=255)))
