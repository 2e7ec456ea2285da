"""A folder of yours whose splits hold ``images/`` and ``masks/``."""

from __future__ import annotations

from pathlib import Path

from maxsup.core.errors import DataError
from maxsup.data.bundle import IGNORED_LABEL, MaskSplit
from maxsup.data.registry import DataRequest, RawData, missing_data
from maxsup.data.sets.folder import FOLDERS, has_masks
from maxsup.dense.mask_files import MaskFileReader, Palette, paired_files

_MAX_LABEL = 2**16 - 1


@FOLDERS.register("masks")
def masked_tree(request: DataRequest, home: Path, num_classes: int | None, ignore: int, palette: Palette) -> RawData:
    """Images and masks of the same name; the options are those of the data set ``folder``."""
    parts = [home / "train", *(home / name for name in ("val", "test") if (home / name).is_dir())]
    for part in parts if len(parts) > 1 else [home / "test"]:
        if not has_masks(part):
            raise missing_data(request, f"{part}/{{images,masks}}", "Every split has both folders.")
    names = _mask_classes(home / "classes.txt", num_classes)
    if isinstance(ignore, bool) or not isinstance(ignore, int) or not 0 <= ignore <= _MAX_LABEL:
        raise ValueError(f"ignore must be a label from 0 to {_MAX_LABEL}; got {ignore!r}. Usual: {IGNORED_LABEL}.")
    reader = MaskFileReader({**{label: label for label in range(len(names))}, ignore: IGNORED_LABEL}, palette)
    splits = []
    for part in parts:
        pairs = paired_files(part / "images", part / "masks")
        if not pairs:
            raise missing_data(request, f"{part}/{{images,masks}}", "Both folders are empty.")
        splits.append(MaskSplit(pairs, reader, len(names)))
    return RawData(splits[0], splits[-1], names, val=splits[1] if len(splits) == 3 else None)


def _mask_classes(path: Path, num_classes: int | None) -> tuple[str, ...]:
    if path.is_file():
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        if num_classes not in (None, len(names)):
            raise DataError(f"num_classes must be the {len(names)} lines of {path}; got {num_classes}. Leave it out.")
    elif num_classes is not None:
        if isinstance(num_classes, bool) or not isinstance(num_classes, int):
            raise ValueError(f"num_classes must be a whole number; got {num_classes!r}. Count the labels.")
        names = tuple(str(label) for label in range(num_classes))
    else:
        raise DataError(
            f"the classes of masks must be known; got no {path}. Write one name a line into it, in the order of the "
            "labels, or set data.options.num_classes."
        )
    if not 2 <= len(names) <= IGNORED_LABEL:
        raise DataError(f"masks must have 2 to {IGNORED_LABEL} classes; got {len(names)}. Labels are bytes.")
    return names
