"""Rows with queries, small, for every test of the scikit-learn side."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

FAST = {"n_estimators": 4, "num_leaves": 5, "learning_rate": 0.3, "n_jobs": 1, "verbosity": -1}


@dataclasses.dataclass
class Rows:
    """Features, labels, and the query of each row; the rows of a query follow each other, the ids
    are in no order.
    """

    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]
    qid: npt.NDArray[np.int64]

    def __getitem__(self, rows: object) -> Rows:
        return Rows(self.X[rows], self.y[rows], self.qid[rows])

    @property
    def sizes(self) -> list[int]:
        """Rows of each query."""
        return np.diff([0, *np.flatnonzero(np.diff(self.qid)) + 1, self.qid.size]).tolist()


LIBRARIES = ["polars", "pyarrow"]


def as_table(frame: Any, library: str) -> Any:
    """A frame of pandas as one of another library."""
    module = pytest.importorskip(library, reason=f"tables of {library}")
    return module.from_pandas(frame) if library == "polars" else module.Table.from_pandas(frame)


def made_rows(seed: int, queries: int = 24) -> Rows:
    rng = np.random.default_rng(seed)
    qid = np.repeat(rng.permutation(queries) + 100, rng.integers(4, 14, queries))
    X = rng.normal(size=(qid.size, 4))
    return Rows(
        X,
        np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=qid.size), [0.0, 1.5]),
        qid,
    )


@pytest.fixture(scope="session")
def rows() -> Rows:
    return made_rows(0)


@pytest.fixture(scope="session")
def more() -> Rows:
    return made_rows(1)
