"""The advice to install works for a checkout and for a package, whatever that was installed from."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from maxsup.core import installation

METADATA = """Metadata-Version: 2.4
Name: maxsup
Version: 0.1.0
Requires-Dist: torch>=2.4
Requires-Dist: pytest>=8.2; extra == "lab"
Requires-Dist: no-such-package>=1.0; extra == "lab"
Requires-Dist: no-such-engine; extra == 'ray'
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in site-packages; gives the folder of what pip writes down about it."""
    folder = tmp_path / "site-packages" / "maxsup-0.1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(METADATA)
    monkeypatch.setattr(installation, "_PACKAGE", folder.parent / "maxsup")

    def found(name: str) -> Distribution:
        return PathDistribution(folder)

    monkeypatch.setattr(installation, "distribution", found)
    return folder


def test_a_checkout_is_installed_again_with_the_extra() -> None:
    root = Path(__file__).resolve().parents[3]
    assert installation.install_command("lab") == f"pip install -e '{root}[lab]'"


@pytest.mark.parametrize("kind", ["folder", "wheel"])
def test_a_package_of_a_file_names_that_file_as_long_as_it_is_there(package: Path, tmp_path: Path, kind: str) -> None:
    source = tmp_path / ("the checkout" if kind == "folder" else "maxsup-0.1.0-py3-none-any.whl")
    source.mkdir() if kind == "folder" else source.write_bytes(b"")
    (package / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {}}))
    assert installation.install_command("lab") == f"pip install 'maxsup[lab] @ {source.as_uri()}'"
    shutil.rmtree(source) if kind == "folder" else source.unlink()
    assert installation.install_command("lab") == "pip install 'no-such-package>=1.0'"


def test_a_package_of_a_repository_names_its_commit(package: Path) -> None:
    place = {"url": "https://example.org/maxsup.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    (package / "direct_url.json").write_text(json.dumps(place))
    assert installation.install_command("hf") == "pip install 'maxsup[hf] @ git+https://example.org/maxsup.git@abc'"


def test_without_an_origin_the_missing_packages_are_named(package: Path) -> None:
    assert installation.install_command("lab") == "pip install 'no-such-package>=1.0'"
    assert installation.install_command("ray") == "pip install 'no-such-engine'"
