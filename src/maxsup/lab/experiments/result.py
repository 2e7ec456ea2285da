"""What :func:`maxsup.lab.experiments.compare` and :func:`maxsup.lab.experiments.run_study` give back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from maxsup.core.errors import MaxsupError
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.experiments.execution.launch import JobState
from maxsup.lab.experiments.execution.study_folder import StudyFolder, read_folder
from maxsup.lab.experiments.execution.worker import FAILURE
from maxsup.lab.experiments.samples import class_differences, disagreements, kept_outputs, label_errors
from maxsup.lab.experiments.summarize import summarize
from maxsup.lab.reports.summary import PairedComparison, Summary, SummaryCell, SummaryEntry, SummaryLoss

_DIFFERENCES = ("difference", "low", "high", "p", "adjusted_p", "num_pairs", "is_conclusive", "is_better")


class FailedRunsError(MaxsupError):
    """Runs that others wait for failed; the exit code is the highest of theirs."""

    def __init__(self, states: Sequence[JobState]) -> None:
        super().__init__("\n".join(failure_text(state) for state in states))
        self.exit_code = max(failure_code(state) for state in states)


@dataclass(frozen=True, eq=False, repr=False)
class StudyResult:
    """What a comparison or a study found.

    Args:
        folder: Where its runs are.
        summary: The content of ``summary.json``: every number, seed by seed.
        failed: Jobs that failed, each with a sentence and a log. Their runs are missing from the table.
    """

    folder: StudyFolder
    summary: Summary
    failed: Sequence[JobState] = ()

    @property
    def path(self) -> Path:
        """The folder on disk."""
        return self.folder.path

    @property
    def conclusions(self) -> list[str]:
        """What was found, in sentences."""
        return list(self.summary.conclusions)

    def table(self) -> Any:
        """Return means over seeds, a row per loss and a column per number: a pandas DataFrame, or dicts without pandas.

        Units are those of ``summary.json``: accuracy is a share, not a percentage.
        """
        table = self.summary.table
        first = "loss" if self.folder.design.table.compares_rows else ""
        return _frame(
            [
                {first: heading(row)}
                | {heading(column): table.cells[row.name][column.name].mean for column in table.columns}
                for row in table.rows
            ]
        )

    def differences(self) -> Any:
        """Paired differences from the baseline: a row for every loss and number, as a DataFrame or as dicts.

        ``low`` and ``high`` are the ends of the 95 % interval, ``p`` is that of the sign-flip test, and ``adjusted_p``
        is p after Holm's correction.
        """
        return _frame(
            [
                {"loss": heading(loss), "number": metric.label} | {key: getattr(number, key) for key in _DIFFERENCES}
                for loss in self.summary.losses
                for metric in self.summary.metrics
                if (number := loss.number(metric)).num_pairs
            ]
        )

    def compare(self, number: str, experiment: int = 0) -> dict[str, PairedComparison]:
        """Return every loss against the baseline by any number of its runs, also one that the table does not show.

        ``number`` is its source and name: ``test.accuracy_top5``, ``timing.seconds``, ``calibration.aurc``. A study may
        have several experiments.
        """
        return self.folder.results()[experiment].compare(number, self.summary.baseline)

    def classes(self, experiment: int = 0) -> Any:
        """Return the paired differences of every loss and class from the baseline, in accuracy and in mean confidence.

        ``adjusted_p`` is p after Holm's correction over all losses and classes.
        """
        outputs = kept_outputs(self.folder.results()[experiment])
        return _frame(class_differences(outputs, self.summary.baseline))

    def disagreements(self, one: str, other: str | None = None, experiment: int = 0) -> Any:
        """Return the test images for which two losses predict different classes in every seed.

        ``other`` is the baseline by default.
        """
        outputs = kept_outputs(self.folder.results()[experiment])
        return _frame(disagreements(outputs, one, other or self.summary.baseline))

    def label_errors(self, experiment: int = 0) -> Any:
        """Return the test images whose label is likely wrong (confident learning), by the mean of all runs."""
        return _frame(label_errors(kept_outputs(self.folder.results()[experiment])))

    def report(self, on_left_out: Callable[[str], None] | None = None) -> Path:
        """Write ``report.html`` and ``tables/``, without training; gives the page.

        ``on_left_out`` is called with a sentence about each result that could not be drawn; the page has them too.
        """
        from maxsup.lab.reports import write_report

        return write_report(self.path, on_left_out=on_left_out)[0]

    def __repr__(self) -> str:
        first = f"{self.summary.title}: {self.summary.num_done} of {len(self.summary.runs)} runs in {self.path}"
        return "\n".join([first, *self.conclusions, *(failure_text(state) for state in self.failed)])

    def _repr_html_(self) -> str:
        """Return the sentences and the table, for notebooks."""
        table, body = self.summary.table, ""
        head = "".join(f"<th>{escape(heading(column))}</th>" for column in table.columns)
        for row in table.rows:
            cells = (table.cells[row.name][column.name] for column in table.columns)
            body += f"<tr><th>{escape(heading(row))}</th>{''.join(map(_cell_html, cells))}</tr>"
        said = "".join(f"<p>{escape(text)}</p>" for text in repr(self).splitlines())
        return f"{said}<table><tr><th></th>{head}</tr>{body}</table><p>{escape(self.summary.bold_rule)}</p>"


def read_result(path: str | Path) -> StudyResult:
    """Return the result of a comparison or a study from its folder, summarised again without training."""
    folder = read_folder(path)
    return StudyResult(folder, summarize(folder))


def failure_text(state: JobState) -> str:
    """Return why a job failed, and where its log is."""
    return f"{state.job.name} failed: {state.sentence} Log: {state.log}"


def failure_code(state: JobState) -> int:
    """Return the exit code of a job that failed; 1 if its worker died without a message."""
    path = state.job.folder / FAILURE
    return int(read_json(path).get("exit_code", 1)) if path.is_file() else 1


def heading(entry: SummaryEntry | SummaryLoss) -> str:
    """Return a title with its group."""
    return f"{entry.group}, {entry.title}" if entry.group else entry.title


def _cell_html(cell: SummaryCell) -> str:
    text = "<br>".join(escape(word) for word in (cell.text, cell.difference_text) if word)
    return f"<td>{f'<b>{text}</b>' if cell.is_bold else text}</td>"


def _frame(rows: list[dict[str, Any]]) -> Any:
    return rows if find_spec("pandas") is None else import_module("pandas").DataFrame(rows)
