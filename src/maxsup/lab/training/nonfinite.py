"""A loss that is no number: which step it was, and which samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from accelerate.utils import gather_object
from torch import Tensor

from maxsup.core.errors import NonFiniteError
from maxsup.lab.training.ledger import ReadStep, TakenStep

if TYPE_CHECKING:
    from maxsup.lab.training.loop import Trainer


def raise_nonfinite(trainer: Trainer, read: ReadStep) -> None:
    """Raise for a step with a loss or gradient that is not finite, and name epoch, step and samples.

    Every process must call this, after the weights were left as they were before that step.
    """
    at, batch = read.taken, read.taken.batch
    bad = ~_sample_losses(trainer, at).isfinite().flatten(1).all(dim=1).cpu()
    guilty = batch.indices[bad] if bad.any() else batch.indices
    indices = sorted(gather_object(guilty.tolist()))
    found = {"epoch": at.epoch, "step": at.step, "global_step": at.global_step, "samples": indices}
    for observer in trainer.observers:
        observer.on_nonfinite(trainer, found)
    shown = ", ".join(str(index) for index in indices[:10]) + (", ..." if len(indices) > 10 else "")
    what, value = ("loss", read.loss) if read.num_bad_losses else ("gradient", read.grad_norm)
    got = "a finite one here and another one in another process" if math.isfinite(value) else value
    raise NonFiniteError(
        f"{what} must be finite; got {got} at epoch {at.epoch}, step {at.step}, "
        f"training samples {shown} (all in nonfinite.json). The weights are those before this step. Lower "
        "optimizer.lr, set clip_norm, or look at these samples.",
        code="non-finite-loss",
    )


@torch.no_grad()
def _sample_losses(trainer: Trainer, taken: TakenStep) -> Tensor:
    """Return the cross-entropy ``(B, 1, ...)`` of a step, computed again, because nobody asks for it usually."""
    trainer.seed(taken.epoch, taken.step)
    ignored = trainer.criterion.ignore_index
    values = [
        F.cross_entropy(trainer.logits(images).float(), labels, reduction="none", ignore_index=ignored)
        for images, _, labels in trainer.pieces(taken.batch)
    ]
    return torch.cat(values).unsqueeze(1)
