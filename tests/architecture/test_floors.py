"""Imports point down (docs/architecture.md)."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.floors import MAY_IMPORT, owner_of, part_of, violations
from tests.architecture.source import PACKAGE, parsed_files


def test_imports_point_down() -> None:
    assert violations(PACKAGE) == []


def test_one_line_of_the_laboratory_names_a_package_of_a_higher_floor() -> None:
    named = [
        (path.relative_to(PACKAGE).as_posix(), node.value)
        for path, tree in parsed_files(PACKAGE / "lab")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and names_above(path, node.value)
    ]
    assert named == [("lab/data/registry.py", "maxsup.lab.segmentation")]


def names_above(path: Path, value: object) -> bool:
    """Whether a string is the dotted name of a part of the laboratory that the file must not import."""
    if not isinstance(value, str) or not re.fullmatch(r"maxsup\.lab(\.\w+)+", value):
        return False
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    owner = owner_of(parts)
    return owner is not None and part_of(value.split(".")[1:]) not in MAY_IMPORT[owner] | {owner}


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
        ("lab/training/loop.py", "from maxsup.lab.analysis import probing", True),
        ("lab/training/loop.py", "from maxsup.lab.data import digits", False),
        ("lab/training/loop.py", "from maxsup.lab.segmentation import Segmenter", True),
        ("lab/training/loop.py", "from maxsup.lab.tasks import TASKS", False),
        ("lab/segmentation/task.py", "from maxsup.lab.tasks.base import TASKS", False),
        ("lab/tasks/base.py", "from maxsup.lab.segmentation import SEGMENTERS", True),
        ("lab/experiments/comparison.py", "from maxsup.lab.segmentation import SEGMENTERS", True),
        ("lab/models/base.py", "from maxsup.lab.segmentation import Segmenter", True),
        ("lab/segmentation/upernet.py", "from maxsup.lab.models import create_model", False),
        ("lab/segmentation/evaluation.py", "from maxsup.lab.training import evaluate", True),
        ("lab/figures/style.py", "from maxsup.lab.analysis.registry import Result", True),
        ("lab/figures/style.py", "from maxsup.lab.data import load_data", True),
        ("lab/figures/style.py", "from maxsup.metrics import reliability", False),
        ("diagnosis/smoothing.py", "from maxsup.metrics import aurc", False),
        ("diagnosis/smoothing.py", "from maxsup.lab.data import DATASETS", True),
        ("diagnosis/smoothing.py", "from maxsup.lab.training import evaluate", True),
        ("doctor/batch.py", "from maxsup.losses.reduction import class_rows", False),
        ("doctor/batch.py", "from maxsup.diagnosis import diagnose", True),
        ("integrations/hf.py", "from maxsup.lab.training import fit", True),
        ("integrations/hf.py", "from maxsup.schedules import Linear", False),
        ("lab/reports/html.py", "from maxsup.lab.cli import main", True),
        ("lab/reports/html.py", "from maxsup.lab.experiments import compare", True),
        ("lab/experiments/result.py", "from maxsup.lab.reports import write_report", False),
        ("lab/cli/verbs/train.py", "from maxsup.lab.experiments import grid", False),
        ("functional.py", "from maxsup.lab.training import fit", True),
        ("functional.py", "from maxsup.losses.maxsup import maxsup_penalty", False),
        ("losses/maxsup.py", "from maxsup.lab.core.recipes import load_recipe", True),
        ("metrics/facts.py", "from maxsup.lab import core", True),
        ("integrations/hf.py", "from maxsup import lab", True),
        ("__init__.py", "import importlib\nimportlib.import_module('maxsup.lab')", True),
        ("lab/__init__.py", "from maxsup.lab.experiments import compare", False),
        ("lab/core/recipes.py", "from maxsup.lab.data import DATASETS", True),
        ("lab/core/recipes.py", "from maxsup.core.errors import hint", False),
        ("utils.py", "", True),
        ("lab/utils.py", "", True),
    ],
)
def test_the_walk_finds_a_planted_violation(tmp_path: Path, file: str, line: str, broken: bool) -> None:
    path = tmp_path / "maxsup" / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    found = violations(tmp_path / "maxsup")
    assert len(found) == broken
    assert all(sentence.startswith(f"maxsup/{file}:") for sentence in found)
