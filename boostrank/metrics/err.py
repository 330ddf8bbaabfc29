"""ERR: expected reciprocal rank at which a user, reading downwards, is satisfied.

    ERR@k = sum_{r <= k} (1/r) p_r prod_{i < r} (1 - p_i),     p = gain(label) / (gain(max_grade) +
    1)

Source: Chapelle, Metzler, Zhang, Grinspan 2009, eq (4). With exponential gain p = (2^label - 1) /
    2^max_grade.

Mean over tied orders: after j of n tied documents with q_i = 1 - p_i, the user is still unsatisfied
with mean probability E_j = e_j(q) / C(n, j), where e_j is the elementary symmetric polynomial, as
the j documents read are a random subset. So position j adds (E_{j-1} - E_j) / r. A recurrence of
weighted means keeps the E_j in [0, 1].
Cost: n min(n, k) operations for a run of n tied documents.
"""

from __future__ import annotations

import math

import numpy as np

from boostrank.core.conventions import Conventions, gains_from_labels
from boostrank.core.errors import ParameterError, RowError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric import MetricSpec, gains, metric_kernel, reciprocal_ranks

_NEGLIGIBLE = -40.0  # log of a probability that is lost in the rounding of the sum


@metric_kernel
def kernel(
    grades: Float64Array, ends: Int64Array, worth: Float64Array, scratch: Float64Array
) -> None:
    """Write the probability that the user stops at each rank to `worth`, float64[depth].

    The value is the mean over the orders of tied documents; see `kernels.metric`.
    """
    reading, pos = 1.0, 0
    while pos < grades.shape[0]:
        end = ends[pos]
        n = end - pos
        passed = scratch[: n + 1]
        chance = 0.0
        for i in range(pos, end):
            chance += grades[i] / n
        # E_j <= E_1^j (Maclaurin's inequality): positions beyond this depth are negligible.
        depth = min(n, worth.shape[0] - pos)
        if chance <= 0.0:
            depth = 0
        elif chance < 1.0:
            depth = int(min(float(depth), math.ceil(_NEGLIGIBLE / math.log1p(-chance))))
        passed[0] = 1.0 if depth > 0 else 0.0
        for j in range(1, n + 1):
            passed[j] = 0.0
        everyone = reading
        for i in range(n):
            q = 1.0 - grades[pos + i]
            everyone *= q
            for j in range(min(i + 1, depth), 0, -1):
                share = j / (i + 1.0)
                passed[j] = (1.0 - share) * passed[j] + share * q * passed[j - 1]
        for i in range(pos, min(end, worth.shape[0])):
            j = i - pos + 1
            worth[i] = reading * (passed[j - 1] - passed[j])
        reading = everyone
        pos = end


def stop_probabilities(labels: Float64Array, conventions: Conventions) -> Float64Array:
    """Return the probability that each document satisfies the user.

    Raises:
        RowError: a gain above gain(max_grade) + 1, whose probability would exceed 1.
        ParameterError: `max_grade` has no gain.
    """
    gain = gains(labels, conventions)
    top = conventions.max_grade
    if top is None:
        top = float(labels.max(initial=0.0))
    try:
        top_gain = gains_from_labels([top], conventions.gain)[0]
    except RowError as error:  # of no row of the data
        raise ParameterError(f"err: max_grade={top:g}: {error.reason}") from None
    chance = gain / (top_gain + 1.0)
    if float(chance.max(initial=0.0)) > 1.0:
        row = int(np.argmax(chance))
        raise RowError(
            row, f"err: label {labels[row]:g} has a stop probability above 1; max_grade={top:g}"
        )
    return chance


SPEC = MetricSpec(
    name="err",
    kernel=kernel,
    grades=stop_probabilities,
    weights=reciprocal_ranks,
    aliases=("expected_reciprocal_rank",),
)
