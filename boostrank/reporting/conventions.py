"""Comparison of one metric across the conventions of several libraries.

Libraries differ in the details that a metric's definition leaves open (`core.conventions`). The
path from one value to another changes one convention at a time, in the order of `STEPS`, so the
steps add up to the whole difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import (
    Conventions,
)
from boostrank.core.errors import InputError
from boostrank.core.queries import QueryIndex
from boostrank.metrics import BoundMetrics, Metric
from boostrank.metrics.measure import Names

_Values = Callable[[Conventions], dict[str, float]]

LIBRARIES = ("lightgbm", "xgboost", "catboost", "sklearn", "trec", "letor")
"""The libraries that are compared by default."""

STEPS = {
    "gain": ("gain",),
    "discount": ("discount",),
    "relevance": ("relevant_from",),
    "divisor": ("ap_divisor",),
    "grades": ("max_grade",),
    "short lists": ("short_lists",),
    "ties": ("ties", "score_type"),
    "single": ("single",),
    "empty": ("empty", "empty_of"),
}
"""The fields of `Conventions` that change together in each step. The last steps decide which
queries are included.
"""

_WORDS = {
    "log2(1+r)": "the discount 1/log2(1 + rank)",
    "log2(r)": "the discount 1/log2(max(2, rank))",
    "relevant": "division by all relevant",
    "reachable": "division by at most k relevant",
    "pad": "lists shorter than the cut-off filled up with irrelevant documents",
    "clip": "lists shorter than the cut-off cut at their end",
    "letor": "lists shorter than the cut-off counted as 0",
    "expected": "the mean over the orders of tied documents",
    "input": "tied documents in the order of the file",
    "pessimistic": "tied documents in the worst order",
    "optimistic": "tied documents in the best order",
    "docno": "tied documents ordered by name",
}


def _words(step: str, c: Conventions, metric: str) -> str:
    """Describe the choice made in a step by a phrase that can follow "is"."""
    counted = {"exclude": "left out", "one": "counted as 1", "zero": "counted as 0"}
    gain = f"{c.gain} gain, {'2^label - 1' if c.gain == 'exponential' else 'the label itself'}"
    if not isinstance(c.gain, str):
        gain = "the gain table " + ",".join(f"{g:g}" for g in c.gain)
    words = {
        "gain": gain,
        "relevance": "every label above 0 relevant",
        "grades": "the data's largest grade as the best",
        "single": "queries of one document " + ("counted" if c.single == "count" else "left out"),
        "empty": f"queries without a relevant document {counted[c.empty_for(metric)]}",
    }
    if c.relevant_from is not None:
        words["relevance"] = f"relevance from label {c.relevant_from:g} on"
    if c.max_grade is not None:
        words["grades"] = f"best grade {c.max_grade:g}"
    # The other steps have a word per choice.
    rounded = " after the scores are rounded to float32" * (
        step == "ties" and c.score_type == "float32"
    )
    return words.get(step) or _WORDS[getattr(c, STEPS[step][0])] + rounded


@dataclass(frozen=True)
class ConventionEffect:
    """The metric's value after one step, and the change that the step makes."""

    convention: str
    choice: str
    value: float
    change: float


