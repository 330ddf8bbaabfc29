"""Result of `importance`, as plain arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.report.frames import pandas

VERDICTS = {
    "useful": "significant: shuffling it loses more than chance, all features considered (Holm)",
    "unclear": "not significant, and losses that matter are not ruled out either",
    "redundant": "alone it loses nothing that matters, but with the others of its cluster it does: keep one",
    "removable": "it has gain, and shuffling it loses nothing that matters",
    "harmful": "significant: shuffling it gains more than chance, all features considered (Holm)",
    "query-level": "constant within each query: it orders nothing by itself, and was exchanged between queries",
    "unused": "no tree splits by it",
}
"""What each verdict means."""


@dataclass(frozen=True)
class Effect:
    """What the metric loses when some features are shuffled together; query-level ones among them stay as they are.

    Args:
        name: of the group.
        features: their names.
        loss, low, high: mean over queries, and its 95% interval.
        permutation_error: the part of the standard error that is due to shuffling; NaN with one repeat.
    """

    name: str
    features: tuple[str, ...]
    loss: float
    low: float
    high: float
    permutation_error: float


@dataclass(frozen=True)
class StartEffect:
    """What the linear start is worth, that the trees begin with.

    Args:
        loss, low, high: of the metric when the start is left out and the trees rank alone: mean over queries, and its
            95% interval.
        shap, shap_error: mean absolute size of the start, centred within the query, as `Importance.shap` has it of a
            feature, and its standard error.
    """

    loss: float
    low: float
    high: float
    shap: float
    shap_error: float


@dataclass(frozen=True, eq=False)
class Importance:
    """What `importance` found. Arrays have one entry a feature, in the model's order.

    Intervals are 95%, by bootstrap over queries. Every query is shuffled by draws of its own, so they hold both what
    the choice of queries and what the shuffles make uncertain; `permutation_error` is the second part alone. They are
    of one feature each: among 100 features without effect, about five intervals miss 0. "useful" and "harmful" go by
    `p_holm`, which takes all features together.

    Args:
        metric: such as "ndcg@10".
        value, low, high: of the model on the data, and its interval.
        feature_names: d names.
        loss, loss_low, loss_high: float64[d], of the metric when the feature is shuffled within queries, and its
            interval; 0 by definition for query-level and unused features.
        p_holm: float64[d], p-value of "shuffling it changes nothing", by Student's t over queries, adjusted by Holm's
            method over the features that are shuffled; NaN for query-level and unused ones.
        permutation_error: float64[d], standard error of `loss` due to shuffling; NaN with one repeat.
        between, between_low, between_high: float64[d], the loss when a query-level feature is exchanged between
            queries; NaN for the others.
        gain, splits: float64[d], int64[d], by the trees.
        shap, shap_error: float64[d]: mean over queries of the mean absolute contribution, centred within the query,
            and its standard error; NaN where the engine cannot tell.
        verdicts: d words of `VERDICTS`.
        groups: the groups that were asked for.
        clusters: features that rank documents alike, shuffled together.
        removed: all removable features neutralised together: shuffled as one; None if there are none.
        correlation: float64[c, c], rank correlation within queries of the features `correlated`.
        correlated: c names.
        negligible: the loss that does not matter.
        redundant: correlation from which on features cluster.
        queries, documents: what was shuffled; of
        all_queries, all_documents: in the data.
        shap_documents: documents whose contributions were asked for.
        repeats: shuffles of each query.
        start: what the linear start is worth; None: the trees begin with none.
        by: "walk" when the trees were walked here, or why the engine predicted instead.
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

    _COLUMNS = (
        "loss", "loss_low", "loss_high", "p_holm", "permutation_error", "between", "between_low", "between_high",
        "gain", "splits", "shap", "shap_error",
    )  # fmt: skip

    @property
    def order(self) -> Int64Array:
        """Features by falling loss (of query-level ones, the loss when exchanged), then by gain."""
        worth = np.where(np.isnan(self.between), self.loss, self.between)
        unused = np.array([v == "unused" for v in self.verdicts], dtype=bool)
        return np.lexsort((-self.gain, -worth, unused)).astype(np.int64)

    def named(self, verdict: str) -> tuple[str, ...]:
        """The features of one verdict."""
        return tuple(n for n, v in zip(self.feature_names, self.verdicts, strict=True) if v == verdict)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a feature, in `order`: feature, verdict, and a number a column."""
        columns = {name: getattr(self, name).tolist() for name in self._COLUMNS}
        return [
            {"feature": self.feature_names[i], "verdict": self.verdicts[i]} | {n: c[i] for n, c in columns.items()}
            for i in self.order.tolist()
        ]

    def to_frame(self) -> Any:
        """The same as a pandas data frame.

        Raises:
            MissingDependency: there is no pandas.
        """
        return pandas().DataFrame(self.rows())

    def to_dict(self) -> dict[str, Any]:
        """Everything but the correlation, as plain data; what is not a number is NaN."""
        alone = (
            "metric", "value", "low", "high", "queries", "documents", "all_queries", "all_documents", "shap_documents",
            "repeats", "by", "negligible", "redundant",
        )  # fmt: skip
        return {name: getattr(self, name) for name in alone} | {
            "features": self.rows(),
            "groups": [asdict(effect) for effect in self.groups],
            "clusters": [asdict(effect) for effect in self.clusters],
            "removed": None if self.removed is None else asdict(self.removed),
            "start": None if self.start is None else asdict(self.start),
        }
