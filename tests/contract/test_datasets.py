"""Every registered data set can be loaded from small files in its own layout, and keeps the promises of all."""

import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.lab.core.config import AugmentConfig, DenseConfig
from maxsup.lab.data import (
    CORRUPTIONS,
    DATASETS,
    IGNORED_LABEL,
    DataBundle,
    FileSplit,
    MemorySplit,
    build_pipeline,
    load_data,
)
from maxsup.lab.data.registry import missing_places
from maxsup.lab.segmentation.masks import MaskSplit
from maxsup.lab.segmentation.pipeline import MaskPipeline
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import plan_for
from tests.unit.lab.data.sets.test_shards import write_shards

NAMES = DATASETS.names()
DENSE = ["ade20k", "camvid", "pets_trimaps", "synthetic_masks"]
WRITERS = {
    "fashion_mnist": lambda root: made.write_fashion_mnist(root / "FashionMNIST" / "raw"),
    "cifar10": lambda root: made.write_npz(root / "cifar10.npz", classes=10),
    "cifar100": lambda root: made.write_npz(root / "cifar100.npz", classes=100),
    "cifar10_lt": lambda root: made.write_npz(root / "cifar10.npz", classes=10, train=20),
    "cifar10_c": lambda root: (
        made.write_npz(root / "cifar10.npz", classes=10),
        made.write_cifar10_c(root / "CIFAR-10-C", CORRUPTIONS, 40),
    ),
    "imagenet": lambda root: made.write_tree(root / "imagenet", counts={"train": 10, "val": 4}),
    "cub200": lambda root: made.write_cub(root / "CUB_200_2011"),
    "stanford_cars": lambda root: made.write_cars(root / "stanford_cars"),
    "flowers102": lambda root: made.write_npz(root / "flowers102.npz", classes=102, side=24),
    "food101": lambda root: made.write_food(root / "food-101"),
    "pets": lambda root: made.write_pets(root / "oxford-iiit-pet"),
    "folder": lambda root: made.write_tree(root / "mine"),
    "arrays": lambda root: made.write_npz(root / "mine.npz"),
    "hf": lambda root: _write_table(root / "mine"),
    "wds": lambda root: write_shards(root, counts={"train": (12, 8), "test": (6,)}),
    "ade20k": lambda root: made.write_ade20k(root / "ADEChallengeData2016"),
    "camvid": lambda root: made.write_masked_tree(
        root / "camvid", labels=list(range(12)), counts={"train": 6, "val": 3, "test": 2}
    ),
    "pets_trimaps": lambda root: made.write_trimaps(root / "oxford-iiit-pet"),
}
# A data set without a writer needs no files.
NEEDS_FILES = [name for name in NAMES if name in WRITERS]
WRITTEN = {"folder": "folder:mine", "arrays": "arrays:mine.npz", "hf": "hf:mine", "wds": "wds:set-train-*.tar"}


def _write_table(home) -> None:
    import datasets

    features = datasets.Features({"photo": datasets.Image(), "kind": datasets.ClassLabel(names=["a", "b"])})
    pictures = made.pictures(20)
    parts = {
        split: datasets.Dataset.from_dict(
            {"photo": list(pictures[:count]), "kind": [index % 2 for index in range(count)]}, features=features
        )
        for split, count in (("train", 20), ("test", 6))
    }
    datasets.DatasetDict(parts).save_to_disk(str(home))


def settings(data: DataBundle, part: str) -> dict:
    own = {"mean": data.mean, "std": data.std, "num_classes": data.num_classes}
    return own | {"batch_size": 2, "is_training": part == "train"}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataBundle]:
    bundles = {}
    for name in NAMES:
        root = tmp_path_factory.mktemp(name)
        WRITERS.get(name, lambda root: None)(root)
        bundles[name] = load_data(WRITTEN.get(name, name), root=root)
    return bundles


