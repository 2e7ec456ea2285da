from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from maxsup.analysis import RunOutputs
from maxsup.analysis.analyses import gradcam
from maxsup.analysis.analyses.gradcam import maps_of, otsu_threshold, overlap
from maxsup.analysis.analyses.object_masks import BACKGROUND, IGNORED, OBJECT
from maxsup.core.errors import StorageError
from maxsup.figures.gallery import decoded, encoded
from maxsup.models import Classifier, create_model
from tests.unit.analysis.made import make_run

pytestmark = pytest.mark.slow


def corner_model() -> Classifier:
    """Class 0 is how bright the red channel is, class 1 the green one; features are the channels themselves."""
    body = nn.Sequential(nn.Identity(), nn.Conv2d(3, 3, 1, bias=False))
    head = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        body[1].weight.copy_(torch.eye(3)[:, :, None, None])
        head.weight.copy_(torch.tensor([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]]))
    return Classifier(body, head, 3).eval()


def two_corners() -> torch.Tensor:
    images = torch.zeros(1, 3, 8, 8)
    images[0, 0, :4, :4] = 1.0
    images[0, 1, 4:, 4:] = 1.0
    return images


def test_a_map_shows_what_speaks_for_the_class_that_is_asked_about() -> None:
    red, _ = maps_of(corner_model(), two_corners(), [0])
    green, logits = maps_of(corner_model(), two_corners(), [1])
    expected = np.zeros((8, 8))
    expected[:4, :4] = 1.0
    # The package divides by the maximum plus 1e-7.
    np.testing.assert_allclose(red[0], expected, atol=1e-5)
    np.testing.assert_allclose(green[0], expected[::-1, ::-1], atol=1e-5)
    assert logits.tolist() == [[0.0, 0.0]]


def test_without_a_class_the_predicted_one_is_asked_about() -> None:
    images = two_corners()
    images[0, 1] *= 2.0
    found, logits = maps_of(corner_model(), images, None)
    assert logits.argmax().item() == 1
    assert found[0].argmax() == 36


def test_the_model_is_left_as_it_was() -> None:
    model = corner_model()
    maps_of(model, two_corners(), [0])
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_the_class_token_of_a_transformer_is_no_part_of_its_map() -> None:
    torch.manual_seed(0)
    model = create_model("tiny_vit", 4, image_size=16, embed_dim=32, depth=2, num_heads=2).eval()
    images = torch.randn(3, 3, 16, 16)
    found, logits = maps_of(model, images, [0, 1, 2])
    assert found.shape == (3, 16, 16)
    assert logits.shape == (3, 4)
    tokens: list[torch.Tensor] = []
    model.cam_layer().register_forward_hook(lambda module, inputs, output: tokens.append(output))
    logits = model(images)
    gradient = torch.autograd.grad(logits[0, 0] + logits[1, 1] + logits[2, 2], tokens[0])[0]
    assert tokens[0].shape[1] == 65
    # The formula on the 8x8 patches alone: weights are mean gradients over them.
    weights = gradient[:, 1:].mean(dim=1)
    heat = (tokens[0][:, 1:] * weights[:, None]).sum(dim=2).relu().detach().view(3, 8, 8)
    for number in range(3):
        large = cv2.resize((heat[number] - heat[number].min()).numpy(), (16, 16))
        scaled = (large - large.min()) / (large.max() - large.min())
        np.testing.assert_allclose(found[number], scaled, atol=1e-3)


def test_overlap_of_a_made_case_by_hand() -> None:
    heat = np.array([[1.0, 0.8, 0.2], [0.6, 0.0, 0.0], [0.0, 0.0, 0.4]], dtype=np.float32)
    mask = np.full((3, 3), BACKGROUND, dtype=np.uint8)
    mask[0, 0] = mask[0, 1] = mask[2, 0] = mask[2, 1] = OBJECT
    found = overlap(heat, mask)
    assert found["precision_half"] == pytest.approx(2 / 3)
    assert found["recall_half"] == pytest.approx(2 / 4)
    assert found["pointing_game"] == 1.0
    assert found["energy"] == pytest.approx(1.8 / 3.0)
    assert found["object_share"] == pytest.approx(4 / 9)


