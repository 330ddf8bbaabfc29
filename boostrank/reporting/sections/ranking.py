"""Detailed analysis of the ranking by cut-off and by grade."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.errors import DataError
from boostrank.reporting.charts import Chart, alt, lines, row_chart, whole_numbers
from boostrank.reporting.result import Result, concatenate
from boostrank.reporting.scoring import START, within_queries
from boostrank.reporting.section import Context, Section
from boostrank.reporting.sections.verdict import MODEL, RANDOM
from boostrank.reporting.segments import means_over_queries
from boostrank.reporting.table import Data, Table

_DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
# Labels with more distinct values are not grades.
_MOST_GRADES = 12


class Ranking(Result):
    """Result of `ranking`.

    Args:
        depth: table of each ranking's mean metric by cut-off `k`, with its 95% interval; empty for
            metrics without cut-offs.
        grades: table of the 5%, 50% and 95% quantiles of the scores by grade, minus their query's
            mean, over queries with at least two documents; empty if labels are not grades.
    """

    metric: str
    depth: Data
    grades: Data

    def tables(self) -> tuple[Table, ...]:
        """Return the metric by cut-off, and the scores by grade."""
        return Table("depth", self.depth), Table("grades", self.grades)


def ranking(context: Context) -> Ranking:
    """Analyse the rankings by a model and its baselines."""
    data, queries = context.data, context.data.queries
    scores = {MODEL: context.scores}
    if context.start is not None:
        scores[START] = context.start
    if context.previous is not None:
        name, previous_scores = context.previous
        scores[name] = np.asarray(previous_scores, np.float64)
    family, _, cutoff = context.metric.partition("@")
    depth_tables = []
    if cutoff:
        longest = max(int(queries.sizes.max(initial=1)), int(cutoff))
        cutoffs = sorted({k for k in _DEPTHS if k <= longest} | {int(cutoff)})
        names = [f"{family}@{k}" for k in cutoffs]
        values = {
            name: context.bound(names).per_query(ranking_scores)
            for name, ranking_scores in scores.items()
        }
        # With equal scores, the mean over tied orders is the mean of a random order.
        over_ties = context.bound(names, replace(context.rules, ties="expected"))
        values[RANDOM] = over_ties.per_query(np.zeros(data.n_documents))
        for name, per_query in values.items():
            columns = np.column_stack([per_query[metric] for metric in names])
            means = means_over_queries(columns, queries.each_weight, seed=context.seed)
            ends = {"value": means.mean, "low": means.low, "high": means.high}
            depth_tables.append({"ranking": [name] * len(cutoffs), "k": cutoffs} | ends)
    grades = _by_grade(context)
    if not (depth_tables or grades):
        raise DataError(f"{context.metric} has no cut-off, and the labels are not grades")
    return Ranking(context.metric, concatenate(depth_tables), grades)


def _by_grade(context: Context) -> Data:
    labels = context.data.labels
    query_of_row = context.data.queries.of_rows()
    sizes = context.data.queries.sizes
    compared = sizes[query_of_row] > 1
    grades, counts = np.unique(labels[compared], return_counts=True)
    if not 0 < grades.size <= _MOST_GRADES:
        return {}
    centred = within_queries(context.scores, sizes)
    quantiles = np.array(
        [np.quantile(centred[compared & (labels == grade)], (0.05, 0.5, 0.95)) for grade in grades]
    )
    return {"grade": grades, "documents": counts} | dict(
        zip(("low", "median", "high"), quantiles.T, strict=True)
    )


def _template_variables(result: Ranking) -> dict[str, Any]:
    variables: dict[str, Any] = {"family": result.metric.partition("@")[0]}
    if result.depth:
        frame = result.to_frame("depth")
        x = alt.X("k:Q", scale=alt.Scale(type="log", nice=False), axis=whole_numbers())
        tips = ("ranking:N", "k:Q d", "value:Q .4f", "low:Q .4f from", "high:Q .4f to")
        y_options = {"title": f"{variables['family']}@k", "scale": alt.Scale(zero=False)}
        color = alt.Color("ranking:N", sort=None)
        figure = lines(frame, x, "value", tips, band=("low", "high"), color=color, **y_options)
        variables["over_k"] = Chart("ranking-depth", frame, figure)
    if result.grades:
        frame = result.to_frame("grades")
        tips = ("grade:O", "documents:Q ,d", "median:Q +.4f", "low:Q +.4f 5%", "high:Q +.4f 95%")
        title = "score minus its query's mean"
        variables["by_grade"] = row_chart(
            "ranking-grades", frame, y="grade:O", tips=tips, title=title, value="median"
        )
    return variables


SPEC = Section(
    "ranking",
    "Ranking",
    run=ranking,
    variables=_template_variables,
    position=15,
    after=("learning",),
)
