"""Small data sets in every layout that is read, made of random pictures."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
from PIL import Image

from maxsup.lab.segmentation.masks import MaskSplit


def pictures(count: int, height: int = 32, width: int = 32, seed: int = 0) -> np.ndarray:
    """Smooth random RGB pictures, so that they survive JPEG."""
    coarse = np.random.default_rng(seed).integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(image).resize((width, height))) for image in coarse])


def write_npz(path: Path, *, classes: int = 3, train: int = 10, test: int = 4, side: int = 32) -> None:
    """``train`` and ``test`` pictures of each class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        train_images=pictures(classes * train, side, side, seed=1),
        train_labels=np.arange(classes * train) % classes,
        test_images=pictures(classes * test, side, side, seed=2),
        test_labels=np.arange(classes * test) % classes,
        class_names=np.array([f"class {label}" for label in range(classes)]),
    )


def write_files(folder: Path, names: list[str], *, height: int = 40, width: int = 48, seed: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, image in zip(names, pictures(len(names), height, width, seed), strict=True):
        Image.fromarray(image).save(folder / name)


def write_tree(home: Path, *, classes: int = 3, counts: dict[str, int] | None = None) -> None:
    """An ImageFolder tree; ``counts`` images a class in each split."""
    for number, (split, count) in enumerate((counts or {"train": 10, "test": 4}).items()):
        for label in range(classes):
            names = [f"{index}.jpg" for index in range(count)]
            write_files(home / split / f"class_{label}", names, seed=100 * number + label)


def write_cub(home: Path) -> None:
    """Twelve birds of two species, every other one for training."""
    names = [f"00{1 + number // 6}.Bird{number // 6}/bird_{number:02d}.jpg" for number in range(12)]
    for name in names:
        write_files(home / "images" / Path(name).parent, [Path(name).name])
    (home / "images.txt").write_text("".join(f"{number + 1} {name}\n" for number, name in enumerate(names)))
    (home / "image_class_labels.txt").write_text("".join(f"{n + 1} {1 + n // 6}\n" for n in range(12)))
    (home / "train_test_split.txt").write_text("".join(f"{n + 1} {(n + 1) % 2}\n" for n in range(12)))
    (home / "classes.txt").write_text("1 001.Bird0\n2 002.Bird1\n")


def write_cars(home: Path) -> None:
    """Eight cars of two makes in each split."""
    from scipy.io import savemat

    (home / "devkit").mkdir(parents=True)
    savemat(home / "devkit" / "cars_meta.mat", {"class_names": np.array(["car a", "car b"], dtype=object)})
    names = [f"{number:05d}.jpg" for number in range(8)]
    rows = np.zeros(8, dtype=[("fname", object), ("class", object)])
    rows["fname"], rows["class"] = names, [1, 2] * 4
    for split, table in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        write_files(home / f"cars_{split}", names)
        savemat(home / table, {"annotations": rows})


def write_flowers(home: Path) -> None:
    """Two flowers in each of the three splits."""
    from scipy.io import savemat

    write_files(home / "jpg", [f"image_{number:05d}.jpg" for number in range(1, 7)])
    savemat(home / "imagelabels.mat", {"labels": np.array([1, 2, 1, 2, 1, 2])})
    savemat(home / "setid.mat", {"trnid": np.array([1, 2]), "valid": np.array([3, 4]), "tstid": np.array([5, 6])})


def write_food(home: Path) -> None:
    """Two dishes, four images of each for training."""
    (home / "meta").mkdir(parents=True)
    for split, numbers in (("train", range(4)), ("test", range(4, 6))):
        dishes = {dish: [f"{dish}/{number}" for number in numbers] for dish in ("soup", "cake")}
        (home / "meta" / f"{split}.json").write_text(json.dumps(dishes))
        for dish in dishes:
            write_files(home / "images" / dish, [f"{number}.jpg" for number in numbers])


def write_pets(home: Path) -> None:
    """A breed of cats and one of dogs."""
    (home / "annotations").mkdir(parents=True)
    for split, numbers in (("trainval", range(4)), ("test", range(4, 6))):
        names = [f"{breed}_{number}" for number in numbers for breed in ("Bengal", "beagle")]
        lines = [f"{name} {1 + position % 2} {1 + position % 2} 1\n" for position, name in enumerate(names)]
        (home / "annotations" / f"{split}.txt").write_text("".join(lines))
        write_files(home / "images", [f"{name}.jpg" for name in names])


def write_fashion_mnist(home: Path) -> None:
    """Idx files as they are unpacked."""
    home.mkdir(parents=True)
    for split, count in (("train", 40), ("t10k", 10)):
        images = pictures(count, 28, 28)[..., 0]
        head = b"".join(number.to_bytes(4, "big") for number in (0x803, count, 28, 28))
        (home / f"{split}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = b"".join(number.to_bytes(4, "big") for number in (0x801, count))
        (home / f"{split}-labels-idx1-ubyte").write_bytes(head + bytes(index % 10 for index in range(count)))


def write_cifar10_batches(home: Path) -> None:
    """Pickled batches as they are unpacked; torchvision checks their sums before it reads them."""
    home.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{part}" for part in range(1, 6)), "test_batch"]):
        data = pictures(20, seed=number).transpose(0, 3, 1, 2).reshape(20, -1)
        (home / name).write_bytes(pickle.dumps({"data": data, "labels": [index % 10 for index in range(20)]}))
    (home / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"kind {label}" for label in range(10)]}))


