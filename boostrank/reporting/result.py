"""Base class for results, which declare their tables and print as the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, dataclass_transform

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.text import small_table
from boostrank.records import jsonable
from boostrank.reporting.table import Table

_MOST_ROWS = 10
"""The number of rows in a printed result."""


def plain(value: Any) -> Any:
    """Convert a value to JSON data: dataclasses to dictionaries, conventions to text, and undefined
    numbers to None.
    """

    def convert(item: Any) -> Any:
        if isinstance(item, Conventions):
            return item.describe()
        if hasattr(item, "to_dict"):
            return item.to_dict()
        return plain(vars(item)) if is_dataclass(item) else str(item)

    return jsonable(value, other=convert)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
class Result:
    """Base class for results, which are frozen dataclasses.

    Attributes:
        HIDDEN: names of the fields and tables that are omitted from JSON data.
    """

    HIDDEN: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def tables(self) -> Sequence[Table]:
        """Return the tables, of which the first one is the default."""
        raise NotImplementedError

    def table(self, name: str = "") -> Table:
        """Return a table, by default the first one.

        Raises:
            ParameterError: there is no such table.
        """
        tables = {table.name: table for table in self.tables()}
        if name and name not in tables:
            raise ParameterError(f"the result has no table {name!r}.{did_you_mean(name, tables)}")
        return tables[name or next(iter(tables))]

    def to_frame(self, name: str = "") -> Any:
        """Return a table as a pandas data frame, by default the first one.

        Raises:
            MissingDependency: pandas is not installed.
            ParameterError: there is no such table.
        """
        return self.table(name).to_frame()

    @property
    def _title(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        """Return the first rows of the first table."""
        table = self.table()
        hidden_rows = len(table) - _MOST_ROWS
        last_lines = [f"... {hidden_rows:,} more rows"] if hidden_rows > 0 else []
        return "\n".join([f"<{type(self).__name__}>", *table.lines(_MOST_ROWS), *last_lines])

    def _repr_html_(self) -> str:
        rows = self.table().texts()
        return small_table(self._title, rows[1:], *rows[:1])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the rows of the tables as JSON data, without those in `HIDDEN`."""
        values = vars(self) | {table.name: table.rows() for table in self.tables()}
        return dict(plain({name: values[name] for name in values if name not in self.HIDDEN}))
