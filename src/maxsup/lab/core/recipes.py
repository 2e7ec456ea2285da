"""Recipe files: where they are, how they describe themselves, and how their YAML is read.

Listing imports neither pydantic nor yaml, so `maxsup ls recipes` answers at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup.core.errors import hint
from maxsup.lab.core.files.reading import damaged

if TYPE_CHECKING:
    from maxsup.lab.core.config import Recipe
    from maxsup.lab.core.files.rundir import RunDir

FOLDER = Path(__file__).resolve().parents[1] / "recipes"
MAX_BYTES = 256 * 1024
MAX_DEPTH = 16

# YAML 1.1 reads 1e-4 as text because it has no dot.
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


GROUPS = {"start": "Start here", "small": "Real images and masks on two cores", "paper": "Settings of the paper"}
"""Groups of recipes in the order one reads them; the head of each recipe names its own."""

_CARD = ("Group", "Command", "Expect")


def list_recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def describe_recipes() -> list[dict[str, str]]:
    """Name, title, group, command and expectation of every recipe, from the comment at its head, group by group."""
    rows = [{"name": path.stem, **_card(path.read_text(encoding="utf-8"))} for path in sorted(FOLDER.glob("*.yaml"))]
    return sorted(rows, key=lambda row: list(GROUPS).index(row["group"]))


def recipe_path(name: str) -> Path:
    """The file of a recipe: one of the package by its name, or the reader's own by its path.

    Example:
        >>> recipe_path("digits_cnn").name
        'digits_cnn.yaml'
        >>> recipe_path("digits_cn")
        Traceback (most recent call last):
        ValueError: recipe must be a name or a .yaml file; got 'digits_cn'. Did you mean 'digits_cnn'?
    """
    return yaml_path("recipe", name, FOLDER, fix=f"Make one with maxsup cp RECIPE {name}.")


def yaml_path(kind: str, name: str, folder: Path, *, fix: str) -> Path:
    """The YAML file that a word means: a path if it ends like one, else the file of that name in a folder.

    ``kind`` and ``fix``, the advice if the path does not exist, are words for messages.
    """
    if not name.endswith((".yaml", ".yml")):
        known = sorted(path.stem for path in folder.glob("*.yaml"))
        if name not in known:
            raise ValueError(f"{kind} must be a name or a .yaml file; got {name!r}. {hint(name, known)}")
        return folder / f"{name}.yaml"
    if not Path(name).is_file():
        raise ValueError(f"{kind} must be a file that exists; got {name!r}. {fix}")
    return Path(name)


def load_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """The checked recipe under a name or in a file, with ``key.sub=value`` overrides.

    Example:
        >>> load_recipe("digits_cnn", ["epochs=2"]).epochs
        2
    """
    from maxsup.lab.core.config import parse_recipe

    path = recipe_path(name)
    return parse_recipe(read_yaml(path), overrides, source=f"recipe {path.stem}")


def override_words(overrides: Iterable[str] | Mapping[str, Any]) -> list[str]:
    """Overrides as ``key.sub=value`` each, from such words or from a mapping of dotted keys.

    Example:
        >>> override_words({"epochs": 3, "optimizer.lr": 0.1, "augment.flip": True})
        ['epochs=3', 'optimizer.lr=0.1', 'augment.flip=true']
    """
    if isinstance(overrides, str):
        raise TypeError(f"overrides must be a list of words or a mapping; got {overrides!r}. Write [{overrides!r}].")
    if not isinstance(overrides, Mapping):
        return list(overrides)
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in overrides.items()]


def run_recipe(run: RunDir, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe that a run wrote; a missing key means damage, since today's default may not be that of the run."""
    from maxsup.lab.core.config import Recipe, parse_recipe
    from maxsup.lab.core.old_keys import ADDED_KEYS

    run.check(run.config)
    try:
        values = read_yaml(run.config)
        parse_recipe(values, source=str(run.config))
    except (OSError, ValueError) as error:
        raise damaged(run.config, str(error).rstrip(".")) from error
    if missing := [key for key in Recipe.model_fields if key not in values and key not in ADDED_KEYS]:
        raise damaged(run.config, f"no {missing[0]!r}")
    return parse_recipe(values, overrides, source=str(run.config))


def write_recipe(run: RunDir, recipe: Recipe) -> None:
    """Write a recipe for :func:`run_recipe`."""
    import yaml

    run.write_text(run.config, yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False))


def read_text(path: Path) -> str:
    """The text of a recipe, of settings or of a script; a huge file is not even read."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path} must hold at most {MAX_BYTES} bytes; got {size}. A recipe is a page of text.")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text; got {error.reason}. Save it as UTF-8.") from error


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    values = parse_yaml(read_text(path), source=str(path))
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold key: value lines; got {type(values).__name__}. See maxsup cp.")
    return values


def parse_yaml(text: str, *, source: str = "text") -> Any:
    """The value of YAML text; aliases, repeated keys, tags and deep nesting are refused.

    Example:
        >>> parse_yaml("1e-4"), parse_yaml("[1, 2]")
        (0.0001, [1, 2])
    """
    import yaml

    class StrictLoader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not allowed")
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise yaml.YAMLError(f"nesting deeper than {MAX_DEPTH} is not allowed")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep=deep)
            except (AttributeError, LookupError, TypeError, ValueError):
                # What looks like a date or a number and is none.
                kind, line = node.tag.rpartition(":")[2], node.start_mark.line + 1
                raise yaml.YAMLError(f"{str(node.value)[:60]!r} in line {line} is no {kind}") from None

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            if repeated := {str(key) for key in keys if keys.count(key) > 1}:
                raise yaml.YAMLError(f"key {min(repeated)!r} stands twice")
            return super().construct_mapping(node, deep=deep)

    StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+0123456789."))
    try:
        return StrictLoader(text).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{source} must be valid YAML; got an error: {reason}. Check indentation and quotes."
        ) from None


def _card(text: str) -> dict[str, str]:
    head = "\n".join(takewhile(lambda line: line.startswith("#"), text.splitlines()))
    # A line that is indented goes on with the one before.
    title, *lines = [line.lstrip("#").strip() for line in head.replace("\n#   ", " ").splitlines()] or [""]
    pairs = (line.partition(": ") for line in lines)
    return {"title": title} | {label.lower(): text for label, _, text in pairs if label in _CARD}
