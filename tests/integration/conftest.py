"""The command line in this process, which holds torch already; images, and the numbers of a launch of runs on them."""

from pathlib import Path
from typing import Any

import pytest

from maxsup.lab.cli import main
from maxsup.lab.experiments.execution.launch import create_launcher
from tests.integration.command import Cli, Outcome
from tests.integration.launching import LONGER, NUM_JOBS, complaints, numbers_of, plan_jobs
from tests.integration.runs import image_folder


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs one command in an empty folder, as if not on a terminal; keywords are set in its environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, **environment: str) -> Outcome:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(words)
        return Outcome(int(stopped.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The numbers of a launch that nothing disturbs."""
    jobs = plan_jobs(tmp_path_factory.mktemp("undisturbed"), images, NUM_JOBS, *LONGER)
    states = create_launcher("local").launch(jobs)
    assert complaints(states) == []
    return numbers_of(jobs)
