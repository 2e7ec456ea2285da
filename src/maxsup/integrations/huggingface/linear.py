"""Compute the loss of a Hugging Face causal model in its head, without materialising the logits of a batch.

**Use it** as ``use_linear_loss(model, MaxSupLoss(alpha=0.1))`` before the model goes to a Trainer, to Accelerate or
into your own loop. From then on ``model(**batch).loss`` is that loss in training mode.
**Seam.** In a training call with labels, the head computes the loss from its input and returns it instead of logits,
and ``model.loss_function`` passes it on. The head is called as a module, so FSDP2, autocast and offloading gather, cast
and move its weight as usual.
**Unchanged**: evaluation, generation, calls without labels or gradients, checkpoints and tied weights.
**Scaled and capped logits**, as those of Cohere, Granite, Falcon-H1 and Gemma, are served: the head applies what the
config says, and each call checks that the model does the same.
**Refused** at once or in the first call: anything else between head and loss, such as an adapter on the head, and
anything that removes the labels from the batch.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from maxsup.integrations.huggingface.callback import WatchedLoss
from maxsup.integrations.huggingface.labels import IGNORED, rows_and_targets
from maxsup.integrations.huggingface.models import shifts_labels, unwrapped, warn_of_counted_first_labels
from maxsup.losses import CrossEntropyLoss, LinearMaxSupLoss, MarginLabelSmoothingLoss, MaxSupLoss, RegularizedLoss
from maxsup.losses.head.linear import linear_maxsup_cross_entropy
from maxsup.losses.head.metrics import HeadMetrics
from maxsup.losses.head.rows import Objective

# What configs call a soft cap, and a number that multiplies the logits before it. A model that means something else by
# such a name is refused in its first call.
_SOFT_CAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")
_SCALES = ("logit_scale", "output_multiplier", "lm_head_multiplier")
# Granite divides by it, HyperCLOVA X multiplies.
_SCALING = "logits_scaling"
# Options that a loss in the head must not change; scale and cap come from the model.
_PLAIN_OPTIONS = {
    "weight": None, "ignore_index": IGNORED, "reduction": "mean", "adaptive": False,
    "soft_cap": 0.0, "logit_scale": 1.0,
}  # fmt: skip


def use_linear_loss(model: nn.Module, loss: RegularizedLoss) -> LinearLoss:
    """Make a causal model of transformers compute ``loss`` in its head in training calls with labels.

    Args:
        model: A causal language model, PEFT-wrapped or not, with a plain ``nn.Linear`` head.
        loss: ``MaxSupLoss``, ``MarginLabelSmoothingLoss`` or ``CrossEntropyLoss``, with or without a ``z_loss``.

    Returns:
        A handle. Pass its ``callback()`` to a Trainer to advance a schedule and log the terms; ``remove()`` undoes the
        change.
    """
    _check_loss(loss)
    inner = unwrapped(model)
    is_causal = hasattr(inner, "get_output_embeddings") and shifts_labels(inner)
    if not is_causal or "loss_function" not in inspect.unwrap(type(inner).forward).__code__.co_names:
        raise ValueError(
            "model must be a causal language model of transformers that asks model.loss_function for its loss; got "
            f"{type(inner).__name__}. Use TrainerLoss, which takes the logits."
        )
    head = inner.get_output_embeddings()
    is_plain = isinstance(head, nn.Linear) and type(head).forward is nn.Linear.forward
    if not is_plain or not head.weight.is_floating_point():
        raise ValueError(
            f"the head of the model must be a plain nn.Linear; got {type(head).__module__}.{type(head).__name__}. "
            "Leave the head out of LoRA (target_modules, modules_to_save) and of quantisation, or use TrainerLoss."
        )
    before = getattr(head.forward, "__self__", None)
    if isinstance(before, LinearLoss):
        before.remove()
    warn_of_counted_first_labels(inner)
    return LinearLoss(inner, head, loss)


@dataclass
class _Call:
    """A training call of the model, from its arguments to its loss."""

    labels: Tensor
    shift_labels: Tensor | None
    num_items: int | Tensor | None
    shape: Objective  # scale and soft cap of the logits
    answer: Tensor | None = None  # the loss that the head returned instead of logits
    was_asked: bool = False  # the model has called its loss function


class LinearLoss(WatchedLoss):
    """A loss in the head of a model, created by :func:`use_linear_loss`.

    All hooks on the model are bound methods, so a deep copy of the model gets its own loss. Set ``has_metrics`` and
    read ``metrics`` after a call: token accuracy, entropy and z-loss, from the pass that computes the loss.
    """

    unused = "Train the model that was passed to use_linear_loss, with labels in the batch."

    def __init__(self, model: Any, head: Any, criterion: RegularizedLoss) -> None:
        super().__init__(criterion)
        self.has_metrics = False
        self.metrics: HeadMetrics | None = None  # of the last training call
        self._model = model
        self._head = head
        self._call: _Call | None = None
        self._own_forward = head.__dict__.get("forward")
        self._forward = head.forward
        self._loss_function = model.loss_function
        head.forward = self._answer_of_the_head
        model.loss_function = self._loss_of_the_model
        self._handles = [
            model.register_forward_pre_hook(self._begin, with_kwargs=True),
            model.register_forward_hook(self._end, always_call=True),
        ]

    def remove(self) -> None:
        """Restore the model's own loss."""
        for handle in self._handles:
            handle.remove()
        del self._head.forward
        if self._own_forward is not None:
            self._head.forward = self._own_forward
        self._model.loss_function = self._loss_function

    def _begin(self, model: nn.Module, positional: Any, named: dict[str, Any]) -> None:
        self._call = None
        if not (model.training and torch.is_grad_enabled()):
            return
        labels = named.get("labels")
        if labels is None:
            # A Trainer that computes the loss itself passes the number of labels to the model, but not the labels.
            if named.get("num_items_in_batch") is not None:
                raise ValueError(
                    "Trainer has taken the labels away from the model, whose head computes the loss. Remove "
                    "label_smoothing_factor and compute_loss_func; MaxSupLoss(alpha=...) replaces them."
                )
            return
        if named.get("fused_lm_head"):
            raise ValueError(
                "SFTTrainer of TRL computes the loss itself and ignores the model's. Use "
                "maxsup.integrations.trl.LinearSFTTrainer(..., loss=MaxSupLoss(alpha=0.1)) instead."
            )
        if model is not self._model:
            raise RuntimeError(
                "A loss in the head does not work under nn.DataParallel, whose copies of the model share it. Start one "
                "process for each device with torchrun, or show the process one device."
            )
        config: Any = self._model.config
        shape = _shape_of_logits(config.get_text_config())
        self._call = _Call(labels, named.get("shift_labels"), named.get("num_items_in_batch"), shape)

    def _end(self, model: nn.Module, positional: Any, output: Any) -> Any:
        call, self._call = self._call, None
        if call is None:
            return None
        if output is None:  # the model has raised an error of its own
            return None
        if not call.was_asked:
            raise RuntimeError(
                f"{type(model).__name__} did not call model.loss_function, so it used another loss. Switch off "
                "whatever replaces its forward, such as use_liger_kernel=True."
            )
        # The head has returned a loss, not logits.
        return type(output)(**{**output, "logits": None}) if isinstance(output, dict) else None

    def _answer_of_the_head(self, hidden: Tensor) -> Tensor:
        call = self._call
        if call is None:
            return self._forward(hidden)
        # Contiguous, so that a model that calls contiguous() gets the same tensor.
        call.answer = self._compute(hidden, call).expand(*hidden.shape[:-1], 1).contiguous()
        return call.answer

    def _loss_of_the_model(self, logits: Tensor, labels: Tensor, *others: Any, **options: Any) -> Tensor:
        call = self._call
        if call is None:
            if self._model.training and torch.is_grad_enabled():
                raise ValueError("labels must be given to the model by name, so that its head sees them.")
            return self._loss_function(logits, labels, *others, **options)
        if call.answer is None or not _is_shaped(logits, call.answer, call.shape):
            raise ValueError(
                f"{type(self._model).__name__} changes what its head gives before the loss (a scale or soft cap of "
                "another name, an adapter), which a loss in the head does not know. Use TrainerLoss, which takes the "
                "logits."
            )
        call.was_asked = True
        # Clone, because models add other losses in place.
        return call.answer.flatten()[0].clone()

    def _compute(self, hidden: Tensor, call: _Call) -> Tensor:
        labels = call.labels if call.shift_labels is None else call.shift_labels
        rows, target = rows_and_targets(hidden, labels, call.shift_labels is None, IGNORED)
        target = target.to(rows.device)
        num_items = call.num_items
        if num_items is not None:
            num_items = self.counted(num_items.to(rows.device) if isinstance(num_items, Tensor) else num_items)
        self.num_training_calls += 1
        if not torch.compiler.is_compiling():
            counts = target != IGNORED
            rows, target = rows[counts], target[counts]
        weight, bias = self._head.weight, self._head.bias
        if self.terms is not None:
            self.terms.update_head(rows, weight, bias, target, call.shape)
        criterion, alpha, z_loss = self.criterion, 0.0, 0.0
        if criterion.training:
            criterion._check_advanced()
            alpha, z_loss = 0.0 if criterion.strength is None else criterion._value, criterion.z_loss
        own: dict[str, Any] = {"margin": getattr(criterion, "margin", 0.0), "z_loss": z_loss, "num_items": num_items}
        own |= {"soft_cap": call.shape.soft_cap, "logit_scale": call.shape.logit_scale, "bias": bias}
        answer = linear_maxsup_cross_entropy(rows, weight, target, alpha, return_metrics=self.has_metrics, **own)
        if not self.has_metrics:
            return answer
        loss, self.metrics = answer
        return loss


