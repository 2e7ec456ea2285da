"""The laboratory: train, compare, analyze and report.

The extra ``lab`` installs what it needs. Names load what they need on first use.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # every command passes here first, and typing takes longer to import than all of this module
if TYPE_CHECKING:
    from typing import Any

    from maxsup.lab.analysis import analyze
    from maxsup.lab.experiments import compare, read_result, run_study
    from maxsup.lab.experiments.execution.launch import create_launcher
    from maxsup.lab.reports import write_report
    from maxsup.lab.training import train

__all__ = ["analyze", "compare", "create_launcher", "read_result", "run_study", "train", "write_report"]

_HOMES = {
    "analyze": "analysis",
    "compare": "experiments",
    "create_launcher": "experiments.execution.launch",
    "read_result": "experiments",
    "run_study": "experiments",
    "train": "training",
    "write_report": "reports",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maxsup.lab' has no attribute {name!r}")
    from maxsup.core.installation import missing_package

    try:
        return getattr(import_module(f"maxsup.lab.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "maxsup":
            raise
        raise missing_package(str(error.name), f"maxsup.lab.{name}") from error


def __dir__() -> list[str]:
    return sorted(__all__)
