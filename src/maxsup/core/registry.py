"""Names for things: a decorator is the whole registration, and a signature the whole list of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from maxsup.core.errors import hint

T = TypeVar("T")


class Registry(Generic[T]):
    """A mapping from names to members of one kind, each with facts that explain it.

    The options of a member are the parameters of its function that have a default.

    Args:
        kind: What a member is called in messages.
        function: The function of a member whose parameters are its options; by default the member itself.
        shared: Options that every member takes by ``**options``.
        reserved: Parameters with a default that this package passes itself, so that they are no options.
        package: Whose modules register members, maybe of a higher floor; they are imported at the first look-up.

    Example:
        >>> COLOURS: Registry[type] = Registry("colour")
        >>> @COLOURS.register("red", wavelength="700 nm")
        ... class Red:
        ...     def __init__(self, alpha=1.0): ...
        >>> COLOURS.names(), COLOURS.facts("red")["wavelength"], COLOURS.options("red")
        (['red'], '700 nm', {'alpha': 1.0})
        >>> COLOURS.check_options("red", {"alpah": 0.5})
        Traceback (most recent call last):
        TypeError: option of colour 'red' must be one it has; got 'alpah'. Did you mean 'alpha'?
    """

    def __init__(
        self,
        kind: str,
        *,
        function: Callable[[T], Any] | None = None,
        shared: Iterable[str] = (),
        reserved: Iterable[str] = (),
        package: str | None = None,
    ) -> None:
        self.kind = kind
        self._package = package
        self._function, self._shared, self._reserved = function, tuple(shared), frozenset(reserved)
        self._filed: dict[str, tuple[T, Mapping[str, str]]] = {}

    def register(self, name: str, **facts: str) -> Callable[[T], T]:
        """Decorator that files its argument under ``name``; a name is given once."""

        def file(member: T) -> T:
            if name in self._filed:
                raise ValueError(f"{self.kind} name must be new; got {name!r}, which is taken. Choose another name.")
            self._filed[name] = (member, facts)
            return member

        return file

    def _import_members(self) -> dict[str, tuple[T, Mapping[str, str]]]:
        """All members, after the modules that register them have been imported."""
        if self._package is not None:
            # Forgotten first: a module may look a member up while it is being imported.
            package, self._package = import_module(self._package), None
            for module in iter_modules(package.__path__):
                import_module(f"{package.__name__}.{module.name}")
        return self._filed

    def _entry(self, name: str) -> tuple[T, Mapping[str, str]]:
        entries = self._import_members()
        if name not in entries:
            raise ValueError(f"{self.kind} must be a registered name; got {name!r}. {hint(str(name), entries)}")
        return entries[name]

    def __getitem__(self, name: str) -> T:
        return self._entry(name)[0]

    def facts(self, name: str) -> Mapping[str, str]:
        """What the member says of itself."""
        return self._entry(name)[1]

    def options(self, name: str) -> dict[str, Any]:
        """Options of a member by name, with their defaults; those that all members share are left out."""
        found = {key: each.default for key, each in self._parameters(name).items() if each.default is not each.empty}
        return {key: default for key, default in found.items() if key not in self._reserved}

    def check_options(self, name: str, given: Iterable[str]) -> None:
        """Raise unless a member has all the given options; one that takes any has them."""
        takes_any = any(each.kind is each.VAR_KEYWORD for each in self._parameters(name).values())
        if self._shared or not takes_any:
            check_known_options(f"{self.kind} {name!r}", given, [*self.options(name), *self._shared])

    def _parameters(self, name: str) -> Mapping[str, inspect.Parameter]:
        member: Any = self[name]
        return inspect.signature(self._function(member) if self._function else member).parameters

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._import_members())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._import_members())


def check_known_options(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError, as Python does for an unknown keyword, that says which option was probably meant.

    Example:
        >>> check_known_options("data set 'digits'", ["size"], [])
        Traceback (most recent call last):
        TypeError: option of data set 'digits' must be one it has; got 'size'. It has none.
    """
    known = list(known)
    for option in given:
        if option not in known:
            fix = hint(option, known) if known else "It has none."
            raise TypeError(f"option of {owner} must be one it has; got {option!r}. {fix}")
