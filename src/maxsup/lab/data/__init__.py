"""Data sets by name, and pipelines that turn them into batches.

A function in this folder with a ``@DATASETS.register`` decorator is the whole registration: ``load_data``,
``maxsup ls data`` and the contract tests find it.
"""

from __future__ import annotations

from maxsup.core.registry import import_modules
from maxsup.lab.data.bundle import (
    IGNORED_LABEL,
    DataBundle,
    FileSplit,
    LabelledSplit,
    MemorySplit,
    Split,
    stratified_split,
)
from maxsup.lab.data.corruptions.catalogue import CORRUPTIONS, EXTRA_CORRUPTIONS, SEVERITIES, corrupt, corrupted_split
from maxsup.lab.data.pipelines.batches import Batch, BatchPlan, Pipeline
from maxsup.lab.data.pipelines.pipeline import build_pipeline
from maxsup.lab.data.python_data import PythonData, data_name
from maxsup.lab.data.registry import DATASETS, data_root, describe_datasets, load_data
from maxsup.lab.data.sets.long_tail import shot_groups

import_modules(__name__)

__all__ = [
    "CORRUPTIONS",
    "DATASETS",
    "EXTRA_CORRUPTIONS",
    "IGNORED_LABEL",
    "SEVERITIES",
    "Batch",
    "BatchPlan",
    "DataBundle",
    "FileSplit",
    "LabelledSplit",
    "MemorySplit",
    "Pipeline",
    "PythonData",
    "Split",
    "build_pipeline",
    "corrupt",
    "corrupted_split",
    "data_name",
    "data_root",
    "describe_datasets",
    "load_data",
    "shot_groups",
    "stratified_split",
]
