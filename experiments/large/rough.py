"""Generated data whose truth is rough ("g2"): thresholds, and features that count only together.

Written before any result; no number of the rules was changed after rankers were first compared on
them.

* Lists have 25 to 120 documents, every length alike.
* 136 features: 44 signals, 44 noisy copies of them (noise of half their deviation), 12 of the
  query, the same for all its documents, and 36 that say nothing. A signal is normal; half of them
  share a factor (loading .5), and half have a shift of their own in every query (deviation .7). A
  third is measured as a count, exp(x) rounded down; a third with two decimals.
* The relevance adds up six kinds of terms on signals drawn at random, with thresholds at quantiles
  .2 to .8 and normal weights. Each kind is brought to the share of the variance in brackets: 8
  linear terms (.10); 12 steps (.15); 16 XORs of two thresholds (.25); 8 products of two signals,
  each cut at +-2 (.15); 12 boxes of three thresholds (.20); 10 XORs of a threshold and a feature of
  the query (.15). The kinds are centred, so nothing else holds them together.
* Queries have a richness, .4 of the relevance's deviation; judges a noise of .5. Grades 0 to 4 have
  the shares of MSLR-WEB30K.

The terms are the same for every seed; queries and documents are drawn in blocks of 500 queries,
each from a stream of its own, so that fewer queries are the first of more.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from boostrank import RankingDataset
from boostrank.core.types import Float64Array
from boostrank.data.synthetic import GRADE_SHARES

SIGNALS, OF_QUERY, USELESS = 44, 12, 36
SHORTEST, LONGEST = 25, 120
SHARES = {"linear": 0.10, "step": 0.15, "xor": 0.25, "product": 0.15, "box": 0.20, "gate": 0.15}
NUMBERS = {"linear": 8, "step": 12, "xor": 16, "product": 8, "box": 12, "gate": 10}
TOGETHER = {"linear": 1, "step": 1, "xor": 2, "product": 2, "box": 3, "gate": 1}
RICHNESS, JUDGES = 0.4, 0.5
_BLOCK = 500


def rough(queries: int, seed: int = 0) -> RankingDataset:
    """Draw queries, documents, features and grades.

    Args:
        queries: their number, rounded up to a whole block.
        seed: the same seed gives the same data.
    """
    blocks = [
        _block(np.random.default_rng([seed, block])) for block in range(-(-queries // _BLOCK))
    ]
    sizes, features, seen = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    cuts = np.quantile(blocks[0][2], np.cumsum(GRADE_SHARES)[:-1])
    data = RankingDataset.from_arrays(
        features, np.searchsorted(cuts, seen).astype(np.float64), group=sizes
    )
    return data.take(np.arange(queries))


def _block(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Float64Array]:
    """Lengths, features and what judges see of one block."""
    sizes = rng.integers(SHORTEST, LONGEST + 1, _BLOCK)
    n = int(sizes.sum())
    hidden = rng.normal(size=(n, SIGNALS))
    hidden[:, ::2] = 0.5 * rng.normal(size=(n, 1)) + np.sqrt(0.75) * hidden[:, ::2]
    shifted = np.arange(SIGNALS) % 4 < 2
    hidden[:, shifted] += np.repeat(
        0.7 * rng.normal(size=(_BLOCK, int(shifted.sum()))), sizes, axis=0
    )
    hidden[:, shifted] /= np.sqrt(1.49)
    of_query = np.repeat(rng.normal(size=(_BLOCK, OF_QUERY)), sizes, axis=0)
    richness = np.repeat(rng.normal(size=_BLOCK), sizes)
    features = np.empty((n, 2 * SIGNALS + OF_QUERY + USELESS), dtype=np.float32)
    features[:, :SIGNALS] = _measured(hidden)
    features[:, SIGNALS : 2 * SIGNALS] = _measured(hidden + 0.5 * rng.normal(size=hidden.shape))
    features[:, 2 * SIGNALS : 2 * SIGNALS + OF_QUERY] = of_query
    features[:, 2 * SIGNALS + OF_QUERY :] = rng.normal(size=(n, USELESS))
    seen = _relevance(hidden, of_query) + RICHNESS * richness + JUDGES * rng.normal(size=n)
    return sizes, features, seen


def _measured(x: Float64Array) -> Float64Array:
    """A third as it is, a third as counts, a third with two decimals."""
    x = x.copy()
    x[:, 1::3] = np.floor(np.exp(1.5 + x[:, 1::3]))
    x[:, 2::3] = np.round(x[:, 2::3], 2)
    return x


def _relevance(hidden: Float64Array, of_query: Float64Array) -> Float64Array:
    """Of deviation 1, about."""
    total = np.zeros(hidden.shape[0])
    for kind, value in _kinds(hidden, of_query).items():
        mean, deviation = _moments()[kind]
        total += np.sqrt(SHARES[kind]) * (value - mean) / deviation
    return total


def _kinds(hidden: Float64Array, of_query: Float64Array) -> dict[str, Float64Array]:
    """The sum of the terms of each kind."""
    rng = np.random.default_rng(20_261_125)
    sums = {}
    for kind, number in NUMBERS.items():
        sums[kind] = np.zeros(hidden.shape[0])
        for _ in range(number):
            columns = rng.choice(SIGNALS, TOGETHER[kind], replace=False)
            cuts = _PROBIT[rng.integers(0, _PROBIT.size, 3)]
            gate, weight = rng.integers(OF_QUERY), rng.normal()
            x = [hidden[:, c] for c in columns]
            if kind == "linear":
                term = x[0]
            elif kind == "step":
                term = x[0] > cuts[0]
            elif kind == "xor":
                term = (x[0] > cuts[0]) ^ (x[1] > cuts[1])
            elif kind == "product":
                term = np.clip(x[0], -2, 2) * np.clip(x[1], -2, 2)
            elif kind == "box":
                term = (x[0] > cuts[0]) & (x[1] > cuts[1]) & (x[2] > cuts[2])
            else:
                term = (x[0] > cuts[0]) ^ (of_query[:, gate] > 0)
            sums[kind] += weight * term
    return sums


# Quantiles .2, .3, ... .8 of the normal distribution.
_PROBIT = np.array([-0.8416, -0.5244, -0.2533, 0.0, 0.2533, 0.5244, 0.8416])


@cache
def _moments() -> dict[str, tuple[float, float]]:
    """Mean and deviation of each kind over documents that are in no data set, signals independent."""
    rng = np.random.default_rng(1)
    kinds = _kinds(rng.normal(size=(100_000, SIGNALS)), rng.normal(size=(100_000, OF_QUERY)))
    return {kind: (float(value.mean()), float(value.std())) for kind, value in kinds.items()}
