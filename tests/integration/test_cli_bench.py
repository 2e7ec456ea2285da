"""`maxsup bench` as a user meets it, and `python -m benchmarks` as make runs it."""

import json
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from maxsup.lab.bench import timing
from maxsup.lab.cli import main
from maxsup.lab.cli.verbs import bench
from maxsup.lab.core import repro
from maxsup.losses.computing.forms import default_form
from tests.integration.command import Cli, assert_refused, run_command, run_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("bench", "--classes", "50", "--batch", "8", "--rounds", "2")
LOSSES = ["torch cross-entropy", "torch label smoothing", "naive MaxSup", "maxsup"]


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are not looked at, so they need not be good."""
    monkeypatch.setattr(timing, "interleaved_times", partial(timing.interleaved_times, min_seconds=0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_json_has_time_and_memory_of_every_loss(cli: Cli, dtype: str):
    code, out, _ = cli(*SMALL, "--dtype", dtype, "--json")
    result = json.loads(out)
    assert code == 0
    assert [row["name"] for row in result["losses"]] == LOSSES
    settings = {"device": "cpu", "batch": 8, "classes": 50, "dtype": dtype, "rounds": 2}
    assert settings.items() <= result.items()
    assert result["losses"][1]["time_ratio"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert all(row["milliseconds"] > 0 and row["peak_memory_ratio"] >= 1 for row in result["losses"])


def test_the_table_fits_80_columns_and_nothing_else_is_printed(capfd: pytest.CaptureFixture[str]):
    # capfd: the profiler that counts memory writes from C++.
    with pytest.raises(SystemExit) as left:
        main(SMALL)
    printed = capfd.readouterr()
    lines = printed.out.splitlines()
    assert (left.value.code, printed.err) == (0, "")
    assert max(len(line) for line in lines[1:]) <= 80
    assert lines[3] == "maxsup in the form 'fused': blocks of logits fit the cache of a CPU"
    assert [line.split("  ")[0] for line in lines[6:10]] == LOSSES


class Clock:
    """An event of a GPU, with the clock of the host."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: "Clock") -> float:
        return 1000 * (end.seconds - self.seconds)


def test_a_gpu_is_measured_by_its_own_clock_and_memory(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    held = iter(range(0, 10**9, 10**6))
    monkeypatch.setitem(bench.DEVICES, "cuda", "cpu")
    default_form.cache_clear()
    for name, stand_in in {
        "is_available": lambda: True,
        "get_device_capability": lambda: (9, 0),
        "synchronize": lambda: None,
        "Event": Clock,
        "memory_allocated": lambda: next(held),
        "max_memory_allocated": lambda: next(held),
        "reset_peak_memory_stats": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(repro, "environment", lambda: {"device": "a GPU", "packages": {"torch": "2"}})
    try:
        code, out, _ = cli(*SMALL, "--device", "cuda", "--json")
    finally:
        default_form.cache_clear()
    result = json.loads(out)
    assert (code, result["hardware"], result["form"]["name"]) == (0, "a GPU", "triton")
    assert [row["name"] for row in result["losses"]] == LOSSES
    assert all(row["milliseconds"] > 0 for row in result["losses"])
    assert {row["peak_memory_ratio"] for row in result["losses"]} == {10**6 / (8 * 50 * 4)}


def test_the_number_of_threads_is_left_as_it_was(cli: Cli):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert cli(*SMALL)[0] == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--device", "gpu"), "device must be one of 'cpu', 'cuda'; got 'gpu'. "),
        (("--dtype", "float16"), "dtype must be one of 'float32', 'bfloat16'; got 'float16'. Did you mean"),
    ],
)
def test_an_unknown_word_is_one_sentence(cli: Cli, words: tuple[str, ...], sentence: str):
    assert_refused(cli("bench", *words), 2, f"maxsup: {sentence}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_sentence(cli: Cli):
    sentence = "maxsup: device must be one that torch can use; got 'cuda' without a GPU. Use --device cpu.\n"
    assert cli("bench", "--device", "cuda") == (2, "", sentence)


@pytest.mark.parametrize(
    "words",
    [("--classes", "1"), ("--batch", "0"), ("--rounds", "0"), ("--classes", str(10**11)), ("--batch", str(10**30))],
)
def test_sizes_that_make_no_sense_are_refused(cli: Cli, words: tuple[str, ...]):
    assert_refused(cli("bench", *words), 2, "Invalid value")


def test_logits_that_fit_no_memory_are_one_sentence(cli: Cli):
    outcome = cli("bench", "--classes", str(10**9), "--batch", str(10**6))
    assert_refused(outcome, 2, "there is too little memory for 4000000000000000 bytes more.")


@pytest.mark.slow
def test_compile_adds_a_compiled_line_for_every_loss(cli: Cli):
    torch.compiler.reset()
    code, out, _ = cli(*SMALL, "--compile", "--json")
    assert code == 0
    names = [row["name"] for row in json.loads(out)["losses"]]
    assert names == [*LOSSES, *(f"{name}, compiled" for name in LOSSES)]


@pytest.mark.slow
def test_without_a_compiler_one_sentence_says_so(tmp_path: Path):
    outcome = run_command(*SMALL, "--compile", CXX="/none", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert (outcome.code, outcome.out) == (2, "")
    assert "maxsup: --compile must find a compiler; got " in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.slow
def test_the_quick_benchmarks_run_and_write_where_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    done = run_python("-m", "benchmarks", "--quick", "--rounds", "1", "--output", str(tmp_path))
    assert done.code == 0, done.err
    parts = (
        "catalogue",
        "device",
        "grid",
        "head",
        "input",
        "launch",
        "lm_head",
        "losses",
        "metrics",
        "probe",
        "torch_head",
        "train_loop",
        "z_loss",
    )
    assert {path.name for path in tmp_path.iterdir()} == {"losses.png", "grid.txt", *(f"{part}.json" for part in parts)}
    assert done.out.count(" met\n") >= 2
    for name in parts:
        result = json.loads((tmp_path / f"{name}.json").read_text())
        assert result["is_quick"]
        assert result["environment"]["cpu"]
        assert result["goals"] or name == "catalogue"  # it describes, and asks for nothing
