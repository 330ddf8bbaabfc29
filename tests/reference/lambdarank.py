"""LambdaRank as in LightGBM's rank_objective.hpp, one query pair by pair."""

import numpy as np
from scipy.special import expit

from tests.reference._ranking import descending, discount, ideal_dcg
from tests.reference._swaps import change, grades_of, metric_of


def freeze(query, scores, values):
    """The pairs (better, worse) with their weights, and the factor of the query."""
    metric = values["metric"]
    grades = grades_of(metric, query, values)
    if len(query) < 2 or np.ptp(grades) == 0:
        return [], 1.0
    n, level, blend = len(query), values["truncation_level"], values["train_discount"]
    order = descending(scores)
    # Pairs with one document in the top, weighted by what their swap changes.
    weights = []
    for a in range(min(level, n)):
        for b in range(a + 1, n):
            i, j = order[a], order[b]
            if grades[i] == grades[j]:
                continue
            high, low = (i, j) if grades[i] > grades[j] else (j, i)
            if metric == "ndcg":
                delta = (grades[high] - grades[low]) * (
                    discount(a + 1, blend, n) - discount(b + 1, blend, n)
                )
                delta /= ideal_dcg(query, level, blend)
            else:
                delta = change(metric, grades[order], a, b, level)
            if values["norm_distance"] and np.ptp(scores) > 0:
                delta /= 0.01 + abs(scores[high] - scores[low])
            weights.append((high, low, delta))
    # LightGBM's norm of a query.
    factor = 1.0
    if values["norm_query"]:
        sigmoid = values["sigmoid"]
        total = sum(
            2 * sigmoid * w * expit(-sigmoid * (scores[i] - scores[j])) for i, j, w in weights
        )
        if total > 0:
            factor = np.log1p(total) / np.log(2) / total
    return weights, factor


def holds(values):
    """Norms and weights; what is reported is the metric."""
    return True


def loss(query, scores, values, frozen):
    weights, factor = frozen
    return factor * sum(
        w * np.logaddexp(0, -values["sigmoid"] * (scores[i] - scores[j])) for i, j, w in weights
    )


def gradient(query, scores, values):
    weights, factor = freeze(query, scores, values)
    out = np.zeros(len(query))
    for high, low, w in weights:
        pull = values["sigmoid"] * w * expit(-values["sigmoid"] * (scores[high] - scores[low]))
        out[high] -= pull
        out[low] += pull
    return factor * out


def hessian(query, scores, values):
    weights, factor = freeze(query, scores, values)
    out = np.zeros(len(query))
    for high, low, w in weights:
        rho = expit(-values["sigmoid"] * (scores[high] - scores[low]))
        out[[high, low]] += values["sigmoid"] ** 2 * w * rho * (1 - rho)
    return factor * out


def report(query, scores, values):
    """Minus the metric at the truncation level, which the gradients aim at."""
    metric, level, blend = values["metric"], values["truncation_level"], values["train_discount"]
    grades = grades_of(metric, query, values)
    if len(query) < 2 or np.ptp(grades) == 0:
        return 0.0
    ideal = ideal_dcg(query, level, blend) if metric == "ndcg" else 1.0
    return -metric_of(metric, grades[descending(scores)], level, blend) / ideal


def tolerance(values):
    """`lightgbm_rounding` sums in float32 and reads the sigmoid from a table: the same gradients,
    less exactly.
    """
    return 1e-3 if values.get("lightgbm_rounding") and values["metric"] == "ndcg" else 0.0
