"""Side files with group sizes and weights, as in LightGBM's and XGBoost's text formats.

`data.txt.query` or `data.txt.group` contains the number of rows of each query, one per line.
`data.txt.weight` contains one positive weight per query, or one per row of at least 0. Row weights
that vary within a query are document weights.
"""

from __future__ import annotations

import filecmp
import os
import shlex
from collections.abc import Iterable

import numpy as np

from boostrank.core.errors import DataError, FileFormatError, InputError
from boostrank.core.files import read_text, sidecar_paths
from boostrank.core.queries import QueryIndex
from boostrank.core.text import number_in
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.arrays import with_weights

GROUP_SUFFIXES = (".query", ".group")
WEIGHT_SUFFIX = ".weight"
UNREAD_SUFFIXES = (
    ".init",
    ".base_margin",
    ".position",
)  # files that engines read, but boostrank does not

_SIZE_DIGITS = 20  # longer numbers are no sizes, and take long to read


def find_sidecar(path: str | None, suffixes: tuple[str, ...]) -> str | None:
    """Return the first existing file with one of the suffixes (for `data.txt.gz` also after
    `data.txt`), or None."""
    if path is None:
        return None
    sidecars = list(filter(os.path.lexists, sidecar_paths(path, suffixes)))
    if not sidecars:
        return None
    sidecar, *other_sidecars = sidecars
    if not os.path.isfile(sidecar):
        kind = "not a regular file" if os.path.exists(sidecar) else "a broken link"
        raise InputError(f"{sidecar} would be read with {path}, but is {kind}; fix or remove it")
    for other_sidecar in other_sidecars if suffixes == GROUP_SUFFIXES else ():
        if os.path.isfile(other_sidecar) and not filecmp.cmp(sidecar, other_sidecar, shallow=False):
            raise InputError(
                f"{sidecar} and {other_sidecar} have other sizes for {path}; remove one"
            )
    return sidecar


def refuse_unread(path: str | None) -> None:
    """Refuse a data file with a side file that boostrank does not read."""
    sidecar = find_sidecar(path, UNREAD_SUFFIXES)
    if sidecar is not None:
        command = shlex.join(["mv", sidecar, f"{sidecar}.unused"])
        raise InputError(
            f"{sidecar} belongs to {path}, but boostrank does not read initial scores and positions"
            f" from files; to continue without them, run `{command}`"
        )


def refuse_sidecars(
    path: str, suffixes: tuple[str, ...] = (*GROUP_SUFFIXES, WEIGHT_SUFFIX)
) -> None:
    """Refuse to write a data file next to an existing side file."""
    sidecar = find_sidecar(path, suffixes)
    if sidecar is not None:
        raise InputError(
            f"{sidecar} exists and would be read with {path}; remove it, or choose another name"
        )


def some_sizes(path: str | None) -> list[int]:
    """Return the group sizes that can be read, or [] if there is no file. Errors are left to
    `read_sizes`."""
    if path is None:
        return []
    numbers = read_text(path, errors="replace").split()
    return [int(number) for number in numbers if number.isdecimal() and len(number) < 10]


def read_sizes(path: str, rows: int) -> Int64Array:
    """Read group sizes, int64[Q], whose sum must be `rows`."""
    sizes = []
    for number, text in _lines(path):
        size = int(text) if text.isascii() and text.isdigit() and len(text) < _SIZE_DIGITS else 0
        if not 0 < size <= rows:
            raise FileFormatError(
                f"{text[:40]!r} is not a query size: an integer from 1 to the {rows:,} rows of the"
                " data",
                file=path,
                line=number,
            )
        sizes.append(size)
    total = sum(sizes)
    if total != rows:
        raise FileFormatError(
            f"the group sizes sum to {total:,}, but the data has {rows:,} rows", file=path
        )
    return np.array(sizes, dtype=np.int64)


def check_sizes(path: str, sizes: Int64Array, name: str) -> None:
    """Check that the group sizes in a side file agree with the queries."""
    if not np.array_equal(read_sizes(path, int(sizes.sum())), sizes):
        raise FileFormatError(
            f"the group sizes contradict the query ids of {name}; remove one of them", file=path
        )


def read_weights(path: str, rows: int) -> Float64Array:
    """Read weights, float64[M], which must be finite and positive, or at least 0 if there is one
    per row."""
    weights = []
    for number, text in _lines(path):
        value = number_in(text)
        if not value >= 0.0 or text.startswith("-"):
            raise FileFormatError(
                f"weight {text[:40]!r} must be finite and at least 0, with a decimal point",
                file=path,
                line=number,
            )
        weights.append(value)
    if len(weights) != rows and 0.0 in weights:
        raise FileFormatError(
            "weight '0' of a query is not positive; remove the query from the data",
            file=path,
            line=weights.index(0.0) + 1,
        )
    return np.array(weights, dtype=np.float64)


def weighted(path: str, weights: Float64Array, queries: QueryIndex) -> QueryIndex:
    """Return queries with query weights or document weights; see `with_weights`."""
    try:
        return with_weights(queries, weights)
    except DataError as error:
        raise FileFormatError(str(error), file=path) from None


def _lines(path: str) -> Iterable[tuple[int, str]]:
    """Return the number and the text of each line, without blank lines at the end of the file."""
    text = read_text(path, errors="backslashreplace").rstrip()
    lines = text.split("\n") if text else []
    return enumerate(map(str.strip, lines), 1)
