"""Match the classes of the data to the outputs of a network."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.core.errors import DataError

_NUM_SHOWN = 5


class ClassOrder(NamedTuple):
    """The position of each class of the data among the outputs of a network."""

    indices: Tensor  # one output per class of the data
    names: tuple[str, ...]  # one name per output
    how: str  # how they were matched, for the reader


def class_order(
    names: Sequence[str], num_outputs: int, known: Sequence[Sequence[str]] = (), listed: Mapping[str, int] | None = None
) -> ClassOrder:
    """Match each class of the data to an output of the network: by the user's list, by name, or by order.

    ``names`` are the classes of the data, ``known`` all names of each output, and ``listed`` the user's list.

    Example:
        >>> class_order(["cat", "dog"], 3, [["a dog", "dog"], ["cow"], ["cat", "Felis catus"]]).indices
        tensor([2, 0])
        >>> class_order(["cat", "dog"], 3)
        Traceback (most recent call last):
        maxsup.core.errors.DataError: classes of the data must be classes of the network, which has 3 outputs; got 2 ...
    """
    shown = [aliases[0] for aliases in known] or [f"class {index}" for index in range(num_outputs)]
    if known and len(known[0]) > 1:
        shown = [aliases[:2][-1] for aliases in known]  # the second name is a word, the first an id
    by_name = _by_name(known) if listed is None else {_plain(name): index for name, index in listed.items()}
    found = [by_name.get(_plain(name)) for name in names]
    places = [place for place in found if place is not None]
    missing = [name for name, place in zip(names, found, strict=True) if place is None]
    if not missing:
        for index in (listed or {}).values():
            if not 0 <= index < num_outputs:
                raise DataError(
                    f"numbers of class names must be from 0 to {num_outputs - 1}, the outputs of the network; got "
                    f"{index}. Correct the list.",
                    code="bad-class-names",
                )
        if len(set(places)) < len(places):
            raise DataError(
                f"every class of the data must have an output of its own; got {len(places)} classes for "
                f"{len(set(places))} outputs. Correct the list of class names.",
                code="bad-class-names",
            )
        how = "found by name" if listed is None else "by the list of class names"
    elif listed is None and len(names) == num_outputs:
        places, how = list(range(num_outputs)), "in the order of their names"
    else:
        given = f"{len(names)} classes, of which {len(missing)} are not among its names" if by_name else len(names)
        raise DataError(
            f"classes of the data must be classes of the network, which has {num_outputs:,} outputs; got {given} "
            f"({', '.join(missing[:_NUM_SHOWN])}{', ...' if len(missing) > _NUM_SHOWN else ''}). Map the outputs in a "
            "file of class names (class_names, or --class-names on the command line): JSON of names and numbers, or "
            "one name per line in the order of the outputs.",
            code="bad-class-names",
        )
    if len(names) < num_outputs:
        how = f"{len(names):,} of the network's {num_outputs:,}, {how}; it chooses among all {num_outputs:,}"
    else:
        how = f"the network's, {how}"
    if not known or listed is not None:
        for name, index in zip(names, places, strict=True):
            shown[index] = name
    return ClassOrder(torch.tensor(places), tuple(shown), f"the classes of the data are {how}")


def read_class_names(path: Path) -> dict[str, int]:
    """Read outputs by name: text with one name per line, a JSON list, or JSON from names to numbers or the reverse."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        content: Any = json.loads(text) if path.suffix == ".json" else text.splitlines()
        if isinstance(content, dict):
            pairs = [(key, value) if isinstance(value, int) else (value, int(key)) for key, value in content.items()]
        else:
            lines = [str(line).strip() for line in content]
            pairs = [(line, index) for index, line in enumerate(filter(None, lines))]
        found = {str(name): int(index) for name, index in pairs}
    except (OSError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise DataError(
            f"class names must be a text file with one per line, or JSON of names and numbers; got {str(path)!r} "
            f"({error}). Correct it.",
            code="bad-class-names",
        ) from error
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(str(name) for name, _ in pairs).items() if count > 1)
        raise DataError(
            f"class names must differ; got {twice!r} twice in {str(path)!r}. Correct it.", code="bad-class-names"
        )
    return found


def _by_name(known: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return outputs by every name that only one of them has."""
    counts = Counter(_plain(name) for names in known for name in set(names))
    return {_plain(name): index for index, names in enumerate(known) for name in names if counts[_plain(name)] == 1}


def _plain(name: str) -> str:
    """Return a name in lower case without punctuation, because folder names vary."""
    return re.sub(r"[\W_]+", " ", name).strip().lower()
