"""What the twins of binary metrics share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reference._ranking import Query, sigmoid_weights


def relevant(query: Query, values: dict[str, Any]) -> np.ndarray:
    """1 for a relevant document, 0 for another."""
    threshold = values["relevant_from"]
    return (query.labels >= threshold if threshold > 0 else query.labels > 0).astype(float)


def teaches(query: Query, values: dict[str, Any]) -> bool:
    """Whether some documents are relevant and others are not."""
    return 0 < relevant(query, values).sum() < len(query)


def pair_forces(scores: np.ndarray, alpha: float, slopes: np.ndarray) -> np.ndarray:
    """dJ/ds_p = alpha sum_x w_xp (c_x - c_p), Qin, Liu, Li 2010."""
    w = sigmoid_weights(scores, 1 / alpha)
    return alpha * np.array([np.sum(w[:, p] * (slopes - slopes[p])) for p in range(len(scores))])


def pair_curvatures(scores: np.ndarray, alpha: float, slopes: np.ndarray) -> np.ndarray:
    """alpha^2 sum_x w_xp (|c_x| + |c_p|)."""
    w, size = sigmoid_weights(scores, 1 / alpha), np.abs(slopes)
    return alpha**2 * np.array([np.sum(w[:, p] * (size + size[p])) for p in range(len(scores))])
