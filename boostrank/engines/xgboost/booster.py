"""XGBoost's models: scores, leaves, contributions, files and linear starts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost

from boostrank.core.errors import ModelError
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.categories import Categories
from boostrank.data.rows import dense_batches, dense_rows, is_sparse
from boostrank.engines.base import CONTRIBUTIONS, LEAVES, SCORES, Booster, Wanted
from boostrank.engines.model_format import LinearStart, engine_names
from boostrank.engines.params import engine_threads
from boostrank.engines.trees import NOTHING
from boostrank.engines.xgboost.format import XGBOOST, tree_weights, with_even_leaves
from boostrank.engines.xgboost.model_json import ATTRIBUTE, names_in, readable, with_names

_ROUNDED = 1e-4
_one_at_a_time = threading.Lock()


@dataclass(eq=False)
class XGBoostBooster(Booster):
    """Model with a `xgboost.Booster` as `native`."""

    engine = "xgboost"
    absent_is_missing = True

    @classmethod
    def load(cls, data: bytes) -> XGBoostBooster:
        """Return the model of a file that has been checked.

        Raises:
            ModelError: this version of XGBoost would ignore the weights of its trees.
        """
        booster = xgboost.Booster()
        booster.load_model(bytearray(readable(data)))
        if _has_tree_weights(data) and not _has_tree_weights(bytes(booster.save_raw("json"))):
            raise ModelError(
                f"this dart model is from a later XGBoost, and the installed {xgboost.__version__} ignores its tree "
                "weights: scores would be wrong. Upgrade xgboost"
            )
        return cls(booster)

    @property
    def rounds(self) -> int:
        return int(self.native.num_boosted_rounds()) - self.start_trees

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = self.native.feature_names
        return tuple(names) if names else tuple(f"f{i}" for i in range(1, self.n_features + 1))

    @property
    def n_features(self) -> int:
        return int(self.native.num_features())

    @property
    def stopped_rounds(self) -> int:
        best = self.native.attr("best_iteration")
        return int(best) + 1 if best is not None and best.isdigit() else 0

    @property
    def start_trees(self) -> int:
        return int(self.native.attr(ATTRIBUTE) or 0)

    def predict(self, features: Features, wanted: Wanted) -> npt.NDArray[Any]:
        if wanted.what == LEAVES:
            parts = self._of_batches(features, wanted, pred_leaf=True)
            return np.concatenate([part.reshape(len(part), -1) for part in parts])
        if wanted.what == CONTRIBUTIONS:
            return self._contributions(features, wanted)
        with _one_at_a_time:  # XGBoost is not thread-safe if a setting changes while another thread predicts
            self._use_threads(wanted.threads)
            span = self._span(wanted.rounds)
            parts = [
                self.native.inplace_predict(batch, iteration_range=span, predict_type="margin", validate_features=False)
                for batch in _batches(features, wanted.absent_is_missing)
            ]
        return np.concatenate([np.zeros(0), *parts]).astype(np.float64)

    def _contributions(self, features: Features, wanted: Wanted) -> Float64Array:
        parts = self._of_batches(features, wanted, pred_contribs=True)
        found: Float64Array = np.concatenate([np.zeros((0, features.shape[1] + 1)), *parts]).astype(np.float64)
        left = self.predict(features, replace(wanted, what=SCORES)) - found.sum(axis=1)
        if np.any(np.abs(left) > _ROUNDED * np.abs(found).sum(axis=1)):
            raise ModelError("XGBoost's contributions do not add up to its scores")
        # XGBoost sums in float32; the remainder goes to the largest contribution.
        found[np.arange(left.size), np.abs(found).argmax(axis=1)] += left
        return found

    def _of_batches(self, features: Features, wanted: Wanted, **what: bool) -> list[npt.NDArray[Any]]:
        """Return the native `predict` outputs other than scores, for each of `_batches`."""
        with _one_at_a_time:
            threads, span = self._use_threads(wanted.threads), self._span(wanted.rounds)
            return [
                self.native.predict(
                    xgboost.DMatrix(batch, nthread=threads), iteration_range=span, validate_features=False, **what
                )
                for batch in _batches(features, wanted.absent_is_missing)
            ]

    def _span(self, rounds: int) -> tuple[int, int]:
        """Return XGBoost's range of iterations for the first rounds; (0, 0): all."""
        return 0, rounds + self.start_trees if rounds else 0

    def _use_threads(self, threads: int) -> int:
        """Set the number of threads, as many as this process can have, and return it."""
        threads = engine_threads("XGBoost", threads)
        if getattr(self.native, "_boostrank_threads", None) != threads:
            self.native.set_param({"nthread": threads})
            self.native._boostrank_threads = threads
        return threads

    def to_bytes(self, rounds: int = 0) -> bytes:
        if not 0 < rounds < self.rounds:
            return bytes(self.native.save_raw("json"))
        first = self.start_trees
        part = self.native[: first + rounds]
        if first:
            part.set_attr(**{ATTRIBUTE: str(first)})
        body = bytes(part.save_raw("json"))
        names = names_in(bytes(self.native.save_raw("json"))) if "c" in (self.native.feature_types or ()) else {}
        return (with_names(body, names) if names else None) or body  # a slice loses the names of categories

    def finished(self, categories: Mapping[int, Categories]) -> XGBoostBooster:
        body = with_even_leaves(self.to_bytes())
        found = self if body is None else self.load(body)
        names = {column: one.values for column, one in categories.items() if not one.ordered}
        body = with_names(found.to_bytes(), names) if names else None
        return found if body is None else self.load(body)

    def categories(self, names: Sequence[str]) -> dict[str, Categories]:
        types = self.native.feature_types or ()
        if "c" not in types:
            return {}
        found = names_in(self.to_bytes())
        kinds = enumerate(zip(names, types, strict=False))
        return {name: Categories(found.get(column)) for column, (name, kind) in kinds if kind == "c"}


