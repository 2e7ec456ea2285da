"""Check a training criterion together with the evaluation criterion and Mixup. Nothing here imports torch."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from maxsup.core.checks import check_choice, check_number
from maxsup.core.errors import hint
from maxsup.core.finding import Finding
from maxsup.core.registry import check_known_options
from maxsup.doctor.common_findings import (
    double_smoothing,
    index_with_probabilities,
    other_convention,
    schedule_not_advanced,
    smoothed_evaluation,
)


@dataclass(frozen=True)
class Smoother:
    """The smoothing of a loss or a Mixup, and the targets it takes."""

    name: str
    method: str = ""  # "label smoothing", "MaxSup" or empty
    strength: float = 0.0  # 0 if it does not smooth
    option: str = "alpha"  # the name of the option that sets the strength
    convention: str = "k"  # label smoothing spreads over all "k" classes or over the "k-1" others
    takes: str = "any"  # "any" targets, "labels" only, or "sigmoid" for losses without a softmax
    ignore_index: int | None = None
    weight: Any = None
    empty: str = "nan"  # "zero" if the mean over no targets is 0
    schedule: str | None = None  # a schedule that has not been advanced
    is_training: bool | None = None  # the mode of one of our losses, None for losses without modes

    @property
    def described(self) -> str:
        """Method, name and strength, such as ``label smoothing in CrossEntropyLoss (label_smoothing=0.1)``."""
        return f"{self.method or 'cross-entropy'} in {self.name} ({self.option}={self.strength:g})"

    @property
    def breaks_on_masks(self) -> bool:
        """True if label smoothing makes the loss inf for a logit of -inf."""
        return self.method == _SMOOTHING and self.is_training is None and self.takes != "sigmoid"


_SMOOTHING = "label smoothing"
CRITERIA = {
    loss.name: loss
    for loss in (
        Smoother("CrossEntropyLoss", _SMOOTHING, 0.0, "label_smoothing"),
        Smoother("LabelSmoothingCrossEntropy", _SMOOTHING, 0.1, "smoothing", takes="labels"),
        Smoother("SoftTargetCrossEntropy", option=""),
        Smoother("SoftCrossEntropyLoss", _SMOOTHING, 0.0, "smooth_factor", takes="labels"),
        Smoother("BinaryCrossEntropy", _SMOOTHING, 0.1, "smoothing", takes="sigmoid"),
        Smoother("LabelSmoother", _SMOOTHING, 0.1, "epsilon", takes="labels"),
        Smoother("LabelSmoothedCrossEntropyCriterion", _SMOOTHING, 0.0, "label_smoothing", "k-1", "labels"),
        Smoother("CategoricalCrossentropy", _SMOOTHING, 0.0, "label_smoothing"),
        Smoother("SparseCategoricalCrossentropy", option="", takes="labels"),
        Smoother("MaxSupLoss", "MaxSup", 0.1, is_training=True),
        Smoother("LabelSmoothingLoss", _SMOOTHING, 0.1, is_training=True),
        Smoother("MarginLabelSmoothingLoss", _SMOOTHING, 0.1, is_training=True),
        Smoother("AdaptiveConditionalLabelSmoothingLoss", _SMOOTHING, 0.1, is_training=True),
    )
}
"""Classes known by name, with the defaults of their options."""
MIXERS = {"Mixup": Smoother("Mixup", _SMOOTHING, 0.1, "label_smoothing")}
# Options that are read besides the strength, and options that do not matter here.
_READ = ("convention", "empty", "ignore_index", "ignore_class", "weight")
_HARMLESS = ("adaptive", "axis", "correct_lam", "cutmix_alpha", "cutmix_minmax", "dim", "dtype", "from_logits",
             "margin", "mixup_alpha", "mode", "name", "num_classes", "others", "pos_weight", "prob", "reduction",
             "sum_classes", "switch_prob", "target_threshold", "top", "weight_mode", "z_loss")  # fmt: skip
# Attributes that hold the strength of label smoothing in any class; the last is fairseq's.
_ATTRIBUTES = ("label_smoothing", "smoothing", "smooth_factor", "epsilon", "eps")


def smoothers(criterion: Any) -> list[Smoother]:
    """Describe each loss in a criterion.

    A criterion is an object, a module that contains losses, or a string such as ``"MaxSupLoss()"``.

    Example:
        >>> [loss] = smoothers(torch.nn.CrossEntropyLoss(label_smoothing=0.1))
        >>> loss.described
        'label smoothing in CrossEntropyLoss (label_smoothing=0.1)'
        >>> smoothers("MaxSupLoss(alpha=0.2)")[0].strength
        0.2
    """
    if isinstance(criterion, str):
        return [_from_words("criterion", criterion, CRITERIA)]
    if not hasattr(criterion, "modules"):
        criterion = getattr(criterion, "criterion", criterion)  # an adapter around a loss, such as TrainerLoss
    parts = criterion.modules() if hasattr(criterion, "modules") else [criterion]
    return [loss for part in parts if (loss := _from_object(part)) is not None]


def ignored_label(losses: list[Smoother]) -> int:
    """Return the ``ignore_index`` of the first loss that has one, else torch's -100."""
    return next((loss.ignore_index for loss in losses if loss.ignore_index is not None), -100)


