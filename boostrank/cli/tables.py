"""Tables on standard output: fitted and coloured on a terminal, plain and uncut elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# Wide enough for any row, so that nothing is folded where no person looks at columns.
_UNBOUNDED = 1000


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str) -> None:
    """Print a table of words (first column) and numbers (the others)."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, highlight=False, width=None if terminal else _UNBOUNDED)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if i else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Text(title), style="bold", soft_wrap=True)
    console.print(table)
    console.print()
