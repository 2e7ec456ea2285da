"""What the pages on contributing print is written into a copy of the checkout, and passes the checks as printed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

pytestmark = pytest.mark.slow

PAGES = sorted((ROOT / "docs" / "contributing").glob("*.md"))
# Folders that a page may change or whose code its checks run; the rest of the checkout is linked.
COPIED = ("src", "tests", "docs", "examples", "tools", "README.md", "pyproject.toml")
STEP = re.compile(
    r"^(?:(?P<how>Write|Add to the end of|Add to) `(?P<path>[^`]+)`(?:, above `(?P<above>[^`]+)`)?:\n\n)?"
    r"(?P<fence>`{3,})(?P<language>\w+)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


def checkout(folder: Path) -> Path:
    """A copy of the checkout in which files can be added."""
    for path in ROOT.iterdir():
        if path.name in COPIED:
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, folder / path.name)
        elif not path.name.startswith(".") and path.name not in ("build", "runs"):
            (folder / path.name).symlink_to(path)
    return folder


def edited(step: re.Match[str], text: str) -> str:
    """The text of a file after a step of a page."""
    if step["above"] is None:
        assert bool(text) == (step["how"] != "Write"), f"{step['path']} is there already, or is not"
        return f"{text}\n\n{step['text']}" if text else step["text"]
    line = re.search(rf"^ *{re.escape(step['above'])}", text, re.MULTILINE)
    assert line, f"{step['path']} has no line that begins with {step['above']!r}"
    return text[: line.start()] + step["text"] + text[line.start() :]


def check_command(command: str, folder: Path) -> None:
    """Run a command of a page in the copy, with this Python, and expect that it succeeds."""
    program, *words = shlex.split(command)
    start = {"python": [], "maxsup": ["-m", "maxsup"], "ruff": ["-m", "ruff"]}[program]
    environment = os.environ | {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    done = subprocess.run(
        [sys.executable, *start, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


# Every way to the loss of its page, in a package that has its one file more and no renewed listings.
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
# log(1 + exp(-2)) + 0.5 * 1^2; the second row is ignored.
for value in (maxsup.create_loss("centre", alpha=0.5)(*batch), centre_cross_entropy(*batch, 0.5)):
    torch.testing.assert_close(value.item(), 0.626928, rtol=0, atol=1e-6)
"""


def test_a_loss_is_known_everywhere_from_its_one_file(tmp_path: Path) -> None:
    folder = checkout(tmp_path)
    [first, *_] = STEP.finditer((ROOT / "docs" / "contributing" / "loss.md").read_text())
    (folder / first["path"]).write_text(first["text"])
    (folder / "use.py").write_text(f"HOME = {str(folder)!r}\n{USE}")
    check_command("python use.py", folder)


def test_there_is_a_page_for_each_kind_of_addition_and_contributing_links_to_it() -> None:
    kinds = {"loss", "data", "analysis", "metric", "study", "recipe", "integration"}
    assert {path.stem for path in PAGES} == kinds
    links = re.findall(r"\(docs/contributing/(\w+)\.md\)", (ROOT / "CONTRIBUTING.md").read_text())
    assert set(links) == kinds


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_prints_passes_the_checks_that_it_names(page: Path, tmp_path: Path) -> None:
    folder, written, num_commands = checkout(tmp_path), [], 0
    for step in STEP.finditer(page.read_text()):
        if step["how"]:
            path = folder / step["path"]
            path.write_text(edited(step, path.read_text() if path.exists() else ""))
            written.append(step["path"])
        elif step["language"] == "console":
            for command in re.findall(r"^\$ (.+)$", step["text"], re.MULTILINE):
                check_command(command, folder)
                num_commands += 1
    assert num_commands
    # No file is left out because its sentence is written in another way.
    assert len(written) == len(re.findall(r"^(?:Write|Add to)\b.*:$", page.read_text(), re.MULTILINE)) > 0
    if sources := " ".join(path for path in written if path.endswith(".py")):
        check_command(f"ruff check {sources}", folder)
        check_command(f"ruff format --check {sources}", folder)
