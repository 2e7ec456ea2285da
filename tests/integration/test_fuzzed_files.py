"""Files of users with small random damage: each reader takes them, or says in one sentence which file is wrong."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from maxsup.core.errors import MaxsupError
from maxsup.diagnosis import read_array_files
from maxsup.diagnosis.class_order import read_class_names
from maxsup.diagnosis.outputs import checked_outputs
from maxsup.lab.analysis.object_masks import _read_boxes
from maxsup.lab.cli.verbs.doctor import _settings
from maxsup.lab.core.recipes import load_recipe, recipe_path
from maxsup.lab.data import load_data
from maxsup.lab.experiments.study_files import load_study, study_path
from maxsup.lab.models.weights import read_weights
from maxsup.lab.reports.folders import read_view
from maxsup.lab.segmentation.mask_files import _mask_values
from maxsup.lab.segmentation.sets import _mask_classes
from tests.unit.lab.reports.made import make_folder
from tools.evidence.first.claims import claim_entries, pool_entries, sweep_entries
from tools.evidence.first.pools import strength_entries

NUM_CASES = 60
_WORDS = (
    b"{", b"]", b"[]", b"null", b"1e999", b"nan", b"-1", b"\xff", b'"', b"-", b":", b",", b"\n", b"\t", b"\x00", b"&a ",
    b"99999999999999999999", b"true", b"x", b"=", b" ", b"\r", b"#",
)  # fmt: skip

CLAIM = """{label: 'tab:pre', states: It helps., paper: '+1', setting: small, pools: [one], number: test.accuracy,
  factor: 100, unit: points, claim: maxsup alpha=0.1, than: ls alpha=0.1, direction: higher, margin: 0.2}"""
POOL = "loss,seed,collapse.train_accuracy,test.accuracy\n" + "".join(
    f"{loss} alpha=0.1,{seed},0.9{seed},0.8{seed}\n" for loss in ("ls", "maxsup") for seed in range(7)
)
TRIALS = "loss,seed,val.accuracy,val.nll\n" + "".join(f"ls alpha=0.{step},100,0.{step},1.{step}\n" for step in (1, 2))


def evidence(folder: Path) -> None:
    (folder / "results/trials").mkdir(parents=True)
    (folder / "claims.yaml").write_text(f"helps: {CLAIM}\n")
    (folder / "settings.yaml").write_text("small: {size: 10 images, scale: a network, limits: Nothing large.}\n")
    (folder / "results/one.csv").write_text(POOL)
    (folder / "results/c10_w1.csv").write_text(POOL)
    (folder / "results/trials/one.csv").write_text(TRIALS)


def judge(file: Path) -> None:
    folder = next(parent for parent in file.parents if (parent / "results").is_dir())
    claim_entries(folder)
    pool_entries(folder)
    sweep_entries(folder)
    strength_entries(folder / "results")


def arrays(folder: Path) -> None:
    logits, labels = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32), np.arange(12) % 3
    names = np.array(["cat", "dog", "owl"])
    np.savez(folder / "a.npz", logits=logits, labels=labels, features=logits, class_names=names)
    np.savez_compressed(folder / "b.npz", logits=logits, labels=labels, class_names=names)
    np.save(folder / "logits.npy", logits)
    np.save(folder / "labels.npy", labels)
    np.savetxt(folder / "logits.csv", logits, delimiter=",", header="cat,dog,owl", comments="", fmt="%.3f")
    save_file({"logits": torch.tensor(logits), "labels": torch.tensor(labels)}, folder / "s.safetensors")
    torch.save({"fc.weight": torch.ones(3, 2)}, folder / "w.pt")
    save_file({"fc.weight": torch.ones(3, 2)}, folder / "w.safetensors")
    images = {f"{part}_images": np.zeros((6, 3, 3), np.uint8) for part in ("train", "test")}
    own = {f"{part}_labels": np.arange(6) % 3 for part in ("train", "test")}
    np.savez(folder / "images.npz", **images, **own, class_names=names)


def diagnosed(file: Path) -> None:
    labels = file.with_name("labels.npy")
    is_whole = file.suffix in (".npz", ".safetensors")
    logits = file.with_name("logits.npy") if file.name == "labels.npy" else file
    checked_outputs(*read_array_files(logits, None if is_whole else labels))


def texts(folder: Path) -> None:
    (folder / "names.txt").write_text("cat\ndog\nowl\n")
    (folder / "names.json").write_text('{"cat": 0, "dog": 1, "owl": 2}')
    (folder / "listed.json").write_text('{"0": "cat", "1": "dog"}')
    (folder / "boxes.csv").write_text("image,x0,y0,x1,y1\na.png,0,0,3,3\nb.png,1.5,2,3,3\n")
    (folder / "training.json").write_text('{"label_smoothing_factor": 0.1, "per_device_train_batch_size": 8}')
    (folder / "timm.yaml").write_text("smoothing: 0.1\nmixup: 0.2\nloss: {name: maxsup, alpha: 0.1}\n")
    (folder / "recipe.yaml").write_bytes(recipe_path("digits_cnn").read_bytes())
    (folder / "study.yaml").write_bytes(study_path("tab_pre").read_bytes())
    Image.new("L", (4, 4)).save(folder / "mask.png")
    birds = folder / "CUB_200_2011"
    (birds / "images").mkdir(parents=True)
    (birds / "images.txt").write_text("1 a/one.jpg\n2 a/two.jpg\n3 b/three.jpg\n")
    (birds / "image_class_labels.txt").write_text("1 1\n2 1\n3 2\n")
    (birds / "train_test_split.txt").write_text("1 0\n2 1\n3 1\n")
    (birds / "classes.txt").write_text("1 001.Auk\n2 002.Owl\n")


def reports(folder: Path) -> None:
    make_folder(folder / "made", arms=("ce", "ls"), seeds=(0,))


def viewed(file: Path) -> None:
    folder = next(parent for parent in file.parents if (parent / "runs").is_dir())
    view = read_view(folder)
    for run in view.runs:
        numbers = [*run.epochs(), run.test, run.last_strength]
        assert numbers


def data_of(file: Path) -> None:
    load_data(f"arrays:{file}")


def birds_of(file: Path) -> None:
    load_data("cub200", root=file.parents[1])


READERS: dict[str, tuple[Callable[[Path], None], str, Callable[[Path], object]]] = {
    "claims": (evidence, "claims.yaml", judge),
    "settings of claims": (evidence, "settings.yaml", judge),
    "pool": (evidence, "results/one.csv", judge),
    "pool of a sweep": (evidence, "results/c10_w1.csv", judge),
    "trials": (evidence, "results/trials/one.csv", judge),
    "npz": (arrays, "a.npz", diagnosed),
    "compressed npz": (arrays, "b.npz", diagnosed),
    "npy": (arrays, "logits.npy", diagnosed),
    "labels": (arrays, "labels.npy", diagnosed),
    "csv": (arrays, "logits.csv", diagnosed),
    "safetensors": (arrays, "s.safetensors", diagnosed),
    "torch weights": (arrays, "w.pt", read_weights),
    "safe weights": (arrays, "w.safetensors", read_weights),
    "images": (arrays, "images.npz", data_of),
    "list of birds": (texts, "CUB_200_2011/images.txt", birds_of),
    "parts of birds": (texts, "CUB_200_2011/train_test_split.txt", birds_of),
    "classes of masks": (texts, "names.txt", lambda file: _mask_classes(file, 3)),
    "class names": (texts, "names.txt", read_class_names),
    "names and numbers": (texts, "names.json", read_class_names),
    "numbers and names": (texts, "listed.json", read_class_names),
    "boxes": (texts, "boxes.csv", _read_boxes),
    "settings of a trainer": (texts, "training.json", lambda file: _settings(str(file))),
    "settings of timm": (texts, "timm.yaml", lambda file: _settings(str(file))),
    "recipe": (texts, "recipe.yaml", lambda file: load_recipe(str(file))),
    "study": (texts, "study.yaml", lambda file: load_study(str(file))),
    "mask": (texts, "mask.png", lambda file: _mask_values(str(file), (4, 4), "refuse")),
    "summary of a comparison": (reports, "made/summary.json", viewed),
    "recipe of a run": (reports, "made/runs/ls1-s0/config.yaml", viewed),
    "log of a run": (reports, "made/runs/ls1-s0/metrics.jsonl", viewed),
    "summary of a run": (reports, "made/runs/ls1-s0/summary.json", viewed),
}


def damaged(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 8))):
        where = dice.randrange(len(changed) + 1)
        kind = dice.randrange(5)
        if kind == 0 and where < len(changed):
            changed[where] ^= 1 << dice.randrange(8)
        elif kind == 1:
            changed[where : where + dice.randrange(20)] = b""
        elif kind == 2:
            changed[where:where] = dice.choice(_WORDS)
        elif kind == 3:
            changed[where : where + dice.randrange(1, 6)] = dice.choice(_WORDS)
        elif dice.random() < 0.3:
            changed = changed[:where]
        else:
            lines = changed.splitlines(keepends=True) or [changed]
            place = dice.randrange(len(lines))
            lines[place : place + 1] = [lines[place]] * dice.choice((0, 2))
            changed = bytearray().join(lines)
    return bytes(changed)


def is_ours(error: Exception, name: str) -> bool:
    """Whether an error is one sentence of this package about a file."""
    # Recipes are also made from words of a command, so that what is wrong in them is a ValueError.
    is_known = isinstance(error, MaxsupError) or type(error) is ValueError
    said = str(error)
    return is_known and (name in said or Path(name).stem in said) and said.endswith((".", "?")) and "must" in said


@pytest.mark.parametrize("what", READERS)
def test_a_damaged_file_is_read_or_named_in_a_sentence(what: str, tmp_path: Path) -> None:
    make, place, read = READERS[what]
    make(tmp_path)
    file = tmp_path / place
    content = file.read_bytes()
    read(file)
    dice, refusals = random.Random(what), list[tuple[Exception, bytes]]()
    for _ in range(NUM_CASES):
        file.write_bytes(damaged(content, dice))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read(file)
            except Exception as error:
                refusals.append((error, file.read_bytes()))
    assert refusals
    assert [(repr(error), text[:2000]) for error, text in refusals if not is_ours(error, file.name)] == []
