import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from maxsup.core.errors import MaxsupError
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.comparison import comparison
from maxsup.lab.experiments.execution.launch import FollowUp, Job, JobState, read_state
from maxsup.lab.experiments.execution.study_folder import StudyFolder, execute, plan_folder, read_folder
from maxsup.lab.experiments.execution.worker import analysis_marker
from maxsup.lab.experiments.local_data import obstacle_in
from maxsup.lab.experiments.loose_runs import folder_of_runs
from maxsup.lab.experiments.study_files import load_study
from maxsup.lab.experiments.summarize import summarize
from tests.unit.lab.experiments.made import finish_run, lay_out, of_tested_numbers, without_analyses

ACCURACIES = {"ce": 0.90, "ls": 0.92, "maxsup": 0.95}


class PretendLauncher:
    """Writes the numbers that training would have given, and remembers which jobs it got."""

    def __init__(self, failing: str = "") -> None:
        self.names: list[str] = []
        self.failing = failing

    def launch(self, jobs: Sequence[Job], on_change: object, then: FollowUp) -> list[JobState]:
        for job in jobs:
            if read_state(job).status == "done":
                continue
            self.names.append(job.name)
            if self.failing and job.name.startswith(self.failing):
                (job.folder / "failure.json").write_text(json.dumps({"sentence": "no luck.", "exit_code": 3}))
                continue
            arm, seed = job.name.split("-s")[0], int(job.name.split("-s")[1].split("-")[0])
            finish_run(job.folder, ACCURACIES[arm] + 0.001 * seed)
        states = [read_state(job) for job in jobs]
        return [*states, *map(read_state, then(states))]


def pretend(folder: StudyFolder, failing: str = "") -> list[JobState]:
    return execute(folder, PretendLauncher(failing), lambda states: None)


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    design = of_tested_numbers(comparison("digits_cnn", list(ACCURACIES), overrides=["epochs=1"]))
    made = lay_out(design, tmp_path / "out")
    without_analyses(made)
    return made


def test_a_run_is_named_after_its_content_so_that_another_experiment_gets_another_folder(tmp_path: Path) -> None:
    first, second = (
        lay_out(comparison("digits_cnn", ["ce", "ls"], seeds=1, overrides=[word]), tmp_path / word)
        for word in ("epochs=1", "epochs=2")
    )
    assert not set(first.runs) & set(second.runs)


def test_a_folder_read_back_is_the_one_that_was_laid_out(folder: StudyFolder) -> None:
    assert read_folder(folder.path) == folder


def test_a_folder_in_the_words_of_an_older_version_is_read_as_it_was_meant(folder: StudyFolder) -> None:
    file = folder.path / "study.json"
    record = read_json(file)
    for recipe in record["recipes"].values():
        recipe["augment"] = {"eval_resize": 10}
        recipe["data"]["image_size"] = 8
    RunDir(folder.path).write_json(file, record)
    assert {run.recipe.augment.crop_pct for run in read_folder(folder.path).runs.values()} == {0.8}


def test_finished_runs_are_not_run_again(folder: StudyFolder) -> None:
    pretend(folder)
    again = PretendLauncher()
    states = execute(folder, again, lambda states: None)
    assert again.names == []
    assert [state.status for state in states] == ["done"] * 18


def test_adding_a_seed_keeps_the_runs_that_are_there(folder: StudyFolder) -> None:
    pretend(folder)
    [experiment] = folder.design.experiments
    more = experiment.model_copy(update={"seeds": tuple(range(7))})
    larger = lay_out(folder.design.model_copy(update={"experiments": (more,)}), folder.path)
    without_analyses(larger)
    launcher = PretendLauncher()
    execute(larger, launcher, lambda states: None)
    assert sorted(name.split("-s")[0] for name in launcher.names) == ["ce", "ls", "maxsup"]


def test_another_study_in_the_same_folder_is_refused(folder: StudyFolder) -> None:
    other = folder.design.model_copy(update={"name": "other"})
    with pytest.raises(MaxsupError, match="output must hold one study"):
        lay_out(other, folder.path)


