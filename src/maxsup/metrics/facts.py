"""Title, unit, format and better direction of every number that the lab writes or prints.

Results, tables, figures and model cards all read this table, so a number must be listed here before it can be written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from maxsup.core.errors import hint
from maxsup.core.old_names import number_name
from maxsup.metrics.bootstrap import Interval
from maxsup.metrics.calibration import (
    adaptive_calibration_error,
    classwise_calibration_error,
    expected_calibration_error,
)
from maxsup.metrics.classes import top_confusion, worst_class_accuracy
from maxsup.metrics.collapse import neural_collapse
from maxsup.metrics.scores import accuracy, brier_score, mean_confidence, negative_log_likelihood
from maxsup.metrics.selective import augrc, aurc, auroc, excess_aurc, fpr95, risk_at_coverage
from maxsup.metrics.separation import class_separation
from maxsup.metrics.smooth_calibration import smooth_calibration_error
from maxsup.metrics.spectrum import feature_rank

Direction = Literal["higher", "lower", "none"]
DIRECTIONS: tuple[Direction, ...] = ("higher", "lower", "none")
BETTER: dict[str, str] = {"higher": "higher is better", "lower": "lower is better", "none": ""}


@dataclass(frozen=True)
class Fact:
    """Title, direction, unit and format of one number.

    ``unit`` is that of the stored number. Printed numbers are multiplied by ``factor`` (100 for percent) and have
    ``digits`` decimals. ``words`` is the full name if ``title`` is short. ``function`` computes the number from logits
    or features and labels; some functions return several numbers by name.
    """

    title: str
    direction: Direction = "none"
    unit: str = ""
    factor: float = 1.0
    digits: int = 3
    words: str = ""
    function: Callable[..., Any] | None = None

    @property
    def printed_unit(self) -> str:
        """The unit of the printed number."""
        return "%" if self.factor == 100 else self.unit

    @property
    def axis(self) -> str:
        """The title with the printed unit, as an axis label.

        Example:
            >>> FACTS["accuracy"].axis, FACTS["nll"].axis, FACTS["ece"].axis
            ('accuracy (%)', 'NLL (nats)', 'ECE')
        """
        return f"{self.title} ({self.printed_unit})" if self.printed_unit else self.title

    @property
    def full_name(self) -> str:
        """``words``, or the title if there are none."""
        return self.words or self.title


def _share(title: str, direction: Direction = "higher", **facts: Any) -> Fact:
    return Fact(title, direction, factor=100.0, digits=2, **facts)


_DETECTION: tuple[tuple[str, str, Direction], ...] = (("auroc", "OOD AUROC", "higher"), ("fpr95", "OOD FPR95", "lower"))

FACTS: dict[str, Fact] = {
    # Predictions.
    "accuracy": _share("accuracy", function=accuracy),
    "accuracy_top5": _share("top-5 accuracy", function=partial(accuracy, k=5)),
    "error": _share("error", "lower"),
    "nll": Fact("NLL", "lower", "nats", words="negative log-likelihood", function=negative_log_likelihood),
    "brier": Fact("Brier score", "lower", function=brier_score),
    "ece": Fact("ECE", "lower", words="expected calibration error, 15 bins", function=expected_calibration_error),
    # After a temperature that was fitted on other samples; what remains of a loss is its refinement part.
    "nll_after": Fact(
        "NLL after a temperature", "lower", "nats", words="refinement part of NLL, after a temperature fitted elsewhere"
    ),
    "brier_after": Fact(
        "Brier score after a temperature", "lower", words="refinement part of the Brier score, after a temperature"
    ),
    "ece_after": Fact("ECE after a temperature", "lower", words="ECE after a temperature fitted on other samples"),
    "nll_calibration": Fact(
        "calibration part of NLL", "lower", "nats", words="NLL that a temperature fitted on other samples removes"
    ),
    "brier_calibration": Fact(
        "calibration part of the Brier score", "lower", words="Brier score that a temperature fitted elsewhere removes"
    ),
    "adaptive_ece": Fact("adaptive ECE", "lower", function=adaptive_calibration_error),
    "smooth_ece": Fact(
        "smooth ECE", "lower", words="smooth calibration error, without bins", function=smooth_calibration_error
    ),
    "classwise_ece": Fact("classwise ECE", "lower", function=classwise_calibration_error),
    "aurc": Fact("AURC", "lower", digits=4, words="area under the risk-coverage curve", function=aurc),
    "excess_aurc": Fact("E-AURC", "lower", digits=4, words="AURC above that of a perfect order", function=excess_aurc),
    "augrc": Fact("AUGRC", "lower", digits=4, words="wrong and accepted samples, mean over coverages", function=augrc),
    "auroc": Fact("AUROC", "higher", words="chance that a right prediction is the surer one", function=auroc),
    "fpr95": Fact("FPR95", "lower", words="errors accepted with 95 % of the right predictions", function=fpr95),
    **{
        f"risk_at_coverage_{percent}": Fact(
            f"risk at {percent} % coverage", "lower", function=partial(risk_at_coverage, coverage=percent / 100)
        )
        for percent in (80, 90, 95)
    },
    # Confidence has no direction: lower is better on errors only while it still separates them.
    "mean_confidence": Fact("mean confidence"),
    "confidence_correct": Fact("confidence where right", function=lambda *rows: mean_confidence(*rows).correct),
    "confidence_wrong": Fact("confidence on errors", function=lambda *rows: mean_confidence(*rows).wrong),
    "confidence_gap": Fact("confidence where right, above that on errors"),
    "confidence_wrong_if_calibrated": Fact("confidence on errors, if calibrated"),
    "ece_if_calibrated": Fact("ECE, if calibrated", words="ECE that chance alone stays below in 95 of 100 samples"),
    "published_ece": Fact("ECE by batches of 100", "lower", "mean over batches of 100"),
    # A different quantity for every loss.
    "published_nll": Fact("training objective", unit="training objective"),
    # Classes.
    "worst_class_accuracy": _share("accuracy of the worst class", function=worst_class_accuracy),
    "top_confusion": _share("strongest confusion", "lower", function=top_confusion),
    "balanced_accuracy": _share("balanced accuracy"),
    "accuracy_many": _share("large classes"),
    "accuracy_medium": _share("medium classes"),
    "accuracy_low": _share("small classes"),
    # Features. Tight classes are good for these classes and often bad for the next task: no direction.
    "within": Fact("within", words="cosine distance within classes", function=class_separation),
    "total": Fact("total", words="cosine distance between all samples", function=class_separation),
    "r_squared": Fact("r_squared", words="1 - within / total", function=class_separation),
    **{name: Fact(name.upper(), function=neural_collapse) for name in ("nc1", "nc3", "nc4")},
    # How many directions features fill; as with variation within classes, more is not better for every task.
    **{
        f"{name}{suffix}": Fact(f"{title}{where}", digits=2, function=feature_rank)
        for name, title in (
            ("effective_rank", "effective rank"),
            ("participation_ratio", "participation ratio"),
            ("rankme", "RankMe"),
        )
        for suffix, where in (("", ""), ("_within", " within classes"))
    },
    "nc2_norm": Fact("NC2 norm", function=neural_collapse),
    "nc2_angle": Fact("NC2 angle", function=neural_collapse),
    # Next to collapse, the accuracy of a split is context and has no direction.
    **{f"{split}_accuracy": _share(f"accuracy ({split})", "none") for split in ("train", "val", "test")},
    "spread": Fact("spread"),
    "gap": Fact("gap"),
    "gap_over_spread": Fact("gap over spread", "higher", digits=2),
    # Probes.
    "probe_accuracy": _share("probe accuracy"),
    "knn_accuracy": _share("k-NN accuracy"),
    "head_accuracy": _share("accuracy of the model's own head"),
    "accuracy_judged": _share("accuracy on the judged samples"),
    "strength": Fact("strength of the probe"),
    "num_probe_judged": Fact("judged samples", digits=0),
    "num_probe_classes": Fact("probed classes", digits=0),
    # Logits.
    "mean_logit": Fact("mean logit"),
    "std": Fact("deviation of logits"),
    "std_centred": Fact("deviation of centred logits"),
    "near_zero_share": Fact("share of logits near 0"),
    "near_zero_share_centred": Fact("share of centred logits near 0"),
    "top_gap_right": Fact("top logit above the mean, right"),
    "top_gap_wrong": Fact("top logit above the mean, wrong"),
    # What was fitted or estimated.
    "temperature": Fact("temperature"),
    "norm_power": Fact("power of the logit norm", digits=0),
    "alpha": Fact("estimated alpha of label smoothing"),
    "alpha_by_scale": Fact("alpha by the scale of logits"),
    "alpha_by_gap": Fact("alpha by the gap of logits"),
    "unevenness": Fact("unevenness of wrong logits"),
    # Other kinds of images: which score tells them from those of training.
    **{
        f"ood_{name}_{score}": Fact(f"{title} by {words}", direction)
        for score, words in (
            ("max_probability", "top probability"),
            ("max_logit", "top logit"),
            ("energy", "energy"),
            ("knn", "k-NN"),
        )
        for name, title, direction in _DETECTION
    },
    # Prediction sets that are to hold the true class in 90 or 95 % of cases.
    **{
        f"{name}_{method}_{percent}": entry
        for method in ("lac", "aps", "raps")
        for percent in (90, 95)
        for name, entry in (
            ("set_size", Fact(f"{method.upper()} set at {percent} %", "lower", "classes", digits=2)),
            ("set_coverage", _share(f"{method.upper()} coverage at {percent} %", "none")),
            ("worst_class_coverage", _share(f"worst class in {method.upper()} sets at {percent} %", "higher")),
        )
    },
    # Class activation maps.
    "active_share": Fact("active share of the map"),
    "precision_half": Fact("overlay precision", "higher"),
    "recall_half": Fact("overlay recall", "higher"),
    "precision_otsu": Fact("overlay precision (Otsu)", "higher"),
    "recall_otsu": Fact("overlay recall (Otsu)", "higher"),
    "pointing_game": Fact("pointing game", "higher"),
    "energy": Fact("energy on the object", "higher"),
    "object_share": Fact("share of the object"),
    "num_scored": Fact("scored images", unit="images", digits=0),
    "num_empty_maps": Fact("empty maps", "lower", "images", digits=0),
    # Masks.
    "miou": _share("mIoU"),
    "miou_multiscale": _share("mIoU (multi-scale)"),
    "majority_miou": _share("mIoU of the commonest class", "none"),
    "class_accuracy": _share("class accuracy"),
    # Teachers and students.
    "teacher_accuracy": _share("teacher accuracy"),
    "student_accuracy": _share("student accuracy"),
    "student_nll": Fact("student NLL", "lower", "nats"),
    "agreement": _share("agreement"),
    "kl": Fact("KL", "lower", "nats", words="divergence of the student from its teacher"),
    "wrong_class_information": Fact("wrong classes", unit="nats", words="information on wrong classes"),
    "similarity_symmetry": Fact("symmetry of similarity"),
    # Runs.
    "n": Fact("samples", digits=0),
    "missing": Fact("samples that could not be read", "lower", digits=0),
    "seconds": Fact("seconds an epoch", "lower", "s", digits=2),
}


def find_fact(name: str) -> Fact | None:
    """Return the entry of a number, or None if there is none.

    The prefixes ``train_``, ``val_`` and ``test_`` and the suffixes ``_before`` and ``_after`` (a repair) change only
    the title. ``r_squared_NAME`` is how well a probe predicts the known factor ``NAME``.

    Example:
        >>> find_fact("train_within").title, find_fact("ece_after").direction, find_fact("r_squared_hue").title
        ('within (train)', 'lower', 'probe: hue')
    """
    name = number_name(name)
    if name in FACTS:
        return FACTS[name]
    for split in ("train", "val", "test"):
        if found := FACTS.get(name.removeprefix(f"{split}_")):
            return replace(found, title=f"{found.title} ({split})")
    for moment in ("before", "after"):
        if found := FACTS.get(name.removesuffix(f"_{moment}")):
            return replace(found, title=f"{found.title} {moment}")
    return Fact(f"probe: {name.removeprefix('r_squared_')}") if name.startswith("r_squared_") else None


def fact(name: str) -> Fact:
    """Return the entry of a number. Raise ``ValueError`` if there is none.

    Example:
        >>> fact("acuracy")
        Traceback (most recent call last):
        ValueError: number must be one of maxsup.metrics.facts; got 'acuracy'. Did you mean 'accuracy'?
    """
    found = find_fact(name)
    if found is None:
        raise ValueError(f"number must be one of maxsup.metrics.facts; got {name!r}. {hint(name, FACTS)}")
    return found


def numbers(values: Mapping[str, float | Interval]) -> dict[str, dict[str, Any]]:
    """Return measured numbers as results store them: value, direction, unit and, for an interval, its bounds.

    Example:
        >>> numbers({"nll": 0.5, "ece": Interval(0.02, 0.01, 0.03)})["nll"]
        {'value': 0.5, 'direction': 'lower', 'unit': 'nats'}
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        known = fact(name)
        found = value.estimate if isinstance(value, Interval) else value
        entries[name] = {"value": float(found), "direction": known.direction, "unit": known.unit}
        if isinstance(value, Interval):
            entries[name] |= {"low": float(value.low), "high": float(value.high)}
    return entries
