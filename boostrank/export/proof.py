"""Proof that an export is correct, and verification of scores that a program logged.

The rows in a parity pack are on both sides of every split, and show whether two programs read a
model differently.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.core.text import count_of
from boostrank.core.types import Array, BoolArray, Float32Array, Float64Array
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.data.rows import DenseRows, dense_batches
from boostrank.engines.served.linear import LinearScore
from boostrank.engines.served.rules import Rules, scores
from boostrank.export.target import (
    REMEDY,
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
_ABSENT = KINDS[2:]
_NOTHING = 1e-30  # smaller than any real difference of two values

# Zeros to LightGBM, and subnormal float32 numbers.
_SMALL = np.array([0.0, -0.0, 1e-36, -1e-36, 1e-40, -1e-40, 2e-35, -2e-35], np.float32)
# Maximum number of values in a pack: 256 MB.
_MOST_CELLS = 2**26
# Maximum number of category checks (categories times splits): about twenty seconds.
_MOST_WORK = 2**30
_RANDOM = 1000
_LARGEST = 1e30
# Codes that may be unseen or invalid. They are integers because programs truncate 2.7 differently.
_NO_CATEGORIES = np.array([0, 1, 5, -1, -7, 63, 64, 1e6, 3e9, np.nan], np.float32)


@dataclass(frozen=True, eq=False)
class Pack:
    """The rows of a parity pack.

    Args:
        rows: float32[n, d].
        kind: [n], the kind of each row, one of `KINDS`.
        nodes: number of splits with rows on both sides.
    """

    rows: Float32Array
    kind: Array
    nodes: int


def parity_pack(
    forest: Forest, n_features: int, most_rows: int, resolution: Float64Array | float = 0.0
) -> Pack:
    """Return two rows for each split, one on each side of its threshold, and random rows of each
    kind.

    Args:
        forest: the trees, without a separate start.
        most_rows: maximum number of rows, which take at most 256 MB. Larger models' splits are
            sampled with a fixed seed.
        resolution: minimum distance between the rows and each threshold, float64[M] or a number.
    """
    rng = np.random.default_rng(0)
    generator = _Values(forest, n_features, rng, resolution)
    row_limit = max(64, min(most_rows, _MOST_CELLS // n_features))
    n_of_kind = min(_RANDOM, row_limit // 16)
    nodes = np.arange(forest.feature.size)
    node_limit = min(
        (row_limit - (len(KINDS) - 1) * n_of_kind) // 3,
        max(1, _MOST_WORK // generator.n_categories),
    )
    if nodes.size > node_limit:
        nodes = np.sort(rng.choice(nodes, node_limit, replace=False))
    # Rows at the thresholds: two sides and a missing value for each node.
    borders = generator.draw(3 * nodes.size)
    for i, node in enumerate(nodes.tolist()):
        generator.reach(borders[3 * i : 3 * i + 3], node)
    kind = np.tile(["thresholds", "thresholds", "missing"], nodes.size)
    kind[np.isinf(borders).any(axis=1)] = "infinite"
    # Random rows; the later kinds replace some values by zeros, NaN, infinities or unseen
    # categories.
    samples = {name: generator.draw(n_of_kind) for name in KINDS[1:]}
    uniform = rng.random((n_of_kind, n_features))
    small_values = _SMALL[_SMALL == 0.0] if np.any(resolution) else _SMALL
    replacements = {
        "zeros": (small_values, ~generator.categorical & (uniform < 0.5)),
        "infinite": (np.array([np.inf, -np.inf], np.float32), uniform < 0.1),
        "categories": (_NO_CATEGORIES, np.broadcast_to(generator.categorical, uniform.shape)),
    }
    for name, (values, is_replaced) in replacements.items():
        samples[name][is_replaced] = rng.choice(values, uniform.shape)[is_replaced]
    samples["missing"][uniform < 0.3] = np.nan
    if not generator.categorical.any():
        del samples["categories"]
    return Pack(
        np.concatenate([borders, *samples.values()]),
        np.concatenate([kind, np.repeat([*samples], n_of_kind)]),
        nodes=nodes.size,
    )


def linear_pack(linear: LinearScore, most_rows: int) -> Pack:
    """Return random rows, and rows with zeros or missing values."""
    rows_per_kind = max(1, min(most_rows, _MOST_CELLS // linear.weights.size) // 3)
    normal = np.random.default_rng(0).normal(size=(3, rows_per_kind, linear.weights.size))
    rows = (linear.shift + linear.divisor * normal).astype(np.float32)
    random_rows, with_zeros, with_missing = rows
    uniform = np.random.default_rng(1).random(random_rows.shape)
    with_zeros[uniform < 0.5], with_missing[uniform < 0.3] = 0.0, np.nan
    kind = np.repeat(["random", "zeros", "missing"], rows_per_kind)
    return Pack(np.concatenate(rows), kind, nodes=0)


class _Values:
    """A generator of feature values near the thresholds in a forest."""

    def __init__(
        self,
        forest: Forest,
        n_features: int,
        rng: np.random.Generator,
        resolution: Float64Array | float,
    ) -> None:
        self._forest, self._rng = forest, rng
        thresholds = np.nan_to_num(cuts(forest), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        # Values beyond 1e30 stand for infinity, which text files cannot spell.
        left, right = thresholds - resolution, above(thresholds) + resolution
        self._left_values = np.minimum(left, _LARGEST).astype(np.float32)
        self._right_values = np.maximum(right, -_LARGEST).astype(np.float32)
        self.categorical = np.zeros(n_features, bool)
        self.categorical[forest.feature[forest.categorical]] = True
        self._parent = parents(forest)
        self.n_categories = 2 + 32 * int(np.diff(forest.set_ptr).max(initial=0))

    def draw(self, n_rows: int) -> Float32Array:
        """Return float32[n, d] with values at, right above and near thresholds, and known
        categories.
        """
        rows = np.empty((n_rows, self.categorical.size), np.float32)
        is_finite = np.isfinite(self._left_values) & np.isfinite(self._right_values)
        for feature, is_categorical in enumerate(self.categorical):
            if is_categorical:
                rows[:, feature] = self._rng.integers(0, self.n_categories, n_rows)
                continue
            nodes = np.flatnonzero(is_finite & (self._forest.feature == feature))
            if not nodes.size:
                rows[:, feature] = self._rng.normal(size=n_rows)
                continue
            drawn_nodes = self._rng.choice(nodes, n_rows)
            left, right = self._left_values[drawn_nodes], self._right_values[drawn_nodes]
            deviation = np.float64(np.std(self._left_values[nodes], dtype=np.float64))
            spread = deviation + abs(float(left[0])) / 16.0 + 1e-6
            with np.errstate(over="ignore"):
                near_left = (left + self._rng.normal(scale=spread, size=n_rows)).astype(np.float32)
            rows[:, feature] = np.choose(self._rng.integers(0, 3, n_rows), [left, right, near_left])
        return rows

    def reach(self, rows: Float32Array, node: int) -> None:
        """Change three rows in place, so that they reach a node with a value that goes left, right,
        or is missing.
        """
        forest = self._forest
        # Walk up to the root and collect the bounds and categories that each ancestor allows.
        lowest, highest = dict[int, np.float32](), dict[int, np.float32]()
        allowed_categories: dict[int, Any] = {}
        child, ancestor = node, self._parent[node]
        while child != ancestor:
            feature, right = forest.feature[ancestor], forest.right[ancestor] == child
            if forest.categorical[ancestor]:
                allowed = allowed_categories.get(feature, True)
                allowed_categories[feature] = allowed & (self._goes_left(ancestor) != right)
            elif right:
                bound = self._right_values[ancestor]
                lowest[feature] = max(lowest.get(feature, bound), bound)
            else:
                bound = self._left_values[ancestor]
                highest[feature] = min(highest.get(feature, bound), bound)
            child, ancestor = ancestor, self._parent[ancestor]
        for feature in lowest.keys() | highest.keys():
            bounds = [bound[feature] for bound in (highest, lowest) if feature in bound]
            rows[:, feature] = bounds[int(len(bounds) * self._rng.random())]
        for feature, categories in allowed_categories.items():
            rows[:, feature] = self._one_of(categories)
        feature = forest.feature[node]
        if forest.categorical[node]:
            goes_left = self._goes_left(node)
            reachable = allowed_categories.get(feature, True)
            rows[0, feature] = self._one_of(reachable & goes_left)
            rows[1, feature] = self._one_of(reachable & ~goes_left)
        else:
            rows[0, feature], rows[1, feature] = self._left_values[node], self._right_values[node]
        rows[2, feature] = np.nan

    def _goes_left(self, node: int) -> BoolArray:
        """Return which categories go left at a categorical split, bool[categories]."""
        goes_left = np.full(self.n_categories, self._forest.kind[node] & LISTED_RIGHT != 0)
        listed_categories = self._forest.categories(int(self._forest.threshold[node]))
        goes_left[listed_categories] = ~goes_left[listed_categories]
        return goes_left

    def _one_of(self, categories: BoolArray) -> float:
        members = np.flatnonzero(categories)
        return float(self._rng.choice(members)) if members.size else 0.0


EQUAL, FLOAT32, RANKING, DIFFERENT = LEVELS = ("equal", "float32", "ranking", "different")
"""Levels of agreement: scores are equal, float32 rounding differs, only rankings agree,
or none of these.
"""


@dataclass(frozen=True)
class Verification:
    """The result of comparing another program's scores with the model's own scores.

    Args:
        level: the level of agreement, one of `LEVELS`.
        different: number of documents whose scores differ by more than one unit of float32.
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
        if tolerance not in LEVELS:
            raise ParameterError(
                f"tolerance must be from {', '.join(LEVELS)}, but got {tolerance!r}"
            )
        return LEVELS.index(self.level) <= LEVELS.index(tolerance)


