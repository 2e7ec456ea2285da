"""`maxsup compare`, `study` and `report` as a user meets them."""

import json
from pathlib import Path

import pytest

from maxsup.lab.experiments.study_files import study_names
from tests.integration.command import Cli, Outcome, assert_refused, run_command
from tests.integration.runs import image_folder

METRICS = {"accuracy", "nll", "nll_after", "ece", "ece_after", "aurc", "confidence_wrong", "within", "r_squared"}
QUICK = ["--data", "digits", "--workers", "1", "epochs=1", "batch_size=256", "model.options.widths=[8, 16]"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    home = tmp_path_factory.mktemp("compare")
    image_folder(home / "images")
    return home / "out", run_command(*command_of(home / "out"))


def command_of(output: Path) -> list[str]:
    """Files, and processes that load them: what a user's own images are."""
    data = [f"folder:{output.parent / 'images'}", "--recipe", "folder_finetune", "--workers", "1"]
    words = ["data.image_size=10", "data.num_workers=2", "model.name=small_cnn", "model.pretrained=false", "epochs=1"]
    return ["compare", "--data", *data, "--losses", "ce,ls,maxsup", "--seeds", "2", "--output", str(output), *words]


@pytest.mark.slow
def test_a_comparison_ends_with_a_table_a_summary_and_a_report(compared: tuple[Path, Outcome]) -> None:
    output, outcome = compared
    assert outcome.code == 0, outcome.err
    assert (output / "report.html").stat().st_size > 10_000
    summary = json.loads((output / "summary.json").read_text())
    assert [entry["loss"] for entry in summary["losses"]] == ["ce", "ls", "maxsup"]
    for entry in summary["losses"]:
        assert set(entry["metrics"]) == METRICS
        assert all(len(metric["values"]) == 2 and metric["mean"] is not None for metric in entry["metrics"].values())
    for word in ("accuracy", "maxsup", "Nothing can be concluded", str(output / "report.html")):
        assert word in outcome.out


@pytest.mark.slow
def test_before_anything_is_trained_it_says_how_many_runs_how_long_and_what_the_seeds_can_show(
    compared: tuple[Path, Outcome],
) -> None:
    _, outcome = compared
    assert outcome.err.startswith("6 runs (2 seeds); about ")
    assert "2 seeds cannot show a difference of any size" in outcome.err


@pytest.mark.slow
def test_the_same_command_again_trains_nothing_and_writes_the_same_bytes(compared: tuple[Path, Outcome]) -> None:
    output, _ = compared
    before = {name: (output / name).read_bytes() for name in ("summary.json", "report.html")}
    times = {path: path.stat().st_mtime_ns for path in output.glob("runs/*/summary.json")}
    outcome = run_command(*command_of(output))
    assert outcome.code == 0
    assert "6 runs (2 seeds), 6 of them done" in outcome.err
    assert {path: path.stat().st_mtime_ns for path in output.glob("runs/*/summary.json")} == times
    assert {name: (output / name).read_bytes() for name in before} == before


@pytest.mark.slow
def test_a_report_of_bare_run_directories_has_their_table(compared: tuple[Path, Outcome], tmp_path: Path) -> None:
    output, _ = compared
    runs = sorted(str(path.parent) for path in output.glob("runs/*/summary.json"))
    outcome = run_command("report", *runs, "--output", str(tmp_path / "page"), "--json")
    assert outcome.code == 0, outcome.err
    [summary] = json.loads(outcome.out)["summaries"]
    whole = json.loads((output / "summary.json").read_text())
    means = [
        {entry["loss"]: entry["metrics"]["accuracy"]["mean"] for entry in each["losses"]} for each in (summary, whole)
    ]
    assert means[0] == pytest.approx(means[1])
    assert (tmp_path / "page" / "report.html").is_file()


@pytest.mark.slow
def test_a_run_that_fails_is_named_with_its_log_and_the_others_are_compared(tmp_path: Path) -> None:
    # A strength that makes the loss infinite in the first step.
    outcome = run_command(
        "compare", *QUICK, "--losses", "ce,logit_penalty:1e30", "--seeds", "1", "--output", str(tmp_path / "out")
    )
    assert outcome.code == 3
    assert "logit_penalty_1e30-s0" in outcome.err
    assert "worker.log" in outcome.err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {run["arm"]: run["status"] for run in summary["runs"]} == {"ce": "done", "logit_penalty_1e30": "failed"}
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.slow
def test_tuning_says_what_it_chose_and_compares_with_that(tmp_path: Path) -> None:
    outcome = run_command(
        "compare", *QUICK, "--losses", "ce,maxsup", "--seeds", "1", "--tune", "alpha", "--output", str(tmp_path / "out")
    )
    assert outcome.code == 0, outcome.err
    [line] = [line for line in outcome.err.splitlines() if line.startswith("  maxsup: alpha=")]
    chosen = line.partition("=")[2]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["losses"][1]["title"] == f"maxsup {chosen}"
    assert len(list((tmp_path / "out" / "tuning" / "runs").iterdir())) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "--losses", "ce,maxsub"), "Did you mean 'maxsup'"),
        (("compare", "--losses", "ce"), "losses must be two or more"),
        (("compare", "--tune", "lr"), "tune must be"),
        (("compare", "--seeds", "0"), "seeds must be at least 1"),
        (("compare", "--data", "cifr10"), "Did you mean 'cifar10'"),
        (("compare", "--launcher", "cloud", "--data", "digits"), "launcher must be"),
        (("compare", "--workers", "0", "--data", "digits"), "--workers must be at least 1; got 0"),
        (("compare", "--data", "digits", "loss.name=ce"), "must not set loss; got 'loss.name=ce'. Use losses"),
        (("compare", "--data", "digits", "seed=3"), "must not set seed; got 'seed=3'. Use seeds"),
        (("compare", "--data", "cifar10", "--data-root", "nothing"), "data set 'cifar10' must be at"),
        (("study", "run", "tab_pre", "--workers", "-1"), "--workers must be at least 1; got -1"),
        (("study", "run", "tab_pree"), "Did you mean 'tab_pre'"),
        (("study", "run", "tab_pre", "--scale", "huge"), "scale must be"),
        (("report", "nowhere"), "nowhere"),
        (("study", "report", "nowhere"), "study.json"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence_and_nothing_is_trained(
    words: tuple[str, ...], message: str, tmp_path: Path, cli: Cli
) -> None:
    outcome = cli(*words)
    assert outcome.code in (2, 4)
    assert_refused(outcome, outcome.code, message)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_counts_one_epoch(cli: Cli) -> None:
    outcome = cli("compare", *QUICK, "--losses", "ce,ls", "--seeds", "1", "--dry-run")
    assert [line.partition("digits, ")[2] for line in outcome.out.splitlines()[:2]] == ["1 epoch", "1 epoch"]


def test_study_ls_names_every_study_and_show_says_what_one_trains() -> None:
    listed = run_command("study", "ls")
    assert [line.split()[0] for line in listed.out.splitlines()] == study_names()
    shown = run_command("study", "show", "tab:pre")
    assert shown.code == 0
    assert "left open, and done here:" in shown.out
    assert "maxsup alpha=0.1" in shown.out
    assert "data: imagenet" in shown.out.splitlines()
