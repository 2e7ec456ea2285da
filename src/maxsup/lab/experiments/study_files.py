"""Study files: where they are, what they are called, and how they are read. Listing needs neither pydantic nor yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from maxsup.lab.core.recipes import read_yaml, yaml_path

if TYPE_CHECKING:
    from maxsup.lab.experiments.study_format import Study

FOLDER = Path(__file__).resolve().parent


def study_names() -> list[str]:
    """Names of the studies that come with the package.

    Example:
        >>> [name for name in study_names() if name.startswith("fig_")]
        ['fig_comparison', 'fig_gradcam', 'fig_logit_analysis']
    """
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def describe_studies() -> list[dict[str, str]]:
    """Name, label in the paper, kind and title of every study."""
    rows = []
    for name in study_names():
        text = study_path(name).read_text(encoding="utf-8")
        found = {key: re.search(rf"^{key}: (.+)$", text, re.MULTILINE) for key in ("label", "kind", "title")}
        rows.append({"name": name, **{key: match[1] if match else "table" for key, match in found.items()}})
    return rows


def study_path(name: str) -> Path:
    """The file of a study: one of the package by its name or label, or your own by its path."""
    # A label of the paper, or one of those under ``also``.
    for path in sorted(FOLDER.glob("*.yaml")) if ":" in name else ():
        lines = re.findall(r"^(?:label|also): (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if name in re.findall(r"[\w:-]+", " ".join(lines)):
            name = path.stem
    return yaml_path("study", name, FOLDER, fix="See maxsup study ls for names.")


def load_study(name: str | Path) -> Study:
    """The checked study under a name, under its label in the paper, or in a file.

    Example:
        >>> load_study("tab_pre").label, load_study("tab:comparison-new").name, load_study("tab:imagenet_alpha").name
        ('tab:pre', 'tab_comparison_new', 'tab_ablation_alpha')
    """
    from maxsup.lab.core.validation import validated
    from maxsup.lab.experiments.study_format import Study

    path = study_path(str(name))
    values = {"name": path.stem, **read_yaml(path)}
    return validated(Study, values, source=f"study {path.stem}", fix="Compare with a study of the package.")
