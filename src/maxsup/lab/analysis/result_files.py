"""Name and read the files with the results of a run's analyses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxsup.core.old_names import with_number_names
from maxsup.lab.analysis.registry import Result
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.files.storage import json_text


def data_label(name: str, options: Mapping[str, Any]) -> str:
    """Return a data set and its options as one word.

    Example:
        >>> data_label("cifar10", {}), data_label("cifar10_c", {"severities": [3]})
        ('cifar10', 'cifar10_c:{"severities": [3]}')
    """
    return f"{name}:{json_text(options)}" if options else name


def file_name(data: str) -> str:
    """Return a data set's name, or another word, as part of a file name. Special characters turn it into a digest.

    Example:
        >>> file_name("cifar10"), file_name("folder:my photos"), file_name("['cat', 'dog', 'deer']")
        ('cifar10', 'folder-f0b55f3e', 'ce5a527b')
    """
    if re.fullmatch(r"[\w.]+", data):
        return data
    kind = re.match(r"\w+(?=:)", data)
    digest = hashlib.blake2b(data.encode(), digest_size=4).hexdigest()
    return f"{kind.group()}-{digest}" if kind else digest


def result_path(
    path: str | Path,
    name: str,
    *,
    split: str = "test",
    weights: str = "last",
    options: Mapping[str, Any] | None = None,
    data: str | None = None,
) -> Path:
    """Return the path of the result of an analysis of a run. Other options or data give another file.

    ``options`` are those that were given, without defaults. ``data`` is the :func:`data_label` of the analysed data if
    it is not the run's own.

    Example:
        >>> result_path("run", "probe", options={"target": "cifar100"}).as_posix()
        'run/analysis/probe-test-target=cifar100.json'
    """
    words = [name, split, *([weights] if weights != "last" else [])]
    words += [f"on={file_name(data)}"] if data else []
    words += [f"{key}={file_name(str(value))}" for key, value in sorted((options or {}).items())]
    return RunDir(path).analysis / f"{'-'.join(words)}.json"


def read_results(path: str | Path, name: str) -> list[Result]:
    """Read all stored results of an analysis of a run, of any split and options."""
    files = sorted(RunDir(path).require().analysis.glob(f"{name}-*.json"))
    return [with_number_names(read_json(file)) for file in files]
