"""How to install missing packages, given how this package was installed."""

from __future__ import annotations

import json
import re
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_PACKAGE = Path(__file__).resolve().parents[1]


def imported(module: str, purpose: str = "this", extra: str = "lab") -> Any:
    """A module of another package, or an error that says what it is for and how to install it.

    Example:
        >>> imported("no_such_package.inner")
        Traceback (most recent call last):
        ImportError: no_such_package must be installed for this. Run pip install ...
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package((error.name or module).partition(".")[0], purpose, extra) from error


def missing_package(name: str, purpose: str = "this", extra: str = "lab") -> ImportError:
    """The error for a package that is not installed."""
    return ImportError(f"{name} must be installed for {purpose}. Run {install_command(extra)}.", name=name)


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, such as ``lab``.

    The command names the folder of a checkout, or the place that the package was installed from. If neither is known,
    it names the packages that are missing.
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
    """Where it was installed from, as pip records it; None for an index or a file that is gone."""
    record = found.read_text("direct_url.json")
    if record is None:
        return None
    place = json.loads(record)
    if control := place.get("vcs_info"):
        return f"{control['vcs']}+{place['url']}@{control['commit_id']}"
    parts = urlsplit(place["url"])
    is_gone = parts.scheme == "file" and not Path(unquote(parts.path)).exists()
    return None if is_gone else str(place["url"])


def _missing(found: Distribution, extra: str) -> list[str]:
    """Requirements of an extra that are not installed, quoted; all of them if each is installed in some version."""
    of_extra = re.compile(rf"(.*?)\s*;.*extra == ['\"]{extra}['\"]")
    wanted = [match[1] for requirement in found.requires or [] if (match := of_extra.match(requirement))]
    missing = [requirement for requirement in wanted if not _is_installed(requirement)]
    return [f"'{requirement}'" for requirement in missing or wanted]


def _is_installed(requirement: str) -> bool:
    try:
        version(re.split(r"[^\w.-]", requirement)[0])
    except PackageNotFoundError:
        return False
    return True
