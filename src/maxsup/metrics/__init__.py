"""Metrics of predictions and features: tensors in, Python floats out, torch only.

Prediction metrics take logits ``(N, K)`` and class indices ``(N,)``, never probabilities, and guess nothing from the
range of the values. Sums are kept in float64. The classes with ``update`` and ``merge`` compute the same numbers from
batches: :class:`PredictionSums` (constant memory), :class:`PredictionTable` (a few numbers per sample),
:class:`ClasswiseSums`, :class:`SeparationSums`, :class:`SpectrumSums` and, for labelled pixels, :class:`ConfusionSums`.
"""

from __future__ import annotations

from maxsup.metrics.batches import PredictionSums, PredictionTable
from maxsup.metrics.bootstrap import Interval, bootstrap_interval, bootstrap_intervals
from maxsup.metrics.calibration import (
    ClasswiseSums,
    Reliability,
    adaptive_calibration_error,
    classwise_calibration_error,
    expected_calibration_error,
    reliability,
)
from maxsup.metrics.classes import (
    ClassScores,
    ConfusionPair,
    class_scores,
    confusion_pairs,
    top_confusion,
    worst_class_accuracy,
)
from maxsup.metrics.collapse import NeuralCollapse, neural_collapse
from maxsup.metrics.conformal import PredictionSets, prediction_sets
from maxsup.metrics.label_errors import LabelErrors, likely_label_errors
from maxsup.metrics.novelty import Detection, detection, neighbour_score, novelty_scores
from maxsup.metrics.scores import Confidence, accuracy, brier_score, mean_confidence, negative_log_likelihood
from maxsup.metrics.segmentation import ConfusionSums
from maxsup.metrics.selective import (
    RiskCoverage,
    augrc,
    aurc,
    auroc,
    excess_aurc,
    fpr95,
    risk_at_coverage,
    risk_coverage,
)
from maxsup.metrics.separation import ClassSeparation, SeparationSums, class_separation
from maxsup.metrics.smooth_calibration import smooth_calibration_error
from maxsup.metrics.spectrum import FeatureRank, SpectrumSums, feature_rank
from maxsup.metrics.temperature import Recalibration, fit_temperature, recalibration

__all__ = [
    "ClassScores",
    "ClassSeparation",
    "ClasswiseSums",
    "Confidence",
    "ConfusionPair",
    "ConfusionSums",
    "Detection",
    "FeatureRank",
    "Interval",
    "LabelErrors",
    "NeuralCollapse",
    "PredictionSets",
    "PredictionSums",
    "PredictionTable",
    "Recalibration",
    "Reliability",
    "RiskCoverage",
    "SeparationSums",
    "SpectrumSums",
    "accuracy",
    "adaptive_calibration_error",
    "augrc",
    "aurc",
    "auroc",
    "bootstrap_interval",
    "bootstrap_intervals",
    "brier_score",
    "class_scores",
    "class_separation",
    "classwise_calibration_error",
    "confusion_pairs",
    "detection",
    "excess_aurc",
    "expected_calibration_error",
    "feature_rank",
    "fit_temperature",
    "fpr95",
    "likely_label_errors",
    "mean_confidence",
    "negative_log_likelihood",
    "neighbour_score",
    "neural_collapse",
    "novelty_scores",
    "prediction_sets",
    "recalibration",
    "reliability",
    "risk_at_coverage",
    "risk_coverage",
    "smooth_calibration_error",
    "top_confusion",
    "worst_class_accuracy",
]
