"""The command line in this process, which holds torch already."""

from pathlib import Path

import pytest

from maxsup.cli import main
from tests.integration.command import Cli, Outcome


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