def verify(model: Any, data: RankingDataset, logged: Any) -> Verification:
    """Compare scores that another program logged with the model's own scores.

    Args:
        model: the ranker that the other program serves.
        data: N documents, as the other program received them.
        logged: float[N], logged scores in the order in which the rows were read, or a data frame
            with the score of each query and document.

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
    data = as_dataset(data)
    model, data = as_model(model).over_columns(data)
    logged_scores = as_scores(logged, data, "the logged scores")
    if logged_scores.size != data.n_documents:
        raise DataError(
            f"there are {logged_scores.size:,} scores for {data.n_documents:,} documents"
        )
    is_finite = np.isfinite(logged_scores)
    if not is_finite.all():
        raise DataError(f"score {np.argmin(is_finite) + 1} is not a finite number")
    model_scores = data.in_row_order(model.predict(data))
    # A float32 sum of T leaves is off by a few units of the largest score, times sqrt(T).
    n_trees = 0
    with suppress(ParameterError):  # a linear model
        n_trees = model.num_trees()
    slack = (4.0 + np.sqrt(n_trees)) * _unit(np.abs(model_scores).max(initial=0.0))
    return _compare_scores(model_scores, data.in_row_order(logged_scores), data, slack)


def _compare_scores(
    model_scores: Float64Array,
    target_scores: Float64Array,
    data: RankingDataset,
    slack: float,
) -> Verification:
    """Compare scores, float64[N], in row order. Differences up to `slack` are due to float32."""
    # Find the level of agreement.
    differences = np.abs(target_scores - model_scores)
    differs = differences > _unit(model_scores)
    model_ranks, target_ranks = data.queries.ranks(model_scores), data.queries.ranks(target_scores)
    if not differences.any():
        level = EQUAL
    elif (differences <= np.maximum(slack, _unit(model_scores))).all():
        level = FLOAT32
    else:
        level = RANKING if np.array_equal(model_ranks, target_ranks) else DIFFERENT
    # Name the first input row with another score.
    first = None
    if differs.any():
        rows = np.arange(model_scores.size) if data.input_rows is None else data.input_rows
        different_rows = np.flatnonzero(differs)
        first_row = different_rows[np.argmin(rows[different_rows])]
        first = (
            int(rows[first_row]),
            data.queries.describe_query(data.queries.of_row(first_row)),
            float(model_scores[first_row]),
            float(target_scores[first_row]),
        )
    return Verification(
        documents=model_scores.size,
        queries=len(data.queries),
        level=level,
        different=int(differs.sum()),
        moved=int(np.count_nonzero(model_ranks != target_ranks)),
        largest=float(differences.max(initial=0.0)),
        first=first,
    )


def _unit(numbers: Any) -> Float64Array:
    units: Float64Array = np.spacing(np.abs(numbers).astype(np.float32)).astype(np.float64)
    return units


@dataclass(frozen=True)
class Proof:
    """The result of a proof.

    Args:
        target, proved_by: see `TargetSpec`.
        nodes, of_nodes: number of splits with rows on both sides, and number of splits in the
            model.
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
    moves: Verification | None
    untried: float
    fill: Mapping[str, float]


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
        if target.normalises:  # the program's weights have the sum 1
            return np.asarray(linear.bias + linear.weights.sum() * scorer(rows))
        return scorer(rows)

    # Score the rows of a pack by the model and by the file.
    resolution = target.resolution(served.trees.forest)
    pack = _make_pack(served, target, resolution)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the pack has unseen categories on purpose
        model_scores = model.predict(pack.rows)
    if "missing" not in allow:
        _check_defaults(model, served, target, pack.rows)
    target_scores = score(pack.rows)
    if target_scores.shape != model_scores.shape:
        raise ExportError(
            f"{target.proved_by} returned scores of shape {target_scores.shape} for"
            f" {model_scores.size} rows"
        )
    # Refuse differences that are not allowed.
    is_wrong, rounding = _find_differences(
        target, served, pack.rows, model_scores=model_scores, target_scores=target_scores
    )
    counts = Counter(pack.kind[is_wrong].tolist())
    differing = {kind: counts[kind] for kind in KINDS if kind in counts}
    verification = None if data is None else _moves(model, score, data, rounding)
    for kind in differing:
        if kind not in allow:
            of_kind = pack.kind == kind
            differences = np.nan_to_num(np.abs(target_scores - model_scores), nan=np.inf)
            worst = np.argmax(np.where(is_wrong & of_kind, differences, -1.0))
            n_rows = count_of(int(of_kind.sum()), "row")
            message = (
                f"{target.title}: {differing[kind]:,} of {n_rows} of kind {kind!r} ({_WHAT[kind]})"
                f" get different scores, e.g. {model_scores[worst]:.9g} from the model and"
                f" {target_scores[worst]:.9g} from {target.proved_by}; {_find_remedy(target, kind)}"
            )
            if verification is not None:
                message += f"; in your data, {moved_line(verification)}"
            raise ExportError(message)
    if verification is not None and verification.level == DIFFERENT and MOVED not in allow:
        raise ExportError(
            f"{target.title}: {moved_line(verification)}; pass `--allow moved` to write the file"
            " anyway"
        )
    untried = float(resolution.max(initial=0.0))
    difference = np.abs(target_scores - model_scores)[~is_wrong]
    return Proof(
        target=target.name,
        proved_by=target.proved_by,
        rows=model_scores.size,
        nodes=pack.nodes,
        of_nodes=served.trees.forest.feature.size,
        largest=float(difference.max(initial=0.0)),
        same_bits=not difference.any(),
        other_leaves=differing,
        size=len(body),
        moves=verification,
        untried=untried * (untried > _NOTHING),
        fill=served.fill,
    )


