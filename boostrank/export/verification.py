"""Verification of scores that somebody else logged: equal, or which document differs first and which known cause fits.

Each cause is tried: the documents are scored once more as a program with that fault would, by a plain reading of the
trees (`reading`), and the cause is named that gives most of the logged scores. It has to give half of those that
differ: scores of another model have no cause here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.arguments import takes
from boostrank.core.errors import DataError, ModelError
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.dense import DenseRows
from boostrank.engines import get_backend
from boostrank.engines.trees import ServedTrees
from boostrank.export.reading import Rules, leaves, scores
from boostrank.export.target import above
from boostrank.model.ranking_model import RankingModel
from boostrank.model.scoring import compiled_scorer

BITS, DIGITS, FLOAT32, RANKING, DIFFERENT = LEVELS = ("bits", "digits", "float32", "ranking", "different")
"""How far logged scores agree: the same bits; but for the digits that were logged; but for one unit of float32, or as
much as sums in float32 differ; the same ranking of each query; not at all."""

_SHARE = 0.5  # of the documents that differ a cause must explain
_FIRST, _SECOND, _ALL = 48, 400, 5_000  # documents that a cause is tried on, in turn
_MOST_PAIRS = 20_000
_ENOUGH = 10  # documents, for causes with numbers that are fitted, or that look at the order alone


@dataclass(frozen=True)
class Cause:
    """What makes other scores.

    Args:
        name: in a word.
        words: what it is.
        remedy: what mends it.
        share: of the documents that differ, it explains.
    """

    name: str
    words: str
    remedy: str
    share: float


_ROUNDING = Cause("float32", "values, leaves or sums were rounded to float32", "harmless", 1.0)


@dataclass(frozen=True)
class Verification:
    """What a comparison of logged scores with the model's own gave.

    Args:
        documents, queries: how many.
        level: one of `LEVELS`.
        different: documents whose scores differ by more than the digits that were logged and one unit of float32.
        moved: documents that have another rank in their query.
        largest: difference.
        first: row from 0, query, the model's score and the logged one, of the first that differs; None: none does.
        cause: what explains most of them, where one explains at least half.
    """

    documents: int
    queries: int
    level: str
    different: int
    moved: int
    largest: float
    first: tuple[int, str, float, float] | None
    cause: Cause | None

    def equal(self, tolerance: str = FLOAT32) -> bool:
        """Whether they agree as far as that."""
        return LEVELS.index(self.level) <= LEVELS.index(tolerance)


@takes(model=RankingModel, data=RankingDataset)
def verify(
    model: RankingModel, data: RankingDataset, logged: npt.ArrayLike, *, precision: npt.ArrayLike = 0.0
) -> Verification:
    """Compare scores that another program logged with the model's own.

    Args:
        model: that is said to have made them.
        data: N documents, as the model was given them there.
        logged: float[N], in the order in which the rows came in.
        precision: float[N] or a number: half a unit of the last digit of each that was logged.

    Raises:
        DataError: another number of scores, or such that are not finite.
    """
    model, data = model.over_columns(data)
    given = np.asarray(logged, dtype=np.float64).reshape(-1)
    if given.size != data.n_documents:
        raise DataError(f"{given.size:,} scores for {data.n_documents:,} documents")
    if not bool(np.isfinite(given).all()):
        raise DataError(f"score {int(np.argmin(np.isfinite(given))) + 1} is not a finite number")
    half = data.in_row_order(np.broadcast_to(np.asarray(precision, dtype=np.float64), given.shape))
    given, own = data.in_row_order(given), data.in_row_order(model.predict(data))
    apart = np.abs(given - own)
    differs = apart > half + _unit(own)
    before, after = data.queries.ranks(own), data.queries.ranks(given)
    search = _Search(model, data, own, given, half, np.flatnonzero(differs))
    cause, level = None, DIFFERENT
    if np.array_equal(given, own):
        level = BITS
    elif bool((apart <= half + 4.0 * np.spacing(np.abs(own))).all()):
        level = DIGITS
    elif bool((apart <= half + np.maximum(search.slack, _unit(own))).all()):
        level, cause = FLOAT32, _ROUNDING if differs.any() else None
    else:
        cause = search.best()
        if np.array_equal(before, after):
            level = RANKING
    rows = np.arange(own.size) if data.input_rows is None else data.input_rows
    first = None
    if level not in (BITS, DIGITS) and differs.any():
        i = min(np.flatnonzero(differs).tolist(), key=lambda row: int(rows[row]))
        first = int(rows[i]), str(data.queries.qid[data.queries.of_row(i)]), float(own[i]), float(given[i])
    return Verification(
        own.size, len(data.queries), level, int(differs.sum()), int(np.count_nonzero(before != after)),
        float(apart.max(initial=0.0)), first, cause,
    )  # fmt: skip


def _unit(numbers: Any) -> Float64Array:
    """One unit of float32 at each number."""
    return np.asarray(np.spacing(np.abs(numbers).astype(np.float32)), dtype=np.float64)


@dataclass(frozen=True)
class _Known:
    """A cause that has not been tried; `score` gives what it makes of some rows of the data set."""

    name: str
    words: str
    remedy: str
    score: Callable[[Int64Array], Any]


class _Search:
    """The search for a cause.

    Args:
        model, data: what is scored by what.
        own, given, half: float64[N], the model's scores, those that were logged, and half a unit of their last digit.
        differ: int64[m], documents whose scores differ.
    """

    def __init__(
        self, model: RankingModel, data: RankingDataset, own: Float64Array, given: Float64Array, half: Float64Array,
        differ: Int64Array,
    ) -> None:  # fmt: skip
        self._model, self._data, self._own, self._given, self._half = model, data, own, given, half
        self._differ, self._spread = differ, float(own.std()) if own.size else 0.0
        self._single = bool(np.array_equal(given.astype(np.float32), given)) or bool(
            (half > _unit(own) / 2.0).mean() > 0.5 if own.size else False
        )
        body = model.to_bytes()
        self._trees: ServedTrees | None = None
        self._first = 0  # of the trees that are no start's
        try:
            format = get_backend(model.backend).format
            parsed = format.parse(body)
            self._trees, self._first = format.served(parsed), int(getattr(parsed, "start_trees", 0))
        except ModelError:  # linear leaves, a linear model: only what needs no trees is tried
            pass
        trees = 0 if self._trees is None else self._trees.forest.roots.size
        top = float(np.abs(own).max(initial=0.0))
        self.slack = (4.0 + np.sqrt(trees)) * float(_unit(np.array([top]))[0])
        """What sums in float32 may differ by."""
        self._rows = DenseRows(data, np.arange(data.n_features), model.absent_is_missing)

    def best(self) -> Cause | None:
        """The cause that explains most, at least half, of the documents that differ; None: none does."""
        if self._spread and not np.ptp(self._given):
            remedy = "is the model loaded, and are features sent at all?"
            return Cause("constant", "every document has the same score", remedy, 1.0)
        for slack in (0.0, self.slack):
            share, likely = _SHARE, None
            for one in chain(self._of_order(), self._of_numbers(), self._of_trees()):
                if self._share(one, _FIRST, slack) < _SHARE:
                    continue
                explained = self._share(one, _SECOND, slack)
                if explained > share or (likely is None and explained == share):
                    share, likely = explained, one
                if share == 1.0:
                    break
            if likely is not None:
                share = self._share(likely, _ALL, slack)
                if share >= _SHARE:
                    return Cause(likely.name, likely.words, likely.remedy, share)
        return self._by_order()

    def _some(self, most: int) -> Int64Array:
        """Documents that differ, evenly spaced."""
        step = max(1, -(-self._differ.size // most))
        return self._differ[::step]

    def _share(self, one: _Known, most: int, slack: float) -> float:
        rows = self._some(most)
        if not rows.size:
            return 0.0
        return float(np.mean(self._fits(np.asarray(one.score(rows), dtype=np.float64), rows, slack)))

    def _fits(self, made: Float64Array, rows: Any, slack: float) -> npt.NDArray[np.bool_]:
        """Whether scores are those that were logged: made is [n] or [n, k]."""
        given, half = self._given[rows], self._half[rows]
        if made.ndim > 1:
            given, half = given[:, np.newaxis], half[:, np.newaxis]
        exact = 4.0 * np.spacing(np.abs(made) + self._spread)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.abs(given - made) <= half + exact + self._single * _unit(made) + slack)

    # What it may be --------------------------------------------------------------------------------------------------

    def _of_order(self) -> Iterator[_Known]:
        """Scores that are right and stand elsewhere."""
        own, given, queries = self._own, self._given, self._data.queries
        if own.size < _ENOUGH or float(np.median(self._half)) > 1e-4 * self._spread:
            return  # too few, or too few digits to know scores by
        remedy = "log a document's id beside its score, and bring the rows into one order"
        for step, words in ((1, "one row too late"), (-1, "one row too early")):
            yield _Known(
                "order",
                f"scores stand {words}",
                "look for a heading or a row too much in one of the files",
                _taken(np.roll(own, step)),
            )
        owner = queries.of_rows()
        for words, keys in (("of each query ", (own, owner)), ("", (own,))):
            at = np.lexsort(keys)
            to = np.lexsort((given, *keys[1:]))
            made = np.empty_like(own)
            made[to] = own[at]
            yield _Known("order", f"the scores {words}are the model's, in another order", remedy, _taken(made))

    def _of_numbers(self) -> Iterator[_Known]:
        """Scores that became others after they were added up."""
        own, given = self._own, self._given
        with np.errstate(over="ignore"):
            sigmoid = 1.0 / (1.0 + np.exp(-own))
        harmless = "harmless: the ranking stays; compare without it, or by --tolerance ranking"
        yield _Known("sigmoid", "scores went through a sigmoid", harmless, _taken(sigmoid))
        if own.size < _ENOUGH or not self._spread or not np.ptp(given):
            return
        for digits in range(1, 9):
            words = f"scores were rounded to {digits} decimals"
            yield _Known("rounded", words, "log them with 9 digits or more", _taken(np.round(own, digits)))
        bias = float(np.median(given - own))
        yield _Known(
            "bias",
            f"{bias:+.6g} was added to every score",
            f"{harmless} (a base_score of the engine?)",
            _taken(own + bias),
        )
        large = np.abs(own) > self._spread / 10.0
        factor = float(np.median(given[large] / own[large])) if large.any() else 0.0
        if abs(factor) > 1e-6:
            turned = "" if factor > 0.0 else "the ranking is upside down: take its sign away"
            yield _Known(
                "factor",
                f"every score was multiplied by {factor:.6g}",
                turned or f"{harmless} (shrinkage, or a mean of trees?)",
                _taken(factor * own),
            )
            low, high = int(np.argmin(own)), int(np.argmax(own))
            if own[low] == own[high]:
                return
            slope = float((given[high] - given[low]) / (own[high] - own[low]))
            shift = float(given[low] - slope * own[low])
            if abs(slope) > 1e-6:
                yield _Known(
                    "factor",
                    f"every score was multiplied by {slope:.6g}, and {shift:+.6g} added",
                    turned or harmless,
                    _taken(slope * own + shift),
                )

    def _of_trees(self) -> Iterator[_Known]:
        """Scores of trees that were read or added up by other rules, or given other values."""
        trees = self._trees
        if trees is None:
            return
        own = Rules.of(trees)
        if self._first:
            yield _Known(
                "start",
                "the start is missing: the trees in front of the others were dropped",
                "export the model anew, with all its trees",
                self._by(trees, own, first=self._first),
            )
        yield from self._of_rounds(trees, own)
        yield _Known(
            "missing",
            "missing values were taken for 0",
            "send them as missing, or train on 0 in their place",
            self._by(trees, replace(own, missing=0.0)),
        )
        yield _Known(
            "missing",
            "0 was taken for a missing value",
            "send zeros as numbers, or train with zero_as_missing",
            self._by(trees, own, lambda x: np.where(x == 0.0, np.float32(np.nan), x)),
        )
        if trees.single:
            other = replace(
                trees,
                forest=replace(
                    trees.forest, threshold=above(trees.forest.threshold.astype(np.float32)).astype(np.float64)
                ),
            )
            equal_rules, words = self._by(other, own), "values were compared by `<=`, where XGBoost compares by `<`"
        else:
            equal_rules = self._by(trees, replace(own, strict=True))
            words = "values were compared by `<`, where LightGBM compares by `<=`"
        export = "`boostrank export` writes thresholds on which that does not matter"
        yield _Known("comparison", words, export, equal_rules)
        for values in (own.values, np.float32):
            rules = replace(own, values=values, slack=1e-6)
            yield _Known(
                "slack",
                "thresholds were 1e-6 larger, as in Solr",
                "`boostrank export --to solr`",
                self._by(trees, rules),
            )
        single = Rules(np.float32, leaves=np.float32, sums=np.float32)
        if trees.single:
            yield _Known(
                "float64",
                "leaves were added up in float64",
                "harmless where the ranking is the same",
                self._by(trees, Rules(np.float32, leaves=np.float32)),
            )
        else:
            yield _Known("float32", "values were compared in float32", export, self._by(trees, Rules(np.float32)))
            yield _Known(
                "float32",
                "scores were computed in float32",
                f"harmless where the ranking is the same; {export}",
                self._by(trees, single),
            )
        yield from self._of_leaves(trees, own)
        yield from self._of_features(trees, own)

    def _by(
        self, trees: ServedTrees, rules: Rules, change: Callable[[Float32Array], Any] = lambda x: x, first: int = 0
    ) -> Callable[[Int64Array], Any]:
        return lambda rows: scores(trees, change(self._rows[rows]), rules, first)

    def _of_rounds(self, trees: ServedTrees, own: Rules) -> Iterator[_Known]:
        rows = self._some(_FIRST)
        count = trees.forest.roots.size
        if count < 2 or not rows.size:
            return
        value = trees.forest.value.astype(own.leaves).astype(own.sums)
        reached = value[leaves(trees.forest, self._rows[rows], own)]
        reached = np.concatenate([np.full((rows.size, 1), trees.base, own.sums), reached], axis=1)
        fitting = self._fits(np.cumsum(reached, axis=1)[:, :-1].astype(np.float64), rows, self.slack).mean(axis=0)
        k = int(fitting.size - 1 - np.argmax(fitting[::-1]))
        if k and fitting[k] >= _SHARE:
            rounds = max(0, k - self._first)
            yield _Known(
                "rounds",
                f"the first {rounds} of {count - self._first} rounds were used",
                "deploy the model of this file: there is an older or a shorter one",
                lambda rows: scores(trees, self._rows[rows], own, 0, k),
            )

    def _of_leaves(self, trees: ServedTrees, own: Rules) -> Iterator[_Known]:
        value = trees.forest.value
        rounded = [(f"{digits} decimals", np.round(value, digits)) for digits in range(1, 9)]
        rounded += [(f"{digits} digits", np.array([float(f"{v:.{digits}g}") for v in value])) for digits in range(2, 8)]
        with np.errstate(over="ignore"):
            rounded.append(("float16", value.astype(np.float16).astype(np.float64)))
        for words, values in rounded:
            if not np.array_equal(values, value):
                changed = replace(trees, forest=replace(trees.forest, value=values))
                yield _Known(
                    "leaves",
                    f"leaf values were rounded to {words}",
                    "write them with all their digits",
                    self._by(changed, own),
                )

    def _of_features(self, trees: ServedTrees, own: Rules) -> Iterator[_Known]:
        names, d = self._model.feature_names, self._data.n_features
        remedy = "send features in the model's order (`RankingModel.feature_names`)"

        def known(words: str, order: npt.ArrayLike) -> _Known:
            return _Known("features", words, remedy, self._by(trees, own, _columns(order)))

        by_name, used = np.array(sorted(range(d), key=lambda j: names[j])), trees.forest.used
        yield known("features are numbered one too high", np.arange(d) - 1)
        yield known("features are numbered one too low", np.append(np.arange(1, d), -1))
        yield known("features are in the order of their names, f1, f10, f2 ...", by_name)
        yield known("features are in another order than that of their names", np.argsort(by_name))
        yield known("features are in the reverse order", np.arange(d)[::-1])
        compact = np.full(d, -1)
        compact[: used.size] = used
        yield known("features that the model does not use were left out, and the others numbered anew", compact)
        yield from self._of_single_features(trees, own, used)

    def _of_single_features(self, trees: ServedTrees, own: Rules, used: Int64Array) -> Iterator[_Known]:
        """One feature that is not there, or two that are taken for each other."""
        scorer, rows = compiled_scorer(self._model), self._some(_FIRST // 2)
        if scorer is None or rows.size < 3:
            return
        x, names = self._rows[rows], self._model.feature_names

        def explains(changed: Float32Array) -> bool:
            made = scorer.scores(np.ascontiguousarray(changed[:, scorer.columns]))
            return bool(self._fits(made, rows, self.slack).mean() >= _SHARE)

        for j in used.tolist():
            for value, words in ((0.0, "0"), (np.nan, "missing")):

                def without(x: Float32Array, j: int = j, value: float = value) -> Float32Array:
                    x = x.copy()
                    x[:, j] = value
                    return x

                if explains(without(x)):
                    yield _Known(
                        "feature",
                        f"{names[j]} was {words} for every document",
                        f"send {names[j]}",
                        self._by(trees, own, without),
                    )
        pairs = combinations(range(x.shape[1]), 2) if x.shape[1] ** 2 <= 2 * _MOST_PAIRS else ()
        for a, b in pairs:
            order = np.arange(x.shape[1])
            order[[a, b]] = b, a
            if explains(x[:, order]):
                yield _Known(
                    "features",
                    f"{names[a]} and {names[b]} are taken for each other",
                    "send features in the model's order (`RankingModel.feature_names`)",
                    self._by(trees, own, _columns(order)),
                )

    def _by_order(self) -> Cause | None:
        """What can be said of scores that keep the order alone."""
        own, given = self._own, self._given
        if own.size < _ENOUGH:
            return None
        harmless = "harmless: the ranking stays; compare by --tolerance ranking"
        if bool((np.diff(given[np.argsort(own, kind="stable")]) >= 0.0).all()):
            return Cause("monotone", "scores went through a function that keeps their order", harmless, 1.0)
        queries = self._data.queries
        several = queries.sizes > 1
        if several.sum() >= _ENOUGH and np.array_equal(queries.ranks(own), queries.ranks(given)):
            return Cause(
                "monotone", "scores were changed by query, and keep their order there (normalised?)", harmless, 1.0
            )
        return None


def _taken(made: Float64Array) -> Callable[[Int64Array], Any]:
    """Some of the scores of all documents."""
    return lambda rows: made[rows]


def _columns(order: npt.ArrayLike) -> Callable[[Float32Array], Any]:
    """Column j becomes what was column order[j]; -1: 0."""
    order = np.asarray(order)
    return lambda x: np.where(order >= 0, x[:, order], np.float32(0.0))
