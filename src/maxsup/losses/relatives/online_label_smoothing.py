"""Online label smoothing (OLS): smooth towards the network's own predictions for a class in the last epoch.

**Formula.** ``(1 - alpha) CE + alpha H(S_gt, q)``. Row ``S_c`` is the mean prediction over the samples of class c that
were predicted correctly during the previous epoch.
**Use it** as the strongest rival of MaxSup in the paper's tables. **Default** ``alpha=0.5``.
**Needs** ``end_epoch()`` once before the first epoch and after every epoch. Without it the matrix would never change
and ``original`` would train half a cross-entropy for ever, so the loss refuses to train until it has been called.
**Source.** Zhang et al. 2021. Three published behaviours, by ``variant``:

============================ ================== ======================== ====================== =====================
variant                      matrix at start    loss                     class never predicted  row of other classes
============================ ================== ======================== ====================== =====================
``original`` (default)       zeros              (1 - a) CE + a soft      uniform row            new
``fine_grained``             uniform            CE + a soft, a = 1       uniform row            kept if max >= 0.88
``reimplementation``         smoothed identity  (1 - a) CE + a soft      zero row               new
============================ ================== ======================== ====================== =====================

"Never predicted" refers to one epoch: a class without a correct prediction in it loses its row, however confident that
was. **Interacts with** mixup: the soft row is ``sum_k t_k S_k`` and only unmixed samples teach the matrix. Under
torch.distributed the processes add up their epochs in ``end_epoch``. Class weights scale the whole sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_choice
from maxsup.losses.base import LOSSES, AlphaLoss, Strength
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import LossOptions, ReductionOptions, class_rows, expected_log, num_classes, target_values

INITIAL_SMOOTHING = 0.1
# What this process has counted in the epoch. Not buffers, because before every batch DistributedDataParallel overwrites
# the buffers of all processes with those of the first.
COUNTED = ("accumulator", "counts", "num_seen")


@dataclass(frozen=True)
class Variant:
    """How one published implementation differs from the others."""

    start: str
    alpha: float
    is_convex: bool
    unseen: str
    keep_above: float


VariantName = Literal["original", "fine_grained", "reimplementation"]
VARIANTS: Mapping[VariantName, Variant] = {
    "original": Variant("zeros", 0.5, True, "uniform", torch.inf),
    "fine_grained": Variant("uniform", 1.0, False, "uniform", 0.88),
    "reimplementation": Variant("smoothed", 0.5, True, "zeros", torch.inf),
}


def fill_class_matrix(matrix: Tensor, kind: str) -> Tensor:
    """Fill K x K row targets: ``zeros``, ``uniform``, or ``smoothed`` (0.9 on the diagonal, the rest shared)."""
    size = len(matrix)
    if kind == "zeros":
        return matrix.zero_()
    if kind == "uniform":
        return matrix.fill_(1.0 / max(size, 1))
    return matrix.fill_(INITIAL_SMOOTHING / max(size - 1, 1)).fill_diagonal_(1.0 - INITIAL_SMOOTHING)


def online_label_smoothing_cross_entropy(
    input: Tensor,
    target: Tensor,
    matrix: Tensor,
    alpha: float | Tensor = 0.5,
    *,
    is_convex: bool = True,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    r"""Cross-entropy mixed with the cross-entropy to the row of the class.

    .. math:: (1 - \alpha) H(y, q) + \alpha H(S_{gt}, q)

    Row c of ``matrix`` is the soft target of class c; under probability targets the rows are averaged. With
    ``is_convex=False`` the soft part is added to the whole cross-entropy.

    Example:
        >>> logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]])
        >>> online_label_smoothing_cross_entropy(logits, torch.tensor([4]), torch.full((5, 5), 0.2))
        tensor(1.8244)
    """
    size = num_classes(input)
    if tuple(matrix.shape) != (size, size):
        raise ValueError(
            f"matrix must have shape ({size}, {size}), one row per class; got {tuple(matrix.shape)}. "
            "Build the loss with num_classes of the model."
        )

    def penalty(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
        table = matrix.to(rows.dtype)
        if target.is_floating_point():
            with torch.autocast(rows.device.type, enabled=False):
                soft = target @ table
        else:
            soft = table[target]
        gain = -expected_log(soft, log_probs)
        return gain + target_values(log_probs, target) if is_convex else gain

    return penalized_cross_entropy(input, target, alpha, penalty, limit=1.0, **options)


@LOSSES.register(
    "ols",
    summary="online label smoothing: soft targets learnt from right predictions",
    formula="(1 - alpha) CE + alpha H(S_gt, q)",
    source="Zhang et al. 2021",
)
class OnlineLabelSmoothingLoss(AlphaLoss):
    r"""Cross-entropy mixed with soft targets that are learnt from the predictions of the last epoch.

    .. math:: (1 - \alpha) H(y, q) + \alpha H(S_{gt}, q)

    Args:
        alpha: Weight of the soft targets; None stands for that of the variant, or a schedule such as ``Linear(0.1,
            0.2)`` that ``set_progress`` advances.
        variant: ``"original"``, ``"fine_grained"`` or ``"reimplementation"``: which published behaviour to follow.
        num_classes: Size of the matrix of soft targets; None takes it from the first batch.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Zhang et al., "Delving Deep into Label Smoothing", IEEE TIP 2021.

    Example:
        >>> criterion = OnlineLabelSmoothingLoss(num_classes=2)
        >>> criterion.end_epoch()  # before the first epoch; every later call ends an epoch
        >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> criterion(logits, target)
        tensor(0.1100)
        >>> criterion.end_epoch()
        >>> criterion(logits, target)
        tensor(0.3469)
    """

    function = staticmethod(online_label_smoothing_cross_entropy)
    strength_limit = 1.0
    counted = COUNTED

    matrix: Tensor
    accumulator: Tensor
    counts: Tensor
    num_seen: Tensor

    def __init__(
        self,
        alpha: Strength | None = None,
        *,
        variant: VariantName = "original",
        num_classes: int | None = None,
        **options: Unpack[LossOptions],
    ) -> None:
        check_choice("variant", variant, tuple(VARIANTS))
        super().__init__(VARIANTS[variant].alpha if alpha is None else alpha, **options)
        self.variant = variant
        self._end_epoch_was_called = False
        self.register_buffer("matrix", torch.empty(0, 0, dtype=torch.float32))
        self._allocate(num_classes or 0, self.matrix.device)

    def _objective(self, input: Tensor, target: Tensor, **options: Any) -> Tensor:
        if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
            raise RuntimeError(
                "OnlineLabelSmoothingLoss must be called outside torch.func transforms, because it counts its "
                "predictions in every call. Inside, use "
                "maxsup.functional.online_label_smoothing_cross_entropy(input, target, criterion.matrix)."
            )
        if self.matrix.numel() == 0:
            self._allocate(num_classes(input), input.device)
        alpha = options.pop("alpha", self._value)
        loss = online_label_smoothing_cross_entropy(
            input, target, self.matrix, alpha, is_convex=VARIANTS[self.variant].is_convex, **options
        )
        self._learn(input.detach(), target)
        return loss

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Replace the matrix by the means of the epoch over all processes; without a new batch it stays."""
        is_first, self._end_epoch_was_called = not self._end_epoch_was_called, True
        is_distributed = dist.is_available() and dist.is_initialized()
        if self.matrix.numel() == 0:
            if is_distributed and not is_first:
                raise RuntimeError(
                    "num_classes must be given where several processes train; this one saw no sample in the epoch and "
                    "cannot take part. Build the loss with num_classes=..."
                )
            return
        self._move_counts()
        if is_distributed:
            for name in COUNTED:
                dist.all_reduce(getattr(self, name))
        if not self.num_seen:
            return
        variant = VARIANTS[self.variant]
        is_seen = (self.counts > 0).unsqueeze(1)
        means = self.accumulator / self.counts.clamp(min=1).unsqueeze(1)
        is_kept = self.matrix.amax(dim=1, keepdim=True) >= variant.keep_above
        unseen = fill_class_matrix(torch.empty_like(means), variant.unseen)
        self.matrix.copy_(torch.where(is_seen, torch.where(is_kept, self.matrix, means), unseen))
        for name in COUNTED:
            getattr(self, name).zero_()

    def reset_parameters(self) -> None:
        """Start again with the variant's matrix and empty counts."""
        super().reset_parameters()
        self._end_epoch_was_called = False
        self._start()

    def _check_advanced(self) -> None:
        super()._check_advanced()
        if not self._end_epoch_was_called:
            raise RuntimeError(
                "end_epoch must be called once before the first epoch and after every epoch, because online label "
                "smoothing learns its targets from whole epochs; it was not called yet. Call criterion.end_epoch()."
            )

    @torch.no_grad()
    def _learn(self, input: Tensor, target: Tensor) -> None:
        self._move_counts()
        rows = class_rows(input)
        if target.is_floating_point():
            top, labels = class_rows(target).max(dim=-1)
            counted = top == 1
        else:
            labels = target.reshape(-1).long()
            counted = labels != self.ignore_index
            labels = labels.where(counted, 0)
        counted = counted & (rows.argmax(dim=-1) == labels)
        probs = F.softmax(rows, dim=-1).where(counted.unsqueeze(-1), 0).to(self.accumulator.dtype)
        # Each batch is summed by itself first: the sum of an epoch of pixels is too large for adding 1 to change it.
        self.accumulator += torch.zeros_like(self.accumulator).index_add_(0, labels, probs)
        self.counts += torch.zeros_like(self.counts, dtype=torch.int32).index_add_(0, labels, counted.int())
        self.num_seen += len(labels)

    def _allocate(self, size: int, device: torch.device) -> None:
        self.matrix = self.matrix.new_empty(size, size, device=device)
        self._start()

    def _start(self) -> None:
        fill_class_matrix(self.matrix, VARIANTS[self.variant].start)
        # Nothing could be counted on meta; the counts follow the matrix to its device later.
        device = "cpu" if self.matrix.is_meta else self.matrix.device
        self.accumulator = torch.zeros_like(self.matrix, device=device)
        self.counts = torch.zeros(len(self.matrix), dtype=torch.int64, device=device)
        self.num_seen = torch.zeros((), dtype=torch.int64, device=device)

    def _move_counts(self) -> None:
        if self.accumulator.device != self.matrix.device:
            for name in COUNTED:
                setattr(self, name, getattr(self, name).to(self.matrix.device))

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update({prefix + name: getattr(self, name) for name in COUNTED})

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        _, _, missing_keys, unexpected_keys, _ = args
        saved = state_dict.get(prefix + "matrix")
        if saved is not None and self.matrix.numel() == 0 and saved.numel() > 0:
            self._allocate(len(saved), self.matrix.device)
        super()._load_from_state_dict(state_dict, prefix, *args)
        if prefix + "counts" in state_dict:  # 0.1.0 did not save num_seen; any number above 0 means the same
            state_dict.setdefault(prefix + "num_seen", state_dict[prefix + "counts"].sum())
        for name in COUNTED:
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            if key in unexpected_keys:
                unexpected_keys.remove(key)
            mine = getattr(self, name)
            setattr(self, name, state_dict[key].detach().to(mine.device, mine.dtype, copy=True))
        if saved is not None and saved.numel() > 0 and not self.matrix.is_meta:
            # A state with samples or a learnt matrix comes from a loop that ends its epochs.
            start = fill_class_matrix(torch.empty_like(self.matrix), VARIANTS[self.variant].start)
            self._end_epoch_was_called |= bool(self.num_seen > 0) or not torch.equal(self.matrix, start)
