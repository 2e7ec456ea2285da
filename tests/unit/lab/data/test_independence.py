"""What a batch holds depends on seed, epoch and step: not on workers, ranks, or where one starts."""

import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest
import torch

from maxsup.lab.core.config import AugmentConfig, DenseConfig
from maxsup.lab.data import FileSplit, MemorySplit, Pipeline, Split, build_pipeline, load_data
from maxsup.lab.data.pipelines.streaming import begin_worker
from maxsup.lab.segmentation.pipeline import MaskPipeline
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import assert_equal_batches, joined_batches, plan_for

EVERYTHING = {
    "crop_padding": 2,
    "flip": True,
    "rotation": 20,
    "color_jitter": 0.4,
    "random_erasing": 0.5,
    "mixup": 0.8,
    "cutmix": 1.0,
}
SINGLE = EVERYTHING | {"crop_padding": 0, "random_resized_crop": True, "randaugment": "rand-m9-mstd0.5-inc1"}


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    home = tmp_path_factory.mktemp("files")
    made.write_files(home, [f"{index}.jpg" for index in range(22)], height=30, width=40)
    images = torch.from_numpy(made.pictures(22)).permute(0, 3, 1, 2).contiguous()
    labels = torch.arange(22) % 5
    masked = tmp_path_factory.mktemp("masked")
    made.write_masked_tree(masked, counts={"train": 22, "test": 2})
    return {
        "memory": MemorySplit(images, labels),
        "files": FileSplit([(str(home / f"{index}.jpg"), index % 5) for index in range(22)]),
        "masks": load_data(f"folder:{masked}", num_classes=3, val_share=0).train,
    }


def pipeline(split: Split, kind: str, **options) -> Pipeline:
    kinds = {
        "files": {"augment": AugmentConfig(**SINGLE), "image_size": 24},
        "memory": {"augment": AugmentConfig(**EVERYTHING), "image_size": None},
        "masks": {},
    }
    plan = plan_for(split, **({"batch_size": 6, "num_classes": 5} | kinds[kind] | options))
    dense = DenseConfig(resize=36, ratio=(0.5, 2.0), cat_max_ratio=0.75, photometric=True)
    return MaskPipeline(split, plan, dense) if kind == "masks" else build_pipeline(split, plan)


KINDS = pytest.mark.parametrize("kind", ["memory", "files", "masks"])


@KINDS
def test_an_epoch_repeats_and_the_next_is_another(splits, kind: str) -> None:
    batches = pipeline(splits[kind], kind)
    first, second = list(batches.epoch(0)), list(batches.epoch(1))
    assert_equal_batches(first, list(pipeline(splits[kind], kind).epoch(0)))
    assert [batch.indices.tolist() for batch in first] != [batch.indices.tolist() for batch in second]
    for epoch in (first, second):
        assert sorted(index for batch in epoch for index in batch.indices.tolist()) == list(range(22))
    assert [len(batch) for batch in first] == [6, 6, 6, 4]


@KINDS
def test_the_same_picture_looks_different_everywhere_and_in_every_epoch(splits, kind: str) -> None:
    repeated = splits[kind].subset(torch.zeros(20, dtype=torch.int64))
    augment = AugmentConfig(crop_padding=4, flip=True, rotation=30, color_jitter=0.4)
    batches = pipeline(repeated, kind, batch_size=20, **({} if kind == "masks" else {"augment": augment}))
    images = torch.cat([next(batches.epoch(epoch)).images for epoch in range(3)])
    assert len(images.unique(dim=0)) == 60


@KINDS
def test_another_seed_gives_another_order(splits, kind: str) -> None:
    one, other = (next(pipeline(splits[kind], kind, seed=seed).epoch(0)) for seed in (3, 4))
    assert not torch.equal(one.indices, other.indices)


@KINDS
def test_an_epoch_can_be_entered_anywhere(splits, kind: str) -> None:
    batches = pipeline(splits[kind], kind)
    whole = list(batches.epoch(2))
    for start in range(5):
        assert_equal_batches(whole[start:], list(batches.epoch(2, start)))
    with pytest.raises(ValueError, match="start must be from 0 to 4; got 5"):
        list(batches.epoch(2, 5))


