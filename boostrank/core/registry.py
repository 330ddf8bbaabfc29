"""Registry: finds the members of a package, one per file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.params import plain_name


class Named(Protocol):
    """Interface of registry members."""

    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Collect the `SPEC` (or `SPECS`) of each module of a package, by name and alias.

    Modules are imported at the first look-up, in alphabetical order. Names are compared without dashes, underscores and
    case. Modules whose name starts with an underscore are skipped.

    Args:
        what: noun for its members in messages ("objective").
        within: for members that are folders, the module that defines `SPEC`; "" for the folder's own.
        instead: maps words that are not members to suggested members.
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
        """Return the names of the modules to search, without importing them."""
        package = importlib.import_module(self._package)
        modules = sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name)
        return [
            f"{module.name}.{self._within}" if module.ispkg and self._within else module.name
            for module in modules
            if not module.name.startswith("_")
        ]

    def add(self, spec: T) -> None:
        """Add a member from outside the package, such as a user's own."""
        self._added[spec.name] = spec

    def __iter__(self) -> Iterator[T]:
        yield from (self._found | self._added).values()

    def names(self) -> list[str]:
        """Return the canonical names, in order."""
        return [spec.name for spec in self]

    def get(self, name: str) -> T:
        """Return the member with this name or alias.

        Raises:
            ParameterError: unknown; the message gives the nearest name and the list.
        """
        wanted = plain_name(name)
        for spec in self:
            if wanted in map(plain_name, (spec.name, *spec.aliases)):
                return spec
        for words, members in self._instead.items():
            if wanted in map(plain_name, words.split()):
                raise ParameterError(f"unknown {self._what} {name!r}. Use one of {', '.join(members)}")
        raise ParameterError(f"unknown {self._what} {name!r}.{did_you_mean(name, self.names())}")