def write_cifar10_c(home: Path, names: tuple[str, ...], size: int) -> None:
    """Official files of five blocks of ``size`` images; every pixel of a block is its severity."""
    home.mkdir(parents=True)
    blocks = np.repeat(np.arange(1, 6, dtype=np.uint8), size)
    for number, name in enumerate(names):
        np.save(home / f"{name}.npy", np.broadcast_to(blocks[:, None, None, None] + 10 * number, (5 * size, 32, 32, 3)))
    np.save(home / "labels.npy", np.tile(np.arange(size, dtype=np.uint8) % 10, 5))


def masks(count: int, height: int, width: int, labels: list[int], seed: int = 0) -> np.ndarray:
    """Patches of these labels, every one of them somewhere in each mask."""
    generator = np.random.default_rng(seed)
    coarse = generator.choice(np.array(labels, dtype=np.uint8), (count, 4, 4))
    places = generator.permuted(np.tile(np.arange(16), (count, 1)), axis=1)[:, : len(labels)]
    np.put_along_axis(coarse.reshape(count, 16), places, np.array(labels[:16], dtype=np.uint8)[None], axis=1)
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    return coarse[:, rows][:, :, columns]


def write_masked(images: Path, masks_folder: Path, names: list[str], labels: list[int], *, seed: int = 0) -> None:
    """Pictures of 40x48 as JPEG, and a mask each as PNG."""
    write_files(images, [f"{name}.jpg" for name in names], seed=seed)
    masks_folder.mkdir(parents=True, exist_ok=True)
    for name, mask in zip(names, masks(len(names), 40, 48, labels, seed), strict=True):
        Image.fromarray(mask).save(masks_folder / f"{name}.png")


def write_masked_tree(home: Path, *, labels: list[int] | None = None, counts: dict[str, int] | None = None) -> None:
    """``<split>/images`` and ``<split>/masks``."""
    for number, (split, count) in enumerate((counts or {"train": 10, "test": 4}).items()):
        names = [f"{index:03d}" for index in range(count)]
        write_masked(home / split / "images", home / split / "masks", names, labels or [0, 1, 2, 255], seed=number)


def write_ade20k(home: Path) -> None:
    """The layout of ADEChallengeData2016."""
    for part, short, count in (("training", "train", 10), ("validation", "val", 4)):
        names = [f"ADE_{short}_{number:08d}" for number in range(1, count + 1)]
        write_masked(home / "images" / part, home / "annotations" / part, names, [0, 1, 2, 150])
    rows = "".join(f"{n}\t0.1\t5\t5\t1\tthing {n}, object {n}\n" for n in range(1, 151))
    (home / "objectInfo150.txt").write_text("Idx\tRatio\tTrain\tVal\tStuff\tName\n" + rows)


def write_trimaps(home: Path) -> None:
    """The layout of Oxford-IIIT Pet with its trimaps."""
    write_pets(home)
    (home / "annotations" / "trimaps").mkdir()
    for number, image in enumerate(sorted((home / "images").iterdir())):
        mask = masks(1, 40, 48, [1, 2, 3], seed=number)[0]
        Image.fromarray(mask).save(home / "annotations" / "trimaps" / f"{image.stem}.png")


def labels_of(split: MaskSplit) -> set[int]:
    """All labels in the masks of a split."""
    return {int(label) for sample in split.samples for label in np.unique(split.reader(sample).mask)}