@dataclass(frozen=True)
class Reading:
    """The metric as one library computes it.

    Args:
        value: the metric's value, or None if the library cannot compute it.
        changes: steps from the base value to this value.
        note: caveat about the value, or the reason why there is no value.
    """

    name: str
    conventions: Conventions
    value: float | None
    changes: tuple[ConventionEffect, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class TieReport:
    """The effect of tied scores.

    Args:
        documents: total number of documents.
        tied: number of documents that share a score with a differently labelled document in their
            query.
        expected, file_order, worst, best: mean of the metric over all orders of tied documents, and
            its values in the order of the file, in the worst order and in the best order.
    """

    documents: int
    tied: int
    expected: float
    file_order: float
    worst: float
    best: float

    @classmethod
    def measure(
        cls, documents: int, tied: int, rules: Conventions, values: _Values, metric: str
    ) -> TieReport:
        """Return the report on a metric, given a function that maps conventions to metric
        values.
        """
        orders = ("expected", "input", "pessimistic", "optimistic")
        return cls(
            documents, tied, *(values(replace(rules, ties=order))[metric] for order in orders)
        )

    @property
    def mass(self) -> float:
        """The share of tied documents."""
        return self.tied / self.documents if self.documents else 0.0

    @property
    def worth(self) -> float:
        """The difference between the best and the worst order of tied documents."""
        return self.best - self.worst


@dataclass(frozen=True)
class Explanation:
    """A metric under the conventions of several libraries.

    Args:
        base: name of the reference conventions.
        value: the metric's value under the reference conventions.
        readings: the metric as each library computes it.
        ties: the effect of ties under the reference conventions.
        queries, empty, single, short: numbers of all queries, of those without a relevant document,
            of those with one document, and of those with fewer documents than the cut-off.
    """

    metric: str
    base: str
    value: float
    readings: tuple[Reading, ...]
    ties: TieReport
    queries: int
    empty: int
    single: int
    short: int


def explain_conventions(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    queries: QueryIndex,
    metrics: Metric | str | Iterable[Metric | str] = "ndcg@10",
    names: Sequence[str] = LIBRARIES,
    *,
    base: str = "default",
    docnos: Names | None = None,
    threads: int | None = None,
) -> list[Explanation]:
    """Explain how a metric's value differs between libraries.

    Args:
        labels, scores, queries, metrics, threads: as for `boostrank.metrics.evaluate`.
        names: convention names from `core.conventions.PRESETS`.
        base: name of the reference conventions.
        docnos: document names, by which trec_eval orders ties. Without names, the value for
            trec_eval is the mean over all orders of tied documents.

    Returns:
        One explanation per metric and cut-off.

    Raises:
        InputError: an unknown name, or data that `base` does not support. Other conventions get a
            note instead.
    """
    start = Conventions.of(base)
    rules = {name: Conventions.of(name) for name in dict.fromkeys(names)}
    tied = tied_documents(labels, scores, queries, score_type=start.score_type)
    # Without document names, ties by name become the mean over tied orders.
    begin = start if docnos is not None else start.without_names
    out = []
    for metric in Metric.all_of(metrics):
        bound = partial(BoundMetrics, metric, labels, queries, threads=threads, docnos=docnos)
        values = cache(lambda rules, bound=bound: bound(rules).values(scores))
        where_relevant = replace(begin, empty="exclude", empty_of=(), single="count")
        without = bound(where_relevant, partial=True).per_query(scores)
        at_start = values(begin)
        for name in metric.names:
            readings = (
                _reading(library, name, begin, end, values, docnos)
                for library, end in rules.items()
            )
            ties = TieReport.measure(queries.n_documents, tied, begin, values, name)
            cut = int(name.partition("@")[2] or 0)
            counts = len(queries), int(np.isnan(without[name]).sum())
            lengths = int((queries.sizes == 1).sum()), int((queries.sizes < cut).sum())
            out.append(
                Explanation(name, base, at_start[name], tuple(readings), ties, *counts, *lengths)
            )
    return out


def _reading(
    name: str,
    metric: str,
    start: Conventions,
    end: Conventions,
    values: _Values,
    docnos: Names | None,
) -> Reading:
    goal = end if docnos is not None else end.without_names
    try:
        changes, rules, value = [], start, values(start)[metric]
        for step, fields in STEPS.items():
            before = rules
            rules = replace(rules, **{field: getattr(goal, field) for field in fields})
            if rules == before:
                continue
            after = values(rules)[metric]
            changes.append(
                ConventionEffect(
                    step, _words(step, goal, metric.split("@")[0]), after, after - value
                )
            )
            value = after
        # Without names, give the range that the library could compute.
        note = ""
        if goal != end:
            worst = values(replace(end, ties="pessimistic"))[metric]
            best = values(replace(end, ties="optimistic"))[metric]
            if worst != best:
                note = (
                    "it orders tied documents by name, and the data has no names; the value is the"
                    " mean over their "
                )
                note += f"orders; with names it could be from {worst:.4f} to {best:.4f}"
        return Reading(name, end, value, tuple(changes), note)
    except InputError as error:
        return Reading(name, end, None, note=str(error))


def tied_documents(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    queries: QueryIndex,
    *,
    score_type: str = "float64",
) -> int:
    """Count documents that share a score, rounded to `score_type`, with another label's document in
    their query.
    """
    y = np.asarray(labels, dtype=np.float64)
    with np.errstate(over="ignore"):
        s = np.asarray(scores).astype(score_type)
    if not y.size:
        return 0
    owner = queries.of_rows()
    order = np.lexsort((s, owner))
    y, s, owner = y[order], s[order], owner[order]
    starts = np.append(0, 1 + np.flatnonzero((owner[1:] != owner[:-1]) | (s[1:] != s[:-1])))
    mixed = np.minimum.reduceat(y, starts) < np.maximum.reduceat(y, starts)
    return int(np.diff(starts, append=y.size)[mixed].sum())
