from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.object_masks import BACKGROUND, IGNORED, OBJECT, Masks, find_masks
from tests.refusals import refused
from tests.unit.lab.analysis.made import make_run


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 20x12 in folders, whose left half is bright."""
    folder = tmp_path_factory.mktemp("photographs")
    generator = np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 3)):
        for name in ("cat", "dog"):
            place = folder / "images" / split / name
            place.mkdir(parents=True)
            for index in range(count):
                pixels = generator.integers(0, 90, (12, 20, 3), dtype=np.uint8)
                pixels[:, :10] += 120
                Image.fromarray(pixels).save(place / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def photograph_run(photographs: Path, tmp_path_factory: pytest.TempPathFactory) -> RunOutputs:
    overrides = (f"data.name=folder:{photographs / 'images'}", "data.image_size=8", "model.options.widths=[4, 8]")
    return RunOutputs(make_run(tmp_path_factory.mktemp("run") / "run", "ce", *overrides, "augment.crop_padding=0"))


def write_masks(folder: Path, values: Callable[[], np.ndarray]) -> Path:
    for name in ("cat", "dog"):
        (folder / "test" / name).mkdir(parents=True)
        for index in range(3):
            Image.fromarray(values()).save(folder / "test" / name / f"{index}.png")
    return folder


def masks_at(run: RunOutputs, place: Path | None) -> Masks:
    masks = find_masks(run, "test", place and str(place))
    assert masks is not None
    return masks


def left_half(inside: int, outside: int) -> np.ndarray:
    mask = np.full((12, 20), outside, dtype=np.uint8)
    mask[:, :10] = inside
    return mask


def test_a_mask_goes_where_its_image_goes(photograph_run: RunOutputs, tmp_path: Path) -> None:
    folder = write_masks(tmp_path / "masks", lambda: left_half(255, 0))
    masks = masks_at(photograph_run, folder)
    # 20x12 becomes 13x8 and then its middle 8x8: columns 2.5 to 10.5 of 13, of which those below 6.5 were bright.
    [batch] = photograph_run.pipeline(photograph_run.bundle.test.subset(torch.tensor([4]))).epoch(0)
    bright = batch.images[0].mean(dim=0) > 0
    assert torch.equal(masks(4) == OBJECT, bright)
    assert masks(4).shape == (8, 8)


def test_a_trimap_has_a_border_that_is_not_judged(photograph_run: RunOutputs, tmp_path: Path) -> None:
    def trimap() -> np.ndarray:
        mask = left_half(1, 2)
        mask[:, 9:11] = 3
        return mask

    masks = masks_at(photograph_run, write_masks(tmp_path / "trimaps", trimap))
    assert set(masks(0).unique().tolist()) == {BACKGROUND, OBJECT, IGNORED}
    assert masks(0)[0, 0] == OBJECT
    assert masks(0)[0, -1] == BACKGROUND


def test_boxes_in_a_table_are_joined(photograph_run: RunOutputs, tmp_path: Path) -> None:
    lines = ["image,x0,y0,x1,y1"]
    for name in ("cat", "dog"):
        for index in range(3):
            lines += [f"{name}/{index}.png,0,0,10,6", f"{name}/{index}.png,0,6,10,12"]
    (tmp_path / "boxes.csv").write_text("\n".join(lines))
    by_box = masks_at(photograph_run, tmp_path / "boxes.csv")
    by_file = masks_at(photograph_run, write_masks(tmp_path / "masks", lambda: left_half(255, 0)))
    assert torch.equal(by_box(3), by_file(3))


def test_images_in_memory_are_numbered(digit_runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text("image,x0,y0,x1,y1\n7,1,2,4,8\n")
    masks = masks_at(RunOutputs(digit_runs[0]), tmp_path / "boxes.csv")
    expected = torch.zeros(8, 8, dtype=torch.uint8)
    expected[2:8, 1:4] = OBJECT
    assert torch.equal(masks(7), expected)
    with refused(DataError, "bad-masks", "'8'"):
        masks(8)


def test_the_ink_of_a_drawn_digit_is_its_mask(drawn_run: Path) -> None:
    run = RunOutputs(drawn_run)
    masks = masks_at(run, None)
    test = run.bundle.test
    for index in (0, 5, 9):
        mask = masks(index).bool()
        rows, columns = mask.nonzero(as_tuple=True)
        x, y, scale = (float(test.factors[name][index]) for name in ("x", "y", "scale"))
        assert abs(float(columns.float().mean()) + 0.5 - x) < 2.5
        assert abs(float(rows.float().mean()) + 0.5 - y) < 2.5
        assert int(columns.max() - columns.min()) < 8 * scale + 2
        outside = test.images[index].float()[:, ~mask].mean() / 255
        assert abs(float(outside) - float(test.factors["background"][index])) < 0.05


def test_data_without_masks_has_none(digit_runs: list[Path]) -> None:
    assert find_masks(RunOutputs(digit_runs[0]), "test", None) is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("image,left\n", "must start with image,x0,y0,x1,y1"),
        ("image,x0,y0,x1,y1\n7,1,2\n", "must hold one box per line; got 2 numbers in a line"),
        ("image,x0,y0,x1,y1\n7,1,2,a,b\n", "must hold one box per line; got could not convert"),
    ],
)
def test_a_table_that_is_none_is_refused(digit_runs: list[Path], tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "boxes.csv").write_text(content)
    with pytest.raises(DataError, match=sentence):
        masks_at(RunOutputs(digit_runs[0]), tmp_path / "boxes.csv")


def test_a_place_without_masks_and_a_missing_mask_are_named(digit_runs: list[Path], tmp_path: Path) -> None:
    run = RunOutputs(digit_runs[0])
    with pytest.raises(DataError, match=r"a \.csv file .* that exists; got 'nowhere'"):
        find_masks(run, "test", "nowhere")
    masks = masks_at(run, tmp_path)
    with pytest.raises(DataError, match=r"mask of image 3 must be at .*3\.png"):
        masks(3)
    (tmp_path / "3.png").write_text("no image")
    with pytest.raises(DataError, match="must be a readable mask"):
        masks(3)
