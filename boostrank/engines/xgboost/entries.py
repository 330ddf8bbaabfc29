"""Binary entries that replace wide sparse data, because XGBoost treats absent values as missing
instead of zero.

A feature with the values v0 < v1 < ... (including zero) splits as `value < v1`, `value < v2`, ...
Each split becomes a column, with entries in the rows that are not on the same side of the split as
zero. XGBoost then splits by "missing or not" and stores entries instead of dense rows. Finally, the
trees are converted back to the original features.
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
from boostrank.engines.trees import write_json
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.engines.xgboost.params import translate

_WIDE, _CELLS = 100, 1 << 24
"""The minimum number of values per nonzero value, and the minimum number of values, in data that
become entries.
"""
_OF_COLUMNS = frozenset(("interaction_constraints", "monotone_constraints"))
"""The parameters that need one column per feature; those that sample features (`colsample_*`)
sample splits.
"""


@dataclass(frozen=True, eq=False)
class Entries:
    """The columns of entries.

    Args:
        plain: int64[p], features with many values, each of which keeps a dense column.
        feature: int64[c], feature of each other column, ascending.
        bound: float32[c], ascending within a feature; the column represents the split `value <
            bound`.
    """

    plain: Int64Array
    feature: Int64Array
    bound: Float32Array

    @classmethod
    def from_rows(cls, features: Any, params: Mapping[str, Any]) -> Entries | None:
        """Return the columns for training rows, or None if dense rows fit or parameters refer to
        single columns.
        """
        translated = translate(params)
        if not is_sparse(features) or is_on_disk(features) or _OF_COLUMNS & translated.keys():
            return None
        rows, cells = features[0 : features.shape[0]], features.shape[0] * features.shape[1]
        if cells < max(_CELLS, _WIDE * rows.nnz):
            return None
        # All distinct values of each feature, including zero, as bounds.
        count = np.bincount(rows.indices, minlength=rows.shape[1])
        zero = np.flatnonzero(count < rows.shape[0])
        column = np.concatenate([rows.indices.astype(np.int64), zero])
        value = np.concatenate([rows.data, np.zeros(zero.size, np.float32)])
        order = np.lexsort((value, column))
        column, value = column[order], value[order]
        same = column[1:] == column[:-1]
        bounds = np.append(False, same & (value[1:] != value[:-1]))
        # Features with missing or too many values, or with more entries than rows, stay dense.
        lost = np.zeros(rows.shape[1], bool)
        lost[column[np.isnan(value)]] = True
        lost |= np.bincount(column[bounds], minlength=rows.shape[1]) >= translated["max_bin"]
        steps = cls(np.zeros(0, np.int64), column[bounds], value[bounds])
        begin, end = steps._spans(rows)
        lost |= np.bincount(rows.indices, end - begin, minlength=rows.shape[1]) > rows.shape[0]
        kept = ~lost[steps.feature]
        return cls(np.flatnonzero(lost), steps.feature[kept], steps.bound[kept])

    def _spans(self, rows: Any) -> tuple[Int64Array, Int64Array]:
        """Return the first column in which each value has an entry, and one past the last."""
        values = np.unique(self.bound)
        key = self.feature * (values.size + 2) + np.searchsorted(values, self.bound) + 1
        first = rows.indices.astype(np.int64) * (values.size + 2)

        def column_of(value: Any) -> Any:
            return np.searchsorted(
                key, first + np.searchsorted(values, value, side="right"), side="right"
            )

        column, zero = column_of(rows.data), column_of(np.float32(0.0))
        return np.minimum(column, zero), np.maximum(column, zero)

    def matrix(self, features: Any) -> Any:
        """Return the entries of some rows, float32 CSR."""
        rows = features[0 : features.shape[0]]
        begin, end = self._spans(rows)
        length = end - begin
        ends = np.append(0, np.cumsum(length))
        at = np.arange(ends[-1]) - np.repeat(ends[:-1] - begin, length)
        shape = rows.shape[0], self.feature.size
        ordinals = sparse.csr_matrix((np.ones(at.size, np.float32), at, ends[rows.indptr]), shape)
        if not self.plain.size:
            return ordinals
        dense = rows[:, self.plain].toarray()
        places = np.tile(np.arange(self.plain.size), len(dense))
        full = sparse.csr_matrix(
            (dense.ravel(), places, np.arange(len(dense) + 1) * self.plain.size), dense.shape
        )
        return sparse.hstack([full, ordinals], format="csr")

    def restored(self, body: bytes, names: Sequence[str]) -> bytes:
        """Convert a model file back to the original features, which have these names."""
        document = json.loads(body)
        for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
            self._restore(tree)
        return XGBOOST.widened(
            write_json(document), [*self.plain.tolist(), *self.feature.tolist()], names
        )

    def _restore(self, tree: dict[str, Any]) -> None:
        """Set the bounds of a tree's splits, and move the values below them to the left."""
        left, right, parents = tree["left_children"], tree["right_children"], tree["parents"]
        nodes = [
            values
            for values in tree.values()
            if isinstance(values, list) and len(values) == len(left)
        ]
        waiting = [0]
        while waiting:
            at = waiting.pop()
            if left[at] < 0:
                continue
            position = tree["split_indices"][at] - self.plain.size
            if position >= 0:
                bound = float(self.bound[position])
                if bool(tree["default_left"][at]) != (
                    bound > 0.0
                ):  # the left side is not the side of zero
                    for values in nodes:
                        values[left[at]], values[right[at]] = values[right[at]], values[left[at]]
                    for side in (left[at], right[at]):
                        for child in (left[side], right[side]) if left[side] >= 0 else ():
                            parents[child] = side
                tree["split_conditions"][at], tree["default_left"][at] = bound, 0
            waiting += [left[at], right[at]]
