"""The diagnosis of a model from its outputs: signs of label smoothing, and how far to trust its confidence.

Logits are read in parts and reduced to a few numbers per sample, so 50,000 samples of 1,000 classes fit in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, overload

from torch import Tensor

from maxsup.core.finding import LEVELS, Finding
from maxsup.diagnosis import class_findings, findings, measures, novelty_findings
from maxsup.diagnosis.outputs import Array, Outputs, checked_other_features, checked_others, checked_outputs
from maxsup.diagnosis.smoothing import SmoothingEstimate, estimate_from, logit_traces
from maxsup.metrics.facts import numbers as named

if TYPE_CHECKING:
    from maxsup.diagnosis.side_by_side import Models, SideBySide

PROTOCOL = 1
"""Version of the computation, increased with every change of the numbers."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Numbers, findings and figure data of a model. Shows its findings when printed or displayed in a notebook.

    Attributes:
        numbers: By name, each with ``value``, ``direction``, ``unit`` and, where resampled, ``low`` and ``high``.
        findings: One finding per topic.
        smoothing: The estimate behind the first finding.
        data: Curves and tables for the page, ready for JSON.
    """

    numbers: dict[str, dict[str, Any]]
    findings: list[Finding]
    smoothing: SmoothingEstimate
    data: dict[str, Any]

    @property
    def headline(self) -> str:
        """Samples, classes, accuracy, NLL and ECE in one line."""
        accuracy, nll, ece = (self.numbers[name]["value"] for name in ("accuracy", "nll", "ece"))
        size = f"{self.data['num_samples']:,} samples, {self.data['num_classes']:,} classes"
        return f"{size}, accuracy {accuracy:.2%}, nll {nll:.4f}, ece {ece:.4f}"

    def __repr__(self) -> str:
        shown = [f"{LEVELS[it.level]}: {it.topic}\n  {it.sentence}\n  Next: {it.advice}" for it in self.findings]
        return "\n\n".join([self.headline, *shown])

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{LEVELS[it.level]}</td><td><b>{escape(it.topic)}</b></td>"
            f'<td style="text-align:left">{escape(it.sentence)}<br><i>{escape(it.advice)}</i></td></tr>'
            for it in self.findings
        ]
        return f"<p>{escape(self.headline)}</p><table>{''.join(rows)}</table>"

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, ready for JSON."""
        return {"protocol": PROTOCOL, **asdict(self)}


@overload
def diagnose(logits: Models, *, seed: int = 0) -> SideBySide: ...


@overload
def diagnose(
    logits: Array,
    labels: Array,
    features: Array | None = None,
    class_names: Sequence[str] | None = None,
    *,
    validation: tuple[Array, Array] | None = None,
    train: tuple[Array, Array] | tuple[Array, Array, Array | None] | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    ood: Array | tuple[Array, Array] | None = None,
    recipe: str = "",
    seed: int = 0,
) -> Diagnosis: ...


