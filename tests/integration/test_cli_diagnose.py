"""``maxsup diagnose`` as a user starts it: arrays, a run, a checkpoint, and everything that can be wrong with them."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from maxsup.cli import main
from maxsup.diagnosis.smoothing import estimate_alpha
from maxsup.metrics import negative_log_likelihood
from maxsup.models import create_model
from tests.integration.command import run_command
from tests.integration.runs import image_folder
from tests.unit.analysis.made import make_run

pytestmark = pytest.mark.slow

TOPICS = ["Label smoothing", "Confidence on errors", "Calibration", "Selective classification"]


def arrays(num_samples: int = 1200, num_classes: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits at the plateau of smoothing 0.1 with errors among them, labels, features."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_samples) % num_classes
    taken = torch.where(torch.arange(num_samples) % 47 == 0, (labels + 1) % num_classes, labels)
    logits = 4.5 * F.one_hot(taken) + 0.4 * torch.randn(num_samples, num_classes, generator=generator)
    features = torch.randn(num_classes, 8, generator=generator)[labels]
    features = features + 0.3 * torch.randn(num_samples, 8, generator=generator)
    return logits.numpy(), labels.numpy(), features.numpy()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Words that name three files of arrays and a page beside them."""
    words = []
    for name, array in zip(("logits", "labels", "features"), arrays(), strict=True):
        np.save(tmp_path / f"{name}.npy", array)
        words += [f"--{name}", str(tmp_path / f"{name}.npy")]
    return [*words, "--output", str(tmp_path / "page.html")]


def answered(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code and what was printed, without another process."""
    with pytest.raises(SystemExit) as left:
        main(["diagnose", *words])
    printed = capsys.readouterr()
    return int(left.value.code or 0), printed.out, printed.err


def test_arrays_give_a_summary_and_a_page(files: list[str], tmp_path: Path) -> None:
    outcome = run_command("diagnose", *files)
    assert (outcome.code, outcome.err) == (0, "")
    for topic in [*TOPICS, "Collapse", "Probe"]:
        assert topic in outcome.out
    assert "Trained with label smoothing or MaxSup of strength 0." in outcome.out
    assert outcome.out.rstrip().endswith(f"page: {tmp_path / 'page.html'}")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_json_is_one_object_with_every_finding(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answered([*files, "--json"], capsys)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [finding["topic"] for finding in found["findings"]] == [*TOPICS, "Collapse", "Probe"]
    assert all({"level", "sentence", "value", "threshold", "advice"} <= finding.keys() for finding in found["findings"])
    assert found["numbers"]["alpha"]["value"] == pytest.approx(0.1, abs=0.05)
    assert found["protocol"] == 1


def test_the_same_arrays_give_the_same_page(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = []
    for _ in range(2):
        assert answered(files, capsys)[0] == 0
        pages.append((tmp_path / "page.html").read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".csv"])
def test_other_formats_give_the_numbers_of_the_arrays(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    logits, labels, _ = arrays()
    path = tmp_path / f"all{ending}"
    words = ["--logits", str(path), "--output", files[-1], "--json"]
    if ending == ".npz":
        np.savez(path, logits=logits, labels=labels)
    elif ending == ".safetensors":
        save_file({"logits": torch.from_numpy(logits), "labels": torch.from_numpy(labels)}, path)
    else:
        np.savetxt(path, logits, delimiter=",", fmt="%.9g")
        words += ["--labels", files[3]]
    found = json.loads(answered(words, capsys)[1])["numbers"]
    tensors = torch.from_numpy(logits), torch.from_numpy(labels)
    assert found["nll"]["value"] == pytest.approx(negative_log_likelihood(*tensors), abs=1e-9)
    assert found["alpha_by_scale"]["value"] == pytest.approx(estimate_alpha(*tensors).by_scale, abs=1e-9)


class Trap:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def object_array(trap: Path) -> bytes:
    array = np.empty(1, dtype=object)
    array[0] = Trap(trap)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def bad_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Logits and labels by what is wrong with them."""
    logits, labels, _ = arrays(200, 4)
    trap = folder / "trap"

    def saved(name: str, array: Any) -> Path:
        path = folder / f"{name}.npy"
        np.save(path, array)
        return path

    good, good_labels = saved("good", logits), saved("good_labels", labels)
    undefined = logits.copy()
    undefined[3, 1] = np.nan
    (folder / "pickled.npy").write_bytes(object_array(trap))
    (folder / "pickle.npy").write_bytes(pickle.dumps(Trap(trap)))
    with zipfile.ZipFile(folder / "pickled.npz", "w") as archive:
        archive.writestr("logits.npy", object_array(trap))
    (folder / "short.npy").write_bytes(good.read_bytes()[:500])
    (folder / "words.csv").write_text("0.1,0.2\nhello,world\n")
    (folder / "empty.npy").touch()
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 100)})
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", stream.getvalue() + bytes(10**6))
    return {
        "nan": (saved("nan", undefined), good_labels),
        "lengths": (good, saved("short_labels", labels[:-5])),
        "probabilities": (saved("probabilities", torch.from_numpy(logits).softmax(1).numpy()), good_labels),
        "one class": (good, saved("same", np.zeros(200, dtype=int))),
        "range": (good, saved("beyond", labels + 1)),
        "not whole": (good, saved("half", labels + 0.5)),
        "object npy": (folder / "pickled.npy", good_labels),
        "bare pickle": (folder / "pickle.npy", good_labels),
        "object npz": (folder / "pickled.npz", good_labels),
        "pickled labels": (good, folder / "pickled.npy"),
        "truncated": (folder / "short.npy", good_labels),
        "words": (folder / "words.csv", good_labels),
        "empty": (folder / "empty.npy", good_labels),
        "bomb": (folder / "bomb.npz", good_labels),
        "missing": (folder / "nowhere.npy", good_labels),
    }


