"""Explanation of why one document ranks above another, and of the changes that would swap the two.

The engine's TreeSHAP (Lundberg et al. 2020) attributes the score difference to the features.

The search for the smallest swapping change covers all tree thresholds. With all other features fixed, the score is a
step function of one feature, so one value per step is enough. The size of a change is the share of documents between
the old and the new value. Like the trees, this size does not change under monotone transformations of a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ModelError
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset, takes_dataset
from boostrank.data.rows import DenseRows
from boostrank.kernels.curves import ZERO, rounded_down
from boostrank.kernels.forest import ZERO_IS_MISSING, Forest
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.reporting.charts import COLOURS, Chart, alt, need_report_extra, tooltips
from boostrank.reporting.documents import find_document, find_query, shown_name, shown_value
from boostrank.reporting.result import Result, result_class
from boostrank.reporting.scoring import Engine, Progress, silent
from boostrank.reporting.section import page_of
from boostrank.reporting.table import Cell, Column, Data, Table, fixed, pandas, table_of_objects

# Number of sampled documents that define the ranks of values. Their standard error is at most 0.2%, 1 / (2 sqrt(N)),
# apart from correlation within queries.
_DOCUMENTS = 100_000
# Limit on sampled values in memory (80 MB).
_NUMBERS = 20_000_000
# Limit on bars in the chart.
_BARS = 20
_BAR_HEIGHT = 22
# Number of values to try when scores are not constant between thresholds.
_VALUES = 500
# Values passed to the engine per call (64 MB).
_AT_A_TIME = 1 << 24
_INF = np.float32(np.inf)


@dataclass(frozen=True)
class Counterfactual:
    """The smallest change to one feature of one document that swaps the pair.

    Args:
        document: the changed document, "a" or "b".
        now: current value, where NaN is a missing value.
        value: nearest value that swaps the pair, preferably one that occurs in the data, or NaN if only a missing value
            swaps it. Among categories, it is the most frequent category that swaps it.
        seen: whether `value` occurs in the data or, for large data, in the sample.
        step: share of documents between `now` and `value`, in [0, 1], where documents at either end count half. Changes
            between categories, and to or from a missing value, have the step 1.
        score: the document's score with `value`.
    """

    document: str
    feature: str
    now: float
    value: float
    seen: bool
    step: float
    score: float


@dataclass(frozen=True)
class Document:
    """One document of the pair, with its rank in the query, counted from 1. Tied documents are ranked in row order."""

    name: str
    row: int
    rank: int
    score: float
    label: float


@result_class
class Why(Result):
    """Result of `why`. Arrays have one entry per feature that the trees use.

    Args:
        documents: number of documents in the query.
        features: the c feature names, in model order.
        values: float64[2, c], feature values of both documents, where NaN is a missing value.
        contributions: float64[2, c], TreeSHAP contributions to both scores, or NaN if the engine cannot compute them.
        changes: the smallest change per feature and document that swaps the pair, sorted by `seen` and then by `step`.
        tried: number of feature values that were scored in the search.
        query_level: features that are constant within every query and were not changed.
        sampled: number of documents from which the ranks of values were computed.
        categories: category names of each categorical feature, by code.
    """

    qid: str
    a: Document
    b: Document
    documents: int
    features: tuple[str, ...]
    values: Float64Array
    contributions: Float64Array
    changes: tuple[Counterfactual, ...]
    tried: int
    query_level: tuple[str, ...]
    sampled: int
    notes: tuple[str, ...] = ()
    categories: Mapping[str, Categories] = field(default_factory=dict)

    def value_text(self, feature: str, value: float) -> str:
        """Return the category's name, the number, or "missing"."""
        categories = self.categories.get(feature)
        if categories is None or categories.values is None or np.isnan(value):
            return shown_value(value)
        if not 0.0 <= value < len(categories.values):
            return "another category"
        return str(categories.values[int(value)])

    @property
    def side(self) -> str:
        """Whether a ranks "above" or "below" b."""
        return "above" if self.a.rank < self.b.rank else "below"

    @property
    def difference(self) -> float:
        """The score of document a minus that of document b."""
        return self.a.score - self.b.score

    @property
    def parts(self) -> Float64Array:
        """The contributions to a's score minus the contributions to b's, float64[c]. They add up to `difference`."""
        return np.asarray(self.contributions[0] - self.contributions[1])

    @property
    def order(self) -> Int64Array:
        """The order of the features by absolute part, largest first."""
        return np.argsort(-np.abs(self.parts), kind="stable").astype(np.int64)

    @property
    def smallest(self) -> Counterfactual | None:
        """The smallest change to one feature that swaps the pair, or None."""
        return self.changes[0] if self.changes else None

    HIDDEN: ClassVar = ("values", "contributions", "pair")

    def tables(self) -> tuple[Table, ...]:
        """Return the features, the changes that swap the pair, and the pair."""
        order = self.order
        features = {
            "feature": [self.features[i] for i in order.tolist()],
            "a": self.values[0, order],
            "b": self.values[1, order],
            "a_part": self.contributions[0, order],
            "b_part": self.contributions[1, order],
            "part": self.parts[order],
        }
        signed = fixed(self.contributions.ravel().tolist(), 4, sign=True)
        columns = (
            Column("feature"),
            Column("a", "A", ""),
            Column("b", "B", ""),
            Column("a_part", "part of A", signed, "TreeSHAP contribution to A's score"),
            Column("b_part", "part of B", signed, "TreeSHAP contribution to B's score"),
            Column("part", "A - B", signed, "The parts add up to the difference of the scores."),
        )
        parts = Table("features", features, columns, self._cells(features, "a", "b"))
        columns = (
            Column("feature"),
            Column("document", "of"),
            Column("now", format=""),
            Column("value", "then", "", "nearest value that swaps them, preferably one in the data"),
            Column("step", "size", ".1%", "share of the documents in between, or 100% for a missing value"),
            Column("score", "score then", ".6g"),
        )
        changes = table_of_objects("changes", self.changes, columns)
        cells = self._cells(changes.data, "now", "value")
        cells["document"] = [change.document.upper() for change in self.changes]
        # A star marks values that do not occur in the data.
        marks = ["" if change.seen else "*" for change in self.changes]
        values = zip(cells["value"], marks, strict=True)
        cells["value"] = [replace(cell, display=f"{cell.display}{mark}") for cell, mark in values]
        pair_columns = (
            Column("document"),
            Column("name"),
            Column("rank", format=""),
            Column("score", format=".6g"),
            Column("label", format="g"),
        )
        pair = table_of_objects("pair", (self.a, self.b), pair_columns)
        pair = replace(pair, cells={"document": ["A", "B"]})
        return parts, replace(changes, cells=cells), pair

    def _cells(self, data: Mapping[str, Any], *columns: str) -> Data:
        """Return the cells of feature values."""
        cells: Data = {}
        for column in columns:
            values = zip(data.get("feature", ()), data.get(column, ()), strict=True)
            cells[column] = [Cell(value, self.value_text(name, value)) for name, value in values]
        return cells

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {"difference": self.difference} | super().to_dict()

    @property
    def _title(self) -> str:
        a, b = [f"{d.name}, rank {d.rank:,}, score {d.score:.6g}" for d in (self.a, self.b)]
        return f"Query {self.qid}: A ({a}) minus B ({b}) is {self.difference:+.4g}"

    def to_html(self, model: str = "") -> str:
        """Return a self-contained HTML page that names the model. This needs the extra `report`."""
        need_report_extra()
        sections = {"features": ("What each feature adds", ""), "changes": ("What would swap them", "")}
        title = f"Why {self.a.name} ranks {self.side} {self.b.name}"
        chart = None if np.isnan(self.parts).any() else _chart(self)
        return page_of("explanation.html", title, sections, found=self, model=model, chart=chart)


