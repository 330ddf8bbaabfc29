"""Proof that an export is correct, and verification of scores that a program logged.

The rows in a parity pack are on both sides of every split, and show whether two programs read a
model differently.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.core.text import count_of
from boostrank.core.types import Array, BoolArray, Float32Array, Float64Array
from boostrank.data.dataset import RankingDataset, takes_dataset
from boostrank.data.rows import DenseRows
from boostrank.engines.served.linear import LinearScore
from boostrank.engines.served.rules import Rules, scores
from boostrank.engines.trees import depths
from boostrank.export.target import (
    ExportError,
    Score,
    ServedModel,
    TargetSpec,
    above,
    cuts,
    parents,
    shortest,
)
from boostrank.kernels.forest import LISTED_RIGHT, Forest
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.model.scores import as_scores

_WHAT = {
    "thresholds": "rows at a threshold",
    "random": "random rows",
    "zeros": "rows with zeros",
    "missing": "rows with missing values",
    "infinite": "rows with infinite values",
    "categories": "rows with unseen categories",
}
KINDS = tuple(_WHAT)
"""Kinds of rows in a parity pack, which are values of `allow`."""

MOVED = "moved"
"""Value of `allow` for documents in the user's data that change their ranks."""

# Kinds of rows that a user's data may lack.
_ABSENT = ("zeros", "missing", "infinite", "categories")
_CHUNK = 1 << 16
_NOTHING = 1e-30  # smaller than any real difference of two values

# Zeros to LightGBM, and subnormal float32 numbers.
_SMALL = np.array([0.0, -0.0, 1e-36, -1e-36, 1e-40, -1e-40, 2e-35, -2e-35], np.float32)
# Maximum number of values in a pack: 256 MB.
_MOST_CELLS = 2**26
# Maximum number of category checks (categories times splits above a node): about twenty seconds.
_MOST_WORK = 2**34
_RANDOM = 1000
_LARGEST = 1e30
# Codes that may be unseen or invalid. They are integers because programs truncate 2.7 differently.
_NO_CATEGORIES = np.array([0, 1, 5, -1, -7, 63, 64, 1e6, 3e9, np.nan], np.float32)


@dataclass(frozen=True, eq=False)
class Pack:
    """The rows of a parity pack.

    Args:
        rows: float32[n, d].
        kind: int8[n], index of each row's kind in `KINDS`.
        nodes, of_nodes: number of splits with rows on both sides, and total number of splits in the
            model.
    """

    rows: Float32Array
    kind: Array
    nodes: int
    of_nodes: int


