"""Analyses: a run read back becomes numbers and pictures.

:func:`analyze` does what ``maxsup analyze`` does. Each analysis is a module here; results are JSON in ``RUN/analysis``,
and figures are drawn from that JSON alone.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from maxsup.analysis.analyze import Analyzed, analyze, draw_figures, read_results, result_path
from maxsup.analysis.labels import label_runs
from maxsup.analysis.outputs import RunOutputs, data_label
from maxsup.analysis.registry import ANALYSES, Analysis, describe_analyses

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "ANALYSES",
    "Analysis",
    "Analyzed",
    "RunOutputs",
    "analyze",
    "data_label",
    "describe_analyses",
    "draw_figures",
    "label_runs",
    "read_results",
    "result_path",
]
