"""Search for the conventions that reproduce a number printed by another program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import AP_DIVISORS, DISCOUNTS, PRESETS, SCORE_TYPES, SINGLE, Conventions
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.gains import MAX_EXPONENTIAL_LABEL
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.kernels.metric import gains, log_discounts, relevance, totals
from boostrank.metric import BoundMetrics, Metric
from boostrank.metrics.err import stop_probabilities
from boostrank.report.conventions import tied_documents

# Limit on relevance thresholds: labels with more distinct values are not grades.
_GRADES = 10


@dataclass(frozen=True)
class Match:
    """A combination of conventions and its distance from the target.

    Args:
        choices: field -> choice, for fields that affect these data.
        difference: value minus target.
        hit: whether the value equals the target to its printed digits.
        libraries: libraries with these conventions, as far as these data can tell.
    """

    metric: str
    conventions: Conventions
    choices: dict[str, Any]
    value: float
    difference: float
    hit: bool
    libraries: tuple[str, ...]


def find_conventions(
    target: str | float,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    queries: QueryIndex,
    metrics: Metric | str | Iterable[Metric | str] = "ndcg@10",
    *,
    base: Conventions | str = "default",
    threads: int | None = None,
) -> list[Match]:
    """Return every combination of conventions that affects these data, nearest to the target first.

    Conventions without effect here (ties without tied scores, the gain of binary labels) stay as in `base`.

    Args:
        target: the number. As text, its digits set the tolerance: 0.7969 matches "0.80".
        metrics: one or several; each cut-off is tried.
        base: values of conventions that are not varied.
        labels, scores, queries, threads: as for `boostrank.metric.evaluate`.

    Raises:
        ParameterError: the target is not a number.
    """
    try:
        number = Decimal(str(target).strip())
    except InvalidOperation:
        number = Decimal("nan")
    exponent = number.as_tuple().exponent
    if isinstance(exponent, str):
        raise ParameterError(f"target {target!r} is not a number")
    slack = 0.5 * 10.0**exponent * (1.0 + 1e-9)  # half a unit of its last digit
    start = Conventions.of(base).without_names
    y = np.asarray(labels, dtype=np.float64)
    matches = []
    for whole in Metric.all_of(metrics):
        for name in whole.names:
            metric = Metric.parse(name)
            choices = _choices(metric, y, scores, queries, start)
            for chosen in product(*choices.values()):
                picked = dict(zip(choices, chosen, strict=True))
                rules = replace(start, **{"empty": start.empty_for(metric.name), "empty_of": ()} | picked)
                try:
                    value = BoundMetrics(metric, y, queries, rules, threads).values(scores)[name]
                except DataError:  # no query counts
                    continue
                off, libraries = value - float(number), _libraries(picked, choices, metric.name)
                matches.append(Match(name, rules, picked, value, off, abs(off) <= slack, libraries))
    return sorted(matches, key=lambda m: (round(abs(m.difference), 12), not m.libraries))


def _choices(
    metric: Metric, labels: Float64Array, scores: npt.ArrayLike, queries: QueryIndex, base: Conventions
) -> dict[str, tuple[Any, ...]]:
    """Return the choices that affect values of queries, or which queries count."""
    spec, grades = metric.spec, np.unique(labels)
    cutoff = metric.cutoffs[0] if metric.cutoffs else 0
    values: dict[str, tuple[Any, ...]] = {}
    if spec.grades in (gains, stop_probabilities) and not np.isin(grades, (0.0, 1.0)).all():
        known = ("exponential", "linear") if grades[-1] <= MAX_EXPONENTIAL_LABEL else ("linear",)
        values["gain"] = tuple(dict.fromkeys((*known, base.gain)))
    if spec.weights is log_discounts:
        values["discount"] = DISCOUNTS
    if spec.grades is relevance and 2 < grades.size <= _GRADES:
        values["relevant_from"] = tuple(float(grade) for grade in grades if grade > 0)
    if metric.name == "map" and cutoff:
        values["ap_divisor"] = AP_DIVISORS
    if cutoff and bool((queries.sizes < cutoff).any()):
        short = {"ndcg": ("pad", "letor"), "precision": ("pad", "clip")}.get(metric.name)
        values |= {"short_lists": short} if short else {}
    tied = {kind: tied_documents(labels, scores, queries, score_type=kind) for kind in SCORE_TYPES}
    if tied["float32"]:
        values["ties"] = ("expected", "input", "pessimistic", "optimistic")
    if tied["float32"] != tied["float64"]:
        values["score_type"] = SCORE_TYPES
    relevant = totals((labels > 0).astype(np.float64), queries.ptr)
    if "relevant_from" in values or not relevant.all():
        values["empty"] = ("exclude", "one", "zero") if spec.ratio else ("exclude", "zero")
    if bool((queries.sizes == 1).any()):
        values["single"] = SINGLE
    return values


def _libraries(picked: dict[str, Any], choices: dict[str, tuple[Any, ...]], metric: str) -> tuple[str, ...]:
    """Return the libraries whose conventions agree with all choices."""

    def of(rules: Conventions, field: str) -> Any:
        own, offered = getattr(rules, field), choices[field]
        if field == "empty":
            own = rules.empty_for(metric)
            return own if own in offered else "zero"  # metrics that are not ratios are 0 without a relevant document
        if field == "short_lists":
            return own if own in offered else "pad"  # the others concern other metrics
        if field == "relevant_from":  # the smallest label that is relevant
            return min((grade for grade in offered if own is None or grade >= own), default=None)
        return own

    return tuple(
        name for name, rules in PRESETS.items() if all(of(rules, field) == choice for field, choice in picked.items())
    )
