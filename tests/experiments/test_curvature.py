"""The curvature experiment reads the shipped kernels' scratch memory: it notices when that is laid out otherwise."""

from __future__ import annotations

import math

import pytest

from experiments.curvature import layout, run
from experiments.curvature.families import tanh_over


def test_kernels_leave_what_the_curvatures_are_made_of():
    layout.check_layout()


def test_what_is_called_shipped_is_what_the_package_ships():
    run.check_shipped()


@pytest.mark.parametrize("name", layout.ROWS)
@pytest.mark.parametrize("row", [0, 1, -1])
def test_a_row_that_lies_elsewhere_is_noticed(name, row, monkeypatch):
    left = layout.left_in_scratch

    def moved(who, *given):
        rows = left(who, *given)
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
