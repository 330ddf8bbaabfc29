"""Every way of giving data, parameters and continuation: the start is there, or a line says that it
is not.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from scipy import sparse

import boostrank
from boostrank.core.errors import BoostrankError, DataError, DataWarning
from boostrank.engines import parse_model
from boostrank.engines.lightgbm.model_text import start_trees
from boostrank.files.writer import write_libsvm
from boostrank.fit import plan
from tests.engines.conftest import make_scaled_dataset

pytestmark = pytest.mark.usefixtures("leaves_as_grown")

SMALL = {"num_leaves": 5, "num_threads": 1, "verbosity": -1, "eval_at": 10}
NDCG = boostrank.Metric.parse("ndcg@10")
ENGINES = ("lightgbm", "xgboost")
START = "there is a start"

Sets = tuple[Any, Any]


def count_start_trees(model: boostrank.RankingModel) -> int:
    body = model.to_bytes()
    return len(start_trees(body)) if model.backend == "lightgbm" else parse_model(body).start_trees


def outcome(
    train: Callable[[], boostrank.RankingModel],
) -> tuple[str, boostrank.RankingModel | None]:
    """START, or the line or refusal that says why there is none; never neither."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = train()
        except BoostrankError as error:
            return f"refused: {error}", None
    message = " ".join(str(warning.message) for warning in caught)
    if count_start_trees(model):
        return START, model
    assert "start" in message, "the start is not there, and nobody has said so"
    return message, model


@pytest.fixture(scope="module")
def sets() -> Sets:
    return make_scaled_dataset(0, gaps=True), make_scaled_dataset(1, gaps=True)


@pytest.fixture(scope="module")
def usual(sets: Sets) -> dict[str, boostrank.RankingModel]:
    """What a RankingDataset gives."""
    return {
        name: boostrank.train(
            {**SMALL, "max_bin": 255}, sets[0], 2, valid_sets=[sets[1]], backend=name
        )
        for name in ENGINES
    }


def filled(data: Any) -> Any:
    return boostrank.RankingDataset.from_arrays(
        np.nan_to_num(data.features),
        data.labels,
        group=data.queries.sizes,
        feature_names=data.feature_names,
    )


def thin(data: Any) -> Any:
    return boostrank.RankingDataset.from_arrays(
        sparse.csr_matrix(np.nan_to_num(data.features)), data.labels, group=data.queries.sizes
    )


def of_lightgbm(data: Any) -> Any:
    return lgb.Dataset(data.features, data.labels, group=data.queries.sizes)


def of_xgboost(data: Any) -> Any:
    return xgb.DMatrix(data.features, data.labels, group=data.queries.sizes)


def same(data: Any) -> Any:
    return data


# Engine, training set, validation set, what comes of it.
GIVEN: list[tuple[str, Any, Any, str]] = [
    ("both", same, same, START),
    ("both", filled, filled, START),
    ("both", thin, thin, START),
    ("lightgbm", of_lightgbm, of_lightgbm, START),
    ("xgboost", of_xgboost, of_xgboost, "refused: train_set=<DMatrix>"),
]
WAYS = [(name, *row[1:]) for row in GIVEN for name in ENGINES if row[0] in ("both", name)]


@pytest.mark.parametrize(("engine", "train_set", "valid_set", "expected"), WAYS)
def test_whatever_the_data_are_given_as(
    engine: str, train_set: Any, valid_set: Any, expected: str, sets: Sets, usual: Any
) -> None:
    train = train_set(sets[0])
    valid = None if valid_set is None else [valid_set(sets[1])]
    params = {**SMALL, "max_bin": 255}
    message, model = outcome(
        lambda: boostrank.train(params, train, 2, valid_sets=valid, backend=engine)
    )
    assert re.match(expected, message), message
    if message != START or model is None:
        return
    assert model.info["start"]["folds"] == 5
    rows = filled(sets[1]) if train_set in (filled, thin) else sets[1]
    if rows is sets[1]:  # as a RankingDataset gives it
        assert start_of(model) == start_of(usual[engine])
    if valid:
        last = NDCG.evaluate(rows.labels, model.predict(rows), rows.queries).mean
        assert model.evals_result["valid_0"]["ndcg@10"][-1] == last


