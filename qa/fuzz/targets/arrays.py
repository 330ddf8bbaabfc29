"""Arrays, sparse matrices and data frames of every kind, sound or not: data that train, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hypothesis import strategies as st

import boostrank
from qa.fuzz.cases import PromiseBroken, may_refuse

ROWS = 12
_DTYPES = [
    "f8",
    "f4",
    "f2",
    "i8",
    "u8",
    "i1",
    "?",
    "O",
    "U3",
    "S3",
    "c16",
    "M8[s]",
    "m8[s]",
    ">f8",
    "f4,i4",
]
_NUMBERS = st.sampled_from(
    [0, 1, 2, -1, 0.5, 1e39, 1e-320, "nan", "inf", "-inf", 2**24 + 1, 2**63, "x", "", None]
)
_ARRAY = st.fixed_dictionaries(
    {
        "shape": st.sampled_from(
            [(ROWS,), (ROWS,), (ROWS, 1), (1, ROWS), (ROWS - 1,), (0,), (), (ROWS, 2)]
        ),
        "dtype": st.sampled_from(["f8", "f8", "f8", "i8", *_DTYPES]),
        "edits": st.lists(st.tuples(st.integers(0, ROWS - 1), _NUMBERS), max_size=2),
        "kind": st.sampled_from(
            ["array", "array", "list", "masked", "series", "readonly", "strided"]
        ),
    }
)
_MATRIX = st.fixed_dictionaries(
    {
        "shape": st.sampled_from(
            [(ROWS, 3), (ROWS, 3), (ROWS, 1), (ROWS, 0), (0, 3), (ROWS,), (2, 2, 3), (ROWS - 1, 3)]
        ),
        "dtype": st.sampled_from(["f8", "f8", "f4", *_DTYPES]),
        "edits": st.lists(st.tuples(st.integers(0, 3 * ROWS), _NUMBERS), max_size=2),
        "kind": st.sampled_from(
            [
                "array",
                "array",
                "list",
                "masked",
                "matrix",
                "fortran",
                "frame",
                "csr",
                "csr",
                "csc",
                "coo",
                "bsr",
                "csr_array",
            ]
        ),
        "damage": st.lists(
            st.tuples(
                st.sampled_from(["indptr", "indices", "data"]),
                st.integers(0, 40),
                st.sampled_from([-1, 0, 1, 2, 3, 5, 1000, 2**31 - 1, -(2**31)]),
            ),
            max_size=2,
        ),
    }
)

cases = st.fixed_dictionaries(
    {
        "X": _MATRIX,
        "y": st.one_of(st.none(), _ARRAY),
        "qid": st.one_of(st.none(), st.none(), _ARRAY),
        "group": st.one_of(
            st.none(),
            st.sampled_from(
                [[6, 6], [12], [5, 6], [], [-6, 18], [0, 12], [2**63, 1], ["6", 6], [6.5, 5.5]]
            ),
        ),
        "weight": st.one_of(st.none(), st.none(), _ARRAY),
        "k": st.one_of(st.none(), st.none(), _ARRAY),
        "sort": st.booleans(),
        "copy": st.booleans(),
    }
)


def check(X: Any, y: Any, qid: Any, group: Any, weight: Any, k: Any, **options: Any) -> None:
    with np.errstate(all="ignore"):
        try:
            table = _built(**X, count=None)
            arrays = {
                n: _built(**a, damage=[], count=3)
                for n, a in (("qid", qid), ("weight", weight), ("k", k))
                if a
            }
            labels = _built(**y, damage=[], count=3) if y else np.arange(ROWS) % 3
        except (
            ValueError,
            TypeError,
            OverflowError,
            IndexError,
            NotImplementedError,
        ):  # numpy cannot make it
            return
    if group is not None:
        arrays["group"] = group
    elif qid is None:
        arrays["group"] = [6, 6]
    with may_refuse():
        data = boostrank.RankingDataset.from_arrays(table, labels, **arrays, **options)
        if data.n_documents != len(data.labels) or int(data.queries.ptr[-1]) != data.n_documents:
            raise PromiseBroken("documents, labels and queries of different lengths")
        if not np.isfinite(data.labels).all():
            raise PromiseBroken("labels that are no numbers")
        params = {
            "objective": "sdcg",
            "num_leaves": 3,
            "verbosity": -1,
            "num_threads": 1,
            "min_data_in_leaf": 1,
        }
        boostrank.train(params, data, num_boost_round=1).predict(data, threads=1)


def _built(
    shape: tuple[int, ...],
    dtype: str,
    edits: list[tuple[int, Any]],
    kind: str,
    damage: list[Any],
    count: int | None,
) -> Any:
    numbers = np.arange(int(np.prod(shape)))
    values = (numbers // 4 if count else numbers % 7).astype(object).reshape(-1)
    for at, value in edits:
        if len(values):
            values[at % len(values)] = (
                float(value) if value in ("nan", "inf", "-inf") and dtype != "O" else value
            )
    array = np.array(values.tolist(), "O").astype(dtype).reshape(shape)
    match kind:
        case "list":
            return array.tolist()
        case "masked":
            return np.ma.masked_array(array, np.arange(array.size).reshape(shape) % 5 == 1)
        case "series":
            return pd.Series(array)
        case "frame":
            return pd.DataFrame(array)
        case "matrix":
            return np.matrix(array)
        case "fortran":
            return np.asfortranarray(array)
        case "readonly":
            array.setflags(write=False)
            return array
        case "strided":
            return np.repeat(array, 2, axis=0)[::2]
        case "csr" | "csc" | "coo" | "bsr" | "csr_array":
            constructor = kind if "_" in kind else f"{kind}_matrix"
            sparse = getattr(sp, constructor)(array)
            for name, at, value in damage:
                part = getattr(sparse, name, None)
                if part is not None and part.ndim == 1 and len(part):
                    part[at % len(part)] = value
            return sparse
    return array
