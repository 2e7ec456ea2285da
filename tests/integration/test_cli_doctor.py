"""``maxsup doctor`` as a user starts it: settings, criteria, batches, exit codes, and files that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from maxsup.lab.core.recipes import recipe_path
from tests.integration.command import Cli, assert_refused, run_command


@pytest.fixture
def answer(cli: Cli) -> Cli:
    return partial(cli, "doctor")


def batch(labels: Sequence[int] = (0, 1, 2, 3, 4, 0)) -> dict[str, np.ndarray]:
    logits = np.random.default_rng(0).normal(size=(len(labels), 5)).astype(np.float32)
    return {"logits": logits, "labels": np.array(labels)}


def written(path: Path, values: Any) -> str:
    path.write_text(json.dumps(values))
    return str(path)


def test_the_command_starts_and_prints_findings_that_line_up(tmp_path: Path) -> None:
    settings = written(tmp_path / "args.json", {"loss": "maxsup", "smoothing": 0.1, "mixup": 0.8})
    outcome = run_command("doctor", settings, "--criterion", "CrossEntropyLoss()")
    lines = [line.rstrip() for line in outcome.out.splitlines()]
    assert (outcome.code, outcome.err) == (2, "")
    assert lines == [
        f"{settings} (flags of timm)",
        "  error   double_smoothing",
        "          Targets are smoothed twice: by MaxSup (alpha=0.1) and by label smoothing (smoothing=0.1).",
        "          Fix: Set smoothing to 0: MaxSup replaces label smoothing.",
        "",
        "CrossEntropyLoss() (criterion)",
        "  no problem found",
    ]


def test_json_is_one_object(answer: Cli, tmp_path: Path) -> None:
    settings = written(tmp_path / "args.json", {"loss": "maxsup", "smoothing": 0.1})
    code, out, err = answer(settings, "--json")
    [examined] = json.loads(out)["examined"]
    assert (code, err, examined["source"]) == (2, "", settings)
    assert examined["findings"][0].keys() == {"name", "severity", "sentence", "fix"}


def test_a_recipe_of_the_package_is_healthy(answer: Cli) -> None:
    code, out, err = answer(str(recipe_path("digits_cnn")))
    assert (code, err) == (0, "")
    assert "(a recipe of maxsup)" in out
    assert "no problem found" in out


def test_a_warning_alone_exits_with_0(answer: Cli) -> None:
    words = ["--loss", "maxsup", "--evaluation-criterion", "CrossEntropyLoss(label_smoothing=0.1)"]
    code, out, _ = answer(*words)
    assert code == 0
    assert "smoothed_evaluation" in out


def test_the_loss_may_be_given_by_its_name(answer: Cli) -> None:
    code, out, _ = answer("--loss", "maxsup", "--alpha", "0.3", "--mixup", "Mixup()")
    assert code == 2
    assert "MaxSup in MaxSupLoss (alpha=0.3) and by Mixup" in " ".join(out.split())


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".npy", ".csv"])
def test_a_batch_is_read_from_every_format(answer: Cli, tmp_path: Path, ending: str) -> None:
    arrays, path = batch([0, 1, 2, 3, 4, 255]), tmp_path / f"batch{ending}"
    words = [str(path)]
    if ending == ".npz":
        np.savez(path, logits=arrays["logits"], targets=arrays["labels"])
    elif ending == ".safetensors":
        save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    else:
        save = np.save if ending == ".npy" else lambda file, array: np.savetxt(file, array, delimiter=",")
        save(path, arrays["logits"])
        save(tmp_path / f"y{ending}", arrays["labels"])
        words += ["--labels", str(tmp_path / f"y{ending}")]
    code, out, err = answer(*words)
    assert (code, err) == (4, "")
    assert "1 of 6 targets are 255, which is no class while ignore_index=-100." in " ".join(out.split())
    assert answer(*words, "--ignore-index", "255")[0] == 0
    assert answer(*words, "--criterion", "CrossEntropyLoss(ignore_index=255)")[0] == 0


def test_a_healthy_batch_exits_with_0(answer: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "batch.npz", **batch())
    code, out, err = answer(str(tmp_path / "batch.npz"), "--num-classes", "5", "--loss", "maxsup")
    assert (code, err) == (0, "")
    assert out.count("no problem found") == 2


def test_probabilities_are_reported_and_not_refused(answer: Cli, tmp_path: Path) -> None:
    arrays = batch()
    arrays["logits"] = np.exp(arrays["logits"]) / np.exp(arrays["logits"]).sum(axis=1, keepdims=True)
    np.savez(tmp_path / "batch.npz", **arrays)
    code, out, _ = answer(str(tmp_path / "batch.npz"))
    assert code == 4
    assert "softmax_before_loss" in out


def test_micro_batches_are_compared(answer: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **batch())
    np.savez(tmp_path / "b.npz", **batch([0, 1, -100, -100, -100, -100]))
    files = [str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]
    assert "micro-batches" not in answer(*files)[1]
    code, out, _ = answer(*files, "--accumulated")
    assert code == 0
    assert "accumulation_denominator" in out
    assert "num_items=8" in out


def test_micro_batches_are_counted_as_the_criterion_counts(answer: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **batch())
    np.savez(tmp_path / "b.npz", **batch([0, 1, 255, 255, 255, 255]))
    files = [str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]
    _, out, _ = answer(*files, "--accumulated", "--criterion", "MaxSupLoss(ignore_index=255)")
    assert "num_items=8" in out


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("a.yaml", "a: [", 2, "must be valid YAML"),
        ("a.yaml", "- 1\n", 2, "must hold key: value lines"),
        ("a.json", "{", 2, "must be valid JSON"),
        ("a.json", "[1]", 2, "must hold an object of settings"),
        ("a.npz", "no archive", 4, "must be in a readable .npz file"),
        ("a.txt", "x", 4, "file must be of kind"),
        ("missing.yaml", None, 2, "FILE must be a file that is there"),
        ("a.py", "def f(:", 2, "script must be valid Python; got an error in line 1"),
        ("missing.npz", None, 4, "logits must be a file that is there"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    answer: Cli, tmp_path: Path, name: str, content: str | None, code: int, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    assert_refused(answer(str(tmp_path / name)), code, words)


def test_a_script_is_read_and_not_run(answer: Cli, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    imports = "from maxsup import MaxSupLoss; from timm.data import Mixup"
    script.write_text(f"{imports}\nraise SystemExit(9)\nc = MaxSupLoss(0.1)\nmixup_fn = Mixup(mixup_alpha=0.8)\n")
    code, out, _ = answer(str(script))
    assert code == 2
    assert "a script, read but not run" in out
    assert "Line 3: Targets are smoothed twice" in " ".join(out.split())


def test_logits_without_targets_are_one_sentence(answer: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "l.npy", batch()["logits"])
    assert_refused(answer(str(tmp_path / "l.npy")), 4, "targets must be given with the logits")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "doctor needs a file, --criterion, --loss or --device."),
        (["--mixup", "Mixup()"], "doctor needs a file"),
        (["--loss", "ce", "--alpha", "0.1"], "--alpha must come with --loss ls or maxsup"),
        (["--alpha", "0.1", "--criterion", "MaxSupLoss()"], "--alpha must come with --loss"),
        (["--loss", "ls", "--criterion", "MaxSupLoss()"], "criterion must be given once"),
        (["--loss", "maxsub"], "Did you mean 'maxsup'"),
        (["--loss", "maxsup", "--ignore-index", "255"], "--ignore-index must come with a file of arrays"),
        (["--loss", "maxsup", "--labels", "y.npy"], "--labels must come with one file of logits"),
        (["--loss", "maxsup", "--accumulated"], "--accumulated must come with two files of arrays"),
        (["--criterion", "CrossEntropyLoss(label_smoothing=exit(3))"], "criterion must be a name with literal options"),
    ],
)
def test_words_that_do_not_fit_together_are_one_sentence(answer: Cli, words: list[str], sentence: str) -> None:
    assert_refused(answer(*words), 2, sentence)


def test_a_device_gets_the_form_of_its_losses_and_why(answer: Cli) -> None:
    code, out, _ = answer("--device", "mps", "--json")
    (finding,) = json.loads(out)["examined"][0]["findings"]
    assert (code, finding["severity"]) == (0, "note")
    assert "on mps are computed in the form 'eager': Triton has no back end for mps." in finding["sentence"]


def test_the_help_names_the_exit_codes(answer: Cli) -> None:
    code, out, _ = answer("--help")
    assert code == 0
    assert "2 for an error in a script, in settings or in a criterion, 4 for one in a batch" in " ".join(out.split())
