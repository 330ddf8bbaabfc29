"""Shapes of features: contributions, accumulated local effects, pairs of features.

found = shapes(model, data, importance=importance(model, data))
found.to_frame("curves"), found.to_frame("dependence"), found.to_frame("interactions")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, ModelError, ParameterError, did_you_mean
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.dense import DenseRows
from boostrank.engines.trees import Trees
from boostrank.model.ranking_model import RankingModel
from boostrank.records import jsonable
from boostrank.report.frames import pandas
from boostrank.report.scoring import Progress, contributions_by_query, scorer_of, silent
from boostrank.report.sections.importance.result import Importance
from boostrank.report.sections.shapes.ale import AleCurve, accumulated_local_effects
from boostrank.report.sections.shapes.interactions import Interaction, interactions

# Documents times trees that are walked: about ten seconds each on two cores; and where the engine predicts instead,
# which it does once for each feature or pair.
_WALKS, _PREDICTIONS = 30_000_000, 200_000_000
# More documents say the same: the curve of 20,000 is off by less than a reader sees.
_MOST_DOCUMENTS, _MOST_NUMBERS = 20_000, 20_000_000
# TreeSHAP takes some 10 us a document and tree.
_EXPLAINED = 800_000
ROUNDING = 1e-12
"""Shares of the variance up to it are none: engines that add float32 numbers up are off by 1e-7, squared."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """What one feature adds to the scores of some documents, by TreeSHAP, beyond the mean of their queries.

    Args:
        feature: its name.
        values: float64[p], NaN is missing.
        parts: float64[p], in units of the score; centred over all documents of the query.
    """

    feature: str
    values: Float64Array
    parts: Float64Array


@dataclass(frozen=True, eq=False)
class Shapes:
    """What `shapes` found.

    Args:
        top: names of the features that most is said of.
        dependence: of `top`, in that order, all of the same documents; empty where the engine cannot tell.
        curves: the accumulated local effects of every feature that the trees use: first `top`, then by `swing`.
        interactions: of the pairs of `top`, strongest first.
        documents, pair_documents, shap_documents: how many the curves, the interactions and the dependence are taken
            from, in whole queries drawn at random; of
        all_documents: in the data.
        queries: that the curves are taken from.
        by: "walk" when the trees were walked here, or why the engine predicted instead.
        notes: what is missing, and why.
        categories: feature -> the names of its codes 0, 1, ..., of those that hold categories.
    """

    top: tuple[str, ...]
    dependence: tuple[Dependence, ...]
    curves: tuple[AleCurve, ...]
    interactions: tuple[Interaction, ...]
    documents: int
    pair_documents: int
    shap_documents: int
    all_documents: int
    queries: int
    by: str
    notes: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def curve(self, feature: str) -> AleCurve:
        """The curve of a feature.

        Raises:
            ParameterError: the trees do not use it.
        """
        known = {one.feature: one for one in self.curves}
        if feature not in known:
            raise ParameterError(f"no tree splits by {feature!r}.{did_you_mean(feature, known, list_all=False)}")
        return known[feature]

    def category(self, feature: str, value: float) -> str | None:
        """What a code of a categorical feature stands for; None of a feature of numbers, or without a value."""
        names = self.categories.get(feature)
        if names is None or np.isnan(value):
            return None
        return names[int(value)] if 0.0 <= value < len(names) else f"{value:g}"

    def partner(self, feature: str) -> Interaction | None:
        """The strongest interaction of a feature, if it has one that is more than rounding."""
        pairs = (one for one in self.interactions if feature in (one.first, one.second) and one.share > ROUNDING)
        return next(pairs, None)

    def to_frame(self, what: str = "curves") -> Any:
        """A pandas data frame.

        Args:
            what: "curves", a row for each feature and edge, and for what is missing; "features", a row a feature;
                "dependence", a row for each feature and document; "interactions", a row a pair.

        Raises:
            MissingDependency: pandas is not installed.
            ParameterError: another word.
        """
        if what not in _FRAMES:
            raise ParameterError(f"to_frame({what!r}).{did_you_mean(what, _FRAMES)}")
        return pandas().DataFrame(self.rows(what), columns=list(_FRAMES[what]))

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers, text, lists; what is not a number is None."""
        names = ("documents", "pair_documents", "shap_documents", "all_documents", "queries", "by", "top", "notes")
        tables = {what: self.rows(what) for what in ("features", "curves", "interactions", "dependence")}
        return dict(jsonable({name: getattr(self, name) for name in names} | tables))

    def rows(self, what: str) -> list[dict[str, Any]]:
        """The rows of `to_frame`."""
        rows: list[tuple[Any, ...]] = []
        if what == "curves":
            for c in self.curves:
                if c.missing:
                    rows.append((c.feature, np.nan, c.missing_effect, c.missing_low, c.missing_high, c.missing, None))
                # An interval's documents stand in the row of its upper end.
                columns = c.edges.tolist(), c.effect.tolist(), c.low.tolist(), c.high.tolist(), [0, *c.counts.tolist()]
                named = [self.category(c.feature, value) for value in c.edges.tolist()]
                rows += [(c.feature, *point) for point in zip(*columns, named, strict=False)]
        elif what == "features":
            for c in self.curves:
                ends = (c.edges[0], c.edges[-1]) if c.edges.size else (np.nan, np.nan)
                counts = int(c.counts.sum()), c.zeros, c.missing, c.missing_effect, c.query_level
                rows.append((c.feature, c.swing, c.rising, *ends, *counts))
        elif what == "dependence":
            for one in self.dependence:
                points = zip(one.values.tolist(), one.parts.tolist(), strict=True)
                rows += [(one.feature, i, *point) for i, point in enumerate(points)]
        else:
            rows += [(one.first, one.second, one.size, one.share, one.error) for one in self.interactions]
        return [dict(zip(_FRAMES[what], row, strict=True)) for row in rows]


