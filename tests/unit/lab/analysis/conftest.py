"""Three runs to compare and one with known factors, made once."""

from pathlib import Path

import pytest

from tests.unit.lab.analysis.made import make_run

LOSSES = ("ce", "ls", "maxsup")


@pytest.fixture(scope="session")
def digit_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """CE, LS and MaxSup on digits, in this order."""
    folder = tmp_path_factory.mktemp("digits")
    return [make_run(folder / loss, loss, f"seed={seed}") for seed, loss in enumerate(LOSSES)]


@pytest.fixture(scope="session")
def drawn_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MaxSup on drawn digits, whose factors and place are known."""
    folder = tmp_path_factory.mktemp("synthetic")
    return make_run(folder / "maxsup", "maxsup", "data.options.copies=1", recipe="synthetic_cnn")
