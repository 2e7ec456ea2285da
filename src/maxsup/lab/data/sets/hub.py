"""Sets of the Hugging Face ``datasets`` library, local or from the hub."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from maxsup.core.errors import DataError, hint
from maxsup.core.installation import imported
from maxsup.lab.data.bundle import FileSplit
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData, local_path, missing_data

_VAL_NAMES = ("validation", "val", "valid")


@DATASETS.register(
    "hf", images="any set with images and labels", source="Hugging Face datasets", argument="NAME_OR_PATH"
)
def hf(
    request: DataRequest, *, config: str | None = None, image_column: str | None = None, label_column: str | None = None
) -> RawData:
    """A set of the hub, or a folder it can read: saved by ``save_to_disk``, parquet files, an image folder.

    Args:
        request: What is asked for; the hub is only asked with ``download=True``.
        config: Name of the configuration, where a set has several.
        image_column: Column of the images; by default found by its type.
        label_column: Column of the labels; by default found by its type.
    """
    parts = _parts(request, config)
    known = ", ".join(sorted(parts))
    if "train" not in parts:
        raise _missing_splits(request.argument, known)
    train = parts["train"]
    features = train.features
    image_column = image_column or _column(features, "Image", request.argument)
    label_column = label_column or _column(features, "ClassLabel", request.argument)
    for column in (image_column, label_column):
        if column not in features:
            raise DataError(
                f"column of {request.argument!r} must be one it has; got {column!r}. {hint(column, features)}",
                code="bad-columns",
            )
    feature = features[label_column]
    names = tuple(feature.names if hasattr(feature, "names") else map(str, sorted(set(train[label_column]))))
    held_out = [name for name in (*_VAL_NAMES, "test") if name in parts]
    hidden = [name for name in held_out if _is_hidden(parts[name], label_column)]
    held_out = [name for name in held_out if name not in hidden]
    notes = [f"the {name} split has no labels and is left out" for name in hidden]
    if not held_out:
        raise _missing_splits(request.argument, "; ".join([known, *notes]))
    if "test" in hidden:
        notes.append(f"the {held_out[-1]} split takes the place of the test split")
    splits = [_split(part, image_column, label_column, names) for part in (train, parts[held_out[-1]])]
    val = _split(parts[held_out[0]], image_column, label_column, names) if len(held_out) > 1 else None
    return RawData(splits[0], splits[1], names, val=val, notes=tuple(notes))


@dataclass(frozen=True)
class TableImages:
    """Opens the encoded image of a row; a table on disk stays there."""

    table: Any
    column: str

    def __call__(self, row: int) -> Any:
        """The file of a row."""
        stored = self.table[row][self.column]
        return io.BytesIO(stored["bytes"]) if stored["bytes"] is not None else stored["path"]


def _parts(request: DataRequest, config: str | None) -> Any:
    library = imported("datasets", extra="hf")
    path = local_path(request.argument, request.root)
    if not path.exists() and not request.download:
        raise missing_data(request, str(path), "Add data.download=true to ask the hub for it.")
    try:
        if (path / "dataset_dict.json").is_file():
            return library.load_from_disk(str(path))
        return library.load_dataset(str(path) if path.exists() else request.argument, config)
    except (OSError, ValueError, ConnectionError) as error:
        place = str(path) if path.exists() else f"{request.argument} of the hub"
        raise missing_data(request, place, f"The datasets library says: {error}") from error


def _missing_splits(name: str, found: str) -> DataError:
    return DataError(f"splits of {name!r} must be train and test or validation; got {found}. Split it first.")


def _is_hidden(part: Any, label_column: str) -> bool:
    """Whether a split keeps its labels to itself, which benchmarks write as -1 or leave empty."""
    return len(part) > 0 and all(label is None or label == -1 for label in part[label_column])


def _column(features: Any, kind: str, name: str) -> str:
    columns = [column for column, feature in features.items() if type(feature).__name__ == kind]
    if len(columns) != 1:
        option = "image_column" if kind == "Image" else "label_column"
        raise DataError(
            f"{name!r} must have one {kind} column; got {columns!r} among {sorted(features)}. "
            f"Set data.options.{option}.",
            code="bad-columns",
        )
    return str(columns[0])


def _split(part: Any, image_column: str, label_column: str, names: tuple[str, ...]) -> FileSplit:
    labels = part[label_column]
    if not hasattr(part.features[label_column], "names"):
        numbers = {name: number for number, name in enumerate(names)}
        if unknown := sorted({str(value) for value in labels} - set(names)):
            raise DataError(
                f"labels must be among those of the train split; got {unknown[0]!r}. Split the set again.",
                code="bad-columns",
            )
        labels = [numbers[str(value)] for value in labels]
    table = part.cast_column(image_column, imported("datasets", extra="hf").Image(decode=False))
    table = table.select_columns([image_column])
    return FileSplit([(row, int(label)) for row, label in enumerate(labels)], TableImages(table, image_column))
