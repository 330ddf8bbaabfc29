"""Codes of categories that are stable between tables, and the conversion of single columns to float32."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, DataWarning, did_you_mean, warn_user
from boostrank.core.types import Float32Array, Float64Array, Int64Array

LARGEST_CODE = 2**24
"""Upper bound of codes: float32 is exact below it, and engines use one bit per code."""
EXACT = 2**24
"""Integers up to this are exact in float32."""


@dataclass(frozen=True)
class Categories:
    """Categories of one column.

    Args:
        values: categories of codes 0, 1, ..., all text or all numbers; None if only codes are known.
        ordered: split the codes like numbers, as LightGBM does with ordered categories.
    """

    values: tuple[Any, ...] | None = None
    ordered: bool = False


def read_record(record: Mapping[str, Any] | None) -> dict[str, Categories]:
    """Read column -> categories from a model's record."""
    return msgspec.convert(record or {}, dict[str, Categories])


def to_record(categories: Mapping[str, Categories]) -> dict[str, Any]:
    """Return the record for `read_record`."""
    return {
        name: {"values": None if one.values is None else list(one.values), "ordered": one.ordered}
        for name, one in categories.items()
    }


def named_columns(given: Any, names: Sequence[str]) -> list[str]:
    """Return the columns in `categorical_feature`: names or positions as a list or in LightGBM's syntax ("0,2",
    "name:a,b").

    "auto", None and "" mean no columns.
    """
    if given is None or (isinstance(given, str) and given in ("auto", "")):
        return []
    if isinstance(given, str):
        by_name = given.startswith("name:")
        words = [word.strip() for word in given.removeprefix("name:").split(",") if word.strip()]
        given = [int(word) if not by_name and word.isdigit() else word for word in words]
    elif isinstance(given, int | np.integer):
        given = [given]
    elif not isinstance(given, Iterable):
        raise DataError(f"categorical_feature={given!r} must be a list of column names or positions")
    found = []
    for one in given:
        if isinstance(one, int | np.integer) and not isinstance(one, bool):
            if not 0 <= one < len(names):
                raise DataError(f"categorical_feature: no column {one}; the data have {len(names)}, counted from 0")
            found.append(names[int(one)])
        elif str(one) in names:
            found.append(str(one))
        else:
            hint = did_you_mean(str(one), names, list_all=False)
            raise DataError(f"categorical_feature: the data have no feature {one!r}.{hint}")
    return list(dict.fromkeys(found))


def check_codes(values: Float32Array | Float64Array, name: str) -> None:
    """Check that numbers are valid category codes."""
    wrong = values[~np.isnan(values) & ((values < 0) | (values >= LARGEST_CODE) | (values != np.floor(values)))]
    if wrong.size:
        raise DataError(
            f"categorical feature {name!r} contains {wrong[0]:g}: codes must be integers from 0 to {LARGEST_CODE - 1}, "
            "or NaN if missing; categorical columns of data frames (astype('category')) are coded automatically"
        )


