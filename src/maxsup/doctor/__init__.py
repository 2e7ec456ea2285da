"""What is wrong with a batch, a criterion, a script or the settings of a run: one sentence and a fix each.

The same as ``maxsup doctor`` on the command line. Nothing is changed, nothing is trained, and what is healthy gives an
empty list.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxsup.core.finding import Finding
    from maxsup.doctor.batch import examine_accumulation, examine_batch
    from maxsup.doctor.criterion import examine_criterion
    from maxsup.doctor.script import examine_script
    from maxsup.doctor.settings import config_kind, examine_config

__all__ = [
    "Finding",
    "config_kind",
    "examine_accumulation",
    "examine_batch",
    "examine_config",
    "examine_criterion",
    "examine_script",
]

_HOMES = {
    "Finding": "core.finding",
    "config_kind": "doctor.settings",
    "examine_accumulation": "doctor.batch",
    "examine_batch": "doctor.batch",
    "examine_config": "doctor.settings",
    "examine_criterion": "doctor.criterion",
    "examine_script": "doctor.script",
}


def __getattr__(name: str) -> Any:
    # Late: settings and scripts are read without torch.
    if name in _HOMES:
        return getattr(import_module(f"maxsup.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
