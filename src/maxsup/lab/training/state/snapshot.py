"""Saving and restoring a trainer, so that a resumed run is bit-equal to an uninterrupted one.

Learning rate, alpha, random numbers and data order are functions of the position; weights, optimiser, moving average,
the state of the loss and the running sums are saved. Each process keeps its own sums until the epoch ends, so a
checkpoint inside an epoch has one set per process; if another number of processes goes on, the main one gets the total.
The teacher is the best checkpoint itself.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, fields
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import nn

from maxsup.core.errors import DataError
from maxsup.lab.core.files.reading import as_written, read_json_lines
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.training.loop import Position, Trainer
from maxsup.lab.training.progress import EpochMeter
from maxsup.lab.training.state import checkpoint


def save(trainer: Trainer, run: RunDir, *, is_best: bool = False) -> None:
    """Write a checkpoint of the trainer into its run; every process must call it, and the main one writes."""
    trainer.settle()
    with trainer.clock.phase("checkpoint"):
        loss, monitor = trainer.criterion.state_dict(), trainer.monitor.state_dict()
        own = checkpoint.with_prefix("loss", loss) | checkpoint.with_prefix("monitor", monitor)
        on_cpu = {name: tensor.cpu() for name, tensor in own.items()}  # what is sent to the main process
        shares = gather_object([(on_cpu, asdict(trainer.meter))])
        name = run.new_checkpoint_name(trainer.position.global_step)
        if is_best or trainer.position.best_epoch is None:
            trainer.position.best = name
        if not trainer.accelerator.is_main_process:
            return
        tensors = checkpoint.with_prefix("optimizer", checkpoint.optimizer_tensors(trainer.optimizer))
        if (other := _other_model(trainer)) is not None:
            tensors |= checkpoint.with_prefix("other_weights", other.state_dict())
        for rank, (own, _) in enumerate(shares):
            tensors |= checkpoint.with_prefix(f"rank{rank}", own)
        values = asdict(trainer.position) | {
            "meters": [meter for _, meter in shares],
            "num_processes": trainer.accelerator.num_processes,
            "data": _fingerprint(trainer),
            "clock": trainer.clock.state(),
            "scaler": trainer.accelerator.scaler.state_dict() if trainer.accelerator.scaler else None,
        }
        for path in (run.metrics, run.timing):
            run.require_lines(path, trainer.position.epoch)
        files = checkpoint.pack_checkpoint(trainer.evaluated_model.state_dict(), tensors, values)
        run.save_checkpoint(name, trainer.position.best, files)


def restore(trainer: Trainer, run: RunDir) -> bool:
    """Restore the last checkpoint of the run; return False if there is none."""
    accelerator = trainer.accelerator
    if accelerator.is_main_process:
        run.recover()
    accelerator.wait_for_everyone()
    folder = run.newest()
    if folder is None:
        _undo_lines(trainer, run)
        return False
    weights, tensors, values = checkpoint.unpack_checkpoint(folder)
    with as_written(folder / "state.json"):
        _check(trainer, values)
        position = Position(**{field.name: values[field.name] for field in fields(Position)})
        own, meter = _own_share(trainer, tensors, values, accelerator.process_index)
    if (other := _other_model(trainer)) is not None:
        checkpoint.load_weights(other, checkpoint.under_prefix("other_weights", tensors), folder)
    checkpoint.load_weights(trainer.evaluated_model, weights, folder)
    checkpoint.restore_optimizer(trainer.optimizer, checkpoint.under_prefix("optimizer", tensors))
    trainer.criterion.load_state_dict(checkpoint.under_prefix("loss", own))
    trainer.monitor.load_state_dict(checkpoint.under_prefix("monitor", own))
    trainer.meter, trainer.position = meter, position
    if position.best_epoch is not None and trainer.needs.is_own_teacher:
        path, best = run.weights("best"), copy.deepcopy(trainer.evaluated_model)
        checkpoint.load_weights(best, checkpoint.read_tensors(path), path)
        trainer.needs.set_teacher(best)
    trainer.clock.restore(values["clock"])
    if values["scaler"]:
        trainer.accelerator.scaler.load_state_dict(values["scaler"])
    _undo_lines(trainer, run)
    return True


def _undo_lines(trainer: Trainer, run: RunDir) -> None:
    """Remove the lines of epochs that had ended but were not saved yet."""
    if trainer.accelerator.is_main_process:
        for path in (run.metrics, run.timing):
            # Otherwise damage would only be noticed after the last epoch.
            run.check(path)
            run.truncate(path, trainer.position.epoch)
            read_json_lines(path)


def _other_model(trainer: Trainer) -> nn.Module | None:
    """Return the one of model and moving average that is not evaluated."""
    if trainer.ema is None:
        return None
    return trainer.model if trainer.recipe.ema.is_evaluated else trainer.ema.model


def _fingerprint(trainer: Trainer) -> dict[str, Any]:
    """Return size and normalisation of the data; evaluation on other data needs the latter."""
    bundle = trainer.bundle
    return {
        "num_train": len(bundle.train),
        "num_val": len(bundle.val),
        "num_classes": bundle.num_classes,
        "mean": list(bundle.mean),
        "std": list(bundle.std),
    }


def _check(trainer: Trainer, values: dict[str, Any]) -> None:
    if values["data"] != _fingerprint(trainer):
        raise DataError(
            f"data must be what the run began with, {values['data']}; got {_fingerprint(trainer)}. "
            "Restore the files or start anew in another output.",
            code="data-changed",
        )


def _own_share(
    trainer: Trainer, tensors: checkpoint.Tensors, values: dict[str, Any], rank: int
) -> tuple[checkpoint.Tensors, EpochMeter]:
    """Return what a process has counted in the epoch: what it saved, or a share of what other processes saved."""
    num_saved = int(values["num_processes"])
    saved = [checkpoint.under_prefix(f"rank{each}", tensors) for each in range(num_saved)]
    own, meter = dict(saved[min(rank, num_saved - 1)]), EpochMeter(**values["meters"][min(rank, num_saved - 1)])
    if not values["step"] or num_saved == trainer.accelerator.num_processes:
        return own, meter
    meter = EpochMeter()
    for each in values["meters"] if rank == 0 else ():
        meter.add(EpochMeter(**each))
    counted = {f"loss/{name}" for name in trainer.criterion.counted}
    for name in [name for name in own if name in counted or name.startswith("monitor/")]:
        total = torch.stack([share[name] for share in saved]).sum(dim=0)
        own[name] = total if rank == 0 else torch.zeros_like(total)
    return own, meter
