"""Adapters for other trainers, one module each. None of them imports the laboratory.

``replace_label_smoothing`` and ``follow_model`` need only torch and can be imported from here. Import the other
adapters from their modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxsup.integrations.pytorch import follow_model, replace_label_smoothing

__all__ = ["follow_model", "replace_label_smoothing"]


def __getattr__(name: str) -> Any:
    # Imported late, so that importing one adapter does not load the others.
    if name in __all__:
        from maxsup.integrations import pytorch

        return getattr(pytorch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
