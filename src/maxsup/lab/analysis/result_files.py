"""Names and contents of the files in which a run keeps the results of its analyses."""

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
    """A data set and its options in one word.

    Example:
        >>> data_label("cifar10", {}), data_label("cifar10_c", {"severities": [3]})
        ('cifar10', 'cifar10_c:{"severities": [3]}')
    """
    return f"{name}:{json_text(options)}" if options else name


def file_name(data: str) -> str:
    """A data set's name, or another word, as part of a file's name; other characters make it a digest.

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
    """Where :func:`analyze` puts the result of an analysis of a run; other options or other data, another file.

    ``options`` are those that were given, without defaults. ``data`` is what was analysed where that is not the run's
    own data, as :func:`data_label` calls it.

    Example:
        >>> result_path("run", "probe", options={"target": "cifar100"}).as_posix()
        'run/analysis/probe-test-target=cifar100.json'
    """
    words = [name, split, *([weights] if weights != "last" else [])]
    words += [f"on={file_name(data)}"] if data else []
    words += [f"{key}={file_name(str(value))}" for key, value in sorted((options or {}).items())]
    return RunDir(path).analysis / f"{'-'.join(words)}.json"


def read_results(path: str | Path, name: str) -> list[Result]:
    """All stored results of an analysis of a run, whatever split or options."""
    files = sorted(RunDir(path).require().analysis.glob(f"{name}-*.json"))
    return [with_number_names(read_json(file)) for file in files]
