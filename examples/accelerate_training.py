"""A loop of one's own with Accelerate, accumulation and MaxSup; runs alone or with
`torchrun --nproc_per_node 2 examples/accelerate_training.py`, and reports the same losses.

The changed lines are the criterion, `set_progress` and `num_items`: DDP averages the gradients of its processes, so the
denominator of each is the number of targets in the whole step, divided by the number of processes.
"""

from contextlib import nullcontext
from itertools import islice

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from maxsup import MaxSupLoss
from maxsup.schedules import Linear, epoch_progress

NUM_CLASSES, ACCUMULATION = 4, 2


def data(num_samples: int) -> TensorDataset:
    """Points around a centre for each class; some have no label."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(NUM_CLASSES, (num_samples,), generator=generator)
    points = 3 * nn.functional.one_hot(labels, 8) + torch.randn(num_samples, 8, generator=generator)
    return TensorDataset(points, labels.masked_fill(torch.rand(num_samples, generator=generator) < 0.2, -100))


def main(num_epochs: int = 3) -> list[float]:
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, NUM_CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(128), batch_size=8))
    criterion = MaxSupLoss(Linear(0.1, 0.2))
    accelerator.register_for_checkpointing(criterion)  # save_state keeps the progress of its schedule
    losses = []
    for epoch in range(num_epochs):
        criterion.set_progress(epoch_progress(epoch, num_epochs))
        batches = iter(loader)
        while step := list(islice(batches, ACCUMULATION)):
            num_items = accelerator.reduce(torch.stack([(labels != -100).sum() for _, labels in step]).sum())
            total = torch.zeros(())
            for points, labels in step:
                with nullcontext() if labels is step[-1][1] else accelerator.no_sync(model):
                    loss = criterion(model(points), labels, num_items=num_items / accelerator.num_processes)
                    accelerator.backward(loss)
                    total += loss.detach()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(accelerator.reduce(total, "mean").item())
    return losses


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