def parity_pack(
    forest: Forest, n_features: int, most_rows: int, resolution: Float64Array | None = None
) -> Pack:
    """Return two rows for each split, one on each side of its threshold, and random rows of each
    kind.

    Args:
        forest: the trees, without a separate start.
        most_rows: maximum number of rows, which take at most 256 MB. Larger models' splits are
            sampled with a fixed seed.
        resolution: float64[M], minimum distance between the rows and each threshold; None means 0.
    """
    rng = np.random.default_rng(0)
    distances = np.zeros(forest.feature.size) if resolution is None else resolution
    values = _Values(forest, n_features, rng, distances)
    most = max(64, min(most_rows, _MOST_CELLS // n_features))
    n_of_kind = min(_RANDOM, most // 16)
    nodes = np.arange(forest.feature.size)
    room = min(
        (most - (len(KINDS) - 1) * n_of_kind) // 3, max(1, _MOST_WORK // values.work_of_a_node)
    )
    if nodes.size > room:
        nodes = np.sort(rng.choice(nodes, room, replace=False))
    # Rows at the thresholds: two sides and a missing value for each node.
    borders = values.draw(3 * nodes.size)
    for i, node in enumerate(nodes.tolist()):
        values.reach(borders[3 * i : 3 * i + 3], node)
    kind = np.tile(np.array([0, 0, KINDS.index("missing")], np.int8), nodes.size)
    kind[np.isinf(borders).any(axis=1)] = KINDS.index("infinite")
    # Random rows; the later kinds replace some values by zeros, NaN, infinities or unseen
    # categories.
    random, zeros, missing, infinite, strange = [values.draw(n_of_kind) for _ in range(5)]
    drawn = rng.random((n_of_kind, n_features))
    small = _SMALL if resolution is None else _SMALL[_SMALL == 0.0]
    zeros = np.where(drawn < 0.5, rng.choice(small, drawn.shape), zeros)
    missing = np.where(drawn < 0.3, np.float32(np.nan), missing)
    infinite = np.where(
        drawn < 0.1, rng.choice(np.array([np.inf, -np.inf], np.float32), drawn.shape), infinite
    )
    strange = np.where(values.categorical, rng.choice(_NO_CATEGORIES, drawn.shape), strange)
    rows = [borders, random, np.where(values.categorical, random, zeros), missing, infinite]
    kinds = [kind, *(np.full(n_of_kind, number, np.int8) for number in range(1, 5))]
    if values.categorical.any():
        rows.append(strange)
        kinds.append(np.full(n_of_kind, KINDS.index("categories"), np.int8))
    return Pack(np.concatenate(rows), np.concatenate(kinds), nodes.size, forest.feature.size)


def linear_pack(linear: LinearScore, most_rows: int) -> Pack:
    """Return random rows, and rows with zeros or missing values."""
    each = max(1, min(most_rows, _MOST_CELLS // linear.weights.size) // 3)
    random, zeros, missing = rows = np.split(linear.draw(3 * each), 3)
    drawn = np.random.default_rng(1).random(random.shape)
    zeros[drawn < 0.5], missing[drawn < 0.3] = 0.0, np.nan
    kinds = [KINDS.index(kind) for kind in ("random", "zeros", "missing")]
    return Pack(np.concatenate(rows), np.repeat(np.array(kinds, np.int8), each), 0, 0)


class _Values:
    """A generator of feature values near the thresholds in a forest."""

    def __init__(
        self, forest: Forest, n_features: int, rng: np.random.Generator, resolution: Float64Array
    ) -> None:
        self._forest, self._rng = forest, rng
        cut = np.nan_to_num(cuts(forest), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        # Values beyond 1e30 stand for infinity, which text files cannot spell.
        self._left = np.minimum(cut.astype(np.float64) - resolution, _LARGEST).astype(np.float32)
        self._right = np.maximum(above(cut).astype(np.float64) + resolution, -_LARGEST).astype(
            np.float32
        )
        self.categorical = np.zeros(n_features, bool)
        self.categorical[forest.feature[forest.categorical]] = True
        # Nodes of each feature.
        by_feature = np.argsort(forest.feature, kind="stable")
        ends = np.searchsorted(forest.feature[by_feature], np.arange(n_features + 1))
        self._of = [by_feature[a:b] for a, b in pairwise(ends)]
        self._parent = parents(forest)
        self._any = np.ones(2 + 32 * int(np.diff(forest.set_ptr).max(initial=0)), bool)

    @property
    def work_of_a_node(self) -> int:
        """Return the maximum number of categories that are checked to reach a node."""
        return (
            1 + self._any.size * int(depths(self._parent).max(initial=0))
            if bool(self.categorical.any())
            else 1
        )

    def draw(self, n: int) -> Float32Array:
        """Return float32[n, d] with values at, right above and near thresholds, and known
        categories.
        """
        rows = np.empty((n, len(self._of)), np.float32)
        for feature, nodes in enumerate(self._of):
            if self.categorical[feature]:
                rows[:, feature] = self._rng.integers(0, self._any.size, n)
                continue
            nodes = nodes[np.isfinite(self._left[nodes]) & np.isfinite(self._right[nodes])]
            if not nodes.size:
                rows[:, feature] = self._rng.normal(size=n)
                continue
            drawn = self._rng.choice(nodes, n)
            left, right = self._left[drawn], self._right[drawn]
            spread = (
                np.float64(np.std(self._left[nodes], dtype=np.float64))
                + abs(float(left[0])) / 16.0
                + 1e-6
            )
            with np.errstate(over="ignore"):
                near = (left + self._rng.normal(scale=spread, size=n)).astype(np.float32)
            rows[:, feature] = np.choose(self._rng.integers(0, 3, n), [left, right, near])
        return rows

    def reach(self, rows: Float32Array, node: int) -> None:
        """Change three rows in place, so that they reach a node with a value that goes left, right,
        or is missing.
        """
        forest = self._forest
        # Walk up to the root and collect the bounds and categories that each ancestor allows.
        low: dict[int, np.float32] = {}
        high: dict[int, np.float32] = {}
        allowed: dict[int, BoolArray] = {}
        child, at = node, int(self._parent[node])
        while child != at:
            feature, right = int(forest.feature[at]), bool(forest.right[at] == child)
            if forest.categorical[at]:
                allowed[feature] = allowed.get(feature, self._any) & (self._goes_left(at) != right)
            elif right:
                low[feature] = max(low.get(feature, self._right[at]), self._right[at])
            else:
                high[feature] = min(high.get(feature, self._left[at]), self._left[at])
            child, at = at, int(self._parent[at])
        for feature in low.keys() | high.keys():
            highest = feature in high and (feature not in low or self._rng.random() < 0.5)
            rows[:, feature] = high[feature] if highest else low[feature]
        for feature, categories in allowed.items():
            rows[:, feature] = self._one_of(categories)
        feature = int(forest.feature[node])
        if forest.categorical[node]:
            left = self._goes_left(node)
            within = allowed.get(feature, self._any)
            rows[0, feature] = self._one_of(within & left)
            rows[1, feature] = self._one_of(within & ~left)
        else:
            rows[0, feature], rows[1, feature] = self._left[node], self._right[node]
        rows[2, feature] = np.nan

    def _goes_left(self, node: int) -> BoolArray:
        """Return which categories go left at a categorical split, bool[categories]."""
        left = np.full(self._any.size, bool(self._forest.kind[node] & LISTED_RIGHT))
        listed = self._forest.categories(int(self._forest.threshold[node]))
        left[listed] = ~left[listed]
        return left

    def _one_of(self, categories: BoolArray) -> float:
        members = np.flatnonzero(categories)
        return float(self._rng.choice(members)) if members.size else 0.0


EQUAL, FLOAT32, RANKING, DIFFERENT = LEVELS = ("equal", "float32", "ranking", "different")
"""Levels of agreement: all logged digits are equal, float32 rounding differs, only rankings agree,
or none of these.
"""


@dataclass(frozen=True)
class Verification:
    """The result of comparing another program's scores with the model's own scores.

    Args:
        level: the level of agreement, one of `LEVELS`.
        different: number of documents whose scores differ by more than the logged digits and one
            unit of float32.
        moved: number of documents with a different rank in their query.
        largest: largest difference between the two scores of a document.
        first: row (from 0), query, model's score and logged score of the first difference; None if
            all are equal.
    """

    documents: int
    queries: int
    level: str
    different: int
    moved: int
    largest: float
    first: tuple[int, str, float, float] | None

    def equal(self, tolerance: str = FLOAT32) -> bool:
        """Return True if the scores agree at this level or a better one."""
        return LEVELS.index(self.level) <= LEVELS.index(tolerance)


@takes_dataset
def verify(model: Any, data: RankingDataset, logged: Any, *, precision: Any = 0.0) -> Verification:
    """Compare scores that another program logged with the model's own scores.

    Args:
        model: the ranker that the other program serves.
        data: N documents, as the other program received them.
        logged: float[N], logged scores in the order in which the rows were read, or a data frame
            with the score of each query and document.
        precision: float[N] or a number, which is half a unit of the last logged digit.

    Raises:
        DataError: if `logged` has a different length or is not finite.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> model = boostrank.train(params, data, 3)
        >>> boostrank.verify(model, data, model.predict(data)).level
        'equal'
    """
    model, data = as_model(model).over_columns(data)
    logged_scores = as_scores(logged, data, "the logged scores")
    if logged_scores.size != data.n_documents:
        raise DataError(
            f"there are {logged_scores.size:,} scores for {data.n_documents:,} documents"
        )
    if not bool(np.isfinite(logged_scores).all()):
        raise DataError(
            f"score {int(np.argmin(np.isfinite(logged_scores))) + 1} is not a finite number"
        )
    half = data.in_row_order(
        np.broadcast_to(np.asarray(precision, dtype=np.float64), logged_scores.shape)
    )
    model_scores = data.in_row_order(model.predict(data))
    # A float32 sum of T leaves is off by a few units of the largest score, times sqrt(T).
    trees = 0
    with suppress(ParameterError):  # a linear model
        trees = model.num_trees()
    slack = (4.0 + np.sqrt(trees)) * float(_unit(np.abs(model_scores).max(initial=0.0)))
    return _compared(model_scores, data.in_row_order(logged_scores), data, half, slack)


def _compared(
    model_scores: Float64Array,
    target_scores: Float64Array,
    data: RankingDataset,
    half: Float64Array,
    slack: float,
) -> Verification:
    """Compare scores, float64[N], in row order.

    Differences up to `half` a unit of the last digit in `given` are due to rounding, and up to
    `slack` to float32.
    """
    # Find the level of agreement.
    apart = np.abs(target_scores - model_scores)
    differs = apart > half + _unit(model_scores)
    before, after = data.queries.ranks(model_scores), data.queries.ranks(target_scores)
    if bool((apart <= half + 4.0 * np.spacing(np.abs(model_scores)) * (half > 0.0)).all()):
        level = EQUAL
    elif bool((apart <= half + np.maximum(slack, _unit(model_scores))).all()):
        level = FLOAT32
    else:
        level = RANKING if np.array_equal(before, after) else DIFFERENT
    # Name the first input row with another score.
    first = None
    if level != EQUAL and differs.any():
        rows = np.arange(model_scores.size) if data.input_rows is None else data.input_rows
        i = min(np.flatnonzero(differs).tolist(), key=lambda row: int(rows[row]))
        first = (
            int(rows[i]),
            data.queries.describe_query(data.queries.of_row(i)),
            float(model_scores[i]),
            float(target_scores[i]),
        )
    return Verification(
        documents=model_scores.size,
        queries=len(data.queries),
        level=level,
        different=int(differs.sum()),
        moved=int(np.count_nonzero(before != after)),
        largest=float(apart.max(initial=0.0)),
        first=first,
    )


def _unit(numbers: Any) -> Float64Array:
    return np.asarray(np.spacing(np.abs(numbers).astype(np.float32)), dtype=np.float64)


@dataclass(frozen=True)
class Proof:
    """The result of a proof.

    Args:
        target, proved_by: see `TargetSpec`.
        nodes, of_nodes: see `Pack`.
        largest: largest difference from the model's scores.
        same_bits: whether all scores are bit-identical.
        other_leaves: number of rows with a difference that is not due to rounding, for each allowed
            kind of row.
        size: size of the file in bytes.
        moves: comparison of the scores for the user's data.
        untried: minimum distance from a threshold at which values were tested, or 0 for the nearest
            float32 numbers.
        fill: values by name that the program must give to documents without a feature.
    """

    target: str
    proved_by: str
    rows: int
    nodes: int
    of_nodes: int
    largest: float
    same_bits: bool
    other_leaves: dict[str, int]
    size: int
    moves: Verification | None = None
    untried: float = 0.0
    fill: Mapping[str, float] = field(default_factory=dict)


def prove(
    model: RankingModel,
    served: ServedModel,
    target: TargetSpec,
    body: bytes,
    *,
    data: RankingDataset | None = None,
    allow: Collection[str] = (),
) -> Proof:
    """Compare the scores by an exported file, `body`, with those by the model. For `allow`, see
    `export_model`.

    Raises:
        ExportError: if scores or ranks differ, and `allow` does not contain that kind.
    """
    linear, defaults = served.linear, served.defaults
    scorer = target.scorer(body, served.feature_names)

    def score(rows: Array) -> Array:
        """Score rows as the program does, which replaces missing values by its features'
        defaults.
        """
        if not np.isnan(defaults).all():
            rows = np.where(np.isnan(rows), defaults.astype(rows.dtype), rows)
        if target.normalises and linear is not None:  # the program's weights have the sum 1
            return np.asarray(linear.bias + linear.weights.sum() * scorer(rows))
        return scorer(rows)

    # Score the rows of a pack by the model and by the file.
    resolution = None if target.resolution is None else target.resolution(served.trees.forest)
    pack = _make_pack(served, target, resolution)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the pack has unseen categories on purpose
        model_scores = model.predict(pack.rows)
    if "missing" not in allow:
        _check_defaults(model, served, target, pack.rows)
    target_scores = np.asarray(score(pack.rows))
    if target_scores.shape != model_scores.shape:
        raise ExportError(
            f"{target.proved_by} returned scores of shape {target_scores.shape} for"
            f" {model_scores.size} rows"
        )
    # Refuse differences that are not allowed.
    wrong, rounding = _wrong(target, served, pack.rows, model_scores, target_scores)
    counts = np.bincount(pack.kind[wrong], minlength=len(KINDS)).tolist()
    differing = {kind: count for kind, count in zip(KINDS, counts, strict=True) if count}
    moves = None if data is None else _moves(model, score, data, rounding)
    for kind in differing:
        if kind not in allow:
            words = _describe_difference(target, pack, wrong, model_scores, target_scores, kind)
            moved = "" if moves is None else f"; in your data, {moved_line(moves)}"
            raise ExportError(f"{words}{moved}")
    if moves is not None and moves.level == DIFFERENT and MOVED not in allow:
        raise ExportError(
            f"{target.title}: {moved_line(moves)}; pass `--allow moved` to write the file anyway"
        )
    untried = 0.0 if resolution is None else float(resolution.max(initial=0.0))
    difference = np.abs(target_scores - model_scores)[~wrong]
    return Proof(
        target=target.name,
        proved_by=target.proved_by,
        rows=model_scores.size,
        nodes=pack.nodes,
        of_nodes=pack.of_nodes,
        largest=float(difference.max(initial=0.0)),
        same_bits=not difference.any(),
        other_leaves=differing,
        size=len(body),
        moves=moves,
        untried=untried * (untried > _NOTHING),
        fill=served.fill,
    )


def _make_pack(served: ServedModel, target: TargetSpec, resolution: Float64Array | None) -> Pack:
    """Return the rows for a target, without infinite values if it has none."""
    if served.linear is None:
        columns, forest = len(served.feature_names), served.trees.forest
        pack = parity_pack(forest, columns, target.most_rows, resolution)
    else:
        pack = linear_pack(served.linear, target.most_rows)
    if not target.finite:
        return pack
    others = pack.kind != KINDS.index("infinite")
    return replace(pack, rows=pack.rows[others], kind=pack.kind[others])


def _describe_difference(
    target: TargetSpec,
    pack: Pack,
    wrong: BoolArray,
    model_scores: Float64Array,
    target_scores: Array,
    kind: str,
) -> str:
    """Describe the largest difference in rows of a kind, and what to do about it."""
    of_kind = pack.kind == KINDS.index(kind)
    bad = np.flatnonzero(wrong & of_kind)
    apart = np.nan_to_num(np.abs(target_scores[bad] - model_scores[bad]), nan=np.inf)
    worst = bad[np.argmax(apart)]
    fix = f"if your data has no such rows, pass `--allow {kind}` to write the file anyway"
    if kind not in _ABSENT:
        fix = "choose another target"
    if kind == "missing" and target.no_missing:
        fix = f"{target.no_missing}: {target.remedy}; {fix}"
    return (
        f"{target.title}: {bad.size:,} of {count_of(int(of_kind.sum()), 'row')} of kind {kind!r}"
        f" ({_WHAT[kind]}) get different scores, e.g. {model_scores[worst]:.9g} from the model and"
        f" {target_scores[worst]:.9g} from {target.proved_by}; {fix}"
    )


def _check_defaults(
    model: RankingModel, served: ServedModel, target: TargetSpec, rows: Float32Array
) -> None:
    """Refuse declared features whose values, in documents without them, change scores of rows that
    lack them.
    """
    for name in served.declared:
        i = served.feature_names.index(name)
        value, lacks = served.defaults[i], np.isnan(rows[:, i])
        if np.isnan(value) or not lacks.any():
            continue
        replaced = rows[lacks].copy()
        replaced[:, i] = value
        slack = np.zeros(int(lacks.sum()))
        if served.linear is not None:
            slack = served.linear.rounding(rows[lacks], target.rules)
        if bool((np.abs(model.predict(replaced) - model.predict(rows[lacks])) <= slack).all()):
            continue
        fill, fix = served.fill.get(model.feature_names[i]), target.remedy
        if fill is not None or target.rules.missing is None:
            number = "NaN" if target.rules.missing is None else f"{shortest(fill)}"
            fix = f"give it {target.default.format(value=number)}"
        read = "NaN" if np.isinf(value) else f"{value:g}"
        raise ExportError(
            f"{name!r}: {target.title} would read {read} in documents without a value, but the"
            f" model scores missing values otherwise; {fix}, or, if no document lacks a value, pass"
            " `--allow missing`"
        )


def moved_line(moves: Verification) -> str:
    """Describe how many documents change rank, and where the first scores differ."""
    if moves.level != DIFFERENT or moves.first is None:
        return f"none of {moves.documents:,} documents changes its rank"
    row, query, model_score, target_score = moves.first
    return (
        f"{moves.moved:,} of {count_of(moves.documents, 'document')} change rank; the first"
        f" different score is in row {row + 1:,}, query {query}: the model gives {model_score:.9g},"
        f" the exported file {target_score:.9g}"
    )


def _wrong(
    target: TargetSpec,
    served: ServedModel,
    rows: Array,
    model_scores: Float64Array,
    target_scores: Array,
) -> tuple[BoolArray, float]:
    """Return the rows with differences not due to the target's arithmetic, bool[n], and the largest
    rounding.
    """
    if served.linear is not None:
        apart = np.abs(target_scores - model_scores)
        wrong = ~(apart <= served.linear.rounding(rows, target.rules))
        return wrong, 2.0 * float(np.where(wrong, 0.0, apart).max(initial=0.0))
    if served.engine in target.exact:
        return target_scores != model_scores, 0.0
    trees, types = served.trees, target.rules
    rules = replace(Rules.of_engine(trees), leaves=types.leaves, sums=types.sums, gives=types.gives)
    # Rounding and summing in another type can cause this difference.
    single = trees.single or np.float32 in (types.leaves, types.sums, types.gives)
    largest = np.zeros(trees.forest.roots.size)
    np.maximum.at(largest, trees.forest.leaf_trees(), np.abs(trees.forest.value))
    size = abs(trees.base) + float(largest.sum())
    precision = np.finfo(np.float32) if single else np.finfo(np.float64)
    most = (largest.size + 3) * size * float(precision.eps)
    with np.errstate(all="ignore"):
        by_rules = scores(trees, rows, rules).astype(np.float64)
        # The order of summation can cause a unit; float32 scores are exact.
        unit = 0.0 if types.gives is np.float32 else np.spacing(np.abs(by_rules))
        differs = ~(np.abs(target_scores.astype(types.gives) - by_rules) <= unit)
        # `wanted` comes from our reading of the model; the engine's own scores check that reading.
        wrong = differs | ~(np.abs(by_rules - model_scores) <= most)
    return wrong, 2.0 * float(np.where(wrong, 0.0, np.abs(by_rules - model_scores)).max())


def _moves(
    model: RankingModel, score: Score, data: RankingDataset, rounding: float
) -> Verification:
    data = model.check_features(data)
    rows = DenseRows(data, np.arange(data.n_features), model.absent_is_missing)
    ends = [*range(0, data.n_documents, _CHUNK), data.n_documents]
    parts = [np.asarray(score(rows[slice(a, b)]), np.float64) for a, b in pairwise(ends)]
    model_scores = data.in_row_order(model.predict(data))
    target_scores = np.concatenate([np.zeros(0), *parts])
    return _compared(model_scores, target_scores, data, np.zeros(model_scores.size), rounding)
