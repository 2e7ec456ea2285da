"""Diagnose any trained classifier from its logits and labels.

:func:`diagnose` is the function behind ``maxsup diagnose``, for one model or several side by side. Its parts can be
called on their own: the estimate of label smoothing, temperature and norm, and the probes. Only torch and NumPy are
needed.
"""

from __future__ import annotations

from maxsup.core.finding import Finding
from maxsup.diagnosis.array_files import read_array_files
from maxsup.diagnosis.diagnosis import Diagnosis, diagnose
from maxsup.diagnosis.outputs import Outputs
from maxsup.diagnosis.probe import Probe, fit_probe, knn_accuracy
from maxsup.diagnosis.rescaling import fit_norm, fit_temperature, normalized_confidence
from maxsup.diagnosis.side_by_side import SideBySide
from maxsup.diagnosis.smoothing import SmoothingEstimate, estimate_alpha

__all__ = [
    "Diagnosis",
    "Finding",
    "Outputs",
    "Probe",
    "SideBySide",
    "SmoothingEstimate",
    "diagnose",
    "estimate_alpha",
    "fit_norm",
    "fit_probe",
    "fit_temperature",
    "knn_accuracy",
    "normalized_confidence",
    "read_array_files",
]
