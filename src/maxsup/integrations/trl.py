"""TRL's ``SFTTrainer`` with a loss in the model's head instead of its own negative log-likelihood.

**Use it** as ``LinearSFTTrainer(model, args=..., train_dataset=..., loss=MaxSupLoss(alpha=0.1))``; everything else is
TRL's: packing, padding-free batches, completion-only and assistant-only labels, LoRA below the head, checkpoints.
**Seam.** TRL computes its loss from the hidden states and never calls the model's. In training, this class calls the
model as transformers' ``Trainer`` does, and the model's head computes the loss (``use_linear_loss``).
**Evaluation** is TRL's, a plain negative log-likelihood. Logs have what TRL logs (entropy, token accuracy, number of
tokens), in training from the pass that computes the loss, and the terms of label smoothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxsup.integrations.checks import not_installed
from maxsup.integrations.huggingface.linear import use_linear_loss
from maxsup.integrations.huggingface.models import unwrapped
from maxsup.losses import RegularizedLoss

try:
    from transformers import Trainer
    from trl import SFTTrainer  # type: ignore[attr-defined]
except ImportError as error:
    raise not_installed("trl") from error

__all__ = ["LinearSFTTrainer"]


class LinearSFTTrainer(SFTTrainer):
    """``SFTTrainer`` with a training loss of this package, computed without logits.

    Args:
        model: The model; it and all other arguments are those of ``SFTTrainer``.
        loss: A loss for :func:`maxsup.integrations.huggingface.use_linear_loss`, such as ``MaxSupLoss(alpha=0.1)``.
        per_step: Advance a schedule with every optimiser step instead of every epoch.
        monitor: Log the terms of label smoothing.
    """

    def __init__(
        self, model: Any, *others: Any, loss: RegularizedLoss, per_step: bool = False, monitor: bool = True, **more: Any
    ) -> None:
        if more.get("compute_loss_func") is not None:
            raise ValueError("LinearSFTTrainer computes its loss in the model. Leave compute_loss_func out.")
        super().__init__(model, *others, **more)
        args: Any = self.args
        if args.loss_type != "nll":
            raise ValueError(f"loss_type must be 'nll', which the loss replaces; got {args.loss_type!r}. Leave it out.")
        trained: Any = self.model
        self.linear_loss = use_linear_loss(trained, loss)
        self.linear_loss.attach(trained, args)
        self.linear_loss.has_metrics = True
        # First, so that the callbacks that report a log see what this one adds.
        self.callback_handler.callbacks.insert(0, self.linear_loss.callback(per_step=per_step, monitor=monitor))
        if self.aux_loss_enabled:
            # TRL sets it in the config, which the model has already read.
            unwrapped(trained).router_aux_loss_coef = self.router_aux_loss_coef

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: int | Tensor | None = None,
    ) -> Any:
        """Return the loss of the model's head in training, and TRL's negative log-likelihood in evaluation."""
        trained: Any = self.model
        if not trained.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        inputs["use_cache"] = False
        if self.aux_loss_enabled:
            inputs["output_router_logits"] = True
        loss, outputs = Trainer.compute_loss(self, model, inputs, True, num_items_in_batch)
        if self.aux_loss_enabled and num_items_in_batch is not None:
            # The model adds its auxiliary loss to each micro-batch, and Trainer multiplies it by the number of
            # processes. TRL counts it once per step.
            num_batches = self.accelerator.num_processes // self.get_tp_size()
            times = num_batches if self.args.average_tokens_across_devices else 1
            share = 1 / self.current_gradient_accumulation_steps - times
            loss = loss + share * self.router_aux_loss_coef * outputs.aux_loss
        self._log_metrics(inputs, outputs)
        return (loss, outputs) if return_outputs else loss

    def _log_metrics(self, inputs: dict[str, Any], outputs: Any) -> None:
        """Note what TRL notes of a training batch, summed over all processes."""
        metrics, self.linear_loss.metrics = self.linear_loss.metrics, None
        if metrics is None:
            return
        logged: Any = self._metrics["train"]
        # Positions as TRL counts them: padded ones do not count, and without padding all do.
        mask = inputs.get("attention_mask")
        positions = inputs["position_ids"] if mask is None else mask
        num_tokens = mask.sum() if mask is not None else positions.new_tensor(positions.shape[1])
        sums = torch.stack(
            [*(value.float() for value in metrics[:3]), num_tokens.to(metrics.num_counted.device).float()]
        )
        counted, correct, entropy, tokens = self.accelerator.reduce(sums, "sum").tolist()
        logged["entropy"].append(entropy / counted if counted else 0.0)
        logged["mean_token_accuracy"].append(correct / counted if counted else 0.0)
        self._total_train_tokens += tokens // self.get_tp_size()
        logged["num_tokens"] = [self._total_train_tokens]
        if self.aux_loss_enabled:
            logged["aux_loss"].append(self.accelerator.reduce(outputs.aux_loss.detach(), "mean").item())
