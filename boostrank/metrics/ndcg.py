"""NDCG: DCG divided by the largest possible DCG of the query's documents.

    NDCG@k = DCG@k / ideal DCG@k,     DCG@k = sum_{r <= k} gain_r / log2(1 + r)

Source: Järvelin and Kekäläinen 2002, with the discount of Burges et al. 2005. Mean over tied
orders: McSherry and Najork 2008, section 3.1.
"""

from __future__ import annotations

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric import (
    INPUT,
    WHOLE_LIST,
    MetricPass,
    MetricSpec,
    cumulated,
    gains,
    log_discounts,
    measure,
)


def ideal(
    grades: Float64Array, ptr: Int64Array, cutoffs: Int64Array, conventions: Conventions
) -> Float64Array:
    """Return the DCG of each query's documents when they are ranked by gain, float64[Q, p]."""
    sizes = np.diff(ptr)
    by_gain = MetricPass(
        cumulated, grades, log_discounts(int(sizes.max(initial=0)), conventions), cutoffs
    )
    ideal_dcg = measure([by_gain], grades, grades, ptr, ties=INPUT)[0]
    if conventions.short_lists == "letor":
        ideal_dcg[(sizes[:, None] < cutoffs) & (cutoffs != WHOLE_LIST)] = np.inf
    return ideal_dcg


SPEC = MetricSpec(
    name="ndcg",
    kernel=cumulated,
    grades=gains,
    weights=log_discounts,
    divisors=ideal,
    ratio=True,
    aliases=("lambdarank", "rank_xendcg", "xendcg", "xendcg_mart"),  # LightGBM's
)
