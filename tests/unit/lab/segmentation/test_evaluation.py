"""Masks seen whole, through a window, and at several scales."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from maxsup.core.errors import DataError, NonFiniteError
from maxsup.lab.core.config import Recipe
from maxsup.lab.data import DataBundle, load_data
from maxsup.lab.segmentation.evaluation import MULTI_SCALES, Views, evaluate_masks, log_probabilities, recipe_views
from maxsup.lab.segmentation.masks import MaskedImage, MaskSplit
from maxsup.lab.training.builders import build_model, split_pipeline
from tests.unit.lab.segmentation.tiny import tiny_recipe


class PixelModel(nn.Module):
    """Logits that depend on nothing but the pixel itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layer(images)
        return logits


def built(*overrides: str) -> tuple[Recipe, DataBundle, nn.Module]:
    recipe = tiny_recipe(*overrides)
    bundle = load_data("synthetic_masks", **recipe.data.options)
    return recipe, bundle, build_model(recipe, bundle)


def test_one_scale_without_mirroring_is_the_ordinary_evaluation() -> None:
    recipe, bundle, model = built()
    pipeline = split_pipeline(recipe, bundle, bundle.test)
    results = [
        evaluate_masks(model, pipeline, num_classes=11, views=views, split="test")
        for views in (recipe_views(recipe), Views((1.0,), has_flip=False))
    ]
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1].matrix, results[1][1].matrix)
    assert results[0][0]["n"] == 5
    batch = next(pipeline.epoch(0))
    with torch.no_grad():
        plain = model.eval()(batch.images).log_softmax(dim=1)
        seen = log_probabilities(model, [batch.images], batch.labels.shape[-2:], Views())
    torch.testing.assert_close(seen, plain, rtol=0, atol=0)


def test_probabilities_of_several_views_are_averaged() -> None:
    model, images = PixelModel().double(), torch.randn(1, 3, 12, 16, dtype=torch.float64)
    views = Views((0.5, 1.0), has_flip=True)
    small = nn.functional.interpolate(images, (6, 8), mode="bilinear")
    expected = torch.zeros(1, 4, 12, 16, dtype=torch.float64)
    for view in (small, images):
        for is_mirrored in (False, True):
            logits = model(view.flip(-1) if is_mirrored else view).float()
            logits = logits.flip(-1) if is_mirrored else logits
            expected += nn.functional.interpolate(logits, (12, 16), mode="bilinear").softmax(dim=1) / len(views)
    found = log_probabilities(model, [small, images], (12, 16), views).exp()
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(1, 12, 16), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(20, 31), (8, 40), (5, 6)])
def test_a_sliding_window_sees_every_pixel(height: int, width: int) -> None:
    model, images = PixelModel(), torch.randn(1, 3, height, width)
    whole = log_probabilities(model, [images], (height, width), Views())
    slid = log_probabilities(model, [images], (height, width), Views(window=8, stride=5))
    torch.testing.assert_close(slid, whole, rtol=0, atol=1e-5)


def test_masks_of_many_rows_are_normalised_as_one() -> None:
    model, images = PixelModel(), torch.randn(1, 3, 150, 21)
    found = log_probabilities(model, [images], (150, 21), Views())
    torch.testing.assert_close(found, model(images).detach().log_softmax(dim=1), rtol=0, atol=0)


def test_every_scale_must_have_its_image() -> None:
    with pytest.raises(ValueError, match="zip"):
        log_probabilities(PixelModel(), [torch.randn(1, 3, 8, 8)], (8, 8), Views((0.5, 1.0)))


def test_several_scales_are_each_made_from_the_image_as_it_was_read() -> None:
    recipe, bundle, model = built("dense.resize=20")
    pipeline = split_pipeline(recipe, bundle, bundle.test)
    seen: list[Tensor] = []
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    evaluate_masks(model, pipeline, num_classes=11, views=Views((2.0, 0.5), has_flip=True))
    # Of 40 pixels a side 20 are the base scale; twice that is the image itself, which the base scale has lost.
    _, pixels, _ = bundle.test.samples[0]
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    expected = (image - torch.tensor(bundle.mean).view(1, 3, 1, 1)) / torch.tensor(bundle.std).view(1, 3, 1, 1)
    assert [view.shape[-1] for view in seen[:4]] == [40, 40, 10, 10]
    torch.testing.assert_close(seen[0], expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(seen[1], expected.flip(-1), rtol=0, atol=1e-5)


def test_one_pixel_that_is_not_a_number_is_noticed() -> None:
    recipe, bundle, model = built()

    def spoil(module: nn.Module, inputs: object, logits: Tensor) -> None:
        logits[0, 7, 3, 5] = float("nan")

    model.register_forward_hook(spoil)
    with pytest.raises(NonFiniteError, match="logits must be finite; got nan or inf on split 'val'"):
        evaluate_masks(model, split_pipeline(recipe, bundle, bundle.test), num_classes=11, views=Views())


def test_the_usual_scales_are_six_and_twelve_views() -> None:
    assert MULTI_SCALES == (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)
    assert len(Views(MULTI_SCALES, has_flip=True)) == 12


def test_a_recipe_says_how_images_are_seen() -> None:
    assert recipe_views(tiny_recipe()) == Views()
    slide = recipe_views(tiny_recipe("dense.evaluation=slide", "dense.stride=20"), (0.5, 1.0), has_flip=True)
    assert slide == Views((0.5, 1.0), True, 32, 20)


def test_scales_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="scales must be factors above 0"):
        Views((0.0, 1.0))


def test_masks_are_judged_at_their_own_size() -> None:
    recipe, bundle, model = built("dense.resize=64")
    pipeline = split_pipeline(recipe, bundle, bundle.test)
    sizes: list[tuple[int, ...]] = []
    options = {"on_prediction": lambda index, found: sizes.append(tuple(found.shape))}
    evaluate_masks(model, pipeline, num_classes=11, views=Views(), **options)
    assert next(pipeline.epoch(0)).images.shape[-2:] == (64, 64)
    assert sizes == [(40, 40)] * 5


def relabelled(bundle: DataBundle, background: int) -> MaskSplit:
    """A test image whose digits are ignored and whose background has a label of its own."""
    name, pixels, mask = bundle.test.samples[0]
    labels = np.where(mask == 0, background, 255).astype(np.uint8)
    return MaskSplit([0], lambda _: MaskedImage(Image.fromarray(pixels), labels, name))


def test_a_split_without_a_labelled_pixel_cannot_be_judged() -> None:
    recipe, bundle, model = built()
    pipeline = split_pipeline(recipe, bundle, relabelled(bundle, 255))
    with pytest.raises(DataError, match="masks of split 'val' must have at least one labelled pixel; got 1 images"):
        evaluate_masks(model, pipeline, num_classes=11, views=Views())


def test_a_split_of_one_class_is_judged_with_a_warning() -> None:
    recipe, bundle, model = built()
    pipeline = split_pipeline(recipe, bundle, relabelled(bundle, 0))
    with pytest.warns(UserWarning, match="masks of split 'val' hold one class only"):
        numbers, _ = evaluate_masks(model, pipeline, num_classes=11, views=Views())
    assert numbers["majority_miou"] == 1.0
