"""What looks on while a run is trained: its folder, the display, and signals."""

from __future__ import annotations

from signal import Signals
from typing import Any

from maxsup.core.errors import Interruption
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.training.loop import Observer, Trainer
from maxsup.lab.training.processes import largest
from maxsup.lab.training.progress import Reporter
from maxsup.lab.training.state.snapshot import save


class RunFiles(Observer):
    """Keeps the run folder up to date: a line and a checkpoint an epoch, and a checkpoint wherever training stops."""

    def __init__(self, run: RunDir) -> None:
        self._run = run

    def on_step(self, trainer: Trainer) -> None:
        """Save if the recipe wants checkpoints inside an epoch."""
        every = trainer.recipe.save_every_steps
        if every and trainer.position.global_step % every == 0:
            save(trainer, self._run)

    def on_epoch_end(self, trainer: Trainer, line: dict[str, Any]) -> None:
        """Write the numbers and the time of the epoch, then save."""
        epoch = line["epoch"]
        if trainer.accelerator.is_main_process:
            self._run.append_json(self._run.metrics, line, num_before=epoch)
            self._run.append_json(self._run.timing, {"epoch": epoch, **trainer.clock.epoch()}, num_before=epoch)
        save(trainer, self._run, is_best=trainer.position.best_epoch == epoch)

    def on_nonfinite(self, trainer: Trainer, found: dict[str, Any]) -> None:
        """Write down which samples it was."""
        if trainer.accelerator.is_main_process:
            self._run.write_json(self._run.nonfinite, found)

    def on_interruption(self, trainer: Trainer) -> None:
        """Save, so that the same call goes on from here."""
        save(trainer, self._run)


class Progress(Observer):
    """Shows training through a reporter."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def on_epoch_start(self, trainer: Trainer) -> None:
        """Show where the epoch begins."""
        at = trainer.position
        self._reporter.start_epoch(at.epoch, trainer.recipe.epochs, at.step, trainer.batches.num_batches)

    def on_step(self, trainer: Trainer) -> None:
        """Show the running means."""
        with trainer.clock.phase("log"):
            strength = trainer.criterion.current_strength
            self._reporter.step(trainer.position.step, trainer.meter.means(), strength, trainer.clock)

    def on_epoch_end(self, trainer: Trainer, line: dict[str, Any]) -> None:
        """Show the numbers of the epoch."""
        timing = trainer.clock.epoch()
        self._reporter.end_epoch(line, timing["seconds"], timing["images_per_second"])


class StopSignals(Observer):
    """Stops training when a signal has reached any process."""

    def __init__(self, guard: SignalGuard, run: RunDir) -> None:
        self._guard, self._run = guard, run

    def on_step(self, trainer: Trainer) -> None:
        """Look after each step; other processes learn of it with the numbers of the next one."""
        received = self._guard.received or 0
        if trainer.accelerator.num_processes == 1:
            self._raise(trainer, received)
        elif received:
            trainer.ledger.note_signal(received)
        self._raise(trainer, trainer.agreed_signal)

    def on_evaluated_batch(self, trainer: Trainer) -> None:
        """Look while evaluating too."""
        self._raise(trainer, self._guard.received or 0)

    def on_epoch_end(self, trainer: Trainer, line: dict[str, Any]) -> None:
        """Look once the epoch is saved."""
        self._raise(trainer, int(largest(trainer.accelerator, float(self._guard.received or 0))))

    def _raise(self, trainer: Trainer, received: int) -> None:
        if received:
            steps = trainer.position.global_step
            raise Interruption(
                f"stopped by {Signals(received).name} after {steps} steps; everything is saved in {self._run.path}. "
                "Give the same command again to go on.",
                signal_number=received,
            )