def test_every_writer_is_that_of_a_data_set() -> None:
    assert set(WRITERS) <= set(NAMES)
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_is_complete(loaded: dict[str, DataBundle], name: str) -> None:
    data = loaded[name]
    assert data.name == WRITTEN.get(name, name)
    assert data.num_classes == len(data.class_names) > 1
    assert len(data.train) > 0
    assert len(data.test) > 0
    assert len(data.mean) == len(data.std) == (3 if data.image_shape is None else data.image_shape[0])
    assert all(0 < std < 1 for std in data.std)
    for split in (data.train, data.val, data.test):
        assert split.labels.dtype == torch.int64
        assert f"{len(split):,} images" in split.describe()
    assert data.describe().count("\n") == 3
    assert (data.task == "segmentation") == (name in DENSE)


@pytest.mark.parametrize("name", NAMES)
def test_a_validation_split_is_held_out_of_the_training_data(loaded: dict[str, DataBundle], name: str) -> None:
    data = loaded[name]
    assert 0 < len(data.val) < len(data.train)
    if isinstance(data.train, MaskSplit):
        paths = [{split.reader(sample).path for sample in split.samples} for split in (data.train, data.val, data.test)]
        assert sum(map(len, paths)) == len(set.union(*paths))
    elif isinstance(data.train, FileSplit) and data.train.opener is None:
        paths = [{path for path, _ in split.samples} for split in (data.train, data.val, data.test)]
        assert not paths[0] & paths[1]
        assert not (paths[0] | paths[1]) & paths[2]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DENSE])
@pytest.mark.parametrize("part", ["train", "test"])
def test_a_split_gives_batches(loaded: dict[str, DataBundle], name: str, part: str) -> None:
    data = loaded[name]
    split = getattr(data, part)
    options = settings(data, part) | {"augment": AugmentConfig(crop_padding=2, flip=True)}
    if isinstance(split, MemorySplit):
        options["image_size"] = None
    few = split.subset(torch.arange(min(len(split), 8)))
    batch = next(build_pipeline(few, plan_for(few, **options)).epoch(0))
    assert batch.images.dtype == torch.float32
    assert batch.images.shape == (2, *(data.image_shape or (3, 16, 16)))
    assert torch.equal(batch.labels, split.labels[batch.indices])
    assert batch.images.isfinite().all()


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("part", ["train", "test"])
def test_a_split_with_masks_gives_batches(loaded: dict[str, DataBundle], name: str, part: str) -> None:
    data = loaded[name]
    split = getattr(data, part)
    batch = next(MaskPipeline(split, plan_for(split, **settings(data, part)), DenseConfig()).epoch(0))
    assert batch.images.dtype == torch.float32
    assert batch.labels.dtype == torch.int64
    assert batch.images.isfinite().all()
    assert (batch.labels[batch.labels != IGNORED_LABEL] < data.num_classes).all()
    if part == "train":
        assert batch.images.shape == (2, 3, 16, 16)
        assert batch.labels.shape == (2, 16, 16)
    else:
        mask = split.reader(split.samples[0]).mask
        assert batch.images.shape == (1, 3, *mask.shape)
        assert batch.labels.tolist() == [mask.tolist()]


@pytest.mark.parametrize("name", NAMES)
def test_a_look_at_names_finds_out_whether_a_set_is_there(name: str, tmp_path) -> None:
    written = WRITTEN.get(name, name)
    assert bool(missing_places(written, tmp_path)) == (name in NEEDS_FILES)
    WRITERS.get(name, lambda root: None)(tmp_path)
    assert missing_places(written, tmp_path) == []


@pytest.mark.parametrize("name", NEEDS_FILES)
def test_a_missing_set_names_the_files_it_wants_and_how_to_get_them(name: str, tmp_path) -> None:
    written = {"folder": "folder:gone", "arrays": "arrays:gone.npz", "hf": "hf:gone", "wds": "wds:gone-*.tar"}.get(
        name, name
    )
    with pytest.raises(DataError) as error:
        load_data(written, root=tmp_path)
    sentence = str(error.value)
    assert f"{tmp_path}" in sentence or "gone" in sentence
    assert "must be at" in sentence
    assert len(sentence.partition("complete there. ")[2]) > 20
    assert error.value.exit_code == 4
