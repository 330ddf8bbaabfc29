"""Options of the libsvm reader as its parser and its assembly need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.libsvm import parser as parse
from boostrank.data.options import NUMBERED, FeatureSpace, ReaderOptions, parse_label_map
from boostrank.records import jsonable

_INF = {"stop": parse.INF_STOP, "keep": parse.INF_KEEP, "missing": parse.INF_MISSING}
_IN_PROVENANCE = ("missing_tokens", "inf", "label_map", "on_bad_line", "regroup")
_OF_TABLES = ("label", "qid", "weight", "drop", "categorical")
"""Names that merely number features."""


@dataclass(frozen=True, kw_only=True)
class LibsvmOptions(ReaderOptions):
    """The reader's options, and `like`: the training data that they refer to, or its features.

    Raises:
        ParameterError: a value that is not allowed, or two that contradict each other.
    """

    like: RankingDataset | FeatureSpace | None = None

    by_row = False
    """Whether places are rows of a file that has no lines."""
    header_lines = 0
    """Lines in front of the rows of each file."""
    sorted_by = "boostrank sort"
    """What brings the rows of queries together in a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_columns()
        if self.space is None:
            return
        if self.n_features is not None:
            raise ParameterError("n_features and like contradict each other: the width is that of the training data")
        base = self.space.index_base
        if base is not None and self.zero_based not in ("auto", "true" if base == 0 else "false"):
            raise ParameterError(
                f"zero_based={self.zero_based} contradicts the training data, whose first feature has number {base}: "
                "training and later files must count alike"
            )

    def check_columns(self) -> None:
        """Refuse what names columns.

        Raises:
            ParameterError: libsvm text has none.
        """
        for name in _OF_TABLES:
            if getattr(self, name) is not None:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} names columns, which libsvm text has not: give --format where the "
                    "file is a table whose name does not say so"
                )

    @cached_property
    def space(self) -> FeatureSpace | None:
        """The features of the training data."""
        return self.like.feature_space if isinstance(self.like, RankingDataset) else self.like

    @cached_property
    def training_qids(self) -> frozenset[Any]:
        """Query ids of the training data; none where group sizes gave it queries, whose ids only count them."""
        named = isinstance(self.like, RankingDataset) and self.like.provenance.options.get("queries") == "qid"
        return frozenset(self.like.queries.qid.tolist() if named else ())  # type: ignore[union-attr]

    def relabelled(self, labels: Float64Array) -> Float64Array:
        """The labels, those of the label map replaced."""
        out = labels.copy()
        for old, new in parse_label_map(self.label_map).items():
            out[labels == old] = new
        return out

    @property
    def skip(self) -> bool:
        """Whether rows that cannot be read are passed over."""
        return self.on_bad_line == "skip"

    @property
    def base(self) -> int | None:
        """The number of the first feature, None when the whole file decides."""
        if self.space is not None and self.space.index_base is not None:
            return self.space.index_base
        if self.zero_based != "auto":
            return int(self.zero_based != "true")
        return None if self.space is None else 1

    def by_name(self, names: Mapping[int, str], file: str) -> Int64Array | None:
        """int64[d], for each feature of `like` its number among those of a file; None where they go by number.

        Args:
            names: number -> name of the features of the file; none where it names none.
            file: its name, for messages.

        Raises:
            FileFormatError: other features than those of `like`.
        """
        space = self.space
        if space is None or not names or all(map(NUMBERED.fullmatch, space.feature_names)):
            return None
        numbers = {name: number for number, name in names.items()}
        missing = [name for name in space.feature_names if name not in numbers]
        if missing or len(numbers) > space.n_features:
            more = [name for name in numbers if name not in set(space.feature_names)]
            raise FileFormatError(misfit(missing, more), file=file)
        return np.array([numbers[name] for name in space.feature_names], np.int64)

    def for_parser(self) -> Int64Array:
        """The slots of the compiled parser that do not depend on the file."""
        options = np.zeros(parse.N_OPTIONS, np.int64)
        options[parse.MAX_ID] = options[parse.LIMIT] = self.max_feature
        if self.space is not None and self.base is not None:
            options[parse.LIMIT] = self.base + self.space.n_features - 1
        options[parse.REFUSE_ZERO_ID] = self.base == 1
        options[parse.INF] = _INF[self.inf]
        options[parse.STRICT] = self.strict
        options[parse.SKIP] = self.skip
        options[parse.KEEP_COMMENTS] = self.keep_comments
        return options

    def for_provenance(self) -> dict[str, Any]:
        """What changed the numbers that were read, as plain data."""
        changed = self.changed
        if "label_map" in changed:
            changed["label_map"] = {f"{old:g}": new for old, new in changed["label_map"].items()}
        return {name: jsonable(changed[name]) for name in _IN_PROVENANCE if name in changed}


def misfit(missing: Sequence[str], more: Sequence[str], mend: str = "") -> str:
    """`has no 'a', 'b', which the model has; has 'c', which the model has not`: columns that do not fit, in words."""
    found = []
    if missing:
        found.append(f"has no {quoted(missing)}, which the model or its training data has")
    if more:
        found.append(f"has {quoted(more)}, which the model or its training data has not{mend}")
    return "; ".join(found)


def quoted(names: Sequence[str], most: int = 5) -> str:
    """The first names, in quotes."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")
