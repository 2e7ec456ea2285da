"""Names for things: a decorator is the whole registration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from maxsup.core.errors import hint

T = TypeVar("T")


class Registry(Generic[T]):
    """A mapping from names to members of one kind, each with facts that explain it.

    Example:
        >>> COLOURS: Registry[type] = Registry("colour")
        >>> @COLOURS.register("red", wavelength="700 nm")
        ... class Red: ...
        >>> COLOURS.names(), COLOURS.facts("red")["wavelength"]
        (['red'], '700 nm')
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, tuple[T, Mapping[str, str]]] = {}

    def register(self, name: str, **facts: str) -> Callable[[T], T]:
        """Decorator that files its argument under ``name``; a name is given once."""

        def file(member: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} name must be new; got {name!r}, which is taken. Choose another name.")
            self._entries[name] = (member, facts)
            return member

        return file

    def _entry(self, name: str) -> tuple[T, Mapping[str, str]]:
        if name not in self._entries:
            raise ValueError(f"{self.kind} must be a registered name; got {name!r}. {hint(str(name), self._entries)}")
        return self._entries[name]

    def __getitem__(self, name: str) -> T:
        return self._entry(name)[0]

    def facts(self, name: str) -> Mapping[str, str]:
        """What the member says of itself."""
        return self._entry(name)[1]

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._entries)
