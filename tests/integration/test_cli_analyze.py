"""`maxsup analyze` as a user meets it."""

import json
import shutil
from pathlib import Path

import pytest

from maxsup.lab.analysis import ANALYSES
from tests.integration.command import Cli
from tests.unit.lab.analysis.made import make_run

pytestmark = pytest.mark.slow

CHEAP = ["corruption.num_images=20", "collapse.num_resamples=20", "calibration.num_resamples=20"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [make_run(folder / loss, loss, f"seed={seed}") for seed, loss in enumerate(("ce", "ls", "maxsup"))]


@pytest.fixture
def cli(cli: Cli, made: list[Path], tmp_path: Path) -> Cli:
    """Runs one command in a folder that holds the runs ce, ls and maxsup."""
    for path in made:
        shutil.copytree(path, tmp_path / path.name, symlinks=True)
    return cli


def test_tables_line_up_and_say_where_everything_went(cli: Cli) -> None:
    outcome = cli("analyze", "ce", "ls", "maxsup", "--what", "logits,repair")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert lines[0] == "logits: digits, test split, last weights"
    assert lines[1].split() == ["CE", "LS", "MaxSup", "better"]
    rows = lines[2 : lines.index("")]
    width = lines[1].index("MaxSup") + len("MaxSup")
    assert all(row[:width].rstrip()[-1].isdigit() for row in rows)
    assert "repair: digits, test split, last weights" in lines
    assert lines[-2:] == ["figures: figures", "numbers: analysis/ in each run directory"]
    assert Path("figures/repair-test.svg").is_file()
    assert json.loads(Path("ls/analysis/logits-test.json").read_text())["facts"]["loss"] == "ls"


def test_one_run_shows_intervals(cli: Cli) -> None:
    outcome = cli("analyze", "maxsup", "--what", "calibration", "--split", "val", "calibration.num_resamples=20")
    assert outcome.code == 0
    assert outcome.out.splitlines()[1].split() == ["MaxSup", "95", "%", "interval", "better"]
    [line] = [line for line in outcome.out.splitlines() if line.startswith("accuracy ")]
    _, value, low, _, high, better = line.split()
    assert float(low) <= float(value) <= float(high)
    assert better == "higher"
    # Other options have figures of their own, as they have numbers of their own.
    assert Path("maxsup/figures/reliability-val-num_resamples=20.png").is_file()


def test_without_what_everything_that_applies_is_done_and_the_rest_is_said(cli: Cli) -> None:
    outcome = cli("analyze", "ce", "ls", "maxsup", "--output", "pictures", *CHEAP)
    assert outcome.code == 0
    applied = set(ANALYSES) - {"distillation", "longtail", "segmentation"}
    assert len(applied) == 10
    for loss in ("ce", "ls", "maxsup"):
        stems = {path.name.partition("-")[0] for path in Path(loss, "analysis").iterdir()}
        assert stems == applied
    told = [line for line in outcome.err.splitlines() if line.startswith("maxsup: ")]
    assert told == [
        "maxsup: longtail does not apply to ce, ls, maxsup: all classes have about equally many training images (139 "
        "to 146).",
        "maxsup: segmentation does not apply to ce, ls, maxsup: its data has no masks; give "
        "segmentation.recipe=ade20k_upernet_deit_small or another to fine-tune it.",
    ]
    assert len(list(Path("pictures").glob("*.png"))) == len(list(Path("pictures").glob("*.svg"))) == 13
    # One line a stage, since this is not a terminal.
    assert "CE, LS, MaxSup: corrupted images" in outcome.err.splitlines()


def test_json_holds_numbers_files_and_what_was_left_out(cli: Cli) -> None:
    outcome = cli("analyze", "ce", "ls", "--what", "longtail,logits", "--json")
    found = json.loads(outcome.out)
    assert outcome.code == 0
    assert set(found) == {"results", "skipped", "files"}
    assert set(found["results"]["logits"]) == {"CE", "LS"}
    assert found["results"]["logits"]["CE"]["numbers"]["confidence_wrong"]["direction"] == "none"
    assert len(found["skipped"]) == 1
    assert all(Path(file).is_file() for file in found["files"])


def test_options_of_an_analysis_and_of_the_recipe_are_words(cli: Cli) -> None:
    words = ("projection.classes=[1, 7, 8]", "projection.num_samples=9", "data.tolerance=0.1")
    outcome = cli("analyze", "ce", *words, "--what", "projection", "--json")
    [result] = json.loads(outcome.out)["results"]["projection"].values()
    assert result["options"] == {"classes": ["1", "7", "8"], "num_samples": 9}


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["ce", "--what", "colapse"], 2, "got 'colapse'. Did you mean 'collapse'?"),
        (["ce", "--what", "logits", "--split", "tests"], 2, "split must be one of 'train', 'val', 'test'"),
        (["ce", "--what", "logits", "--weights", "first"], 2, "weights must be one of 'last', 'best'; got 'first'"),
        (["ce", "--what", "logits", "prob.target=digits"], 2, "got 'prob.target'. Did you mean 'probe'?"),
        (["ce", "--what", "probe", "probe.tarjet=digits"], 2, "got 'tarjet'. Did you mean 'target'?"),
        (["ce", "--what", "gradcam", "gradcam.num_images=-1"], 2, "gradcam.num_images must be a whole number of at"),
        (["ce", "--what", "logits", "logits.near_zero=-1"], 2, "logits.near_zero must be a number above 0; got -1"),
        (["ce", "--what", "logits", "epochs=3"], 2, "key must be one that evaluation looks at; got 'epochs'."),
        (
            ["ls", "--what", "longtail"],
            2,
            "longtail does not apply to ls: all classes have about",
        ),
        (["probe.target=digits"], 2, "analyze needs a run."),
        (["elsewhere", "--what", "logits"], 2, "got 'elsewhere', which has no config.yaml"),
        (["ce", "--what", "probe", "probe.target=cifar100"], 4, "data set 'cifar100' must be at"),
        (["ce", "--what", "logits", "data.name=fashion_mnist", "--data-root", "no"], 4, "'fashion_mnist' must be at"),
        (["ce", "--what", "projection", "projection.classes=[1, 2, cat]"], 2, "class must be one of the data"),
    ],
)
def test_a_mistake_is_one_sentence(cli: Cli, words: list[str], code: int, sentence: str) -> None:
    outcome = cli("analyze", *words)
    assert outcome.code == code
    assert outcome.out == ""
    last = outcome.err.splitlines()[-1]
    assert last.startswith("maxsup: ")
    assert sentence in last
    assert not Path("ce/analysis").exists()


