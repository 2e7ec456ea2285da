"""`maxsup train` and its relatives as a user meets them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from maxsup.lab.cli import main
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.recipes import describe_recipes, list_recipes
from maxsup.lab.data import DATASETS
from maxsup.lab.models import MODELS
from maxsup.lab.segmentation import SEGMENTERS
from maxsup.losses import LOSSES
from tests.integration.command import Cli, assert_refused
from tests.unit.lab.data.made import write_npz

QUICK = ["digits_cnn", "epochs=2", "batch_size=256", "model.options.widths=[8, 16]"]
KEYS = {"split", "n", "accuracy", "accuracy_top5", "nll", "ece", "confidence_correct", "confidence_wrong"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "digits"
    with pytest.raises(SystemExit):
        main(["train", *QUICK, "--output", str(run), "--json"])
    return run


@pytest.mark.slow
def test_training_prints_one_line_an_epoch_and_the_result(cli: Cli) -> None:
    outcome = cli("train", *QUICK)
    lines = outcome.err.splitlines()
    assert outcome.code == 0
    assert lines[0].split() == ["epoch", "loss", "acc", "val", "acc", "val", "nll", "alpha", "lr", "img/s", "seconds"]
    assert [line.split()[0] for line in lines[1:]] == ["1/2", "2/2"]
    assert len({len(line) for line in lines}) == 1, "columns line up"
    assert len(lines[0]) <= 80
    assert "images/s; " in outcome.out
    assert "outside forward/backward" in outcome.out
    assert "test (last weights, n=359): accuracy" in outcome.out
    [run] = Path("runs").iterdir()
    assert outcome.out.splitlines()[-2] == f"run directory: {run}"
    assert outcome.out.splitlines()[-1].startswith(f"next: maxsup diagnose {run}")
    assert run.name.startswith("digits_cnn-maxsup-s0-")


@pytest.mark.slow
def test_json_is_one_object_with_the_numbers_of_both_splits(cli: Cli) -> None:
    outcome = cli("train", *QUICK, "--output", "here", "--json")
    summary = json.loads(outcome.out)
    assert outcome.code == 0
    assert set(summary["test"]["last"]) >= KEYS
    assert summary["val"]["best"]["split"] == "val"
    assert summary["run"] == "here"
    assert read_json(Path("here/summary.json")) == summary


def test_the_run_directory_holds_what_is_promised(finished: Path) -> None:
    names = {path.relative_to(finished).as_posix() for path in finished.rglob("*")}
    assert names >= {"config.yaml", "env.json", "metrics.jsonl", "timing.jsonl", "summary.json"}
    for which in ("last", "best"):
        assert (finished / "checkpoints" / which / "model.safetensors").is_file()
    assert not [name for name in names if name.endswith((".pt", ".pth", ".pkl", ".bin", ".tmp"))]
    environment = json.loads((finished / "env.json").read_text())
    assert environment["packages"]["torch"]
    assert environment["threads"] >= 1


def test_the_same_command_after_the_end_trains_nothing(cli: Cli, finished: Path) -> None:
    before = (finished / "metrics.jsonl").read_bytes()
    outcome = cli("train", *QUICK, "--output", str(finished), "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out)["steps"] == 12
    assert (finished / "metrics.jsonl").read_bytes() == before


def test_resume_never_refuses_a_directory_with_a_run(cli: Cli, finished: Path) -> None:
    outcome = cli("train", *QUICK, "--output", str(finished), "--resume", "never")
    assert outcome.code == 2
    assert outcome.err.startswith("maxsup: run directory must be new with resume=never")


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_eval_says_which_split_its_numbers_are_from(cli: Cli, finished: Path, split: str) -> None:
    outcome = cli("eval", str(finished), "--split", split, "--json")
    result: dict[str, Any] = json.loads(outcome.out)
    assert outcome.code == 0
    assert set(result) >= KEYS
    assert result["split"] == split
    assert result["n"] == {"train": 1295, "val": 143, "test": 359}[split]
    assert all(0 <= result[key] <= 1 for key in KEYS - {"split", "n", "nll"})
    if split == "test":
        summary = json.loads((finished / "summary.json").read_text())
        assert {key: result[key] for key in KEYS} == {key: summary["test"]["last"][key] for key in KEYS}


def test_eval_for_people_is_a_few_lines(cli: Cli, finished: Path) -> None:
    outcome = cli("eval", str(finished), "--weights", "best")
    assert outcome.code == 0
    assert "digits, test split, 359 images, best weights" in outcome.out
    assert "where wrong" in outcome.out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["train", "digits_cn"], 2, "Did you mean 'digits_cnn'?"),
        (["train", "digits_cnn", "optimiser.lr=1"], 2, "got 'optimiser'. Did you mean 'optimizer'?"),
        (["train", "digits_cnn", "optimizer.lr"], 2, "override must be key.sub=value; got 'optimizer.lr'."),
        (["train", "digits_cnn", "epochs=many"], 2, "epochs in recipe digits_cnn must be "),
        (["train", "digits_cnn", "loss.name=maxsub"], 2, "Did you mean 'maxsup'?"),
        (["train", "digits_cnn", "loss.alpah=1"], 2, "Did you mean 'alpha'?"),
        (["train", "digits_cnn", "--resume", "maybe"], 2, "resume must be 'auto' or 'never'; got 'maybe'."),
        (["train", "digits_cnn", "optimizer.lr=1e300"], 2, "optimizer.lr in recipe digits_cnn must be at most 1e+30;"),
        (["train", "cifar10_quick", "--data-root", "nowhere"], 4, "cifar10.npz"),
        (["train", "cifar10_quick", "--data-root", "nowhere"], 4, "there. Add data.download=true to fetch it, or say"),
        (["train", "digits_cnn", "model.pretrained=nofile"], 5, "pretrained must be a file that is there"),
        (["train", "digits_cnn", "model.name=zzzzzz"], 2, "See `maxsup ls models`"),
        (["train"], 2, "Missing argument 'RECIPE'. See `maxsup train --help`."),
        (["train", "folder_finetune", "data.name=folder:missing", "model.pretrained=false"], 4, "missing"),
        (["train", "folder_finetune", "--data", "folder:missing", "model.pretrained=false"], 4, "missing"),
        (["train", "digits_cnn", "--model", "smal_cnn"], 2, "Did you mean 'small_cnn'?"),
        (["train", "digits_cnn", "--output", "/dev/null/run"], 5, "Choose another output."),
        (["validate", "nothing.yaml"], 2, "recipe must be a file that exists; got 'nothing.yaml'."),
        (["validate", "digits_cnn", "model.name=smal_cnn"], 2, "Did you mean 'small_cnn'?"),
        (["validate", "digits_cnn", "schedule.warmup_epochs=99"], 2, "warmup_epochs must be at most epochs=20"),
        (["validate", "cifar10_lt_resnet32", "data.options.imbalanc=3"], 2, "Did you mean 'imbalance'?"),
        (["eval", "nowhere"], 2, "run must be a directory that maxsup train made; got 'nowhere'"),
        (["cp", "digits_cnn", "recipe.txt"], 2, "destination must be a .yaml file"),
        (["cp", "digits_cnn", "/dev/null/my.yaml"], 5, "/dev/null must be a folder that can be made; got a file of "),
    ],
)
def test_a_mistake_is_one_sentence_and_its_exit_code(cli: Cli, words: list[str], code: int, sentence: str) -> None:
    assert_refused(cli(*words), code, sentence)
    assert not Path("runs").exists()


def test_an_unfit_run_is_refused_by_eval(cli: Cli, finished: Path) -> None:
    outcome = cli("eval", str(finished), "data.name=synthetic")
    assert outcome.code == 4
    assert "must have the 10 classes and 1 channels that the model was trained on; got 10 and 3" in outcome.err


@pytest.mark.parametrize("word", ["loss.name=ce", "epochs=3"])
def test_eval_refuses_a_key_that_would_change_nothing(cli: Cli, finished: Path, word: str) -> None:
    outcome = cli("eval", str(finished), word)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"key must be one that evaluation looks at; got {word.partition('=')[0]!r}." in outcome.err


def test_eval_heeds_the_number_of_threads(cli: Cli, finished: Path) -> None:
    before = torch.get_num_threads()
    try:
        assert cli("eval", str(finished), "threads=2", "batch_size=50").code == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_cp_makes_folders_and_names_the_file_like_the_recipe(cli: Cli) -> None:
    assert cli("cp", "digits_cnn", "new/folder/my.yaml").code == 0
    assert cli("cp", "digits_cnn", ".").code == 0
    assert cli("cp", "new/folder/my.yaml", ".").code == 0
    assert cli("cp", "digits_cnn", ".").code == 2
    assert Path("digits_cnn.yaml").read_bytes() == Path("my.yaml").read_bytes()
    assert Path("digits_cnn.yaml").read_bytes() == Path("new/folder/my.yaml").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["cifar10_quick"], 0, "data: not found at data/cifar10.npz or data/cifar-10-batches-py; say with --data-root"),
        (["cifar10_quick", "data.download=true"], 0, "training will fetch it."),
        (["digits_cnn", "data.name=folder:/nonexistent"], 4, "data must be at /nonexistent; got nothing there"),
        (["cifar10_quick", "--data-root", "gone"], 4, "must be in the data root that was given; got nothing at "),
        (["cifar10_quick", "data.root=gone"], 4, "got nothing at gone/cifar10.npz or gone/cifar-10-batches-py."),
        (["cifar10_quick", "data.root=gone", "data.download=true"], 0, "training will fetch it."),
    ],
)
def test_validate_says_where_data_is_missing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, line: str
) -> None:
    monkeypatch.delenv("MAXSUP_DATA", raising=False)
    outcome = cli("validate", *words)
    assert outcome.code == code
    *first, last = (outcome.out + outcome.err).splitlines()
    assert [text.partition(": ")[0] for text in first] == ([f"{words[0]} is valid"] if code == 0 else [])
    assert line in last
    facts = json.loads(cli("validate", *words, "--json").out)
    assert facts["data_missing_at"]
    assert facts["valid"] == (code == 0)


def test_validate_opens_data_that_is_there(cli: Cli) -> None:
    outcome = cli("validate", "digits_cnn")
    assert outcome.code == 0
    assert "test: 359 images, 3" in outcome.out
    assert "one batch through model, loss and optimiser: loss " in outcome.out
    Path("there/cifar-10-batches-py").mkdir(parents=True)
    empty = cli("validate", "cifar10_quick", "--data-root", "there")
    assert (empty.code, empty.out) == (4, "")
    assert "data set 'cifar10' must be at" in empty.err


@pytest.mark.slow
def test_a_copied_recipe_is_valid_and_trains(cli: Cli) -> None:
    assert cli("cp", "digits_cnn", "my.yaml").code == 0
    assert cli("cp", "digits_cnn", "my.yaml").code == 2
    assert json.loads(cli("cp", "digits_cnn", "my.yaml", "--force", "--json").out)["path"] == "my.yaml"
    assert "# Chosen here" in Path("my.yaml").read_text()
    assert "my.yaml is valid" in cli("validate", "my.yaml").out
    validated = json.loads(cli("validate", "my.yaml", "epochs=1", "--json").out)
    assert (validated["valid"], validated["recipe"]["epochs"]) == (True, 1)
    assert cli("train", "my.yaml", *QUICK[1:], "--output", "run").code == 0


@pytest.mark.slow
def test_long_tailed_data_gets_an_accuracy_for_each_group_that_exists(cli: Cli, tmp_path: Path) -> None:
    write_npz(tmp_path / "cifar10.npz", classes=10, train=150, test=2)
    words = ["epochs=1", "model.options.num_branches=1", "model.name=small_cnn", "batch_size=64"]
    assert cli("train", "cifar10_lt_resnet32", *words, "--data-root", str(tmp_path), "--output", "run").code == 0
    result = json.loads(cli("eval", "run", "--json").out)
    # 150 97 62 40 26 17 11 7 4 3 training images: one class above 100, five below 20.
    assert set(result["groups"]) == {"many", "medium", "low"}
    assert "many shot" in cli("eval", "run").out
    words = ["data.options.imbalance=1.2"]
    assert set(json.loads(cli("eval", "run", *words, "--json").out).get("groups", {})) == set()


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("recipes", [row["name"] for row in describe_recipes()]),
        ("models", [*MODELS, *SEGMENTERS]),
        ("data", list(DATASETS)),
        ("losses", list(LOSSES)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_can_be_listed(cli: Cli, kind: str, names: list[str]) -> None:
    rows = json.loads(cli("ls", kind, "--json").out)
    assert [row["name"].partition(":")[0] for row in rows] == names
    outcome = cli("ls", kind)
    assert outcome.code == 0
    assert all(row["name"].partition(":")[0] in outcome.out for row in rows)


def test_listing_recipes_loads_nothing_that_takes_long() -> None:
    script = (
        "import sys\nfrom maxsup.lab.cli import main\n"
        "try: main(['ls', 'recipes'])\n"
        "finally: print({'torch', 'numpy', 'yaml', 'rich'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"
    assert done.stdout.count("maxsup train") == len(list_recipes())


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own that would take minutes, after its first steps."""
    script = "from maxsup.lab.cli import main; main()"
    words = ["train", "digits_cnn", "epochs=2000", "--output", str(tmp_path / "run")]
    process = subprocess.Popen([sys.executable, "-c", script, *words], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert process.stderr.readline().split()[0] == "epoch"
        assert process.stderr.readline().split()[0] == "1/2000"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_leaves_minutes_before_the_end(
    long_run: subprocess.Popen[str], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    long_run.send_signal(number)
    assert long_run.wait(timeout=60) == code
    assert long_run.stderr is not None
    complaint = long_run.stderr.read().splitlines()[-1]
    state = json.loads((tmp_path / "run/checkpoints/last/state.json").read_text())
    assert complaint.startswith(f"maxsup: stopped by {number.name} after {state['global_step']} steps")


@pytest.mark.slow
def test_a_second_process_in_the_directory_is_refused(
    long_run: subprocess.Popen[str], cli: Cli, tmp_path: Path
) -> None:
    outcome = cli("train", "digits_cnn", "epochs=2000", "--output", str(tmp_path / "run"))
    assert outcome.code == 2
    assert f"in which process {long_run.pid} on {os.uname().nodename} works" in outcome.err
