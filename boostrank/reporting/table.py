"""Tables whose columns are declared once, for the terminal, pages, data frames and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from boostrank.core.errors import MissingDependency
from boostrank.core.text import aligned

Data = dict[str, Any]
"""The values of a table by column."""


def import_extra(name: str) -> Any:
    """Import a module of the extra `report`."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependency(
            f"charts and data frames need {name}: pip install 'boostrank[report]'"
        ) from error


def interval(
    low: float | None, high: float | None, format: str = ".4f", pattern: str = "{} to {}"
) -> str:
    """Format the ends of an interval, or return "" if they are NaN."""
    if low is None or math.isnan(low):
        return ""
    return pattern.format(f"{low:{format}}", f"{high:{format}}")


def fixed(values: Iterable[float], digits: int = 3, *, sign: bool = False) -> str:
    """Return a number format that aligns decimal points and shows some digits of the largest finite
    value.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    decimals = min(max(digits - 1 - math.floor(math.log10(largest)), 0), 8) if largest > 0.0 else 0
    return f"{'+' * sign}.{decimals}f"


def printable(text: str) -> str:
    """Escape characters that control a terminal."""
    escaped = [
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    ]
    return "".join(escaped)


@dataclass(frozen=True)
class Column:
    """A table column.

    Args:
        name: key of its values in the table's data.
        label: heading, by default the name.
        format: number format, such as "+.4f". "" groups the digits of whole numbers and rounds
            other numbers to four digits. None marks a text column.
        help: tooltip for the heading on pages.
        look: CSS class of the cells on pages, such as "faint".
        ends: keys of the lower and the upper end of the values' 95% intervals.
        drawn: whether pages draw the intervals.
    """

    name: str
    label: str = ""
    format: str | None = None
    help: str = ""
    look: str = ""
    ends: Sequence[str] = ()
    drawn: bool = False

    @classmethod
    def parse(cls, text: str) -> Column:
        """Return a column, given its name, and perhaps its format, label, ends and help: "mean
        +.4f change [low high] | new minus old". The format is "#" for whole numbers and "-" for
        text.
        """
        declared, _, help = text.partition(" | ")
        declared, _, ends = declared.partition(" [")
        fields = declared.split(maxsplit=2)
        name, format, label = [*fields, *("-", "")[len(fields) - 1 :]]
        format_or_none = {"-": None, "#": ""}.get(format, format)
        return cls(name, label, format_or_none, help, ends=ends.strip("]").split())

    @property
    def heading(self) -> str:
        """The label, or the name without a label."""
        return self.label or self.name

    def text(self, cell: Cell, missing: str = "-") -> Any:
        """Return the text of a cell, or the text or markup that it displays instead."""
        if cell.display is not None:
            return cell.display
        value = cell.value
        if cell.missing:
            return missing
        if isinstance(value, str | bool):
            return str(value)
        default_format = "," if isinstance(value, int) else ".4g"
        return format(value, self.format or default_format)


@dataclass(frozen=True)
class Cell:
    """A table cell whose text differs from its value.

    Args:
        value: number, text or None, used for sorting and in CSV.
        display: text or markup that is displayed instead of the value.
        look: CSS class of the cell on pages: "better", "worse", "faint" or "strong", after "chip"
            in a frame.
    """

    value: Any
    display: Any = None
    look: str = ""

    @property
    def missing(self) -> bool:
        """Whether the value is None or NaN."""
        return self.value is None or self.value != self.value


@dataclass(frozen=True, eq=False)
class Table:
    """A table with all of its values, and a declaration of the columns to show.

    Args:
        name: name that is unique in a result and on a page, and valid as a file name.
        data: values by column. They make up the data frame and the JSON rows.
        columns: columns in the terminal and on pages, or text for `Column.parse`. The first one
            contains the row headings. By default, all of the data.
        cells: values or cells by column that are shown instead of those in `data`.
    """

    name: str
    data: Mapping[str, Any]
    columns: Sequence[Column | str] = ()
    cells: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.data.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        """Return the data as one dictionary per row."""
        columns = [_as_list(values) for values in self.data.values()]
        return [dict(zip(self.data, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_frame(self) -> Any:
        """Return the data as a pandas data frame.

        Raises:
            MissingDependency: pandas is not installed.
        """
        dtype = None if len(self) else object
        return import_extra("pandas").DataFrame(dict(self.data), dtype=dtype)

    def cells_of(self, name: str) -> list[Cell]:
        """Return the cells of a column that are shown in the terminal and on pages."""
        values = _as_list(self.cells.get(name, self.data.get(name, ())))
        return [value if isinstance(value, Cell) else Cell(_as_list(value)) for value in values]

    @property
    def _columns(self) -> list[Column]:
        return [
            Column.parse(column) if isinstance(column, str) else column for column in self.columns
        ]

    @property
    def declared(self) -> Sequence[Column]:
        """The columns to show, which are those with any value."""
        columns = self._columns or [Column(name, format="") for name in self.data]
        return [
            column
            for column in columns
            if not len(self) or not all(cell.missing for cell in self.cells_of(column.name))
        ]

    def take(self, rows: Sequence[int]) -> Table:
        """Return the rows at these positions."""

        def take(columns: Mapping[str, Any]) -> Data:
            return {name: [column[row] for row in rows] for name, column in columns.items()}

        return replace(self, data=take(self.data), cells=take(self.cells))

    def select(self, **values: Any) -> Table:
        """Return the rows with these values by column, and show the other columns."""
        positions = [i for i, row in enumerate(self.rows()) if values.items() <= row.items()]
        columns = [column for column in self._columns if column.name not in values]
        return replace(self.take(positions), columns=columns)

    def texts(self, top: int | None = None) -> list[list[str]]:
        """Return the headings, followed by the texts of the first rows."""
        columns = [text for text, _ in self._text_columns(top)]
        return [list(map(printable, row)) for row in zip(*columns, strict=True)]

    def lines(self, top: int | None = None) -> list[str]:
        """Return an aligned line with the headings, and one for each of the first rows."""
        return aligned(self.texts(top), [numeric for _, numeric in self._text_columns(top)])

    def _text_columns(self, top: int | None) -> Iterator[tuple[list[str], bool]]:
        """Yield the heading and the texts of each column, and whether they are numbers."""
        for column in self.declared:
            cells = self.cells_of(column.name)[:top]
            yield (
                [column.heading, *(str(column.text(cell)) for cell in cells)],
                column.format is not None,
            )
            if column.ends:
                ends = zip(*(self.cells_of(end)[:top] for end in column.ends), strict=True)
                texts = [
                    interval(low.value, high.value, column.format or "") or "-"
                    for low, high in ends
                ]
                yield ["95% interval", *texts], True


def _as_list(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def table_of_rows(
    name: str, rows: Iterable[Any], columns: Sequence[Column | str] = (), **cells: Any
) -> Table:
    """Return a table, given rows with the same keys, or dataclasses with the same fields."""
    records = [row if isinstance(row, Mapping) else vars(row) for row in rows]
    keys = records[0] if records else ()
    data = {key: [record[key] for record in records] for key in keys}
    return Table(name, data, columns, cells)
