"""Trainings on gains that are expressions: those of the same numbers as labels, on every door."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, ParameterError
from boostrank.reporting.studies import measure_noise

GAIN = "0.5*label + (f1 > 0) * abs(f2)"
TREES = {"num_leaves": 5, "verbosity": -1, "num_threads": 1, "learning_rate": 0.3}


def _data(seed: int, queries: int = 40) -> boostrank.RankingDataset:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * 8, 4)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + rng.normal(size=len(X))), 0, 4)
    return boostrank.RankingDataset.from_arrays(X, y, qid=np.repeat(np.arange(queries), 8))


def _by_hand(data: boostrank.RankingDataset) -> boostrank.RankingDataset:
    f1, f2 = data.features[:, 0].astype(float), data.features[:, 1].astype(float)
    gains = 0.5 * data.labels + (f1 > 0) * np.abs(f2)
    return boostrank.RankingDataset.from_arrays(data.features, gains, qid=data.queries.row_ids())


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost", "linear"])
def test_a_gain_of_columns_trains_as_its_values_with_a_linear_gain(backend: str, tmp_path: Path):
    train, valid = _data(0), _data(1, 20)
    params: dict[str, Any] = {"num_threads": 1} if backend == "linear" else TREES
    params = params | {"eval_at": [3]}
    # The expression, and its values as labels.
    model = boostrank.train(
        params | {"gain": GAIN}, train, 5, [valid], backend=backend, conventions="letor"
    )
    rules = replace(boostrank.Conventions.of("letor"), gain="linear")
    same = boostrank.train(
        params | {"gain": "linear"},
        _by_hand(train),
        5,
        [_by_hand(valid)],
        backend=backend,
        conventions=rules,
    )
    np.testing.assert_array_equal(model.predict(valid), same.predict(valid))
    assert model.evals_result == same.evals_result
    # Data that have the gain already.
    resolved = boostrank.train(
        params, train.with_gain(GAIN), 5, [valid], backend=backend, conventions="letor"
    )
    np.testing.assert_array_equal(model.predict(valid), resolved.predict(valid))
    assert train.gain is None
    # The model keeps the expression, and training that goes on computes it.
    model.save(tmp_path / "model.txt")
    loaded = boostrank.RankingModel.load(tmp_path / "model.txt")
    assert loaded.info.gain == model.info.gain == GAIN
    assert same.info.gain is None
    if backend == "linear":  # not continued
        return
    more = boostrank.train(params, train.with_gain(GAIN), 2, init_model=loaded, backend=backend)
    gone_on = boostrank.train(params, train, 2, init_model=loaded, backend=backend)
    assert more.info.gain == gone_on.info.gain == GAIN
    np.testing.assert_array_equal(gone_on.predict(valid), more.predict(valid))


def test_folds_presets_and_noise_compute_a_gain_of_columns():
    train, by_hand = _data(0), _by_hand(_data(0))
    rounds: dict[str, Any] = {"num_boost_round": 6}
    with_gain, linear = TREES | {"gain": GAIN}, TREES | {"gain": "linear"}
    for make in (
        lambda params, data: boostrank.train(params, data, folds=2, **rounds),
        lambda params, data: boostrank.train(params, data, quality="quick", **rounds),
        lambda params, data: boostrank.train(
            params | {"objective": "lambdarank"},
            data,
            quality="good",
            **rounds,
            valid_sets=[_data(1, 20) if data is train else _by_hand(_data(1, 20))],
        ),
    ):
        model = make(with_gain, train)
        np.testing.assert_array_equal(model.predict(train), make(linear, by_hand).predict(train))
        assert model.info.gain == GAIN
    of_gain = measure_noise(with_gain, train, _data(1, 20), 1, runs=3).first["ndcg@5"].mean
    of_labels = (
        measure_noise(linear, by_hand, _by_hand(_data(1, 20)), 1, runs=3).first["ndcg@5"].mean
    )
    assert of_gain == of_labels


def test_a_search_gives_the_expression_back():
    pytest.importorskip("optuna")
    train = _data(0, 20)
    result = boostrank.tune(TREES | {"gain": GAIN}, train, num_boost_round=2, trials=1, folds=2)
    assert result.params["gain"] == GAIN
    assert (
        result.start
        == boostrank.tune(
            TREES | {"gain": "linear"}, _by_hand(train), num_boost_round=2, trials=1, folds=2
        ).start
    )


def test_a_gain_on_labels_that_are_the_gain_is_refused():
    data = _data(0, 20)
    with_gain = data.with_gain(GAIN)
    with pytest.raises(DataError, match="already the gain"):
        boostrank.train(TREES | {"gain": "exponential"}, with_gain, 2)
    with pytest.raises(DataError, match="are the gain"):
        boostrank.train(TREES | {"gain": "label + f1*f1"}, with_gain, 2)
    with pytest.raises(ParameterError, match="gain='linear'"):
        boostrank.train(TREES | {"objective": boostrank.Objective("lambdarank")}, with_gain, 2)
    assert boostrank.train(
        TREES | {"objective": boostrank.Objective("lambdarank", gain="linear")}, with_gain, 2
    ).info.gain
    with pytest.raises(ParameterError, match="integer grades"):
        boostrank.train(TREES | {"objective": "lightgbm:lambdarank"}, with_gain, 2)
    with pytest.raises(DataError, match=r"row 0 .*query 0.* 'f1 - 99' is -"):
        boostrank.train(TREES | {"gain": "f1 - 99"}, data, 2)
    # A function of the user's own has labels that are gains, and metrics that know it.
    trained = boostrank.train(
        TREES | {"objective": lambda s, d: (s - d.get_label(), np.ones(s.size)), "gain": GAIN},
        data,
        2,
    )
    assert trained.info.conventions is not None
    assert trained.info.conventions["gain"] == "linear"
