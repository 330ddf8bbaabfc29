"""Lists of any length: what no pair loop could do."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.queries import QueryIndex
from boostrank.objective.description import Objective
from boostrank.objectives import OBJECTIVES

SMOOTH = [spec for spec in OBJECTIVES if "sums" in [p.name for p in spec.params]]


@pytest.mark.parametrize("spec", SMOOTH, ids=lambda spec: spec.name)
def test_a_list_of_two_hundred_thousand_documents(spec):
    rng = np.random.default_rng(0)
    n = 200_000
    labels, scores = rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.06, 0.04]), rng.normal(size=n)
    bound = Objective(spec, total_rounds=40, threads=1).bind(labels, QueryIndex.from_sizes([n]))
    result = bound.gradient(scores, 30)
    assert result.grad.any()
    assert np.isfinite(result.grad).all()
    assert (result.hess > 0).all()
