"""Data sets by name, and pipelines that turn them into batches.

A function in this folder with a ``@DATASETS.register`` decorator is the whole registration: ``load_data``,
``maxsup ls data`` and the contract tests find it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from maxsup.data.batches import Batch, Pipeline
from maxsup.data.bundle import IGNORED_LABEL, DataBundle, FileSplit, MaskSplit, MemorySplit, Split, stratified_split
from maxsup.data.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, SEVERITIES, corrupt, corrupted_split
from maxsup.data.long_tail import shot_groups
from maxsup.data.pipeline import build_pipeline
from maxsup.data.python_data import PythonData, data_name
from maxsup.data.registry import DATASETS, data_root, describe_datasets, load_data

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "CORRUPTIONS",
    "DATASETS",
    "EXTRA_CORRUPTIONS",
    "IGNORED_LABEL",
    "SEVERITIES",
    "Batch",
    "DataBundle",
    "FileSplit",
    "MaskSplit",
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