def examine_criterion(criterion: Any, *, evaluation_criterion: Any = None, mixup: Any = None) -> list[Finding]:
    """Check a training loss, its evaluation loss and its Mixup, and return the findings.

    Args:
        criterion: A loss of torch, timm, transformers, fairseq, Keras or this package, a module that contains such
            losses, or a string such as ``"CrossEntropyLoss(label_smoothing=0.1)"``.
        evaluation_criterion: The validation loss, in any of these forms.
        mixup: timm's ``Mixup``, another object that mixes targets, or a string such as ``"Mixup(label_smoothing=0)"``.

    Example:
        >>> import maxsup
        >>> [finding] = examine_criterion(maxsup.MaxSupLoss(alpha=0.1), mixup="Mixup(label_smoothing=0.1)")
        >>> finding.sentence
        'Targets are smoothed twice: by MaxSup in MaxSupLoss (alpha=0.1) and by Mixup (label_smoothing=0.1).'
        >>> examine_criterion(maxsup.MaxSupLoss(alpha=0.1), evaluation_criterion=torch.nn.CrossEntropyLoss())
        []
    """
    losses = smoothers(criterion)
    size = getattr(mixup, "num_classes", None)
    found = list(_examine_losses(losses, size if isinstance(size, int) else None))
    if mixup is not None:
        found += _examine_mixup(losses, mixup)
    if evaluation_criterion is not None:
        found += _examine_evaluation(losses, evaluation_criterion, is_shared=evaluation_criterion == criterion)
    return found


def _smoothed_twice(losses: list[Smoother]) -> list[Finding]:
    """Report losses of one sum that include both MaxSup and label smoothing."""
    active = {loss.method: loss.described for loss in losses if loss.strength > 0}
    if not {"MaxSup", _SMOOTHING} <= active.keys():
        return []
    fix = "Keep MaxSup and set the label smoothing to 0: MaxSup replaces it."
    return [double_smoothing(active["MaxSup"], active[_SMOOTHING], fix)]


def _examine_losses(losses: list[Smoother], num_classes: int | None) -> Iterator[Finding]:
    yield from _smoothed_twice(losses)
    for loss in losses:
        if loss.schedule is not None:
            yield schedule_not_advanced(f"{loss.name} has {loss.option}={loss.schedule}")
        if loss.is_training is False:
            what = f"{loss.name} is plain cross-entropy in evaluation mode, and {loss.option}={loss.strength:g} is off."
            yield Finding("evaluation_mode", "warning", what, "Call criterion.train() before training.")
        if loss.convention == "k-1" and loss.strength > 0:
            yield other_convention(loss.name, loss.strength, num_classes)


def _examine_mixup(losses: list[Smoother], mixup: Any) -> Iterator[Finding]:
    """Check losses whose targets come from a Mixup."""
    mixing = [_from_words("mixup", mixup, MIXERS)] if isinstance(mixup, str) else smoothers(mixup)
    name = mixing[0].name if isinstance(mixup, str) else type(mixup).__name__
    strength = max((one.strength for one in mixing), default=0.0)
    for loss in losses:
        if loss.takes == "labels":
            sentence = f"{loss.name} takes class indices, but {name} turns them into probabilities."
            fix = "Use MaxSupLoss, which takes both, or SoftTargetCrossEntropy."
            yield Finding("mixed_targets", "error", sentence, fix)
        elif strength > 0 and loss.strength > 0 and loss.takes != "sigmoid":
            words = f"{name} ({mixing[0].option}={strength:g})"
            fix = "Set the smoothing of the mixing to 0, for instance Mixup(label_smoothing=0); mixed labels may stay."
            yield double_smoothing(loss.described, words, fix)
        if loss.ignore_index is not None and loss.ignore_index >= 0 and loss.takes == "any":
            yield index_with_probabilities(f"{loss.name} has ignore_index={loss.ignore_index}, and mixed targets")


