"""Saving a trainer and bringing it back, so that going on is bit-equal to never having stopped.

Learning rate, alpha, random numbers and data order are functions of the position; weights, optimiser, moving average,
the state of the loss and the running sums are saved. Each process keeps its own sums until the epoch ends, so a
checkpoint inside an epoch has one set a process. The teacher is the best checkpoint itself.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from maxsup.core.errors import DataError, MaxsupError
from maxsup.core.files.reading import as_written, read_json_lines
from maxsup.training.loop import Position, Trainer
from maxsup.training.meter import EpochMeter
from maxsup.training.state import checkpoint


def save(trainer: Trainer, *, is_best: bool = False) -> None:
    """Write a checkpoint of the trainer as it is; every process must call it, the main one writes."""
    with trainer.clock.phase("checkpoint"):
        shares = trainer.processes.gathered((_process_tensors(trainer), asdict(trainer.meter)))
        name = trainer.run.new_checkpoint_name(trainer.position.global_step)
        if is_best or trainer.position.best_epoch is None:
            trainer.position.best = name
        if not trainer.processes.is_main:
            return
        tensors = checkpoint.with_prefix("optimizer", checkpoint.optimizer_tensors(trainer.optimizer))
        if trainer.ema is not None:
            kept = trainer.model if trainer.recipe.ema.is_evaluated else trainer.ema.model
            tensors |= checkpoint.with_prefix("other_weights", kept.state_dict())
        for rank, (own, _) in enumerate(shares):
            tensors |= checkpoint.with_prefix(f"rank{rank}", own)
        values = asdict(trainer.position) | {
            "meters": [meter for _, meter in shares],
            "num_processes": trainer.processes.count,
            "data": _fingerprint(trainer),
            "clock": trainer.clock.state(),
            "scaler": trainer.accelerator.scaler.state_dict() if trainer.accelerator.scaler else None,
        }
        for path in (trainer.run.metrics, trainer.run.timing):
            trainer.run.require_lines(path, trainer.position.epoch)
        files = checkpoint.packed(trainer.evaluated_model.state_dict(), tensors, values)
        trainer.run.save_checkpoint(name, trainer.position.best, files)


def restore(trainer: Trainer) -> bool:
    """Bring the trainer to the last checkpoint of its run; False where there is none."""
    run, processes = trainer.run, trainer.processes
    if processes.is_main:
        run.recover()
    processes.wait()
    folder = run.newest()
    if folder is None:
        _undo_lines(trainer)
        return False
    weights, tensors, values = checkpoint.unpacked(folder)
    with as_written(folder / "state.json"):
        _check(trainer, values)
        position = Position(**{field.name: values[field.name] for field in fields(Position)})
        rank = min(processes.rank, int(values["num_processes"]) - 1)
        meter = EpochMeter(**values["meters"][rank])
    if trainer.ema is not None:
        other = trainer.model if trainer.recipe.ema.is_evaluated else trainer.ema.model
        checkpoint.load_weights(other, checkpoint.under_prefix("other_weights", tensors), folder)
    checkpoint.load_weights(trainer.evaluated_model, weights, folder)
    checkpoint.restore_optimizer(trainer.optimizer, checkpoint.under_prefix("optimizer", tensors))
    _restore_process(trainer, checkpoint.under_prefix(f"rank{rank}", tensors))
    trainer.meter, trainer.position = meter, position
    if trainer.position.best_epoch is not None:
        _restore_teacher(trainer)
    trainer.clock.restore(values["clock"])
    if values["scaler"]:
        trainer.accelerator.scaler.load_state_dict(values["scaler"])
    _undo_lines(trainer)
    return True


def _undo_lines(trainer: Trainer) -> None:
    """Take back the lines of epochs that were over but not saved yet."""
    if trainer.processes.is_main:
        for path in (trainer.run.metrics, trainer.run.timing):
            # What is damaged would else be noticed after the last epoch.
            trainer.run.check(path)
            trainer.run.truncate(path, trainer.position.epoch)
            read_json_lines(path)


def _process_tensors(trainer: Trainer) -> checkpoint.Tensors:
    own = checkpoint.with_prefix("loss", trainer.criterion.state_dict())
    own |= checkpoint.with_prefix("monitor", trainer.monitor.state_dict())
    return {name: tensor.cpu() for name, tensor in own.items()}


def _restore_process(trainer: Trainer, tensors: checkpoint.Tensors) -> None:
    trainer.criterion.load_state_dict(checkpoint.under_prefix("loss", tensors))
    trainer.monitor.load_state_dict(checkpoint.under_prefix("monitor", tensors))


def _restore_teacher(trainer: Trainer) -> None:
    if not trainer.needs.is_own_teacher:
        return
    path = trainer.run.weights("best")
    current = {name: tensor.clone() for name, tensor in trainer.evaluated_model.state_dict().items()}
    checkpoint.load_weights(trainer.evaluated_model, checkpoint.read_tensors(path), path)
    trainer.needs.set_teacher(trainer.evaluated_model)
    trainer.evaluated_model.load_state_dict(current)


def _fingerprint(trainer: Trainer) -> dict[str, Any]:
    """What the data was, and how it was normalised, which evaluation on other data needs to know."""
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
            "Restore the files or start anew in another output."
        )
    if values["step"] and values["num_processes"] != trainer.processes.count:
        raise MaxsupError(
            f"a run stopped inside an epoch must go on with as many processes, {values['num_processes']}; got "
            f"{trainer.processes.count}. Start it with torchrun --nproc_per_node {values['num_processes']}."
        )
