"""Files that no segmenter can be trained on: one sentence, exit code 4, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from maxsup.lab.cli import main
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.training import train
from tests.unit.lab.data import made

pytestmark = pytest.mark.slow

TINY_BACKBONE = "model.options={backbone: resnet10t, channels: 8, auxiliary_channels: 8}"


def _mask(image: Image.Image) -> Callable[[Path], Path]:
    def damage(home: Path) -> Path:
        image.save(home / "train" / "masks" / "003.png")
        return home / "train" / "masks" / "003.png"

    return damage


def _no_mask(home: Path) -> Path:
    (home / "train" / "masks" / "003.png").unlink()
    return home / "train" / "images" / "003.jpg"


def _other_names(home: Path) -> Path:
    for path in list((home / "train" / "masks").iterdir()):
        path.rename(path.with_name(f"{path.stem}_mask.png"))
    return home / "train" / "masks" / "000_mask.png"


def _damaged(home: Path) -> Path:
    path = home / "train" / "images" / "003.jpg"
    path.write_bytes(path.read_bytes()[:200])
    return path


def _text(home: Path) -> Path:
    path = home / "train" / "images" / "003.jpg"
    path.write_text("no picture")
    return path


def _too_large(home: Path) -> Path:
    (home / "train" / "images" / "003.jpg").unlink()
    path = home / "train" / "images" / "003.png"
    Image.new("1", (9000, 9000)).save(path)
    return path


def _empty(home: Path) -> Path:
    for path in [*(home / "train" / "images").iterdir(), *(home / "train" / "masks").iterdir()]:
        path.unlink()
    return home / "train"


PALETTE = Image.fromarray(np.zeros((40, 48), dtype=np.uint8)).convert("P")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made.write_masked_tree(tmp_path / "streets")
    (tmp_path / "streets" / "classes.txt").write_text("road\nsky\ntree\n")
    return tmp_path / "streets"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_mask(Image.new("L", (40, 40))), ["48x40", "40x40"]),
        (_mask(Image.new("L", (48, 40), 7)), ["7"]),
        (_no_mask, ["mask"]),
        (_mask(PALETTE), ["palette"]),
        (_other_names, ["000.jpg", "Give both the same name"]),
        (_mask(Image.fromarray(np.full((40, 48), 1000, dtype=np.uint16))), ["got 1000"]),
        (_mask(Image.new("RGBA", (48, 40), (200, 10, 10, 255))), ["got colours"]),
        (_damaged, ["must be readable"]),
        (_text, ["must be readable"]),
        (_too_large, ["more than 64 megapixels"]),
        (_empty, ["Both folders are empty"]),
    ],
)
def test_bad_files_end_in_one_sentence_that_names_them(
    damage: Callable[[Path], Path], words: list[str], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damage(home)
    words_of_command = [
        *("train", "synthetic_upernet", f"data.name=folder:{home}", "data.image_size=32", "iterations=8", "epochs=1"),
        *("batch_size=4", TINY_BACKBONE, "--output", str(tmp_path / "run")),
    ]
    # In this process: torch is imported once for all of them.
    with pytest.raises(SystemExit) as leaving:
        main(words_of_command)
    printed = capsys.readouterr().err
    [sentence] = [line for line in printed.splitlines() if line.startswith("maxsup:")]
    assert leaving.value.code == 4
    assert path.name in sentence
    assert all(word in sentence for word in words), sentence
    assert "Traceback" not in printed


def test_indices_of_a_palette_are_read_on_request(home: Path, tmp_path: Path) -> None:
    _mask(PALETTE)(home)
    words = [f"data.name=folder:{home}", "data.options={palette: index}", "data.image_size=32", TINY_BACKBONE]
    recipe = load_recipe("synthetic_upernet", [*words, "iterations=2", "epochs=1", "batch_size=4"])
    assert train(recipe, tmp_path / "run")["steps"] == 2
