import pytest
import torch

from maxsup.lab.core.config import AugmentConfig
from maxsup.lab.data import build_pipeline, load_data
from maxsup.lab.data.bundle import channel_statistics
from tests.unit.lab.data.batches import plan_for

pytestmark = pytest.mark.slow


def test_cifar10_has_its_published_statistics(real_data) -> None:
    data = load_data("cifar10", root=real_data("cifar10"), val_share=0)
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    mean, std = channel_statistics(data.train.images)
    assert mean == pytest.approx(data.mean, abs=1e-4)
    assert std == pytest.approx(data.std, abs=1e-4)


def test_cifar10_lt_has_its_published_counts(real_data) -> None:
    data = load_data("cifar10_lt", root=real_data("cifar10"), imbalance=50, val_share=0)
    assert torch.bincount(data.train.labels).tolist() == [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100]
    assert len(data.test) == 10_000


@pytest.mark.parametrize(("name", "classes", "side"), [("cifar100", 100, 32), ("flowers102", 102, 96)])
def test_array_sets_are_read(real_data, name: str, classes: int, side: int) -> None:
    data = load_data(name, root=real_data(name))
    assert data.num_classes == classes
    assert data.image_shape == (3, side, side)
    assert torch.bincount(data.val.labels, minlength=classes).min() >= 1


def test_folders_of_photographs_stream(real_data) -> None:
    data = load_data("folder:tiny_imagenet40", root=real_data("tiny_imagenet40"))
    assert data.num_classes == 40
    assert len(data.train) + len(data.val) + len(data.test) == 3200
    augment = AugmentConfig(random_resized_crop=True, flip=True, randaugment="rand-m9-mstd0.5-inc1")
    options = {"batch_size": 64, "augment": augment, "image_size": 56, "num_classes": 40}
    plans = [plan_for(data.train, num_workers=number, **options) for number in (0, 2)]
    pipelines = [build_pipeline(data.train, plan, tolerance=0.0) for plan in plans]
    ends = [list(pipeline.epoch(0, pipeline.num_batches - 3)) for pipeline in pipelines]
    for alone, helped in zip(*ends, strict=True):
        assert torch.equal(alone.images, helped.images)
        assert torch.equal(alone.labels, data.train.labels[helped.indices])
