"""Importance of features: permutation loss of the ranking metric, SHAP and gain.

    found = importance(model, data)
    found.to_frame()

The loss of a metric when a feature is shuffled within queries measures the feature's value for ranking. Gain counts
every use of a feature in training, and SHAP every effect on scores, even if ranks do not change.

Sources: Breiman 2001 (permutation importance); Lundberg et al. 2020 (TreeSHAP), centred within queries because the
level of scores does not affect ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from markupsafe import Markup

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ModelError, ParameterError, did_you_mean
from boostrank.core.resampling import PAIRED_RESAMPLES, bootstrap_intervals
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows
from boostrank.engines.trees import Trees
from boostrank.metric import BoundMetrics, Metric
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.report.charts import SHARE, Chart, ranges, tooltips
from boostrank.report.html import Cell, chip, look_of, names, whisker
from boostrank.report.means import NEGLIGIBLE, means_over_queries
from boostrank.report.permutation import (
    Losses,
    Unit,
    clusters_of,
    measure_losses,
    rank_correlation,
    within_query_ranks,
)
from boostrank.report.result import Columns, Result, pandas, plain
from boostrank.report.scoring import START, Progress, contributions_by_query, scorer_of, start_scores
from boostrank.report.section import Context, Section
from boostrank.report.segments import holm
from boostrank.report.vega import COLOURS, alt

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = {
    "useful": "significant loss when shuffled, adjusted for all features (Holm)",
    "unclear": "not significant, but a relevant loss remains possible",
    "redundant": "no relevant loss alone, but one together with its cluster: keep one feature of the cluster",
    "removable": "has gain, but no relevant loss when shuffled",
    "harmful": "significant improvement when shuffled, adjusted for all features (Holm)",
    "query-level": "constant within each query: does not rank by itself, so it was exchanged between queries",
    "unused": "not used by any tree",
}
"""Verdict -> meaning."""


# Default limit on documents times trees: about half a minute on two cores.
_WALKS = 100_000_000
_MOST_REPEATS = 5
# Family-wise error rate of the verdicts "useful" and "harmful", over all features.
_ALPHA = 0.05
# Limit if the engine predicts, once per feature.
_PREDICTIONS = 1_000_000_000
# TreeSHAP takes about 10 us per document and tree.
_EXPLAINED = 1_500_000
_CONTRIBUTIONS = 25_000_000
_CORRELATED_DOCUMENTS, _CORRELATED_FEATURES = 20_000, 500
_TOP = 20
# Height of a row in a list of features, in pixels.
_LINE = 22
_VERDICT_COLOURS = {
    "useful": COLOURS["main"],
    "unclear": COLOURS["faint"],
    "redundant": "#a873c9",
    "removable": "#b38b14",
    "harmful": COLOURS["bad"],
    "query-level": "#1b9e77",
    "start": "#459bab",
}
_LOOKS = {"useful": "better", "harmful": "worse", "unused": "faint", "unclear": "faint"}


@dataclass(frozen=True)
class Effect:
    """Loss of the metric when several features are shuffled together; query-level ones stay fixed.

    Args:
        loss, low, high: mean over queries and its 95% interval.
        permutation_error: standard error due to shuffling; NaN with one repeat.
    """

    name: str
    features: tuple[str, ...]
    loss: float
    low: float
    high: float
    permutation_error: float


@dataclass(frozen=True)
class StartEffect:
    """Contribution of the linear start.

    Args:
        loss, low, high: loss of the metric without the start, mean over queries and its 95% interval.
        shap, shap_error: mean absolute start score, centred within queries like `Importance.shap`, and its standard
            error.
    """

    loss: float
    low: float
    high: float
    shap: float
    shap_error: float


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Result):
    """Result of `importance`. Arrays have one entry per feature, in model order.

    Intervals are 95% bootstrap intervals over queries. Queries are shuffled independently, so the intervals include the
    randomness of shuffling; `permutation_error` is that part alone. Intervals are pointwise: of 100 features without
    effect, about five exclude 0. The verdicts "useful" and "harmful" use `p_holm`, which adjusts for all features.

    Args:
        value, low, high: metric of the model and its interval.
        loss, loss_low, loss_high: float64[d], loss of the metric when the feature is shuffled within queries, and its
            interval; 0 for query-level and unused features.
        p_holm: float64[d], Holm-adjusted p-value of a zero loss (Student's t over queries); NaN for query-level and
            unused features.
        permutation_error: float64[d], standard error of `loss` due to shuffling; NaN with one repeat.
        between, between_low, between_high: float64[d], loss when a query-level feature is exchanged between queries;
            NaN for other features.
        gain, splits: float64[d], int64[d], from the trees.
        shap, shap_error: float64[d], mean over queries of the mean absolute contribution, centred within queries, and
            its standard error; NaN if the engine has none.
        verdicts: d keys of `VERDICTS`.
        groups: requested groups.
        clusters: features that rank documents alike, shuffled together.
        removed: all removable features, shuffled together; None without any.
        correlation: float64[c, c], rank correlation within queries of the features `correlated`.
        negligible: largest loss that does not matter.
        redundant: correlation threshold of the clusters.
        queries, documents: size of the sample.
        all_queries, all_documents: size of the data.
        shap_documents: size of the sample for SHAP.
        start: contribution of the linear start; None without one.
        by: "walk", or why the engine predicted instead.
    """

    metric: str
    value: float
    low: float
    high: float
    feature_names: tuple[str, ...]
    loss: Float64Array
    loss_low: Float64Array
    loss_high: Float64Array
    p_holm: Float64Array
    permutation_error: Float64Array
    between: Float64Array
    between_low: Float64Array
    between_high: Float64Array
    gain: Float64Array
    splits: Int64Array
    shap: Float64Array
    shap_error: Float64Array
    verdicts: tuple[str, ...]
    groups: tuple[Effect, ...]
    clusters: tuple[Effect, ...]
    removed: Effect | None
    correlation: Float64Array
    correlated: tuple[str, ...]
    negligible: float
    redundant: float
    queries: int
    documents: int
    all_queries: int
    all_documents: int
    shap_documents: int
    repeats: int
    by: str
    start: StartEffect | None = None

    TABLES: ClassVar = {"importance": lambda self: self._columns()}

    @property
    def order(self) -> Int64Array:
        """Features by loss, largest first, then by gain. Query-level features use the loss between queries."""
        worth = np.where(np.isnan(self.between), self.loss, self.between)
        unused = np.array([v == "unused" for v in self.verdicts], dtype=bool)
        return np.lexsort((-self.gain, -worth, unused)).astype(np.int64)

    def named(self, verdict: str) -> tuple[str, ...]:
        """Return the features with this verdict."""
        return tuple(n for n, v in zip(self.feature_names, self.verdicts, strict=True) if v == verdict)

    def _columns(self) -> Columns:
        """Return a row per feature, in `order`."""
        order = self.order
        words = {"feature": self.feature_names, "verdict": self.verdicts}
        numbers = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        columns = {name: [values[i] for i in order] for name, values in words.items()}
        return columns | {name: value[order] for name, value in numbers.items() if name != "correlation"}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, without the correlation."""
        sizes = ("queries", "documents", "all_queries", "all_documents", "shap_documents", "repeats")
        alone = ("metric", "value", "low", "high", *sizes, "by", "negligible", "redundant")
        effects = ("groups", "clusters", "removed", "start")
        found = {"features": self.rows()} | {name: getattr(self, name) for name in effects}
        return dict(plain({name: getattr(self, name) for name in alone} | found))


def importance(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    metric: Metric | str = "ndcg@10",
    *,
    repeats: int | None = None,
    shap_documents: int | None = None,
    negligible: float = NEGLIGIBLE,
    redundant: float = 0.9,
    **options: Any,
) -> Importance:
    """Measure the importance of each feature for the ranking.

    Args:
        model: a model of boostrank, LightGBM or XGBoost, or its file.
        data: labelled held-out queries.
        metric: metric with one cut-off.
        repeats: shuffles per query; None means 1 to 5, as the limit on work allows.
        shap_documents: size of the sample for contributions in whole queries; 0 means none; None means about ten
            seconds.
        negligible: largest loss that does not matter. A feature is removable if its interval ends below it.
        redundant: threshold of the rank correlation within queries that forms clusters.
        options: fields of `boostrank.report.section.Context`: conventions, groups, documents, seed, threads, progress.

    Raises:
        ParameterError: a number out of range, a metric with several cut-offs, or a group with an unknown feature.
        DataError: features other than the model's, or no query that counts.
    """
    one = Metric.of(metric)
    if len(one.cutoffs) > 1:
        raise ParameterError(f"{one} has several cut-offs; choose one, such as {one.names[0]}")
    ranges: list[tuple[str, float | None, int, float]] = [
        ("repeats", repeats, 1, math.inf),
        ("shap_documents", shap_documents, 0, math.inf),
        ("negligible", negligible, 0, math.inf),
        ("redundant", redundant, 0, 1),
    ]
    for name, value, low, high in ranges:
        if value is not None and not low <= value <= high:
            raise ParameterError(f"{name}={value} is out of range: {low} to {high}")
    ranker, data = as_model(model).over_columns(data)
    given = Context(ranker, data, one, **options)
    return measured(given, repeats, shap_documents, negligible, redundant)


def measured(
    given: Context,
    repeats: int | None = None,
    shap_documents: int | None = None,
    negligible: float = NEGLIGIBLE,
    redundant: float = 0.9,
) -> Importance:
    """Measure the importance of each feature, as `importance`."""
    ranker, data, seed, workers = given.model, given.data, given.seed, given.workers
    one, documents = Metric.parse(given.metric), given.documents
    trees, d, feature_names = ranker.trees(), data.n_features, data.feature_names
    at = {name: i for i, name in enumerate(feature_names)}
    groups_of = given.groups or {}
    for group, features in groups_of.items():
        for feature in features:
            if feature not in at:
                hint = did_you_mean(feature, at, list_all=False)
                raise ParameterError(f"group {group!r}: the model has no feature {feature!r}.{hint}")
    # Ordering ties by name is too slow for thousands of changed scores.
    rules = given.rules.without_names

    scorer, by = scorer_of(ranker, trees, data, workers)
    # One pass over all queries is better than several over a sample: reduce repeats first.
    a_document, budget = max(1, trees.count), _WALKS
    if by != "walk":
        a_document, budget = a_document * max(1, trees.used.size), _PREDICTIONS
    shuffled = min(documents or data.n_documents, data.n_documents)
    if repeats is None:
        repeats = min(max(budget // (a_document * max(1, shuffled)), 1), _MOST_REPEATS)
    if documents is None:
        shuffled = min(shuffled, max(1, budget // (a_document * repeats)))
    rows = DenseRows(data.sample(shuffled, seed), trees.used, ranker.absent_is_missing)

    # Units: every feature, every cluster, every requested group.
    constant = set(rows.constant_within_queries(workers).tolist())
    correlation, correlated = _correlation(rows, constant, trees, seed)
    place = {int(column): i for i, column in enumerate(trees.used)}

    def unit(name: str, columns: Sequence[int], stream: int, between: bool = False) -> Unit:
        of_trees = tuple(place[c] for c in columns if c in place)
        return Unit(name, of_trees, stream, between, tuple(feature_names[c] for c in columns))

    found = [[correlated[i] for i in members] for members in clusters_of(correlation, redundant)]
    single = [unit(feature_names[c], [c], c, i in constant) for c, i in place.items()]
    together = [unit(f"cluster {i + 1}", columns, d + i) for i, columns in enumerate(found)]
    grouped = [unit(name, [at[f] for f in some], 2 * d + i) for i, (name, some) in enumerate(groups_of.items())]

    def measure(units: Sequence[Unit], what: str) -> Losses:
        how = {"repeats": repeats, "seed": seed, "threads": workers if by == "walk" else 1}
        return measure_losses(scorer, rows, units, one, rules, **how, progress=partial(given.say, what))

    # Measure all units in one call, then separate the results.
    units = [*single, *together, *grouped]
    losses = measure(units, "shuffling")
    several = _effects(losses, units)[len(single) :]
    clusters, groups = several[: len(together)], several[len(together) :]

    # Decide the verdicts.
    needed = {name for cluster in clusters if cluster.high > negligible for name in cluster.features}
    p_holm = np.full(d, np.nan)
    within = [i for i, feature in enumerate(single) if not feature.between]
    p_holm[trees.used[within]] = holm(losses.p[within])
    verdicts = ["unused"] * d
    for column, i in place.items():
        if single[i].between:
            verdicts[column] = "query-level"
        elif losses.loss[i] < 0.0 and p_holm[column] < _ALPHA:
            verdicts[column] = "harmful"
        elif losses.high[i] <= negligible:
            verdicts[column] = "redundant" if feature_names[column] in needed else "removable"
        else:
            verdicts[column] = "useful" if losses.loss[i] > 0.0 and p_holm[column] < _ALPHA else "unclear"
    # Shuffle all removable features together.
    removable = [c for c in range(d) if verdicts[c] == "removable"]
    all_of_them = [unit("removable", removable, 3 * d)]
    removed = _effects(measure(all_of_them, "neutralising"), all_of_them)[0] if removable else None
    exchanged = np.isin(np.arange(trees.used.size), [*constant])

    def spread(values: Float64Array, between: bool, other: float) -> Float64Array:
        """Expand values of used features of one kind to all features."""
        out = np.full(d, other)
        out[trees.used[exchanged == between]] = values[: len(single)][exchanged == between]
        return out

    if shap_documents is None:
        shap_documents = max(1, min(_EXPLAINED // max(1, trees.count), _CONTRIBUTIONS // d))
    shap, shap_error, explained = _shap(ranker, data, shap_documents, seed, workers, given.say)
    counted = ~np.isnan(losses.base)
    w = rows.data.queries.each_weight[counted]
    (low,), (high,) = bootstrap_intervals(losses.base[counted][:, None], w, seed=seed)
    return Importance(
        metric=one.names[0],
        value=float(w @ losses.base[counted] / w.sum()),
        low=float(low),
        high=float(high),
        feature_names=feature_names,
        loss=spread(losses.loss, False, 0.0),
        loss_low=spread(losses.low, False, 0.0),
        loss_high=spread(losses.high, False, 0.0),
        p_holm=p_holm,
        permutation_error=spread(losses.permutation_error, False, 0.0 if repeats > 1 else np.nan),
        between=spread(losses.loss, True, np.nan),
        between_low=spread(losses.low, True, np.nan),
        between_high=spread(losses.high, True, np.nan),
        gain=trees.gain,
        splits=trees.splits,
        shap=shap,
        shap_error=shap_error,
        verdicts=tuple(verdicts),
        groups=groups,
        clusters=clusters,
        removed=removed,
        correlation=correlation,
        correlated=tuple(feature_names[c] for c in correlated),
        negligible=negligible,
        redundant=redundant,
        queries=int(counted.sum()),
        documents=rows.data.n_documents,
        all_queries=len(data.queries),
        all_documents=data.n_documents,
        shap_documents=explained,
        repeats=repeats,
        by=by,
        start=_start(ranker, rows.data, losses.base, one, rules, seed, workers),
    )


def _effects(losses: Losses, units: Sequence[Unit]) -> tuple[Effect, ...]:
    numbers = (one.tolist() for one in (losses.loss, losses.low, losses.high, losses.permutation_error))
    return tuple(Effect(unit.name, unit.features, *of_unit) for unit, *of_unit in zip(units, *numbers, strict=True))


def _correlation(rows: DenseRows, constant: set[int], trees: Trees, seed: int) -> tuple[Float64Array, list[int]]:
    """Return the rank correlation of used features that vary within queries, and their numbers, most gain first."""
    varying = [at for at in range(rows.columns.size) if at not in constant]
    varying = sorted(sorted(varying, key=lambda at: -trees.gain[rows.columns[at]])[:_CORRELATED_FEATURES])
    chosen = rows.data.queries.sample(_CORRELATED_DOCUMENTS, seed)
    queries, numbers = rows.data.queries.take(chosen)
    columns = rows.columns[varying]
    ranks = within_query_ranks(replace(rows, columns=columns)[numbers], queries.ptr)
    return rank_correlation(ranks), columns.tolist()


def _start(
    model: RankingModel,
    data: RankingDataset,
    base: Float64Array,
    metric: Metric,
    rules: Conventions,
    seed: int,
    threads: int,
) -> StartEffect | None:
    """Return the contribution of the start, by scoring without it."""
    start = start_scores(model, data, threads)
    if start is None:
        return None
    bound = BoundMetrics([metric], data.labels, data.queries, rules, threads)
    trees_alone = data.in_row_order(model.predict(data, threads=threads)) - start
    lost = base - bound.per_query(trees_alone)[metric.names[0]]
    weights = data.queries.each_weight
    found = means_over_queries(lost[:, None], weights, seed=seed, resamples=PAIRED_RESAMPLES)
    owner, sizes = data.queries.of_rows(), np.maximum(data.queries.sizes, 1)
    centred = np.abs(start - (np.bincount(owner, start, sizes.size) / sizes)[owner])
    shap, error = _mean_and_error((np.bincount(owner, centred, sizes.size) / sizes)[:, None], weights)
    return StartEffect(float(found.mean[0]), float(found.low[0]), float(found.high[0]), float(shap[0]), float(error[0]))


def _mean_and_error(of_query: Float64Array, weights: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the weighted mean and its standard error, float64[m] each, of float64[Q, m]."""
    share = weights / weights.sum()
    mean = share @ of_query
    return mean, np.sqrt(np.square(share) @ np.square(of_query - mean))


def _shap(
    model: RankingModel, data: RankingDataset, documents: int, seed: int, threads: int, say: Progress
) -> tuple[Float64Array, Float64Array, int]:
    """Return the mean absolute centred contribution, its standard error, and the number of documents."""
    d = data.n_features
    nothing = np.full(d, np.nan), np.full(d, np.nan), 0
    if not documents:
        return nothing
    chosen, explained = data.queries.sample(documents, seed), 0
    of_query = np.zeros((chosen.size, d))
    try:
        for queries, rows, parts in contributions_by_query(model, data, chosen, threads, say):
            sizes = data.queries.sizes[chosen[queries]]
            starts = np.cumsum(sizes) - sizes
            parts = parts - np.repeat(np.add.reduceat(parts, starts) / sizes[:, None], sizes, axis=0)
            of_query[queries] = np.add.reduceat(np.abs(parts), starts) / sizes[:, None]
            explained += rows.size
    except ModelError:
        return nothing
    return *_mean_and_error(of_query, data.queries.each_weight[chosen]), explained


def _ranked(found: Importance) -> pd.DataFrame:
    """Return the features in order: the loss that applies to each, and the share and the rank of its gain."""
    frame = found.to_frame()
    exchanged = frame["between"].notna()
    for name, end in (("loss", ""), ("low", "_low"), ("high", "_high")):
        frame[name] = frame[f"between{end}"].where(exchanged, frame[f"loss{end}"])
    frame["gain_rank"] = frame["gain"].rank(ascending=False, method="first").astype(int)
    return frame.assign(gain=frame["gain"] / (frame["gain"].sum() or 1.0))


def _parts(found: Importance) -> dict[str, Any]:
    frame = _ranked(found)
    used = frame[frame["verdict"] != "unused"][["feature", "verdict", "loss", "low", "high", "gain", "gain_rank"]]
    top = used.head(_TOP)
    if found.start is not None:  # it has no gain
        ends = {name: getattr(found.start, name) for name in ("loss", "low", "high")}
        first = pandas().DataFrame([{"feature": START, "verdict": "start", **ends, "gain": 0.0, "gain_rank": 0}])
        top = pandas().concat([first, top], ignore_index=True)
    where = {name: i for i, name in enumerate(found.correlated)}
    return {
        "counts": {verdict: len(found.named(verdict)) for verdict in VERDICTS},
        "meanings": VERDICTS,
        "linear": START,
        "clustered": sum(len(cluster.features) for cluster in found.clusters),
        "first": next(used.itertuples(), None),
        "shown": min(_TOP, len(used)),
        "losses": _top_losses(top, found.metric) if len(used) else None,
        "gains": _top_gains(top) if len(used) else None,
        "features": _rows(found, frame),
        "effect": _effect,
        "clusters": [_cluster(found, cluster, where) for cluster in found.clusters],
    }


def _rows(found: Importance, frame: pd.DataFrame) -> list[list[Any]]:
    """Return the table of features, with the start first."""
    start = found.start
    ends = [frame["low"].min(), frame["high"].max(), *((start.low, start.high) if start else ())]
    scale = min(0.0, *ends), max(0.0, *ends) or 1.0

    def cells(one: Any, look: str) -> list[Any]:
        drawn = whisker(one.loss, one.low, one.high, scale, look)
        return [Cell(one.loss, look=look), one.low, one.high, Cell(one.loss, drawn)]

    rows: list[list[Any]] = []
    if start:
        numbers = cells(start, look_of(start.low, start.high))
        rows.append([START, Cell("start", chip("start")), *numbers, None, None, start.shap])
    for one in frame.itertuples():
        used, look = one.verdict != "unused", look_of(one.low, one.high)
        word = chip(one.verdict, _LOOKS.get(one.verdict, ""))
        if one.verdict == "unclear" and look:  # unadjusted intervals exclude 0 by chance for some features
            word += Markup("<small>Holm's p {:.2g}</small>").format(one.p_holm)
        # Colour by Holm-adjusted significance if the feature is shuffled within queries.
        numbers = (
            cells(one, look if one.verdict in ("useful", "harmful", "query-level") else "") if used else [None] * 4
        )
        gain = Cell(one.gain * 100.0, f"{one.gain:.1%}")
        rows.append([one.feature, Cell(one.verdict, word), *numbers, gain, one.splits, one.shap if used else None])
    return rows


def _cluster(found: Importance, cluster: Effect, where: Mapping[str, int]) -> list[Any]:
    members = [where[name] for name in cluster.features]
    least = np.abs(found.correlation[np.ix_(members, members)]).min()
    return [Cell(", ".join(cluster.features), names(cluster.features)), least, *_effect(cluster)]


def _effect(one: Effect) -> list[Any]:
    return [Cell(one.loss, look=look_of(one.low, one.high)), one.low, one.high]


def _chart(frame: pd.DataFrame) -> Any:
    """Return a chart of features, coloured by verdict."""
    here = {verdict: colour for verdict, colour in _VERDICT_COLOURS.items() if (frame["verdict"] == verdict).any()}
    colours = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=[*here], range=[*here.values()]))
    loss = ("loss:Q +.4f", "low:Q +.4f from", "high:Q +.4f to")
    tips = tooltips("feature:N", "verdict:N", *loss, "gain:Q .2% share of gain", "gain_rank:Q d rank by gain")
    return alt.Chart(frame).encode(y=alt.Y("feature:N", sort=None, title=None), color=colours, tooltip=tips)


def _top_losses(frame: pd.DataFrame, metric: str) -> Chart:
    drawn = ranges(_chart(frame), f"loss of {metric}", value="loss")
    return Chart("importance-loss", frame, drawn.properties(height=_LINE * len(frame) + 10))


def _top_gains(frame: pd.DataFrame) -> Chart:
    x = alt.X("gain:Q", title="share of gain", axis=alt.Axis(format=SHARE))
    bars = _chart(frame).mark_bar(height=11, opacity=0.75).encode(x=x)
    return Chart("importance-gain", frame, bars.properties(height=_LINE * len(frame) + 10))


SPEC = Section(
    "importance",
    "Feature importance",
    measured,
    _parts,
    place=20,
    short="Features",
)