def test_a_folder_without_a_study_is_refused_with_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(MaxsupError, match=r"which has no study.json. Give its output folder"):
        read_folder(tmp_path)


def test_the_summary_has_mean_spread_values_difference_interval_and_p_of_every_loss(folder: StudyFolder) -> None:
    pretend(folder)
    summary = summarize(folder)
    assert json.loads((folder.path / "summary.json").read_text())["baseline"] == "ls"
    found = {entry.loss: entry.metrics["accuracy"] for entry in summary.losses}
    maxsup = found["maxsup"]
    assert (maxsup.mean, maxsup.difference) == pytest.approx((0.9525, 0.03), abs=1e-12)
    assert (maxsup.p, maxsup.adjusted_p, maxsup.is_conclusive) == (2 / 64, 4 / 64, True)
    assert maxsup.values["5"] == pytest.approx(0.955)
    assert math.isnan(found["ls"].difference)
    assert found["ce"].difference == pytest.approx(-0.02, abs=1e-12)
    cells = {row: cells["accuracy"] for row, cells in summary.table.cells.items()}
    assert (cells["maxsup"].text, cells["maxsup"].is_bold, cells["ls"].is_bold) == ("95.25 ± 0.19", True, False)


def test_a_failed_run_is_a_hole_that_is_named_and_breaks_only_its_pair(folder: StudyFolder) -> None:
    states = pretend(folder, failing="maxsup-s2")
    assert [state.sentence for state in states if state.status == "failed"] == ["no luck."]
    summary = summarize(folder)
    failed = [run for run in summary.runs if run.status != "done"]
    assert [(run.arm, run.seed, run.status, run.sentence) for run in failed] == [("maxsup", 2, "failed", "no luck.")]
    accuracy = summary.table.cells["maxsup"]["accuracy"]
    assert accuracy.comparison.num_pairs == 5
    assert not accuracy.is_bold
    assert summary.table.cells["ce"]["accuracy"].comparison.num_pairs == 6


def test_the_same_folder_gives_the_same_bytes(folder: StudyFolder) -> None:
    pretend(folder)
    summarize(folder)
    first = (folder.path / "summary.json").read_bytes()
    summarize(read_folder(folder.path))
    assert (folder.path / "summary.json").read_bytes() == first


def _write_configs(folder: StudyFolder) -> list[Path]:
    import yaml

    paths = []
    for name, run in folder.runs.items():
        (folder.folder(name) / "config.yaml").write_text(yaml.safe_dump(run.recipe.model_dump(mode="json")))
        (folder.folder(name) / "job.json").unlink()
        paths.append(folder.folder(name))
    return paths


def test_run_directories_that_no_study_made_become_one_table(folder: StudyFolder, tmp_path: Path) -> None:
    pretend(folder)
    paths = _write_configs(folder)
    runs = folder_of_runs(paths, tmp_path / "report")
    assert runs.design.experiments[0].setting.recipe == str(paths[0].resolve() / "config.yaml")
    assert {runs.folder(name) for name in runs.runs} == {path.resolve() for path in paths}
    assert not any("/" in name for name in runs.runs)
    summary = summarize(runs)
    found = {entry.loss: entry.metrics["accuracy"].mean for entry in summary.losses}
    assert found == pytest.approx({"ce": 0.9025, "ls": 0.9225, "maxsup": 0.9525})


def test_runs_of_different_experiments_are_not_put_into_one_table(folder: StudyFolder, tmp_path: Path) -> None:
    pretend(folder)
    paths = _write_configs(folder)
    config = paths[-1] / "config.yaml"
    config.write_text(config.read_text().replace("batch_size: 64", "batch_size: 32"))
    with pytest.raises(MaxsupError, match="got batch_size=32 beside 64"):
        folder_of_runs(paths, tmp_path / "report")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    lay_out(comparison("digits_cnn", ["ce", "ls"], seeds=1, overrides=["epochs=1"]), tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("word", "message"), [("epochs=2", "epochs=1, for epochs=2"), ("data.name=synthetic", "data.name='digits', for")]
)
def test_a_comparison_with_other_settings_is_refused_in_the_same_folder(made: Path, word: str, message: str) -> None:
    before = (made / "study.json").read_bytes()
    other = comparison("digits_cnn", ["ce", "ls"], seeds=1, overrides=["epochs=1", word])
    with pytest.raises(MaxsupError, match=rf"{message}.*Choose another output"):
        lay_out(other, made)
    assert (made / "study.json").read_bytes() == before


