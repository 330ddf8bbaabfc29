"""Tables that a reader sorts and searches; without a script they are all there, as they were given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from boostrank.report.html.markup import Markup, bdi, tag

# More rows than this scroll within the table.
_ROWS_SHOWN = 25
# As many rows of a table fit on paper that is to stay short.
_ROWS_PRINTED = 12


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        name: what it is called in the table's CSV: "loss_low"; "" leaves it out there.
        label: its heading.
        kind: numbers stand at the right and sort by size, largest first; what is missing comes last.
        format: of numbers, a format spec such as "+.4f"; "" gives whole numbers in groups of three digits and others
            four digits.
        help: what it means, in a sentence; shown where the pointer rests, and read out.
    """

    name: str
    label: str
    kind: Literal["text", "number"] = "text"
    format: str = ""
    help: str = ""


def interval_columns(
    name: str, label: str, format: str, help: str = "", ends: tuple[str, str] = ("low", "high")
) -> list[Column]:
    """Columns of a number and of the ends of its 95% interval, whose names are `ends`."""
    low, high = (f"{which} end of the 95% interval" for which in ("lower", "upper"))
    return [
        Column(name, label, "number", format, help),
        Column(ends[0], "from", "number", format, low),
        Column(ends[1], "to", "number", format, high),
    ]


def interval_cells(value: float | None, low: float | None, high: float | None, look: str = "") -> list[Cell]:
    """Cells of `interval_columns`; `look` is that of the value."""
    return [Cell(value, look=look), Cell(low, look="faint"), Cell(high, look="faint")]


def fixed(values: Iterable[float], *, sign: bool = False) -> str:
    """The format of a column whose points stand below each other: three digits of the largest value.

    Args:
        values: of the column; what is not finite does not count.
        sign: with a plus, too.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    places = min(max(2 - math.floor(math.log10(largest)), 0), 8) if largest > 0.0 else 0
    return f"{'+' * sign}.{places}f"


@dataclass(frozen=True)
class Cell:
    """A value that is shown otherwise than it is sorted.

    Args:
        value: what it is sorted and written to CSV by: number, text or None.
        shown: text or markup; None shows the value.
        look: class of the cell: "better", "worse" (colours that mean it), "faint", "strong"; "" for none.
    """

    value: Any
    shown: Any = None
    look: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """A table; `draw` gives the markup, also for a place within another row's details.

    Args:
        name: unique on a page, fit for a file name.
        columns: what they are; the first one names the row.
        rows: a value or a `Cell` for each column. Text is escaped; NaN and None are shown as a dash.
        search: a field that leaves the rows with a text.
        details: markup for each row, opened by a button at the row's name; None or empty: that row has none.
        note: a sentence above the table.
        order: name of the column by which the rows are sorted already, with "-" before it where large ones come first.
        caption: what the table is about, for those who cannot see what stands above it.
        marked: numbers of rows that stand out.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    search: bool = False
    details: Sequence[Markup | None] | None = None
    note: str = ""
    order: str = ""
    caption: str = ""
    marked: frozenset[int] = frozenset()

    needs_script = False

    def draw(self) -> Markup:
        """The element."""
        order = {self.order.removeprefix("-"): "descending" if self.order.startswith("-") else "ascending"}
        headings = [
            tag("th", bdi(column.label), scope="col", class_=column.kind, data_name=column.name or None,
                title=column.help or None, aria_sort=order.get(column.name or " "))
            for column in self.columns
        ]  # fmt: skip
        head = tag("thead", tag("tr", *headings))
        body: list[Markup] = []
        for i, row in enumerate(self.rows):
            cells = [
                _cell(column, value, at == 0) for at, (column, value) in enumerate(zip(self.columns, row, strict=True))
            ]
            classes = ["marked"] * (i in self.marked) + ["far"] * (i >= _ROWS_PRINTED)
            body.append(tag("tr", *cells, class_=" ".join(classes) or None))
            inside = self.details[i] if self.details is not None else None
            if inside:
                opened = tag("td", tag("div", inside), colspan=len(self.columns))
                body.append(tag("tr", opened, class_="detail", id=f"{self.name}-{i}"))
        caption = tag("caption", self.caption) if self.caption else None
        tall = len(self.rows) > _ROWS_SHOWN
        more = len(self.rows) - _ROWS_PRINTED
        return tag(
            "div",
            tag("p", self.note, class_="faint") if self.note else None,
            tag(
                "div", tag("table", caption, head, tag("tbody", *body)), class_="scroll tall" if tall else "scroll",
                tabindex=0, role="region", aria_label=self.caption or self.name.replace("-", " "),
            ),
            tag("p", f"And {more:,} more row{'s' * (more > 1)}, on the screen.", class_="faint paper")
            if more > 0
            else None,
            class_="table", id=self.name, data_search=True if self.search else None,
        )  # fmt: skip


def _cell(column: Column, given: Any, first: bool) -> Markup:
    cell = given if isinstance(given, Cell) else Cell(given)
    value = cell.value.item() if hasattr(cell.value, "item") else cell.value
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    look = f"{'number' if column.kind == 'number' else ''} {cell.look}".strip() or None
    content, by = cell.shown, None
    if missing:
        by = ""
        content = "–" if content is None else content  # noqa: RUF001  a dash
    elif isinstance(value, bool | int | float):
        by = f"{value:.8g}"
        spec = column.format or ("," if isinstance(value, int) else ".4g")
        content = format(value, spec) if content is None else content
    elif content is None:
        content = value
    elif not isinstance(value, Markup):
        by = str(value)
    element = content if isinstance(content, Markup) else bdi(content)
    return tag("th" if first else "td", element, scope="row" if first else None, class_=look, data_value=by)