class Coding:
    """Assignment of codes to the categories of one column, while tables are read.

    Categories other than `known` are missing; without it, codes are assigned in order of appearance.
    """

    def __init__(self, name: str, known: Categories | None = None, *, ordered: bool = False) -> None:
        self.name, self._grows = name, known is None
        self._ordered = ordered if known is None else known.ordered
        self._codes: dict[Any, int] = {value: i for i, value in enumerate((known and known.values) or ())}
        self._kind = _kind_of(next(iter(self._codes), None))
        self._unseen: dict[Any, int] = {}

    @property
    def categories(self) -> Categories:
        """Categories found so far."""
        return Categories(tuple(self._codes), self._ordered)

    def codes(self, local: Int64Array, values: Sequence[Any]) -> Float32Array:
        """Return codes, float32[n], of positions in `values`, -1 if missing; NaN for missing and unknown categories."""
        counts = np.bincount(local[local >= 0], minlength=len(values))
        known = np.full(len(values) + 1, np.nan, np.float32)  # the last entry is for -1
        for i, value in enumerate(map(_plain, values)):
            kind = _kind_of(value)
            if kind is None:
                raise DataError(
                    f"categories of column {self.name!r} are of type {type(value).__name__}; convert them to text, "
                    "with cat.rename_categories(str) in pandas"
                )
            if self._kind is not None and kind != self._kind and (self._grows or counts[i]):
                first = next(iter(self._codes))
                raise DataError(
                    f"column {self.name!r} contains {value!r}, a category that is {kind}, but the others "
                    f"({first!r}, ...) are {self._kind}; convert the column to one type"
                )
            code = self._codes.get(value)
            if code is None and self._grows:
                self._kind = kind
                code = self._codes[value] = len(self._codes)
            if code is not None:
                known[i] = code
            elif counts[i]:
                self._unseen[value] = self._unseen.get(value, 0) + int(counts[i])
        if len(self._codes) > LARGEST_CODE:
            raise DataError(f"column {self.name!r} has more than {LARGEST_CODE:,} categories")
        return known[local]

    def warn(self, whose: str) -> None:
        """Warn about unknown categories: numbers of values and of categories, and the most frequent one."""
        unseen = self._unseen
        if not unseen:
            return
        first, many, values = max(unseen, key=lambda value: unseen[value]), len(unseen), sum(unseen.values())
        warn_user(
            f"column {self.name!r}: {values:,} value{'s' * (values > 1)} of "
            f"{f'{many} categories' if many > 1 else 'a category'} that {whose} does not know "
            f"({first!r}{', ...' * (many > 1)}); they are treated as missing",
            DataWarning,
        )


def say_no_codes(features: Any, names: Sequence[str], categories: Mapping[str, Categories], whose: str) -> None:
    """Warn about values in categorical columns in memory that are not codes of a category."""
    for i, name in enumerate(names):
        if name not in categories:
            continue
        values, column = categories[name].values, features[:, i]
        largest = np.inf if values is None else len(values)
        wrong = column[(column < 0) | (column >= largest) | ((column != np.floor(column)) & ~np.isnan(column))]
        if wrong.size:
            none = f"are none of {whose}, whose codes are whole numbers from 0"
            if values is not None:
                known = f"the {len(values)} categories of {whose} ({_examples(values)})"
                none = f"stand for none of {known}: give a table for their values"
            warn_user(f"column {name!r} holds codes, and {wrong.size:,} ({wrong[0]:g}, ...) {none}", DataWarning)


def coding_of(name: str, old: Categories | None, new: Categories | None, whose: str) -> Coding | None:
    """Return the coding of a target for categories of the data; None if their codes are the same, or unknown."""
    if old is None or old.values is None or (new is not None and new.values == old.values):
        return None
    if new is None or new.values is None:
        raise DataError(
            f"column {name!r} contains categories ({_examples(old.values)}), but {whose} has "
            + ("numbers there" if new is None else "only codes without names there; pass codes")
        )
    return Coding(name, new)


def _examples(values: Sequence[Any]) -> str:
    return ", ".join(map(repr, values[:3])) + ", ..." * (len(values) > 3)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _kind_of(value: Any) -> str | None:
    """Return the kind of a category, text or number; None for types that a record cannot store."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return "a number" if isinstance(value, int | float) else None


def as_float32(values: npt.NDArray[Any], name: str) -> npt.NDArray[np.float32]:
    """Return real numbers as float32; a float32 array as it is. Numbers beyond its range are refused."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        out: npt.NDArray[np.float32] = values.astype(np.float32)
    lost = np.argwhere(np.isinf(out) & np.isfinite(values))
    if lost.size:
        where = tuple(lost[0].tolist())
        raise DataError(f"{name} contains {values[where]!r} at {where}, beyond the range of float32; rescale it")
    return out


def is_coarse(values: npt.NDArray[Any]) -> bool:
    """Return whether float32 rounds some of these numbers, all of which are whole or missing."""
    if values.dtype == np.float32 or not np.nanmax(np.abs(values), initial=0.0) > EXACT:
        return False
    known = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return bool(np.any(known != known.astype(np.float32).astype(np.float64)) and np.all(known == np.floor(known)))


def coarse_words(names: Iterable[str]) -> str:
    """Return the warning about columns of `is_coarse`."""
    mend = "(drop ids; subtract an offset from times)"
    return f"{_examples(list(names))}: integers above {EXACT:,} are rounded to float32 {mend}"
