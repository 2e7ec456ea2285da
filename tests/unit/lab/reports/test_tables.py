"""One table, five formats, the same numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from maxsup.lab.reports import write_report
from maxsup.lab.reports.folders import read_view
from maxsup.lab.reports.summary import Summary
from maxsup.lab.reports.tables import (
    Cell,
    Head,
    MainTable,
    ReportTable,
    Row,
    differences_table,
    results_table,
    runs_table,
)
from tests.unit.lab.reports.made import HOSTILE, LOSSES, make_folder

pytestmark = pytest.mark.slow


def html_rows(text: str) -> list[list[str]]:
    """Row names and means of the main table of a page."""
    [table] = re.findall(r'<table class="sortable matrix results">.*?<tbody>(.*?)</table>', text, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in table.split("<tr>")[1:]]
    return [[re.sub(r"<[^>]+>", "", cell.split('<span class="small')[0]).strip() for cell in row] for row in cells]


def summary_of(path: Path, **options: Any) -> Summary:
    return read_view(make_folder(path, has_analyses=False, **options)).summary


def markdown_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[re.sub(r"\\(.)", r"\1", cell).strip(" *") for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def latex_rows(text: str) -> list[list[str]]:
    body = text.split("\\midrule")[1].split("\\bottomrule")[0]
    plain = re.sub(r"\\textbf\{(.*?)\}", r"\1", body).replace("$\\pm$", "±").replace("\\_", "_")
    return [
        [cell.strip() for cell in line.strip().removesuffix("\\\\").split("&")] for line in plain.strip().splitlines()
    ]


def test_five_formats_print_the_same_numbers(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a", has_analyses=False, failed=[("maxsup", 1)])
    write_report(folder)
    texts = {ending: (folder / "tables" / f"results.{ending}").read_text() for ending in ("md", "tex", "csv", "json")}
    records = json.loads(texts["json"])["records"]
    expected = [[loss, *(r["text"] for r in records if r["row"] == loss)] for loss in LOSSES]
    assert [len(row) for row in expected] == [3, 3, 3]
    assert html_rows((folder / "report.html").read_text()) == expected
    assert markdown_rows(texts["md"]) == expected
    assert latex_rows(texts["tex"]) == expected
    lines = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert [line["text"] for line in lines] == [record["text"] for record in records]
    assert [float(line["mean"]) for line in lines] == [record["mean"] for record in records]


def test_records_hold_every_seed_with_all_digits(tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "a")
    record = json.loads(results_table(summary).json())["records"][0]
    values = summary.table.cells["ce"]["accuracy"].values
    assert {seed: record[f"seed_{seed}"] for seed in values} == values
    assert record["factor"] == 100


def test_bold_is_bold_in_every_format_that_has_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "a")
    text = summary.table.cells["maxsup"]["nll"].text
    assert summary.table.cells["maxsup"]["nll"].is_bold
    table = results_table(summary)
    assert f"**{text}**" in table.markdown()
    assert f"\\textbf{{{text.replace('±', '$' + chr(92) + 'pm$')}}}" in table.latex()


def test_published_numbers_stand_beside_ours_under_their_label(tmp_path: Path) -> None:
    heads, _, lines = results_table(summary_of(tmp_path / "a", published=True)).grid()
    place = heads.index("accuracy, published (tab:some)")
    assert heads[place - 1] == "accuracy"
    assert [line[place][0] for line in lines] == ["76.41 ± 0.10"] * 3
    assert "NLL, published" not in " ".join(heads)


def test_a_cell_says_what_is_missing_and_why(tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "a", failed=[("maxsup", 1)])
    changes = {"left_out": "takes too long", "mean": None, "text": "-"}
    summary.table.cells["ce"]["nll"] = summary.table.cells["ce"]["nll"].model_copy(update=changes)
    rows = results_table(summary).rows
    assert rows[2].cells[0].gap == "5 of 6 seeds"
    assert rows[0].cells[1].gap == "left out: takes too long"
    alone = summary_of(tmp_path / "b", seeds=(0,), failed=[("maxsup", 0)])
    cell = results_table(alone).rows[2].cells[0]
    assert (cell.text, cell.value, cell.gap) == ("-", None, "no number")


def test_the_table_of_differences_names_the_baseline(tmp_path: Path) -> None:
    table = differences_table(summary_of(tmp_path / "a"))
    assert [cell.text for cell in table.rows[1].cells] == ["baseline", "baseline"]
    assert table.rows[0].cells[0].text.startswith(("+", "-"))
    assert {record["row"] for record in table.records} == {"ce", "maxsup"}


def test_the_list_of_runs_says_what_happened_to_the_failed_one(tmp_path: Path) -> None:
    table = runs_table(summary_of(tmp_path / "a", failed=[("maxsup", 1)]))
    [record] = [record for record in table.records if record["status"] != "done"]
    assert (record["arm"], record["seed"], record["status"]) == ("maxsup", 1, "failed")
    assert "must be finite" in record["sentence"]
    assert "must be finite" in table.markdown()


@pytest.mark.parametrize("name", HOSTILE)
def test_latex_and_markdown_keep_names_in_their_cells(name: str) -> None:
    rows = [Row(name, [Cell("1", 1.0)]), Row("ls", [Cell("2", 2.0)])]
    table = ReportTable("t", name, "loss", [Head("acc")], rows, [{"row": name}])
    latex = table.latex()
    assert len(re.findall(r"(?<!\\)&", latex)) == 3
    assert re.search(r"(?<!\\)[%#]", latex) is None
    assert latex.count("\\begin") == latex.count("\\end") == 2
    table_lines = [line for line in table.markdown().splitlines() if re.search(r"(?<!\\)\|", line)]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in table_lines] == [3, 3, 3, 3]
    assert re.search(r"(?<!\\)<\w", table.markdown()) is None


def test_a_spreadsheet_takes_no_name_for_a_formula() -> None:
    table = ReportTable("t", "", "loss", [], [], [{"row": "=1+1", "mean": 0.5}])
    assert table.csv() == "row,mean\n'=1+1,0.5\n"


@pytest.mark.parametrize(("num_columns", "is_turned"), [(6, False), (7, True)])
def test_a_table_of_many_columns_is_shown_with_them_as_rows_and_downloaded_as_it_is(
    num_columns: int, is_turned: bool
) -> None:
    heads = [Head(f"h{place}", group="g") for place in range(num_columns)]
    rows = [Row(name, [Cell(f"{name}{place}") for place in range(num_columns)]) for name in ("ce", "ls")]
    block = MainTable(ReportTable("t", "", "loss", heads, rows, []))
    shown = block.shown
    assert len(shown.rows) == (num_columns if is_turned else 2)
    assert shown.is_sortable is not is_turned
    assert shown.rows[-1].cells[-1].text == f"ls{num_columns - 1}"
    assert shown.has_groups is is_turned
    markdown = dict((ending, content) for _, ending, content in block.downloads[0][1])["md"]
    assert markdown.splitlines()[0].count("|") == num_columns + 2


def test_a_table_with_more_rows_than_columns_is_not_turned() -> None:
    heads = [Head(f"h{place}") for place in range(8)]
    rows = [Row(str(number), [Cell("1")] * 8) for number in range(12)]
    assert len(MainTable(ReportTable("t", "", "loss", heads, rows, [])).shown.rows) == 12
