"""The list of files that cannot be used as they are, and the limit on how many a run tolerates."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from maxsup.core.errors import DataError
from maxsup.lab.core.files.storage import append_line, failed_write

LEFT_OUT = "left out"
USED = "used"
_HEADER = ("path", "status", "reason")


class BadFile(NamedTuple):
    """A file, whether it was ``left out`` or ``used`` in spite of an oddity, and the reason."""

    path: str
    status: str
    reason: str


class BadFileRecord:
    """Lists each bad file once in a CSV file, if there is a ``path``, and raises when too large a share is left out."""

    def __init__(self, path: Path | None, num_samples: int, tolerance: float) -> None:
        self.path = path
        self.num_samples = num_samples
        self.tolerance = tolerance
        self._left_out: dict[str, str] = {}
        self._listed: set[str] | None = None

    def add(self, files: list[BadFile]) -> None:
        """List files that are not listed yet."""
        for file in files:
            if file.status == LEFT_OUT:
                self._left_out.setdefault(file.path, file.reason)
            if self.path is not None:
                self._list(_line(file), self.path)
        if len(self._left_out) > self.tolerance * self.num_samples:
            first, reason = next(iter(self._left_out.items()))
            place = f" Those seen so far are listed in {self.path}." if self.path else ""
            raise DataError(
                f"image files must be readable but for a share of {self.tolerance:g}; got {len(self._left_out)} of "
                f"{self.num_samples} that are not, the first {first} ({reason}). Repair or remove them, or raise "
                f"data.tolerance.{place}",
                code="unreadable-file",
            )

    def _list(self, line: str, path: Path) -> None:
        if self._listed is None:
            # Only once there is something to list: usually there is nothing.
            self._listed = _earlier_lines(path)
        if line not in self._listed:
            self._listed.add(line)
            append_line(path, line)


def _earlier_lines(path: Path) -> set[str]:
    """Lines that an earlier part of the run wrote; a new file gets its header."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_line(_HEADER) + "\n")
        return set()
    except FileExistsError:
        with path.open(encoding="utf-8", newline="") as file:
            return {_line(row) for row in csv.reader(file)}
    except OSError as error:
        raise failed_write(path, len(_line(_HEADER)), 0, error) from error


def _line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    # File names need not be valid text.
    return text.getvalue().encode("utf-8", "backslashreplace").decode()