def test_bad_arrays_give_one_sentence_and_exit_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = bad_files(tmp_path)
    for what, (logits, labels) in bad.items():
        words = ["--logits", str(logits), "--labels", str(labels), "--output", str(tmp_path / "page.html")]
        code, out, err = answered(words, capsys)
        assert code == 4, what
        assert out == "", what
        assert err.startswith("maxsup: "), what
        assert err.count("\n") == 1, what
        assert "Traceback" not in err, what
    assert len(bad) == 15
    assert not (tmp_path / "trap").exists()
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "got none"),
        (["run", "--logits", "l.npy"], "got a run and --logits"),
        (["run", "other"], "got 2: run, other"),
        (["--model", "small_cnn", "--weights", "w"], "--model must come with --data"),
        (["--model", "small_cnn", "--data", "digits"], "which has no published weights"),
        (["run", "--labels", "y.npy"], "--labels must come with --logits"),
        (["--logits", "l.npy", "--weights", "best"], "--weights must come with a run or --model"),
        (["--logits", "l.npy", "--split", "val"], "--split must come with a run or --model"),
        (["--logits", "l.npy", "epochs=3"], "KEY=VALUE must come with a run or --model"),
        (["nowhere"], "which has no config.yaml"),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    code, _, err = answered(words, capsys)
    assert code == 2
    assert complaint in err
    assert err.count("\n") == 1


def test_a_page_that_cannot_be_written_is_exit_code_5(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    code, _, err = answered([*files[:4], "--output", str(tmp_path / "file" / "page.html")], capsys)
    assert code == 5
    assert "must be a folder that can be made; got a file of that name" in err


def test_a_run_is_fitted_on_validation_and_says_what_its_recipe_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "alpha=0.2", "ls", "loss.alpha=0.2")
    code, out, _ = answered([str(run), "--json", "--output", str(tmp_path / "page.html")], capsys)
    found = json.loads(out)
    assert code == 0
    named = {"Data": "digits", "Split": "test", "Weights": "last", "Model": "small_cnn"}
    assert found["facts"] == named | {"Transform": "images as they are; mean 0.3056, std 0.3761"}
    assert found["data"]["how_fitted"] == "fitted on the validation split"
    assert found["data"]["traced"] == "training images"
    assert found["data"]["num_samples"] == 359
    assert "The recipe says ls 0.2." in found["findings"][0]["advice"]
    assert found["numbers"]["nc3"]["value"] is not None


