"""Adapters for other people's trainers, one module each; importing one never drags the laboratory in.

``replace_label_smoothing`` and ``follow_model`` need torch only and are here by name; the other adapters are imported
by their module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxsup.integrations.pytorch import follow_model, replace_label_smoothing

__all__ = ["follow_model", "replace_label_smoothing"]


def __getattr__(name: str) -> Any:
    # Late, so that importing one adapter costs nothing for the others.
    if name in __all__:
        from maxsup.integrations import pytorch

        return getattr(pytorch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