@takes_dataset
def why(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    qid: Any,
    a: str | int,
    b: str | int,
    *,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Why:
    """Explain why document `a` of a query ranks above or below document `b`.

    Args:
        model: a boostrank, LightGBM or XGBoost model, or its file.
        data: data that contain the query. The other queries show which values are common.
        a, b: documents, given by rank (`@3` or 3), by data row (`row:17`), or by name (`name:D7` or `D7`).
        threads: number of threads, or None for every available core.
        seed: seed for sampling queries if there are more than 100,000 documents.

    Raises:
        DataError: an unknown query or document, an ambiguous name, the same document twice, or features other than the
            model's.
    """
    ranker = as_model(model)
    within, categories = ranker.within_query, ranker.categories
    ranker, data = ranker.over_columns(data)
    # Score and rank the documents of the query, and find the pair.
    query = find_query(qid, data.queries)
    start, stop = int(data.queries.ptr[query]), int(data.queries.ptr[query + 1])
    if stop - start < 2:
        raise DataError(f"query {qid} has only one document, but a comparison needs two")
    trees = ranker.trees()
    rows = DenseRows(data, trees.used, ranker.absent_is_missing)
    workers = resolve_threads(threads)
    engine = Engine(ranker, trees.used, workers)
    documents = rows[start:stop]
    scores = engine.scores(documents)
    ranks = QueryIndex.from_sizes([scores.size]).ranks(scores)
    positions = [find_document(document, query, data, ranks) - start for document in (a, b)]
    first, second = [
        Document(shown_name(row, data), row, int(ranks[i]), float(scores[i]), float(data.labels[row]))
        for i, row in ((i, start + i) for i in positions)
    ]
    if first == second:
        name = f"{first.name}, rank {first.rank}"
        raise DataError(f"{a} and {b} are the same document of query {qid}: {name}")
    # Attribute both scores to the features.
    pair, notes = documents[positions], []
    try:
        parts = engine.parts(pair)
    except ModelError as error:
        parts = np.full(pair.shape, np.nan)
        notes.append(str(error))
    if first.score == second.score:
        notes.append("the scores are equal, so row order decides")
    # Read the values of each feature in a sample of queries that includes this one.
    most = min(_DOCUMENTS, max(1, _NUMBERS // max(1, trees.used.size)))
    sample = np.union1d(data.queries.sample(most, seed), [query])
    part = data if sample.size == len(data.queries) else data.take(sample)
    sampled = DenseRows(part, trees.used, ranker.absent_is_missing)
    values = sampled[: part.n_documents]
    # Find the query-level features, which are constant within each query but not over all queries.
    fixed = np.zeros(trees.used.size, dtype=bool)
    fixed[sampled.constant_within_queries(workers)] = True
    fixed &= ~((values == values[0]) | (np.isnan(values) & np.isnan(values[0]))).all(axis=0)
    if within is not None:
        notes.append(
            f"{within.words()} depend on the whole query; each change here affects one column only, although "
            "changing a feature would also change its columns, for other documents as well"
        )
    if trees.forest is None:
        notes.append(f"{trees.why_not}, so only values that occur in the data were tried")
    cuts: dict[int, Float32Array] = {}
    splits: dict[int, Int64Array] = {}
    if trees.forest is not None:
        cuts, splits = cuts_of(trees.forest), categories_of(trees.forest)
    columns = [
        None if fixed[i] else FeatureValues.of(values[:, i], cuts.get(column), splits.get(column))
        for i, column in enumerate(trees.used.tolist())
    ]
    features = tuple(ranker.feature_names[i] for i in trees.used)
    # Search for the smallest change to each feature of either document.
    changes: list[Counterfactual] = []
    step = partial(progress or silent, "thresholds")
    tried, above = 0, first.rank < second.rank
    for name, row, other, falls in (("a", pair[0], second.score, above), ("b", pair[1], first.score, not above)):
        beyond = np.greater if falls else np.less
        swaps = partial(beyond, other)
        of_document, count = counterfactuals(name, row, features, columns, engine, swaps, step)
        changes += of_document
        tried += count
    return Why(
        qid=data.queries.shown(query),
        a=first,
        b=second,
        documents=stop - start,
        features=features,
        values=pair.astype(np.float64),
        contributions=parts,
        changes=tuple(sorted(changes, key=lambda change: (not change.seen, change.step))),
        tried=tried,
        query_level=tuple(np.array(features, object)[fixed].tolist()),
        sampled=part.n_documents,
        notes=tuple(notes),
        categories={name: categories[name] for name in features if name in categories},
    )


@dataclass(frozen=True, eq=False)
class FeatureValues:
    """The values of one feature in the data, and the steps that the trees make over it.

    Args:
        cuts: float32[k], largest number in each step except the highest, in ascending order; None if scores are not
            constant between thresholds.
        values: float64[m], distinct values in the data, in ascending order.
        below: float64[m+1], share of present values below each value, followed by 1.
        has_missing: whether the data has missing values.
        categories: int64[g], categories that occur in the trees, or None for ordered values.
    """

    cuts: Float32Array | None
    values: Float64Array
    below: Float64Array
    has_missing: bool
    categories: Int64Array | None = None

    @classmethod
    def of(cls, values: Float32Array, cuts: Float32Array | None, categories: Int64Array | None = None) -> FeatureValues:
        """Return the values of a column, float32[n], where NaN is a missing value."""
        present = values[~np.isnan(values)].astype(np.float64) + 0.0  # -0 is 0
        distinct, counts = np.unique(present, return_counts=True)
        below = np.concatenate([[0.0], np.cumsum(counts) / max(1, present.size)])
        return cls(cuts, distinct, below, present.size < values.size, categories)

    def shares(self, values: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the share of documents below each number, plus half the equal ones, and the share of equal ones."""
        below = self.below[np.searchsorted(self.values, values, "left")]
        up_to = self.below[np.searchsorted(self.values, values, "right")]
        return (below + up_to) / 2.0, up_to - below

    def origin(self, now: float) -> float:
        """Return the value from which distances are measured, which is `now`, or the median if `now` is missing."""
        if not np.isnan(now):
            return now
        return float(self.values[np.searchsorted(self.below[1:], 0.5)]) if self.values.size else 0.0

    def steps(self) -> tuple[Float32Array, Float32Array]:
        """Return the smallest and the largest number in each step."""
        if self.categories is not None:
            # The trees treat all unknown categories alike: one extra code stands for all of them.
            other = 1 + max(self.categories.max(initial=-1), int(self.values.max(initial=-1.0)))
            alone = np.union1d(np.append(self.categories, other), self.values).astype(np.float32)
            return alone, alone
        if self.cuts is None:
            few = np.linspace(0, max(0, self.values.size - 1), min(self.values.size, _VALUES)).astype(int)
            alone = np.asarray(self.values[few], dtype=np.float32)
            return alone, alone
        first = np.concatenate([[-_INF], np.nextafter(self.cuts, _INF)]).astype(np.float32)
        last = np.concatenate([self.cuts, [_INF]]).astype(np.float32)
        finite = (first < _INF) & (last > -_INF)
        return first[finite], last[finite]

    def trials(self, now: float) -> Float32Array:
        """Return the number in each step that is nearest to `now`, followed by a missing value."""
        return np.append(np.clip(np.float32(self.origin(now)), *self.steps()), np.float32(np.nan)).astype(np.float32)

    def best(
        self, now: float, trials: Float32Array, swaps: npt.NDArray[np.bool_]
    ) -> tuple[int, float, bool, float] | None:
        """Return the position and value of the best trial that swaps the pair, whether it occurs, and its step."""
        steps = np.flatnonzero(swaps[:-1])
        if not steps.size:
            missing = swaps.size - 1
            return (missing, np.nan, self.has_missing, 1.0) if swaps[missing] else None
        near = trials[steps].astype(np.float64) + 0.0
        if self.categories is not None:
            _, counts = self.shares(near)
            at = int(np.argmax(counts))
            return int(steps[at]), float(near[at]), bool(counts[at] > 0.0), 1.0
        # Prefer the value of the data that is nearest in each step; use the trial itself if no step has one.
        origin, (first, last) = self.origin(now), self.steps()
        begin = np.searchsorted(self.values, first[steps].astype(np.float64), "left")
        end = np.searchsorted(self.values, last[steps].astype(np.float64), "right")
        seen = bool((end > begin).any())
        kept = end > begin if seen else np.ones(steps.size, np.bool_)
        values = near
        if seen:
            values = self.values[np.clip(np.searchsorted(self.values, origin), begin[kept], end[kept] - 1)]
        places, _ = self.shares(np.append(values, now))
        size = np.ones(values.size) if np.isnan(now) else np.abs(places[:-1] - places[-1])
        distance = np.abs(values - origin)
        best = int(np.lexsort((distance, size))[0] if seen else np.argmin(distance))
        return int(steps[kept][best]), float(values[best]), seen, float(size[best])


def categories_of(forest: Forest) -> dict[int, Int64Array]:
    """Return the categories that the splits of each categorical column contain."""
    number = forest.threshold[forest.categorical].astype(np.int64)
    feature = forest.feature[forest.categorical]
    return {
        int(column): np.unique(np.concatenate([forest.categories(n) for n in number[feature == column].tolist()]))
        for column in np.unique(feature)
    }


def cuts_of(forest: Forest) -> dict[int, Float32Array]:
    """Return the largest float32 number in each step except the highest, for each column that is not categorical."""
    order = np.argsort(forest.feature, kind="stable")
    order = order[~forest.categorical[order]]
    feature, threshold, kind = forest.feature[order], forest.threshold[order], forest.kind[order]
    cuts = {}
    bounds = np.flatnonzero(np.diff(feature, prepend=-1)).tolist()
    for start, stop in pairwise([*bounds, feature.size]):
        exact = threshold[start:stop]
        exact = exact[~np.isnan(exact)]  # no value is below NaN
        if np.any(kind[start:stop] & ZERO_IS_MISSING):
            exact = np.concatenate([exact, [np.nextafter(np.float32(-ZERO), -_INF), ZERO]])
        cuts[int(feature[start])] = rounded_down(exact)
    for column, curve in forest.start or ():  # the start treats -infinity as missing
        of_start = np.append(rounded_down(curve.bounds), -_INF)
        cuts[column] = np.append(cuts.get(column, np.zeros(0, np.float32)), of_start)
    return {column: np.unique(of_column) for column, of_column in cuts.items()}


def counterfactuals(
    document: str,
    row: Float32Array,
    names: Sequence[str],
    columns: Sequence[FeatureValues | None],
    engine: Engine,
    swaps: Callable[[Float64Array], npt.NDArray[np.bool_]],
    progress: Callable[[int, int], None],
) -> tuple[list[Counterfactual], int]:
    """Return the smallest change to each feature that swaps the pair, and the number of values that were tried.

    Args:
        columns: values of each feature, or None for a feature that stays fixed.
        swaps: function that returns for each score of this document whether it would swap the pair.
    """
    trials = {i: column.trials(float(row[i])) for i, column in enumerate(columns) if column is not None}
    sizes = [values.size for values in trials.values()]
    owner = np.repeat(np.array(list(trials), np.int64), sizes)
    values = np.concatenate([np.zeros(0, np.float32), *trials.values()])
    scores = np.empty(owner.size)
    at_a_time = max(1, _AT_A_TIME // engine.width)
    for start in range(0, owner.size, at_a_time):
        block = slice(start, min(owner.size, start + at_a_time))
        rows = np.tile(row, (block.stop - start, 1))
        rows[np.arange(rows.shape[0]), owner[block]] = values[block]
        scores[block] = engine.scores(rows)
        progress(block.stop, owner.size)
    # Choose the smallest change among the values of each feature.
    swapped = swaps(scores)
    changes = []
    for i, column in enumerate(columns):
        of_feature = owner == i
        best = column and column.best(float(row[i]), trials[i], swapped[of_feature])
        if best:
            at, value, seen, step = best
            score = float(scores[of_feature][at])
            changes.append(Counterfactual(document, names[i], float(row[i]), value, seen, step, score))
    return changes, owner.size


def _chart(why: Why) -> Chart:
    """Draw the largest parts, and the sum of the others."""
    largest = why.order[:_BARS].tolist()
    names = [why.features[i] for i in largest]
    parts = [float(why.parts[i]) for i in largest]
    others = why.order.size - len(largest)
    if others:
        names.append(f"{others} more")
        parts.append(float(why.parts.sum()) - sum(parts))
    sides = ["A" if part >= 0 else "B" for part in parts]
    frame = pandas().DataFrame({"feature": names, "part": parts, "speaks_for": sides})
    scale = alt.Scale(domain=["A", "B"], range=[COLOURS["main"], COLOURS["bad"]])
    bars = alt.Chart(frame).mark_bar()
    figure = bars.encode(
        x=alt.X("part:Q", title="A's part of the score minus B's"),
        y=alt.Y("feature:N", sort=None, title=None),
        color=alt.Color("speaks_for:N", title="speaks for", scale=scale),
        tooltip=tooltips("feature:N", "part:Q +.4g"),
    )
    return Chart("contributions", frame, figure.properties(height=_BAR_HEIGHT * len(names)))
