"""The training loop: :func:`fit` holds the order of time, :class:`Trainer` what happens at each of its moments.

Models, data and losses are known by their interfaces, never by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from maxsup.core.errors import Interruption
from maxsup.core.schedules import epoch_progress
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data import Batch, DataBundle, Pipeline, Split
from maxsup.lab.tasks import TASKS
from maxsup.lab.training.builders import check_last_batch, freeze_statistics, split_pipeline, synchronise_norms
from maxsup.lab.training.ledger import ReadStep, StepLedger, TakenStep, step_numbers
from maxsup.lab.training.loss_inputs import Needs, check_teacher
from maxsup.lab.training.nonfinite import raise_nonfinite
from maxsup.lab.training.optimization import MovingAverage, create_optimizer, learning_rate, take_step
from maxsup.lab.training.processes import create_accelerator, prepare_buffers, share_buffers
from maxsup.lab.training.progress import Clock, EpochMeter
from maxsup.lab.training.reading import load_teacher
from maxsup.losses import RegularizedLoss
from maxsup.monitor import DecompositionMonitor


@dataclass
class Position:
    """Where training is: finished epochs, finished steps of the current one, all steps, and the best epoch so far."""

    epoch: int = 0
    step: int = 0
    global_step: int = 0
    best: str = ""
    best_epoch: int | None = None
    best_score: float = -1.0


class Observer:
    """What looks on while a :class:`Trainer` trains: files, signals, a display.

    Every method does nothing here. An observer may raise, but must not change what is computed.
    """

    def on_epoch_start(self, trainer: Trainer) -> None:
        """Note that an epoch begins, or goes on at the position of the trainer."""

    def on_step(self, trainer: Trainer) -> None:
        """Note that a step is over."""

    def on_evaluated_batch(self, trainer: Trainer) -> None:
        """Note that a batch is evaluated; never called where there are several processes."""

    def on_epoch_end(self, trainer: Trainer, line: dict[str, Any]) -> None:
        """Note the numbers of an epoch that is validated and closed."""

    def on_nonfinite(self, trainer: Trainer, found: dict[str, Any]) -> None:
        """Note where the loss or its gradient became nan or infinite, before the trainer raises."""

    def on_interruption(self, trainer: Trainer) -> None:
        """Note that training stops here."""


def fit(trainer: Trainer) -> None:
    """Train the epochs that remain, and tell the observers what has happened."""
    at, observers = trainer.position, trainer.observers
    try:
        while at.epoch < trainer.recipe.epochs:
            trainer.start_epoch()
            for observer in observers:
                observer.on_epoch_start(trainer)
            for batch in trainer.remaining_batches():
                trainer.step(batch)
                for observer in observers:
                    observer.on_step(trainer)
            trainer.settle()
            val = trainer.validate()
            line = trainer.end_epoch(val)
            for observer in observers:
                observer.on_epoch_end(trainer, line)
    except Interruption:
        for observer in observers:
            observer.on_interruption(trainer)
        raise


class Trainer:
    """Trains one model by :func:`fit`; ``position`` is that of the last finished step.

    Args:
        recipe: The settings, with resolved preprocessing.
        bundle: The data.
        model: The network, which is moved to the device.
        criterion: The loss.
        accelerator: Device and processes; made from the recipe if not given.
        observers: Told by :func:`fit` what happens, in this order.
        bad_files: Where training images that cannot be read are listed.
    """

    def __init__(
        self,
        recipe: Recipe,
        bundle: DataBundle,
        model: nn.Module,
        criterion: RegularizedLoss,
        *,
        accelerator: Accelerator | None = None,
        observers: Sequence[Observer] = (),
        bad_files: Path | None = None,
    ) -> None:
        self.recipe, self.bundle, self.observers = recipe, bundle, tuple(observers)
        self.task = TASKS[bundle.task]
        self.accelerator = accelerator or create_accelerator(recipe)
        device, num_processes = self.accelerator.device, self.accelerator.num_processes
        check_last_batch(recipe, bundle, num_processes)
        # Most networks have no second head.
        self.auxiliary_weight: float = getattr(model, "auxiliary_weight", 0.0)
        self.model = synchronise_norms(model, recipe, device, num_processes).to(device)
        self.task.prepare(criterion)
        self.criterion = criterion.to(device).train()
        self.criterion.end_epoch()  # losses that learn from whole epochs need this before the first one
        self.optimizer = create_optimizer(self.model, recipe.optimizer)
        compiled = torch.compile(self.model) if recipe.compile else self.model
        prepare_buffers(self.accelerator, self.model)
        self._forward, self._stepper = self.accelerator.prepare(compiled, self.optimizer)
        self.ema = MovingAverage(self.model, recipe.ema.decay) if recipe.ema.decay else None
        check_teacher(recipe.teacher, recipe.loss.name, self.criterion.needs)
        teacher = None if recipe.teacher is None else load_teacher(recipe.teacher, bundle).to(device)
        self.needs = Needs(self.criterion.needs, teacher)
        self._bad_files = bad_files if self.accelerator.is_main_process else None
        self.batches = self.pipeline(bundle.train, is_training=True)
        self.val_batches = self.pipeline(bundle.val) if len(bundle.val) else None
        self.position = Position()
        self.ledger = StepLedger(device, num_processes)
        self._has_broken = torch.zeros((), dtype=torch.bool, device=device)
        self.agreed_signal = 0
        self.meter = EpochMeter()
        self.monitor = DecompositionMonitor.of(self.criterion)
        self.clock = Clock()

    @property
    def evaluated_model(self) -> nn.Module:
        """The weights of the run: the moving average if the recipe evaluates it, else the weights that train."""
        return self.ema.model if self.ema is not None and self.recipe.ema.is_evaluated else self.model

    def pipeline(self, split: Split, *, is_training: bool = False) -> Pipeline:
        """Make the batches of this process's part of a split."""
        share = {"rank": self.accelerator.process_index, "world_size": self.accelerator.num_processes}
        bad_files = self._bad_files
        return split_pipeline(self.recipe, self.bundle, split, is_training=is_training, bad_files=bad_files, **share)

    def start_epoch(self) -> None:
        """Set clock and network up for the epoch of the position, which may be under way already."""
        if self.position.step == 0:
            self.clock.start_epoch()
        self._forward.train()
        if self.recipe.batchnorm == "frozen":
            freeze_statistics(self.model)

    def remaining_batches(self) -> Iterator[Batch]:
        """Yield the batches of the epoch from the position on."""
        if self.position.step >= self.batches.num_batches:
            return
        batches = self.batches.epoch(self.position.epoch, self.position.step, self.accelerator.device)
        while True:
            with self.clock.phase("data"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def step(self, batch: Batch) -> None:
        """Take one optimiser step, count it, and read the numbers of the one before."""
        with self.clock.phase("step"):
            self._set_position_dependents()
            # Gradients of the processes are averaged, so each process divides by its share of all targets.
            num_items = self.ledger.begin(self._num_items(batch.target)) / self.accelerator.num_processes
            numbers = self._update(batch, num_items)
            at = self.position
            read = self.ledger.end(TakenStep(at.epoch, at.step, at.global_step, batch, numbers))
        self.position.step += 1
        self.position.global_step += 1
        self.clock.num_images += len(batch) * self.accelerator.num_processes
        with self.clock.phase("log"):
            self._note(read)

    def settle(self) -> None:
        """Read what is not read yet: before anything is saved, validated or ended. Every process must call this."""
        with self.clock.phase("step"):
            read = self.ledger.settle()
        self._note(read)

    def validate(self) -> dict[str, Any] | None:
        """Return the numbers of the validation split; None if there is none."""
        if self.val_batches is None:
            return None
        share_buffers(self.accelerator, self.model, *([] if self.ema is None else [self.ema.model]))
        return self.evaluate(self.val_batches, "val")

    def evaluate(self, batches: Pipeline, split: str) -> dict[str, Any]:
        """Return the numbers of a split with the weights of the run."""
        is_alone = self.accelerator.num_processes == 1
        with self.clock.phase("validation"):
            return self.task.evaluate(
                self.recipe,
                self.evaluated_model,
                batches,
                num_classes=self.bundle.num_classes,
                split=split,
                is_sharded=not is_alone,
                # Processes may have different numbers of batches here, so they cannot agree on where to stop.
                on_batch=self._tell_evaluated if is_alone else None,
            )

    def end_epoch(self, val: dict[str, Any] | None) -> dict[str, Any]:
        """Close the epoch with its validation numbers; return its line for ``metrics.jsonl``.

        If it is the best so far, it becomes the ``best_epoch`` of the position.
        """
        self.monitor.sync(self.accelerator.device)
        line = {
            "epoch": self.position.epoch,
            "step": self.position.global_step,
            "lr": self._learning_rate(self.position.step - 1),
            "alpha": self.criterion.current_strength,
            "train": self.meter.sum_over_processes(self.accelerator.device).means(),
            "val": val,
            "decomposition": self.monitor.compute(),
        }
        self.criterion.end_epoch()
        score = -1.0 if val is None else val[self.task.main_number]
        if score > self.position.best_score:
            self.position.best_score, self.position.best_epoch = score, self.position.epoch
            self.needs.set_teacher(self.evaluated_model)
        self.position.epoch += 1
        self.position.step = 0
        self.meter = EpochMeter()
        self.monitor.reset()
        return line

    def _tell_evaluated(self) -> None:
        for observer in self.observers:
            observer.on_evaluated_batch(self)

    def _note(self, read: ReadStep | None) -> None:
        """Count a step whose numbers have come."""
        if read is None:
            return
        if read.num_bad_losses or read.num_bad_gradients:
            raise_nonfinite(self, read)
        self.agreed_signal = read.signal_number
        self.meter.add(read.meter)

    def _update(self, batch: Batch, num_items: Tensor) -> Tensor:
        """Take an optimiser step over this process's part of a global batch, accumulated over pieces.

        Nothing here waits for the device.
        """
        labels = batch.labels
        divisor = num_items.where(num_items > 0, 1.0)  # masks may leave a whole batch without a label
        self._stepper.zero_grad(set_to_none=True)
        loss, num_correct = torch.zeros(2, device=labels.device)
        num_labels = (labels != self.criterion.ignore_index).sum().to(loss)
        logits = []
        pieces = self.pieces(batch)
        for index, (piece, piece_target, piece_labels) in enumerate(pieces, start=1):
            with nullcontext() if index == len(pieces) else self.accelerator.no_sync(self._forward):
                value, output = self._objective(piece, piece_target, divisor)
                # One process with a loss that is no number makes the gradient of all processes nan, so that all of
                # them leave the weights alone, and go on to do so.
                is_sound = value.detach().isfinite() & ~self._has_broken
                self.accelerator.backward(value, gradient=torch.ones_like(value).where(is_sound, torch.nan))
            loss += value.detach()
            num_correct += (output.argmax(dim=1) == piece_labels).sum()
            logits.append(output)
        is_scaled = self.recipe.precision == "float16"
        numbers = step_numbers(loss, num_items, num_correct, num_labels, self._clipped_norm(), is_scaled=is_scaled)
        self._has_broken = self._has_broken | (numbers[-2:] > 0).any()
        # A moving average may have taken in the same weights once more when training stops; it is not saved then.
        if take_step(self._stepper, self.optimizer, self._has_broken) and self.ema is not None:
            self.ema.update(self.model)
        seen = self.task.monitored
        watched = torch.cat([part[seen] for part in logits])
        self.monitor.update(watched, labels[seen], alpha=getattr(self.criterion, "alpha", 1.0))
        return numbers

    def pieces(self, batch: Batch) -> list[tuple[Tensor, ...]]:
        """Return images, target and labels of each of the parts that gradients are accumulated over."""
        parts = (batch.images, batch.target, batch.labels)
        return list(zip(*(part.chunk(self.recipe.num_pieces) for part in parts), strict=True))

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits of the network in its present mode."""
        if self.auxiliary_weight:
            return self._forward(images, with_auxiliary=True)[0]
        return self.needs.forward(self._forward, images)[0]

    def _objective(self, images: Tensor, target: Tensor, num_items: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of a piece, and its detached logits."""
        if self.auxiliary_weight:
            logits, second = self._forward(images, with_auxiliary=True)
            main, other = (self.criterion(each, target, num_items=num_items) for each in (logits, second))
            return main + self.auxiliary_weight * other, logits.detach()
        logits, extras = self.needs.forward(self._forward, images)
        return self.criterion(logits, target, num_items=num_items, **extras), logits.detach()

    def _set_position_dependents(self) -> None:
        """Set everything that depends on the position: learning rate, alpha and random numbers."""
        recipe, at = self.recipe, self.position
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate(at.step)
        if recipe.alpha_per_step:
            last = max(recipe.epochs * self.batches.num_batches - 1, 1)
            self.criterion.set_progress((at.epoch * self.batches.num_batches + at.step) / last)
        else:
            self.criterion.set_progress(epoch_progress(at.epoch, recipe.epochs))
        self.seed(at.epoch, at.step)

    def seed(self, epoch: int, step: int) -> None:
        """Make the random numbers of a step the next that are drawn."""
        seed = mixed_seed(self.recipe.seed, "step", epoch, step, self.accelerator.process_index)
        # torch.manual_seed seeds every kind of device, and formats a stack trace for each that is not in use yet.
        torch.default_generator.manual_seed(seed)
        if self.accelerator.device.type != "cpu":
            torch.get_device_module(self.accelerator.device).manual_seed(seed)

    def _learning_rate(self, step: int) -> float:
        """Return the learning rate at a step of the current epoch."""
        recipe, at = self.recipe, (self.position.epoch, step / self.batches.num_batches)
        return learning_rate(recipe.optimizer, recipe.schedule, recipe.epochs, *at, recipe.steps_per_epoch)

    def _num_items(self, target: Tensor) -> Tensor:
        """Return the denominator of the loss for these targets."""
        if target.is_floating_point():
            # A tensor made from a number here would have to be copied.
            return torch.full((), float(len(target)), device=target.device)
        # Selecting the targets that count would make the host wait for their number.
        is_counted = target != self.criterion.ignore_index
        if self.criterion.weight is None:
            return is_counted.sum().float()
        return self.criterion.weight[target.where(is_counted, 0)].where(is_counted, 0.0).sum()

    def _clipped_norm(self) -> Tensor:
        """Clip the gradient if the recipe says so; return its norm before that."""
        if self.recipe.clip_norm is not None:
            return self.accelerator.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        if self.recipe.precision == "float16":
            self.accelerator.unscale_gradients(self._stepper)
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
