"""Category codes, which are shared by all tables, and conversion of columns to float32."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from boostrank.core.errors import DataError, did_you_mean, warn_user
from boostrank.core.text import count_of
from boostrank.core.types import Array, BoolArray, Float32Array, Int64Array
from boostrank.records import jsonable

EXACT = 2**24
"""Largest integer up to which float32 represents all integers exactly."""
_LARGEST_CODE = EXACT  # engines also use one bit per code


@dataclass(frozen=True)
class Categories:
    """The categories of one column.

    Args:
        values: categories with the codes 0, 1, ..., all text or all numbers; None if they are
            unknown.
        ordered: whether trees split the codes like numbers, as LightGBM does for ordered
            categories.
    """

    values: tuple[Any, ...] | None = None
    ordered: bool = False


def read_record(record: Mapping[str, Any] | None) -> dict[str, Categories]:
    """Return the categories of each column from the result of `to_record`."""
    return msgspec.convert(record or {}, dict[str, Categories])


def to_record(categories: Mapping[str, Categories]) -> dict[str, Any]:
    """Return the categories of each column as JSON data."""
    return jsonable(msgspec.to_builtins(dict(categories)))


def named_columns(columns: Any, names: Sequence[str]) -> list[str]:
    """Return the column names that `categorical_feature` selects by names or by positions, where
    "auto" and None mean no columns.
    """
    if columns is None or (isinstance(columns, str) and columns == "auto"):
        return []
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise DataError(
            f"categorical_feature={columns!r} must be a list of column names or positions"
        )
    # Find each column by its position or name.
    selected, numbered_names = [], dict(enumerate(names))
    for column in columns:
        name = str(column)
        if isinstance(column, int | np.integer) and not isinstance(column, bool):
            name = numbered_names.get(int(column), "")
        if name not in names:
            hint = did_you_mean(str(column), names, list_all=False)
            raise DataError(
                f"categorical_feature: there is no feature {column!r}; positions end at"
                f" {len(names) - 1}.{hint}"
            )
        selected.append(name)
    return list(dict.fromkeys(selected))


def check_codes(column: Any, name: str) -> None:
    """Check that the numbers of a column, dense or sparse, are category codes."""
    values = column.data if sparse.issparse(column) else column
    invalid = values[are_not_codes(values, _LARGEST_CODE)]
    if invalid.size:
        raise DataError(
            f"categorical feature {name!r} contains {invalid[0]:g}, but codes must be integers"
            f" from 0 to {_LARGEST_CODE - 1}: use NaN, not -1, for a missing category;"
            " categorical columns in a frame (astype('category')) are coded automatically"
        )


def are_not_codes(values: Array, largest: float) -> BoolArray:
    """Mark the values that are neither NaN nor an integer from 0 to below `largest`."""
    return ~np.isnan(values) & ((values < 0) | (values >= largest) | (values != np.floor(values)))


class Coding:
    """The assignment of codes to the categories of one column while tables are read.

    Categories that are not in `trained` are missing. If its values are None, codes follow the order
    of appearance.
    """

    def __init__(self, name: str, trained: Categories = Categories()) -> None:
        self.name = name
        self._grows = trained.values is None
        self._ordered = trained.ordered
        self._codes: dict[Any, int] = {value: i for i, value in enumerate(trained.values or ())}
        self._kind = _kind_of(next(iter(self._codes), None))
        self._unseen = Counter[Any]()

    @property
    def categories(self) -> Categories:
        """The categories found so far."""
        return Categories(tuple(self._codes), self._ordered)

    def codes(self, positions: Int64Array, values: Sequence[Any]) -> Float32Array:
        """Return codes, float32[n], for positions in `values`, where -1 is missing. Missing and
        unknown categories become NaN."""
        value_counts = np.bincount(positions[positions >= 0], minlength=len(values))
        code_of_value = np.full(len(values) + 1, np.nan, np.float32)  # the last entry is for -1
        for i, raw_value in enumerate(values):
            value = raw_value.item() if isinstance(raw_value, np.generic) else raw_value
            if value is None or value != value:
                continue
            value_kind = _kind_of(value)
            if value_kind is None:
                raise DataError(
                    f"categories of column {self.name!r} are of type {type(value).__name__}; "
                    "convert them to text, with cat.rename_categories(str) in pandas"
                )
            if (
                self._kind is not None
                and value_kind != self._kind
                and (self._grows or value_counts[i])
            ):
                first_category = next(iter(self._codes))
                raise DataError(
                    f"column {self.name!r} contains {value!r}, a category that is {value_kind},"
                    f" but the others ({first_category!r}, ...) are {self._kind}; convert the"
                    " column to one type"
                )
            code = self._codes.get(value)
            if code is None and self._grows:
                self._kind = value_kind
                code = self._codes[value] = len(self._codes)
            if code is not None:
                code_of_value[i] = code
            elif value_counts[i]:
                self._unseen[value] += int(value_counts[i])
        if len(self._codes) > _LARGEST_CODE:
            raise DataError(
                f"column {self.name!r} has more than {_LARGEST_CODE:,} categories; drop the column"
            )
        return code_of_value[positions]

    def warn(self, whose: str) -> None:
        """Warn about unknown categories: how many there are, how many values have them, and the
        most frequent one."""
        if not self._unseen:
            return
        most_frequent = self._unseen.most_common(1)[0][0]
        warn_user(
            f"column {self.name!r} has {count_of(self._unseen.total(), 'value')} of"
            f" {count_of(len(self._unseen), 'category', 'categories')} that {whose} does not"
            f" contain, such as {most_frequent!r}; they are treated as missing"
        )


def say_no_codes(
    features: Any, names: Sequence[str], categories: Mapping[str, Categories], whose: str
) -> None:
    """Warn about values in the categorical columns of an array that are not category codes."""
    for i, name in enumerate(names):
        if name not in categories:
            continue
        values = categories[name].values
        column = features[:, i]
        n_codes = np.inf if values is None else len(values)
        invalid = column[are_not_codes(column, n_codes)]
        if invalid.size:
            codes = f"codes of {whose}, which are integers from 0"
            if values is not None:
                codes = (
                    f"codes of the {len(values)} categories of {whose} ({list_examples(values)});"
                    " pass names in a table"
                )
            warn_user(
                f"column {name!r} has {count_of(invalid.size, 'value')}, such as {invalid[0]:g},"
                f" outside the {codes}"
            )


def misfit_error(
    name: str, contents: str, trained: Categories | None, whose: str | None
) -> DataError:
    """Return the error about text or categories in a column of numbers, or of codes without names.

    Args:
        trained: the categories of the column in the training data.
        whose: description of the training data; None for an error in them.
    """
    fault = f"column {name!r} contains {contents}"
    if whose is None:
        remedy = "list it in categorical_feature, convert it to numbers, or drop it"
        return DataError(f"{fault}; {remedy}")
    there = "numbers there" if trained is None else "only codes without names there; pass codes"
    return DataError(f"{fault}, but {whose} has {there}")


def list_examples(values: Sequence[Any]) -> str:
    """Return the first three values as text."""
    return ", ".join(map(repr, values[:3])) + ", ..." * (len(values) > 3)


def _kind_of(value: Any) -> str | None:
    """Return the kind of a category, or None for a type that records cannot store."""
    if isinstance(value, str):
        return "text"
    return "a number" if isinstance(value, int | float) and math.isfinite(value) else None


def as_float32(values: Array, name: str) -> Float32Array:
    """Convert real numbers to float32, and refuse numbers beyond its range."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        converted: Float32Array = values.astype(np.float32)
    overflows = np.argwhere(np.isinf(converted) & np.isfinite(values))
    if overflows.size:
        position = tuple(overflows[0].tolist())
        raise DataError(
            f"{name} contains {values[position]:g} at {position}, which exceeds the range of"
            " float32; rescale it"
        )
    return converted


def is_coarse(values: Array) -> bool:
    """Return whether all values are integers or missing, and some of them are rounded in
    float32."""
    if values.dtype == np.float32 or not np.nanmax(np.abs(values), initial=0.0) > EXACT:
        return False
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return bool(
            np.any(finite != finite.astype(np.float32)) and np.all(finite == np.floor(finite))
        )


def coarse_words(names: Iterable[str]) -> str:
    """Return the warning about columns with integers that are rounded in float32."""
    return (
        f"{list_examples(list(names))}: integers above {EXACT:,} are rounded to float32 (drop the "
        "column if it is an id; subtract an offset if it is a time)"
    )
