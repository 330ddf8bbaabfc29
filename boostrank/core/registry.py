"""Registry: what a package holds, one file a thing, no list to keep."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.params import plain_name


class Named(Protocol):
    """What a registry can hold."""

    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Every `SPEC` (or each of several `SPECS`) of the modules of a package, by name and alias.

    Modules are imported at the first look-up, in alphabetical order; names compare without dashes,
    underscores and case. Modules whose name starts with an underscore are left out.

    Args:
        package: dotted name of the package to search.
        what: what its members are called in messages ("objective").
        within: of a member that is a folder, the module that defines `SPEC`; "" for the folder's own.
        instead: words that people type and that are no member -> the members that they may mean.
    """

    def __init__(
        self, package: str, what: str, within: str = "", instead: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._package, self._what, self._within, self._instead = package, what, within, instead or {}
        self._added: dict[str, T] = {}

    @cached_property
    def _found(self) -> dict[str, T]:
        modules = (importlib.import_module(f"{self._package}.{name}") for name in self.modules())
        found = [getattr(module, "SPECS", None) or [getattr(module, "SPEC", None)] for module in modules]
        return {spec.name: spec for specs in found for spec in specs if spec is not None}

    def modules(self) -> list[str]:
        """The modules that are looked at, below the package; imports none of them."""
        package = importlib.import_module(self._package)
        modules = sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name)
        return [
            f"{module.name}.{self._within}" if module.ispkg and self._within else module.name
            for module in modules
            if not module.name.startswith("_")
        ]

    def add(self, spec: T) -> None:
        """Add one that lives outside the package (a user's own)."""
        self._added[spec.name] = spec

    def __iter__(self) -> Iterator[T]:
        yield from (self._found | self._added).values()

    def names(self) -> list[str]:
        """Canonical names, in order."""
        return [spec.name for spec in self]

    def get(self, name: str) -> T:
        """The member of that name or alias.

        Raises:
            ParameterError: unknown; the message gives the nearest name and the list.
        """
        wanted = plain_name(name)
        for spec in self:
            if wanted in map(plain_name, (spec.name, *spec.aliases)):
                return spec
        for words, members in self._instead.items():
            if wanted in map(plain_name, words.split()):
                raise ParameterError(f"unknown {self._what} {name!r}. For that there are {', '.join(members)}")
        raise ParameterError(f"unknown {self._what} {name!r}.{did_you_mean(name, self.names())}")
