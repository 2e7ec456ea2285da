"""Imports point down (docs/architecture.md)."""

import ast
from pathlib import Path

import pytest

from tests.architecture.floors import violations
from tests.architecture.source import PACKAGE, called_name, parsed_files


def test_imports_point_down() -> None:
    assert violations(PACKAGE) == []


def test_only_registries_of_data_name_a_package_above_their_own() -> None:
    named = {
        (path.relative_to(PACKAGE).parts[0], keyword.value.value)
        for path, tree in parsed_files(PACKAGE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called_name(node) == "Registry"
        for keyword in node.keywords
        if keyword.arg == "package" and isinstance(keyword.value, ast.Constant)
    }
    own = {("analysis", "maxsup.analysis.analyses"), ("dense", "maxsup.dense"), ("studies", "maxsup.studies.execution")}
    assert named == {("data", "maxsup.dense"), *own}


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("core/registry.py", "from maxsup.losses import MaxSupLoss", True),
        ("core/registry.py", "from maxsup import MaxSupLoss", True),
        ("core/registry.py", "from maxsup import losses", True),
        ("core/registry.py", "import maxsup.losses.base as base", True),
        ("core/registry.py", "from .. import losses", True),
        ("core/registry.py", "def late():\n    from ..losses import base", True),
        ("core/registry.py", "import importlib\nimportlib.import_module('maxsup.losses')", True),
        ("core/registry.py", "from maxsup.core.errors import hint", False),
        ("core/registry.py", "from .errors import hint", False),
        ("core/registry.py", "from maxsup import __version__", False),
        ("losses/maxsup.py", "from maxsup.metrics.calibration import ece", True),
        ("losses/maxsup.py", "from maxsup.functional import maxsup_penalty", True),
        ("losses/maxsup.py", "from maxsup.core.checks import check_number", False),
        ("training/loop.py", "from maxsup.analysis import probing", True),
        ("training/loop.py", "from maxsup.data import digits", False),
        ("training/loop.py", "from maxsup.dense import Segmenter", False),
        ("models/base.py", "from maxsup.dense import Segmenter", True),
        ("dense/upernet.py", "from maxsup.models import create_model", False),
        ("dense/evaluation.py", "from maxsup.training import evaluate", True),
        ("figures/style.py", "from maxsup.analysis.registry import Result", True),
        ("figures/style.py", "from maxsup.data import load_data", True),
        ("figures/style.py", "from maxsup.metrics import reliability", False),
        ("diagnosis/smoothing.py", "from maxsup.metrics import aurc", False),
        ("diagnosis/smoothing.py", "from maxsup.data import DATASETS", True),
        ("diagnosis/smoothing.py", "from maxsup.training import evaluate", True),
        ("doctor/batch.py", "from maxsup.losses.reduction import class_rows", False),
        ("doctor/batch.py", "from maxsup.diagnosis import diagnose", True),
        ("integrations/hf.py", "from maxsup.training import fit", True),
        ("integrations/hf.py", "from maxsup.schedules import Linear", False),
        ("reports/html.py", "from maxsup.cli import main", True),
        ("reports/html.py", "from maxsup.studies import compare", True),
        ("studies/outcome.py", "from maxsup.reports import write_report", False),
        ("cli/verbs/train.py", "from maxsup.studies import grid", False),
        ("functional.py", "from maxsup.training import fit", True),
        ("functional.py", "from maxsup.losses.maxsup import maxsup_penalty", False),
        ("utils.py", "", True),
    ],
)
def test_the_walk_finds_a_planted_violation(tmp_path: Path, file: str, line: str, broken: bool) -> None:
    path = tmp_path / "maxsup" / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    found = violations(tmp_path / "maxsup")
    assert len(found) == broken
    assert all(sentence.startswith(f"maxsup/{file}:") for sentence in found)
