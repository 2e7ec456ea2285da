"""What the documents list is what there is."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import maxsup
from tests.architecture.floors import FACADES, MAY_IMPORT
from tests.architecture.source import ROOT


def test_the_readme_lists_every_loss_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \|(?: `(\w+)=([\d.]+)`)? \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    listed = {name: (strength or None, float(default) if default else None) for name, strength, default in rows}
    assert listed == {row["name"]: (row["strength"], row["default"]) for row in maxsup.losses.describe_losses()}


def test_the_architecture_page_names_every_part() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = {part for part in MAY_IMPORT if f"`{part}`" in page}
    assert named | {"facade"} == set(MAY_IMPORT)
    assert all(f"{module}.py`" in page for module in FACADES)


def test_the_tests_that_the_architecture_page_names_exist() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (ROOT / "docs" / "architecture.md").read_text())
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) > 10
    assert [(file, test) for file, test in named if f"def {test}(" not in files.get(file, "")] == []


def test_the_loss_that_contributing_shows_works_as_it_stands() -> None:
    # In a process of its own, because a registered name stays.
    [example] = re.findall(r"```python\n(.+?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    use = """
import maxsup, torch
loss = maxsup.create_loss("centre", alpha=0.5)
print(loss(torch.tensor([[2.0, 0.0], [-1.0, -1.0]]), torch.tensor([0, -100])).item())
"""
    script = textwrap.dedent("   " + example.lstrip()) + use
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # log(1 + exp(-2)) + 0.5 * 1^2; the second row is ignored.
    assert abs(float(done.stdout) - 0.626928) < 1e-6


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
