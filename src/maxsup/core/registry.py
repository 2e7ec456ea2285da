"""Names for losses, models, data sets and so on: a decorator registers a member, its signature lists its options."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from pkgutil import walk_packages
from typing import Any, Generic, TypeVar

from maxsup.core.errors import coded, hint

T = TypeVar("T")


class Registry(Generic[T]):
    """A mapping from names to members of one kind, each with facts that explain it.

    The options of a member are the parameters of its function that have a default.

    Args:
        kind: What a member is called in messages.
        function: The function of a member whose parameters are its options; by default the member itself.
        shared: Options that every member takes by ``**options``.
        reserved: Parameters with a default that are no options, because this package passes them itself.
        package: The package, maybe of a higher floor, whose modules register members; the first look-up imports them.
        group: The entry points whose modules register members of other packages. They are loaded for a name that is
            not known without them, and to list all names.
        fix: What to do about an unknown name; where it returns nothing, the nearest known name is given.

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
        group: str | None = None,
        fix: Callable[[str], str] | None = None,
    ) -> None:
        self.kind = kind
        self._function, self._package, self._group, self._fix = function, package, group, fix
        self._shared, self._reserved = tuple(shared), frozenset(reserved)
        self._registered: dict[str, tuple[T, Mapping[str, str]]] = {}

    def register(self, name: str, **facts: str) -> Callable[[T], T]:
        """Decorator that registers its argument under ``name``, which must be new."""

        def add(member: T) -> T:
            if name in self._registered:
                sentence = f"{self.kind} name must be new; got {name!r}, which is taken. Choose another name."
                raise coded(ValueError(sentence), "name-taken")
            self._registered[name] = (member, facts)
            return member

        return add

    def _import_members(self) -> dict[str, tuple[T, Mapping[str, str]]]:
        """Import the modules that register members, once, and return all members."""
        if self._package is not None:
            # Cleared first: a module may look up a member while it is being imported.
            package, self._package = self._package, None
            import_modules(package)
        return self._registered

    def _load_plugins(self) -> None:
        """Load the modules of other packages that register members, once; one that fails is left out with a warning."""
        if self._group is None:
            return
        group, self._group = self._group, None
        for plugin in plugins(group):
            try:
                plugin.load()
            except Exception as error:
                owner = plugin.dist.name if plugin.dist else "another package"
                warnings.warn(
                    f"The {self.kind} {plugin.name!r} of {owner} is left out: loading {plugin.value} raised "
                    f"{type(error).__name__}: {error}. Repair or uninstall {owner}.",
                    stacklevel=2,
                )

    def _entry(self, name: str) -> tuple[T, Mapping[str, str]]:
        entries = self._import_members()
        if name not in entries:
            self._load_plugins()
        if name not in entries:
            fix = (self._fix(str(name)) if self._fix else "") or hint(str(name), entries)
            raise coded(ValueError(f"{self.kind} must be a registered name; got {name!r}. {fix}"), "unknown-name")
        return entries[name]

    def __getitem__(self, name: str) -> T:
        return self._entry(name)[0]

    def facts(self, name: str) -> Mapping[str, str]:
        """The facts that the member was registered with."""
        return self._entry(name)[1]

    def options(self, name: str) -> dict[str, Any]:
        """Options of a member by name, with their defaults; those that all members share are left out."""
        parameters = [each for key, each in self._parameters(name).items() if key not in self._reserved]
        return {each.name: each.default for each in parameters if each.default is not each.empty}

    def check_options(self, name: str, given: Iterable[str]) -> None:
        """Raise unless a member has all the given options, or takes any option."""
        takes_any = any(each.kind is each.VAR_KEYWORD for each in self._parameters(name).values())
        if self._shared or not takes_any:
            check_known_options(f"{self.kind} {name!r}", given, [*self.options(name), *self._shared])

    def _parameters(self, name: str) -> Mapping[str, inspect.Parameter]:
        member: Any = self[name]
        return inspect.signature(self._function(member) if self._function else member).parameters

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load_plugins()
        return sorted(self._import_members())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())


def plugins(group: str) -> EntryPoints:
    """Return the entry points of installed packages in a group such as ``maxsup.losses``."""
    return entry_points(group=group)


def import_modules(package: str) -> None:
    """Import all modules of a package, and of packages in it, so that their members are registered."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)


def check_known_options(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError, as Python does for an unknown keyword, with the option that was probably meant.

    Example:
        >>> check_known_options("data set 'digits'", ["size"], [])
        Traceback (most recent call last):
        TypeError: option of data set 'digits' must be one it has; got 'size'. It has none.
    """
    known = list(known)
    for option in given:
        if option not in known:
            fix = hint(option, known) if known else "It has none."
            raise coded(TypeError(f"option of {owner} must be one it has; got {option!r}. {fix}"), "unknown-option")
