"""Modules that lie in the current folder, among somebody's photos for instance, are run by no launcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxsup.lab.experiments.execution.launch import create_launcher
from tests.integration.command import run_python
from tests.integration.launching import complaints, plan_jobs

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

NAMES = ("maxsup", "pydantic", "torch", "numpy", "yaml", "safetensors", "accelerate", "cloudpickle", "socket", "typing")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules that leave their names when they are run."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(folder)
    # `python -m pytest` puts it on the path of this process.
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "package"),
    [("local", {}, "torch"), ("ray", {"num_workers": 1}, "ray"), ("slurm", {"cluster": "local"}, "submitit")],
)
def test_a_launcher_runs_no_file_of_the_current_folder(
    name: str, options: dict[str, object], package: str, images: Path, planted: Path
) -> None:
    pytest.importorskip(package)
    [job] = jobs = plan_jobs(planted, images, 1, "epochs=1")
    before = os.environ.get("PYTHONSAFEPATH")
    states = create_launcher(name, **options).launch(jobs)
    assert not (planted / "executed").exists(), (planted / "executed").read_text()
    assert complaints(states) == []
    assert (job.folder / "summary.json").exists()
    assert os.environ.get("PYTHONSAFEPATH") == before


def test_the_documented_command_of_torchrun_runs_no_file_of_the_current_folder(planted: Path) -> None:
    scripts = Path(sys.executable).parent
    launch = [scripts / "torchrun", "--standalone", "--nproc-per-node", "2", "--no-python", scripts / "maxsup"]
    words = ["train", "digits_cnn", "epochs=1", "model.options.widths=[2,4]", "--output", planted / "run"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launch, *words], env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert not (planted / "executed").exists(), (planted / "executed").read_text()
    assert done.returncode == 0, done.stderr
    assert json.loads((planted / "run/env.json").read_text())["num_processes"] == 2


def test_with_python_m_only_a_maxsup_of_the_current_folder_is_run(planted: Path) -> None:
    Path("maxsup.py").unlink()
    done = run_python("-m", "maxsup", "validate", "digits_cnn")
    assert not (planted / "executed").exists(), (planted / "executed").read_text()
    assert done.code == 0, done.err
