"""Which data sets can be used on this machine."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from maxsup.core.errors import DataError
from maxsup.lab.data import DATASETS, load_data
from maxsup.lab.experiments.experiment import DataChoice
from maxsup.lab.experiments.study_format import Obstacle


def obstacle_in(root: Path | None) -> Obstacle:
    """What says why data under a folder cannot be used; "" if it can."""

    def obstacle(choice: DataChoice) -> str:
        return _obstacle(choice.name, json.dumps(choice.options), root)

    return obstacle


@lru_cache(maxsize=64)
def _obstacle(name: str, options: str, root: Path | None) -> str:
    if name.partition(":")[0] not in DATASETS.names():
        return f"{name!r} is no data set."
    try:
        load_data(name, root=root, **json.loads(options))
    except DataError as error:
        return str(error)
    return ""
