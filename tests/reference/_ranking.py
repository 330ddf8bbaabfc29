"""What the twins of the objectives share: plain NumPy on one query, written from the papers'
equations.

A twin is a module with

    freeze(query, scores, values)          what the gradient treats as constant (s_m, the order,
    pair weights); or None loss(query, scores, values, frozen)    to be minimised; the gradient is
    its derivative with `frozen` held gradient(query, scores, values) hessian(query, scores, values)
    report(query, scores, values)          optional: the value that the kernel returns, where it is
    not the loss holds(values)                          optional: whether the gradient is not the
    derivative of that value, since it
                                           holds what the value does not, or is the derivative of
                                           nothing

`values` holds the parameters by name, as `Objective.values` gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit


@dataclass(frozen=True)
class Query:
    """One query: labels and gains of its documents."""

    labels: np.ndarray
    gains: np.ndarray

    def __len__(self) -> int:
        return len(self.gains)

    @property
    def teaches(self) -> bool:
        """Whether some order of the documents is better than another."""
        return len(self) > 1 and np.ptp(self.gains) > 0

    def counts(self, values: dict[str, Any]) -> bool:
        """Whether a DCG that is divided as `values["normalize"]` says has a gradient."""
        return (
            self.teaches
            if values["normalize"] == "ideal"
            else len(self) > 1 and bool(np.any(self.gains != 0))
        )


def discount(rank: Any, blend: float, n: int) -> Any:
    """D(r): 1/log2(1+r), linear 1 - (r-1)/n, or a blend."""
    return (1 - blend) / np.log2(1 + rank) + blend * (1 - (rank - 1) / n)


def discount_slope(rank: Any, blend: float, n: int) -> Any:
    """D'(r) = -1 / (ln 2 (1+r) log2(1+r)^2), or -1/n."""
    return -(1 - blend) / (np.log(2) * (1 + rank) * np.log2(1 + rank) ** 2) - blend / n


def divisor(query: Query, k: int, values: dict[str, Any]) -> float:
    """What DCG at k is divided by."""
    return ideal_dcg(query, k, values["train_discount"]) if values["normalize"] == "ideal" else 1.0


def ideal_dcg(query: Query, k: int, blend: float) -> float:
    """Z_k; the whole list for k = 0."""
    best = np.sort(query.gains)[::-1][: k or None]
    return float(np.sum(best * discount(np.arange(1, len(best) + 1), blend, len(query))))


def descending(scores: np.ndarray) -> np.ndarray:
    """Documents by descending score, ties in input order."""
    return np.argsort(-scores, kind="stable")


def differences(scores: np.ndarray) -> np.ndarray:
    """x_ij = s_i - s_j."""
    return scores[:, None] - scores[None, :]


def sigmoid_ranks(scores: np.ndarray, sigma: float) -> np.ndarray:
    """rhat_i = 1 + sum_{j != i} G(s_i - s_j), eq (6)."""
    share = expit(-differences(scores) / sigma)
    np.fill_diagonal(share, 0.0)
    return 1 + share.sum(axis=1)


def sigmoid_weights(scores: np.ndarray, sigma: float) -> np.ndarray:
    """w_ij = G (1 - G), 0 on the diagonal."""
    x = differences(scores) / sigma
    w = expit(-x) * expit(x)
    np.fill_diagonal(w, 0.0)
    return w


def squared_error(
    query: Query, scores: np.ndarray, values: dict[str, Any]
) -> tuple[float, np.ndarray]:
    """R = (1/2n) sum (s - t)^2 and its gradient; its hessian is 1/n."""
    residual = scores - (query.labels if values["target"] == "labels" else query.gains)
    n = max(len(query), 1)
    return float(np.sum(residual**2) / 2 / n), residual / n
