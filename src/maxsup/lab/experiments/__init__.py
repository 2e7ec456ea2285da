"""Studies: the tables and figures of the paper as files, what they make one train, and paired statistics.

:func:`compare` and :func:`run_study` do what ``maxsup compare`` and ``maxsup study run`` do.

A ``.yaml`` file in this folder is the whole registration of a study. Names load what they need on first use, so that
listing studies costs neither pydantic nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxsup.lab.experiments.api import compare, run_study
    from maxsup.lab.experiments.design import Design, PlannedRun
    from maxsup.lab.experiments.experiment import Analysis, Arm, DataChoice, Experiment, Setting
    from maxsup.lab.experiments.result import StudyResult, read_result
    from maxsup.lab.experiments.statistics import (
        PairedComparison,
        compare_losses,
        detectable_difference,
        holm,
        paired_comparison,
        seeds_needed,
        smallest_p_value,
    )
    from maxsup.lab.experiments.study_files import describe_studies, load_study, study_names, study_path
    from maxsup.lab.experiments.study_format import Study
    from maxsup.lab.experiments.table import Cell, Metric, Table
    from maxsup.lab.experiments.verdicts import BOLD_RULE, conclusions, verdict_sentences

__all__ = [
    "BOLD_RULE",
    "Analysis",
    "Arm",
    "Cell",
    "DataChoice",
    "Design",
    "Experiment",
    "Metric",
    "PairedComparison",
    "PlannedRun",
    "Setting",
    "Study",
    "StudyResult",
    "Table",
    "compare",
    "compare_losses",
    "conclusions",
    "describe_studies",
    "detectable_difference",
    "holm",
    "load_study",
    "paired_comparison",
    "read_result",
    "run_study",
    "seeds_needed",
    "smallest_p_value",
    "study_names",
    "study_path",
    "verdict_sentences",
]

_HOMES = {
    "api": ("compare", "run_study"),
    "study_files": ("describe_studies", "load_study", "study_names", "study_path"),
    "result": ("StudyResult", "read_result"),
    "experiment": ("Analysis", "Arm", "DataChoice", "Experiment", "Setting"),
    "design": ("Design", "PlannedRun"),
    "table": ("Cell", "Metric", "Table"),
    "study_format": ("Study",),
    "statistics": (
        "PairedComparison",
        "compare_losses",
        "detectable_difference",
        "holm",
        "paired_comparison",
        "seeds_needed",
        "smallest_p_value",
    ),
    "verdicts": ("BOLD_RULE", "conclusions", "verdict_sentences"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'maxsup.lab.experiments' has no attribute {name!r}")
    return getattr(import_module(f"maxsup.lab.experiments.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
