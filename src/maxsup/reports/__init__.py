"""Pages made from what analyses and runs left: one offline HTML file each."""

from __future__ import annotations

from maxsup.reports.report import write_report

__all__ = ["write_report"]
