"""What is counted of a data set, and the first places of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from boostrank.core.types import Int64Array


@dataclass
class Part:
    """One file of a data set: what came before it, and how it counts features."""

    name: str
    path: str | None
    lines: int
    rows: int
    queries: int
    zero_line: int = 0
    top_id: int = 0
    top_line: int = 0


@dataclass
class Label:
    """How many documents have it, and the line of the first."""

    count: int
    line: int


@dataclass
class Alike:
    """Documents that are like another one of their query: how many, in how many queries, the lines of the first two."""

    rows: int = 0
    queries: int = 0
    line: int = 0
    twin: int = 0

    def add(self, rows: Int64Array, groups: Int64Array, queries: Int64Array, lines: Int64Array) -> None:
        """More of them: their rows and which of these are alike; the query and the line of every row."""
        if rows.size:
            if not self.line:
                pair = np.sort(rows[groups == groups[np.argmin(rows)]])
                self.line, self.twin = int(lines[pair[0]]), int(lines[pair[1]])
            self.rows += rows.size
            self.queries += np.unique(queries[rows]).size


@dataclass
class StandIn:
    """A word for a missing value: the place of the first row with it."""

    word: str
    line: int
    column: int
