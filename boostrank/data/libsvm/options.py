"""What the libsvm reader can be told, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.libsvm import parser as parse

_INF = {"stop": parse.INF_STOP, "keep": parse.INF_KEEP, "missing": parse.INF_MISSING}
LARGEST_MAX_FEATURE = np.iinfo(np.int32).max - 1


@dataclass(frozen=True)
class FeatureSpace:
    """The features of a training set, which later files are read into.

    Args:
        index_base: number of the first feature in the training file, 0 or 1; None (it was an array): 1, unless
            `zero_based` is told.
        n_features: columns.
        feature_names: their names; empty for `f1`, `f2`, ...
    """

    index_base: int | None
    n_features: int
    feature_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """The options of `read_libsvm`, in checked form."""

    zero_based: bool | None
    n_features: int | None
    layout: str
    missing_tokens: tuple[str, ...]
    inf: str
    skip: bool
    max_bad_share: float
    strict: bool
    regroup: bool
    label_map: dict[float, float]
    max_feature: int
    keep_comments: bool
    space: FeatureSpace | None
    training_qids: frozenset[Any]

    @property
    def base(self) -> int | None:
        """The number of the first feature, None when the whole file decides."""
        if self.space is not None and self.space.index_base is not None:
            return self.space.index_base
        if self.zero_based is not None:
            return int(not self.zero_based)
        return None if self.space is None else 1

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
        said: dict[str, Any] = {}
        if self.missing_tokens:
            said["missing_tokens"] = list(self.missing_tokens)
        if self.inf != "stop":
            said["inf"] = self.inf
        if self.label_map:
            said["label_map"] = {f"{old:g}": new for old, new in self.label_map.items()}
        if self.skip:
            said["on_bad_line"] = "skip"
        if self.regroup:
            said["regroup"] = True
        return said


def check_options(
    *, zero_based: Any, n_features: int | None, layout: str, missing_tokens: str | Sequence[str], inf: str,
    on_bad_line: str, max_bad_share: float, strict: bool, regroup: bool, label_map: Mapping[float, float] | str | None,
    max_feature: int, keep_comments: bool, like: RankingDataset | FeatureSpace | None,
) -> ReadOptions:  # fmt: skip
    """The options in checked form.

    Raises:
        ParameterError: a value that is not allowed, or two that contradict each other.
    """
    _one_of("layout", layout, ("auto", "dense", "csr"))
    _one_of("inf", inf, tuple(_INF))
    _one_of("on_bad_line", on_bad_line, ("stop", "skip"))
    if isinstance(zero_based, str):
        _one_of("zero_based", zero_based, ("auto", "true", "false"))
        base0 = {"auto": None, "true": True, "false": False}[zero_based]
    else:
        base0 = None if zero_based is None else bool(zero_based)
    if not 0.0 <= max_bad_share <= 1.0:
        raise ParameterError(f"max_bad_share={max_bad_share!r} is a share of the rows: 0 to 1")
    if not 1 <= max_feature <= LARGEST_MAX_FEATURE:
        raise ParameterError(f"max_feature={max_feature!r} is out of range; allowed: 1 to {LARGEST_MAX_FEATURE}")
    if n_features is not None and not 1 <= n_features <= max_feature + 1:
        raise ParameterError(f"n_features={n_features!r} is out of range; allowed: 1 to max_feature + 1")
    tokens = (missing_tokens,) if isinstance(missing_tokens, str) else tuple(missing_tokens)
    for token in tokens:
        if not token or any(c.isspace() or c in "#:" or not c.isprintable() for c in token):
            raise ParameterError(f"missing token {token!r} must be a word without blanks, ':' and '#'")
    space, qids = _space_of(like)
    if space is not None and n_features is not None:
        raise ParameterError("n_features and like contradict each other: the width is that of the training data")
    if space is not None and space.index_base is not None and base0 not in (None, space.index_base == 0):
        raise ParameterError(
            f"zero_based={base0} contradicts the training data, whose first feature has number {space.index_base}: "
            "training and later files must count alike"
        )
    return ReadOptions(
        base0, n_features, layout, tokens, inf, on_bad_line == "skip", max_bad_share, strict, regroup,
        parse_label_map(label_map), max_feature, keep_comments, space, qids,
    )  # fmt: skip


def parse_label_map(label_map: Mapping[float, float] | str | None) -> dict[float, float]:
    """Old label -> new label, from a mapping or from text such as "-1=0,2=1".

    Raises:
        ParameterError: not of that form, or not finite numbers.
    """
    if label_map is None:
        return {}
    try:
        if isinstance(label_map, str):
            pairs = [(float(old), float(new)) for old, new in (part.split("=") for part in label_map.split(","))]
        else:
            pairs = [(float(old), float(new)) for old, new in label_map.items()]
    except (TypeError, ValueError, AttributeError):
        raise ParameterError(f"label_map={label_map!r}: give old=new pairs, e.g. --label-map=-1=0,2=1") from None
    if not all(math.isfinite(number) for pair in pairs for number in pair) or len(dict(pairs)) < len(pairs):
        raise ParameterError(f"label_map={label_map!r}: labels must be finite numbers, each mapped once")
    return dict(pairs)


def _space_of(like: RankingDataset | FeatureSpace | None) -> tuple[FeatureSpace | None, frozenset[Any]]:
    if like is None or isinstance(like, FeatureSpace):
        return like, frozenset()
    space = FeatureSpace(like.provenance.index_base, like.n_features, like.feature_names)
    # Group sizes name no queries: their ids only count them.
    named = like.provenance.options.get("queries") == "qid"
    return space, frozenset(like.queries.qid.tolist() if named else ())


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(f"{name}={value!r} is not one of {', '.join(allowed)}")
