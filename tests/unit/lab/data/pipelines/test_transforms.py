import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.lab.core.config import AugmentConfig
from maxsup.lab.data import FileSplit, MemorySplit, build_pipeline
from maxsup.lab.data.pipelines.pipeline import MemoryPipeline
from maxsup.lab.data.pipelines.transforms import evaluation_transform, seed_transforms, training_transform
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import plan_for

MEAN = (0.5, 0.5, 0.5)


@pytest.fixture
def picture() -> Image.Image:
    return Image.fromarray(made.pictures(1, 60, 90)[0])


def batches(split, **options):
    plain = {
        "mean": (0.0,) * 3,
        "std": (1.0,) * 3,
        "is_training": False,
        "augment": AugmentConfig(),
        "image_size": None,
    }
    return build_pipeline(split, plan_for(split, **(plain | options)))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"random_resized_crop": True},
        {"crop_mode": "squash", "crop_pct": 0.8, "random_crop": True},
        {"crop_padding": 4, "flip": True, "rotation": 10},
        {"randaugment": "rand-m9-mstd0.5-inc1", "color_jitter": 0.3, "interpolation": "bicubic"},
    ],
)
def test_training_images_are_bytes_of_the_wanted_size(picture: Image.Image, settings: dict) -> None:
    made_tensor = training_transform(AugmentConfig(**settings), 32, MEAN)(picture)
    assert made_tensor.shape == (3, 32, 32)
    assert made_tensor.dtype == torch.uint8


def test_nothing_set_means_nothing_random(picture: Image.Image) -> None:
    train, evaluation = training_transform(AugmentConfig(), 32, MEAN), evaluation_transform(AugmentConfig(), 32)
    assert torch.equal(train(picture), evaluation(picture))


def test_evaluation_takes_the_middle_of_the_resized_image(picture: Image.Image) -> None:
    made_tensor = evaluation_transform(AugmentConfig(crop_pct=0.8), 32)(picture)
    expected = picture.resize((60, 40), Image.Resampling.BILINEAR).crop((14, 4, 46, 36))
    assert np.array_equal(made_tensor.permute(1, 2, 0).numpy(), np.asarray(expected))


def test_squashing_gives_up_the_aspect_in_training_and_evaluation(picture: Image.Image) -> None:
    augment = AugmentConfig(crop_mode="squash", crop_pct=0.8, random_crop=True)
    resized = picture.resize((40, 40), Image.Resampling.BILINEAR)
    made_tensor = evaluation_transform(augment, 32)(picture)
    assert np.array_equal(made_tensor.permute(1, 2, 0).numpy(), np.asarray(resized.crop((4, 4, 36, 36))))
    crop = training_transform(augment, 32, MEAN)(picture).permute(1, 2, 0).numpy()
    whole = np.asarray(resized)
    places = [(top, left) for top in range(9) for left in range(9)]
    assert any(np.array_equal(crop, whole[top : top + 32, left : left + 32]) for top, left in places)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"random_resized_crop": True, "crop_padding": 4},
            "crop_padding must be 0 where random_resized_crop is on; got 4",
        ),
        ({"scale": (0.3, 1.0)}, r"scale must be left alone where random_resized_crop is off; got \(0.3, 1.0\)"),
        ({"random_resized_crop": True, "random_crop": True}, "random_crop must be off where random_resized_crop is on"),
        ({"crop_pct": 0.125}, r"crop_pct must be at least 0.67, .*; got 0.125. Usual: 0.875."),
    ],
)
def test_what_would_have_no_effect_is_refused(settings: dict, sentence: str) -> None:
    split = MemorySplit(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match=sentence):
        batches(split, augment=AugmentConfig(**settings), is_training=True, image_size=32)


def test_a_trained_run_that_sees_little_of_an_image_is_evaluated_with_a_warning() -> None:
    split = MemorySplit(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64))
    with pytest.warns(UserWarning, match=r"crop_pct must be at least 0.67"):
        assert batches(split, augment=AugmentConfig(crop_pct=0.125), image_size=32).num_batches == 1


def test_randaugment_must_be_written_as_timm_does() -> None:
    with pytest.raises(ValueError, match=r"randaugment must be written as timm does; got 'm9'"):
        training_transform(AugmentConfig(randaugment="m9"), 32, MEAN)


def test_randaugment_takes_grey_images() -> None:
    split = MemorySplit(torch.randint(0, 256, (8, 1, 16, 16), dtype=torch.uint8), torch.zeros(8, dtype=torch.int64))
    augment = AugmentConfig(randaugment="rand-m9-n3-mstd0.5-inc1")
    made_batches = batches(split, augment=augment, is_training=True, mean=(0.5,), std=(0.5,))
    assert next(made_batches.epoch(0)).images.shape == (4, 1, 16, 16)


def test_a_seed_holds_inside_and_not_outside() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with seed_transforms(5):
        inside = torch.rand(1), np.random.rand()
    with seed_transforms(5):
        assert (torch.rand(1), np.random.rand()) == inside
    assert torch.equal(torch.rand(2), expected)


def test_images_in_memory_are_resized_as_whole_batches() -> None:
    images = torch.from_numpy(made.pictures(5, 16, 16)).permute(0, 3, 1, 2).contiguous()
    made_batches = batches(MemorySplit(images, torch.arange(5) % 3), image_size=24)
    assert isinstance(made_batches, MemoryPipeline)
    made_images = next(made_batches.epoch(0)).images
    expected = torch.nn.functional.interpolate(images[:4].float() / 255, 24, mode="bilinear", antialias=True)
    torch.testing.assert_close(made_images, expected, atol=1.01 / 255, rtol=0)


def test_normalisation_is_per_channel() -> None:
    images = torch.randint(0, 256, (4, 3, 5, 5), dtype=torch.uint8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    made_images = next(
        batches(MemorySplit(images, torch.zeros(4, dtype=torch.int64)), mean=mean, std=std).epoch(0)
    ).images
    expected = (images.float() / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    torch.testing.assert_close(made_images, expected, atol=1e-6, rtol=1e-5)


def test_images_of_other_channels_are_only_augmented_as_whole_batches() -> None:
    split = MemorySplit(torch.zeros(4, 2, 8, 8, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64))
    settings = {"mean": (0.5,) * 2, "std": (0.5,) * 2, "is_training": True}
    assert next(batches(split, augment=AugmentConfig(crop_padding=1), **settings).epoch(0)).images.shape[1] == 2
    with pytest.raises(
        ValueError, match="images must be grey or RGB to be augmented one by one; got 4 images of 2x8x8"
    ):
        batches(split, augment=AugmentConfig(randaugment="rand-m9"), **settings)


def test_files_need_a_size() -> None:
    with pytest.raises(ValueError, match="image_size must be given for images that are not all square; got None"):
        batches(FileSplit([("a.jpg", 0)]))
