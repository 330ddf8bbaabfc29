"""Stump engine: each round splits one feature at one of a few thresholds, by gradient and
curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.data.dataset import Features, RankingDataset
from boostrank.data.rows import dense_rows
from boostrank.engines.base import (
    CONTRIBUTIONS,
    Backend,
    Booster,
    PredictRequest,
    Rounds,
    TrainRequest,
)
from boostrank.engines.engine_params import Params
from tests.model.toy_engine.format import TOY, Stumps

_QUANTILES = np.linspace(0.1, 0.9, 9)


@dataclass(eq=False)
class ToyData:
    rows: np.ndarray
    feature_names: tuple[str, ...]


class ToyBooster(Booster):
    native: Stumps
    engine = "toy"

    @classmethod
    def load(cls, data: bytes) -> ToyBooster:
        return cls(TOY.parse(data))

    def predict(self, features: Features, request: PredictRequest) -> np.ndarray:
        rows = dense_rows(features, 0, features.shape[0])
        if request.what != CONTRIBUTIONS:
            return self.native.scores(rows, request.rounds)
        out = np.zeros((rows.shape[0], rows.shape[1] + 1))
        for column, threshold, left, right in self.native.trees[: request.rounds or None]:
            out[:, column] += (
                np.where(rows[:, column] <= threshold, left, right) - (left + right) / 2
            )
            out[:, -1] += (left + right) / 2
        return out


class ToyParams(Params):
    def names(self) -> dict[str, str]:
        return {name: name for name in ("learning_rate", "num_threads", "verbosity")}


class Toy(Backend):
    name = "toy"
    version = "1"
    format = TOY
    params = ToyParams()
    booster = ToyBooster

    def dataset(
        self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool
    ) -> ToyData:
        return ToyData(dense_rows(data.features, 0, data.n_documents), data.feature_names)

    def train(self, request: TrainRequest) -> tuple[ToyBooster, int]:
        assert request.gradient is not None
        rows, rate = request.train.rows, float(request.params.get("learning_rate", 0.3))
        trees = list(request.earlier.native.trees) if request.earlier else []
        booster = Stumps(request.train.feature_names, trees)
        rounds = Rounds(
            request, booster, len(booster.trees), lambda data: booster.scores(data.rows)
        )
        for number in rounds:
            grad, hess = request.gradient(booster.scores(rows), request.train, number)
            booster.trees.append(_stump(rows, grad.astype(float), hess.astype(float), rate))
        return ToyBooster(booster), rounds.best_rounds


BACKEND = Toy()


def _stump(
    rows: np.ndarray, grad: np.ndarray, hess: np.ndarray, rate: float
) -> tuple[int, float, float, float]:
    """The split whose two Newton steps gain most."""
    best, chosen = -1.0, (0, 0.0, 0.0, 0.0)
    for column in range(rows.shape[1]):
        for threshold in np.unique(np.nanquantile(rows[:, column], _QUANTILES)).tolist():
            left = rows[:, column] <= threshold
            sums = [(grad[side].sum(), hess[side].sum() + 1.0) for side in (left, ~left)]
            gain = sum(g * g / h for g, h in sums)
            if gain > best:
                best, chosen = gain, (column, threshold, *(-rate * float(g / h) for g, h in sums))
    return chosen
