"""The picture of a report in README.md shows what the program draws today."""

from pathlib import Path

import pytest

from tests.unit.lab.reports.made import make_folder
from tools import report_picture
from tools.report_picture import FOLDER, picture, texts


def test_a_picture_has_the_title_the_panels_and_the_caption(tmp_path: Path):
    shown = texts(picture(make_folder(tmp_path, has_analyses=False)))
    assert {"accuracy (points)", "NLL", "right is better"} <= set(shown)
    assert any(text.startswith("Difference to ") for text in shown)
    assert "Mean of the paired differences" in " ".join(shown)


def test_a_picture_is_written_beside_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report_picture, "FOLDER", tmp_path / "report")
    made = make_folder(tmp_path / "made", has_analyses=False)
    report_picture.main([str(made)])
    written = (tmp_path / "report" / "picture.svg").read_text()
    assert texts(written) == texts(picture(tmp_path / "report")) == texts(picture(made))


@pytest.mark.skipif(not FOLDER.exists(), reason="make demo; python -m tools.report_picture comparison")
def test_the_picture_of_the_readme_is_what_is_drawn_today():
    assert texts((FOLDER / "picture.svg").read_text()) == texts(picture(FOLDER))
