"""The report as a file: what is in it, what is not, and that the same input gives the same bytes."""

from __future__ import annotations

import base64
import json
import os
import random
import re
from pathlib import Path

import pytest

from maxsup.core.errors import MaxsupError, StorageError
from maxsup.lab.reports import write_report
from maxsup.lab.reports.figure_sections import short_labels
from maxsup.lab.reports.folders import make_printable, read_view
from maxsup.lab.reports.report import glance_blocks, short_verdicts
from maxsup.lab.reports.summary import Summary
from tests.unit.lab.reports.made import hostile_names, make_folder

pytestmark = pytest.mark.slow

FIGURES = {
    "Published against measured", "Seed by seed", "Training", "Calibration", "Logits and confidence", "Collapse",
    "Projections", "Corrupted images", "Grad-CAM",
}  # fmt: skip


def headings(html: str) -> list[str]:
    return re.findall(r'class="section">([^<]*)<', html)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study at the tiny scale with everything in it and one failed run."""
    folder = make_folder(
        tmp_path_factory.mktemp("full") / "study", seeds=(0, 1), failed=[("maxsup", 1)], scale="tiny", published=True
    )
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def page(full: Path) -> str:
    return (full / "report.html").read_text()


def test_every_section_with_data_appears(page: str) -> None:
    assert set(headings(page)) > FIGURES


def test_every_figure_has_words_and_data_to_download(page: str) -> None:
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) >= 12
    assert all("<figcaption><strong>" in figure for figure in figures)
    assert all('download="' in figure and "data:text/csv" in figure for figure in figures)
    assert all('role="img"' in figure or "alt=" in figure for figure in figures)


def test_the_tiny_scale_is_said_before_the_first_number(page: str) -> None:
    assert page.index("TINY SCALE: this is not the paper&#39;s experiment") < page.index("<table")
    assert page.index("Four epochs of nothing.") < page.index("<table")


def test_a_failed_run_is_named_with_its_sentence_and_its_log(page: str) -> None:
    assert "1 of 6 runs is missing" in page
    assert "1 of 2 seeds" in page
    assert "loss must be finite; got nan. Lower optimizer.lr." in page
    assert "the end of &lt;b&gt;this&lt;/b&gt; log" in page


def test_words_of_the_summary_are_there(page: str) -> None:
    words = ("Which of these is better?", "All of them are better than nothing.", "200 epochs.", "Learning rate")
    assert all(text in page for text in (*words, "no_spread", "Bold: as the rule says.", "tab:some"))


def test_nothing_on_the_page_is_loaded_or_styled_from_elsewhere(page: str) -> None:
    outside = re.sub(r'xmlns(:xlink)?="http://www.w3.org/[^"]*"', "", page)
    assert re.search(r'(?:src|href|srcset)="(?!#|data:)', outside) is None
    assert "http://" not in outside
    assert re.search(r"<[^>]+\sstyle=", page) is None
    assert re.search(r"<[^>]+\son\w+=", page) is None
    assert "default-src 'none'" in page


def test_ids_are_unique(page: str) -> None:
    found = re.findall(r'\sid="([^"]+)"', page)
    assert len(found) == len(set(found))


def test_the_same_folder_gives_the_same_bytes_whenever_it_was_written(full: Path, page: str, tmp_path: Path) -> None:
    for path in full.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    written = write_report(full, output=tmp_path / "again")
    assert written[0].read_text() == page
    for path in written[1:]:
        assert path.read_bytes() == (full / "tables" / path.name).read_bytes()


def test_runs_without_analyses_leave_their_sections_out(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a", seeds=(0, 1), has_analyses=False)
    [page, *tables] = write_report(folder)
    found = headings(page.read_text())
    assert {"Results", "Seed by seed", "Training", "Runs", "Environment"} <= set(found)
    assert not {"Calibration", "Collapse", "Grad-CAM", "Published against measured"} & set(found)
    assert [path.name for path in tables] == [
        f"{name}.{ending}" for name in ("results", "differences", "runs") for ending in ("md", "tex", "csv", "json")
    ]


def test_several_folders_are_chapters_of_one_page(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name, seeds=(0,), has_analyses=False) for name in ("a", "b")]
    written = write_report(*folders, output=tmp_path / "both")
    html = written[0].read_text()
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert written[0] == tmp_path / "both" / "report.html"
    assert len(ids) == len(set(ids))
    assert html.count('<a href="#chapter-') == 2
    assert {path.parent.name for path in written[1:]} == {"1-made", "2-made"}
    assert all(f'id="{target}"' in html for target in re.findall(r'href="#([^"]+)"', html))


@pytest.mark.filterwarnings("error")
def test_names_of_arms_runs_and_classes_stay_text(tmp_path: Path) -> None:
    names = hostile_names(40)
    folder = make_folder(tmp_path / "a", arms=names[:12], titles=names[12:24], seeds=(0,), class_names=names[24:28])
    html = write_report(folder)[0].read_text(encoding="utf-8")
    own = """
        !doctype html head meta title link style body a header h1 h2 h3 p dl dt dd div nav ul li main section table
        caption thead tbody tr th td button span strong details summary figure figcaption picture source img footer
        script svg desc defs g path use clipPath rect text tspan pre article b
    """
    assert set(re.findall(r"<([a-zA-Z!][\w-]*)", html)) <= set(own.split())
    assert html.count("<script") == 1
    assert "\x00" not in html
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", html)[0]


def test_a_log_is_shown_only_if_it_is_one(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden words")
    folder = make_folder(tmp_path / "a", seeds=(0,), failed=[("maxsup", 0)], has_analyses=False)
    path = folder / "summary.json"
    path.write_text(path.read_text().replace("runs/maxsup2-s0/worker.log", "../secret"))
    assert read_view(folder).runs[-1].log_end() == ""


def test_a_folder_without_a_summary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MaxsupError, match=r"must hold the summary\.json"):
        write_report(tmp_path)


@pytest.mark.parametrize("name", ["summary.json", "runs/ce0-s0/metrics.jsonl"])
def test_a_broken_file_is_named(tmp_path: Path, name: str) -> None:
    folder = make_folder(tmp_path / "a", seeds=(0,), has_analyses=False)
    (folder / name).write_text("{\n")
    with pytest.raises(StorageError, match=rf"{Path(name).name} must be as"):
        write_report(folder)


def test_short_verdicts_say_what_is_shown_and_what_is_not(tmp_path: Path) -> None:
    summary = read_view(make_folder(tmp_path / "a", has_analyses=False)).summary.model_dump()
    for entry in summary["losses"]:
        entry["metrics"]["nll"]["is_conclusive"] = entry["loss"] == "maxsup"
    found = dict(short_verdicts(Summary.model_validate(summary)))
    assert found["NLL"].startswith("maxsup is better than ls; nothing can be concluded about ce.")


def test_a_glance_has_a_word_for_each_number_and_marks_what_correction_leaves(tmp_path: Path) -> None:
    summary = read_view(make_folder(tmp_path / "a", has_analyses=False)).summary.model_dump()
    for entry in summary["losses"]:
        nll = entry["metrics"]["nll"]
        nll |= {"is_conclusive": True, "is_better": False, "holds_after_correction": entry["loss"] == "maxsup"}
        nll |= {"difference": 0.5, "low": 0.25, "high": 0.75}
    [glance] = glance_blocks(Summary.model_validate(summary))
    [marks] = [marks for title, marks in glance.rows if title == "NLL"]
    assert glance.losses == ["ce", "maxsup"]
    assert [(mark.level, mark.word) for mark in marks] == [("error", "worse"), ("error", "worse \N{DAGGER}")]
    assert marks[0].text == "+0.500 [+0.250, +0.750]"


def test_short_labels_never_meet() -> None:
    labels = [f"a name that is far too long {place}" for place in range(12)]
    found = short_labels(labels, 10)
    assert len(set(found.values())) == 12
    assert all(len(short) <= 10 for short in found.values())


def test_what_no_page_can_hold_is_replaced() -> None:
    found = make_printable({"a\x00b": ["\ud800", "\x1b[31m", "fine\n", 1.5, None]})
    assert found == {"a\ufffdb": ["\ufffd", "\ufffd[31m", "fine\n", 1.5, None]}


EMPTY_GALLERY = """{
    "facts": {"dataset": "digits", "split": "test"}, "numbers": {},
    "data": {"target": "label", "indices": [], "cells": []}
}"""


@pytest.mark.parametrize(
    ("content", "reason"),
    [(EMPTY_GALLERY, "it cannot be drawn ("), ("{", "it is no result"), ("[]", "it is no result"), ("{}", "no result")],
)
def test_a_result_that_cannot_be_drawn_is_left_out_and_named(tmp_path: Path, content: str, reason: str) -> None:
    folder = make_folder(tmp_path / "a", seeds=(0,))
    (folder / "runs/ls1-s0/analysis/gradcam-test.json").write_text(content)
    told: list[str] = []
    html = write_report(folder, on_left_out=told.append)[0].read_text()
    [sentence] = told
    assert sentence.startswith("runs/ls1-s0/analysis/gradcam-test.json was left out: ")
    assert reason in sentence
    assert "Some results are not shown" in html
    assert "runs/ls1-s0/analysis/gradcam-test.json was left out" in html
    # The other two losses are still drawn.
    assert "Grad-CAM" in headings(html)


def test_a_section_whose_results_all_fail_is_not_there(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a", seeds=(0,))
    for file in folder.glob("runs/*/analysis/gradcam-test.json"):
        file.write_text(EMPTY_GALLERY)
    told: list[str] = []
    html = write_report(folder, on_left_out=told.append)[0].read_text()
    assert len(told) == 3
    assert "Grad-CAM" not in headings(html)


def test_what_cannot_be_concluded_is_said_once(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a", seeds=(0, 1), has_analyses=False)
    html = write_report(folder)[0].read_text()
    assert html.count("Nothing can be concluded about ce and maxsup.") == 1
    assert short_verdicts(read_view(folder).summary) == [
        ("accuracy and NLL", "Nothing can be concluded about ce and maxsup.")
    ]


def test_a_run_of_ten_thousand_epochs_has_a_page_of_a_usual_size_with_its_spikes(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "long", arms=("ce", "ls"), seeds=(0,), has_analyses=False)
    dice = random.Random(0)
    for run in read_view(folder).runs:
        lines = (
            {"epoch": epoch, "train": {"loss": 70.5 if epoch == 5000 else dice.random()}, "val": {"nll": dice.random()}}
            for epoch in range(10_000)
        )
        (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [page, *_] = write_report(folder)
    assert page.stat().st_size < 1_000_000
    encoded = re.findall(r'"data:text/csv[^,]*,([^"]*)"', page.read_text())
    downloads = [base64.b64decode(text).decode() for text in encoded]
    [rows] = [text for text in downloads if text.startswith("curve,loss,epoch")]
    assert "training loss,ce,5001,70.5,70.5,70.5" in rows.splitlines()
    epochs = [int(row.split(",")[2]) for row in rows.splitlines()[1:] if row.startswith("training loss,ce")]
    assert (epochs[0], epochs[-1]) == (1, 10_000)
    assert 200 < len(epochs) < 1000
    assert len((read_view(folder).runs[0].path / "metrics.jsonl").read_text().splitlines()) == 10_000
