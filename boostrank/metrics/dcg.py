"""DCG: discounted cumulated gain.

    DCG@k = sum_{r <= k} gain_r / log2(1 + r)

Source: Järvelin and Kekäläinen 2002, with the discount of Burges et al. 2005. Mean over tied
orders: McSherry and Najork 2008, section 3.1. DCG is not normalised, so queries with many relevant
documents have more weight.
"""

from __future__ import annotations

from boostrank.kernels.metric import MetricSpec, cumulated, gains, log_discounts

SPEC = MetricSpec(
    name="dcg",
    kernel=cumulated,
    grades=gains,
    weights=log_discounts,
    aliases=("discounted_cumulated_gain",),
    upper=None,
)
