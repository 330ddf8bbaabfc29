"""Columns of any type as float32: codes of categories, the same in every table that a model meets, and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, DataWarning, did_you_mean, warn_user
from boostrank.core.types import Float32Array, Float64Array, Int64Array

LARGEST_CODE = 2**24
"""Codes are below it: float32 holds them, and the engines keep a bit for each."""
EXACT = 2**24
"""Whole numbers up to it are float32 numbers."""


@dataclass(frozen=True)
class Categories:
    """The categories of one column.

    Args:
        values: what code 0, 1, ... stands for, all text or all numbers; None: only the codes are known.
        ordered: trees split by the codes as by numbers, as LightGBM has it of ordered categories.
    """

    values: tuple[Any, ...] | None = None
    ordered: bool = False

    @property
    def record(self) -> dict[str, Any]:
        """Plain data, for the model's record."""
        return {"values": None if self.values is None else list(self.values), "ordered": self.ordered}


def read_record(record: Mapping[str, Any] | None) -> dict[str, Categories]:
    """Column -> categories, of a model's record."""
    found = {}
    for name, one in (record or {}).items():
        values = one.get("values")
        found[name] = Categories(None if values is None else tuple(values), bool(one.get("ordered")))
    return found


def to_record(categories: Mapping[str, Categories]) -> dict[str, Any]:
    """What `read_record` reads."""
    return {name: one.record for name, one in categories.items()}


def named_columns(given: Any, names: Sequence[str]) -> list[str]:
    """The columns that `categorical_feature` names: a list of names or positions, text as LightGBM has it ("0,2" or
    "name:a,b"), or "auto", None and "", which name none.

    Raises:
        DataError: one that is not there.
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
        raise DataError(f"categorical_feature={given!r} is no list of names or positions of columns")
    found = []
    for one in given:
        if isinstance(one, int | np.integer) and not isinstance(one, bool):
            if not 0 <= one < len(names):
                raise DataError(
                    f"categorical_feature: there is no column {one}: the data have {len(names)}, counted from 0"
                )
            found.append(names[int(one)])
        elif str(one) in names:
            found.append(str(one))
        else:
            hint = did_you_mean(str(one), names, list_all=False)
            raise DataError(f"categorical_feature: the data have no feature {one!r}.{hint}")
    return list(dict.fromkeys(found))


def check_codes(values: Float32Array | Float64Array, name: str) -> None:
    """Refuse numbers that are no codes of categories.

    Raises:
        DataError: one that is negative, no whole number, or too large.
    """
    wrong = values[~np.isnan(values) & ((values < 0) | (values >= LARGEST_CODE) | (values != np.floor(values)))]
    if wrong.size:
        raise DataError(
            f"categorical feature {name!r} holds {wrong[0]:g}: codes are whole numbers from 0 to {LARGEST_CODE - 1}, "
            "NaN is missing; a column of categories in a data frame (astype('category')) gets its codes here"
        )


class Coding:
    """Codes of one column's categories, while tables are read.

    Args:
        name: of the column.
        known: those of the training data, of which others are missing; None: what comes first has code 0, and so on.
        ordered: as of `Categories`, of a column that is read first.
    """

    def __init__(self, name: str, known: Categories | None = None, *, ordered: bool = False) -> None:
        self.name, self._grows = name, known is None
        self._ordered = ordered if known is None else known.ordered
        self._codes: dict[Any, int] = {value: i for i, value in enumerate((known and known.values) or ())}
        self._kind = _kind_of(next(iter(self._codes), None))
        self._unseen: dict[Any, int] = {}

    @property
    def categories(self) -> Categories:
        """Those met so far."""
        return Categories(tuple(self._codes), self._ordered)

    def codes(self, local: Int64Array, values: Sequence[Any]) -> Float32Array:
        """float32[n] with NaN for what is missing or not known.

        Args:
            local: int64[n], places in `values`, -1 for what is missing.
            values: the categories of one table, declared ones that do not occur among them.

        Raises:
            DataError: neither text nor numbers, or the other of the two than before.
        """
        counts = np.bincount(local[local >= 0], minlength=len(values))
        known = np.full(len(values) + 1, np.nan, np.float32)  # the last for -1
        for i, value in enumerate(map(_plain, values)):
            kind = _kind_of(value)
            if kind is None:
                raise DataError(
                    f"categories of column {self.name!r} are of type {type(value).__name__}: make them text, by "
                    "cat.rename_categories(str) in pandas"
                )
            if self._kind is not None and kind != self._kind and (self._grows or counts[i]):
                first = next(iter(self._codes))
                raise DataError(
                    f"column {self.name!r} holds {value!r}, a category that is {kind}, where the others "
                    f"({first!r}, ...) are {self._kind}: bring the column to the type that it had"
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
        """Say which values were taken as missing."""
        say_unseen(self.name, self._unseen, whose)


def say_unseen(name: str, unseen: Mapping[Any, int], whose: str) -> None:
    """One line on categories of a column that somebody does not know: how many values, how many, the commonest."""
    if not unseen:
        return
    first, many = max(unseen, key=lambda value: unseen[value]), len(unseen)
    values, kinds = sum(unseen.values()), f"{many} categories" if many > 1 else "a category"
    warn_user(
        f"column {name!r}: {values:,} value{'s' * (values > 1)} of {kinds} that {whose} does not know "
        f"({first!r}{', ...' * (many > 1)}): taken as missing",
        DataWarning,
    )


def say_no_codes(features: Any, names: Sequence[str], categories: Mapping[str, Categories], whose: str) -> None:
    """Say where columns that are taken for codes hold numbers that stand for no category.

    Args:
        features: float32[N, d] in memory.
        names: of the columns.
        categories: column -> its categories.
        whose: they are.
    """
    for i, name in enumerate(names):
        if name not in categories:
            continue
        values, column = categories[name].values, features[:, i]
        largest = np.inf if values is None else len(values)
        wrong = column[(column < 0) | (column >= largest) | ((column != np.floor(column)) & ~np.isnan(column))]
        if wrong.size:
            none = (
                f"are none of {whose}, whose codes are whole numbers from 0"
                if values is None
                else (
                    f"stand for none of the {len(values)} categories of {whose} ({_examples(values)}): give a table "
                    "for their values"
                )
            )
            warn_user(f"column {name!r} holds codes, and {wrong.size:,} ({wrong[0]:g}, ...) {none}", DataWarning)


def code_map(name: str, old: Categories | None, new: Categories | None, whose: str) -> Float32Array | None:
    """float32[codes]: for each code of `old` the one of `new`, NaN where it has none; None: codes stay as they are.

    Args:
        name: of the column.
        old: categories of some data; None: none are known, and codes are taken as they are.
        new: of what the data meet.
        whose: those are, for the message.

    Raises:
        DataError: data with categories meet a column without.
    """
    if old is None or old.values is None or (new is not None and new.values == old.values):
        return None
    if new is None or new.values is None:
        raise DataError(
            f"column {name!r} holds categories ({_examples(old.values)}), {whose} has "
            + ("numbers there" if new is None else "codes there and does not know what they stand for: give codes")
        )
    places = {value: code for code, value in enumerate(new.values)}
    return np.array([places.get(value, np.nan) for value in old.values], np.float32)


def _examples(values: Sequence[Any]) -> str:
    return ", ".join(map(repr, values[:2])) + ", ..." * (len(values) > 2)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _kind_of(value: Any) -> str | None:
    """Whether a category is text or a number; None for what a record cannot hold."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return "a number" if isinstance(value, int | float) else None