def _make_pack(served: ServedModel, target: TargetSpec, resolution: Float64Array) -> Pack:
    """Return the rows for a target, without infinite values if it has none."""
    if not served.is_linear:
        columns, forest = len(served.feature_names), served.trees.forest
        pack = parity_pack(forest, columns, most_rows=target.most_rows, resolution=resolution)
    else:
        pack = linear_pack(served.linear, target.most_rows)
    if not target.finite:
        return pack
    is_finite = pack.kind != "infinite"
    return replace(pack, rows=pack.rows[is_finite], kind=pack.kind[is_finite])


def _find_remedy(target: TargetSpec, kind: str) -> str:
    """Return what to do about different scores of rows of a kind."""
    if kind not in _ABSENT:
        return "choose another target"
    remedy = f"if your data has no such rows, pass `--allow {kind}` to write the file anyway"
    if kind == "missing" and target.no_missing:
        remedy = f"{target.no_missing}: {REMEDY}; {remedy}"
    return remedy


def _check_defaults(
    model: RankingModel, served: ServedModel, target: TargetSpec, rows: Float32Array
) -> None:
    """Refuse declared features whose values, in documents without them, change scores of rows that
    lack them.
    """
    for name in served.declared:
        column = served.feature_names.index(name)
        value, is_missing = served.defaults[column], np.isnan(rows[:, column])
        if np.isnan(value) or not is_missing.any():
            continue
        replaced = rows[is_missing].copy()
        replaced[:, column] = value
        slack: Any = 0.0
        if served.is_linear:
            slack = served.linear.rounding(rows[is_missing], target.rules)
        if (np.abs(model.predict(replaced) - model.predict(rows[is_missing])) <= slack).all():
            continue
        fill, remedy = served.fill.get(model.feature_names[column]), REMEDY
        if fill is not None or target.rules.missing is None:
            number = "NaN" if target.rules.missing is None else f"{shortest(fill)}"
            remedy = f"give it {target.default.format(value=number)}"
        read_value = "NaN" if np.isinf(value) else f"{value:g}"
        raise ExportError(
            f"{name!r}: {target.title} would read {read_value} in documents without a value, but"
            f" the model scores missing values otherwise; {remedy}, or, if no document lacks a"
            " value, pass `--allow missing`"
        )


