"""Lightning. The changed lines are the criterion in the LightningModule and one callback:

self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)          # before
self.criterion = MaxSupLoss(alpha=Linear(0.1, 0.2))                # after
trainer = Trainer(callbacks=[MaxSupCallback()])                    # advances the schedule, keeps validation plain
"""

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from maxsup import MaxSupLoss
from maxsup.integrations.lightning import MaxSupCallback
from maxsup.schedules import Linear


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
        self.criterion = MaxSupLoss(alpha=Linear(0.1, 0.2))  # the one changed line
        self.losses: list[float] = []

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = self.criterion(self.network(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True)
        return loss

    def on_train_batch_end(self, *args: object) -> None:
        self.losses.append(self.trainer.callback_metrics["loss"].item())

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        self.log("val_loss", self.criterion(self.network(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main(num_epochs: int = 5, **trainer_options: object) -> list[float]:
    """The training loss of every step, as Lightning logs it."""
    pl.seed_everything(0, verbose=False)
    labels = torch.arange(256) % 4
    inputs = 1.5 * torch.randn(4, 8)[labels] + torch.randn(256, 8)
    data = TensorDataset(inputs, labels)
    model = Classifier()
    quiet = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = pl.Trainer(max_epochs=num_epochs, callbacks=[MaxSupCallback()], **(quiet | trainer_options))
    trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True), DataLoader(data, batch_size=64))
    logged = {name: round(value.item(), 3) for name, value in sorted(trainer.callback_metrics.items())}
    print(f"loss {model.losses[0]:.3f} -> {model.losses[-1]:.3f}; {logged}")
    return model.losses


if __name__ == "__main__":
    main()
