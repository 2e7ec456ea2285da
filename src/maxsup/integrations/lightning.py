"""A Lightning callback that advances the schedule, evaluates with plain cross-entropy and logs the terms of the loss.

The loss itself is one line in the LightningModule: ``self.criterion = MaxSupLoss(alpha=Linear(0.1, 0.2))``.
"""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from maxsup.core.schedules import epoch_progress
from maxsup.integrations.checks import check_epochs, not_installed
from maxsup.integrations.logged_terms import LoggedTerms
from maxsup.losses.base import RegularizedLoss

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            raise not_installed("lightning") from None

__all__ = ["MaxSupCallback"]


class MaxSupCallback(Callback):
    """Run a MaxSup criterion in a Lightning ``Trainer``, from ``lightning.pytorch`` or ``pytorch_lightning``.

    It advances the schedule before every epoch and right after a checkpoint is restored. In validation, testing and
    prediction the criterion is plain cross-entropy, whatever its mode in the LightningModule. After every training
    epoch it logs the strength and the terms of label smoothing as ``maxsup/alpha``, ``maxsup/error_amplification`` and
    so on, and ends the epoch of a loss that learns from epochs (``ols``). It raises an error if the first training step
    does not call the loss.

    Args:
        criterion: Attribute of the LightningModule that holds the loss, dots allowed. Needed only if the module holds
            several losses.
        per_step: Advance with every optimiser step instead of every epoch.
        monitor: Log the terms, which takes a few small operations on the logits of every training batch. Batches with
            mixed labels (mixup, cutmix) have no single true class and are skipped, with one warning.

    Example:
        >>> callback = MaxSupCallback(per_step=True)  # Trainer(callbacks=[callback])
    """

    def __init__(self, criterion: str | None = None, *, per_step: bool = False, monitor: bool = True) -> None:
        super().__init__()
        self.criterion, self.per_step, self.monitor = criterion, per_step, monitor
        self._terms: LoggedTerms | None = None
        self._hook: RemovableHandle | None = None
        self._was_training = True
        self._has_been_called = False
        # Epochs or steps of this run, and of the run that wrote the checkpoint.
        self._num_units: int | None = None
        self._num_units_before: int | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Advance here too, because a run resumed in the middle of an epoch gets no ``on_train_epoch_start``."""
        loss = self._loss(pl_module)
        loss.train()  # Lightning keeps the mode it finds, and in evaluation mode the penalty would be off
        self._num_units = None if loss.schedule is None else self._counted_units(trainer, pl_module, loss)
        if None not in (self._num_units, self._num_units_before) and self._num_units != self._num_units_before:
            unit = "steps" if self.per_step else "epochs"
            warnings.warn(
                f"The checkpoint is from a run of {self._num_units_before} {unit} and this run has {self._num_units}: "
                "the schedule continues at the new progress.",
                UserWarning,
                stacklevel=2,
            )
        self._has_been_called = False
        self._terms = LoggedTerms(loss, monitor=self.monitor)
        self._hook = loss.register_forward_hook(self._count, with_kwargs=True)
        if trainer.global_step == 0:  # a checkpoint may be from the middle of an epoch, which must not end here
            loss.end_epoch()
        self._advance(trainer, loss)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Advance the schedule and reset the logged terms."""
        assert self._terms is not None
        self._terms.reset()
        self._advance(trainer, self._loss(pl_module))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Advance a schedule that moves with steps."""
        if self.per_step:
            self._advance(trainer, self._loss(pl_module))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop after the first step if it did not call the loss. A skipped step has no outputs and does not count."""
        is_skipped = pl_module.automatic_optimization and outputs in (None, {})
        if not self._has_been_called and not is_skipped:
            raise RuntimeError(
                f"the loss must be called in every training step; got no call in the first. Call the module, "
                f"not its forward, in training_step of {type(pl_module).__name__}, or leave MaxSupCallback out."
            )

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the strength and the terms of this epoch, and end the epoch of the loss."""
        assert self._terms is not None
        self._loss(pl_module).end_epoch()
        pl_module.log_dict(self._terms.collected(pl_module.device), rank_zero_only=False, sync_dist=False)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the hook from the criterion."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Remove the hook from the criterion after an error."""
        self.on_train_end(trainer, pl_module)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Switch the criterion to plain cross-entropy."""
        loss = self._loss(pl_module)
        self._was_training = loss.training
        loss.eval()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore the mode of the criterion."""
        self._loss(pl_module).train(self._was_training)

    # Lightning runs one of these at a time, so one saved mode is enough.
    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_validation_end

    def state_dict(self) -> dict[str, Any]:
        """Save the length of the run, which a resumed run should keep."""
        return {"num_units": self._num_units, "per_step": self.per_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the length of the run. Strengths follow from the trainer's counters."""
        if state_dict["per_step"] == self.per_step:
            self._num_units_before = state_dict["num_units"]

    def _loss(self, pl_module: LightningModule) -> RegularizedLoss:
        if self.criterion is not None:
            with suppress(AttributeError):
                found = attrgetter(self.criterion)(pl_module)
                if isinstance(found, RegularizedLoss):
                    return found
            raise ValueError(
                f"criterion must name a loss of maxsup on {type(pl_module).__name__}; got {self.criterion!r}. "
                "Pass the attribute that holds it, for instance criterion='criterion'."
            )
        losses = [module for module in pl_module.modules() if isinstance(module, RegularizedLoss)]
        if len(losses) != 1:
            raise ValueError(
                f"{type(pl_module).__name__} must hold one loss of maxsup; got {len(losses)}. "
                "Name it: MaxSupCallback(criterion='criterion')."
            )
        return losses[0]

    def _counted_units(self, trainer: Trainer, pl_module: LightningModule, loss: RegularizedLoss) -> int:
        """Return the number of epochs, or of optimiser steps, of the whole run."""
        if not self.per_step:
            num_epochs = _num_epochs(trainer, pl_module)
            if not getattr(trainer, "fast_dev_run", False):
                fix = "Set max_epochs on the Trainer, or use MaxSupCallback(per_step=True)."
                check_epochs(loss.schedule, num_epochs, fix)
            return num_epochs or 1
        if not pl_module.automatic_optimization:
            raise ValueError(
                "per_step must be off with manual optimization, whose steps the trainer cannot foresee; got True. "
                "Advance the schedule by epochs."
            )
        num_steps = trainer.estimated_stepping_batches
        if not 0 < num_steps < math.inf:
            raise ValueError(
                f"the number of steps must be known for per_step=True; got {num_steps!r}. "
                "Set max_steps, or max_epochs with data of known length."
            )
        return int(num_steps)

    def _advance(self, trainer: Trainer, loss: RegularizedLoss) -> None:
        if self._num_units is not None:
            unit = trainer.global_step if self.per_step else trainer.current_epoch
            loss.set_progress(min(epoch_progress(unit, self._num_units), 1.0))

    def _count(self, loss: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        if loss.training and self._terms is not None:
            self._has_been_called = True
            given = dict(zip(("input", "target"), args, strict=False)) | kwargs
            self._terms.update(given["input"], given["target"])


def _num_epochs(trainer: Trainer, pl_module: LightningModule) -> int | None:
    """Return the number of epochs of a run, or None if unknown. ``max_steps`` may end it before ``max_epochs``."""
    num_epochs = trainer.max_epochs if (trainer.max_epochs or -1) > 0 else None
    if trainer.max_steps < 0 or not pl_module.automatic_optimization:  # manual steps cannot be foreseen
        return num_epochs
    num_batches = trainer.num_training_batches
    if math.isinf(num_batches):
        return None
    in_steps = math.ceil(trainer.max_steps / max(math.ceil(num_batches / trainer.accumulate_grad_batches), 1))
    return in_steps if num_epochs is None else min(num_epochs, in_steps)
