"""The curvature experiment reads the shipped kernels' scratch memory: it notices when that is laid
out otherwise.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

import boostrank
from experiments.curvature import layout, run
from experiments.curvature.families import SPECS, tanh_over

plain = pytest.mark.skipif(
    not numba.config.DISABLE_JIT, reason="run in plain Python by the test that starts it"
)


def test_kernels_write_the_constants_that_curvatures_are_computed_from():
    layout.check_layout()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="this is that process")
def test_curvatures_hold_in_plain_python():
    """In a process without the compiler, which takes 12 seconds for these kernels."""
    words = ["-m", "pytest", "-n", "0", "-p", "no:cacheprovider", __file__]
    words += ["-v", "-k", "package or gradient"]
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    assert f"{1 + len(SPECS)} passed" in done.stdout


@plain
def test_what_is_called_shipped_is_what_the_package_ships():
    run.check_shipped()


@plain
@pytest.mark.parametrize("name", SPECS)
def test_each_curvature_is_another_under_the_same_gradient(name):
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 4, 60), rng.normal(size=60)
    queries = boostrank.QueryIndex.from_sizes([40, 20])
    curvatures = run.curvatures_of(name)
    results = [
        boostrank.Objective(SPECS[name], threads=1, curvature=curvature)
        .bind(labels, queries)
        .evaluate(scores, 0)
        for curvature in curvatures
    ]
    for i, result in enumerate(results):
        assert np.array_equal(result.grad, results[0].grad)
        assert not any(np.allclose(result.hess, other.hess, rtol=1e-3) for other in results[:i])
    assert np.ptp(results[curvatures.index("constant")].hess) == 0.0


@pytest.mark.parametrize("name", layout.ROWS)
@pytest.mark.parametrize("row", [0, 1, -1])
def test_a_row_that_lies_elsewhere_is_noticed(name, row, monkeypatch):
    left = layout.left_in_scratch

    def moved(who, *arguments):
        rows = left(who, *arguments)
        if who == name:
            at = row % len(layout.ROWS[name])
            rows[[at, at + 1]] = rows[[at + 1, at]]
        return rows

    monkeypatch.setattr(layout, "left_in_scratch", moved)
    with pytest.raises(SystemExit, match=f"{name} keeps its"):
        layout.check_layout()


@pytest.mark.parametrize("u", [0.0, 1e-12, 1e-3, 0.0499999, 0.05, 0.0500001, 1.0, 40.0, 1e5])
def test_curvature_bound_is_smooth_through_zero(u):
    exact = 0.25 if u == 0 else math.tanh(u / 2) / (2 * u)
    assert tanh_over(u, math.tanh(u / 2)) == pytest.approx(exact, rel=1e-12)
