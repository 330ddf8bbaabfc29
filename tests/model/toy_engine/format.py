"""Stump format: text, a line a tree.

boostrank toy stumps
features<TAB>price<TAB>clicks
0 1.5 -0.25 0.5          column, threshold, value left of it (<=) and right of it (>, missing)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.engines.trees import ModelFormat, Trees
from boostrank.kernels.forest import Forest

_FIRST = b"boostrank toy stumps\n"


@dataclass
class Stumps:
    """The booster, and what a file says."""

    feature_names: tuple[str, ...]
    trees: list[tuple[int, float, float, float]]

    def scores(self, rows: np.ndarray, rounds: int = 0) -> np.ndarray:
        scores = np.zeros(len(rows))
        for column, threshold, left, right in self.trees[: rounds or None]:
            scores += np.where(rows[:, column] <= threshold, left, right)
        return scores

    @property
    def rounds(self) -> int:
        return len(self.trees)

    def to_bytes(self, rounds: int = 0) -> bytes:
        lines = [" ".join(map(repr, tree)) for tree in self.trees[: rounds or None]]
        return (
            _FIRST + "\n".join(["\t".join(["features", *self.feature_names]), *lines, ""]).encode()
        )


class ToyFormat(ModelFormat):
    name = "toy"
    title = "toy stumps"

    def recognises(self, body: bytes) -> bool:
        return body.startswith(_FIRST)

    def parse(self, body: bytes) -> Stumps:
        try:
            _, names, *lines, last = body.decode().split("\n")
            label, *features = names.split("\t")
            trees = [
                (int(a), float(b), float(c), float(d))
                for a, b, c, d in (line.split(" ") for line in lines)
            ]
        except ValueError:
            raise ModelError("these are no toy stumps: the file is damaged") from None
        if label != "features" or last or any(not 0 <= tree[0] < len(features) for tree in trees):
            raise ModelError("these are no toy stumps: the file is damaged")
        return Stumps(tuple(features), trees)

    def trees(self, model: Stumps, n_features: int) -> Trees:
        count = len(model.trees)
        columns = np.array(model.trees, dtype=np.float64).reshape(-1, 4)
        number = np.arange(count, dtype=np.int32)
        forest = Forest(
            feature=columns[:, 0].astype(np.int32),
            threshold=columns[:, 1].copy(),
            kind=np.zeros(count, np.uint8),
            left=~(2 * number),
            right=~(2 * number + 1),
            value=columns[:, 2:].ravel(),
            roots=number,
            tree=number,
            sets=np.zeros(0, np.uint32),
            set_ptr=np.zeros(1, np.int64),
        )
        return Trees.summarise(
            forest, np.abs(columns[:, 3] - columns[:, 2]), n_features, double=True
        )

    def merge(self, models: Sequence[Stumps], weights: Sequence[float]) -> bytes:
        trees = [
            (column, t, left * share, right * share)
            for model, share in zip(models, weights, strict=True)
            for column, t, left, right in model.trees
        ]
        return Stumps(models[0].feature_names, trees).to_bytes()


TOY = ToyFormat()
