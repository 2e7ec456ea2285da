"""A loss for the logits that ``Trainer`` passes to ``compute_loss_func``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from maxsup.integrations.huggingface.callback import WatchedLoss
from maxsup.integrations.huggingface.labels import (
    IGNORED,
    LabelsOfHeads,
    dense_logits_and_masks,
    named_logits,
    rows_and_targets,
    single_logits,
)
from maxsup.integrations.huggingface.models import (
    Rules,
    RulesOfModels,
    config_value,
    expect_decoder_inputs,
    shifts_labels,
    unwrapped,
    warn_of_counted_first_labels,
)
from maxsup.losses import RegularizedLoss, create_loss
from maxsup.losses.reduction import HALF

# The label of pixels that do not count, in configs of transformers.
_IGNORED_PIXELS = "semantic_loss_ignore_index"


class TrainerLoss(WatchedLoss):
    """A loss of this package for ``Trainer(compute_loss_func=...)``.

    It is the training objective if gradients are recorded and the model is in training mode, else plain cross-entropy.
    With its callback it reads from the model whether labels are shifted; without one, pass ``shift``.

    Args:
        loss: Name of a registered loss that needs only logits and labels.
        shift: True if position ``t`` predicts label ``t + 1``; by default read from the model.
        heads: For a model with several heads, a mapping from logits in the outputs to labels in the batch, such as
            ``{"start_logits": "start_positions", "end_logits": "end_positions"}``. The loss is the mean over the
            heads. Trainer does not count such labels, so accumulation is refused.
        options: Options of the loss, such as ``alpha``, ``weight`` and ``ignore_index``.

    Example:
        >>> loss = TrainerLoss(alpha=0.1, shift=False)
        >>> logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]], requires_grad=True)
        >>> round(loss({"logits": logits}, torch.tensor([4]), num_items_in_batch=1).item(), 4)
        1.7244
        >>> with torch.no_grad():
        ...     round(loss({"logits": logits}, torch.tensor([4])).item(), 4)
        1.5744
    """

    unused = "Pass compute_loss_func=loss to the Trainer, and do not override compute_loss without calling it."

    def __init__(
        self, loss: str = "maxsup", *, shift: bool | None = None, heads: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(create_loss(loss, **options))
        _check_criterion(loss, self.criterion)
        self.shift = shift
        self._heads = None if heads is None else LabelsOfHeads(heads)
        self._rules = RulesOfModels()

    def attach(self, model: Any, args: Any) -> None:
        """Read settings from the model and the arguments, and refuse those that would have no effect."""
        super().attach(model, args)
        _check_arguments(args, has_heads=self._heads is not None)
        problem = config_value(model, "problem_type")
        if problem in ("multi_label_classification", "regression"):
            raise ValueError(
                f"problem_type must be 'single_label_classification'; got {problem!r}, for which MaxSup is not "
                "defined. Use the model's own loss."
            )
        if self._heads is not None:
            self._heads.watch(unwrapped(model))
        rules = Rules(model, args.gradient_accumulation_steps, shifts_labels(model))
        self._rules.add(rules)
        if config_value(model, "is_encoder_decoder"):
            expect_decoder_inputs(model)
        if rules.shifts_labels:
            warn_of_counted_first_labels(model)

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: int | Tensor | None = None) -> Tensor:
        """Return the loss of a batch, with the signature of ``compute_loss_func``."""
        rules = self._rules.current
        is_training = torch.is_grad_enabled() and (rules is None or rules.model.training)
        pairs = self._pairs(outputs, labels)
        if is_training:
            self._check_attached()
            _check_no_further_loss(outputs)
            self.num_training_calls += 1
        if pairs[0][0].dim() == 4:
            self._check_pixels(labels, num_items_in_batch)
        self.criterion.train(is_training)
        losses = [self._head_loss(rows, target, num_items_in_batch, is_training) for rows, target in pairs]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def _head_loss(self, rows: Tensor, target: Tensor, num_items: int | Tensor | None, is_training: bool) -> Tensor:
        if not is_training and rows.dtype in HALF:
            rows = rows.float()
        if self.criterion.weight is not None and self.criterion.weight.device != rows.device:
            self.criterion.to(rows.device)
        loss: Tensor = self.criterion(rows, target, num_items=self._denominator(num_items, rows, target, is_training))
        if is_training and self.terms is not None:
            self.terms.update(rows, target)
        return loss

    def _pairs(self, outputs: Any, labels: Tensor | None) -> list[tuple[Tensor, Tensor]]:
        """Return logits ``(N, K)`` and targets of every head."""
        if self._heads is None:
            heads: list[tuple[Tensor, Any]] = [(single_logits(outputs), labels)]
        else:
            heads = [(named_logits(outputs, name), given) for name, given in self._heads.take().items()]
        return [self._pair(logits, given) for logits, given in heads]

    def _pair(self, logits: Tensor, given: Any) -> tuple[Tensor, Tensor]:
        ignore_index = self.criterion.ignore_index
        if logits.dim() != 4:
            return rows_and_targets(logits, given, self._is_shifted(logits), ignore_index)
        model = None if self._rules.current is None else self._rules.current.model
        if config_value(model, "use_auxiliary_head"):
            raise ValueError(
                "use_auxiliary_head must be False, because Trainer passes no auxiliary logits to a loss, and their "
                "head would not train; got True. Set config.use_auxiliary_head=False before the model is made."
            )
        return dense_logits_and_masks(logits, given, config_value(model, _IGNORED_PIXELS), ignore_index)

    def _is_shifted(self, logits: Tensor) -> bool:
        if logits.dim() == 3:
            return self._known_rules().shifts_labels if self.shift is None else self.shift
        if self.shift:
            shape = tuple(logits.shape)
            raise ValueError(
                f"shift must be False for one label per sample; got True with logits {shape}. Leave it out."
            )
        return False

    def _known_rules(self) -> Rules:
        if self._rules.current is None:
            raise RuntimeError(
                "TrainerLoss must know its Trainer, or whether labels are shifted; got neither. Pass callbacks="
                "[loss.callback()] to the Trainer, or shift=True for a causal language model, else shift=False."
            )
        return self._rules.current

    def _denominator(
        self, num_items: int | Tensor | None, rows: Tensor, target: Tensor, is_training: bool
    ) -> float | Tensor | None:
        """Return the denominator of the sum, or None to use the number of targets in this batch."""
        accumulation = None if self._rules.current is None else self._rules.current.accumulation
        if num_items is None:
            if is_training and (accumulation or 1) > 1:
                raise RuntimeError(
                    f"num_items_in_batch must be given under accumulation over {accumulation} batches; got None. "
                    "Use transformers 4.46 or newer, with the targets under the name 'labels'."
                )
            return None
        is_spread = _is_spread(num_items)
        if not is_training and not is_spread:
            return None
        if rows.dim() == 4 and not is_spread and accumulation == 1:  # Trainer counts ignored pixels too
            return None
        if self.criterion.ignore_index != IGNORED and not target.is_floating_point():
            if is_spread or accumulation != 1:
                raise ValueError(
                    f"ignore_index must be -100 under accumulation or with several processes, because Trainer counts "
                    f"every other label; got {self.criterion.ignore_index!r}. Turn it into -100 in the data collator."
                )
            return None
        if isinstance(num_items, Tensor):
            num_items = num_items.to(rows.device).sum()
        if is_training:
            num_items = self.counted(num_items)
        # Trainer counts every entry of a row of probabilities.
        return num_items / rows.shape[1] if target.is_floating_point() else num_items

    def _check_pixels(self, masks: Any, num_items: int | Tensor | None) -> None:
        """Raise where pixels that do not count are in the denominator of a step."""
        rules = self._rules.current
        if num_items is None or rules is None or not (_is_spread(num_items) or rules.accumulation > 1):
            return
        ignored = config_value(rules.model, _IGNORED_PIXELS)
        if ignored is not None and ignored != IGNORED and bool((masks == ignored).any()):
            raise ValueError(
                "pixels that do not count must be -100 under accumulation or with several processes, because Trainer "
                f"counts every other label; got {ignored!r}. Turn it into -100 in the data collator."
            )

    def _check_attached(self) -> None:
        if self.shift is None:
            self._known_rules()
        if self._rules.current is None and self.criterion.schedule is not None:
            raise RuntimeError(
                f"a schedule must be advanced by the callback; got none for {self.criterion.schedule!r}. Pass "
                "callbacks=[loss.callback()] to the Trainer."
            )


def _is_spread(num_items: Any) -> bool:
    # Under DataParallel the number comes once per device, and Trainer multiplies by the number of devices.
    num_processes = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    return num_processes > 1 or (isinstance(num_items, Tensor) and num_items.dim() > 0)


def _check_criterion(name: str, criterion: RegularizedLoss) -> None:
    if criterion.needs:
        raise ValueError(
            f"loss of a TrainerLoss must need logits and labels only; got {name!r}, which needs "
            f"{' and '.join(criterion.needs)}. Call it in your own compute_loss."
        )
    if type(criterion).end_epoch is not RegularizedLoss.end_epoch:
        raise ValueError(
            f"loss of a TrainerLoss must not learn from epoch to epoch, because checkpoints of Trainer would lose its "
            f"state; got {name!r}. Use it with maxsup's own training or your own loop."
        )
    if criterion.reduction != "mean":
        raise ValueError(f"reduction must be 'mean', as Trainer divides; got {criterion.reduction!r}. Leave it out.")


def _check_arguments(args: Any, *, has_heads: bool) -> None:
    if not has_heads and args.label_names is not None and list(args.label_names) != ["labels"]:
        raise ValueError(
            f"label_names must be ['labels'], the only labels Trainer gives to a loss; got {args.label_names!r}. "
            "Rename the column, or map logits to labels: TrainerLoss(heads={'logits': 'my_labels'})."
        )
    if has_heads and args.gradient_accumulation_steps > 1:
        raise ValueError(
            "gradient_accumulation_steps must be 1 with heads, whose labels Trainer does not count; got "
            f"{args.gradient_accumulation_steps!r}. Make per_device_train_batch_size larger instead."
        )
    if has_heads and getattr(args, "n_gpu", 1) > 1:
        raise ValueError(f"heads must train on one device per process; got {args.n_gpu!r} in one. Use torchrun.")


def _check_no_further_loss(outputs: Any) -> None:
    if isinstance(outputs, Mapping) and outputs.get("aux_loss") is not None:
        raise ValueError(
            "outputs must not hold another loss, which would be ignored; got aux_loss. Set "
            "config.output_router_logits=False, or override Trainer.compute_loss and add it."
        )
