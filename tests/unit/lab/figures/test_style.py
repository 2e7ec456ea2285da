import itertools
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from maxsup.core.errors import StorageError
from maxsup.lab.figures.style import COLUMN, DPI, LOOKS, legend_above, loss_look, panels, run_looks, save, styled
from maxsup.losses import list_losses

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def lab(color: str, sight: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* of a colour as somebody sees it."""
    part = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.clip(sight @ np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4), 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_a_loss_with_a_look_has_a_colour_a_marker_and_a_name_of_its_own() -> None:
    assert set(LOOKS) <= set(list_losses())
    assert len(LOOKS) >= 20
    for field in ("label", "color", "marker"):
        assert len({getattr(look, field) for look in LOOKS.values()}) == len(LOOKS)


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_told_apart_whatever_the_sight(sight: str) -> None:
    colours = [lab(look.color, SIGHT[sight]) for look in LOOKS.values()]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(colours, 2)) >= 15


def test_colours_are_dark_enough_for_white_paper() -> None:
    assert all(lab(look.color, SIGHT["normal"])[0] < 80 for look in LOOKS.values())


def test_a_loss_keeps_its_colour_and_another_run_of_it_gets_another_line() -> None:
    looks = run_looks({"a": "ls", "b": "ls", "c": "ls", "d": "ce"})
    assert [looks[name].color for name in "abcd"] == [LOOKS["ls"].color] * 3 + [LOOKS["ce"].color]
    assert len({str(looks[name].line) for name in "abc"}) == 3
    assert [looks[name].label for name in "ad"] == ["a", "d"]


def test_a_loss_of_somebody_else_is_drawn_under_its_own_name() -> None:
    assert loss_look("theirs").label == "theirs"


def test_figures_are_equal_to_the_byte_and_a_column_wide(tmp_path: Path) -> None:
    contents = []
    for place in ("one", "two"):
        with styled():
            figure, [[axes]] = panels()
            axes.plot([0, 1], [1, 2], label="x")
            axes.set_xlabel("x")
            legend_above(figure, list(LOOKS.values())[:3])
        paths = save(figure, tmp_path / place, "picture")
        contents.append([path.read_bytes() for path in paths])
    assert [path.suffix for path in paths] == [".png", ".svg"]
    assert contents[0] == contents[1]
    assert Image.open(paths[0]).width == round(COLUMN * DPI)


def test_settings_of_the_user_stay_outside(tmp_path: Path) -> None:
    with matplotlib.rc_context({"font.size": 31.0, "axes.grid": True}):
        with styled():
            assert matplotlib.rcParams["font.size"] == 7.0
            assert matplotlib.rcParams["axes.grid"] is False
        assert matplotlib.rcParams["font.size"] == 31.0


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with styled():
        figure, _ = panels()
    with pytest.raises(StorageError, match="must be a folder that can be made; got a file in the place of"):
        save(figure, tmp_path / "file" / "figures", "picture")
