"""Base class for results, which converts dataclasses to tables, data frames and JSON data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import MissingDependency, ParameterError, did_you_mean
from boostrank.core.text import aligned, small_table
from boostrank.records import jsonable

# The page's script applies the same rule. Numbers, such as negative ids, are not formulas.
_FORMULA = re.compile(r"(?![+-][\d.e+-]*$)[=+\-@\t\r]", re.IGNORECASE)

_SHOWN = 10
"""The number of rows in a printed result."""

Columns = dict[str, Any]
"""The values of a table by column."""


def pandas() -> Any:
    """Return the module `pandas`."""
    try:
        import pandas as module
    except ImportError as error:
        raise MissingDependency("data frames need pandas: pip install 'boostrank[report]'") from error
    return module


def csv_bytes(frame: Any) -> bytes:
    """Return a data frame as CSV. Text that looks like a spreadsheet formula gets a leading apostrophe."""

    def safe(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        apostrophe = "'" if _FORMULA.match(value) else ""
        return (apostrophe + value).replace("\r", " ")  # pandas would not quote it

    text = frame.select_dtypes(exclude="number")
    shown = frame.assign(**{name: text[name].map(safe) for name in text}).rename(columns=safe)
    return bytes(shown.to_csv(index=False, lineterminator="\n").encode("utf-8", "backslashreplace"))


def plain(value: Any) -> Any:
    """Convert a value to JSON data: dataclasses to dictionaries, conventions to text, and undefined numbers to None."""

    def other(one: Any) -> Any:
        if isinstance(one, Conventions):
            return one.describe()
        if hasattr(one, "to_dict"):
            return one.to_dict()
        return plain(vars(one)) if is_dataclass(one) else str(one)

    return jsonable(value, other=other)


def columns_of(items: Iterable[Any], *names: str) -> Columns:
    """Return object attributes as table columns."""
    kept = list(items)
    return {name: [getattr(item, name) for item in kept] for name in names}


def joined(parts: Sequence[Columns]) -> Columns:
    """Concatenate tables with the same columns."""
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries."""
    values = [one.tolist() if hasattr(one, "tolist") else one for one in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


Subclass = TypeVar("Subclass")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def result_class(kind: type[Subclass]) -> type[Subclass]:
    """Turn a subclass of `Result` into a frozen dataclass."""
    return dataclass(frozen=True, eq=False, repr=False)(kind)


class Result:
    """Base class for results.

    Attributes:
        TABLES: functions by table name that return a table, given the result. The first table is the default.
        HIDDEN: names of the fields and tables that are omitted from JSON data.
    """

    TABLES: ClassVar[Mapping[str, Callable[[Any], Columns]]] = {}
    HIDDEN: ClassVar[tuple[str, ...]] = ()

    def columns(self, what: str = "") -> Columns:
        """Return a table as columns, by default the first table in `TABLES`.

        Raises:
            ParameterError: there is no such table.
        """
        name = what or next(iter(self.TABLES))
        if name not in self.TABLES:
            raise ParameterError(f"the result has no table {what!r}.{did_you_mean(what, self.TABLES)}")
        return self.TABLES[name](self)

    def rows(self, what: str = "") -> list[dict[str, Any]]:
        """Return the rows of a table as dictionaries."""
        return rows_of(self.columns(what))

    def to_frame(self, what: str = "") -> Any:
        """Return a table as a pandas data frame.

        Raises:
            MissingDependency: pandas is not installed.
            ParameterError: there is no such table.
        """
        columns = self.columns(what)
        empty = not any(len(values) for values in columns.values())
        return pandas().DataFrame(dict(columns), dtype=object if empty else None)

    @property
    def _title(self) -> str:
        return type(self).__name__

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and the rows of the first table as text."""

        def cell_text(value: Any) -> str:
            if not isinstance(value, float):
                return str(value)
            return "-" if np.isnan(value) else f"{value:.4g}"

        return list(self.columns()), [list(map(cell_text, row.values())) for row in self.rows()]

    def __repr__(self) -> str:
        """Return the first rows of the first table."""
        found, rows = self._shown()
        rest = [f"... {len(rows) - _SHOWN:,} more rows"] if len(rows) > _SHOWN else []
        return "\n".join([f"<{type(self).__name__}>", *aligned([found, *rows[:_SHOWN]]), *rest])

    def _repr_html_(self) -> str:
        found, rows = self._shown()
        return small_table(self._title, rows, found)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the rows of the tables as JSON data, without those in `HIDDEN`."""
        tables = {name: self.rows(name) for name in self.TABLES if name not in self.HIDDEN}
        return dict(plain({name: value for name, value in vars(self).items() if name not in self.HIDDEN} | tables))
