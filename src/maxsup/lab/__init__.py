"""The laboratory: train, compare, analyze and report.

The extra ``lab`` adds what it needs. Names load what they need on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxsup.lab.analysis import analyze
    from maxsup.lab.experiments import compare, run_study
    from maxsup.lab.reports import write_report
    from maxsup.lab.training import train

__all__ = ["analyze", "compare", "run_study", "train", "write_report"]

_HOMES = {
    "analyze": "analysis",
    "compare": "experiments",
    "run_study": "experiments",
    "train": "training",
    "write_report": "reports",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maxsup.lab' has no attribute {name!r}")
    return getattr(import_module(f"maxsup.lab.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
