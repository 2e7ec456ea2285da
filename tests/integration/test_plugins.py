"""Losses, data, models and analyses of another installed package work on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "hinge-lab"
version = "1.0"

[tool.setuptools]
py-modules = ["hinge_lab"]

[project.entry-points."maxsup.losses"]
hinge = "hinge_lab"

[project.entry-points."maxsup.data"]
two_digits = "hinge_lab"

[project.entry-points."maxsup.models"]
one_layer = "hinge_lab"

[project.entry-points."maxsup.analyses"]
top_logit = "hinge_lab"
"""

MODULE = """
import torch
from torch import nn

from maxsup.lab.analysis.registry import ANALYSES, Analysis
from maxsup.lab.data.bundle import MemorySplit
from maxsup.lab.data.registry import DATASETS, RawData
from maxsup.lab.models.base import MODELS, Classifier
from maxsup.losses import LOSSES
from maxsup.losses.base import AlphaLoss
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.metrics.facts import FACTS, Fact, numbers

FACTS["top_logit"] = Fact("mean top logit")


def hinge_cross_entropy(input, target, alpha=0.1, **options):
    return penalized_cross_entropy(input, target, alpha, lambda rows, log_probs, target: rows.amax(1).relu(), **options)


@LOSSES.register("hinge", summary="top logit below 0", formula="CE + alpha max(z_max, 0)", source="here")
class HingeLoss(AlphaLoss):
    function = staticmethod(hinge_cross_entropy)


@DATASETS.register("two_digits", images="64 + 32 of 1x8x8, 2 classes", source="here")
def two_digits(request):
    images = torch.zeros(96, 1, 8, 8, dtype=torch.uint8)
    labels = torch.arange(96) % 2
    images[labels == 1] = 200
    split = MemorySplit(images, labels)
    return RawData(split.subset(torch.arange(64)), split.subset(torch.arange(64, 96)), ("dark", "bright"))


@MODELS.register("one_layer", about="a mean and a layer", source="here")
def one_layer(num_classes, in_channels=3):
    return Classifier(nn.Conv2d(in_channels, 4, 1), nn.Linear(4, num_classes), 4)


def compute(run, *, split):
    return {"numbers": numbers({"top_logit": run.split(split).logits.amax(1).mean().item()}), "data": {}}


ANALYSES.register("top_logit", summary="mean top logit", paper="")(Analysis(compute, lambda results: {}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path with the package installed in it."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "hinge_lab.py").write_text(MODULE)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", target, source], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"pip could not install a local package: {done.stderr[-300:]}")
    return target


def run(words: list[str], installed: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "maxsup", *words]
    return subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("losses", "hinge"), ("data", "two_digits"), ("models", "one_layer"), ("analyses", "top_logit")],
)
def test_members_of_an_installed_package_are_listed(kind: str, name: str, installed: Path, tmp_path: Path) -> None:
    done = run(["ls", kind, "--json"], installed, tmp_path)
    assert name in {row["name"] for row in json.loads(done.stdout)}, done.stderr


def test_a_comparison_uses_loss_data_model_and_analysis_of_an_installed_package(
    installed: Path, tmp_path: Path
) -> None:
    words = ["compare", "--data", "two_digits", "--model", "one_layer", "--losses", "ce,hinge:0.3", "--seeds", "2"]
    done = run([*words, "epochs=1", "--json"], installed, tmp_path)
    assert done.returncode == 0, done.stderr
    runs = sorted((tmp_path / "comparison" / "runs").iterdir())
    assert len(runs) == 4
    done = run(["analyze", *map(str, runs), "--what", "top_logit", "--json"], installed, tmp_path)
    assert done.returncode == 0, done.stderr
    found = [json.loads((path / "analysis" / "top_logit-test.json").read_text()) for path in runs]
    assert all(result["numbers"]["top_logit"]["value"] > 0 for result in found)


def test_a_package_that_cannot_be_loaded_is_named_and_left_out(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    information = broken / "broken_lab-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-lab\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[maxsup.losses]\nlost = broken_lab\n")
    done = run(["ls", "losses", "--json"], broken, tmp_path)
    assert done.returncode == 0
    assert "maxsup" in {row["name"] for row in json.loads(done.stdout)}
    assert "broken-lab" in done.stderr
