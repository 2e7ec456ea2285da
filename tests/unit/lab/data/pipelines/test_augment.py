"""Whole-batch augmentation against plain loops over single images."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as single

from maxsup.lab.data.pipelines.augment import (
    Jitter,
    Moves,
    draw_boxes,
    draw_jitter,
    draw_moves,
    erase_,
    jitter_colours,
    move_images,
)


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (64, 3, 12, 17), dtype=torch.uint8)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def moved_one_by_one(images: torch.Tensor, moves: Moves, padding: int) -> torch.Tensor:
    result = []
    for position, image in enumerate(images):
        padded = torch.nn.functional.pad(image, [padding] * 4)
        top, left = int(moves.tops[position]), int(moves.lefts[position])
        cropped = padded[:, top : top + image.shape[1], left : left + image.shape[2]]
        if moves.flips[position]:
            cropped = cropped.flip(-1)
        if moves.angles is not None:
            picture = Image.fromarray(cropped.permute(1, 2, 0).numpy())
            rotated = picture.rotate(float(moves.angles[position]), Image.Resampling.NEAREST)
            cropped = torch.from_numpy(np.array(rotated)).permute(2, 0, 1)
        result.append(cropped)
    return torch.stack(result)


@pytest.mark.parametrize("padding", [0, 1, 4])
@pytest.mark.parametrize("flip", [False, True])
def test_crops_and_flips_equal_a_loop(images: torch.Tensor, padding: int, flip: bool) -> None:
    moves = draw_moves(64, generator(), padding=padding, flip=flip, rotation=0)
    assert torch.equal(move_images(images, moves, padding), moved_one_by_one(images, moves, padding))


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("rotation", [15, 180])
def test_rotations_equal_those_of_pillow(images: torch.Tensor, padding: int, rotation: float) -> None:
    moves = draw_moves(64, generator(), padding=padding, flip=True, rotation=rotation)
    differs = move_images(images, moves, padding) != moved_one_by_one(images, moves, padding)
    # Pillow counts in steps of 1/65536 pixel: a point that close to an edge may fall on the other side.
    assert differs.float().mean() < 0.002


def test_every_crop_and_both_sides_occur_about_equally_often() -> None:
    moves = draw_moves(9000, generator(), padding=1, flip=True, rotation=10)
    places = torch.bincount(moves.tops * 3 + moves.lefts, minlength=9)
    assert (places - 1000).abs().max() < 5 * 1000**0.5
    assert abs(moves.flips.float().mean() - 0.5) < 0.03
    assert moves.angles.min() < -9.9
    assert moves.angles.max() > 9.9


@pytest.mark.parametrize("channels", [1, 3])
def test_colour_jitter_equals_torchvision(channels: int) -> None:
    images = torch.randint(0, 256, (16, channels, 8, 8), dtype=torch.uint8)
    jitter = draw_jitter(16, generator(), 0.5)
    functions = [single.adjust_brightness, single.adjust_contrast, single.adjust_saturation]
    made = jitter_colours(images, jitter)
    for position, image in enumerate(images):
        expected = image.float() / 255
        for kind in jitter.order:
            expected = functions[kind](expected, float(jitter.factors[kind, position]))
        torch.testing.assert_close(made[position] / 255, expected, atol=2e-4, rtol=0)


def test_jitter_factors_stay_within_their_strength() -> None:
    factors = draw_jitter(1000, generator(), 0.3).factors
    assert 0.7 <= factors.min() < 0.71
    assert 1.29 < factors.max() <= 1.3
    assert draw_jitter(1000, generator(), 2.0).factors.min() >= 0
    assert len({draw_jitter(1, generator(seed), 0.3).order for seed in range(60)}) == 6


def test_a_factor_of_one_changes_nothing(images: torch.Tensor) -> None:
    torch.testing.assert_close(jitter_colours(images, Jitter(torch.ones(3, 64), (2, 0, 1))), images.float())


def test_boxes_have_the_usual_size_and_stay_inside() -> None:
    boxes = draw_boxes(4000, generator(), 0.25, 32, 40)
    top, left, bottom, right = boxes.T
    is_erased = bottom > top
    assert abs(is_erased.float().mean() - 0.25) < 0.03
    assert boxes.min() >= 0
    assert bottom.max() <= 32
    assert right.max() <= 40
    share = ((bottom - top) * (right - left))[is_erased] / (32 * 40)
    assert share.min() > 0.015
    assert share.max() < 0.36
    aspect = ((bottom - top) / (right - left))[is_erased]
    assert 0.2 < aspect.min() < 0.5
    assert 2 < aspect.max() < 4.5


def test_erasing_fills_boxes_with_noise_and_nothing_else() -> None:
    images = torch.full((3, 3, 20, 20), 7.0)
    boxes = torch.tensor([[2, 3, 12, 9], [0, 0, 0, 0], [0, 0, 20, 20]])
    made = erase_(images.clone(), boxes, torch.tensor([10, 11, 12]), seed=0, epoch=0)
    assert torch.equal(made[1], images[1])
    is_changed = made[0] != 7
    assert is_changed[:, 2:12, 3:9].all()
    assert is_changed.sum() == 3 * 10 * 6
    assert abs(made[2].mean()) < 0.1
    assert abs(made[2].std() - 1) < 0.1
    alone = erase_(images[2:].clone(), boxes[2:], torch.tensor([12]), seed=0, epoch=0)
    assert torch.equal(alone[0], made[2])
