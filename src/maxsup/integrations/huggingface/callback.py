"""A ``Trainer`` callback that advances the schedule of a loss, checks that the loss is used, and logs its terms."""

from __future__ import annotations

import sys
import warnings
from typing import Any, ClassVar

from torch import Tensor

from maxsup.integrations.checks import check_epochs, not_installed
from maxsup.integrations.logged_terms import LoggedTerms
from maxsup.losses import RegularizedLoss
from maxsup.schedules import epoch_progress

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise not_installed("huggingface", "transformers 4.46 or newer", "hf") from error


class WatchedLoss:
    """Base class of losses that a callback can watch."""

    # What to do if the loss is not used.
    unused: ClassVar[str]

    def __init__(self, criterion: RegularizedLoss) -> None:
        self.criterion = criterion
        self.terms: LoggedTerms | None = None
        self.num_training_calls = 0
        self.num_targets: float | Tensor | None = None

    def callback(self, *, per_step: bool = False, monitor: bool = True) -> TrainerLossCallback:
        """Return the callback of this loss. See :class:`TrainerLossCallback` for the options."""
        return TrainerLossCallback(self, per_step=per_step, monitor=monitor)

    def attach(self, model: Any, args: Any) -> None:
        """Read settings from the model and the arguments, and refuse arguments that would be ignored."""
        if args.label_smoothing_factor > 0:
            factor = args.label_smoothing_factor
            raise ValueError(
                "label_smoothing_factor must be 0, because the loss takes its place and Trainer would ignore it; got "
                f"{factor!r}. Remove it, or use TrainerLoss('ls', alpha={factor!r})."
            )

    def begin(self, model: Any, args: Any) -> None:
        """Attach when training begins, and refuse Liger's fused loss, which TRL has switched off by then."""
        self.attach(model, args)
        liger = getattr(args, "liger_kernel_config", None) or {}
        if getattr(args, "use_liger_kernel", False) and liger.get("fused_linear_cross_entropy", True):
            raise ValueError(
                "use_liger_kernel must not replace the loss; got True, whose fused head would never see the labels. "
                "Add liger_kernel_config={'fused_linear_cross_entropy': False, 'cross_entropy': False}."
            )

    def counted(self, num_items: int | Tensor) -> int | Tensor:
        """Return the denominator of a training call from Trainer's count, and add the count to the next log."""
        self.num_targets = num_items if self.num_targets is None else self.num_targets + num_items
        # A step without targets must add 0: dividing by 0 would make the weights nan, which Trainer logs as 0.
        return num_items.clamp(min=1) if isinstance(num_items, Tensor) else max(num_items, 1)


class TrainerLossCallback(TrainerCallback):
    """Advance the schedule of a loss, log its strength and its terms, and check that the loss is used.

    Progress is computed from the epoch or step in the state of ``Trainer``, so a resumed run continues with the
    strength of an uninterrupted one. Every log of the training loss gets ``maxsup/alpha`` (the strength under its own
    name) and the terms of label smoothing since the last log, ``maxsup/wrong_share`` and so on.

    Args:
        loss: The loss that this callback belongs to.
        per_step: Advance with every optimiser step instead of every epoch.
        monitor: Log the terms. Batches with many logits are sampled by rows.
    """

    def __init__(self, loss: WatchedLoss, *, per_step: bool = False, monitor: bool = True) -> None:
        self.loss = loss
        self.per_step = per_step
        self.has_monitor = monitor

    def on_init_end(self, args: Any, state: Any, control: Any, *, model: Any = None, **others: Any) -> None:
        """Refuse arguments that conflict with the loss when the Trainer is created."""
        self.loss.attach(model, args)

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: Any = None, **others: Any) -> None:
        """Attach to the trained model and reset all counts."""
        self.loss.begin(model, args)
        self.loss.num_training_calls = 0
        self.loss.num_targets = None
        self.loss.terms = LoggedTerms(self.loss.criterion, monitor=self.has_monitor)
        if not self.per_step:
            # For data without a length, Trainer sets num_train_epochs to sys.maxsize.
            num_epochs = None if state.num_train_epochs >= sys.maxsize else state.num_train_epochs
            check_epochs(self.loss.criterion.schedule, num_epochs, "Use loss.callback(per_step=True).")

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Advance a schedule that moves with epochs."""
        if not self.per_step:
            self.loss.criterion.set_progress(epoch_progress(int(state.epoch or 0), state.num_train_epochs))

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Advance a schedule that moves with steps."""
        if self.per_step:
            self.loss.criterion.set_progress(epoch_progress(state.global_step, state.max_steps))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Stop before the first update if the loss has not been called."""
        if self.loss.num_training_calls == 0:
            raise RuntimeError(
                f"the loss must be called in every training step; got no call in the first. {self.loss.unused}"
            )

    # Also checked here, for a Trainer that sends no earlier event.
    on_step_end = on_pre_optimizer_step

    def on_log(self, args: Any, state: Any, control: Any, *, logs: dict[str, Any] | None = None, **others: Any) -> None:
        """Add the strength and the terms to a log of the training loss."""
        if logs is None or "loss" not in logs or self.loss.terms is None:
            return
        terms = self.loss.terms.collected(args.device)
        if self.loss.num_targets is not None and self.loss.num_targets == 0:
            warnings.warn(
                "No label counted since the last log: all of them are -100, so nothing is learnt. Check how labels are "
                "masked and truncated.",
                UserWarning,
                stacklevel=2,
            )
        self.loss.num_targets = None
        logs.update(terms)
        # Trainer has stored a copy of the log before it calls this.
        if state.log_history:
            state.log_history[-1].update(terms)
