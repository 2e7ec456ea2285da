"""`maxsup explore` as a user meets it: with a browser, without one, and told to write a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxsup.lab.cli import main
from maxsup.lab.reports.explore import explore_page
from tests.architecture.test_third_party import packages_loaded_by


def explored(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it in a folder, on a machine that has the browsers of this environment alone."""
    kept = {name: value for name, value in os.environ.items() if name not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")}
    return subprocess.run(
        [sys.executable, "-m", "maxsup", "explore", *words],
        cwd=folder,
        env=kept | {"PATH": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_is_opened_in_the_browser(tmp_path: Path) -> None:
    folder = tmp_path / "my photos"
    folder.mkdir()
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho \"$1\" > '{tmp_path}/opened'\n")
    browser.chmod(0o755)
    done = explored(folder, BROWSER=str(browser))
    assert (done.returncode, done.stdout, done.stderr) == (0, "maxsup-explore.html\n", "")
    page = folder / "maxsup-explore.html"
    assert (tmp_path / "opened").read_text().strip() == page.as_uri()
    assert page.read_text(encoding="utf-8") == explore_page()


def test_without_a_browser_it_says_where_the_page_is(tmp_path: Path) -> None:
    done = explored(tmp_path, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"path": "maxsup-explore.html", "is_open": False}
    assert done.stderr == f"maxsup: no browser was found; open {tmp_path / 'maxsup-explore.html'} in one.\n"


def test_output_writes_the_page_and_opens_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: pytest.fail(f"opened {address}"))
    (tmp_path / "file").touch()
    given = {
        tmp_path / "new" / "page.html": (0, ""),
        tmp_path: (0, ""),
        tmp_path / "page.txt": (2, f"output must be an .html file or a folder; got '{tmp_path}/page.txt'."),
        tmp_path / "file" / "page.html": (5, f"{tmp_path}/file must be a folder that can be made; got a file"),
    }
    for output, (code, complaint) in given.items():
        with pytest.raises(SystemExit) as left:
            main(["explore", "--output", str(output)])
        assert (left.value.code or 0) == code
        printed = capsys.readouterr()
        if complaint:
            assert printed.err.startswith(f"maxsup: {complaint}")
        else:
            assert Path(printed.out.strip()).read_text(encoding="utf-8") == explore_page()
    assert (tmp_path / "maxsup-explore.html").is_file()


def test_the_page_is_made_without_torch() -> None:
    loaded = packages_loaded_by("from maxsup.lab.reports.explore import explore_page; explore_page()")
    assert "jinja2" in loaded
    assert loaded.isdisjoint({"matplotlib", "numpy", "torch"})
