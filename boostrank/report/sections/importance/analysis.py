"""Importance of features to the ranking, by permutation, beside SHAP and gain of the trees.

    found = importance(model, data)
    found.to_frame()

The loss of a metric when a feature is shuffled within queries is what ranking loses without what the feature says
about one document against another. Gain counts every use of a feature in training, also the use that orders no
documents; SHAP tells how far a feature moves scores, also where the order does not depend on it.

Sources: Breiman 2001 (permutation importance); Lundberg et al. 2020 (TreeSHAP), centred within queries since a score's
level means nothing to a ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ModelError, ParameterError, did_you_mean
from boostrank.core.machine import resolve_threads
from boostrank.core.resampling import PAIRED_RESAMPLES, bootstrap_intervals
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.dense import DenseRows
from boostrank.engines.trees import Trees
from boostrank.metric import BoundMetrics, Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.report.means import means_over_queries
from boostrank.report.scoring import Progress, contributions_by_query, scorer_of, silent
from boostrank.report.sections.importance.permutation_importance import Losses, Unit, measure_losses
from boostrank.report.sections.importance.redundancy import clusters_of, rank_correlation, within_query_ranks
from boostrank.report.sections.importance.result import VERDICTS, Effect, Importance, StartEffect
from boostrank.report.segments import holm
from boostrank.report.start import start_scores

__all__ = ["VERDICTS", "Effect", "Importance", "importance"]

# Documents times trees that are walked unless told otherwise: about half a minute on two cores.
_WALKS = 100_000_000
_MOST_REPEATS = 5
# Of the family of all features: the chance that any of them is called useful or harmful and is neither.
_ALPHA = 0.05
# Where the engine predicts instead, once for each feature.
_PREDICTIONS = 1_000_000_000
# TreeSHAP takes some 10 us a document and tree.
_EXPLAINED = 1_500_000
_CONTRIBUTIONS = 25_000_000
_CORRELATED_DOCUMENTS, _CORRELATED_FEATURES = 20_000, 500


def importance(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    *,
    metric: Metric | str = "ndcg@10",
    conventions: Conventions | str = "default",
    groups: Mapping[str, Sequence[str]] | None = None,
    repeats: int | None = None,
    documents: int | None = None,
    shap_documents: int | None = None,
    seed: int = 0,
    negligible: float = 0.001,
    redundant: float = 0.9,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Importance:
    """What each feature is worth to the ranking; see `Importance`.

    Args:
        model: ours, or one that LightGBM or XGBoost made; or its file.
        data: labelled queries that it was not trained on.
        metric: with one cut-off.
        conventions: of the metric; in place of an order of tied documents by name, the mean over their orders.
        groups: name -> names of features that are shuffled together.
        repeats: shuffles of each query; None: as many as the work allows, 1 to 5.
        documents: shuffle a sample of whole queries with about so many documents; 0: all; None: as many as take
            about half a minute on two cores.
        shap_documents: ask for the contributions of a sample of whole queries with about so many documents; 0: of
            none; None: as many as take about ten seconds.
        seed: of shuffles, samples and bootstrap.
        negligible: a loss that does not matter. A feature is removable when its interval ends below it.
        redundant: rank correlation within queries, from which on features cluster.
        threads: None means every available core.
        progress: called as the work goes on.

    Raises:
        ParameterError: a number out of range, a group with an unknown feature.
        DataError: features that are not the model's; no query that counts.
    """
    ranker = model if isinstance(model, RankingModel) else RankingModel.load(model)
    one = Metric.of(metric)
    if len(one.cutoffs) > 1:
        raise ParameterError(f"{one} has several cut-offs: the loss is of one, such as {one.names[0]}")
    for name, value, low, high in (
        ("repeats", repeats, 1, np.inf), ("documents", documents, 0, np.inf),
        ("shap_documents", shap_documents, 0, np.inf), ("negligible", negligible, 0.0, np.inf),
        ("redundant", redundant, 0.0, 1.0),
    ):  # fmt: skip
        if value is not None and not low <= value <= high:
            raise ParameterError(f"{name}={value} is out of range: {low} or more" + (f", up to {high}" * (high == 1)))
    workers = resolve_threads(threads)
    ranker, data = ranker.over_columns(data)
    trees = ranker.trees()
    # Of thousands of changed scores, ties by name are not worth what they cost.
    rules = Conventions.of(conventions).without_names.over(data.labels)
    columns_of = {name: i for i, name in enumerate(data.feature_names)}
    wanted: dict[str, list[int]] = {}
    for group, features in (groups or {}).items():
        for feature in features:
            if feature not in columns_of:
                hint = did_you_mean(feature, columns_of, list_all=False)
                raise ParameterError(f"group {group!r}: the model has no feature {feature!r}.{hint}")
        wanted[group] = [columns_of[feature] for feature in features]
    say = progress or silent

    scorer, by = scorer_of(ranker, trees, data, workers)
    # All queries once tell more than some of them several times, so repeats give way first.
    a_document, budget = max(1, trees.count), _WALKS
    if by != "walk":
        a_document, budget = a_document * max(1, trees.used.size), _PREDICTIONS
    shuffled = min(documents or data.n_documents, data.n_documents)
    if repeats is None:
        repeats = min(max(budget // (a_document * max(1, shuffled)), 1), _MOST_REPEATS)
    if documents is None:
        shuffled = min(shuffled, max(1, budget // (a_document * repeats)))
    rows = DenseRows(data.sample(shuffled, seed), trees.used, ranker.absent_is_missing)
    constant = set(rows.constant_within_queries(workers).tolist())
    correlation, correlated = _correlation(rows, constant, trees, seed)
    found = [[correlated[i] for i in members] for members in clusters_of(correlation, redundant)]
    place = {int(column): at for at, column in enumerate(trees.used)}

    def unit(name: str, columns: Sequence[int], stream: int, between: bool = False) -> Unit:
        of_trees = tuple(place[c] for c in columns if c in place)
        return Unit(name, of_trees, stream, between, tuple(names[c] for c in columns))

    d, names = data.n_features, data.feature_names
    single = [unit(names[c], [c], c, at in constant) for c, at in place.items()]
    together = [unit(f"cluster {i + 1}", columns, d + i) for i, columns in enumerate(found)]
    grouped = [unit(name, columns, 2 * d + i) for i, (name, columns) in enumerate(wanted.items())]

    def measure(units: Sequence[Unit], what: str) -> Losses:
        return measure_losses(
            scorer, rows, units, one, rules, repeats=repeats, seed=seed, threads=1 if by != "walk" else workers,
            progress=lambda done, total: say(what, done, total),
        )  # fmt: skip

    units = [*single, *together, *grouped]
    losses = measure(units, "shuffling")
    several = _effects(losses, units)[len(single) :]
    clusters, groups_found = several[: len(together)], several[len(together) :]
    needed = {n for cluster in clusters if cluster.high > negligible for n in cluster.features}
    p_holm = np.full(d, np.nan)
    within = [i for i, one in enumerate(single) if not one.between]
    p_holm[trees.used[within]] = holm(losses.p[within])
    verdicts = ["unused"] * d
    for column, i in place.items():
        if single[i].between:
            verdicts[column] = "query-level"
        elif losses.loss[i] < 0.0 and p_holm[column] < _ALPHA:
            verdicts[column] = "harmful"
        elif losses.high[i] <= negligible:
            verdicts[column] = "redundant" if names[column] in needed else "removable"
        else:
            verdicts[column] = "useful" if losses.loss[i] > 0.0 and p_holm[column] < _ALPHA else "unclear"
    removable = [c for c in range(d) if verdicts[c] == "removable"]
    all_of_them = [unit("removable", removable, 3 * d)]
    removed = _effects(measure(all_of_them, "neutralising"), all_of_them)[0] if removable else None
    exchanged = np.isin(np.arange(trees.used.size), [*constant])

    def spread(values: Float64Array, between: bool, other: float) -> Float64Array:
        """One number a feature, from one number a used feature of one kind."""
        out = np.full(d, other)
        out[trees.used[exchanged == between]] = values[: len(single)][exchanged == between]
        return out

    if shap_documents is None:
        shap_documents = max(1, min(_EXPLAINED // max(1, trees.count), _CONTRIBUTIONS // d))
    shap, shap_error, explained = _shap(ranker, data, shap_documents, seed, workers, say)
    counted = ~np.isnan(losses.base)
    w = rows.data.queries.each_weight[counted]
    (low,), (high,) = bootstrap_intervals(losses.base[counted][:, None], w, seed=seed)
    return Importance(
        metric=one.names[0], value=float(w @ losses.base[counted] / w.sum()), low=float(low),
        high=float(high), feature_names=names, loss=spread(losses.loss, False, 0.0),
        loss_low=spread(losses.low, False, 0.0), loss_high=spread(losses.high, False, 0.0), p_holm=p_holm,
        permutation_error=spread(losses.permutation_error, False, 0.0 if repeats > 1 else np.nan),
        between=spread(losses.loss, True, np.nan), between_low=spread(losses.low, True, np.nan),
        between_high=spread(losses.high, True, np.nan), gain=trees.gain, splits=trees.splits, shap=shap,
        shap_error=shap_error, verdicts=tuple(verdicts), groups=groups_found, clusters=clusters, removed=removed,
        correlation=correlation, correlated=tuple(names[c] for c in correlated), negligible=negligible,
        redundant=redundant, queries=int(counted.sum()), documents=rows.data.n_documents,
        all_queries=len(data.queries), all_documents=data.n_documents, shap_documents=explained,
        repeats=repeats, by=by, start=_start(ranker, rows.data, losses.base, one, rules, seed, workers),
    )  # fmt: skip


def _effects(losses: Losses, units: Sequence[Unit]) -> tuple[Effect, ...]:
    numbers = (one.tolist() for one in (losses.loss, losses.low, losses.high, losses.permutation_error))
    return tuple(Effect(unit.name, unit.features, *of_unit) for unit, *of_unit in zip(units, *numbers, strict=True))


def _correlation(rows: DenseRows, constant: set[int], trees: Trees, seed: int) -> tuple[Float64Array, list[int]]:
    """Rank correlation within queries of the used features that vary there, and their numbers; most gain first where
    there are too many."""
    varying = [at for at in range(rows.columns.size) if at not in constant]
    varying = sorted(sorted(varying, key=lambda at: -trees.gain[rows.columns[at]])[:_CORRELATED_FEATURES])
    chosen = rows.data.queries.sample(_CORRELATED_DOCUMENTS, seed)
    queries, numbers = rows.data.queries.take(chosen)
    columns = rows.columns[varying]
    ranks = within_query_ranks(replace(rows, columns=columns)[numbers], queries.ptr)
    return rank_correlation(ranks), columns.tolist()


def _start(
    model: RankingModel, data: RankingDataset, base: Float64Array, metric: Metric, rules: Conventions, seed: int,
    threads: int,
) -> StartEffect | None:  # fmt: skip
    """Of the start, by leaving it out: it is one number a document, which the trees were grown on top of."""
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
    """float64[m] each, of float64[Q, m]."""
    share = weights / weights.sum()
    mean = share @ of_query
    return mean, np.sqrt(np.square(share) @ np.square(of_query - mean))


def _shap(
    model: RankingModel, data: RankingDataset, documents: int, seed: int, threads: int, say: Progress
) -> tuple[Float64Array, Float64Array, int]:
    """Mean over queries of the mean absolute centred contribution, its standard error, and of how many documents."""
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
