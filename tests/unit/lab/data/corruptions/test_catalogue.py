from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.data import (
    CORRUPTIONS,
    EXTRA_CORRUPTIONS,
    SEVERITIES,
    FileSplit,
    MemorySplit,
    corrupt,
    corrupted_split,
    load_data,
)
from maxsup.lab.data.corruptions import distortions, weather
from maxsup.lab.data.corruptions.distortions import Random
from tests.unit.lab.data import made

ALL = (*CORRUPTIONS, *EXTRA_CORRUPTIONS)
COLOURS = (("brightness", 2), ("saturate", 1), ("saturate", 5))
# Their published severities do not grow in every step: other parameters change along, or the kind of drops does.
UNEVEN = {"glass_blur", "elastic_transform", "spatter", "saturate"}


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    textured = made.pictures(24).astype(int) + np.random.default_rng(0).integers(-40, 40, (24, 32, 32, 3))
    return torch.from_numpy(textured.clip(0, 255).astype(np.uint8)).permute(0, 3, 1, 2).contiguous()


def damage(clean: torch.Tensor, name: str, severity: int) -> float:
    made_worse = corrupt(clean, name, severity).double().flatten(1)
    clean = clean.double().flatten(1)
    if name == "frost":
        # Frost darkens the image while it brightens it: how much of the image is left is what grows less.
        pairs = torch.stack([clean, made_worse], 1)
        return 1 - torch.stack([torch.corrcoef(pair)[0, 1] for pair in pairs]).mean().item()
    return (made_worse - clean).abs().mean().item()


def test_fifteen_and_four_corruptions_are_there() -> None:
    assert len(CORRUPTIONS) == 15
    assert set(EXTRA_CORRUPTIONS) == {"speckle_noise", "gaussian_blur", "spatter", "saturate"}


@pytest.mark.parametrize("name", ALL)
def test_a_corruption_keeps_shape_and_type_and_changes_every_image(images: torch.Tensor, name: str) -> None:
    for severity in SEVERITIES:
        made_worse = corrupt(images, name, severity)
        assert made_worse.dtype == torch.uint8
        assert made_worse.shape == images.shape
        assert (made_worse != images).flatten(1).any(1).all()


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNEVEN])
def test_damage_grows_with_severity(images: torch.Tensor, name: str) -> None:
    grown = [damage(images, name, severity) for severity in SEVERITIES]
    # Motion blur 3 and 4 differ in how far a tail reaches that is almost zero.
    assert all(later >= earlier * 0.999 for earlier, later in pairwise(grown)), grown
    assert grown[-1] > 1.1 * grown[0]


@pytest.mark.parametrize("name", ["glass_blur", "spatter"])
def test_the_last_severity_damages_more_than_the_first(images: torch.Tensor, name: str) -> None:
    assert damage(images, name, 5) > 1.2 * damage(images, name, 1)


def test_elastic_displacement_grows_where_the_tilt_is_left_out(images: torch.Tensor) -> None:
    pixels = images.permute(0, 2, 3, 1).numpy().astype(np.float32) / 255
    levels = [(0.05, 0.2), (0.08, 0.06), (0.1, 0.04), (0.1, 0.03)]
    moved = [
        np.abs(distortions.elastic_transform(pixels, (*level, 0.0), Random(0, "elastic", range(24))) - pixels).mean()
        for level in levels
    ]
    assert moved == sorted(moved)


@pytest.mark.parametrize("name", ALL)
def test_a_corruption_depends_on_seed_and_index_only(images: torch.Tensor, name: str) -> None:
    made_worse = corrupt(images, name, 3, seed=5)
    assert torch.equal(corrupt(images[:7], name, 3, seed=5), made_worse[:7])
    torch.manual_seed(1)
    np.random.seed(1)
    assert torch.equal(corrupt(images, name, 3, seed=5), made_worse)


@pytest.mark.parametrize("name", ["gaussian_noise", "fog", "snow", "frost", "glass_blur", "elastic_transform"])
def test_another_seed_gives_other_images(images: torch.Tensor, name: str) -> None:
    assert not torch.equal(corrupt(images, name, 3, seed=5), corrupt(images, name, 3, seed=6))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(2, 1, 28, 28), (2, 3, 48, 40), (0, 3, 32, 32)])
def test_any_size_and_grey_images_are_taken(name: str, shape: tuple[int, ...]) -> None:
    assert corrupt(torch.randint(0, 256, shape, dtype=torch.uint8), name, 4).shape == shape


def test_noise_has_the_published_strength() -> None:
    grey = torch.full((20, 3, 32, 32), 128, dtype=torch.uint8)
    gaussian = corrupt(grey, "gaussian_noise", 5).float() / 255
    assert gaussian.std().item() == pytest.approx(0.10, rel=0.02)
    shot = corrupt(grey, "shot_noise", 5).float() / 255
    assert shot.std().item() == pytest.approx((128 / 255 / 50) ** 0.5, rel=0.02)
    impulse = corrupt(grey, "impulse_noise", 5)
    assert (impulse != 128).float().mean().item() == pytest.approx(0.07, rel=0.05)
    assert set(impulse.unique().tolist()) == {0, 128, 255}


