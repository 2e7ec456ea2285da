"""Packages that only some data sets need, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from maxsup.core.installation import install_command


def require(module: str, *, extra: str = "lab") -> Any:
    """The named module, or an ``ImportError`` that names what to install.

    Example:
        >>> require("no_such_package.inner")
        Traceback (most recent call last):
        ImportError: this data set needs no_such_package, which is not installed. Run pip install ...
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package((error.name or module).partition(".")[0], extra=extra) from error


def missing_package(name: str, *, extra: str = "lab") -> ImportError:
    """The error for a package that is not installed."""
    return ImportError(f"this data set needs {name}, which is not installed. Run {install_command(extra)}.", name=name)
