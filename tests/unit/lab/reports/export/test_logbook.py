"""The logbook: a page a question, and the numbers of every seed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from maxsup.core.errors import MaxsupError
from maxsup.lab.reports.export.logbook import seeds_csv, write_logbook
from maxsup.lab.reports.folders import read_view
from tests.unit.lab.reports.made import LOSSES, hostile_names, make_folder, value

COMMAND = ["maxsup", "study", "run", "tab_x", "data.name=folder:/home/me/my photos"]
SECTIONS = ["Command", "Hardware and versions", "Scale relative to the paper", "Results", "Figures"]


def test_a_page_has_question_command_hardware_scale_table_figure_verdict_and_limits(tmp_path: Path) -> None:
    folder = make_folder(
        tmp_path / "study", scale="tiny", seeds=(0, 1), failed=[("maxsup", 1)], published=True, has_analyses=False
    )
    written = write_logbook({folder: COMMAND}, tmp_path / "book")
    assert all(path.is_file() for path in written)
    [page] = [path for path in written if path.suffix == ".md" and path.name != "README.md"]
    text = page.read_text()
    assert [title for title in re.findall(r"^## (.+)$", text, re.MULTILINE) if title in SECTIONS] == SECTIONS
    for part in ("**Question.**", "**Verdict.**", "## Limits", "not the paper's experiment", "76.41", "5 of 6 runs"):
        assert part in text
    assert "'data.name=folder:my photos'" in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (page.parent / target).is_file()
    assert f"]({page.name})" in written[0].read_text()


def test_the_csv_has_a_line_for_each_loss_and_seed(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "study", failed=[("maxsup", 1)], seeds=(0, 1), has_analyses=False)
    rows = list(csv.DictReader(seeds_csv(read_view(folder).summary).splitlines()))
    assert [(row["loss"], row["seed"]) for row in rows] == [(loss, seed) for loss in LOSSES for seed in "01"]
    assert [row["accuracy"] for row in rows][-2:] == [str(value(2, 0, "accuracy")), ""]


def test_names_that_try_to_be_more_than_text_stay_text_and_pages_do_not_overwrite_one_another(tmp_path: Path) -> None:
    arms = hostile_names(5)
    first = make_folder(tmp_path / "a", arms=arms, seeds=(0, 1), has_analyses=False)
    second = make_folder(tmp_path / "b", seeds=(0, 1), has_analyses=False)
    written = write_logbook({first: COMMAND, second: COMMAND}, tmp_path / "book")
    assert len(written) == len(set(written)) == 13
    for path in written:
        if path.suffix == ".md":
            assert not re.search(r"(?<!\\)<(?:script|img|svg)", path.read_text())


def test_a_comparison_of_which_nothing_is_finished_is_refused(tmp_path: Path) -> None:
    failed = [(loss, 0) for loss in LOSSES]
    folder = make_folder(tmp_path / "study", seeds=(0,), failed=failed, has_analyses=False)
    with pytest.raises(MaxsupError, match=r"must have a finished run; got .+study"):
        write_logbook({folder: COMMAND}, tmp_path / "book")
    assert not (tmp_path / "book").exists()
