"""Analyse trained runs: compute numbers and draw figures.

:func:`analyze` is the function behind ``maxsup analyze``. Each analysis is a module in ``analyses``. Results are JSON
in ``RUN/analysis``, and figures are drawn from that JSON alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxsup.lab.analysis.analyze import Analyzed, analyze, draw_figures, label_runs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, describe_analyses
from maxsup.lab.analysis.result_files import data_label, read_results, result_path

if TYPE_CHECKING:
    from maxsup.lab.analysis.outputs import RunOutputs

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
    # Imported late: reading and drawing results does not need the code that loads and trains runs.
    if name == "RunOutputs":
        from maxsup.lab.analysis.outputs import RunOutputs

        return RunOutputs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