@pytest.mark.parametrize(
    ("losses", "num_seeds"), [(["ce", "ls", "maxsup"], 1), (["ce", "maxsup"], 1), (["ce", "ls"], 3)]
)
def test_other_losses_and_more_seeds_extend_a_comparison(made: Path, losses: list[str], num_seeds: int) -> None:
    more = comparison("digits_cnn", losses, seeds=num_seeds, overrides=["epochs=1"])
    assert len(lay_out(more, made).runs) == len(losses) * num_seeds


def test_where_data_is_does_not_make_another_comparison(made: Path, tmp_path: Path) -> None:
    same = comparison("digits_cnn", ["ce", "ls"], seeds=1, overrides=["epochs=1"])
    assert len(lay_out(same, made, data_root=tmp_path / "elsewhere").runs) == 2


@pytest.mark.parametrize("word", ["loss.name=ce", "seed=3", "loss={name: ce}"])
def test_losses_and_seeds_of_a_study_are_not_overridden(word: str) -> None:
    with pytest.raises(ValueError, match="overrides must leave losses and seeds to the study"):
        load_study("tab_pre").at("tiny", overrides=[word])


def test_planning_writes_nothing(tmp_path: Path) -> None:
    folder = plan_folder(comparison("digits_cnn", ["ce", "ls"], seeds=1), tmp_path / "out")
    assert len(folder.open_runs()) == 2
    assert not folder.path.exists()


def test_a_trained_run_whose_analyses_are_not_over_is_open(made: Path) -> None:
    folder = plan_folder(comparison("digits_cnn", ["ce", "ls"], seeds=1, overrides=["epochs=1"]), made)
    first, second = folder.runs
    finish_run(folder.folder(first), 0.9)
    assert set(folder.open_runs()) == {first, second}
    for request in folder.job(first)["analyses"]:
        RunDir(folder.folder(first)).write_json(analysis_marker(folder.folder(first), request), {"files": []})
    assert set(folder.open_runs()) == {second}


# --- pools


def test_studies_of_one_pool_share_their_runs_and_each_asks_for_its_own_analyses(tmp_path: Path) -> None:
    names = ("tab_feature", "fig_logit_analysis")
    features, others = (lay_out(load_study(name).at("small"), tmp_path / f"{name}-small") for name in names)
    shared = set(features.runs) & set(others.runs)
    assert len(shared) == 24
    [name, *_] = sorted(shared)
    assert features.folder(name) == others.folder(name) == tmp_path / "runs" / name
    assert name.startswith("c10-ce-s0-")
    job = json.loads((tmp_path / "runs" / name / "job.json").read_text())
    assert job["name"] == "c10"
    assert [request["what"] for request in job["analyses"]] == ["logits", "collapse"]
    # What another study asks for does not keep a study from being done.
    assert [request["what"] for request in features.job(name)["analyses"]] == ["collapse"]
    assert read_folder(features.path) == features


def test_an_analysis_without_its_data_is_left_out_with_a_sentence_and_its_column_stays_empty(tmp_path: Path) -> None:
    root = tmp_path / "empty"
    design = load_study("tab_extended_feature").at("small", obstacle=obstacle_in(root))
    folder = plan_folder(design, tmp_path / "out", data_root=root)
    assert not design.analyses
    assert len(design.missing) == 4
    assert all("is left out: " in sentence and "empty" in sentence for sentence in design.missing)
    for name in folder.runs:
        finish_run(folder.folder(name), 0.5)
    table = summarize(folder).table.cells
    assert table["maxsup"]["cub"].text == "-"
    assert "too many" in table["maxsup"]["foods"].left_out