def test_what_is_skipped_is_not_decoded(splits, monkeypatch: pytest.MonkeyPatch) -> None:
    from maxsup.lab.data.pipelines import streaming

    opened = []
    read_image = streaming.read_image
    monkeypatch.setattr(streaming, "read_image", lambda source: opened.append(source) or read_image(source))
    list(pipeline(splits["files"], "files").epoch(0, start=3))
    assert len(opened) == 4


@pytest.mark.parametrize(("source", "kind"), [("memory", "files"), ("files", "files"), ("masks", "masks")])
def test_workers_change_nothing(splits, source: str, kind: str) -> None:
    alone, helped = (list(pipeline(splits[source], kind, num_workers=number).epoch(1, 1)) for number in (0, 2))
    assert_equal_batches(alone, helped)


def test_a_worker_ends_although_a_thread_was_printing_when_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    stream = os.fdopen(write_end, "w")
    monkeypatch.setattr(sys, "stderr", stream)
    # More than a pipe takes: the thread keeps the lock of the stream until somebody reads.
    printing = threading.Thread(target=lambda: print("." * (1 << 20), file=stream))
    printing.start()
    os.read(read_end, 1)
    worker = os.fork()
    if worker == 0:
        begin_worker(0)
        sys.stderr.flush()
        os._exit(0)
    end = time.monotonic() + 5
    while (ended := os.waitpid(worker, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(worker, signal.SIGKILL)
    threading.Thread(target=lambda: os.fdopen(read_end).read()).start()
    printing.join()
    stream.close()
    assert ended == (worker, 0)


@KINDS
@pytest.mark.parametrize(("batch_size", "num_steps"), [(6, None), (7, None), (10, None), (5, 4)])
@pytest.mark.parametrize("world_size", [2, 3])
def test_processes_see_together_what_one_sees(
    splits, kind: str, batch_size: int, num_steps: int | None, world_size: int
) -> None:
    options = {"batch_size": batch_size, "num_steps": num_steps}
    alone = list(pipeline(splits[kind], kind, **options).epoch(1))
    parts = [
        list(pipeline(splits[kind], kind, rank=rank, world_size=world_size, **options).epoch(1))
        for rank in range(world_size)
    ]
    assert_equal_batches(alone, joined_batches(parts))
    assert all(len(part[0]) in (batch_size // world_size, batch_size // world_size + 1) for part in parts)


@KINDS
def test_global_generators_are_left_alone(splits, kind: str) -> None:
    random.seed(12345)
    np.random.seed(12345)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    list(pipeline(splits[kind], kind).epoch(0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_evaluation_keeps_the_order_and_augments_nothing(splits, kind: str) -> None:
    batches = list(pipeline(splits[kind], kind, is_training=False, drop_last=True).epoch(0))
    assert torch.cat([batch.indices for batch in batches]).tolist() == list(range(22))
    assert_equal_batches(batches, list(pipeline(splits[kind], kind, is_training=False, seed=99).epoch(5)))
    assert all(torch.equal(batch.target, splits[kind].labels[batch.indices]) for batch in batches)


@KINDS
def test_a_last_batch_that_is_not_full_can_be_dropped(splits, kind: str) -> None:
    batches = pipeline(splits[kind], kind, drop_last=True)
    assert batches.num_batches == 3
    assert [len(batch) for batch in batches.epoch(0)] == [6, 6, 6]
    with pytest.raises(ValueError, match="batch_size must be at most the number of samples"):
        pipeline(splits[kind], kind, drop_last=True, batch_size=23)
    with pytest.raises(ValueError, match="batch_size must be at least the number of processes"):
        pipeline(splits[kind], kind, batch_size=1, world_size=2)


@KINDS
def test_memory_format_changes_no_value(splits, kind: str) -> None:
    plain, last = (list(pipeline(splits[kind], kind, channels_last=flag).epoch(0)) for flag in (False, True))
    assert_equal_batches(plain, last)
    assert last[0].images.is_contiguous(memory_format=torch.channels_last)
    assert plain[0].images.is_contiguous()
