import csv
import multiprocessing
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.lab.data import FileSplit, build_pipeline
from maxsup.lab.data.pipelines.decoding import BadImageError, read_image
from tests.unit.lab.data import hostile, made
from tests.unit.lab.data.batches import plan_for

NUM_LEFT_OUT = len(hostile.LEFT_OUT) + 1


@pytest.fixture
def split(tmp_path) -> FileSplit:
    """The hostile files, each behind a good one."""
    made.write_files(tmp_path / "good", [f"{index}.jpg" for index in range(len(hostile.FILES) + 1)])
    bad = hostile.write_all(tmp_path / "bad")
    good = [(str(tmp_path / "good" / f"{index}.jpg"), index % 3) for index in range(len(bad))]
    return FileSplit([sample for pair in zip(good, bad, strict=True) for sample in pair])


def batches(split: FileSplit, *, tolerance: float = 0.5, bad_files: Path | None = None, **options):
    plan = plan_for(split, **({"batch_size": 8} | options))
    return build_pipeline(split, plan, tolerance=tolerance, bad_files=bad_files)


def rows(path) -> dict[str, tuple[str, str]]:
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["path", "status", "reason"]
    assert len({line[0] for line in lines}) == len(lines)
    return {line[0].rpartition("/")[2]: (line[1], line[2]) for line in lines}


@pytest.mark.parametrize("name", hostile.LEFT_OUT)
def test_a_broken_file_is_refused_with_a_reason(tmp_path, name: str) -> None:
    (tmp_path / name).write_bytes(hostile.FILES[name])
    with pytest.raises(BadImageError, match=r"\w{3,}"):
        read_image(str(tmp_path / name))