_FRAMES = {
    "curves": ("feature", "value", "effect", "low", "high", "documents", "category"),
    "features": (
        "feature", "swing", "rising", "lowest", "highest", "documents", "zeros", "missing", "missing_effect",
        "query_level",
    ),
    "dependence": ("feature", "document", "value", "part"),
    "interactions": ("first", "second", "size", "share", "error"),
}  # fmt: skip
"""Columns of `Shapes.to_frame`."""


def shapes(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    *,
    importance: Importance | None = None,
    features: Sequence[str] | None = None,
    top: int = 8,
    bins: int = 32,
    points: int = 500,
    documents: int | None = None,
    shap_documents: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Shapes:
    """How the scores depend on each feature; see `Shapes`.

    Args:
        model, seed, threads, progress: as for `boostrank.report.report`.
        data: documents; labels are not looked at.
        importance: of the same model: the first of its `order` are the `top` of the result. None: those of most gain.
        features: the `top` of the result, instead.
        top: how many, at least 1.
        bins: intervals of a curve, at least 1.
        points: documents of the dependence, at most.
        documents: take curves and interactions from a sample of whole queries with about so many documents; None: as
            many as take about 20 seconds on two cores, 20,000 at most.
        shap_documents: likewise of the contributions, 0 for none; None: as many as take about eight seconds.

    Raises:
        ParameterError: a number out of range, an unknown feature.
        DataError: features that are not the model's; no documents.
    """
    ranker = model if isinstance(model, RankingModel) else RankingModel.load(model)
    for name, value, least in (
        ("top", top, 1), ("bins", bins, 1), ("points", points, 1), ("documents", documents, 1),
        ("shap_documents", shap_documents, 0),
    ):  # fmt: skip
        if value is not None and value < least:
            raise ParameterError(f"{name}={value} is out of range: {least} or more")
    workers = resolve_threads(threads)
    ranker, data = ranker.over_columns(data)
    if not data.n_documents:
        raise DataError("no documents")
    trees = ranker.trees()
    # Of the data: those of a booster alone may merely number its columns.
    columns = data.feature_names
    chosen = _chosen(columns, trees, importance, features, top)
    say = progress or silent
    scorer, by = scorer_of(ranker, trees, data, workers)
    names = tuple(columns[i] for i in trees.used)
    place = {name: i for i, name in enumerate(names)}

    def sampled(passes: int, units: int) -> DenseRows:
        """Rows of as many documents as may be walked so often."""
        work = max(1, trees.count) * passes * (1 if by == "walk" else max(1, units))
        most = min((_WALKS if by == "walk" else _PREDICTIONS) // work, _MOST_NUMBERS // max(1, trees.used.size))
        some = data.sample(documents or max(1, min(most, _MOST_DOCUMENTS)), seed)
        return DenseRows(some, trees.used, ranker.absent_is_missing)

    rows = sampled(3, trees.used.size)
    workers_here = workers if by == "walk" else 1
    curves = accumulated_local_effects(
        scorer, rows, names, bins=bins, seed=seed, threads=workers_here, progress=partial(say, "local effects")
    )
    pair_rows = sampled(max(2, len(chosen)), len(chosen))
    pairs = interactions(
        scorer, pair_rows, names, [place[name] for name in chosen], seed=seed, threads=workers_here,
        progress=partial(say, "interactions"),
    )  # fmt: skip
    sizes, notes = pair_rows.data.queries.sizes, list[str]()
    if shap_documents is None:
        shap_documents = max(1, _EXPLAINED // max(1, trees.count))
    dependence, explained = _dependence(ranker, data, chosen, shap_documents, points, seed, workers, say, notes)
    first = {name: i for i, name in enumerate(chosen)}
    return Shapes(
        top=chosen, dependence=dependence,
        curves=tuple(sorted(curves, key=lambda c: (first.get(c.feature, len(first)), -c.swing))),
        interactions=pairs, documents=rows.data.n_documents, pair_documents=int(sizes[sizes > 1].sum()),
        shap_documents=explained, all_documents=data.n_documents, queries=len(rows.data.queries), by=by,
        notes=tuple(notes), categories=_categories(ranker, columns),
    )  # fmt: skip


def _categories(model: RankingModel, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By the data's names of the columns; of codes alone, the codes."""
    known = model.categories
    named = ((here, known[name]) for here, name in zip(columns, model.feature_names, strict=True) if name in known)
    return {here: tuple(map(str, one.values or ())) for here, one in named}


def _chosen(
    names: Sequence[str], trees: Trees, importance: Importance | None, features: Sequence[str] | None, top: int
) -> tuple[str, ...]:
    """The `top` of the result, among those that the trees use."""
    used = set(trees.used.tolist())
    if features is not None:
        for name in features:
            if name not in names:
                raise ParameterError(f"the model has no feature {name!r}.{did_you_mean(name, names, list_all=False)}")
        return tuple(name for name in dict.fromkeys(features) if names.index(name) in used)
    order: Int64Array = np.argsort(-trees.gain, kind="stable")
    if importance is not None:
        if importance.feature_names != tuple(names):
            raise ParameterError("the importance is that of a model with other features")
        order = importance.order
    return tuple(names[i] for i in order.tolist() if i in used)[:top]


def _dependence(
    model: RankingModel, data: RankingDataset, chosen: Sequence[str], documents: int, points: int,
    seed: int, threads: int, say: Progress, notes: list[str],
) -> tuple[tuple[Dependence, ...], int]:  # fmt: skip
    """Of the features, and the documents whose contributions were asked for."""
    if not documents or not chosen:
        return (), 0
    columns = np.array([data.feature_names.index(name) for name in chosen], np.int64)
    rows, queries = DenseRows(data, columns, model.absent_is_missing), data.queries.sample(documents, seed)
    try:
        blocks = contributions_by_query(model, data, queries, threads, say)
        found = [(rows[numbers], parts[:, columns]) for _, numbers, parts in blocks]
    except ModelError as error:
        notes.append(str(error))
        return (), 0
    values, parts = (np.concatenate(one).astype(np.float64) for one in zip(*found, strict=True))
    sizes = data.queries.sizes[queries]
    owner = np.repeat(np.arange(sizes.size), sizes)
    for column in parts.T:
        column -= (np.bincount(owner, column, sizes.size) / np.maximum(sizes, 1))[owner]
    kept = np.sort(np.random.default_rng(seed).permutation(len(values))[:points])
    return tuple(Dependence(name, values[kept, i], parts[kept, i]) for i, name in enumerate(chosen)), len(values)
