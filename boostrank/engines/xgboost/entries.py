"""Wide sparse data as entries, though XGBoost takes what a row does not name for missing, and here it is zero.

A feature with the values v0 < v1 < ... (zero among them) splits as `value < v1`, `value < v2`, ... Each split becomes a
column, in which rows on the other side than zero have an entry. "Missing or not" then is one side or the other: XGBoost
finds the splits that it would find in dense rows, in the memory of the entries. Trees are put back afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.types import Float32Array, Int64Array
from boostrank.data.rows import is_on_disk, is_sparse
from boostrank.engines.model_format import write_json
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.engines.xgboost.params import translate

_WIDE, _CELLS = 100, 1 << 24
"""Rows become entries from so many cells a number on, and from so many cells on."""
_OF_COLUMNS = frozenset(
    "colsample_bylevel colsample_bynode colsample_bytree interaction_constraints monotone_constraints".split()  # noqa: SIM905
)


@dataclass(frozen=True, eq=False)
class Entries:
    """Columns of entries.

    Args:
        plain: int64[p], features that keep a column with all numbers, zeros written out: those with many.
        feature: int64[c], ascending, of the other columns.
        bound: float32[c], ascending within a feature; their splits are `value < bound`.
    """

    plain: Int64Array
    feature: Int64Array
    bound: Float32Array

    @classmethod
    def of(cls, features: Any, params: Mapping[str, Any]) -> Entries | None:
        """The columns for training rows; None where dense rows will do, or parameters speak of columns."""
        translated = translate(dict(params))
        if not is_sparse(features) or is_on_disk(features) or _OF_COLUMNS & translated.keys():
            return None
        rows, cells = features[0 : features.shape[0]], features.shape[0] * features.shape[1]
        if cells < max(_CELLS, _WIDE * rows.nnz):
            return None
        count = np.bincount(rows.indices, minlength=rows.shape[1])
        zero = np.flatnonzero(count < rows.shape[0])
        column = np.concatenate([rows.indices.astype(np.int64), zero])
        value = np.concatenate([rows.data, np.zeros(zero.size, np.float32)])
        order = np.lexsort((value, column))
        column, value = column[order], value[order]
        same = column[1:] == column[:-1]
        bounds = np.append(False, same & (value[1:] != value[:-1]))
        lost = np.zeros(rows.shape[1], bool)
        lost[column[np.isnan(value)]] = True
        lost |= np.bincount(column[bounds], minlength=rows.shape[1]) >= translated["max_bin"]
        found = cls(np.zeros(0, np.int64), column[bounds], value[bounds])
        begin, end = found._spans(rows)
        lost |= np.bincount(rows.indices, end - begin, minlength=rows.shape[1]) > rows.shape[0]
        kept = ~lost[found.feature]
        return cls(np.flatnonzero(lost), found.feature[kept], found.bound[kept])

    def _spans(self, rows: Any) -> tuple[Int64Array, Int64Array]:
        """The columns, from one to before another, in which each number of some rows has an entry."""
        values = np.unique(self.bound)
        key = self.feature * (values.size + 2) + np.searchsorted(values, self.bound) + 1
        first = rows.indices.astype(np.int64) * (values.size + 2)
        own, zero = (
            np.searchsorted(key, first + np.searchsorted(values, value, side="right"), side="right")
            for value in (rows.data, np.float32(0.0))
        )
        return np.minimum(own, zero), np.maximum(own, zero)

    def matrix(self, features: Any) -> Any:
        """float32 CSR of some rows."""
        rows = features[0 : features.shape[0]]
        begin, end = self._spans(rows)
        length = end - begin
        ends = np.append(0, np.cumsum(length))
        at = np.arange(ends[-1]) - np.repeat(ends[:-1] - begin, length)
        shape = rows.shape[0], self.feature.size
        found = sparse.csr_matrix((np.ones(at.size, np.float32), at, ends[rows.indptr]), shape)
        if not self.plain.size:
            return found
        dense = rows[:, self.plain].toarray()
        places = np.tile(np.arange(self.plain.size), len(dense))
        full = sparse.csr_matrix((dense.ravel(), places, np.arange(len(dense) + 1) * self.plain.size), dense.shape)
        return sparse.hstack([full, found], format="csr")

    def restored(self, body: bytes, names: Sequence[str]) -> bytes:
        """The model file of entries as one of the features with these names."""
        document = json.loads(body)
        for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
            self._restore(tree)
        return XGBOOST.widened(write_json(document), [*self.plain.tolist(), *self.feature.tolist()], names)

    def _restore(self, tree: dict[str, Any]) -> None:
        """Give the splits of a tree their bounds, and put what is below them to the left."""
        left, right, parents = tree["left_children"], tree["right_children"], tree["parents"]
        nodes = [values for values in tree.values() if isinstance(values, list) and len(values) == len(left)]
        waiting = [0]
        while waiting:
            at = waiting.pop()
            if left[at] < 0:
                continue
            place = tree["split_indices"][at] - self.plain.size
            if place >= 0:
                bound = float(self.bound[place])
                if bool(tree["default_left"][at]) != (bound > 0.0):  # left is not where zero belongs
                    for values in nodes:
                        values[left[at]], values[right[at]] = values[right[at]], values[left[at]]
                    for one in (left[at], right[at]):
                        for child in (left[one], right[one]) if left[one] >= 0 else ():
                            parents[child] = one
                tree["split_conditions"][at], tree["default_left"][at] = bound, 0
            waiting += [left[at], right[at]]
