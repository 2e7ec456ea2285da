"""The package for a kernel hub, imported without maxsup, twice in one process, and tested by its own tests."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from tools.hub_package import NAME, assemble

TWICE = """
import sys
sys.modules["maxsup"] = None  # importing it fails
import torch
import maxsup_loss, other_loss
from maxsup_loss.losses.head.blocks import _opaque_by_blocks as ours
from other_loss.losses.head.blocks import _opaque_by_blocks as theirs
assert ours._opoverload.namespace != theirs._opoverload.namespace
assert not hasattr(torch.ops.maxsup, "head_by_blocks")
hidden, weight, target = torch.randn(9, 5), torch.randn(7, 5), torch.arange(9) % 7
losses = []
for package in (maxsup_loss, other_loss):
    head = torch.compile(package.linear_maxsup_cross_entropy, backend="aot_eager", fullgraph=True)
    losses.append(head(hidden, weight, target))
    losses.append(package.maxsup_cross_entropy(hidden @ weight.T, target))
print(bool(max(losses) - min(losses) < 1e-5))
"""


@pytest.fixture(name="package", scope="module")
def _package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub") / "built"
    assemble(folder)
    return folder


def run(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(folder / "torch-ext"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_import_within_the_package_is_relative(package):
    names = set()
    for file in (package / "torch-ext").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(str(node.module).partition(".")[0])
    assert {"torch", "triton"} <= names
    assert names <= {"torch", "triton", "typing_extensions", "numpy", *sys.stdlib_module_names}


def test_two_versions_work_in_one_process_that_cannot_import_maxsup(package, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(package, copy)
    other = copy / "torch-ext" / "other_loss"
    shutil.copytree(copy / "torch-ext" / NAME, other)
    operators = other / "_ops.py"
    operators.write_text(operators.read_text().replace("_maxsup_loss_", "_other_"))
    done = run(copy, "-c", TWICE)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.slow
def test_its_own_tests_pass(package):
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout
