"""LightGBM's models: scores, leaves, contributions and files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt

from boostrank.data.arrays import Features
from boostrank.data.categories import Categories
from boostrank.data.rows import Rows, dense_batches, dense_rows
from boostrank.engines.base import CONTRIBUTIONS, LEAVES, Booster, Wanted
from boostrank.engines.lightgbm.model_text import for_doubles, listed_categories, read_leaves, start_trees
from boostrank.engines.params import engine_threads

_NUM_THREADS = re.compile(r"\n\[num_threads: \d+\]")


@dataclass(eq=False)
class LightGBMBooster(Booster):
    """Model with a `lightgbm.Booster` as `native`.

    Args:
        known_start: number of trees of its linear start, if known.
        kept: whether it keeps its training data, so that thresholds change in its file only.
    """

    engine = "lightgbm"
    known_start: int | None = None
    kept: bool = False

    @classmethod
    def load(cls, data: bytes) -> LightGBMBooster:
        """Return the model of a file that has been checked."""
        return cls(lightgbm.Booster(model_str=data.decode()), len(start_trees(data)))

    @property
    def rounds(self) -> int:
        return int(self.native.current_iteration()) - self.start_trees

    @property
    def best_rounds(self) -> int:
        return max(0, int(self.native.best_iteration) - self.start_trees)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:  # LightGBM is slower to return them than to score a document
        head = str(self.native.model_to_string(num_iteration=1)).partition("\nfeature_names=")[2]
        return tuple(head.partition("\n")[0].split(" "))

    @property
    def n_features(self) -> int:
        return int(self.native.num_feature())

    @property
    def start_trees(self) -> int:
        if self.known_start is None:  # a user's own model: the first tree shows whether to look further
            found = len(start_trees(self.native.model_to_string(num_iteration=1).encode()))
            if found:
                found = len(start_trees(self.native.model_to_string(num_iteration=-1).encode()))
            self.known_start = found
        return self.known_start

    def predict(self, features: Features, wanted: Wanted) -> npt.NDArray[Any]:
        how: dict[str, Any] = {
            "num_iteration": self._trees(wanted.rounds),
            "num_threads": engine_threads("LightGBM", wanted.threads),
        }
        if wanted.what == CONTRIBUTIONS:
            parts = [
                self.native.predict(dense_rows(features, a, b), pred_contrib=True, **how)
                for a, b in dense_batches(features)
            ]
            return np.concatenate([np.zeros((0, features.shape[1] + 1)), *parts])
        kind = "pred_leaf" if wanted.what == LEAVES else "raw_score"
        pieces = (piece for _, piece in features.pieces()) if isinstance(features, Rows) else [features]
        found = np.concatenate([self.native.predict(piece, **{kind: True}, **how) for piece in pieces])
        return found if wanted.what == LEAVES else found.astype(np.float64, copy=False).reshape(-1)

    def to_bytes(self, rounds: int = 0) -> bytes:
        text = str(self.native.model_to_string(num_iteration=self._trees(rounds)))
        data = _NUM_THREADS.sub("\n[num_threads: 0]", text).encode()  # trees do not depend on the number of threads
        return for_doubles(data) if self.kept else data

    def finished(self, categories: Mapping[int, Categories]) -> LightGBMBooster:
        own = read_leaves(self.native.model_to_string(num_iteration=-1).encode())
        even = None if own is None else own.in_units()
        if even is not None:
            # Set the rounded leaves in place; their numbers start at 0 in each tree.
            leaf = np.arange(even.tree.size) - np.searchsorted(even.tree, even.tree)
            for place in zip(even.tree.tolist(), leaf.tolist(), even.value.tolist(), strict=True):
                self.native.set_leaf_output(*place)
        self.kept = getattr(self.native, "train_set", None) is not None  # `keep_training_booster`
        if not self.kept:
            text = self.native.model_to_string(num_iteration=-1)
            best = self.native.best_iteration
            self.native.model_from_string(for_doubles(text.encode()).decode())
            self.native.best_iteration = best
        known = [list(one.values) for _, one in sorted(categories.items()) if one.values is not None]
        if known:  # LightGBM encodes frames of pandas by them
            self.native.pandas_categorical = known
        return self

    def categories(self, names: Sequence[str]) -> dict[str, Categories]:
        values = self.native.pandas_categorical or ()
        columns = listed_categories(self.native.model_to_string(num_iteration=1).encode()) if values else {}
        # LightGBM does not store their columns: ordered columns have categories too, and columns of codes have none.
        fits = len(columns) == len(values) and all(
            codes[-1] < len(one) and all(isinstance(value, str) for value in one)
            for codes, one in zip(columns.values(), values, strict=True)
        )
        return {names[i]: Categories(tuple(one)) for i, one in zip(columns, values, strict=True)} if fits else {}

    def _trees(self, rounds: int) -> int:
        """Return LightGBM's number of iterations for this number of rounds; -1: all."""
        return rounds + self.start_trees if rounds else -1