class Float32Cast:
    """Casts columns, and remembers whole numbers that were rounded: floating-point numbers are rounded anyway."""

    def __init__(self) -> None:
        self._rounded: dict[str, tuple[int, int]] = {}

    def cast(self, values: npt.NDArray[Any], name: str, *, whole: bool = False) -> npt.NDArray[np.float32]:
        """float32 of the same shape.

        Args:
            values: real numbers; the very array comes back where it is float32.
            name: of the column, for messages.
            whole: they are whole numbers, whatever the type of the array.

        Raises:
            DataError: a finite number that is too large.
        """
        if values.dtype == np.float32:
            return values
        with np.errstate(over="ignore"):
            out: npt.NDArray[np.float32] = values.astype(np.float32)
        lost = np.isinf(out) & np.isfinite(values)
        if bool(lost.any()):
            where = int(np.flatnonzero(lost)[0])
            raise DataError(f"column {name!r} holds {values[where]!r}, which does not fit in float32; rescale it")
        if (whole or values.dtype.kind in "iu") and values.size and np.nanmax(np.abs(out), initial=0.0) >= EXACT:
            changed = np.flatnonzero((out.astype(np.float64) != values) & ~np.isnan(out))
            if changed.size:
                count, example = self._rounded.get(name, (0, int(values[changed[0]])))
                self._rounded[name] = (count + changed.size, example)
        return out

    def warn(self) -> None:
        """Say what was rounded, once for all columns."""
        if not self._rounded:
            return
        name, (count, example) = next(iter(self._rounded.items()))
        more = f"; so are {len(self._rounded) - 1} more columns" if len(self._rounded) > 1 else ""
        warn_user(
            f"column {name!r}: {count:,} whole numbers are rounded to float32, {example} to "
            f"{int(np.float32(example))}{more}: subtract what they have in common, or count in a larger unit",
            DataWarning,
        )
