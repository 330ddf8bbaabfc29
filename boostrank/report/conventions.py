"""Effect of metric conventions: one set of scores, measured as several libraries do.

Libraries differ in the details that a metric's definition leaves open (`core.conventions`). The path from one value to
another changes one convention at a time, in the order of `STEPS`. The steps add up to the whole difference exactly.

    for one in explain_conventions(labels, scores, queries, "ndcg@10"):
        print(one.metric, one.value, [(r.name, r.value, r.changes) for r in one.readings])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import InputError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.metric import BoundMetrics, Metric, Names

LIBRARIES = ("lightgbm", "xgboost", "catboost", "sklearn", "trec", "letor")
"""Libraries to compare by default."""


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
"""Step -> fields of `Conventions` that change together: first values of queries, then which queries count."""

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
    """Return the choice in a step, to be read after "is"."""
    if step == "gain":
        if not isinstance(c.gain, str):
            return "the gain table " + ",".join(f"{g:g}" for g in c.gain)
        return f"{c.gain} gain, {'2^label - 1' if c.gain == 'exponential' else 'the label itself'}"
    if step == "relevance":
        least = c.relevant_from
        return "every label above 0 relevant" if least is None else f"relevance from label {least:g} on"
    if step == "grades":
        return "the data's largest grade as the best" if c.max_grade is None else f"best grade {c.max_grade:g}"
    if step == "single":
        return "queries of one document " + ("counted" if c.single == "count" else "left out")
    if step == "empty":
        counted = {"exclude": "left out", "one": "counted as 1", "zero": "counted as 0"}[c.empty_for(metric)]
        return f"queries without a relevant document {counted}"
    rounded = " after the scores are rounded to float32" * (step == "ties" and c.score_type == "float32")
    return _WORDS[getattr(c, STEPS[step][0])] + rounded


@dataclass(frozen=True)
class ConventionEffect:
    """Effect of one convention.

    Args:
        change: difference made by this step.
    """

    convention: str
    choice: str
    value: float
    change: float


@dataclass(frozen=True)
class Reading:
    """The metric as one library computes it.

    Args:
        value: metric value; None if undefined.
        changes: steps from the base value to this one, for conventions that differ.
        note: caveats, or why there is no value.
    """

    name: str
    conventions: Conventions
    value: float | None
    changes: tuple[ConventionEffect, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class TieReport:
    """Effect of tied scores.

    Args:
        tied: documents that share a score with a document of another label in their query.
        expected, file_order, worst, best: metric with tied documents in these orders.
    """

    documents: int
    tied: int
    expected: float
    file_order: float
    worst: float
    best: float

    @classmethod
    def of(cls, documents: int, tied: int, rules: Conventions, values: Callable[[Conventions], float]) -> TieReport:
        """Return the report, given the metric as a function of conventions."""
        orders = ("expected", "input", "pessimistic", "optimistic")
        return cls(documents, tied, *(values(replace(rules, ties=order)) for order in orders))

    @property
    def mass(self) -> float:
        """Share of tied documents."""
        return self.tied / self.documents if self.documents else 0.0

    @property
    def worth(self) -> float:
        """Largest effect of the order of tied documents: best minus worst."""
        return self.best - self.worst


@dataclass(frozen=True)
class Explanation:
    """A metric under the conventions of several libraries.

    Args:
        readings: metric under the others.
        ties: effect of ties under `base`.
        empty: queries without a relevant document.
        short: queries with fewer documents than the cut-off.
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
    """Explain how the value of a metric differs between libraries.

    Args:
        labels, scores, queries, metrics, threads: as for `boostrank.metric.evaluate`.
        names: names in `core.conventions.PRESETS`.
        base: reference conventions.
        docnos: document names, by which trec_eval orders ties. Without them its value is the mean over the orders of
            tied documents, with a note.

    Returns:
        One explanation per metric and cut-off.

    Raises:
        InputError: unknown names, or data that `base` does not support. Other libraries' limits are in their notes.
    """
    start = Conventions.named(base)
    rules = {name: Conventions.named(name) for name in dict.fromkeys(names)}
    tied = tied_documents(labels, scores, queries, score_type=start.score_type)
    out = []
    for one in Metric.all_of(metrics):
        bound = partial(BoundMetrics, one, labels, queries, threads=threads, docnos=docnos)
        values = _Values(one, scores, queries, docnos, bound)
        begin = values.computable(start)
        at_start, where_relevant = values.of(begin), values.where_relevant(begin)
        for name in values.metric.names:
            readings = tuple(_reading(library, name, begin, end, values) for library, end in rules.items())
            ties = TieReport.of(queries.n_documents, tied, begin, partial(values.one, name))
            cut = int(name.partition("@")[2] or 0)
            counts = len(queries), int(np.isnan(where_relevant[name]).sum())
            lengths = int((queries.sizes == 1).sum()), int((queries.sizes < cut).sum())
            out.append(Explanation(name, base, at_start[name], readings, ties, *counts, *lengths))
    return out


