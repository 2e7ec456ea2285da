"""``maxsup diagnose`` as a user starts it: arrays, a run, a checkpoint, and everything that can be wrong with them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from maxsup.diagnosis.smoothing import estimate_alpha
from maxsup.lab.cli import main
from maxsup.lab.models import create_model
from maxsup.metrics import negative_log_likelihood
from tests.integration.command import run_command
from tests.integration.runs import image_folder
from tests.unit.diagnosis.test_array_files import Trap, object_array
from tests.unit.lab.analysis.made import make_run

pytestmark = pytest.mark.slow

Answer = Callable[..., tuple[int, str, str]]

TOPICS = ["Classes", "Label smoothing", "Confidence on errors", "Calibration", "Selective classification"]


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


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Answer:
    """Exit code and what was printed, without another process."""

    def answered(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["diagnose", *words])
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return answered


def test_arrays_give_a_summary_and_a_page(files: list[str], tmp_path: Path) -> None:
    outcome = run_command("diagnose", *files)
    assert (outcome.code, outcome.err) == (0, "")
    for topic in [*TOPICS, "Collapse", "Probe"]:
        assert topic in outcome.out
    assert "Trained with label smoothing or MaxSup: the estimated alpha is 0." in outcome.out
    assert outcome.out.rstrip().endswith(f"page: {tmp_path / 'page.html'}")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_json_is_one_object_with_every_finding(files: list[str], answer: Answer) -> None:
    code, out, err = answer(*files, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [finding["topic"] for finding in found["findings"]] == [*TOPICS, "Collapse", "Probe"]
    assert all({"level", "sentence", "value", "threshold", "advice"} <= finding.keys() for finding in found["findings"])
    assert found["numbers"]["alpha"]["value"] == pytest.approx(0.1, abs=0.05)
    assert found["protocol"] == 1


def test_the_same_arrays_give_the_same_page(files: list[str], tmp_path: Path, answer: Answer) -> None:
    pages = []
    for _ in range(2):
        assert answer(*files)[0] == 0
        pages.append((tmp_path / "page.html").read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".csv"])
def test_other_formats_give_the_numbers_of_the_arrays(
    files: list[str], tmp_path: Path, answer: Answer, ending: str
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
    found = json.loads(answer(*words)[1])["numbers"]
    tensors = torch.from_numpy(logits), torch.from_numpy(labels)
    assert found["nll"]["value"] == pytest.approx(negative_log_likelihood(*tensors), abs=1e-9)
    assert found["alpha_by_scale"]["value"] == pytest.approx(estimate_alpha(*tensors).by_scale, abs=1e-9)


@pytest.mark.parametrize("what", ["nan", "lengths", "pickle", "object", "missing"])
def test_bad_arrays_give_one_sentence_and_exit_code_4(tmp_path: Path, answer: Answer, what: str) -> None:
    # What else can be wrong with arrays and files is in tests/unit/diagnosis.
    logits, labels, _ = arrays(200, 4)
    if what == "nan":
        logits[3, 1] = np.nan
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels[:-5] if what == "lengths" else labels)
    page, trap = tmp_path / "page.html", tmp_path / "trap"
    if what == "pickle":
        (tmp_path / "logits.npy").write_bytes(pickle.dumps(Trap(trap)))
    elif what == "object":
        (tmp_path / "labels.npy").write_bytes(object_array(trap))
    elif what == "missing":
        (tmp_path / "logits.npy").unlink()
    files = ["--logits", str(tmp_path / "logits.npy"), "--labels", str(tmp_path / "labels.npy")]
    code, out, err = answer(*files, "--output", str(page))
    assert (code, out) == (4, "")
    assert err.startswith("maxsup: ")
    assert err.count("\n") == 1
    assert not trap.exists()
    assert not page.exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "got none"),
        (["run", "--logits", "l.npy"], "got a run and --logits"),
        (["run", "other"], "got a network without images"),
        (["--model", "small_cnn", "--weights", "w"], "--model must come with --data"),
        (["--model", "small_cnn", "--data", "digits"], "which has no published weights"),
        (["run", "--labels", "y.npy"], "--labels must come with --logits"),
        (["--logits", "l.npy", "--weights", "best"], "--weights must come with a run or --model"),
        (["--logits", "l.npy", "--split", "val"], "--split must come with a run or --model"),
        (["--logits", "l.npy", "epochs=3"], "KEY=VALUE must come with a run or --model"),
        (["nowhere"], "which has no config.yaml"),
    ],
)
def test_words_that_do_not_go_together_are_refused(answer: Answer, words: list[str], complaint: str) -> None:
    code, _, err = answer(*words)
    assert code == 2
    assert complaint in err
    assert err.count("\n") == 1


def test_a_page_that_cannot_be_written_is_exit_code_5(files: list[str], tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "file").touch()
    code, _, err = answer(*files[:4], "--output", str(tmp_path / "file" / "page.html"))
    assert code == 5
    assert "must be a folder that can be made; got a file of that name" in err


def test_a_run_is_fitted_on_validation_and_says_what_its_recipe_does(tmp_path: Path, answer: Answer) -> None:
    run = make_run(tmp_path / "alpha=0.2", "ls", "loss.alpha=0.2")
    code, out, _ = answer(str(run), "--json", "--output", str(tmp_path / "page.html"))
    found = json.loads(out)
    assert code == 0
    named = {"Data": "digits", "Split": "test", "Weights": "last", "Model": "small_cnn"}
    assert found["facts"] == named | {"Transform": "images as they are; mean 0.3056, std 0.3761"}
    assert found["data"]["how_fitted"] == "fitted on the validation split"
    assert found["data"]["traced"] == "training images"
    assert found["data"]["num_samples"] == 359
    advice = {finding["topic"]: finding["advice"] for finding in found["findings"]}
    assert "The recipe says ls 0.2." in advice["Label smoothing"]
    assert found["numbers"]["nc3"]["value"] is not None


def test_a_checkpoint_is_run_over_a_folder(tmp_path: Path, answer: Answer) -> None:
    images = image_folder(tmp_path / "images")
    model = create_model("small_cnn", 3, widths=(4, 8))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    words = ["--model", "small_cnn", "--weights", str(tmp_path / "weights.pth"), "--data", f"folder:{images}"]
    words += ["model.options.widths=[4, 8]", "data.image_size=8", "--output", str(tmp_path / "page.html"), "--json"]
    code, out, _ = answer(*words)
    found = json.loads(out)
    assert code == 0
    assert (found["data"]["num_samples"], found["data"]["num_classes"]) == (24, 3)
    assert [row["name"] for row in found["data"]["classes"]] == ["class_0", "class_1", "class_2"]
    assert found["source"] == "small_cnn, weights.pth"


def test_checkpoints_are_judged_on_images_of_another_kind(tmp_path: Path, answer: Answer) -> None:
    images, others = image_folder(tmp_path / "images"), image_folder(tmp_path / "others")
    for folder in others.glob("*/class_*"):
        folder.rename(folder.with_name(folder.name.replace("class", "other")))
    torch.save(create_model("small_cnn", 3, widths=(4, 8)).state_dict(), tmp_path / "weights.pth")
    words = ["--model", "small_cnn", "--weights", str(tmp_path / "weights.pth"), "--data", f"folder:{images}"]
    words += ["model.options.widths=[4, 8]", "data.image_size=8", "--output", str(tmp_path / "page.html")]
    found = json.loads(answer(*words, "--ood", f"folder:{others}", "--json")[1])
    assert found["facts"]["Other images"] == f"folder:{others}, 24 images"
    assert 0 <= found["numbers"]["ood_auroc_energy"]["value"] <= 1
    assert found["findings"][-1]["sentence"] == "Cannot tell from 24 other images; at least 100 are needed."
    code, _, err = answer(*words, "--ood", f"folder:{images}")
    assert code == 4
    assert "has classes of the network (class_0, class_1, class_2). Leave those classes out." in err


@pytest.mark.slow
def test_a_run_notices_images_of_another_kind_by_their_distance_to_training_features(
    tmp_path: Path, answer: Answer
) -> None:
    run = make_run(tmp_path / "run", "maxsup", "data.options.copies=1", recipe="synthetic_cnn")
    others = image_folder(tmp_path / "others")
    code, out, _ = answer(str(run), "--ood", f"folder:{others}", "--json", "--output", str(tmp_path / "page.html"))
    numbers = json.loads(out)["numbers"]
    assert code == 0
    assert {"ood_auroc_max_logit", "ood_auroc_knn", "ood_fpr95_knn"} <= numbers.keys()
    assert "ood_auroc_knn" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_two_checkpoints_stand_side_by_side_on_images_of_another_kind(tmp_path: Path, answer: Answer) -> None:
    others = image_folder(tmp_path / "others")
    words = ["--data", "synthetic", "--ood", f"folder:{others}", "model.options.widths=[4, 8]"]
    for name in ("a", "b"):
        torch.save(create_model("small_cnn", 10, widths=(4, 8)).state_dict(), tmp_path / f"{name}.pth")
        words.append(f"small_cnn@{tmp_path / name}.pth")
    code, out, _ = answer(*words, "--output", str(tmp_path / "page.html"), "--json")
    found = json.loads(out)
    assert code == 0
    assert found["facts"]["a.pth"]["Other images"] == f"folder:{others}, 24 images"
    assert all("ood_auroc_energy" in each["numbers"] for each in found["models"].values())
    assert found["pairs"][0]["findings"][-1]["sentence"] == "Cannot tell from 24 other images; at least 100 are needed."


def test_a_checkpoint_for_other_classes_is_refused(tmp_path: Path, answer: Answer) -> None:
    images = image_folder(tmp_path / "images")
    torch.save(create_model("small_cnn", 7).state_dict(), tmp_path / "weights.pth")
    words = ["--model", "small_cnn", "--weights", str(tmp_path / "weights.pth"), "--data", f"folder:{images}"]
    code, _, err = answer(*words, "data.image_size=8")
    assert code == 4
    assert "classes of the network, which has 7 outputs; got 3 (class_0, class_1, class_2). Map the outputs" in err
    numbers = tmp_path / "classes.json"
    numbers.write_text(json.dumps({"class_0": 6, "class_1": 0, "class_2": 3, "class_3": 1}))
    page = ["--output", str(tmp_path / "page.html"), "--json"]
    code, out, _ = answer(*words, "data.image_size=8", "--class-names", str(numbers), *page)
    found = json.loads(out)
    assert code == 0
    assert [row["name"] for row in found["data"]["classes"]] == ["class_1", "class_2", "class_0"]
    assert "3 of the network's 7, by the list of class names; it chooses among all 7" in found["facts"]["Class order"]


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "weights.pth").write_bytes(pickle.dumps(Trap(tmp_path / "trap")))
    words = ["--model", "small_cnn", "--weights", str(tmp_path / "weights.pth"), "--data", "digits"]
    code, _, err = answer(*words)
    assert code == 5
    assert "pretrained must be a readable" in err
    assert not (tmp_path / "trap").exists()


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
from maxsup.lab.cli import main
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
