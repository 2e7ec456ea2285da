"""Check a batch, a criterion, a training script or a config for common mistakes.

These functions are behind ``maxsup doctor``. They train nothing and change nothing. Each returns a list of findings, a
sentence and a fix each; the list is empty if nothing is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxsup.core.finding import Finding
from maxsup.doctor.criterion import examine_criterion
from maxsup.doctor.script import examine_script
from maxsup.doctor.settings import config_kind, examine_config

if TYPE_CHECKING:
    from maxsup.doctor.batch import examine_accumulation, examine_batch

__all__ = [
    "Finding",
    "config_kind",
    "examine_accumulation",
    "examine_batch",
    "examine_config",
    "examine_criterion",
    "examine_script",
]


def __getattr__(name: str) -> Any:
    # Imported late: only the checks of batches need torch.
    if name in __all__:
        from maxsup.doctor import batch

        return getattr(batch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
