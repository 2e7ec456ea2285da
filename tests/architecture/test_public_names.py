"""What is public says what it is."""

import inspect
from types import ModuleType

import pytest

import maxsup

MODULES = [maxsup, *(value for name in maxsup.__all__ if isinstance(value := getattr(maxsup, name), ModuleType))]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_has_a_docstring(module: ModuleType) -> None:
    public = {name: getattr(module, name) for name in module.__all__}
    undocumented = [
        name
        for name, value in public.items()
        if (inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value)) and not value.__doc__
    ]
    assert public
    assert module.__doc__
    assert undocumented == []


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert maxsup.__version__ == version("maxsup")
