"""Feature importance, measured by the permutation loss in the ranking metric, by SHAP and by gain.

The loss in a metric when a feature is shuffled within queries measures how much the feature helps
the ranking. Gain includes every use of a feature in training, and SHAP includes every effect on
scores, even if ranks do not change.

Sources: Breiman 2001 (permutation importance); Lundberg et al. 2020 (TreeSHAP), centred within
queries because the level of scores does not affect ranks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError, ParameterError
from boostrank.core.resampling import bootstrap_intervals
from boostrank.core.text import list_names
from boostrank.core.types import BoolArray, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.data.rows import DenseRows
from boostrank.kernels.forest import Walker
from boostrank.metrics import Metric
from boostrank.metrics.measure import Function
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.reporting.html import look_of
from boostrank.reporting.permutation import (
    Losses,
    Unit,
    centred_ranks,
    clusters_of,
    measure_losses,
    rank_correlation,
)
from boostrank.reporting.result import Result
from boostrank.reporting.scoring import Engine
from boostrank.reporting.section import Context, Section
from boostrank.reporting.segments import NEGLIGIBLE, holm
from boostrank.reporting.table import Cell, Column, Table, table_of_rows

VERDICTS = {
    "useful": "significant loss when shuffled, adjusted for all features (Holm)",
    "unclear": "not significant, but a relevant loss remains possible",
    "redundant": (
        "no relevant loss alone, but one together with its cluster; keep one feature of the cluster"
    ),
    "removable": "has gain, but no relevant loss when shuffled",
    "harmful": "significant improvement when shuffled, adjusted for all features (Holm)",
    "query-level": (
        "constant within each query: does not rank by itself, so it was exchanged between queries"
    ),
    "unused": "not used by any tree",
}
"""The meaning of each verdict."""

# Default limit on documents times trees, about half a minute on two cores.
_WALKS = 100_000_000
# The same limit, per feature, if the engine predicts.
_PREDICTIONS = 1_000_000_000
_MOST_REPEATS = 5
# Family-wise error rate of the verdicts "useful" and "harmful", over all features.
_ALPHA = 0.05
# TreeSHAP takes about 10 us per document and tree.
_EXPLAINED = 1_500_000
_CONTRIBUTIONS = 25_000_000
# Number of documents per call for contributions.
_EXPLAINED_AT_A_TIME = 500
_CORRELATED_DOCUMENTS, _CORRELATED_FEATURES = 20_000, 500
# Rank correlation within queries from which on features form clusters.
_REDUNDANT = 0.9
_LOOKS = {"useful": "better", "harmful": "worse", "unused": "faint", "unclear": "faint"}


@dataclass(frozen=True)
class Effect:
    """The loss in the metric when several features are shuffled together. Query-level features stay
    fixed.

    Args:
        loss, low, high: mean loss over queries and its 95% interval.
        correlation: smallest absolute rank correlation between two features in a cluster.
    """

    name: str
    features: tuple[str, ...]
    loss: float
    low: float
    high: float
    correlation: float = math.nan


class Importance(Result):
    """Result of `importance`. Arrays have one entry per feature, in model order.

    Intervals are 95% bootstrap intervals over queries. Queries are shuffled independently, so the
    intervals include the randomness of shuffling. The intervals are pointwise: of 100 features
    without effect, about five exclude 0. The verdicts "useful" and "harmful" use `p_holm`, which
    adjusts for all features.

    Args:
        value, low, high: the model's metric and its interval.
        loss, loss_low, loss_high: float64[d], loss of the metric when the feature is shuffled
            within queries, and its interval. Query-level features are exchanged between queries.
            Unused features have a loss of 0.
        p_holm: float64[d], Holm-adjusted p-values for a zero loss (Student's t over queries), or
            NaN for query-level and unused features.
        gain, splits: float64[d] and int64[d], total gain and number of splits in the trees.
        shap: float64[d], mean over queries of the mean absolute contribution, centred within
            queries, or NaN if the engine has none.
        verdicts: d keys of `VERDICTS`.
        clusters: effects of the features that rank documents alike.
        removed: effect of all removable features together, or None without such features.
        negligible: largest negligible loss.
        redundant: correlation threshold for clusters.
        queries, documents: numbers of queries and documents in the sample.
        all_documents: number of documents in the data.
        shap_documents: number of documents in the sample for SHAP.
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
    gain: Float64Array
    splits: Int64Array
    shap: Float64Array
    verdicts: tuple[str, ...]
    clusters: tuple[Effect, ...]
    removed: Effect | None
    negligible: float
    redundant: float
    queries: int
    documents: int
    all_documents: int
    shap_documents: int
    repeats: int

    _ARRAYS = ("loss", "loss_low", "loss_high", "p_holm", "gain", "splits", "shap")
    HIDDEN = ("feature_names", "verdicts", *_ARRAYS)

    @property
    def order(self) -> Int64Array:
        """The features by loss, largest first, then by gain."""
        unused = np.array(self.verdicts, object) == "unused"
        return np.lexsort((-self.gain, -self.loss, unused)).astype(np.int64)

    def features_with(self, verdict: str) -> tuple[str, ...]:
        """Return the features that have a given verdict."""
        verdicts = zip(self.feature_names, self.verdicts, strict=True)
        return tuple(name for name, of_feature in verdicts if of_feature == verdict)

    def tables(self) -> tuple[Table, ...]:
        """Return the features in `order`, and the clusters."""
        data = {
            "feature": np.array(self.feature_names, object),
            "verdict": np.array(self.verdicts, object),
        }
        data |= {name: getattr(self, name) for name in self._ARRAYS}
        data = {name: column[self.order] for name, column in data.items()}
        # Colour the verdicts and the losses.
        looks = [_LOOKS.get(verdict, "") for verdict in data["verdict"]]
        verdicts = zip(data["verdict"], looks, strict=True)
        losses = zip(data["loss"].tolist(), looks, strict=True)
        cells = {
            "verdict": [Cell(verdict, look=f"chip {look}") for verdict, look in verdicts],
            "loss": [Cell(loss, look=look) for loss, look in losses],
            "gain": data["gain"] / (data["gain"].sum() or 1.0),
        }
        help = f"loss of {self.metric} when the feature is shuffled"
        columns = (
            "feature",
            "verdict | Explained below the table.",
            Column("loss", "", "+.4f", help, ends=("loss_low", "loss_high"), drawn=True),
            "p_holm .4f p (Holm) | p-value of the loss, adjusted for all features",
            "gain .1% | share of the gain of all splits",
            "splits # | number of splits",
            "shap .3f SHAP | mean absolute contribution to the score, centred within the query",
        )
        return Table("importance", data, columns, cells), self._cluster_table()

    def _cluster_table(self) -> Table:
        columns = (
            "name",
            Column("features", look="names"),
            "correlation .2f | smallest absolute rank correlation of a pair",
            "loss +.4f [low high] | when they are shuffled together",
        )
        names = [cluster.features for cluster in self.clusters]
        losses = [
            Cell(cluster.loss, look=look_of(cluster.low, cluster.high)) for cluster in self.clusters
        ]
        features = [Cell(", ".join(of_cluster), list_names(of_cluster)) for of_cluster in names]
        return table_of_rows("clusters", self.clusters, columns, features=features, loss=losses)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, with one row per feature in `features`."""
        content = super().to_dict()
        return content | {"features": content.pop("importance")}


def importance(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    metric: Metric | str | Function = "ndcg@10",
    *,
    repeats: int | None = None,
    shap_documents: int | None = None,
    negligible: float = NEGLIGIBLE,
    **options: Any,
) -> Importance:
    """Measure how much each feature matters for the ranking.

    Args:
        model: a model of boostrank, LightGBM or XGBoost, or its file.
        data: labelled, held-out queries.
        metric: metric with one cut-off, or a function (see `Metric`).
        repeats: number of shuffles per query, or None for 1 to 5, depending on the cost.
        shap_documents: number of documents in the sample for contributions, which consists of whole
            queries. 0 means no contributions. None limits the work to about ten seconds.
        negligible: largest negligible loss. A feature is removable if the interval of its loss ends
            below this value.
        options: fields of `boostrank.reporting.section.Context`: conventions, documents,
            seed, threads, progress.

    Raises:
        ParameterError: a number out of range, or a metric with several cut-offs.
        DataError: features other than the model's, or only excluded queries.
    """
    data = as_dataset(data)
    parsed = Metric.of(metric)
    if len(parsed.cutoffs) > 1:
        raise ParameterError(
            f"{parsed} has several cut-offs; choose one, such as {parsed.names[0]}"
        )
    numbers: tuple[float | None, ...] = (repeats, shap_documents, negligible)
    names = ("repeats", "shap_documents", "negligible")
    for name, value, minimum in zip(names, numbers, (1, 0, 0), strict=True):
        if value is not None and not value >= minimum:
            raise ParameterError(f"{name} must be at least {minimum}, but got {value}")
    ranker, data = as_model(model).over_columns(data)
    context = Context(ranker, data, parsed, **options)
    return measure_importance(context, repeats, shap_documents, negligible)


def measure_importance(
    context: Context,
    repeats: int | None = None,
    shap_documents: int | None = None,
    negligible: float | None = None,
) -> Importance:
    """Measure the importance of each feature, as `importance` does, with the context's negligible
    loss by default.
    """
    data, seed = context.data, context.seed
    if negligible is None:
        negligible = context.negligible
    n_features, trees = data.n_features, context.trees
    affordable = _WALKS // max(1, trees.count)
    if trees.forest is not None:
        scorer: Engine | Walker = context.make_walker()
    else:  # the engine predicts once per feature
        scorer = Engine(context.model, trees.used, context.workers)
        affordable = _PREDICTIONS // max(1, trees.count * trees.used.size)
    # One pass over all queries is better than several over a sample, so reduce the repeats first.
    n_documents = min(context.documents or data.n_documents, data.n_documents)
    if repeats is None:
        repeats = min(max(affordable // max(1, n_documents), 1), _MOST_REPEATS)
    if context.documents is None:
        n_documents = min(n_documents, max(1, affordable // repeats))
    rows = context.rows_of(data.sample(n_documents, seed))
    names = [data.feature_names[column] for column in trees.used]

    def shuffle(units: Collection[Unit], step: str) -> Losses:
        return measure_losses(context, scorer, rows, tuple(units), repeats=repeats, step=step)

    def measure_effects(units: Mapping[Unit, float], step: str) -> list[Effect]:
        """Measure the effect of each unit with the smallest correlation of its features."""
        if not units:
            return []
        measured = shuffle(units, step)
        columns = zip(measured.loss, measured.low, measured.high, units.values(), strict=True)
        return [
            Effect(unit.name, tuple(names[i] for i in unit.columns), *map(float, numbers))
            for unit, numbers in zip(units, columns, strict=True)
        ]

    # Shuffle each feature, and each cluster of features that rank documents alike.
    constant = rows.constant_within_queries(context.workers)
    between = np.isin(np.arange(len(names)), constant)
    streams = zip(names, trees.used.tolist(), between.tolist(), strict=True)
    features = [
        Unit(name, (i,), stream, is_between) for i, (name, stream, is_between) in enumerate(streams)
    ]
    losses = shuffle(features, "shuffling")
    clusters = _find_clusters(context, rows, ~between)
    cluster_effects = measure_effects(clusters, "clusters")
    # Decide the verdicts, and shuffle all removable features together.
    is_needed = np.zeros(len(names), bool)
    for cluster, effect in zip(clusters, cluster_effects, strict=True):
        is_needed[list(cluster.columns)] = effect.high > negligible
    p_values = np.full(len(names), np.nan)
    p_values[~between] = holm(losses.p[~between])
    is_sure, is_small = p_values < _ALPHA, losses.high <= negligible
    conditions = {
        "query-level": between,
        "harmful": is_sure & (losses.loss < 0.0),
        "redundant": is_small & is_needed,
        "removable": is_small,
        "useful": is_sure & (losses.loss > 0.0),
    }
    decided = np.select(list(conditions.values()), list(conditions), "unclear")
    removable = tuple(np.flatnonzero(decided == "removable").tolist())
    together = {Unit("removable", removable, stream=3 * n_features): math.nan} if removable else {}
    removed = measure_effects(together, "neutralising")
    # Unused features have no loss.
    loss, p_holm = np.zeros((3, n_features)), np.full(n_features, np.nan)
    verdicts = np.full(n_features, "unused", object)
    loss[:, trees.used] = losses.loss, losses.low, losses.high
    p_holm[trees.used], verdicts[trees.used] = p_values, decided
    shap, explained = np.full(n_features, np.nan), 0
    if shap_documents != 0:
        with suppress(ModelError):  # the engine has no contributions
            shap, explained = _measure_shap(context, shap_documents)
    # The metric before shuffling.
    included = ~np.isnan(losses.base)
    weights, values = rows.data.queries.each_weight[included], losses.base[included]
    (low,), (high,) = bootstrap_intervals(values[:, None], weights, seed=seed)
    return Importance(
        metric=context.main.names[0],
        value=float(weights @ values / weights.sum()),
        low=float(low),
        high=float(high),
        feature_names=data.feature_names,
        loss=loss[0],
        loss_low=loss[1],
        loss_high=loss[2],
        p_holm=p_holm,
        gain=trees.gain,
        splits=trees.splits,
        shap=shap,
        verdicts=tuple(verdicts.tolist()),
        clusters=tuple(cluster_effects),
        removed=next(iter(removed), None),
        negligible=negligible,
        redundant=_REDUNDANT,
        queries=int(included.sum()),
        documents=rows.data.n_documents,
        all_documents=data.n_documents,
        shap_documents=explained,
        repeats=repeats,
    )


def _find_clusters(context: Context, rows: DenseRows, varying: BoolArray) -> dict[Unit, float]:
    """Find features that rank documents alike, among those that vary within queries.

    Returns:
        The smallest absolute correlation of two features in each cluster.
    """
    by_gain = np.argsort(-context.trees.gain[rows.columns], kind="stable")
    positions = np.sort(by_gain[varying[by_gain]][:_CORRELATED_FEATURES])
    sample = rows.data.queries.sample(_CORRELATED_DOCUMENTS, context.seed)
    queries, sampled_rows = rows.data.queries.take(sample)
    values = replace(rows, columns=rows.columns[positions])[sampled_rows]
    correlation = np.abs(rank_correlation(centred_ranks(values, queries.ptr)))
    clusters = {}
    for i, members in enumerate(clusters_of(correlation, _REDUNDANT)):
        columns, stream = tuple(positions[members].tolist()), context.data.n_features + i
        unit = Unit(f"cluster {i + 1}", columns, stream)
        clusters[unit] = float(correlation[np.ix_(members, members)].min())
    return clusters


def _measure_shap(context: Context, documents: int | None) -> tuple[Float64Array, int]:
    """Return the mean absolute centred contributions, float64[d], and the number of documents."""
    data, n_features = context.data, context.data.n_features
    if documents is None:
        affordable = _EXPLAINED // max(1, context.trees.count)
        documents = max(1, min(affordable, _CONTRIBUTIONS // n_features))
    queries, rows = data.queries.take(data.queries.sample(documents, context.seed))
    owner, shares = queries.of_rows(), queries.each_weight / queries.each_weight.sum()
    shap, sizes = np.zeros(n_features), queries.sizes[owner]
    for first_query, last_query in queries.blocks(_EXPLAINED_AT_A_TIME):
        block = slice(int(queries.ptr[first_query]), int(queries.ptr[last_query]))
        contributions = context.model.contributions(
            data.features[rows[block]], threads=context.workers
        )[:, :n_features]
        # Centre and average within each query, then average over queries.
        _, starts, counts = np.unique(owner[block], return_index=True, return_counts=True)
        means = np.add.reduceat(contributions, starts) / counts[:, None]
        centred = np.abs(contributions - np.repeat(means, counts, axis=0))
        shap += shares[owner[block]] / sizes[block] @ centred
        context.progress("contributions", block.stop, rows.size)
    return shap, rows.size


def _template_variables(importance: Importance) -> dict[str, Any]:
    used_rows = [row for row in importance.table().rows() if row["verdict"] != "unused"]
    return {
        "counts": {verdict: importance.verdicts.count(verdict) for verdict in VERDICTS},
        "meanings": VERDICTS,
        "clustered": sum(len(cluster.features) for cluster in importance.clusters),
        "first": used_rows[0] if used_rows else None,
    }


SPEC = Section(
    "importance", "Features", run=measure_importance, variables=_template_variables, position=20
)
