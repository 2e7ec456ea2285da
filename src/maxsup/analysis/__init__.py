"""Analyses: a run read back, or bare arrays, become numbers and pictures.

:func:`analyze` does what ``maxsup analyze`` does. Each analysis is a module here; results are JSON in ``RUN/analysis``,
and figures are drawn from that JSON alone.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from maxsup.analysis.analyze import Analyzed, analyze, draw_figures, read_results, result_path
from maxsup.analysis.diagnosis import Diagnosis, diagnose
from maxsup.analysis.labels import label_runs
from maxsup.analysis.outputs import Outputs, RunOutputs, data_label
from maxsup.analysis.probe import Probe, fit_probe, knn_accuracy
from maxsup.analysis.registry import ANALYSES, Analysis, describe_analyses
from maxsup.analysis.repair import fit_norm, fit_temperature, normalized_confidence
from maxsup.analysis.smoothing import SmoothingEstimate, estimate_alpha

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "ANALYSES",
    "Analysis",
    "Analyzed",
    "Diagnosis",
    "Outputs",
    "Probe",
    "RunOutputs",
    "SmoothingEstimate",
    "analyze",
    "data_label",
    "describe_analyses",
    "diagnose",
    "draw_figures",
    "estimate_alpha",
    "fit_norm",
    "fit_probe",
    "fit_temperature",
    "knn_accuracy",
    "label_runs",
    "normalized_confidence",
    "read_results",
    "result_path",
]
