import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.core.config import DenseConfig
from maxsup.lab.data import IGNORED_LABEL, DataBundle, load_data
from maxsup.lab.data.registry import IMAGENET_MEAN, IMAGENET_STD
from maxsup.lab.segmentation.masks import MaskSplit
from maxsup.lab.segmentation.pipeline import MaskPipeline
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import plan_for


def stored_masks(split: MaskSplit) -> list[np.ndarray]:
    return [np.asarray(Image.open(mask)) for _, mask in split.samples]


# ADE20K


@pytest.fixture
def ade20k_root(tmp_path):
    made.write_ade20k(tmp_path / "ADEChallengeData2016")
    return tmp_path


def test_ade20k_counts_its_classes_from_one_and_ignores_zero(ade20k_root) -> None:
    data = load_data("ade20k", root=ade20k_root)
    assert made.labels_of(data.test) == {0, 1, 149, IGNORED_LABEL}
    for sample, stored in zip(data.test.samples, stored_masks(data.test), strict=True):
        mask = data.test.reader(sample).mask
        assert np.array_equal(mask == IGNORED_LABEL, stored == 0)
        assert np.array_equal(mask[stored > 0], stored[stored > 0] - 1)


def test_ade20k_tests_on_its_validation_images(ade20k_root) -> None:
    data = load_data("ade20k", root=ade20k_root, val_share=0.2)
    assert (len(data.train), len(data.val), len(data.test)) == (8, 2, 4)
    assert all("/validation/" in image for image, _ in data.test.samples)
    assert not {image for image, _ in data.train.samples} & {image for image, _ in data.val.samples}


def test_ade20k_takes_the_first_name_of_each_class_or_numbers_them(ade20k_root) -> None:
    names = load_data("ade20k", root=ade20k_root).class_names
    assert (len(names), names[0], names[149]) == (150, "thing 1", "thing 150")
    (ade20k_root / "ADEChallengeData2016" / "objectInfo150.txt").unlink()
    assert load_data("ade20k", root=ade20k_root).class_names == tuple(map(str, range(150)))


def test_a_broken_list_of_names_is_refused(ade20k_root) -> None:
    path = ade20k_root / "ADEChallengeData2016" / "objectInfo150.txt"
    path.write_text("Idx\tName\n1\twall\n")
    with pytest.raises(DataError, match=re.escape(f"{path} must list 150 classes under a line of titles; got 1.")):
        load_data("ade20k", root=ade20k_root)


def test_ade20k_with_a_mask_missing_is_refused(ade20k_root) -> None:
    (ade20k_root / "ADEChallengeData2016" / "annotations" / "training" / "ADE_train_00000003.png").unlink()
    with pytest.raises(DataError, match=r"the first .*ADE_train_00000003\.jpg"):
        load_data("ade20k", root=ade20k_root)


# CamVid


@pytest.fixture
def camvid_root(tmp_path):
    made.write_masked_tree(tmp_path / "camvid", labels=list(range(12)), counts={"train": 6, "val": 3, "test": 2})
    return tmp_path


def test_camvid_ignores_its_twelfth_label(camvid_root) -> None:
    data = load_data("camvid", root=camvid_root)
    assert made.labels_of(data.train) == {*range(11), IGNORED_LABEL}
    assert (len(data.train), len(data.val), len(data.test)) == (6, 3, 2)
    assert (data.num_classes, data.class_names[0], data.class_names[10]) == (11, "Sky", "Bicyclist")


def test_camvid_takes_names_from_its_description(camvid_root) -> None:
    names = [f"kind {label}" for label in range(11)]
    (camvid_root / "camvid" / "meta.json").write_text(json.dumps({"classes": [*names, "nothing"]}))
    assert load_data("camvid", root=camvid_root).class_names == tuple(names)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"classes": 3}', '{"classes": ["a"]}'])
def test_a_broken_description_is_refused(camvid_root, text: str) -> None:
    (camvid_root / "camvid" / "meta.json").write_text(text)
    with pytest.raises(DataError, match=r"meta\.json must hold the names of the 11 classes; got"):
        load_data("camvid", root=camvid_root)


def test_without_a_share_the_validation_frames_are_trained_on(camvid_root) -> None:
    data = load_data("camvid", root=camvid_root, val_share=0)
    assert (len(data.train), len(data.val), len(data.test)) == (9, 0, 2)


# Trimaps of pets


@pytest.mark.parametrize("layout", ["official", "packed"])
def test_trimaps_are_pet_and_background_with_an_ignored_border(tmp_path, layout: str) -> None:
    if layout == "official":
        made.write_trimaps(tmp_path / "oxford-iiit-pet")
    else:
        for part, count in (("train", 8), ("test", 4)):
            home, names = tmp_path / "oxford_pets", [f"Bengal_{number}" for number in range(count)]
            made.write_masked(home / "images" / part / "Bengal", home / "trimaps" / part / "Bengal", names, [1, 2, 3])
    data = load_data("pets_trimaps", root=tmp_path, val_share=0)
    assert data.class_names == ("pet", "background")
    assert (len(data.train), len(data.test)) == (8, 4)
    for sample, stored in zip(data.train.samples, stored_masks(data.train), strict=True):
        assert np.array_equal(data.train.reader(sample).mask, np.array([9, 0, 1, IGNORED_LABEL])[stored])


def test_the_border_of_a_trimap_can_be_a_class(tmp_path) -> None:
    made.write_trimaps(tmp_path / "oxford-iiit-pet")
    data = load_data("pets_trimaps", root=tmp_path, border="class")
    assert data.class_names == ("pet", "background", "border")
    assert made.labels_of(data.train) == {0, 1, 2}


