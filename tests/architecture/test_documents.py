"""What the documents list is what there is."""

import re
import shutil
import subprocess
import sys
import textwrap
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


# Every way to the loss of CONTRIBUTING.md, in a package that has its one file more.
USE = """
import maxsup, torch
from maxsup.lab.cli.listings import loss_table, read_rows
from maxsup.functional import centre_cross_entropy
from maxsup.losses import CentreLoss
from tests.contract.calls import NAMES, SCHEDULED, SWITCHABLE, call_function, make_loss
from tests.reference.cases import CASE_OF

assert maxsup.__file__.startswith(HOME), maxsup.__file__
assert [row["formula"] for row in read_rows("losses") if row["name"] == "centre"] == ["CE + alpha (mean z)^2"]
assert "| `centre` | mean of the logits near 0 | `alpha=0.1` |" in loss_table(read_rows("losses"))
assert "centre" in NAMES and "centre" in SWITCHABLE and SCHEDULED["centre"] == "alpha"
assert (CASE_OF["centre"].class_name, CASE_OF["centre"].function) == ("CentreLoss", "centre_cross_entropy")
batch = torch.tensor([[2.0, 0.0], [-1.0, -1.0]]), torch.tensor([0, -100])
assert torch.equal(make_loss("centre")(*batch), call_function("centre", *batch))
assert type(maxsup.create_loss("centre")) is CentreLoss
print(maxsup.create_loss("centre", alpha=0.5)(*batch).item(), centre_cross_entropy(*batch, 0.5).item())
"""


def test_the_loss_that_contributing_shows_is_known_everywhere_from_its_one_file(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.+?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    package = tmp_path / "maxsup"
    package.mkdir()
    for path in (ROOT / "src" / "maxsup").iterdir():
        (package / path.name).symlink_to(path)
    (package / "losses").unlink()
    shutil.copytree(ROOT / "src" / "maxsup" / "losses", package / "losses")
    (package / "losses" / "relatives" / "centre.py").write_text(textwrap.dedent("   " + example.lstrip()))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "use.py").write_text(f"HOME = {str(tmp_path)!r}\n{USE}")
    done = subprocess.run([sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # log(1 + exp(-2)) + 0.5 * 1^2; the second row is ignored.
    assert [float(word) for word in done.stdout.split()] == pytest.approx([0.626928] * 2, abs=1e-6)


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
