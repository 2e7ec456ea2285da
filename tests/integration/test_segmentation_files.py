"""Files that no segmenter can be trained on: one sentence, exit code 4, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from maxsup.cli import main
from maxsup.core.recipes import load_recipe
from maxsup.training import train
from tests.unit.data import made

pytestmark = pytest.mark.slow

TINY_BACKBONE = "model.options={backbone: resnet10t, channels: 8, auxiliary_channels: 8}"


def _another_size(home: Path) -> Path:
    path = home / "train" / "masks" / "003.png"
    Image.fromarray(np.zeros((40, 40), dtype=np.uint8)).save(path)
    return path


def _out_of_range(home: Path) -> Path:
    path = home / "train" / "masks" / "003.png"
    Image.fromarray(np.full((40, 48), 7, dtype=np.uint8)).save(path)
    return path


def _no_mask(home: Path) -> Path:
    (home / "train" / "masks" / "003.png").unlink()
    return home / "train" / "images" / "003.jpg"


def _palette(home: Path) -> Path:
    path = home / "train" / "masks" / "003.png"
    Image.fromarray(np.zeros((40, 48), dtype=np.uint8)).convert("P").save(path)
    return path


def _other_names(home: Path) -> Path:
    for path in list((home / "train" / "masks").iterdir()):
        path.rename(path.with_name(f"{path.stem}_mask.png"))
    return home / "train" / "masks" / "000_mask.png"


def _sixteen_bits(home: Path) -> Path:
    path = home / "train" / "masks" / "003.png"
    Image.fromarray(np.full((40, 48), 1000, dtype=np.uint16)).save(path)
    return path


def _colours(home: Path) -> Path:
    path = home / "train" / "masks" / "003.png"
    Image.new("RGBA", (48, 40), (200, 10, 10, 255)).save(path)
    return path


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


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_another_size, ["48x40", "40x40"]),
        (_out_of_range, ["7"]),
        (_no_mask, ["mask"]),
        (_palette, ["palette"]),
        (_other_names, ["000.jpg", "Give both the same name"]),
        (_sixteen_bits, ["got 1000"]),
        (_colours, ["got colours"]),
        (_damaged, ["must be readable"]),
        (_text, ["must be readable"]),
        (_too_large, ["more than 64 megapixels"]),
        (_empty, ["Both folders are empty"]),
    ],
)
def test_bad_files_end_in_one_sentence_that_names_them(
    damage: Callable[[Path], Path], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "streets"
    made.write_masked_tree(home)
    (home / "classes.txt").write_text("road\nsky\ntree\n")
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


def test_indices_of_a_palette_are_read_on_request(tmp_path: Path) -> None:
    home = tmp_path / "streets"
    made.write_masked_tree(home)
    (home / "classes.txt").write_text("road\nsky\ntree\n")
    _palette(home)
    words = [f"data.name=folder:{home}", "data.options={palette: index}", "data.image_size=32", TINY_BACKBONE]
    recipe = load_recipe("synthetic_upernet", [*words, "iterations=2", "epochs=1", "batch_size=4"])
    assert train(recipe, tmp_path / "run")["steps"] == 2
