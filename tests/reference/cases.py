"""Facts about each loss that the tests are parametrised with, stated independently of the library where it matters."""

from dataclasses import dataclass, field
from typing import Any

from maxsup.losses import LOSSES


@dataclass(frozen=True)
class LossCase:
    """What a test has to know to call a loss.

    Attributes:
        name: Registry name.
        class_name: Class in ``maxsup.losses``.
        function: Name in ``maxsup.functional``.
        off: Options with which the loss is plain cross-entropy; None if there are none.
        strength: Options that make the loss differ clearly from cross-entropy.
        takes_probabilities: Accepts probability targets.
        needs: What it takes besides logits and targets.
        is_shift_invariant: Unchanged when a constant is added to all logits of a sample.
        squares_logits: Infinite for the largest logits of a dtype, whose squares are beyond it.
        is_smooth: Twice differentiable away from ties.
        is_fused: Has a closed gradient, and so several ways to compute it.
        has_kernel: One of these ways is a kernel for a GPU.
    """

    name: str
    class_name: str
    function: str
    off: dict[str, Any] | None = None
    strength: dict[str, Any] = field(default_factory=dict)
    takes_probabilities: bool = True
    needs: tuple[str, ...] = ()
    is_shift_invariant: bool = True
    squares_logits: bool = False
    is_smooth: bool = True
    is_fused: bool = False
    has_kernel: bool = False


ALPHA_OFF = {"alpha": 0.0}
ALPHA_ON = {"alpha": 0.3}

STATED = (
    LossCase("ce", "CrossEntropyLoss", "cross_entropy", off={}),
    LossCase("ls", "LabelSmoothingLoss", "label_smoothing_cross_entropy",
             ALPHA_OFF, ALPHA_ON, is_fused=True, has_kernel=True),
    LossCase("maxsup", "MaxSupLoss", "maxsup_cross_entropy", ALPHA_OFF, ALPHA_ON, is_fused=True, has_kernel=True),
    LossCase("mbls", "MarginLabelSmoothingLoss", "mbls_cross_entropy",
             ALPHA_OFF, {"alpha": 0.3, "margin": 1.2}, is_fused=True, has_kernel=True),
    LossCase("reg_only", "RegularizationOnlyLoss", "regularization_only_cross_entropy", ALPHA_OFF, ALPHA_ON, False),
    LossCase("err_amp_mean", "ErrorAmplificationMeanLoss", "error_amplification_mean_cross_entropy",
             ALPHA_OFF, ALPHA_ON, takes_probabilities=False),
    LossCase("err_amp_max", "ErrorAmplificationMaxLoss", "error_amplification_max_cross_entropy",
             ALPHA_OFF, ALPHA_ON, takes_probabilities=False),
    LossCase("logit_penalty", "LogitPenaltyLoss", "logit_penalty_cross_entropy",
             {"beta": 0.0}, {"beta": 0.02}, is_shift_invariant=False, squares_logits=True, is_fused=True),
    LossCase("logit_norm", "LogitNormLoss", "logit_norm_cross_entropy", None, {"tau": 0.5}, is_shift_invariant=False),
    LossCase("confidence_penalty", "ConfidencePenaltyLoss", "confidence_penalty_cross_entropy",
             {"beta": 0.0}, {"beta": 0.3}, is_fused=True),
    LossCase("ols", "OnlineLabelSmoothingLoss", "online_label_smoothing_cross_entropy", ALPHA_OFF, {"alpha": 0.4}),
    LossCase("zipf_ls", "ZipfLabelSmoothingLoss", "zipf_label_smoothing_cross_entropy",
             ALPHA_OFF, ALPHA_ON, takes_probabilities=False),
    # The mixing weight of adaptive_ls is a constant of the gradient, so its second derivative is not that of the value.
    LossCase("adaptive_ls", "AdaptiveLabelSmoothingLoss", "adaptive_label_smoothing_cross_entropy",
             needs=("teacher_logits",), is_smooth=False),
    LossCase("focal", "FocalLoss", "focal_cross_entropy", {"gamma": 0.0}, {"gamma": 2.0}),
    LossCase("focal_ls", "FocalLabelSmoothingLoss", "focal_label_smoothing_cross_entropy",
             {"alpha": 0.0, "gamma": 0.0}, {"alpha": 0.3, "gamma": 2.0}),
    LossCase("focal_maxsup", "FocalMaxSupLoss", "focal_maxsup_cross_entropy",
             {"alpha": 0.0, "gamma": 0.0}, {"alpha": 0.3, "gamma": 2.0}),
    # Part of its gradient treats the top logit as a constant.
    LossCase("acls", "AdaptiveConditionalLabelSmoothingLoss", "acls_cross_entropy",
             ALPHA_OFF, {"alpha": 0.3, "margin": 0.5},
             is_shift_invariant=False, squares_logits=True, is_smooth=False),
    LossCase("poly1", "Poly1Loss", "poly1_cross_entropy", {"epsilon": 0.0}, {"epsilon": 2.0}, is_fused=True),
    LossCase("dual_focal", "DualFocalLoss", "dual_focal_cross_entropy", {"gamma": 0.0}, {"gamma": 3.0}),
    LossCase("distillation", "DistillationLoss", "distillation_cross_entropy",
             ALPHA_OFF, {"alpha": 0.6, "temperature": 3.0}, needs=("teacher_logits",)),
)  # fmt: skip


def expected_case(name: str) -> LossCase:
    """What the tests expect of a loss that is not stated above: its strength alone separates it from cross-entropy."""
    loss = LOSSES[name]
    off, on = ({loss.strength: value} for value in (0.0, 0.3)) if loss.strength else (None, {})
    return LossCase(name, loss.__name__, loss.function.__name__, off, on, needs=loss.needs)


CASES = (*STATED, *(expected_case(name) for name in LOSSES if name not in {case.name for case in STATED}))
NUM_LOSSES = len(CASES)
CASE_OF = {case.name: case for case in CASES}