def _reading(name: str, metric: str, start: Conventions, end: Conventions, values: _Values) -> Reading:
    goal = values.computable(end)
    try:
        changes, here, value = [], start, values.of(start)[metric]
        for step, fields in STEPS.items():
            before = here
            here = replace(here, **{field: getattr(goal, field) for field in fields})
            if here == before:
                continue
            after = values.of(here)[metric]
            changes.append(ConventionEffect(step, _words(step, goal, metric.split("@")[0]), after, after - value))
            value = after
        notes = (values.note_on_names(end, metric), values.note_on_weights(metric) if name == "lightgbm" else "")
        return Reading(name, end, value, tuple(changes), "; ".join(filter(None, notes)))
    except InputError as error:
        return Reading(name, end, None, note=str(error))


@dataclass(eq=False)
class _Values:
    """A metric of one set of scores, cached by conventions."""

    metric: Metric
    scores: npt.ArrayLike
    queries: QueryIndex
    docnos: Names | None
    bound: Callable[..., BoundMetrics]
    known: dict[Conventions, dict[str, float]] = field(default_factory=dict)

    def of(self, rules: Conventions) -> dict[str, float]:
        """Return the mean at every cut-off."""
        if rules not in self.known:
            self.known[rules] = self.bound(rules).values(self.scores)
        return self.known[rules]

    def one(self, metric: str, rules: Conventions) -> float:
        """Return the mean at one cut-off."""
        return self.of(rules)[metric]

    def where_relevant(self, rules: Conventions) -> dict[str, Float64Array]:
        """Return the values of queries at each cut-off; NaN without a relevant document."""
        rules = replace(rules, empty="exclude", empty_of=(), single="count")
        return self.bound(rules, partial=True).per_query(self.scores)

    def computable(self, rules: Conventions) -> Conventions:
        """Return computable conventions: without document names, ties by name become the mean over tied orders."""
        return rules.without_names if self.docnos is None else rules

    def note_on_names(self, rules: Conventions, metric: str) -> str:
        """Return the possible range of a value if ties are ordered by unknown names."""
        if rules.ties != "docno" or self.docnos is not None:
            return ""
        worst, best = (self.of(replace(rules, ties=word))[metric] for word in ("pessimistic", "optimistic"))
        if worst == best:
            return ""
        return (
            "it orders tied documents by name, and the data have no names: the value is the mean over their orders; "
            f"with names it could be from {worst:.4f} to {best:.4f}"
        )

    def note_on_weights(self, metric: str) -> str:
        """Return a note on LightGBM's weighting, which is not a convention."""
        weights = self.queries.weights
        if weights is None or self.metric.name != "ndcg":
            return ""
        values = self.where_relevant(Conventions.named("lightgbm"))[metric]
        empty = np.isnan(values)
        if bool(np.all(weights[empty] == 1.0)):
            return ""
        own = (float(weights[~empty] @ values[~empty]) + int(empty.sum())) / float(weights.sum())
        return (
            f"LightGBM counts each query without a relevant document as 1 instead of its weight, and reports {own:.4f}"
        )


def tied_documents(
    labels: npt.ArrayLike, scores: npt.ArrayLike, queries: QueryIndex, *, score_type: str = "float64"
) -> int:
    """Count documents that share a score with a document of another label in their query.

    Args:
        labels, scores: float[N], finite.
        score_type: "float64", or "float32" to compare rounded scores.
    """
    y = np.asarray(labels, dtype=np.float64)
    with np.errstate(over="ignore"):
        s = np.asarray(scores).astype(np.float32 if score_type == "float32" else np.float64)
    if not y.size:
        return 0
    owner = queries.of_rows()
    order = np.lexsort((y, s, owner))
    y, s, owner = y[order], s[order], owner[order]
    first = np.concatenate([[True], (owner[1:] != owner[:-1]) | (s[1:] != s[:-1])])
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], y.size)
    mixed = y[starts] != y[ends - 1]  # sorted by label within a run
    return int((ends - starts)[mixed].sum())
