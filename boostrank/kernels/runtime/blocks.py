"""Blocks of queries, the tasks of a pass over all queries."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from boostrank.core.types import Int64Array


def query_blocks(ptr: Int64Array, documents: int) -> list[tuple[int, int]]:
    """Return ranges of queries with about `documents` documents each."""
    marks = np.arange(documents, int(ptr[-1]), documents)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ptr, marks), [ptr.size - 1]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]
