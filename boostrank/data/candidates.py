"""Candidates: the documents that those of a data set were ranked with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.types import Int64Array

Data = Any
"""A `boostrank.data.dataset.RankingDataset`, whose module imports this one."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """All documents of the queries of a data set that has some of them: what a document has beside the others of its
    query is computed of all, in training as where documents are served.

    Args:
        data: of whole queries.
        rows: int64[N], which row of it each document is.
    """

    data: Data
    rows: Int64Array

    @classmethod
    def of(cls, data: Data) -> Candidates:
        """Those of a data set; itself, where it has all documents."""
        return data.candidates or cls(data, np.arange(data.n_documents))

    def take(self, rows: Int64Array) -> Candidates:
        """Of some of the documents."""
        return Candidates(self.data, self.rows[rows])

    def joined(self, other: Candidates) -> Candidates:
        """Of the documents of both, these first."""
        data = self.data.joined(other.data)
        return Candidates(data, np.concatenate([self.rows, self.data.n_documents + other.rows]))
