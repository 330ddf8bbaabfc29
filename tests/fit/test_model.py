"""A saved ranker opens anywhere, says how it was made, and scores what it was trained for."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import DataError, ModelError
from boostrank.data.dataset import RankingDataset
from boostrank.model.files import write_model_files
from boostrank.model.ranking_model import RankingModel, check_finite
from boostrank.model.scores import _finite
from tests.cli.conftest import refuse
from tests.fit.conftest import BACKENDS, FAST, make_dataset
from tests.model.real_models import train_lightgbm


@pytest.fixture(scope="module", params=BACKENDS)
def trained(request: Any) -> tuple[RankingDataset, boostrank.RankingModel]:
    train = make_dataset(0)
    params = {"objective": "reg-shf-sdcg", "gain": "linear", **FAST}
    return train, boostrank.train(
        params, train, 12, valid_sets=[make_dataset(1)], backend=request.param
    )


def test_save_and_load_score_the_same_bits(trained: Any, tmp_path: Any) -> None:
    train, model = trained
    model.save(tmp_path / "model.txt")
    loaded = boostrank.RankingModel.load(tmp_path / "model.txt")
    np.testing.assert_array_equal(loaded.predict(train), model.predict(train))
    assert loaded.backend == model.backend
    assert loaded.feature_names == model.feature_names == train.feature_names
    assert loaded.evals_result == model.evals_result
    assert loaded.best_score == model.best_score
    assert (
        boostrank.Objective.from_dict(loaded.info["objective"]).to_dict() == model.info["objective"]
    )


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
    (sidecar,) = [path for path in tmp_path.iterdir() if path.name != "model.txt"]
    record = json.loads(sidecar.read_text())
    assert record["objective"]["name"] == "reg-shf-sdcg"
    assert record["objective"]["params"]["mix"] == "logistic"
    assert record["objective"]["total_rounds"] == 12
    assert record["objective"]["gain"] == "linear"
    assert record["conventions"]["gain"] == "linear"
    assert record["data"]["fingerprint"] == train.fingerprint
    assert record["data"]["feature_names"] == list(train.feature_names)
    assert {"boostrank", "numba", "numpy", "python", model.backend} == set(record["versions"])


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
    with pytest.raises(DataError, match="qid or group"):
        model.rank(train.features)
    with pytest.raises(DataError, match=r"row 0.*row 1"):
        model.rank(train.features, qid=[1, "1"] * (train.n_documents // 2))


def test_rows_sorted_on_the_way_in_come_back_in_their_order() -> None:
    train = make_dataset(0)
    model = boostrank.train({"objective": "lambdarank", **FAST}, train, 3)
    order = np.random.default_rng(0).permutation(train.n_documents)
    qid = train.queries.row_ids()
    with pytest.raises(DataError, match="appears again"):
        RankingDataset.from_arrays(train.features[order], train.labels[order], qid=qid[order])
    mixed = RankingDataset.from_arrays(
        train.features[order], train.labels[order], qid=qid[order], sort=True
    )
    np.testing.assert_array_equal(model.predict(mixed), model.predict(train.features[order]))


def test_a_model_made_elsewhere_loads_and_predicts(tmp_path: Any) -> None:
    train = make_dataset(0)
    native = lgb.train(
        {"objective": "lambdarank", "verbosity": -1, "num_leaves": 5},
        lgb.Dataset(train.features, train.labels, group=train.queries.sizes),
        3,
    )
    native.save_model(tmp_path / "theirs.txt")
    loaded = boostrank.RankingModel.load(tmp_path / "theirs.txt")
    np.testing.assert_array_equal(loaded.predict(train), native.predict(train.features))
    assert loaded.info == {}


def overflowing(backend: str) -> RankingModel:
    """A model of which every row leaves the range of numbers."""
    rng = np.random.default_rng(0)
    data = RankingDataset.from_arrays(rng.random((40, 2)), rng.integers(0, 3, 40), group=[20, 20])
    trees = {"num_leaves": 2, "min_data_in_leaf": 2} if backend == "lightgbm" else {}
    model = boostrank.train(
        {"objective": "lambdarank", "num_threads": 1, **trees}, data, 3, backend=backend
    )
    if backend == "lightgbm":
        for tree, leaf in itertools.product(range(3), range(2)):
            model.booster.set_leaf_output(tree, leaf, 1.7e308)
        return model
    model.booster.path[:] = 1.7e308
    return model


@pytest.mark.parametrize("backend", ["lightgbm", "linear"])
def test_fault_108_scores_that_are_not_finite_are_refused_with_their_row(
    backend: str, tmp_path: Path
) -> None:
    model = overflowing(backend)
    with pytest.raises(ModelError, match=r"score of row 0 .*finite"):
        model.predict(np.ones((3, 2)))
    model.save(tmp_path / "m")
    (tmp_path / "t.txt").write_text("1 qid:1 1:1 2:1\n0 qid:1 1:1 2:2\n")
    for words in (["predict", "-o", str(tmp_path / "s")], ["evaluate"]):
        done = refuse(*words[:1], tmp_path / "m", tmp_path / "t.txt", *words[1:])
        words_of = {"lightgbm": "add up to more than 1e+150", "linear": "is not a finite number"}
        assert words_of[backend] in done.stderr
    assert not (tmp_path / "s").exists()


def test_queries_that_do_not_fit_the_rows_are_refused_also_where_no_score_depends_on_them(
    trained: Any,
) -> None:
    train, model = trained
    rows = np.asarray(train.features[:4])
    np.testing.assert_array_equal(model.predict(rows, qid=[1, 1, 2, 2]), model.predict(rows))
    np.testing.assert_array_equal(model.predict(rows, group=[1, 3]), model.predict(rows))
    for query_options, words in (
        ({"qid": [1]}, r"1 .*qid.* 4 rows"),
        ({"group": [2, 3]}, r"5 rows .*group.* 4 rows"),
        ({"group": "ab"}, "group sizes must be"),
        ({"group": [1.5, 2.5]}, "whole numbers"),
        ({"group": [4, 0]}, "at least one row"),
    ):
        with pytest.raises(DataError, match=words):
            model.predict(rows, **query_options)
    with pytest.raises(DataError, match="a RankingDataset has"):
        model.predict(train, qid=[1])


def test_fault_108_a_training_does_not_go_on_from_scores_that_are_not_finite() -> None:
    data = RankingDataset.from_arrays(
        np.arange(80.0).reshape(40, 2), np.arange(40) % 3, group=[20, 20]
    )
    with pytest.raises(ModelError, match=r"initial scores .*finite"):
        boostrank.train(
            {"objective": "lambdarank", "min_data_in_leaf": 2},
            data,
            2,
            init_model=overflowing("lightgbm"),
        )


def test_fault_108_rows_are_counted_over_the_pieces_of_a_file() -> None:
    check_finite(np.array([[1e150, -1e150], [0.0, 1.0]]))
    with pytest.raises(ModelError, match=r"score of row 8 .* beyond 1e\+150"):
        check_finite(np.array([0.0, 1.1e150]), 7)
    with pytest.raises(ModelError, match="row 12 "):
        list(_finite(iter([np.zeros(10), np.array([0.0, 1.0, np.nan])])))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("objective", []),
        ("data", {"index_base": "auto"}),
        ("evals_result", {"valid_0": {"ndcg@10": 0.5}}),
        ("training", {"rounds": 1, "rounds_before": "x"}),
        ("within_query", {}),
        ("data", {"feature_names": [1, 2]}),
    ],
)
def test_fault_110_a_sealed_sidecar_whose_content_is_of_another_kind_is_refused_by_name(
    key: str, value: object, tmp_path: Any
) -> None:
    body = train_lightgbm(1).model_to_string().encode()
    write_model_files(tmp_path / "model.txt", body, {"objective": {"name": "sdcg"}, key: value})
    with pytest.raises(ModelError, match=rf"model\.txt\.meta\.json: .*(\$\.{key}|\[)"):
        boostrank.RankingModel.load(tmp_path / "model.txt")
