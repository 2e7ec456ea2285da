"""A folder of photographs as a stranger has it, through validate, train, eval, analyze and compare."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from maxsup.lab.core.recipes import read_yaml
from maxsup.lab.training import load_run
from tests.integration.command import Cli, run_command
from tests.unit.lab.data import made

CLASSES = ("猫", "grün", "Owl")
SIDES = (20, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 16, 40, 300)
RECIPE = ["folder_finetune", "epochs=1", "batch_size=8"]


def picture(dice: np.random.Generator, label: int, side: int) -> Image.Image:
    """Noise whose classes can be told by their colour, wider than high."""
    pixels = dice.normal(110, 40, (side, side * 4 // 3, 3))
    pixels[..., label % 3] += 60
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def sixteen_bit(image: Image.Image) -> Image.Image:
    return Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)


KINDS: tuple[tuple[str, Callable[[Image.Image], Image.Image]], ...] = (
    ("png", lambda image: image),
    ("jpg", lambda image: image),
    ("JPEG", lambda image: image.convert("L")),
    ("gif", lambda image: image.quantize(32)),
    ("png", lambda image: image.convert("RGBA")),
    ("png", lambda image: image.quantize(16)),
    ("png", sixteen_bit),
)


def write_zoo(home: Path, splits: dict[str, int]) -> Path:
    """Files of every kind and many sizes, with what systems and broken downloads leave among them."""
    dice = np.random.default_rng(3)
    for split, count in splits.items():
        for label, name in enumerate(CLASSES):
            place = home / split / name
            place.mkdir(parents=True)
            for index in range(count):
                ending, convert = KINDS[(index + label) % len(KINDS)]
                side = SIDES[index % len(SIDES)]
                convert(picture(dice, label, side)).save(place / f"Bild {index} é.{ending}")
    (home / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (place / "._Bild 0.jpg").write_bytes(b"\0\5\26\7")
    whole = home / next(iter(splits)) / CLASSES[0] / "Bild 1 é.jpg"
    (whole.parent / "truncated.jpg").write_bytes(whole.read_bytes()[:200])
    return home


@pytest.fixture(scope="module")
def split_zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train/`` and ``valid/``, one photograph of 1,024 pixels, and an image that is in both."""
    home = write_zoo(tmp_path_factory.mktemp("split"), {"train": 15, "valid": 8})
    picture(np.random.default_rng(1), 2, 1024).save(home / "train/Owl/large.jpg")
    shutil.copy(home / "train/Owl/Bild 3 é.png", home / "valid/Owl/again.png")
    return home


