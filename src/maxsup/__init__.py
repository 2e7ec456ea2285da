"""MaxSup: a replacement for label smoothing that does not make errors over-confident.

``import maxsup`` costs nothing by itself: names load what they need on first use. The loss library needs torch only.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing takes longer to import than all of this module
if TYPE_CHECKING:
    from typing import Any

    from maxsup import functional, losses, monitor, schedules
    from maxsup.losses import MaxSupLoss, create_loss, list_losses

__version__ = "0.1.0"

__all__ = ["MaxSupLoss", "__version__", "create_loss", "functional", "list_losses", "losses", "monitor", "schedules"]

# Metrics, diagnosis and doctor need NumPy besides torch; the laboratory needs its extra.
_MODULES = {"functional", "losses", "monitor", "schedules"} | {"diagnosis", "doctor", "lab", "metrics"}


def __getattr__(name: str) -> Any:
    # Late, so that the command line can print its help without paying for `import torch`.
    if name in _MODULES:
        return import_module(f"maxsup.{name}")
    if name in __all__:
        return getattr(import_module("maxsup.losses"), name)
    raise AttributeError(f"module 'maxsup' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