def moved_line(moves: Verification) -> str:
    """Describe how many documents change rank, and where the first scores differ."""
    if not moves.moved:
        return f"none of {moves.documents:,} documents changes its rank"
    line = f"{moves.moved:,} of {count_of(moves.documents, 'document')} change rank"
    if moves.level != DIFFERENT or moves.first is None:
        return f"{line}, by rounding alone"
    row, query, model_score, target_score = moves.first
    return (
        f"{line}; the first different score is in row {row + 1:,}, query {query}: the model gives"
        f" {model_score:.9g}, the exported file {target_score:.9g}"
    )


def _find_differences(
    target: TargetSpec,
    served: ServedModel,
    rows: Array,
    *,
    model_scores: Float64Array,
    target_scores: Array,
) -> tuple[BoolArray, float]:
    """Return the rows with differences not due to the target's arithmetic, bool[n], and the largest
    rounding.
    """
    if served.is_linear:
        differences = np.abs(target_scores - model_scores)
        is_wrong = ~(differences <= served.linear.rounding(rows, target.rules))
        largest = float(np.where(is_wrong, 0.0, differences).max(initial=0.0))
        return is_wrong, 2.0 * largest
    if served.engine in target.exact:
        return target_scores != model_scores, 0.0
    trees, target_rules = served.trees, target.rules
    rules = replace(
        Rules.of_engine(trees),
        leaves=target_rules.leaves,
        sums=target_rules.sums,
        gives=target_rules.gives,
    )
    # Rounding and summing in another type can cause this difference.
    types = target_rules.leaves, target_rules.sums, target_rules.gives
    uses_float32 = trees.single or np.float32 in types
    largest_leaf = np.zeros(trees.forest.roots.size)
    np.maximum.at(largest_leaf, trees.forest.leaf_trees(), np.abs(trees.forest.value))
    score_bound = abs(trees.base) + float(largest_leaf.sum())
    precision = np.finfo(np.float32) if uses_float32 else np.finfo(np.float64)
    most_rounding = (largest_leaf.size + 3) * score_bound * float(precision.eps)
    with np.errstate(all="ignore"):
        rule_scores = scores(trees, rows, rules).astype(np.float64)
        # The order of summation can cause a unit; float32 scores are exact.
        unit = 0.0 if target_rules.gives is np.float32 else np.spacing(np.abs(rule_scores))
        given_scores = target_scores.astype(target_rules.gives)
        is_wrong = ~(np.abs(given_scores - rule_scores) <= unit)
        # These rules are our reading of the model; the engine's own scores check that reading.
        rounding = np.abs(rule_scores - model_scores)
        is_wrong |= ~(rounding <= most_rounding)
    return is_wrong, 2.0 * float(np.where(is_wrong, 0.0, rounding).max())


def _moves(
    model: RankingModel, score: Score, data: RankingDataset, rounding: float
) -> Verification:
    data = model.check_features(data)
    rows = DenseRows(data, np.arange(data.n_features), model.absent_is_missing)
    batch_scores = [score(rows[start:stop]) for start, stop in dense_batches(data.features)]
    model_scores = data.in_row_order(model.predict(data))
    target_scores = np.concatenate([np.zeros(0), *batch_scores])
    return _compare_scores(model_scores, target_scores, data, rounding)
