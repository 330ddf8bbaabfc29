"""A saved ranker opens anywhere, says how it was made, and scores what it was trained for."""

from __future__ import annotations

import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import DataError, ModelError
from boostrank.data.dataset import RankingDataset

from .test_train import BACKENDS, FAST, ranking


@pytest.fixture(scope="module", params=BACKENDS)
def trained(request: Any) -> tuple[RankingDataset, boostrank.RankingModel]:
    train = ranking(0)
    params = {"objective": "reg-shf-sdcg", "gain": "linear", **FAST}
    return train, boostrank.train(params, train, 12, valid_sets=[ranking(1)], backend=request.param)


def test_save_and_load_score_the_same_bits(trained: Any, tmp_path: Any) -> None:
    train, model = trained
    model.save(tmp_path / "model.txt")
    loaded = boostrank.RankingModel.load(tmp_path / "model.txt")
    np.testing.assert_array_equal(loaded.predict(train), model.predict(train))
    assert loaded.backend == model.backend
    assert loaded.feature_names == model.feature_names == train.feature_names
    assert loaded.evals_result == model.evals_result
    assert loaded.best_score == model.best_score
    assert boostrank.Objective.from_dict(loaded.info["objective"]).to_dict() == model.info["objective"]


def test_the_engine_opens_the_file_without_us(trained: Any, tmp_path: Any) -> None:
    train, model = trained
    path = tmp_path / "model.json"
    model.save(path)
    if model.backend == "lightgbm":
        booster = lgb.Booster(model_file=path)
        scores = booster.predict(train.features, raw_score=True)
        assert "objective" in booster.dump_model()
    else:
        ranker = xgb.XGBRanker()
        ranker.load_model(path)
        scores = ranker.predict(train.features)
    np.testing.assert_array_equal(scores, model.predict(train))


def test_the_sidecar_says_how_it_was_made(trained: Any, tmp_path: Any) -> None:
    train, model = trained
    model.save(tmp_path / "model.txt")
    (sidecar,) = (p for p in tmp_path.iterdir() if p.name != "model.txt")
    said = json.loads(sidecar.read_text())
    assert said["objective"]["name"] == "reg-shf-sdcg"
    assert said["objective"]["params"]["mix"] == "logistic"
    assert said["objective"]["total_rounds"] == 12
    assert said["objective"]["gain"] == "linear"
    assert said["conventions"]["gain"] == "linear"
    assert said["data"]["fingerprint"] == train.fingerprint
    assert said["data"]["feature_names"] == list(train.feature_names)
    assert {"boostrank", "numba", "numpy", "python", model.backend} == set(said["versions"])


def test_a_damaged_model_is_refused(trained: Any, tmp_path: Any) -> None:
    _, model = trained
    path = tmp_path / "model.txt"
    model.save(path)
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(ModelError, match=r"model\.txt"):
        boostrank.RankingModel.load(path)
    path.write_bytes(b"\x00\x01\x02")
    with pytest.raises(ModelError):
        boostrank.RankingModel.load(path)


def test_other_features_are_refused_and_frames_are_matched_by_name(trained: Any) -> None:
    train, model = trained
    with pytest.raises(DataError, match="3 features"):
        model.predict(train.features[:, :3])
    frame = pd.DataFrame(train.features, columns=list(train.feature_names))
    shuffled = frame[list(reversed(frame.columns))].assign(extra=1)
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(train))
    with pytest.raises(DataError, match="no column 'f2'"):
        model.predict(frame.drop(columns="f2"))


def test_rank_counts_from_one_within_each_query(trained: Any) -> None:
    train, model = trained
    ranks = model.rank(train)
    scores = model.predict(train)
    for a, b in zip(train.queries.ptr[:-1], train.queries.ptr[1:], strict=True):
        assert sorted(ranks[a:b]) == list(range(1, b - a + 1))
        assert (np.diff(scores[a:b][np.argsort(ranks[a:b])]) <= 0).all()
    np.testing.assert_array_equal(model.rank(train.features, group=train.queries.sizes), ranks)
    with pytest.raises(DataError, match="qid= or group="):
        model.rank(train.features)


def test_rows_sorted_on_the_way_in_come_back_in_their_order() -> None:
    train = ranking(0)
    model = boostrank.train({"objective": "sdcg", **FAST}, train, 3)
    order = np.random.default_rng(0).permutation(train.n_documents)
    qid = train.queries.row_ids()
    with pytest.raises(DataError, match="appears again"):
        RankingDataset.from_arrays(train.features[order], train.labels[order], qid=qid[order])
    mixed = RankingDataset.from_arrays(train.features[order], train.labels[order], qid=qid[order], sort=True)
    np.testing.assert_array_equal(model.predict(mixed), model.predict(train.features[order]))


def test_a_model_made_elsewhere_loads_and_predicts(tmp_path: Any) -> None:
    train = ranking(0)
    native = lgb.train(
        {"objective": "lambdarank", "verbosity": -1, "num_leaves": 5},
        lgb.Dataset(train.features, train.labels, group=train.queries.sizes),
        3,
    )
    native.save_model(tmp_path / "theirs.txt")
    loaded = boostrank.RankingModel.load(tmp_path / "theirs.txt")
    np.testing.assert_array_equal(loaded.predict(train), native.predict(train.features))
    assert loaded.info == {}
