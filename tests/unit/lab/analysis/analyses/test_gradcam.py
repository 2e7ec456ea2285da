from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from maxsup.core.errors import StorageError
from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import gradcam
from maxsup.lab.analysis.analyses.gradcam import maps_of, otsu_threshold, overlap
from maxsup.lab.analysis.object_masks import BACKGROUND, IGNORED, OBJECT
from maxsup.lab.figures.gallery import decoded, encoded
from maxsup.lab.models import Classifier, create_model
from tests.unit.lab.analysis.made import make_run, values

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
    # Maps are divided by their maximum plus 1e-7.
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet20", "tiny_vit"])
@pytest.mark.parametrize("classes", [[0, 1, 2], None])
def test_maps_are_those_of_the_grad_cam_package(name: str, classes: list[int] | None) -> None:
    package = pytest.importorskip("pytorch_grad_cam")
    target = pytest.importorskip("pytorch_grad_cam.utils.model_targets").ClassifierOutputTarget
    torch.manual_seed(0)
    model, images = create_model(name, 10).eval(), torch.randn(3, 3, 32, 32)
    with package.GradCAM(model, [model.cam_layer()], reshape_transform=model.to_map) as cam:
        expected = cam(images, targets=None if classes is None else [target(number) for number in classes])
    found, logits = maps_of(model, images, classes)
    assert expected.max() > 0.9
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert torch.equal(logits, model(images))


NAN = float("nan")


@pytest.mark.parametrize(
    ("heat", "mask", "expected"),
    [
        (
            [[1.0, 0.8, 0.2], [0.6, 0.0, 0.0], [0.0, 0.0, 0.4]],
            [[OBJECT, OBJECT, BACKGROUND], [BACKGROUND] * 3, [OBJECT, OBJECT, BACKGROUND]],
            {"precision": 2 / 3, "recall": 2 / 4, "pointing_game": 1.0, "energy": 1.8 / 3.0, "object_share": 4 / 9},
        ),
        (
            [[1.0, 0.9], [0.5, 0.0]],
            [[IGNORED, OBJECT], [BACKGROUND, OBJECT]],
            {"precision": 1 / 2, "recall": 1 / 2, "pointing_game": NAN, "energy": 0.9 / 1.4, "object_share": 2 / 3},
        ),
        ([[0.0, 0.0]], [[OBJECT, BACKGROUND]], {"precision": NAN, "recall": 0.0, "pointing_game": NAN, "energy": NAN}),
        ([[1.0, 1.0]], [[BACKGROUND, BACKGROUND]], {"recall": NAN, "pointing_game": NAN, "energy": NAN}),
    ],
    ids=["by hand", "a border that is not judged", "an empty map", "no object"],
)
def test_overlap_of_a_map_with_an_object(heat: list[Any], mask: list[Any], expected: dict[str, float]) -> None:
    found = overlap(np.array(heat, dtype=np.float32), np.array(mask, dtype=np.uint8))
    found |= {name: found[f"{name}_half"] for name in ("precision", "recall")}
    assert {name: found[name] for name in expected} == pytest.approx(expected, nan_ok=True)


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
    numbers = values(result)
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
