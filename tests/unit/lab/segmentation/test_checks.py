"""What does not fit images with masks, or images without, is refused before anything is trained."""

import pytest
import torch

from maxsup.lab.core.config import AugmentConfig, DenseConfig
from maxsup.lab.data import load_data
from maxsup.lab.segmentation.checks import check_dense, check_not_dense, prepare_for_masks
from maxsup.lab.training.builders import build_model, split_pipeline
from maxsup.lab.training.preflight.check import check_recipe
from maxsup.losses import create_loss
from tests.unit.lab.segmentation.tiny import tiny_recipe


def test_a_loss_for_masks_leaves_their_unlabelled_pixels_out() -> None:
    criterion = create_loss("maxsup", alpha=0.1)
    prepare_for_masks(criterion)
    logits = torch.randn(2, 4, 5, 5)
    labels = torch.randint(0, 4, (2, 5, 5))
    labels[:, 2] = 255
    kept = create_loss("maxsup", alpha=0.1)(logits[:, :, [0, 1, 3, 4]], labels[:, [0, 1, 3, 4]])
    torch.testing.assert_close(criterion(logits, labels), kept, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        ("zipf_ls", {"ranking": "dense"}, "loss must need nothing but logits where images have masks"),
        ("ols", {}, "loss must not learn from epoch to epoch where images have masks; got OnlineLabelSmoothingLoss"),
        ("ce", {"ignore_index": 7}, "loss.ignore_index must be 255 or left out where images have masks; got 7"),
    ],
)
def test_losses_that_masks_cannot_be_trained_with_are_refused(
    loss: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        prepare_for_masks(create_loss(loss, **options))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.name=tiny_vit"], "model must be a segmenter where images have masks; got 'tiny_vit'"),
        (["data.name=digits", "data.image_size=32"], "data must have masks for the segmenter 'upernet'"),
    ],
)
def test_a_model_of_the_other_kind_is_refused(overrides: list[str], message: str) -> None:
    recipe = tiny_recipe(*overrides)
    bundle = load_data(recipe.data.name, **recipe.data.options)
    with pytest.raises(ValueError, match=message):
        build_model(recipe, bundle)


def test_every_recipe_of_a_segmenter_can_be_checked_without_data() -> None:
    assert check_recipe(tiny_recipe())["model"] == "upernet"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.name=tiny_vit"], "model must be a segmenter"),
        (["augment.mixup=0.2"], "augment.mixup must be left alone for images with masks"),
        (["model.classifier=tde"], "model.classifier must be linear for a segmenter; got 'tde'"),
        (["data.image_size=null"], "image_size must be given for images with masks"),
        (["data.name=digits", "model.name=small_cnn", "dense.resize=20"], "dense.resize must be left alone for images"),
        (["dense.evaluation=slide", "dense.stride=33"], "dense.stride must be at most data.image_size"),
        (["dense.evaluation=slide", "dense.stride=33", "data.image_size=null"], "dense.stride must be at most"),
    ],
)
def test_settings_without_effect_are_found_before_data_is_read(overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_recipe(tiny_recipe(*overrides))


@pytest.mark.parametrize(
    "setting",
    [
        {"crop_padding": 4},
        {"rotation": 10},
        {"random_resized_crop": True},
        {"scale": (0.5, 1.0)},
        {"random_crop": True},
        {"crop_pct": 0.875},
        {"crop_mode": "squash"},
        {"randaugment": "rand-m9"},
        {"random_erasing": 0.2},
        {"mixup": 0.8},
        {"cutmix": 1.0},
        {"color_jitter": 0.4},
        {"interpolation": "bicubic"},
    ],
    ids=lambda setting: next(iter(setting)),
)
@pytest.mark.parametrize("is_training", [True, False])
def test_a_setting_that_masks_do_not_have_is_refused(setting: dict, is_training: bool) -> None:
    with pytest.raises(ValueError, match=rf"augment\.{next(iter(setting))} must be left alone for images with masks"):
        check_dense(AugmentConfig(**setting), 64, is_training=is_training)


def test_flipping_and_normalisation_are_for_masks_too() -> None:
    augment = AugmentConfig(flip=True, mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0, interpolation="bilinear")
    assert check_dense(augment, 64, is_training=True) is None
    # Only training crops.
    assert check_dense(augment, None, is_training=False) is None


@pytest.mark.parametrize(
    "setting",
    [
        {"resize": 64},
        {"ratio": (0.5, 2.0)},
        {"cat_max_ratio": 0.75},
        {"photometric": True},
        {"evaluation": "slide", "stride": 40},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_a_setting_for_masks_is_refused_without_them(setting: dict) -> None:
    with pytest.raises(ValueError, match=rf"dense\.{next(iter(setting))} must be left alone for images without masks"):
        check_not_dense(DenseConfig(**setting))


def test_batches_of_labels_are_refused_settings_for_masks() -> None:
    recipe = tiny_recipe("data.name=digits", "data.options={}", "model.name=small_cnn", "dense.resize=20")
    bundle = load_data("digits")
    with pytest.raises(ValueError, match=r"dense\.resize must be left alone for images without masks; got 20"):
        split_pipeline(recipe, bundle, bundle.train)