def _examine_evaluation(losses: list[Smoother], criterion: Any, *, is_shared: bool) -> Iterator[Finding]:
    others = {one.ignore_index for one in losses} - {None}
    for loss in smoothers(criterion):
        if loss.strength > 0 and is_shared and loss.is_training is not None:
            sentence = f"{loss.name} is used for training and evaluation; in evaluation mode it is plain cross-entropy."
            fix = "Call criterion.eval() before evaluating and criterion.train() after."
            yield Finding("evaluation_mode", "note", sentence, fix)
        elif loss.strength > 0 and loss.is_training is not False:
            fix = "Use torch.nn.CrossEntropyLoss() for evaluation"
            fix += "." if loss.is_training is None else ", or call eval() on the loss."
            yield smoothed_evaluation(f"The evaluation uses {loss.described}", fix)
        if loss.ignore_index is not None and others and loss.ignore_index not in others:
            sentence = f"Training ignores label {min(others, key=str)} and evaluation label {loss.ignore_index}."
            yield Finding("ignore_index", "warning", sentence, "Use the same ignore_index in both.")


def _from_object(part: Any) -> Smoother | None:
    name = type(part).__name__
    known = CRITERIA.get(name, Smoother(name))
    index = getattr(part, "ignore_index", getattr(part, "ignore_class", None))
    options: dict[str, Any] = {
        "ignore_index": index if isinstance(index, int) else None,
        "weight": getattr(part, "weight", None),
        "empty": getattr(part, "empty", "nan"),
    }
    if hasattr(part, "set_progress") and hasattr(part, "training"):  # of this package, for torch or Keras
        method = "MaxSup" if "MaxSup" in name else _SMOOTHING if "LabelSmoothing" in name else ""
        strength = getattr(part, "alpha", math.nan)
        schedule: Any = getattr(part, "schedule", None)
        is_waiting = callable(schedule) and math.isnan(strength)
        if is_waiting:
            strength = max(schedule(0.0), schedule(1.0))
        return Smoother(
            name,
            method,
            0.0 if math.isnan(strength) or not method else float(strength),
            convention=getattr(part, "convention", "k"),
            **options,
            schedule=repr(schedule) if is_waiting else None,
            is_training=bool(part.training),
        )
    for attribute in _ATTRIBUTES:
        value = getattr(part, attribute, None)
        # Network layers have an ``eps`` or ``epsilon`` too.
        is_loss = attribute not in ("eps", "epsilon") or "Criterion" in name or "Smooth" in name
        if isinstance(value, int | float) and not isinstance(value, bool) and is_loss:
            convention = "k-1" if attribute == "eps" else known.convention
            return Smoother(name, _SMOOTHING, float(value), attribute, convention, known.takes, **options)
    return Smoother(name, takes=known.takes, **options) if name in CRITERIA else None


def _from_words(what: str, text: str, known: dict[str, Smoother]) -> Smoother:
    """Describe a loss or a Mixup given as a string. Only literals are read, and nothing is executed."""
    name, options = parse_call(text)
    if name not in known:
        raise ValueError(f"{what} must be a class that doctor knows; got {name!r}. {hint(name, known)}")
    return _with_options(known[name], options)


def _with_options(default: Smoother, options: dict[str, Any]) -> Smoother:
    """Return a known loss or Mixup with some options set."""
    name = default.name
    check_known_options(name, options, {default.option, *_READ, *_HARMLESS} - {""})
    strength = options.get(default.option, default.strength)
    check_number(default.option, strength, high=1.0 if default.method == _SMOOTHING else math.inf)
    convention, empty = options.get("convention", default.convention), options.get("empty", "nan")
    check_choice(f"convention of {name}", convention, ("k", "k-1"))
    check_choice(f"empty of {name}", empty, ("nan", "zero"))
    index = options.get("ignore_index", options.get("ignore_class"))
    if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
        raise ValueError(f"ignore_index of {name} must be a whole number; got {index!r}. Write for instance -100.")
    given = {"ignore_index": index, "weight": options.get("weight"), "empty": empty}
    return replace(default, strength=float(strength), convention=convention, **given)


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a call with literal options into its name and options. The call is not executed.

    Example:
        >>> parse_call("nn.CrossEntropyLoss(label_smoothing=0.1)")
        ('CrossEntropyLoss', {'label_smoothing': 0.1})
        >>> parse_call("CrossEntropyLoss(label_smoothing=open('x'))")
        Traceback (most recent call last):
        ValueError: criterion must be a name with literal options; got "CrossEntropyLoss(label_smoothing=open('x'))".
        Write for instance "CrossEntropyLoss(label_smoothing=0.1)".
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if isinstance(call, ast.Name | ast.Attribute):
            call = ast.Call(func=call, args=[], keywords=[])
        if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
            raise ValueError
        if not isinstance(call.func, ast.Name | ast.Attribute):
            raise ValueError
        name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
        return name, {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        raise ValueError(
            f"criterion must be a name with literal options; got {text[:200]!r}. "
            'Write for instance "CrossEntropyLoss(label_smoothing=0.1)".'
        ) from None
