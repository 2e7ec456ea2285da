"""Pages on the results of runs and analyses, and an interactive page about the losses: one offline HTML file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxsup.lab.reports.report import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    # Late: a page without results needs no torch.
    if name == "write_report":
        from maxsup.lab.reports.report import write_report

        return write_report
    raise AttributeError(f"module 'maxsup.lab.reports' has no attribute {name!r}")
