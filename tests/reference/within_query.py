"""Columns within queries, a document and a column at a time."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np

LARGEST = float(np.finfo(np.float32).max)


def within_query(kind: str, features: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """float32[N, d]."""
    out = np.full(features.shape, np.nan, np.float32)
    for start, stop in pairwise(ptr):
        for column in range(features.shape[1]):
            values = features[start:stop, column].astype(np.float64)
            for i, x in enumerate(values):
                if not np.isnan(x):
                    out[start + i, column] = _relate(kind, x, values[~np.isnan(values)])
    return out


def _relate(kind: str, x: float, values: np.ndarray) -> float:
    if kind == "rank":
        if values.size == 1:
            return 0.5
        first, last = np.sum(values < x), np.sum(values <= x) - 1
        return (first + last) / 2 / (values.size - 1)
    finite = values[np.isfinite(values)]
    if not np.isfinite(x):
        return x
    if kind == "opensearch_zscore":
        return z_score(np.float32(x), finite.astype(np.float32))
    if kind == "zscore":
        deviation = np.sqrt(np.mean((finite - finite.mean()) ** 2))
        relative = 0.0 if finite.min() == finite.max() else (x - finite.mean()) / deviation
    elif kind == "minmax":
        low, high = finite.min(), finite.max()
        relative = 1.0 if low == high else (x - low) / (high - low)
    else:
        relative = x - (finite.max() if kind == "best" else finite.mean())
    return float(np.clip(relative, -LARGEST, LARGEST))


def z_score(score: np.float32, scores: np.ndarray) -> float:
    """`normalizeSingleScore` of OpenSearch's ZScoreNormalizationTechnique (neural-search 3.0 and
    later), with the mean and the bias-corrected deviation of DescriptiveStatistics as floats.
    """
    values = scores.astype(np.float64).tolist()
    # From left to right: Python's `sum` corrects its rounding since 3.12.
    average, total = reduce(add, values) / len(values), 0.0
    mean = np.float32(average)
    for value in values:
        total += (value - average) ** 2
    deviation = np.float32(0.0 if len(values) == 1 else (total / (len(values) - 1)) ** 0.5)
    if mean == score:
        return float(scores.max())
    if deviation == 0.0:
        return float(scores.min())
    with np.errstate(over="ignore"):
        normalized = (score - mean) / deviation
    return 0.001 if normalized <= 0.0 else min(float(normalized), LARGEST)
