"""Dense rows: features in pieces of float32, as the engines take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from boostrank.data.dataset import Features


def dense_batches(features: Features, batch_bytes: int = 16 << 20) -> list[tuple[int, int]]:
    """Row ranges whose dense float32 form takes about `batch_bytes` each."""
    rows, columns = features.shape
    step = max(1, batch_bytes // max(1, 4 * columns))
    return [(a, min(a + step, rows)) for a in range(0, rows, step)]


def dense_rows(features: Features, start: int, stop: int) -> npt.NDArray[np.float32]:
    """Some rows as a dense float32 array; what a sparse row does not name is zero."""
    part = features[start:stop]
    return np.ascontiguousarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float32)
