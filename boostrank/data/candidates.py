"""Candidates: all documents of the queries of a sampled data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.types import Int64Array

Data = Any
"""A `boostrank.data.dataset.RankingDataset`; its module imports this one."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """All documents of the queries of a data set that contains only some of them.

    Columns within queries are computed over all candidates, in training as in serving.

    Args:
        rows: int64[N], row in `data` of each document.
    """

    data: Data
    rows: Int64Array

    @classmethod
    def of(cls, data: Data) -> Candidates:
        """Return the candidates of a data set, which is complete by default."""
        return data.candidates or cls(data, np.arange(data.n_documents))

    def take(self, rows: Int64Array) -> Candidates:
        """Return the candidates of some of the documents."""
        return Candidates(self.data, self.rows[rows])

    def joined(self, other: Candidates) -> Candidates:
        """Concatenate the candidates of two data sets."""
        data = self.data.joined(other.data)
        return Candidates(data, np.concatenate([self.rows, self.data.n_documents + other.rows]))