def test_colour_corruptions_are_those_of_hue_saturation_value(images: torch.Tensor) -> None:
    import colorsys

    pixels = images[:1, :, ::8, ::8].clone()
    pixels[0, :, 0, 0] = 77
    pixels[0, :, 0, 1] = 0
    made_worse = [corrupt(pixels, name, severity) for name, severity in COLOURS]
    colours = (part[0].flatten(1).T / 255 for part in (pixels, *made_worse))
    for before, bright, pale, loud in zip(*colours, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before.tolist())
        expected = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.1, 1))
        assert bright.tolist() == pytest.approx(expected, abs=0.003)
        assert pale.tolist() == pytest.approx(colorsys.hsv_to_rgb(hue, saturation * 0.3, value), abs=0.003)
        expected = colorsys.hsv_to_rgb(hue, min(saturation * 2.5 + 0.2, 1), value)
        assert loud.tolist() == pytest.approx(expected, abs=0.003)


def test_zooming_equals_that_of_scipy(images: torch.Tensor) -> None:
    from scipy.ndimage import zoom

    pixels = images.permute(0, 2, 3, 1).numpy().astype(np.float32) / 255
    for factor in (1.0, 1.07, 1.25):
        kept = int(np.ceil(32 / factor))
        first = (32 - kept) // 2
        expected = zoom(pixels[0, first : first + kept, first : first + kept], (factor, factor, 1), order=1)
        trimmed = (len(expected) - 32) // 2
        expected = expected[trimmed : trimmed + 32, trimmed : trimmed + 32]
        assert np.abs(distortions.zoom_images(pixels, factor)[0] - expected).max() < 1e-5


def test_motion_along_the_horizontal_is_a_running_mean_of_a_row() -> None:
    image = np.zeros((1, 9, 31, 1), np.float32)
    image[0, 4, 20] = 1
    blurred = distortions.directed_blur(image, 5, 2.0, np.array([0.0]))[0, ..., 0]
    weights = np.exp(-(np.arange(11) ** 2) / 8)
    assert blurred[4, 20:9:-1] == pytest.approx(weights / weights.sum(), abs=1e-6)
    assert blurred.sum() == pytest.approx(1, abs=1e-5)


def test_clouds_fill_their_range() -> None:
    clouds = weather.fractal_clouds(40, 2.0, Random(0, "fog", range(3)))
    assert clouds.shape == (3, 64, 64)
    assert clouds.min() == 0
    assert clouds.max() == 1


def test_jpeg_is_that_of_pillow(images: torch.Tensor, tmp_path) -> None:
    Image.fromarray(images[0].permute(1, 2, 0).numpy()).save(tmp_path / "a.jpg", quality=40)
    expected = np.asarray(Image.open(tmp_path / "a.jpg"))
    assert np.array_equal(corrupt(images[:1], "jpeg_compression", 5)[0].permute(1, 2, 0).numpy(), expected)


def test_a_split_keeps_its_labels_and_factors(images: torch.Tensor) -> None:
    split = MemorySplit(images, torch.arange(24), {"hue": torch.rand(24)})
    made_worse = corrupted_split(split, "fog", 2)
    assert torch.equal(made_worse.labels, split.labels)
    assert torch.equal(made_worse.factors["hue"], split.factors["hue"])
    assert torch.equal(made_worse.images, corrupt(images, "fog", 2))
    with pytest.raises(ValueError, match="split must be in memory to be corrupted; got 1 images in files"):
        corrupted_split(FileSplit([("a.jpg", 0)]), "fog", 2)


def test_wrong_requests_are_refused(images: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"got 'frog'\. Did you mean 'frost'|got 'frog'\. Did you mean 'fog'"):
        corrupt(images, "frog", 1)
    with pytest.raises(ValueError, match="severity must be from 1 to 5; got 0"):
        corrupt(images, "fog", 0)
    with pytest.raises(ValueError, match="images must be uint8"):
        corrupt(images.float(), "fog", 1)


@pytest.fixture
def root(tmp_path):
    made.write_npz(tmp_path / "cifar10.npz", classes=10)
    return tmp_path


def test_official_files_are_read_severity_by_severity(root) -> None:
    made.write_cifar10_c(root / "CIFAR-10-C", ("fog", "spatter"), 40)
    data = load_data("cifar10_c", root=root, corruptions=["fog", "spatter"], severities=[2, 5])
    assert len(data.test) == 4 * 40
    severity, corruption = data.test.factors["severity"], data.test.factors["corruption"]
    assert data.test.images[:, 0, 0, 0].tolist() == (severity + 10 * corruption).tolist()
    assert data.test.labels.tolist() == [index % 10 for index in range(40)] * 4
    clean = load_data("cifar10", root=root)
    assert torch.equal(data.train.images, clean.train.images)
    assert torch.equal(data.val.images, clean.val.images)


def test_corruptions_can_be_made_from_the_test_images(root) -> None:
    data = load_data("cifar10_c", root=root, corruptions=["fog"], severities=[3], is_generated=True)
    clean = load_data("cifar10", root=root).test
    assert torch.equal(data.test.images, corrupt(clean.images, "fog", 3))
    assert torch.equal(data.test.labels, clean.labels)


def test_a_missing_corruption_is_named(root) -> None:
    made.write_cifar10_c(root / "CIFAR-10-C", ("fog",), 10)
    with pytest.raises(DataError, match=r"CIFAR-10-C/\{frost.npy\}; .*zenodo.*is_generated=true"):
        load_data("cifar10_c", root=root, corruptions=["fog", "frost"])
    with pytest.raises(ValueError, match="got 'sun'"):
        load_data("cifar10_c", root=root, corruptions=["sun"])


def test_a_cut_off_corruption_file_is_refused(root) -> None:
    made.write_cifar10_c(root / "CIFAR-10-C", ("fog",), 10)
    path = root / "CIFAR-10-C" / "fog.npy"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match=r"fog.npy must be a plain .npy array"):
        load_data("cifar10_c", root=root, corruptions=["fog"])
