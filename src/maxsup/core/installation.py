"""How to get packages that are missing, given how this copy of the package came here."""

from __future__ import annotations

import json
import re
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_PACKAGE = Path(__file__).resolve().parents[1]


def imported(module: str, purpose: str, extra: str) -> Any:
    """A module of another package, or an error that says what it is for and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        fix = f"Run {install_command(extra)}."
        raise ImportError(f"{package} must be installed for {purpose}; got none. {fix}", name=package) from error


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, such as ``lab``.

    A checkout is named by its folder, a package by the place it was installed from. Where neither can be had again, the
    command names the packages that are missing.
    """
    checkout = _PACKAGE.parents[1]
    if _PACKAGE.parent.name == "src" and (checkout / "pyproject.toml").is_file():
        return f"pip install -e '{checkout}[{extra}]'"
    try:
        found = distribution("maxsup")
    except PackageNotFoundError:
        return f"pip install 'maxsup[{extra}]'"
    origin = _origin(found)
    if origin is not None:
        return f"pip install 'maxsup[{extra}] @ {origin}'"
    return f"pip install {' '.join(_missing(found, extra))}"


def _origin(found: Distribution) -> str | None:
    """Where it was installed from, as pip writes that down; None for an index or a file that is gone."""
    record = found.read_text("direct_url.json")
    if record is None:
        return None
    place = json.loads(record)
    url, control = str(place["url"]), place.get("vcs_info")
    if control is not None:
        return f"{control['vcs']}+{url}@{control['commit_id']}"
    parts = urlsplit(url)
    return None if parts.scheme == "file" and not Path(unquote(parts.path)).exists() else url


def _missing(found: Distribution, extra: str) -> list[str]:
    """Requirements of an extra that are not installed, quoted; all of them where each is there in some version."""
    wanted = [
        requirement.partition(";")[0].strip()
        for requirement in found.requires or []
        if re.search(rf"extra == ['\"]{extra}['\"]", requirement)
    ]
    missing = [requirement for requirement in wanted if not _is_installed(requirement)]
    return [f"'{requirement}'" for requirement in missing or wanted]


def _is_installed(requirement: str) -> bool:
    try:
        version(re.split(r"[^\w.-]", requirement)[0])
    except PackageNotFoundError:
        return False
    return True