@pytest.mark.parametrize("name", [*hostile.USED, *hostile.PLAIN])
def test_an_odd_file_is_read_and_its_oddity_said(tmp_path, name: str) -> None:
    (tmp_path / name).write_bytes(hostile.FILES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image, note = read_image(str(tmp_path / name))
    assert image.mode == "RGB"
    assert note == (hostile.USED[name][1] if name in hostile.USED else None)


def test_sixteen_bits_are_scaled_not_cut(tmp_path) -> None:
    (tmp_path / "grey16.png").write_bytes(hostile.FILES["grey16.png"])
    levels = np.asarray(read_image(str(tmp_path / "grey16.png"))[0])[..., 0]
    assert levels.min() == 0
    assert levels.max() == 1999 * 32 // 257


def test_a_camera_file_with_two_pictures_is_nothing_odd(tmp_path) -> None:
    hostile.PICTURE.save(tmp_path / "photo.jpg", "MPO", save_all=True, append_images=[hostile.PICTURE])
    image, note = read_image(str(tmp_path / "photo.jpg"))
    assert image.size == hostile.PICTURE.size
    assert note is None


@pytest.mark.parametrize("num_workers", [0, 2])
def test_training_goes_on_and_lists_every_bad_file(split: FileSplit, tmp_path, num_workers: int) -> None:
    listed = tmp_path / "run" / "bad_files.csv"
    seen = list(batches(split, num_workers=num_workers, bad_files=listed).epoch(0))
    assert sum(map(len, seen)) == len(split)
    found = rows(listed)
    assert {name for name, (status, _) in found.items() if status == "left out"} == {*hostile.LEFT_OUT, "gone.jpg"}
    assert {name: reason for name, (status, reason) in found.items() if status == "used"} == {
        name: reason for name, (_, reason) in hostile.USED.items()
    }
    assert "64 megapixels" in found["huge.png"][1]


def test_training_takes_the_next_readable_file_with_its_own_label(split: FileSplit) -> None:
    broken = {index for index, (path, _) in enumerate(split.samples) if "/bad/" in path}
    broken -= {
        index for index in broken if split.samples[index][0].rpartition("/")[2] in {**hostile.USED, **hostile.PLAIN}
    }
    for batch in batches(split).epoch(0):
        assert not broken & set(batch.indices.tolist())
        assert torch.equal(batch.labels, split.labels[batch.indices])


def test_workers_do_not_change_what_takes_the_place_of_a_bad_file(split: FileSplit) -> None:
    alone, helped = (list(batches(split, num_workers=number).epoch(3)) for number in (0, 2))
    assert all(torch.equal(one.images, other.images) for one, other in zip(alone, helped, strict=True))


def test_a_file_is_listed_once_over_epochs_and_resumed_runs(split: FileSplit, tmp_path) -> None:
    listed = tmp_path / "bad_files.csv"
    for _ in range(2):
        pipeline = batches(split, bad_files=listed)
        for epoch in range(2):
            list(pipeline.epoch(epoch))
    assert len(rows(listed)) == NUM_LEFT_OUT + len(hostile.USED)


def test_no_list_is_made_where_nothing_is_bad(tmp_path) -> None:
    made.write_files(tmp_path / "good", ["0.jpg", "1.jpg"])
    good = FileSplit([(str(tmp_path / "good" / name), 0) for name in ("0.jpg", "1.jpg")])
    list(batches(good, bad_files=tmp_path / "bad_files.csv").epoch(0))
    assert not (tmp_path / "bad_files.csv").exists()


@pytest.mark.parametrize(("is_training", "num_workers"), [(True, 0), (False, 0), (True, 2)])
def test_too_many_bad_files_end_the_run_and_the_first_is_named(
    split: FileSplit, tmp_path, is_training: bool, num_workers: int
) -> None:
    options = {"tolerance": 0.05, "is_training": is_training, "num_workers": num_workers}
    pipeline = batches(split, bad_files=tmp_path / "bad_files.csv", **options)
    before = set(multiprocessing.active_children())
    with pytest.raises(
        DataError, match=r"a share of 0.05; got \d+ of 62 .*, the first .*/bad/[\w.]+ \(.*bad_files"
    ) as error:
        list(pipeline.epoch(0))
    assert error.value.exit_code == 4
    assert set(multiprocessing.active_children()) <= before
    first = str(error.value).partition("the first ")[2].partition(" ")[0]
    with (tmp_path / "bad_files.csv").open() as file:
        left_out = [row["path"] for row in csv.DictReader(file) if row["status"] == "left out"]
    assert left_out[0] == first


def test_a_split_of_bad_files_only_ends_the_run_at_any_tolerance(tmp_path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="images must be readable"):
        list(batches(FileSplit([(str(tmp_path / "a.jpg"), 0)] * 3), tolerance=1.0).epoch(0))


def test_evaluation_substitutes_nothing_and_says_what_is_missing(split: FileSplit) -> None:
    pipeline = batches(split, is_training=False)
    with pytest.warns(UserWarning, match=f"{NUM_LEFT_OUT} of 62 images could not be read and are missing"):
        seen = list(pipeline.epoch(0))
    indices = torch.cat([batch.indices for batch in seen])
    assert pipeline.num_missing == NUM_LEFT_OUT
    assert len(indices) == len(indices.unique()) == 62 - NUM_LEFT_OUT
    assert torch.equal(torch.cat([batch.labels for batch in seen]), split.labels[indices])


def test_a_whole_batch_that_is_missing_comes_empty(tmp_path) -> None:
    made.write_files(tmp_path, ["2.jpg"])
    split = FileSplit([(str(tmp_path / f"{index}.jpg"), 0) for index in range(3)])
    with pytest.warns(UserWarning, match="2 of 3 images"):
        seen = list(batches(split, batch_size=2, is_training=False, tolerance=1.0).epoch(0))
    assert [tuple(batch.images.shape) for batch in seen] == [(0, 3, 16, 16), (1, 3, 16, 16)]


@pytest.mark.parametrize("name", ["huge.png", "larger.png", "bomb.png"])
def test_a_huge_image_is_refused_by_its_header(tmp_path, name: str) -> None:
    (tmp_path / name).write_bytes(hostile.FILES[name])
    # Decoding would have complained about what the file holds, not about its size.
    with pytest.raises(BadImageError, match=r"64 megapixels|DecompressionBomb"):
        read_image(str(tmp_path / name))


def test_a_name_that_is_no_text_can_be_listed(tmp_path) -> None:
    name = "caf\udce9.jpg"
    (tmp_path / name).write_bytes(b"")
    made.write_files(tmp_path, ["good.jpg"])
    split = FileSplit([(str(tmp_path / "good.jpg"), 0), (str(tmp_path / name), 0)])
    list(batches(split, bad_files=tmp_path / "bad_files.csv").epoch(0))
    assert "caf\\udce9.jpg" in rows(tmp_path / "bad_files.csv")
