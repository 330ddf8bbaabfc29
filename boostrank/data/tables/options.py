"""Options of the readers of tables, and what they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from boostrank.core.errors import MissingDependency, ParameterError
from boostrank.data.libsvm.options import LibsvmOptions
from boostrank.data.options import ReaderOptions
from boostrank.data.tables.categories import Categories

_OF_LIBSVM = ("zero_based", "max_feature", "n_features", "feature_names")


def arrow(module: str = "") -> Any:
    """pyarrow, or a module of it.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        return import_module("pyarrow" + module)
    except ImportError:
        raise MissingDependency("tables are read by pyarrow: pip install 'boostrank[tables]'") from None


@dataclass(frozen=True, kw_only=True)
class TableOptions(LibsvmOptions):
    """The reader's options, as far as a table has a use for them.

    Args:
        by_row: whether places are rows, counted from 1, of a file that has no lines.

    Raises:
        ParameterError: a value that is not allowed, or that is about libsvm text.
    """

    by_row: bool = False
    sorted_by = "sort the table by query, stably"

    @property
    def header_lines(self) -> int:  # type: ignore[override]
        """Lines in front of the rows of each file."""
        return 0 if self.by_row else 1

    def check_columns(self) -> None:
        default = ReaderOptions()
        for name in _OF_LIBSVM:
            if getattr(self, name) != getattr(default, name):
                raise ParameterError(f"{name} is about libsvm text: the columns of a table have names")
        if self.by_row and self.missing_tokens:
            raise ParameterError("missing_tokens are words of a text; here missing values are nulls and NaN")
        object.__setattr__(self, "keep_comments", False)  # a table has none

    @property
    def base(self) -> int:
        return 0

    @property
    def known(self) -> Mapping[str, Categories] | None:
        """Categories of the training data; None: these are they."""
        return None if self.space is None else self.space.categories

    @property
    def roles(self) -> dict[str, Any]:
        """What is said of columns, `label`, `qid`, `weight`, `drop`: by these options, else by the training data."""
        of_training = dict(self.space.columns) if self.space is not None else {}
        given = {name: getattr(self, name) for name in ("label", "qid", "weight", "drop")}
        return of_training | {name: value for name, value in given.items() if value is not None}