def test_a_checkpoint_is_run_over_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = image_folder(tmp_path / "images")
    model = create_model("small_cnn", 3, widths=(4, 8))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    words = ["--model", "small_cnn", "--weights", str(tmp_path / "weights.pth"), "--data", f"folder:{images}"]
    words += ["model.options.widths=[4, 8]", "data.image_size=8", "--output", str(tmp_path / "page.html"), "--json"]
    code, out, _ = answered(words, capsys)
    found = json.loads(out)
    assert code == 0
    assert (found["data"]["num_samples"], found["data"]["num_classes"]) == (24, 3)
    assert [row["name"] for row in found["data"]["classes"]] == ["class_0", "class_1", "class_2"]
    assert found["source"] == "small_cnn, weights.pth"


def test_a_checkpoint_for_other_classes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = image_folder(tmp_path / "images")
    torch.save(create_model("small_cnn", 7).state_dict(), tmp_path / "weights.pth")
    words = ["--model", "small_cnn", "--weights", str(tmp_path / "weights.pth"), "--data", f"folder:{images}"]
    code, _, err = answered([*words, "data.image_size=8"], capsys)
    assert code == 4
    assert "classes of the network, which has 7 outputs; got 3 (class_0, class_1, class_2). Say which output" in err
    numbers = tmp_path / "classes.json"
    numbers.write_text(json.dumps({"class_0": 6, "class_1": 0, "class_2": 3, "class_3": 1}))
    page = ["--output", str(tmp_path / "page.html"), "--json"]
    code, out, _ = answered([*words, "data.image_size=8", "--class-names", str(numbers), *page], capsys)
    found = json.loads(out)
    assert code == 0
    assert [row["name"] for row in found["data"]["classes"]] == ["class_1", "class_2", "class_0"]
    assert "3 of the network's 7, by the list of class names; it chooses among all 7" in found["facts"]["Class order"]


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights.pth").write_bytes(pickle.dumps(Trap(tmp_path / "trap")))
    words = ["--model", "small_cnn", "--weights", str(tmp_path / "weights.pth"), "--data", "digits"]
    code, _, err = answered(words, capsys)
    assert code == 5
    assert "pretrained must be a readable" in err
    assert not (tmp_path / "trap").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_50_000_samples_of_1_000_classes_take_seconds_and_little_memory(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    logits = np.lib.format.open_memmap(tmp_path / "l.npy", "w+", np.float32, (50_000, 1_000))
    labels = generator.integers(0, 1_000, 50_000)
    for start in range(0, 50_000, 5_000):
        part = generator.standard_normal((5_000, 1_000), dtype=np.float32)
        part[np.arange(5_000), labels[start : start + 5_000]] += 5.0
        logits[start : start + 5_000] = part
    logits.flush()
    np.save(tmp_path / "y.npy", labels)
    code = f"""
import resource, sys
from maxsup.diagnosis.smoothing import estimate_alpha
from maxsup.cli import main
from maxsup.metrics import negative_log_likelihood
try:
    main(["diagnose", "--logits", {str(tmp_path / "l.npy")!r}, "--labels", {str(tmp_path / "y.npy")!r},
          "--output", {str(tmp_path / "page.html")!r}])
except SystemExit as leaving:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss: what a process held before exec, here the memory of the test that starts it, counts there too.
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(leaving.code, used.ru_utime + used.ru_stime, peak)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    exit_code, seconds, kilobytes = done.stdout.splitlines()[-1].split()
    assert exit_code in ("0", "None")
    assert 200 * 1024 < int(kilobytes) < 2 * 1024**2
    # CPU time on one thread, a bound that does not depend on who else uses the machine; 13 s when it was measured.
    assert float(seconds) < 30