def apart(booster: XGBoostBooster | None) -> tuple[XGBoostBooster | None, XGBoostBooster | None]:
    """Split a model into its grown trees and its start; either may be None."""
    if booster is None or not booster.start_trees:
        return booster, None
    if not booster.rounds:
        return None, booster
    model = XGBOOST.parse(bytes(booster.native.save_raw("json")))
    trees = model.forest["trees"][model.start_trees :]
    start = XGBoostBooster.load(model.with_trees(model.start, [], [0]))
    return XGBoostBooster.load(model.with_trees({}, trees, model.ends)), start


def together(start: XGBoostBooster | None, booster: XGBoostBooster) -> XGBoostBooster:
    """Join the trees of a start, if any, and the grown trees."""
    if start is None:
        return booster
    grown, first = (XGBOOST.parse(bytes(one.native.save_raw("json"))) for one in (booster, start))
    return XGBoostBooster.load(grown.with_trees(first.start, grown.forest["trees"], grown.ends))


def begin_with(start: LinearStart) -> XGBoostBooster:
    """Return a model of no rounds with the scores of a linear ranker."""
    columns = len(start.feature_names)
    names = list(engine_names(start.feature_names))
    row = xgboost.DMatrix(np.zeros((1, columns), np.float32), label=[0.0], feature_names=names)
    empty = xgboost.train({"objective": "rank:ndcg", "base_score": 0.0}, row, 0)
    curves = start.curves or {0: NOTHING}
    return XGBoostBooster.load(XGBOOST.parse(bytes(empty.save_raw("json"))).with_trees(curves, [], [0]))


def _batches(features: Features, absent_is_missing: bool) -> Iterator[Any]:
    """Iterate over batches of rows; dense unless absent entries are missing."""
    sparse = absent_is_missing and is_sparse(features)
    for start, stop in dense_batches(features):
        yield features[start:stop] if sparse else dense_rows(features, start, stop)


def _has_tree_weights(body: bytes) -> bool:
    return b'"weight_drop"' in body and tree_weights(json.loads(body)["learner"]["gradient_booster"]) is not None
