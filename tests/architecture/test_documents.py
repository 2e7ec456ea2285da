"""What the documents list is what there is."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import maxsup
from maxsup.core.errors import EXIT_CODES, ExitCode
from maxsup.lab.cli.listings import TABLE_HEAD, loss_table
from tests.architecture.floors import FACADES, MAY_IMPORT
from tests.architecture.source import ROOT


def test_the_documents_show_the_table_of_losses_that_the_registry_has() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    [page] = [page for page in pages if TABLE_HEAD in page.read_text()]
    # If this fails: python -m maxsup.lab.cli.listings
    assert loss_table(maxsup.losses.describe_losses()) in page.read_text()


def test_the_architecture_page_names_every_part() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = {part for part in MAY_IMPORT if f"`{part.removeprefix('lab.')}`" in page}
    assert named | {"facade", "__main__"} == set(MAY_IMPORT)
    assert all(f"{module}.py`" in page for module in FACADES)


def test_the_laboratory_page_has_the_exit_codes_of_the_program() -> None:
    page = (ROOT / "docs" / "laboratory.md").read_text()
    rows = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    assert f"| exit code | meaning |\n|---|---|\n{rows}" in page
    assert set(EXIT_CODES) == set(ExitCode)


def test_the_tests_that_the_page_on_semantics_names_exist() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (ROOT / "docs" / "semantics.md").read_text())
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) > 10
    assert [(file, test) for file, test in named if f"def {test}(" not in files.get(file, "")] == []


def test_every_place_promises_the_same_oldest_versions() -> None:
    patterns = {
        "pyproject.toml": (r'requires-python = ">=(.+)"', r'dependencies = \["torch>=(.+)"\]'),
        "README.md": (r"Python (\S+) or newer, torch \S+ or newer", r"Python \S+ or newer, torch (\S+) or newer"),
        "CONTRIBUTING.md": (r"promises \(Python (\S+), torch", r"promises \(Python \S+, torch (\S+)\)"),
        "Makefile": (r"OLDEST_PYTHON := (\S+)", r"OLDEST_TORCH := (\S+)\.0\n"),
    }
    promised = {
        name: tuple(re.findall(pattern, (ROOT / name).read_text()) for pattern in pair)
        for name, pair in patterns.items()
    }
    python, torch = promised["pyproject.toml"]
    assert len(python) == len(torch) == 1
    assert promised == dict.fromkeys(patterns, (python, torch))
    checked = (ROOT / "pyproject.toml").read_text()
    assert f'python_version = "{python[0]}"' in checked
    assert f'target-version = "py{python[0].replace(".", "")}"' in checked


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_oldest_versions_are_tested_where_they_are_installed_and_else_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "make").symlink_to(str(shutil.which("make")))
    done = subprocess.run(
        ["make", "test-oldest"], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Python 3.10 is not installed here, so nothing was tested with it.\n"
