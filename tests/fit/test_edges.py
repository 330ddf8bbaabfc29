"""Where training meets what users really hand over: odd names, their own matrices, models to go on
from.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy import sparse

import boostrank
from boostrank.core.errors import DataError, ModelError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.store import stream_files as stream_libsvm
from tests.fit.conftest import BACKENDS, FAST, make_dataset


def frame(seed: int = 0, columns: str = "abcde") -> pd.DataFrame:
    data = make_dataset(seed)
    table = pd.DataFrame(data.features, columns=list(columns))
    return table.assign(label=data.labels, qid=data.queries.row_ids())


@pytest.mark.parametrize("backend", BACKENDS)
def test_data_frames_train_and_validate_though_their_columns_are_read_only(backend: str) -> None:
    table = frame()
    for name in ("label", "qid"):
        table[name].to_numpy().flags.writeable = False
    data = RankingDataset.from_frame(table)
    labels = np.array(data.labels)
    labels.flags.writeable = False
    frozen = RankingDataset.from_arrays(data.features, labels, group=data.queries.sizes)
    model = boostrank.train(
        {"objective": "sdcg", **FAST}, frozen, 3, valid_sets=[frozen], backend=backend
    )
    scores = model.predict(data)
    scores.flags.writeable = False
    for name in ("ndcg@5", "map", "mrr", "err@3", "precision@3", "recall@3", "dcg"):
        assert boostrank.Metric.parse(name).evaluate(labels, scores, frozen.queries).mean > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_name_may_stand_for_a_validation_set_and_metrics_keep_every_digit(backend: str) -> None:
    train, valid = make_dataset(0), make_dataset(1)
    model = boostrank.train(
        {"objective": "sdcg", "metric": "ndcg@5", **FAST},
        train,
        3,
        valid_sets=[valid, train],
        valid_names=["my-valid set: 1", "train-ing"],
        feval=lambda scores, data: ("tab\tand:colon", float(np.mean(scores)), False),
        backend=backend,
    )
    last = model.evals_result["my-valid set: 1"]["ndcg@5"][-1]
    ndcg = (
        boostrank.Metric.parse("ndcg@5")
        .evaluate(valid.labels, model.predict(valid), valid.queries)
        .mean
    )
    assert last == pytest.approx(ndcg, rel=1e-12, abs=0)
    assert list(model.evals_result["train-ing"]) == ["ndcg@5", "tab\tand:colon"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_go_by_name_wherever_there_are_names(backend: str) -> None:
    train = RankingDataset.from_frame(frame(0))
    model = boostrank.train({"objective": "sdcg", **FAST}, train, 5, backend=backend)
    shuffled = RankingDataset.from_frame(frame(0)[["qid", "e", "c", "a", "d", "b", "label"]])
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(train))
    watched = boostrank.train(
        {"objective": "sdcg", **FAST}, train, 5, valid_sets=[shuffled, train], backend=backend
    )
    assert watched.evals_result["valid_0"] == watched.evals_result["training"]
    other = RankingDataset.from_frame(frame(0, columns="abcdx"))
    with pytest.raises(DataError, match=r"'e', .*the model"):
        model.predict(other)
    with pytest.raises(DataError, match=r"'e', .*training set"):
        boostrank.train(
            {"objective": "sdcg", **FAST}, train, 1, valid_sets=[other], backend=backend
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_that_an_engine_refuses_stay_the_users(backend: str, tmp_path: Path) -> None:
    names = ["price [EUR]", 'a "b"', "x,y:{z}", "café <1>", "price ]EUR["]
    data = make_dataset(0)
    table = pd.DataFrame(data.features, columns=names)
    train = RankingDataset.from_arrays(table, data.labels, group=data.queries.sizes)
    model = boostrank.train({"objective": "sdcg", **FAST}, train, 3, backend=backend)
    model.save(tmp_path / "model")
    loaded = boostrank.RankingModel.load(tmp_path / "model")
    assert loaded.feature_names == tuple(names)
    np.testing.assert_array_equal(loaded.predict(table[names[::-1]]), model.predict(train))


@pytest.mark.parametrize(
    ("as_rows", "words"), [(np.array, "column 'f2' has"), (sparse.csr_matrix, "a column has")]
)
def test_infinite_values_that_xgboost_does_not_take_are_refused(as_rows: Any, words: str) -> None:
    data = make_dataset(0)
    rows = np.array(data.features)
    rows[7, 1] = np.inf
    train = RankingDataset.from_arrays(as_rows(rows), data.labels, group=data.queries.sizes)
    with pytest.raises(DataError, match=f"{words} infinite .*lightgbm"):
        boostrank.train({"objective": "sdcg", **FAST}, train, 1, backend="xgboost")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_damaged_model_is_not_continued(backend: str, tmp_path: Path) -> None:
    train = make_dataset(0)
    boostrank.train({"objective": "sdcg", **FAST}, train, 3, backend=backend).save(
        tmp_path / "model"
    )
    path = tmp_path / "model"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ModelError):
        boostrank.train({"objective": "sdcg", **FAST}, train, 3, init_model=path, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_going_on_from_the_best_round_whether_from_memory_or_from_a_file(
    backend: str, tmp_path: Path
) -> None:
    train, valid = make_dataset(0), make_dataset(1)
    params = {
        "objective": "lambdarank",
        "early_stopping_round": 3,
        "eval_at": 5,
        **FAST,
        "learning_rate": 0.5,
    }
    model = boostrank.train(params, train, 60, valid_sets=[valid], backend=backend)
    best = model.best_iteration
    assert model.summary is not None
    assert model.summary.rounds == best + 3
    model.save(tmp_path / "model")
    more = {"objective": "lambdarank", **FAST}
    for start in (model, tmp_path / "model", boostrank.RankingModel.load(tmp_path / "model")):
        assert (
            boostrank.train(more, train, 2, init_model=start, backend=backend).best_iteration
            == best + 2
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_continued_model_keeps_its_objective_unless_another_is_said(
    backend: str, tmp_path: Path
) -> None:
    data = make_dataset(0)
    for record in (
        "lambdarank",
        "mix(shf-sdcg, regression)",
        f"{backend}:{'lambdarank' if backend == 'lightgbm' else 'rank:ndcg'}",
    ):
        first = boostrank.train({"objective": record, **FAST}, data, 2, backend=backend)
        first.save(tmp_path / "model")
        for start in (first, tmp_path / "model"):
            more = boostrank.train(FAST, data, 1, init_model=start, backend=backend)
            assert more.info["objective"]["name"] == first.info["objective"]["name"]
        assert (
            boostrank.train(
                {"objective": "sdcg", **FAST}, data, 1, init_model=first, backend=backend
            ).info["objective"]["name"]
            == "sdcg"
        )
    custom = boostrank.train(
        {"objective": lambda s, d: (np.sign(s - d.get_label()), np.ones(s.size)), **FAST},
        data,
        1,
        backend=backend,
    )
    with pytest.raises(ParameterError, match="pass objective="):
        boostrank.train(FAST, data, 1, init_model=custom, backend=backend)


def test_a_tiny_data_set_trains_unless_parameters_forbid_it() -> None:
    tiny = RankingDataset.from_arrays(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1], group=[2, 2])
    params = {"objective": "sdcg", "verbosity": -1}
    assert boostrank.train(params, tiny, 2).best_iteration == 2
    with pytest.raises(DataError, match="min_data_in_leaf=1"):
        boostrank.train(params | {"min_data_in_leaf": 20}, tiny, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_num_iteration_means_the_same_on_both_engines(backend: str) -> None:
    data = make_dataset(0)
    model = boostrank.train({"objective": "sdcg", **FAST}, data, 4, backend=backend)
    everything = model.predict(data)
    for rounds in (0, -1, 4, 100):
        np.testing.assert_array_equal(model.predict(data, num_iteration=rounds), everything)
    assert np.abs(model.predict(data, num_iteration=2) - everything).max() > 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
def test_predicting_from_several_threads_is_safe(backend: str) -> None:
    data = make_dataset(0)
    model = boostrank.train({"objective": "sdcg", **FAST}, data, 4, backend=backend)
    expected, failures = model.predict(data, threads=1), []
    trees, body = model.num_trees(), model.to_bytes()

    def work(threads: int) -> None:
        try:
            for _ in range(30):
                np.testing.assert_array_equal(model.predict(data, threads=threads), expected)
                assert (model.num_trees(), model.to_bytes()) == (trees, body)
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(1 + i % 2,)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


@pytest.mark.parametrize("backend", BACKENDS)
def test_whatever_the_parameters_were_the_model_can_be_saved(backend: str, tmp_path: Path) -> None:
    data = make_dataset(0)
    model = boostrank.train(
        {
            "objective": "sdcg",
            "eval_at": list(np.array([1, 5])),
            **FAST,
            "learning_rate": np.float32(0.1),
        },
        data,
        2,
        valid_sets=[data],
        feval=lambda scores, dataset: ("broken", float("nan"), True),
        backend=backend,
    )
    model.save(tmp_path / "model")
    assert boostrank.RankingModel.load(tmp_path / "model").evals_result["training"]["broken"] == [
        None,
        None,
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_early_stopping_does_not_go_with_dart(backend: str) -> None:
    params = {"objective": "sdcg", "boosting": "dart", "early_stopping_round": 3, **FAST}
    with pytest.raises(ParameterError, match="dart"):
        boostrank.train(params, make_dataset(0), 5, valid_sets=[make_dataset(1)], backend=backend)


@pytest.mark.parametrize(
    "name", ["rate_drop", "one_drop", "skip_drop", "sample_type", "normalize_type"]
)
def test_xgboosts_parameters_of_dart_are_refused(name: str) -> None:
    pytest.importorskip("xgboost")
    params = {"objective": "sdcg", name: 1, **FAST}
    with pytest.raises(ParameterError, match=f"^{name} is not supported: .*lightgbm"):
        boostrank.train(params, make_dataset(0), 5, backend="xgboost")


def test_a_model_of_another_objective_keeps_its_name(tmp_path: Path) -> None:
    data = make_dataset(0)
    native = lgb.train(
        {"objective": "binary", "verbosity": -1},
        lgb.Dataset(data.features, (data.labels > 1).astype(float)),
        3,
    )
    native.save_model(tmp_path / "theirs.txt")
    boostrank.RankingModel.load(tmp_path / "theirs.txt").save(tmp_path / "again.txt")
    again = lgb.Booster(model_file=tmp_path / "again.txt")
    np.testing.assert_array_equal(again.predict(data.features), native.predict(data.features))


def test_a_continued_xgboost_model_keeps_its_own_start() -> None:
    data = make_dataset(0)
    matrix = xgb.DMatrix(data.features, data.labels, group=data.queries.sizes)
    theirs = xgb.train(
        {"base_score": 2.5, "objective": "reg:squarederror", "max_depth": 2}, matrix, 1
    )
    ours = boostrank.train(
        {"objective": "regression", **FAST}, data, 1, init_model=theirs, backend="xgboost"
    )
    first = ours.predict(data, num_iteration=1)
    np.testing.assert_allclose(first, theirs.predict(matrix, output_margin=True), rtol=1e-6)


def test_best_score_says_nothing_about_rounds_it_did_not_see(tmp_path: Path) -> None:
    data = make_dataset(0)
    first = boostrank.train({"objective": "sdcg", **FAST}, data, 5)
    second = boostrank.train(
        {"objective": "sdcg", **FAST}, data, 3, valid_sets=[data], init_model=first
    )
    second.save(tmp_path / "model.txt", num_iteration=2)
    assert boostrank.RankingModel.load(tmp_path / "model.txt").best_score == {"training": {}}


@pytest.mark.parametrize(
    ("ids", "message"),
    [([None, None, None], "row 0 has no query id"), (["a", None, "b"], "row 1 has no query id")],
)
def test_missing_query_ids_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        boostrank.QueryIndex.from_ids(np.array(ids, dtype=object))


def test_dates_are_no_features() -> None:
    dates = pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pytest.raises(DataError, match="contains times"):
        RankingDataset.from_arrays(dates, [0, 1], group=[2])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("streamed", [False, True])
def test_data_without_a_single_feature_are_refused(
    backend: str, streamed: bool, tmp_path: Path
) -> None:
    (tmp_path / "bare").write_text("".join(f"{i % 3} qid:{i // 5}\n" for i in range(20)))
    data = (stream_libsvm if streamed else read_libsvm)(tmp_path / "bare")
    for objective in ("sdcg", "auto"):  # the second begins with a linear start
        with pytest.raises(DataError, match="no features"):
            boostrank.train({"objective": objective, **FAST}, data, 3, backend=backend)
