"""The site is built with the packages of the extra ``docs`` alone, and ``make docs`` installs no others."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

import pytest
import tomllib

from tests.architecture.source import ROOT

pytest.importorskip("sphinx")

# The pages that need imports: what is public, and the program that says what is listed.
BUILD = """
import sys
BLOCKED = frozenset({blocked!r})

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
from pathlib import Path
from tools.site.staging import generated
print(*sorted(generated(Path({root!r}))), sep="\\n")
"""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_by(extra: str) -> set[str]:
    """Names of the distributions that an extra of pyproject.toml brings, with what these need themselves."""
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = set()
    left = [(Requirement(f"maxsup[{extra}]"), "")]
    while left:
        need, wanted_by = left.pop()
        if need.marker is not None and not need.marker.evaluate({"extra": wanted_by}):
            continue
        name = _normal(need.name)
        for part in ["", *sorted(need.extras)]:
            if f"{name}[{part}]" in found:
                continue
            found.add(f"{name}[{part}]")
            if name == "maxsup":
                lines = project["optional-dependencies"][part] if part else project["dependencies"]
            else:
                try:
                    lines = distribution(name).requires or []
                except PackageNotFoundError:
                    continue
            left += [(Requirement(line), part) for line in lines]
    return {each.partition("[")[0] for each in found}


def test_the_generated_pages_need_the_packages_of_the_extra_docs_alone() -> None:
    kept = _installed_by("docs")
    assert {"sphinx", "torch", "typer", "timm"} <= kept
    assert kept.isdisjoint({"transformers", "lightning", "keras"})
    blocked = {module for module, owners in packages_distributions().items() if kept.isdisjoint(map(_normal, owners))}
    assert {"transformers", "pytest"} <= blocked
    script = BUILD.format(blocked=sorted(blocked), root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    pages = set(done.stdout.split())
    assert {"api/maxsup.integrations.huggingface.rst", "cli/index.rst", "losses/maxsup.rst", "explore.rst"} <= pages