def test_an_unfinished_run_is_one_sentence(cli: Cli) -> None:
    shutil.rmtree("ce/checkpoints")
    outcome = cli("analyze", "ce", "--what", "logits")
    assert outcome.code == 2
    assert "run 'ce' has no checkpoint 'last'" in outcome.err


def test_analyses_are_listed(cli: Cli) -> None:
    rows = json.loads(cli("ls", "analyses", "--json").out)
    assert [row["name"] for row in rows] == ANALYSES.names()
    assert "tab:extended_feature" in cli("ls", "analyses").out


def test_trained_runs_are_analysed_from_training_to_pictures(cli: Cli) -> None:
    quick = ["digits_cnn", "epochs=3", "batch_size=128", "model.options.widths=[8, 16]"]
    for loss in ("ce", "ls", "maxsup"):
        assert cli("train", *quick, f"loss.name={loss}", "--output", f"trained_{loss}").code == 0
    names = [f"trained_{loss}" for loss in ("ce", "ls", "maxsup")]
    outcome = cli("analyze", *names, "--json", "--weights", "best", *CHEAP)
    found = json.loads(outcome.out)["results"]
    assert outcome.code == 0
    assert set(found) == set(ANALYSES) - {"distillation", "longtail", "segmentation"}
    assert all(set(results) == {"CE", "LS", "MaxSup"} for results in found.values())
    numbers = found["calibration"]["MaxSup"]["numbers"]
    summary = json.loads(Path("trained_maxsup/summary.json").read_text())["test"]["best"]
    for name in ("accuracy", "nll", "ece"):
        # The same images, weights and arithmetic as at the end of training.
        assert numbers[name]["value"] == pytest.approx(summary[name], abs=1e-6)