def _shape_of_logits(config: Any) -> Objective:
    """What the model does to its logits, by the names in its config."""
    caps = [cap for name in _SOFT_CAPS if (cap := getattr(config, name, None))]
    scales = [scale for name in _SCALES if isinstance(scale := getattr(config, name, None), float | int)]
    scaling = getattr(config, _SCALING, None)
    if scaling is not None:
        scales.append(1 / scaling if "granite" in config.model_type else scaling)
    return Objective(soft_cap=caps[0] if caps else 0.0, logit_scale=scales[0] if scales else 1.0)


def _is_shaped(logits: Tensor, answer: Tensor, shape: Objective) -> bool:
    """Whether the model has done to the answer of its head what it does to logits, and nothing else."""
    if shape == Objective():
        return logits is answer
    # A compiler cannot branch on values.
    return torch.compiler.is_compiling() or torch.allclose(logits, shape.shaped(answer).to(logits.dtype), rtol=1e-3)


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, MaxSupLoss | MarginLabelSmoothingLoss | LinearMaxSupLoss | CrossEntropyLoss):
        raise ValueError(
            f"loss must be one that a linear head can carry; got {type(loss).__name__}. Use MaxSupLoss(alpha=0.1), or "
            "TrainerLoss, which takes the logits."
        )
    for name, plain in _PLAIN_OPTIONS.items():
        value = getattr(loss, name, plain)
        if value is not plain and value != plain:
            shown = "a tensor" if isinstance(value, Tensor) else repr(value)
            fix = "Leave it out, or use TrainerLoss."
            raise ValueError(f"{name} of a loss in the head must be {plain!r}; got {shown}. {fix}")