def test_a_border_that_is_not_judged_counts_nowhere() -> None:
    heat = np.array([[1.0, 0.9], [0.5, 0.0]], dtype=np.float32)
    mask = np.array([[IGNORED, OBJECT], [BACKGROUND, OBJECT]], dtype=np.uint8)
    found = overlap(heat, mask)
    assert found["precision_half"] == pytest.approx(1 / 2)
    assert found["recall_half"] == pytest.approx(1 / 2)
    assert found["energy"] == pytest.approx(0.9 / 1.4)
    assert found["object_share"] == pytest.approx(2 / 3)
    assert np.isnan(found["pointing_game"])


def test_an_empty_map_has_no_precision_and_an_image_without_object_no_recall() -> None:
    mask = np.array([[OBJECT, BACKGROUND]], dtype=np.uint8)
    nothing = overlap(np.zeros((1, 2), dtype=np.float32), mask)
    assert np.isnan([nothing["precision_half"], nothing["pointing_game"], nothing["energy"]]).all()
    assert nothing["recall_half"] == 0.0
    absent = overlap(np.ones((1, 2), dtype=np.float32), np.zeros((1, 2), dtype=np.uint8))
    assert np.isnan([absent["recall_half"], absent["pointing_game"], absent["energy"]]).all()


def test_otsu_splits_as_opencv_does() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        heat = generator.beta(0.5, 1.5, (24, 24)).astype(np.float32)
        levels = np.rint(heat * 255).astype(np.uint8)
        threshold, _ = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
        expected = levels > threshold
        # Values between two levels may fall on either side.
        assert ((heat >= otsu_threshold(heat)) != expected).mean() < 0.01


def test_a_run_with_known_objects_is_scored(drawn_run: Path) -> None:
    run = RunOutputs(drawn_run)
    result = gradcam.compute(run, split="test", num_images=4, num_scored=30)
    numbers = {name: entry["value"] for name, entry in result["numbers"].items()}
    assert 25 <= numbers["num_scored"] <= 35
    assert 0.05 < numbers["object_share"] < 0.35
    assert all(0 <= numbers[name] <= 1 for name in ("precision_half", "recall_otsu", "pointing_game", "energy"))
    assert len(result["data"]["cells"]) == 4
    index = result["data"]["indices"][2]
    assert result["data"]["cells"][2]["label"] == run.bundle.class_names[int(run.bundle.test.labels[index])]
    shown = decoded(result["data"]["cells"][2]["image"])
    np.testing.assert_array_equal(shown, run.bundle.test.images[index].permute(1, 2, 0).numpy())


def test_without_masks_there_is_a_gallery_and_no_score(digit_runs: list[Path]) -> None:
    result = gradcam.compute(RunOutputs(digit_runs[0]), split="test")
    assert set(result["numbers"]) == {"active_share"}
    assert len(result["data"]["cells"]) == 6
    assert len({cell["label"] for cell in result["data"]["cells"]}) == 6


def test_all_runs_show_the_same_images(digit_runs: list[Path]) -> None:
    found = [gradcam.compute(RunOutputs(path), split="test")["data"] for path in digit_runs[:2]]
    assert found[0]["indices"] == found[1]["indices"]
    assert [cell["image"] for cell in found[0]["cells"]] == [cell["image"] for cell in found[1]["cells"]]


def test_a_transformer_has_a_gallery_too(tmp_path: Path) -> None:
    options = ("model.name=tiny_vit", "model.options={embed_dim: 32, depth: 2, num_heads: 2}")
    run = RunOutputs(make_run(tmp_path / "vit", "maxsup", *options))
    result = gradcam.compute(run, split="test", num_images=3)
    assert decoded(result["data"]["cells"][0]["map"]).shape == (8, 8)


@pytest.mark.parametrize("text", ["not base64!", "aGVsbG8="])
def test_a_picture_that_was_tampered_with_is_refused(text: str) -> None:
    with pytest.raises(StorageError, match="must be a small PNG"):
        decoded(text)


def test_large_pictures_are_stored_small() -> None:
    assert decoded(encoded(np.zeros((300, 200, 3), dtype=np.uint8))).shape == (112, 75, 3)
