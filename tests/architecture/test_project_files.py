"""What surrounds the code agrees with it: the wheel, the jobs of continuous integration, the citation."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import maxsup
from tests.architecture.source import PACKAGE, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = sorted(path for path in (ROOT / ".github").rglob("*") if path.is_file())


def jobs() -> dict[str, Any]:
    return {name: job for path in WORKFLOWS for name, job in yaml.safe_load(path.read_text())["jobs"].items()}


def packaged_files() -> set[str]:
    """Every file of the package that is not left by running it."""
    found = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    return {path.relative_to(PACKAGE.parent).as_posix() for path in found}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(PACKAGE, tmp_path / "src" / "maxsup", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import setuptools.build_meta as b; print(b.build_wheel('dist'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = (tmp_path / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == packaged_files()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {".yaml", ".json", ".html", ".css", ".js"} <= {Path(name).suffix for name in names}


def test_jobs_call_targets_of_make_that_exist() -> None:
    lines = [step["run"] for job in jobs().values() for step in job["steps"] if "run" in step]
    called = {match for line in lines for match in re.findall(r"\bmake ([a-z-]+)", line)}
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"lint", "test", "test-docs", "test-oldest", "dist"} <= called <= targets


def test_a_job_builds_the_site_in_an_environment_that_nothing_else_has_filled() -> None:
    assert [step["run"] for step in jobs()["docs"]["steps"] if "run" in step] == ["make docs"]


def test_jobs_test_the_oldest_and_the_newest_versions_that_are_promised() -> None:
    text, pins = (ROOT / "pyproject.toml").read_text(), (ROOT / "constraints.txt").read_text()
    [python] = re.findall(r'requires-python = ">=(.+)"', text)
    [oldest] = re.findall(r'dependencies = \["torch>=(.+)"\]', text)
    [newest] = re.findall(r"^torch==(.+)$", pins, re.MULTILINE)
    matrix = jobs()["losses"]["strategy"]["matrix"]
    assert matrix["python"][0] == python
    assert matrix["torch"] == [f"{oldest}.0", newest]
    assert set(jobs()["suite"]["strategy"]["matrix"]["python"]) == set(matrix["python"]) - {python}


@pytest.mark.parametrize("path", [*TEXTS, ROOT / ".pre-commit-config.yaml"], ids=lambda path: path.name)
def test_files_for_contributors_are_valid_and_name_no_place_of_a_machine(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"(?<![\w.])/(?:home|root|tmp|work|Users)/", text)
    assert set(re.findall(r"https?://([^/\s]+)", text)) <= {"github.com"}
    if path.suffix in (".yml", ".yaml"):
        assert yaml.safe_load(text)


def test_the_citation_names_this_version_its_licence_and_the_paper() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (found["cff-version"], found["version"], found["license"]) == ("1.2.0", maxsup.__version__, "Apache-2.0")
    assert {"message", "title", "authors"} < set(found)
    [paper] = found["references"]
    assert paper["title"] in (ROOT / "README.md").read_text()
    assert paper["authors"][0]["family-names"] == "Zhou"
