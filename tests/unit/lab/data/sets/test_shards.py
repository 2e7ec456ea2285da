import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.core.config import AugmentConfig
from maxsup.lab.data import build_pipeline, load_data
from maxsup.lab.data.sets import shards
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import plan_for

SIDE = 20


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_shards(home: Path, *, counts: dict[str, tuple[int, ...]] | None = None, kind: str = "cls") -> Path:
    """Shards of PNG files; the labels of a split are 0, 1, 2, 0, ..."""
    home.mkdir(parents=True, exist_ok=True)
    for split, sizes in (counts or {"train": (5, 4, 3), "validation": (2, 2)}).items():
        pictures = iter(made.pictures(sum(sizes), SIDE, SIDE))
        index = 0
        for number, size in enumerate(sizes):
            with tarfile.open(home / f"set-{split}-{number:04d}.tar", "w") as shard:
                for _ in range(size):
                    image = io.BytesIO()
                    Image.fromarray(next(pictures)).save(image, "png")
                    label = str(index % 3) if kind == "cls" else json.dumps({"label": index % 3})
                    for ending, content in (("png", image.getvalue()), (kind, label.encode())):
                        member = tarfile.TarInfo(f"{split}/{index:06d}.{ending}")
                        member.size = len(content)
                        shard.addfile(member, io.BytesIO(content))
                    index += 1
    return home


def seen(split, epoch: int, start: int = 0, **options) -> list[tuple[list[int], torch.Tensor]]:
    plain = {"mean": (0.0,) * 3, "std": (1.0,) * 3, "image_size": SIDE, "batch_size": 4, "num_classes": 3}
    batches = build_pipeline(split, plan_for(split, **plain | {"augment": AugmentConfig()} | options))
    return [(batch.indices.tolist(), batch.images) for batch in batches.epoch(epoch, start)]


@pytest.mark.parametrize("kind", ["cls", "json"])
@pytest.mark.parametrize("pattern", ["set-train-{0000..0002}.tar", "set-train-*.tar"])
def test_shards_hold_the_images_that_were_written_with_their_labels(tmp_path: Path, pattern: str, kind: str) -> None:
    data = load_data(f"wds:{write_shards(tmp_path / 'set', kind=kind)}/{pattern}", val_share=0.0)
    assert (len(data.train), len(data.test), data.num_classes) == (12, 4, 3)
    assert data.train.labels.tolist() == [0, 1, 2] * 4
    read = torch.cat([images for _, images in seen(data.train, 0, is_training=False)])
    expected = torch.from_numpy(made.pictures(12, SIDE, SIDE)).permute(0, 3, 1, 2) / 255
    assert torch.allclose(read, expected, atol=1e-6)


def test_an_epoch_depends_on_its_seed_alone_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    data = load_data(f"wds:{write_shards(tmp_path / 'set')}/set-train-*.tar", val_share=0.0)
    whole = seen(data.train, 1, is_training=True)
    for workers in (0, 2):
        rest = seen(data.train, 1, 2, is_training=True, num_workers=workers)
        assert [indices for indices, _ in rest] == [indices for indices, _ in whole[2:]]
        assert all(torch.equal(one, other) for (_, one), (_, other) in zip(rest, whole[2:], strict=True))
    assert sorted(index for indices, _ in whole for index in indices) == list(range(12))
    assert [indices for indices, _ in seen(data.train, 2, is_training=True)] != [indices for indices, _ in whole]


def test_headers_are_read_once_until_a_shard_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_shards(tmp_path / "set")
    opened: list[str] = []
    places = shards._places
    monkeypatch.setattr(shards, "_places", lambda path: opened.append(Path(path).name) or places(path))
    load_data(f"wds:{home}/set-train-*.tar")
    assert len(opened) == 5
    load_data(f"wds:{home}/set-train-*.tar")
    assert len(opened) == 5
    write_shards(home, counts={"train": (5, 4, 4)})
    assert len(load_data(f"wds:{home}/set-train-*.tar", val_share=0.0).train) == 13


@pytest.mark.parametrize("pattern", ["set-train-{0000..0002}.tar", "set-train-*.tar"])
def test_a_missing_shard_is_named(tmp_path: Path, pattern: str) -> None:
    home = write_shards(tmp_path / "set")
    (home / "set-train-0001.tar").unlink()
    with pytest.raises(DataError, match=r"got 2 of 3, without set-train-0001.tar"):
        load_data(f"wds:{home}/{pattern}")


def test_a_shard_with_another_number_of_images_than_it_should_have_is_named(tmp_path: Path) -> None:
    home = write_shards(tmp_path / "set")
    told = {"filenames": [f"set-train-{number:04d}.tar" for number in range(3)], "shard_lengths": [5, 9, 3]}
    (home / "_info.json").write_text(json.dumps({"splits": {"train": told}}))
    with pytest.raises(DataError, match=r"set-train-0001.tar must hold 9 images.*got 4"):
        load_data(f"wds:{home}/set-train-*.tar")


def test_a_shard_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    home = write_shards(tmp_path / "set")
    shard = home / "set-train-0002.tar"
    shard.write_bytes(np.random.default_rng(0).bytes(3000))
    with pytest.raises(DataError, match=r"set-train-0002.tar must be a whole, uncompressed tar file"):
        load_data(f"wds:{home}/set-train-*.tar")


def test_shards_to_test_on_must_be_known(tmp_path: Path) -> None:
    home = write_shards(tmp_path / "set", counts={"train": (6,), "held": (3,)})
    with pytest.raises(DataError, match=r"data.options.test"):
        load_data(f"wds:{home}/set-train-*.tar")
    assert len(load_data(f"wds:{home}/set-train-*.tar", test=f"{home}/set-held-*.tar").test) == 3