def test_border_is_one_of_two_words(tmp_path) -> None:
    with pytest.raises(ValueError, match="border must be ignore or class; got 'drop'"):
        load_data("pets_trimaps", root=tmp_path, border="drop")


def test_a_missing_trimap_is_refused_by_name(tmp_path) -> None:
    made.write_trimaps(tmp_path / "oxford-iiit-pet")
    gone = tmp_path / "oxford-iiit-pet" / "annotations" / "trimaps" / "Bengal_2.png"
    gone.unlink()
    with pytest.raises(DataError, match=re.escape(f"got no {gone}.")):
        load_data("pets_trimaps", root=tmp_path)


# Synthetic masks


@pytest.fixture(scope="module")
def drawn() -> DataBundle:
    return load_data("synthetic_masks")


def test_synthetic_masks_need_no_files(drawn: DataBundle) -> None:
    assert drawn.task == "segmentation"
    assert load_data("digits").task == "classification"
    assert drawn.train.describe() == "360 images with masks in memory"
    assert (len(drawn.val), len(drawn.test)) == (40, 100)
    assert drawn.class_names == ("background", *"0123456789")
    assert (drawn.mean, drawn.std, drawn.image_shape) == (IMAGENET_MEAN, IMAGENET_STD, None)


def test_synthetic_masks_hold_every_class_and_ignored_edges(drawn: DataBundle) -> None:
    for split in (drawn.train, drawn.val, drawn.test):
        assert made.labels_of(split) == {*range(11), IGNORED_LABEL}


def test_most_synthetic_pixels_are_background_and_every_digit_is_there(drawn: DataBundle) -> None:
    counts = sum(np.bincount(mask.ravel(), minlength=256) for _, _, mask in drawn.train.samples)
    shares = counts / counts.sum()
    assert 0.7 < shares[0] < 0.9
    assert (shares[1:11] > 0.005).all()
    assert 0.02 < shares[IGNORED_LABEL] < 0.12


def test_synthetic_digits_stand_out_from_what_is_around_them(drawn: DataBundle) -> None:
    brightest = [[], []]
    for _, pixels, mask in drawn.train.samples:
        for is_digit in (False, True):
            brightest[is_digit].append(pixels.max(2)[(mask > 0) == is_digit].mean())
    assert np.mean(brightest[True]) > np.mean(brightest[False]) + 50


def test_synthetic_masks_repeat_and_change_with_the_seed() -> None:
    one, same, other = (load_data("synthetic_masks", num_train=6, num_test=2, seed=seed) for seed in (0, 0, 1))
    for part in ("train", "val", "test"):
        for first, second in zip(getattr(one, part).samples, getattr(same, part).samples, strict=True):
            assert np.array_equal(first[1], second[1])
            assert np.array_equal(first[2], second[2])
    assert not np.array_equal(one.test.samples[0][1], other.test.samples[0][1])


def test_a_synthetic_image_does_not_depend_on_how_many_there_are() -> None:
    few, many = (load_data("synthetic_masks", num_train=count, num_test=3) for count in (10, 20))
    assert np.array_equal(few.train.samples[7][1], many.train.samples[7][1])
    assert np.array_equal(few.test.samples[2][2], many.test.samples[2][2])


def test_synthetic_images_have_the_size_that_is_asked_for() -> None:
    data = load_data("synthetic_masks", num_train=3, num_test=1, size=96, val_share=0)
    image, mask, name = data.train.reader(data.train.samples[2])
    assert (image.size, mask.shape, name) == ((96, 96), (96, 96), "train image 2")
    assert (len(data.train), len(data.val)) == (3, 0)


@pytest.mark.parametrize(("option", "value"), [("num_train", 1), ("num_test", 0), ("size", 16)])
def test_synthetic_options_have_a_least_value(option: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{option} must be at least"):
        load_data("synthetic_masks", **{option: value})


# The real thing


@pytest.mark.slow
def test_real_street_scenes_have_their_masks(real_data) -> None:
    data = load_data("camvid", root=real_data("camvid"))
    assert (len(data.train), len(data.val), len(data.test)) == (367, 101, 233)
    counts = sum(np.bincount(data.val.reader(sample).mask.ravel(), minlength=256) for sample in data.val.samples)
    assert counts[:11].min() > 0
    assert counts[11:IGNORED_LABEL].sum() == 0
    # The sky is up and bright, the road is down: images and masks are of the same frames.
    image, mask, _ = data.val.reader(data.val.samples[0])
    pixels = np.asarray(image).mean(2)
    assert pixels[mask == 0].mean() > pixels[mask == 3].mean() + 50
    assert np.nonzero(mask == 0)[0].mean() < np.nonzero(mask == 3)[0].mean() - 50


@pytest.mark.slow
@pytest.mark.parametrize("name", ["camvid", "pets_trimaps"])
def test_real_sets_stream_with_workers(real_data, name: str) -> None:
    data = load_data(name, root=real_data({"pets_trimaps": "oxford_pets"}.get(name, name)))
    dense = DenseConfig(resize=128, ratio=(0.5, 2.0), cat_max_ratio=0.75, photometric=True)
    options = {"batch_size": 16, "image_size": 96, "num_classes": data.num_classes}
    ends = []
    for num_workers in (0, 2):
        batches = MaskPipeline(data.train, plan_for(data.train, num_workers=num_workers, **options), dense)
        ends.append(list(batches.epoch(0, batches.num_batches - 3)))
    for alone, helped in zip(*ends, strict=True):
        assert torch.equal(alone.images, helped.images)
        assert torch.equal(alone.labels, helped.labels)
        assert (alone.labels[alone.labels != IGNORED_LABEL] < data.num_classes).all()
