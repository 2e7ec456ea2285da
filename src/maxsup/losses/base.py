"""What all losses share as modules: strength, schedule, evaluation, and inputs besides logits and targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import Never, Self, Unpack

from maxsup.core.checks import check_choice, check_number
from maxsup.core.registry import Registry
from maxsup.core.schedules import Constant, Schedule
from maxsup.losses import first_step
from maxsup.losses.computing.plain import plain_cross_entropy
from maxsup.losses.misread_options import refuse_class_weights, refuse_unknown_options
from maxsup.losses.reduction import (
    EMPTY,
    HALF,
    REDUCTIONS,
    EmptyMean,
    LossOptions,
    ReductionName,
    num_classes,
    whole,
)
from maxsup.losses.shards.loss import SplitLossOptions, SplitReductionOptions, check_split

Strength = float | Schedule

# Progress is stored as an integer in units of 2**-53: an integer buffer follows the module to every device (some have
# no float64) and survives `half()`, and a restored loss computes its strength from exactly the same number.
_PROGRESS_UNITS = 2**53
_NEVER_ADVANCED = -1
# Before torch 2.5 a new strength tensor makes the compiler compile again.
_REFILLS_STRENGTH = torch.__version__ < "2.5"


class RegularizedLoss(nn.Module):
    """Base of all losses: training objective in ``train()`` mode, plain cross-entropy in ``eval()`` mode.

    Class attributes describe a loss. ``function`` is the loss as a pure function, ``strength`` names the option that
    sets how strong the term is, ``own_options`` names attributes that the function takes besides, ``needs`` the keyword
    arguments that ``forward`` cannot do without, ``takes_parts`` says whether ``function`` takes logits whose classes
    are split over processes, and ``counted`` are sums of its state that each process keeps for itself.
    """

    function: ClassVar[staticmethod[..., Tensor]]
    strength: ClassVar[str | None] = "alpha"
    strength_limit: ClassVar[float] = math.inf
    own_options: ClassVar[tuple[str, ...]] = ()
    needs: tuple[str, ...] = ()
    counted: ClassVar[tuple[str, ...]] = ()
    optional_needs: ClassVar[tuple[str, ...]] = ()
    takes_parts: ClassVar[bool] = False

    weight: Tensor | None
    progress_units: Tensor

    def __init__(
        self,
        strength: Strength | None = None,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: ReductionName = "mean",
        empty: EmptyMean = "nan",
        z_loss: float = 0.0,
        group: Any = None,
        vocab_start: int | None = None,
        **unknown: Never,
    ) -> None:
        super().__init__()
        of_parts = {"group": group, "vocab_start": vocab_start}
        given = {name: value for name, value in of_parts.items() if value is not None}
        refuse_unknown_options(type(self), self.strength, unknown if self.takes_parts else {**unknown, **given})
        refuse_class_weights(type(self), strength)
        check_choice("reduction", reduction, REDUCTIONS)
        check_choice("empty", empty, EMPTY)
        check_number("z_loss", z_loss)
        if group is not None or vocab_start is not None:
            check_split(group, vocab_start)
        self.group, self.vocab_start = group, vocab_start
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction, self.empty, self.z_loss = ignore_index, reduction, empty, z_loss
        if isinstance(strength, Constant):
            strength = strength.value
        self.schedule = strength if isinstance(strength, Schedule) else None
        if self.schedule is None:
            if self.strength is not None:
                self._check_strength(strength)
            self._value: Any = strength
        else:
            self._value = _strength_tensor(math.nan)
            self.register_buffer("progress_units", torch.tensor(_NEVER_ADVANCED))
        self._advanced = self.schedule is None
        self._step_checked = self._targets_checked = self._mode_checked = False

    @property
    def current_strength(self) -> float:
        """The current strength; ``nan`` until a schedule has been advanced."""
        return math.nan if self._value is None else float(self._value)

    def set_progress(self, progress: float) -> None:
        """Advance the schedule to ``progress``, from 0 (first epoch) to 1 (last); a constant strength stays."""
        if self.schedule is None:
            return
        self.schedule(progress)  # raises for a progress outside [0, 1]
        units = round(progress * _PROGRESS_UNITS)
        value = self.schedule(units / _PROGRESS_UNITS)
        self._check_strength(value)
        if value == 0:  # as a number, which makes the loss F.cross_entropy itself
            self._value = 0.0
        elif _REFILLS_STRENGTH and isinstance(self._value, Tensor):
            self._value.fill_(value)
        else:  # a pending backward pass keeps the old one
            self._value = _strength_tensor(value)
        self.progress_units.fill_(units)
        self._advanced = True

    def reset_parameters(self) -> None:
        """Forget the state; torch calls this after it has materialised a module that was built on ``meta``."""
        if self.schedule is not None:
            self.progress_units.fill_(_NEVER_ADVANCED)
            self._value = _strength_tensor(math.nan)
            self._advanced = False

    def end_epoch(self) -> None:
        """Learn from the epoch that ended; the training loop calls this, and most losses do nothing."""

    def forward(
        self, input: Tensor, target: Tensor, *, num_items: float | Tensor | None = None, **extras: Tensor
    ) -> Tensor:
        """The training objective in ``train()`` mode, ``F.cross_entropy`` in ``eval()`` mode.

        Args:
            input: Logits, ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``.
            target: Class indices, or probabilities of the shape of ``input``.
            num_items: Denominator in place of the number of targets, for gradient accumulation and several processes.
            extras: What ``needs`` names; also the strength by its name, one number or one a sample in the shape of the
                loss under ``reduction="none"``, in place of the loss's own.
        """
        if not self.takes_parts and (type(input) is not Tensor or type(target) is not Tensor):
            input, target = whole(input), whole(target)
        if extras:
            extras = {name: whole(extra) for name, extra in extras.items()}
        options: SplitReductionOptions = {
            "weight": self.weight,
            "ignore_index": self.ignore_index,
            "reduction": self.reduction,
            "num_items": num_items,
            "empty": self.empty,
        }
        if self.group is not None:
            options["group"], options["vocab_start"] = self.group, self.vocab_start
        if extras or self.needs:
            self._check_extras(extras)
        if self.training != torch.is_grad_enabled():
            self._check_mode(input)
        if not self.training:
            return plain_cross_entropy(input, target, **options)
        self._check_advanced()
        loss = self._objective(input, target, **options, z_loss=self.z_loss, **extras)
        if not torch.compiler.is_compiling():  # which would compile again when one of these is set
            if not self._step_checked:
                self._check_step(input)
            if not self._targets_checked and target.is_floating_point():
                self._check_targets(target)
        return loss

    def _objective(self, input: Tensor, target: Tensor, **options: Any) -> Tensor:
        """The objective in training mode; ``options`` are those of the reduction and the extras."""
        for name in self.own_options:
            options[name] = getattr(self, name)
        if self.strength is not None:
            options.setdefault(self.strength, self._value)
        return self.function(input, target, **options)

    def extra_repr(self) -> str:
        """The options, as ``print(criterion)`` shows them."""
        shown = [f"ignore_index={self.ignore_index}", f"reduction={self.reduction!r}"]
        if self.strength is not None:
            shown.insert(0, f"{self.strength}={self.schedule or self._value!r}")
        if self.z_loss != 0:
            shown.append(f"z_loss={self.z_loss}")
        return ", ".join(shown)

    def _check_advanced(self) -> None:
        if not self._advanced:
            raise RuntimeError(
                f"set_progress must be called before training with a schedule; got none for {self.schedule!r}. "
                "Call criterion.set_progress(epoch / max(num_epochs - 1, 1)) at the start of every epoch."
            )

    def _check_strength(self, value: Any) -> None:
        check_number(str(self.strength), value, high=self.strength_limit)

    def _check_extras(self, extras: dict[str, Tensor]) -> None:
        name = type(self).__name__
        known = (*self.needs, *self.optional_needs, *([] if self.strength is None else [self.strength]))
        for extra in extras:
            if extra not in known:
                takes = " and ".join(("num_items", *known))
                raise TypeError(f"{name} must be called with inputs that it takes; got {extra!r}. It takes {takes}.")
        missing = [need for need in self.needs if extras.get(need) is None]
        if self.training and missing:
            need = missing[0]
            raise ValueError(f"{name} must be given {need}; got None. Call criterion(logits, target, {need}=...).")

    def _check_mode(self, input: Tensor) -> None:
        """Warn once of a loss that trains without gradients, or evaluates with them."""
        if self._mode_checked or self.training == torch.is_grad_enabled():
            return
        if not (self.training or input.requires_grad) or self._is_plain() or not first_step.can_look():
            return
        self._mode_checked = True
        first_step.warn_of_mode(type(self).__name__, is_training=self.training)

    def _check_step(self, logits: Tensor | None = None) -> None:
        """Warn of what the first step of training shows."""
        if not first_step.can_look() or self._step_checked:
            return
        self._step_checked = True
        name = type(self).__name__
        if logits is not None:
            first_step.warn_of_softmax(name, logits)
        if self.strength == "alpha":
            first_step.warn_of_strength(name, self.current_strength)

    def _check_targets(self, target: Tensor) -> None:
        # With two classes, mixing alone leaves no zero either.
        if self.group is not None or type(target) is not Tensor:  # a part of the classes
            return
        if self._is_plain() or target.numel() == 0 or num_classes(target) == 2 or not first_step.can_look():
            return
        self._targets_checked = True
        first_step.warn_of_smoothed_targets(target, str(self.strength), self.current_strength)

    def _is_plain(self) -> bool:
        return self.z_loss == 0 and (self._value is None or self.current_strength == 0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the state with the module, but protect it from casts and from ``to_empty``.

        A count in bfloat16 stops at 256, so state keeps at least float32. State that was on ``meta`` gets memory
        without content: it is reset, and class weights, whose values are unknown, become ``nan``.
        """
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        is_new = False
        for name, state in before.items():
            moved = self._buffers[name]
            if state is None or moved is None:
                continue
            if not state.is_meta:
                self._buffers[name] = state.to(moved.device, state.dtype if moved.dtype in HALF else moved.dtype)
            elif not moved.is_meta:
                is_new = True
        if is_new:
            if self.weight is not None:
                self.weight.fill_(math.nan)
            self.reset_parameters()
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if self.schedule is not None and not self.progress_units.is_meta:
            units = int(self.progress_units)
            if units != _NEVER_ADVANCED:
                self.set_progress(units / _PROGRESS_UNITS)


def named_strength() -> property:
    """``current_strength`` under the name of the option that sets it."""
    return property(lambda loss: loss.current_strength, doc="The current strength.")


class AlphaLoss(RegularizedLoss):
    """A loss whose strength is called ``alpha``."""

    alpha = named_strength()

    def __init__(self, alpha: Strength = 0.1, **options: Unpack[SplitLossOptions]) -> None:
        super().__init__(alpha, **options)


def _strength_tensor(value: float) -> Tensor:
    # A tensor, so that a compiled loss sees a new strength without another compilation. It is not a buffer: a number on
    # the host combines with logits on any device and never loses digits to `half()`.
    return torch.tensor(value, dtype=torch.float64, device="cpu")


LOSSES: Registry[type[RegularizedLoss]] = Registry("loss", shared=LossOptions.__annotations__, group="maxsup.losses")
