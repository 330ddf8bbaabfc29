"""Parts of a data set: whole queries of it, whose features stay where they are until somebody asks for rows.

Several trainings on parts of one data set then need no copies of it, and engines need not bin it again for each.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset


class Whole:
    """A data set in memory that trainings take parts of.

    Args:
        data: all of it.
    """

    def __init__(self, data: RankingDataset) -> None:
        self.data = data
        self.bins: Any = None
        """What an engine has made of it by the parameters of the first training; the parts share it."""
        self.wider: Whole | None = None
        """The same with columns within queries, those that were asked for last."""

    def part(self, queries: npt.ArrayLike) -> RankingDataset:
        """Some whole queries, in the order asked for; as `RankingDataset.take`, but that features are `PartRows`."""
        index, rows = self.data.queries.take(queries)
        candidates = self.data.candidates and self.data.candidates.take(rows)
        return replace(
            self.data, features=PartRows(self, rows), labels=self.data.labels[rows], queries=index, comments=None,
            input_rows=None, candidates=candidates,
        )  # fmt: skip


class PartRows:
    """float32[n, d], some rows of a data set: `features[a:b]` copies them, dense or CSR.

    Args:
        whole: the data set.
        rows: int64[n], which.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, whole: Whole, rows: Int64Array) -> None:
        self.whole, self.rows = whole, rows
        self.shape = (rows.size, whole.data.n_features)
        self.is_sparse = whole.data.is_sparse

    def __getitem__(self, rows: Any) -> Any:
        return self.whole.data.features[self.rows[rows]]

    def fingerprint(self, labels: Float64Array, ptr: Int64Array) -> str:
        """Hash of the data set and of which rows these are."""
        digest = hashlib.blake2b(self.whole.data.fingerprint.encode(), digest_size=16)
        digest.update(self.rows.tobytes())
        digest.update(ptr.tobytes())
        return digest.hexdigest()
