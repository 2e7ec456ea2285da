"""A LightningModule of a dozen weights, data for it and a quiet Trainer."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from maxsup import MaxSupLoss
from maxsup.schedules import Linear

pl = pytest.importorskip("lightning.pytorch", reason="the extra lightning is not installed")

from maxsup.integrations.lightning import MaxSupCallback  # noqa: E402, F401 - after the check, for all tests

NUM_EPOCHS = 3
NUM_BATCHES = 4


class Classifier(pl.LightningModule):
    """A linear classifier that remembers the strength of every training step."""

    def __init__(self, alpha: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Linear(4, 3)
        self.criterion = MaxSupLoss(Linear(0.1, 0.2) if alpha is None else alpha)
        self.alphas: list[tuple[int, float]] = []
        self.validation_losses: list[tuple[float, float]] = []

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        self.alphas.append((self.current_epoch, self.criterion.alpha))
        return self.criterion(self.network(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        logits = self.network(batch[0])
        self.validation_losses.append(
            (self.criterion(logits, batch[1]).item(), F.cross_entropy(logits, batch[1]).item())
        )

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def batches(is_mixed: bool = False) -> DataLoader:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(8 * NUM_BATCHES, 4, generator=generator)
    labels = torch.randint(3, (len(inputs),), generator=generator)
    target = 0.7 * F.one_hot(labels, 3) + 0.3 * F.one_hot(labels.flip(0), 3) if is_mixed else labels
    return DataLoader(TensorDataset(inputs, target), batch_size=8)


def trainer(*callbacks: Any, library: Any = pl, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    defaults = {"max_epochs": NUM_EPOCHS, "accelerator": "cpu", "logger": False, "num_sanity_val_steps": 0}
    return library.Trainer(callbacks=list(callbacks), **(quiet | defaults | options))
