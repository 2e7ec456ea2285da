"""Analyses: a run read back becomes numbers and pictures.

:func:`analyze` does what ``maxsup analyze`` does. Each analysis is a module in ``analyses``; results are JSON in
``RUN/analysis``, and figures are drawn from that JSON alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxsup.analysis.analyze import Analyzed, analyze, draw_figures
from maxsup.analysis.registry import ANALYSES, Analysis, describe_analyses
from maxsup.analysis.result_files import data_label, read_results, result_path

if TYPE_CHECKING:
    from maxsup.analysis.outputs import RunOutputs, label_runs

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


def __getattr__(name: str) -> Any:
    # Late: results are named, read and drawn without what trains and loads a run.
    if name in ("RunOutputs", "label_runs"):
        return getattr(import_module("maxsup.analysis.outputs"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