def diagnose(
    logits: Array | Models,
    labels: Array | None = None,
    features: Array | None = None,
    class_names: Sequence[str] | None = None,
    *,
    validation: tuple[Array, Array] | None = None,
    train: tuple[Array, Array] | tuple[Array, Array, Array | None] | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    ood: Array | tuple[Array, Array] | None = None,
    recipe: str = "",
    seed: int = 0,
) -> Diagnosis | SideBySide:
    """Diagnose a model from its outputs, NumPy arrays or tensors, or several models side by side.

    Several models are a list, or a mapping with their names, and nothing else is given: ``diagnose([a, b, c])``. Each
    is :class:`Outputs`, a tuple ``(logits, labels)`` or ``(logits, labels, features)``, or the path of a file with
    both, for the same samples. Differences between them are paired; see :class:`SideBySide`.

    Args:
        logits: Scores before the softmax for held-out samples, ``(N, K)``.
        labels: Their true classes, ``(N,)``.
        features: Input of the last layer, ``(N, D)``, for collapse and probe.
        class_names: One name per column of the logits.
        validation: Logits and labels of other held-out samples, on which temperature and norm are fitted. Without
            them, both are fitted on one half of the samples and evaluated on the other.
        train: Logits and labels of training images, which show label smoothing best, and features for the neighbours of
            ``ood``. By default the samples themselves.
        weight: Weight of the last layer, ``(K, D)``, for neural collapse.
        bias: Bias of the last layer, ``(K,)``.
        ood: Logits of images of another kind, ``(M, K)``, which the model should notice; or a tuple of these and
            features, ``(M, D)``, whose distance to those of ``train`` is a score too.
        recipe: A description of the training, quoted beside the estimate.
        seed: Seed of the split into halves and of the bootstrap.

    Raises:
        DataError: If the arrays do not fit together.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(600) % 3
        >>> logits = 4.0 * torch.nn.functional.one_hot(labels) + 2.0 * torch.randn(600, 3, generator=generator)
        >>> diagnosis = diagnose(logits, labels)
        >>> [finding.topic for finding in diagnosis.findings]
        ['Classes', 'Label smoothing', 'Confidence on errors', 'Calibration', 'Selective classification']
        >>> diagnosis.headline
        '600 samples, 3 classes, accuracy 84.17%, nll 0.3900, ece 0.0440'
    """
    if labels is None:
        from maxsup.diagnosis.side_by_side import diagnose_side_by_side

        settings = {"features": features, "class_names": class_names, "validation": validation, "train": train}
        settings |= {"weight": weight, "bias": bias, "ood": ood, "recipe": recipe or None}
        if given := [name for name, value in settings.items() if value is not None]:
            raise ValueError(
                f"{given[0]} must be left out for several models; got a value. Put it beside their logits."
            )
        return diagnose_side_by_side(logits, seed=seed)  # type: ignore[arg-type]
    outputs = checked_outputs(logits, labels, features, class_names)  # type: ignore[arg-type]
    rescaled = measures.rescale(outputs, None if validation is None else checked_outputs(*validation), seed)
    traced = None if train is None else checked_outputs(*train)
    of_others = ood if isinstance(ood, tuple) else (ood, None)
    others = None if of_others[0] is None else checked_others(of_others[0], outputs.num_classes)
    near = None
    if others is not None and of_others[1] is not None:
        if traced is None or traced.features is None or outputs.features is None:
            raise ValueError("features of ood must come with features and with those of train; got none. Give both.")
        near = traced.features, outputs.features, checked_other_features(others, of_others[1])
    return diagnosis_of(
        outputs, rescaled, train=traced, weight=weight, bias=bias, others=others, near=near, recipe=recipe, seed=seed
    )


def diagnosis_of(
    outputs: Outputs,
    rescaled: measures.Rescaled,
    *,
    train: Outputs | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    others: Tensor | None = None,
    near: tuple[Tensor, Tensor, Tensor] | None = None,
    recipe: str = "",
    seed: int = 0,
) -> Diagnosis:
    """Diagnose checked outputs for which temperature and norm are fitted; see :func:`diagnose`.

    ``near`` are features of training images, of the samples and of the others.
    """
    traced = outputs if train is None else train
    traces = logit_traces(traced.logits, traced.labels)
    smoothing = estimate_from(traces, seed=seed)
    predictions = rescaled.everything.predictions
    errors = class_findings.class_errors(predictions, outputs.class_names, outputs.num_classes)
    numbers = named(
        {
            **measures.prediction_numbers(rescaled.everything, seed),
            **measures.rescaling_numbers(rescaled, seed),
            **measures.smoothing_numbers(smoothing),
            **class_findings.class_numbers(errors),
            **measures.feature_numbers(outputs, weight, bias, seed),
            **({} if others is None else novelty_findings.novelty_numbers(outputs.logits, others, near)),
        }
    )
    num_judged = len(rescaled.before.predictions.labels)
    data = {
        "num_samples": len(outputs),
        "num_classes": outputs.num_classes,
        "num_wrong": predictions.num_wrong,
        "num_fitted": rescaled.num_fitted,
        "num_judged": num_judged,
        "how_fitted": rescaled.how_fitted,
        "judged": "all samples" if num_judged == len(outputs) else "the judged half",
        "traced": "the given samples" if train is None else "training images",
        "traces": measures.trace_curves(traces),
        "confidence": measures.confidence_histogram(predictions),
        **measures.rescaling_curves(rescaled),
        "classes": measures.class_rows(predictions, outputs.class_names, outputs.num_classes),
        "confusions": class_findings.confusion_rows(errors),
    }
    num_classes, num_a_class = outputs.num_classes, outputs.num_a_class
    found = [
        class_findings.classes_finding(errors, numbers["accuracy"]["value"], num_a_class),
        findings.smoothing_finding(smoothing, num_classes, recipe),
        findings.confidence_finding(numbers, predictions.num_wrong),
        findings.calibration_finding(numbers, rescaled.how_fitted, len(outputs)),
        findings.selection_finding(numbers, rescaled.power, rescaled.before.predictions.num_wrong, rescaled.how_fitted),
    ]
    if outputs.features is not None:
        found.append(findings.collapse_finding(numbers, num_classes, num_a_class))
        found.append(findings.probe_finding(numbers, num_classes, num_a_class))
    if others is not None:
        found.append(novelty_findings.novelty_finding(numbers, len(others)))
    return Diagnosis(numbers, found, smoothing, data)
