"""Study files: where they are, what they are called, and how they are read.

Listing costs neither pydantic nor yaml.
"""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup.core.errors import hint
from maxsup.core.recipes import read_yaml, yaml_path

if TYPE_CHECKING:
    from pydantic import ValidationError

    from maxsup.studies.schema import Study

FOLDER = Path(__file__).resolve().parent

_LISTED = ("label", "kind", "title")


def study_names() -> list[str]:
    """Names of the studies that come with the package.

    Example:
        >>> len(study_names()), "tab_pre" in study_names()
        (23, True)
    """
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def describe_studies() -> list[dict[str, str]]:
    """Name, label in the paper, kind and title of every study."""
    rows = []
    for name in study_names():
        text = study_path(name).read_text(encoding="utf-8")
        found = {key: re.search(rf"^{key}: (.+)$", text, re.MULTILINE) for key in _LISTED}
        rows.append({"name": name, **{key: match[1] if match else "table" for key, match in found.items()}})
    return rows


def study_path(name: str) -> Path:
    """The file of a study: one of the package by its name, or the reader's own by its path.

    Example:
        >>> study_path("tab_pree")
        Traceback (most recent call last):
        ValueError: study must be a name or a .yaml file; got 'tab_pree'. Did you mean 'tab_pre'?
    """
    if ":" in name:
        # A label of the paper is what a reader has before them.
        name = _names_by_label().get(name, name)
    return yaml_path("study", name, FOLDER, fix="See maxsup study ls for names.")


def _names_by_label() -> dict[str, str]:
    """Studies by every label of the paper that they answer: their own, and those under ``also``."""
    found: dict[str, str] = {}
    for name in study_names():
        text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
        lines = re.findall(r"^(?:label|also): (.+)$", text, re.MULTILINE)
        found |= {label: name for line in lines for label in re.findall(r"\w+:\w+", line)}
    return found


def load_study(name: str | Path) -> Study:
    """The checked study under a name, under its label in the paper, or in a file.

    Example:
        >>> load_study("tab_pre").label, load_study("tab:pre").name, load_study("tab:imagenet_alpha").name
        ('tab:pre', 'tab_pre', 'tab_ablation_alpha')
    """
    from pydantic import ValidationError

    from maxsup.studies.schema import Study

    path = study_path(str(name))
    values = {"name": path.stem, **read_yaml(path)}
    try:
        return Study.model_validate(values)
    except ValidationError as error:
        raise ValueError(_complaints(error, f"study {path.stem}")) from None


def _complaints(error: ValidationError, source: str) -> str:
    """Every mistake of a file, in the words of this package."""
    from maxsup.studies.schema import Study

    sentences = []
    for detail in error.errors():
        location = ".".join(str(part) for part in detail["loc"])
        where = f"{location} in {source}" if location else source
        if detail["type"] == "extra_forbidden":
            *inner, key = (str(part) for part in detail["loc"])
            section = f"{'.'.join(inner)} in {source}" if inner else source
            fix = hint(key, _fields(Study, inner))
            sentences.append(f"key of {section} must be one it has; got {key!r}. {fix}")
        elif detail["type"] == "value_error":
            sentences.append(f"{where}: {detail['ctx']['error']}")
        elif detail["type"] == "missing":
            sentences.append(f"{where} must be given; got nothing. Compare with a study of the package.")
        else:
            rule = str(detail["msg"]).removeprefix("Input should be ")
            sentences.append(f"{where} must be {rule}; got {detail['input']!r}. Correct it.")
    return " ".join(sentences)


def _fields(model: Any, location: list[str]) -> list[str]:
    """Names of the fields of the model at a place; numbers and keys of mappings lead no deeper."""
    for part in location:
        if part in model.model_fields:
            inner = _model_in(model.model_fields[part].annotation)
            model = inner or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> Any:
    """The model in an annotation such as ``tuple[Entry, ...]`` or ``dict[str, EntryScale]``."""
    if hasattr(annotation, "model_fields"):
        return annotation
    return next((found for part in typing.get_args(annotation) if (found := _model_in(part))), None)
