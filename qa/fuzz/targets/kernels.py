"""Objectives in a user's file: an objective that is evaluated, or refused with file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

import boostrank
from qa.fuzz.cases import damaged, may_refuse

HEAD = """import math
import boostrank
from boostrank.kernels.objective import objective_kernel

@objective_kernel(params=({params}))
def kernel(query, params, grad, hess, scratch):
"""
TAIL = """    return value

SPEC = boostrank.define_objective({name}, kernel)
"""
_LINES = [
    "    value = 0.0",
    "    value = 'x'",
    "    value = None",
    "    n = query.scores.size",
    "    value = query.nothing",
    "    value = float(query.scores.sum())",
    "    for i in range(query.scores.size): grad[i] -= query.gains[i]",
    "    hess[:] = 1.0",
    "    hess = 1.0",
    "    grad[:] = 'x'",
    "    grad[0] = math.nan",
    "    value = 1.0 / 0.0",
    "    while value < 3: value += 1",
    "    raise ValueError('no')",
    "    value = params.sigma",
    "    value = [1.0]",
    "    value = {}",
    "    import os",
    "    print(value)",
    "    value = lambda: 1",
    "    return",
    "  value = 1",
    "    yield 1.0",
    "    scratch = query.scores.copy()",
    "    value = undefined",
    "    value += query.labels[0]",
    "    del value",
    "    value = math.log(-1.0)",
    "    value = (1.0, 2.0)",
    "    global x",
    "    grad += grad.reshape(-1, 1)",
]
_PARAMS = st.sampled_from(
    ["", "", "1,", "'sigma',", "boostrank.Param('sigma', 1.0, 'x'),", "None,", "boostrank.Param(),"]
)
_NAMES = st.sampled_from(
    ["'mine'", "'mine'", "'sdcg'", "''", "None", "1", "'a b'", "'a\\nb'", "'mix'", "'x' * 9999"]
)


@st.composite
def _drawn(draw: st.DrawFn) -> dict[str, object]:
    lines = ["    value = 0.0", *draw(st.lists(st.sampled_from(_LINES), max_size=3))]
    text = (
        HEAD.format(params=draw(_PARAMS)) + "\n".join(lines) + "\n" + TAIL.format(name=draw(_NAMES))
    )
    body = text.encode()
    name = draw(st.sampled_from(["own.py", "own.py", "own.py:SPEC", "own.py:"]))
    return {"body": draw(damaged(body)) if draw(st.integers(0, 2)) == 0 else body, "name": name}


cases = _drawn()


def check(body: bytes, name: str) -> None:
    Path("own.py").write_bytes(body)
    with may_refuse():
        objective = boostrank.Objective(boostrank.load_objective(name))
        data = boostrank.RankingDataset.from_arrays(
            np.arange(12.0).reshape(6, 2), [0, 1, 2, 0, 1, 2], group=[3, 3]
        )
        objective.bind(data.labels, data.queries).evaluate(np.zeros(6), 0)