def start_of(model: boostrank.RankingModel) -> Any:
    """The trees of the start, and the scores of a few rows by them alone."""
    rows = make_scaled_dataset(2, queries=3, gaps=True).features
    if model.backend == "lightgbm":
        count = count_start_trees(model)
        return count, model._booster.native.predict(rows, num_iteration=count).tolist()
    return parse_model(model.to_bytes()).forest["trees"][: count_start_trees(model)]


@pytest.mark.parametrize("engine", ENGINES)
def test_from_files(
    engine: str, sets: Sets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, files = filled(sets[0]), [tmp_path / "a.txt", tmp_path / "b.txt"]
    write_libsvm(files[0], data.take(np.arange(15)))
    write_libsvm(files[1], data.take(np.arange(15, len(data.queries))))
    ways: list[dict[str, Any]] = [{"cache": False}, {"cache": tmp_path}, {"cache": tmp_path}]
    if engine == "xgboost":
        ways.append({"cache": False, "external_memory": True})
    usual = boostrank.train(SMALL, boostrank.read(files), 1, backend=engine)
    for way in ways:
        streamed = boostrank.stream(files, **way)
        message, model = outcome(
            lambda rows=streamed: boostrank.train(SMALL, rows, 1, backend=engine)
        )
        assert message == START
        assert start_of(model) == start_of(usual)
    monkeypatch.setattr(plan, "MOST_FEATURES", 5)
    for wide in (boostrank.read(files), boostrank.stream(files, cache=False)):
        with pytest.warns(DataWarning, match="no linear start: 6 features, more than 5"):
            assert not count_start_trees(boostrank.train(SMALL, wide, 1, backend=engine))
        with pytest.raises(boostrank.ParameterError, match="more than 5; start='none' omits it"):
            boostrank.train(SMALL, wide, 1, backend=engine, start="linear")


def half(scores: Any, data: Any) -> Any:
    return 0.5 * np.sin(np.arange(scores.size)), np.ones(scores.size)


# Engine, parameters, start, what comes of it.
TOLD: list[tuple[str, dict[str, Any], str, str]] = [
    ("lightgbm", {"boosting": "dart"}, "auto", START),
    ("lightgbm", {"boosting": "goss"}, "auto", START),
    ("lightgbm", {"boosting": "rf"}, "auto", "refused: boosting='rf'"),
    ("lightgbm", {"linear_tree": True}, "auto", "refused: linear_tree is not supported"),
    ("lightgbm", {"extra_trees": True, "path_smooth": 1.0, "max_delta_step": 0.5}, "auto", START),
    (
        "lightgbm",
        {"boost_from_average": True},
        "auto",
        "refused: 'boost_from_average' only affects",
    ),
    ("lightgbm", {"zero_as_missing": True}, "auto", START),
    ("lightgbm", {"use_missing": False}, "auto", START),
    ("lightgbm", {"use_quantized_grad": True}, "auto", START),
    ("both", {"categorical_feature": [3]}, "auto", "refused: categorical feature 'f4' "),
    ("lightgbm", {"objective": "lightgbm:lambdarank"}, "linear", START),
    ("xgboost", {"booster": "dart"}, "auto", "refused: booster='dart' must be gbtree"),
    ("xgboost", {"booster": "gblinear"}, "auto", "refused: booster='gblinear'"),
    ("xgboost", {"base_score": 0.5}, "auto", "refused: base_score"),
    ("xgboost", {"num_parallel_tree": 2}, "auto", "refused: num_parallel_tree is not supported"),
    ("xgboost", {"max_depth": 3, "grow_policy": "depthwise"}, "auto", START),
    ("xgboost", {"objective": "xgboost:rank:ndcg"}, "linear", START),
    ("both", {"monotone_constraints": [1] * 6}, "auto", START),
    ("both", {"interaction_constraints": [[0, 1], [2, 3, 4, 5]]}, "auto", START),
    ("both", {"bagging_fraction": 0.5, "feature_fraction": 0.5, "seed": 3}, "auto", START),
    ("both", {"early_stopping_round": 1}, "auto", START),
    ("both", {"objective": half}, "linear", START),
    ("both", {"objective": "sdcg"}, "linear", START),
]
TOLD_EACH = [(name, *row[1:]) for row in TOLD for name in ENGINES if row[0] in ("both", name)]


@pytest.mark.parametrize(("engine", "params", "start", "expected"), TOLD_EACH)
def test_whatever_the_parameters_are(
    engine: str, params: dict[str, Any], start: str, expected: str, sets: Sets
) -> None:
    message, model = outcome(
        lambda: boostrank.train(
            {**SMALL, **params}, sets[0], 2, valid_sets=[sets[1]], backend=engine, start=start
        )
    )
    assert re.match(expected, message), message
    if model is not None:
        last = NDCG.evaluate(
            sets[1].labels, model.predict(sets[1], num_iteration=2), sets[1].queries
        ).mean
        assert model.evals_result["valid_0"]["ndcg@10"][-1] == pytest.approx(last, abs=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_however_a_training_goes_on(engine: str, sets: Sets, usual: Any, tmp_path: Path) -> None:
    train = sets[0]
    # Continued from a model, a file, or the engine's own booster.
    before, path = usual[engine], tmp_path / "model"
    before.save(path)
    kept = start_of(before)
    options: dict[str, Any] = {"backend": engine}
    for init_model in (before, path, before.booster):
        message, model = outcome(
            lambda earlier=init_model: boostrank.train(
                SMALL, train, 1, init_model=earlier, **options
            )
        )
        assert message == START
        assert start_of(model) == kept
    # Resumed, averaged over folds, averaged with another.
    checkpoint = boostrank.Checkpoint(tmp_path / "checkpoint", every=1)
    message, _ = outcome(lambda: boostrank.train(SMALL, train, 2, checkpoint=checkpoint, **options))
    assert message == START
    going_on = boostrank.Checkpoint(tmp_path / "checkpoint", every=1, resume=True)
    message, model = outcome(
        lambda: boostrank.train(SMALL, train, 2, checkpoint=going_on, **options)
    )
    assert start_of(model) == kept
    message, model = outcome(
        lambda: boostrank.train({**SMALL, "early_stopping_round": 1}, train, 2, folds=2, **options)
    )
    assert message == START
    assert outcome(lambda: boostrank.average([before, model]))[0] == START
    assert start_of(boostrank.RankingModel.load(path)) == kept
    # A model without a start gets none.
    plain = boostrank.train(SMALL, train, 1, start="none", **options)
    for params in ({**SMALL, "objective": "auto"}, SMALL):
        message, _ = outcome(
            lambda params=params: boostrank.train(
                params, train, 1, init_model=plain.booster, **options
            )
        )
        assert (
            message
            == "the model to continue has no linear start, and start='auto' does not add one"
        )
    assert outcome(lambda: boostrank.average([before, plain]))[0] == START


def test_features_in_another_order_are_not_gone_on_with(sets: Sets, usual: Any) -> None:
    names = tuple("abcdef")
    data = [
        boostrank.RankingDataset.from_arrays(
            sets[0].features[:, order],
            sets[0].labels,
            group=sets[0].queries.sizes,
            feature_names=[names[i] for i in order],
        )
        for order in (range(6), (1, 0, 2, 3, 4, 5))
    ]
    boosted = boostrank.train(SMALL, data[0], 1)
    boostrank.train(SMALL, data[0], 1, init_model=boosted)
    with pytest.raises(DataError, match="in another order"):
        boostrank.train(SMALL, data[1], 1, init_model=boosted)
