"""Group sizes and weights in files beside the data, as LightGBM's and XGBoost's text formats have them.

`data.txt.query` or `data.txt.group` holds the number of rows of each query, one a line; `data.txt.weight` one positive
number a query, or one a row: numbers of at least 0 that differ within a query weigh documents.
"""

from __future__ import annotations

import os
import re

import numpy as np

from boostrank.core.errors import DataError, FileFormatError, InputError
from boostrank.core.files import beside, read_text
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.arrays import with_weights

GROUP_SUFFIXES = (".query", ".group")
WEIGHT_SUFFIX = ".weight"
UNREAD_SUFFIXES = (".init", ".base_margin", ".position")
"""Of initial scores (LightGBM's, XGBoost's) and of positions, which nothing here reads."""

_SIZE_DIGITS = 20
_NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def find_sidecar(path: str | None, suffixes: tuple[str, ...]) -> str | None:
    """The first of path + suffix that is there; of `data.txt.gz` also those of `data.txt`.

    Raises:
        InputError: it is there and no file: a link that leads nowhere, a folder, a pipe.
    """
    if path is None:
        return None
    found = next(filter(os.path.lexists, beside(path, suffixes)), None)
    if found is not None and not os.path.isfile(found):
        kind = "is no ordinary file" if os.path.exists(found) else "is a link that leads nowhere"
        raise InputError(f"{found}: {kind}, and would be read with {path}: mend it, or remove it")
    return found


def refuse_unread(path: str | None) -> None:
    """Refuse a file beside which an engine would find what boostrank does not read.

    Raises:
        InputError: it would.
    """
    found = find_sidecar(path, UNREAD_SUFFIXES)
    if found is not None:
        what = "positions" if found.endswith(".position") else "initial scores"
        raise InputError(
            f"{found}: {what} for {path}, which boostrank does not read from a file: `mv {found} {found}.unused` "
            "goes on without them"
        )


def refuse_sidecars(path: str, suffixes: tuple[str, ...] = (*GROUP_SUFFIXES, WEIGHT_SUFFIX)) -> None:
    """Refuse to write a file beside which sidecars of other data lie.

    Raises:
        InputError: one would be read with it.
    """
    stale = find_sidecar(path, suffixes)
    if stale is not None:
        raise InputError(f"{stale} lies beside {path} and would be read with it: remove it, or choose another name")


def some_sizes(path: str | None) -> list[int]:
    """What can be read of group sizes, none without a file; `read_sizes` says what is wrong with them."""
    if path is None:
        return []
    return [int(word) for word in read_text(path, errors="replace").split() if word.isdigit() and len(word) < 10]


def read_sizes(path: str, rows: int, *, counted: bool = True) -> Int64Array:
    """int64[Q] group sizes that sum to `rows`.

    Args:
        path: of the sizes.
        rows: of the data.
        counted: whether they are; else there are at most so many.

    Raises:
        FileFormatError: a line that is not a positive whole number, or another sum.
    """
    most = f"{rows:,} rows of the data" if counted else f"{rows:,} rows that the data can have"
    sizes, total = [], 0
    for number, text in _lines(path, rows):
        size = int(text) if text.isascii() and text.isdigit() and len(text) < _SIZE_DIGITS else 0
        if not 0 < size <= rows:
            words = f"{text[:40]!r} is not the size of a query: a whole number from 1 to the {most}"
            raise FileFormatError(words, file=path, line=number)
        sizes.append(size)
        total += size
    if total > rows or (counted and total != rows):
        words = "has" if counted else "can have no more than"
        raise FileFormatError(f"the group sizes sum to {total:,}, but the data {words} {rows:,} rows", file=path)
    return np.array(sizes, dtype=np.int64)


def check_sizes(path: str, sizes: Int64Array, name: str) -> None:
    """Compare group sizes with those of the queries of the file of that name.

    Raises:
        FileFormatError: they differ, or cannot be read.
    """
    if not np.array_equal(read_sizes(path, int(sizes.sum())), sizes):
        raise FileFormatError(f"the group sizes disagree with the qids of {name}: remove one", file=path)


def read_weights(path: str, rows: int) -> Float64Array:
    """float64[M], finite; above 0, or at least 0 where there is one for each of the rows.

    Raises:
        FileFormatError: a line that is not such a number.
    """
    weights = []
    for number, text in _lines(path, rows):
        value = float(text) if _NUMBER.fullmatch(text) else np.inf
        if not value < np.inf:
            raise FileFormatError(f"weight {text[:40]!r} is not a finite number of at least 0", file=path, line=number)
        weights.append(value)
    if len(weights) != rows and 0.0 in weights:
        words = "weight '0' of a query is not positive: leave the query out of the data"
        raise FileFormatError(words, file=path, line=weights.index(0.0) + 1)
    return np.array(weights, dtype=np.float64)


def weighted(path: str, weights: Float64Array, queries: QueryIndex) -> QueryIndex:
    """Queries with weights of them, or of their documents; see `with_weights`."""
    try:
        return with_weights(queries, weights)
    except DataError as error:
        raise FileFormatError(str(error), file=path) from None


def _lines(path: str, rows: int) -> list[tuple[int, str]]:
    """(line number, text) of each line; blank lines are allowed at the end alone."""
    lines = read_text(path, errors="backslashreplace", rows=rows).rstrip().split("\n")
    return [(number, text.strip()) for number, text in enumerate(lines, start=1)] if lines != [""] else []
