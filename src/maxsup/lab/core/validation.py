"""Values from a file as a typed model, and mistakes in them in the words of this package."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from maxsup.core.errors import coded, hint

Model = TypeVar("Model", bound=BaseModel)

# What other programs call settings of a recipe.
ELSEWHERE = {
    "alpha": "loss.alpha",
    "batch": "batch_size",
    "label_smoothing": "loss.name=ls loss.alpha",
    "learning_rate": "optimizer.lr",
    "smoothing": "loss.name=ls loss.alpha",
    "workers": "data.num_workers",
}


def validated(model: type[Model], values: Mapping[str, Any], *, source: str, fix: str = "Correct it.") -> Model:
    """The model that ``values`` describe; one ValueError names every mistake in them.

    ``source``, the name of the file, and ``fix`` are words for messages.

    Example:
        >>> class Point(BaseModel, extra="forbid"):
        ...     x: float
        >>> validated(Point, {"x": 1}, source="point")
        Point(x=1.0)
        >>> validated(Point, {"x": "far", "xx": 2}, source="point a")
        Traceback (most recent call last):
        ValueError: x in point a must be number, unable to parse string as a number; got 'far'. Correct it. key of
        point a must be one it has; got 'xx'. Did you mean 'x'?
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        sentences = " ".join(_sentence(detail, model, source, fix) for detail in error.errors())
        raise coded(ValueError(sentences), "bad-settings") from None


def _sentence(detail: Any, model: type[BaseModel], source: str, fix: str) -> str:
    *section, key = [str(part) for part in detail["loc"]] or [""]
    where = f"{'.'.join([*section, key])} in {source}" if key else source
    if detail["type"] == "extra_forbidden":
        owner = f"{'.'.join(section)} in {source}" if section else source
        for part in section:  # indices and keys of mappings are skipped
            if part in model.model_fields:
                model = _model_in(model.model_fields[part].annotation) or model
        place = None if section else place_of_key(key, model)
        advice = f"Write {place}=..." if place else hint(key, model.model_fields)
        return f"key of {owner} must be one it has; got {key!r}. {advice}"
    if detail["type"] == "value_error":
        # Written by a validator of the model in the words of this package.
        return f"{where if key else source}: {detail['ctx']['error']}"
    if detail["type"] == "missing":
        return f"{where} must be given. {fix}"
    if detail["type"] == "invalid_key":
        return f"key of {source} must be a word; got {detail['input']!r}. {fix}"
    rule = str(detail["msg"]).removeprefix("Input should be ").removeprefix("a valid ")
    if detail["type"] == "less_than_equal":
        rule = f"at most {detail['ctx']['le']:g}"
    return f"{where} must be {rule}; got {detail['input']!r}. {fix}"


def place_of_key(key: str, model: type[BaseModel]) -> str | None:
    """Return where a model has a key: at the top, in one of its sections, or under another name."""
    if key in model.model_fields:
        return key
    if key in ELSEWHERE:
        return ELSEWHERE[key]
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None and key in inner.model_fields:
            return f"{name}.{key}"
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as ``tuple[Entry, ...]`` or ``dict[str, EntryScale]``."""
    if hasattr(annotation, "model_fields"):
        return typing.cast("type[BaseModel]", annotation)
    return next((found for part in typing.get_args(annotation) if (found := _model_in(part))), None)
