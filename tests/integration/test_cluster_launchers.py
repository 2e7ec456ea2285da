"""Real runs on SLURM and Ray: stopped and lost, always with the numbers of an undisturbed launch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from maxsup.core.errors import Interruption, MaxsupError
from maxsup.lab.cli.studies import make_launcher
from maxsup.lab.experiments.comparison import comparison
from maxsup.lab.experiments.execution.launch import Job, JobState, create_launcher, read_state
from maxsup.lab.experiments.execution.study_folder import execute
from maxsup.lab.experiments.execution.worker import FAILURE, LOG, STARTED
from tests.integration.launching import (
    LONGER,
    complaints,
    is_alive,
    num_epochs,
    numbers_of,
    plan_jobs,
    start,
    wait_until,
)
from tests.integration.slurm import install_slurm
from tests.unit.lab.experiments.made import lay_out

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found through /proc")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the stand-ins for SLURM are written for bash")

STORE_BYTES = 80 << 20


def test_the_local_executor_of_submitit_gives_the_same_numbers(
    images: Path, undisturbed: list[Any], tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    jobs = plan_jobs(tmp_path, images, 2, *LONGER)
    seen: set[str] = set()
    states = create_launcher("slurm", cluster="local", timeout_min=5).launch(
        jobs, lambda states: seen.update(state.status for state in states)
    )
    assert complaints(states) == []
    assert numbers_of(jobs) == undisturbed[:2]
    assert seen >= {"queued", "running", "done"}
    assert list((tmp_path / "slurm").iterdir())


@needs_bash
def test_slurm_jobs_are_stopped_by_ctrl_c_and_go_on_after_a_time_limit(
    images: Path, undisturbed: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    state = install_slurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    jobs = plan_jobs(tmp_path, images, 2, *LONGER)
    options = {"partition": "gpu", "account": "lab", "num_gpus": 1, "timeout_min": 5, "setup": "module load cuda"}

    before = {job.name: 0 for job in jobs}

    def in_training(states: Sequence[JobState]) -> list[int]:
        """Processes of runs that have trained an epoch in this attempt."""
        running = [state.job for state in states if state.status == "running" and state.epoch > before[state.job.name]]
        return [json.loads((job.folder / STARTED).read_text())["process"] for job in running]

    stopped: list[int] = []

    def stop(states: Sequence[JobState]) -> None:
        if not stopped and in_training(states):
            stopped.extend(in_training(states))
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interruption, match="stopped by SIGINT; 0 of 2 runs done"):
        create_launcher("slurm", **options).launch(jobs, stop)
    wait_until(lambda: not any(is_alive(process) for process in stopped), 20.0)
    assert not any((job.folder / FAILURE).exists() for job in jobs)
    before |= {job.name: read_state(job).epoch for job in jobs}
    limited: list[int] = []

    def end_its_time(states: Sequence[JobState]) -> None:
        if not limited and in_training(states):
            limited.extend(in_training(states)[:1])
            os.kill(limited[0], signal.SIGUSR2)

    assert complaints(create_launcher("slurm", **options).launch(jobs, end_its_time)) == []
    assert numbers_of(jobs) == undisturbed[:2]
    # Once into the queue again, after it had saved.
    assert [line.split()[0] for line in (state / "scontrol.log").read_text().splitlines()] == ["requeue"]
    assert sum((job.folder / LOG).read_text().count("stopped by SIGTERM") for job in jobs) >= 2
    scripts = [path.read_text() for path in state.glob("script-*")]
    assert len(scripts) == 2
    for line in ("--partition=gpu", "--account=lab", "--gpus-per-node=1", "--time=5", "--requeue", "--array=0-1%2"):
        assert f"#SBATCH {line}\n" in scripts[0]
    assert "module load cuda" in scripts[0]


@needs_bash
@pytest.mark.parametrize("name", ["local", "slurm"])
def test_an_analysis_of_several_runs_is_a_job_of_the_launcher_and_is_made_once(
    name: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "slurm":
        pytest.importorskip("submitit")
    state = install_slurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    words = [f"data.name=folder:{images}", "data.image_size=8", "model.name=small_cnn", "model.pretrained=false"]
    design = comparison("folder_finetune", ["ce", "ls"], seeds=1, overrides=[*words, "epochs=1"])
    [experiment] = design.experiments
    analyses = tuple(analysis for analysis in experiment.analyses if analysis.what == "projection")
    columns = tuple(column for column in design.table.columns if column.metric and column.metric.source == "test")
    kept = {
        "experiments": (experiment.model_copy(update={"analyses": analyses}),),
        "table": design.table.model_copy(update={"columns": columns}),
    }
    folder = lay_out(design.model_copy(update=kept), tmp_path / "out")
    seen: set[str] = set()

    def launched() -> list[JobState]:
        return execute(folder, create_launcher(name), lambda states: seen.update(state.job.name for state in states))

    states = launched()
    assert complaints(states) == []
    assert [state.job.name.partition("-")[0] for state in states] == ["ce", "ls", "all"]
    assert seen == {state.job.name for state in states}
    started = [json.loads((state.job.folder / STARTED).read_text())["process"] for state in states]
    assert os.getpid() not in started
    results = [folder.folder(run) / "analysis/projection-test.json" for run in folder.runs]
    # What makes it joint: the runs show the same classes.
    assert len({json.dumps(json.loads(path.read_text())["options"]) for path in results}) == 1
    assert len(list(state.glob("script-*"))) == (2 if name == "slurm" else 0)
    before = [path.stat().st_mtime_ns for path in results]
    assert complaints(launched()) == []
    assert [path.stat().st_mtime_ns for path in results] == before
    results[0].unlink()
    assert complaints(launched()) == []
    assert results[0].exists()


def test_without_sbatch_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MaxsupError, match="launcher 'slurm' needs sbatch and srun, and this machine has no such"):
        create_launcher("slurm").launch([Job("a", tmp_path / "a", 1)])
    with pytest.raises(MaxsupError, match="launcher 'slurm' needs sbatch"):
        make_launcher("slurm", None, None)
    assert make_launcher("slurm", None, ["partition=gpu"], is_dry=True).settings(1)["slurm_partition"] == "gpu"
    with pytest.raises(TypeError, match=r"option of launcher 'slurm' must be one it has; got 'partion'\. Did you mean"):
        create_launcher("slurm", cluster="local", partion="gpu")


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that takes no runs; tests add nodes."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    # Paths of sockets must be short, so the folder of the test will not do.
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as scratch:
        monkeypatch.setenv("RAY_TMPDIR", scratch)
        head = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            monkeypatch.undo()


@needs_proc
def test_ctrl_c_a_killed_driver_and_a_node_that_goes_away_leave_no_process_on_ray_and_change_no_number(
    cluster: Any, images: Path, undisturbed: list[Any], tmp_path: Path
) -> None:
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES) for _ in range(2)]
    jobs = plan_jobs(tmp_path, images, 2, *LONGER)

    def trained_further() -> list[int]:
        """A driver in training; gives the processes of its runs."""
        before = num_epochs(jobs)
        driver = start(tmp_path, 2, cluster.address)
        wait_until(lambda: num_epochs(jobs) > before or driver.poll() is not None)
        assert driver.poll() is None
        drivers.append(driver)
        found = [json.loads((job.folder / STARTED).read_text()) for job in jobs if (job.folder / STARTED).exists()]
        return [entry["process"] for entry in found]

    drivers: list[subprocess.Popen[bytes]] = []
    working = trained_further()
    drivers[-1].send_signal(signal.SIGINT)
    assert drivers[-1].wait(90) == 130
    assert any("stopped by SIG" in (job.folder / LOG).read_text() for job in jobs if (job.folder / LOG).exists())
    wait_until(lambda: not any(is_alive(process) for process in working), 30.0)
    working = trained_further()
    drivers[-1].kill()
    drivers[-1].wait()
    wait_until(lambda: not any(is_alive(process) for process in working), 30.0)
    assert not any((job.folder / FAILURE).exists() for job in jobs)
    before = {job.name: read_state(job).epoch for job in jobs}
    removed: list[str] = []

    def look(states: Sequence[JobState]) -> None:
        running = [state for state in states if state.status == "running" and state.epoch > before[state.job.name]]
        if running and not removed:
            removed.extend(state.job.name for state in running)
            cluster.remove_node(nodes[0], allow_graceful=False)

    assert complaints(create_launcher("ray", address=cluster.address).launch(jobs, look)) == []
    assert removed
    assert numbers_of(jobs) == undisturbed[:2]