@pytest.fixture(scope="module")
def plain_zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing but classes."""
    return write_zoo(tmp_path_factory.mktemp("plain"), {"": 15})


def independent_accuracy(run: Path, files: Iterator[tuple[Path, int]]) -> tuple[float, int]:
    """Share of right answers and number of images, with Pillow and torchvision alone."""
    config = read_yaml(run / "config.yaml")
    size, share = config["data"]["image_size"], config["augment"].get("crop_pct") or 1.0
    _, bundle, model = load_run(run)
    steps = transforms.Compose(
        [
            transforms.Resize(math.floor(size / share)),
            transforms.CenterCrop(size),
            transforms.ToTensor(),
            transforms.Normalize(bundle.mean, bundle.std),
        ]
    )
    hits = []
    for path, label in files:
        with Image.open(path) as image:
            if image.mode.startswith("I"):
                image = Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
            pixels = steps(image.convert("RGB"))
        with torch.no_grad():
            hits.append(int(model(pixels[None]).argmax()) == label)
    return sum(hits) / len(hits), len(hits)


def judged_files(home: Path) -> Iterator[tuple[Path, int]]:
    for label, name in enumerate(sorted(CLASSES)):
        for path in sorted((home / name).iterdir()):
            if not path.name.startswith((".", "truncated")):
                yield path, label


def test_validate_opens_every_file_and_tells_what_it_found(cli: Cli, split_zoo: Path) -> None:
    outcome = cli("validate", "--data", f"folder:{split_zoo}", "--sheet", "sheet.png", "batch_size=8", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["recipe"]["data"]["image_size"] == 24
    assert found["model"] == "small_cnn"
    assert {name: split["images"] for name, split in found["splits"].items()} == {"train": 41, "val": 6, "test": 25}
    assert found["splits"]["test"]["most"] == {"class": "Owl", "images": 9}
    assert found["num_files"] == found["num_opened"] == 72
    assert set(found["modes"]) == {"RGB", "L", "P", "RGBA", "I;16"}
    assert found["sizes"]["1365x1024"] == 1
    [bad] = found["unreadable"]
    assert bad.endswith("truncated.jpg")
    [(again, known)] = found["duplicates"]
    assert (Path(again).name, Path(known).name) == ("again.png", "Bild 3 é.png")
    assert math.isfinite(found["first_loss"])
    with Image.open("sheet.png") as sheet:
        assert sheet.size[0] > sheet.size[1] / 2 > 300


def test_a_sheet_writes_the_letters_of_a_class_and_not_a_box_for_each(cli: Cli, tmp_path: Path) -> None:
    def sheet_with(name: str) -> bytes:
        home = tmp_path / f"photos of {name}"
        for folder in (f"train/{name}", "train/other", f"test/{name}", "test/other"):
            made.write_files(home / folder, ["0.png", "1.png", "2.png"], height=16, width=16)
        assert cli("validate", "--data", f"folder:{home}", "--sheet", f"{name}.png", "batch_size=2").code == 0
        return Path(f"{name}.png").read_bytes()

    assert sheet_with("ä") != sheet_with("ö")


def test_validate_in_words_and_its_refusals(cli: Cli, plain_zoo: Path) -> None:
    data = f"folder:{plain_zoo}"
    outcome = cli("validate", "--data", data, "--model", "small_cnn", "batch_size=8")
    assert outcome.code == 0, outcome.err
    for words in (
        "images of 24 pixels (shorter sides of the files: 16 to 300); small_cnn from scratch",
        "has no test/ beside it: 9 of 46 images are held out for the test, 20% of each class",
        "test: 9 images, 3 a class",
        "opened: all 46 files",
        "truncated.jpg: ",
        "one batch through model, loss and optimiser: loss ",
    ):
        assert words in outcome.out
    strict = cli("validate", "--data", data, "data.tolerance=0")
    assert strict.code == 4
    assert "1 of 46 files cannot be read" in strict.err
    assert cli("validate").err.startswith("maxsup: validate needs a recipe or data.")
    assert "sheet must be a .png file" in cli("validate", "--data", data, "--sheet", "sheet.jpg").err


@pytest.mark.slow
def test_training_with_the_defaults_is_judged_as_an_independent_loop_judges_it(cli: Cli, split_zoo: Path) -> None:
    outcome = cli("train", *RECIPE, f"data.name=folder:{split_zoo}", "--output", "run", "--json")
    assert outcome.code == 0, outcome.err
    assert "small_cnn from scratch" in outcome.err
    numbers = json.loads(outcome.out)["test"]["last"]
    accuracy, count = independent_accuracy(Path("run"), judged_files(split_zoo / "valid"))
    assert numbers["n"] == count == 25
    assert numbers["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    analyzed = cli("analyze", "run", "--what", "calibration,collapse")
    assert analyzed.code == 0, analyzed.err
    assert list(Path("run/analysis").glob("collapse-test*.json"))


@pytest.mark.slow
def test_a_folder_without_a_test_split_keeps_the_one_that_its_run_made(
    cli: Cli, plain_zoo: Path, tmp_path: Path
) -> None:
    words = [f"data.name=folder:{plain_zoo}", "model.name=timm:resnet18", "data.image_size=32"]
    trained = cli("train", *RECIPE, *words, "--output", "run", "--json")
    assert trained.code == 0, trained.err
    assert "resnet18 from scratch: no published weights here; give model.pretrained=FILE" in trained.err
    settings = read_yaml(tmp_path / "run/config.yaml")
    assert settings["data"]["options"] == {"test_share": 0.2, "test_seed": 0}
    assert settings["model"]["pretrained"] is False
    before = json.loads(trained.out)["test"]["last"]
    after = json.loads(cli("eval", "run", "--json").out)
    assert after["n"] == before["n"] == 9
    assert after["accuracy"] == before["accuracy"]
    bundle: Any = load_run("run")[1]
    accuracy, _ = independent_accuracy(Path("run"), ((Path(path), label) for path, label in bundle.test.samples))
    assert before["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert not {path for path, _ in bundle.test.samples} & {path for path, _ in bundle.train.samples}


@pytest.mark.slow
def test_a_comparison_of_thumbnails_needs_no_further_words(tmp_path: Path) -> None:
    home, dice = tmp_path / "thumbnails", np.random.default_rng(5)
    for label, (name, count) in enumerate((("a", 120), ("b", 40), ("one", 1))):
        (home / name).mkdir(parents=True)
        for index in range(count):
            picture(dice, label, 16).save(home / name / f"{index}.png")
    (home / "empty").mkdir()
    words = ["--data", f"folder:{home}", "--losses", "ce,maxsup", "--seeds", "1", "--workers", "1", "epochs=1"]
    outcome = run_command("compare", *words, "--model", "small_cnn", "--output", str(tmp_path / "out"))
    assert outcome.code == 0, outcome.err
    for sentence in (
        "images of 16 pixels (shorter sides of the files: 16); small_cnn from scratch",
        "class 'empty' has no images and is left out",
        "the class 'one' with one image: it is trained on and not evaluated",
        "32 of 161 images are held out for the test",
        "2 runs (1 seed); about ",
    ):
        assert sentence in outcome.err
    assert "may fail" not in outcome.err
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert [run["status"] for run in summary["runs"]] == ["done", "done"]
    assert (tmp_path / "out/report.html").stat().st_size > 10_000


def test_a_comparison_that_cannot_begin_says_so_once_and_starts_nothing(cli: Cli, plain_zoo: Path) -> None:
    words = ["--data", f"folder:{plain_zoo}", "--losses", "ce,ls", "--seeds", "2", "model.pretrained=nofile"]
    outcome = cli("compare", *words, "--output", "out")
    assert outcome.code == 5
    assert outcome.err.count("pretrained must be a file that is there; got 'nofile'") == 1
    assert not Path("out").exists()
