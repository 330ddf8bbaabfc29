"""A model for each fold, averaged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from boostrank import RankingDataset, RankingModel, train
from boostrank.core.errors import InputError, ParameterError
from boostrank.data.rows import Whole
from boostrank.engines.engine_params import Limits
from boostrank.fit.callbacks import EarlyStopping
from boostrank.fit.execute import Folds, execute
from boostrank.fit.resolve import resolve
from boostrank.fit.start import cross_fit
from boostrank.fit.start import ridge as start_rows
from boostrank.metrics import BoundMetrics
from boostrank.options import TrainOptions
from tests.fit.conftest import make_short_lists, train_folds

PARAMS: dict[str, Any] = {
    "objective": "regression",
    "verbosity": -1,
    "num_threads": 1,
    "min_sum_hessian_in_leaf": 3.0,
    "eval_at": [3, 5],
    "feature_fraction": 0.6,
    "early_stopping_round": 5,
    "seed": 7,
}
ENGINES = ["lightgbm", "xgboost"]
pytestmark = pytest.mark.usefixtures("leaves_as_grown")


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_short_lists(50, 2)


@pytest.fixture(scope="module")
def coarse(data: RankingDataset) -> RankingDataset:
    """So few values that each fold's own bins are those of all rows; queries have weights."""
    queries = replace(
        data.queries, weights=np.array([0.5, 1.5, 2.5])[np.arange(len(data.queries)) % 3]
    )
    return replace(
        data, features=np.round(np.clip(data.features, -1.0, 1.0)) + 1.0, queries=queries
    )


def parts_of(
    data: RankingDataset, folds: int, seed: int
) -> list[tuple[RankingDataset, RankingDataset]]:
    """(to train on, held out) of each fold."""
    (training,) = resolve(TrainOptions(params={"objective": "regression"}), data).trainings
    fold = Folds(training, folds, seed).fold
    return [
        (data.take(np.flatnonzero(fold != f)), data.take(np.flatnonzero(fold == f)))
        for f in range(folds)
    ]


def alone(
    params: dict[str, Any], data: RankingDataset, rounds: int = 12, **options: Any
) -> list[RankingModel]:
    """A training for each fold that shares nothing."""
    parts = enumerate(parts_of(data, 3, 7))
    return [
        train(params | {"seed": 7 + k}, outside, rounds, [inside], ["held out"], **options)
        for k, (outside, inside) in parts
    ]


def test_folds_hold_out_each_query_once_and_cut_none(data: RankingDataset) -> None:
    parts = parts_of(data, 4, 7)
    assert sorted(np.concatenate([inside.queries.qid for _, inside in parts])) == sorted(
        data.queries.qid
    )
    for outside, inside in parts:
        assert not set(outside.queries.qid) & set(inside.queries.qid)
        assert outside.n_documents + inside.n_documents == data.n_documents
        assert len(inside.queries) in (12, 13)


@pytest.mark.parametrize("within", [None, "zscore"])
def test_the_model_is_the_mean_of_trainings_that_stop_on_their_folds(
    data: RankingDataset, within: str | None
) -> None:
    # Each training is measured on the queries that it did not see.
    averaged, seen = train_folds(PARAMS, data, 40, within_query=within)
    by_fold = []
    for model, (_, inside) in zip(seen, parts_of(data, 3, 7), strict=True):
        measured = BoundMetrics(["ndcg@5"], inside.labels, inside.queries)
        by_fold.append(measured.per_query(model.predict(inside))["ndcg@5"])
        assert model.best_score["held out"]["ndcg@5"] == pytest.approx(
            np.nanmean(by_fold[-1]), abs=1e-12
        )
    # The model is the mean of them.
    mean = np.mean([model.predict(data) for model in seen], axis=0)
    np.testing.assert_allclose(averaged.predict(data), mean, atol=1e-12)
    # Its record counts every query once.
    record = averaged.info["folds"]
    assert record["rounds"] == [model.best_iteration for model in seen]
    assert min(record["rounds"]) < max(record["rounds"]) < 40
    values = np.concatenate(by_fold)
    counted = values[~np.isnan(values)]
    assert record["held_out"]["ndcg@5"]["value"] == pytest.approx(counted.mean(), abs=1e-12)
    assert record["held_out"]["ndcg@5"]["queries"] == counted.size
    assert (
        record["held_out"]["ndcg@5"]["low"] < counted.mean() < record["held_out"]["ndcg@5"]["high"]
    )
    assert set(record["held_out"]) == {"ndcg@3", "ndcg@5"}
    assert averaged.info.data is not None
    assert (averaged.info.data["rows"], averaged.info.data["fingerprint"]) == (
        data.n_documents,
        data.fingerprint,
    )


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_each_model_is_that_of_a_training_which_shares_no_bins(
    coarse: RankingDataset, storage: Any, backend: str
) -> None:
    data = replace(coarse, features=storage(coarse.features))
    directions = {"monotone_constraints": [0, 1, 0, -1]}
    _, seen = train_folds(PARAMS | directions, data, backend=backend)
    for model, other in zip(seen, alone(PARAMS | directions, data, backend=backend), strict=True):
        np.testing.assert_array_equal(model.predict(data), other.predict(data))
        assert model.evals_result == other.evals_result


@pytest.mark.parametrize("objective", ["lightgbm:lambdarank", "xgboost:rank:ndcg"])
def test_the_engines_objectives_see_the_sizes_and_weights_of_a_folds_queries(
    coarse: RankingDataset, objective: str
) -> None:
    backend = objective.partition(":")[0]
    params = {"objective": objective, "verbosity": -1, "num_threads": 1, "seed": 7}
    averaged, seen = train_folds(params, coarse, 5, backend=backend)
    for model, other in zip(seen, alone(params, coarse, 5, backend=backend), strict=True):
        np.testing.assert_array_equal(model.predict(coarse), other.predict(coarse))
    assert averaged.info["folds"]["rounds"] == [5, 5, 5]


@pytest.mark.parametrize("backend", ENGINES)
def test_no_label_of_a_fold_is_in_the_model_that_holds_it_out(
    data: RankingDataset, backend: str
) -> None:
    params = PARAMS | {"early_stopping_round": 0}
    (_, before), (_, inside) = (
        train_folds(params, data, 5, backend=backend, start="linear"),
        parts_of(data, 3, 7)[1],
    )
    changed = data.labels.copy()
    of_fold = np.isin(data.queries.row_ids(), inside.queries.qid)
    changed[of_fold] = 3.0 - changed[of_fold]
    _, after = train_folds(
        params, replace(data, labels=changed), 5, backend=backend, start="linear"
    )
    assert [a.to_bytes() == b.to_bytes() for a, b in zip(before, after, strict=True)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("backend", ENGINES)
def test_threads_and_lookers_on_change_no_byte(data: RankingDataset, backend: str) -> None:
    params = PARAMS | {"early_stopping_round": 0}
    averaged, _ = train_folds(params, data, 5, backend=backend, start="linear")
    again = train(params | {"num_threads": 2}, data, 5, folds=3, backend=backend, start="linear")
    assert averaged.to_bytes() == again.to_bytes()
    assert averaged.info["folds"]["held_out"]["ndcg@5"] == pytest.approx(
        again.info["folds"]["held_out"]["ndcg@5"]
    )


def test_starts_of_folds_are_those_of_the_same_sums(
    data: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(data.queries)
    fold, inner = np.arange(count) % 4, np.arange(count) // 4 % start_rows.FOLDS
    shared, apart = cross_fit.FoldStarts(fold, inner), cross_fit.FoldStarts(fold, inner)
    whole, limits = Whole(data), Limits.none(data.n_features)
    for k in range(4):
        part = whole.part(np.flatnonzero(fold != k))
        of_shared = shared.without(k, part, "exponential", 1, limits)
        with monkeypatch.context() as patched:
            patched.setattr(cross_fit, "_NUMBERS_SHARED", 0)
            assert_same(
                apart.without(k, part, "exponential", 1, limits),
                cross_fit.cross_fitted(part, "exponential"),
                0.0,
            )
            # The same folds in folds, and quantiles: those of the part are about those of all rows.
            patched.setattr(start_rows, "folds", lambda _, k=k: inner[fold != k])
            assert_same(
                of_shared,
                cross_fit.cross_fitted(data.take(np.flatnonzero(fold != k)), "exponential"),
                0.05,
            )


def test_a_fold_may_be_one_query() -> None:
    few = make_short_lists(12, 2)
    _, seen = train_folds(PARAMS | {"early_stopping_round": 0}, few, 1, folds=12, start="linear")
    assert min(np.ptp(model.predict(few)) for model in seen) > 0.5


def test_folds_measure_a_function_on_scores_of_models_only(data: RankingDataset) -> None:
    def spread(labels: Any, scores: Any) -> float:
        if np.ptp(scores) == 0.0:
            raise ValueError("the scores are equal")
        return float(np.ptp(scores))

    params = PARAMS | {"early_stopping_round": 0, "metric": ["ndcg", spread]}
    model = train(params, data, 5, folds=2, start="linear")
    assert model.info["folds"]["rounds"] == [5, 5]


def assert_same(first: cross_fit.CrossFitted, second: cross_fit.CrossFitted, least: float) -> None:
    """Scores that correlate but for so much, and are the same where it is nothing."""
    if least == 0.0:
        np.testing.assert_array_equal(first.scores, second.scores)
    else:  # of equal scores it may be a bit below 1
        assert np.corrcoef(first.scores, second.scores)[0, 1] >= 1.0 - least


def test_early_stopping_of_xgboost_begins_anew_in_each_fold(data: RankingDataset) -> None:
    xgboost = pytest.importorskip("xgboost")
    params = {name: PARAMS[name] for name in PARAMS if name != "early_stopping_round"}
    callbacks = [
        xgboost.callback.EarlyStopping(rounds=3, metric_name="ndcg@5", maximize=True),
        EarlyStopping(3, metric="ndcg@5"),
    ]
    rounds, expected = (
        train(params, data, 30, folds=3, backend="xgboost", callbacks=[callback]).info.folds
        for callback in callbacks
    )
    assert rounds["rounds"] == expected["rounds"] != [expected["rounds"][0], 1, 1]


def test_early_stopping_of_xgboost_counts_from_the_first_round(data: RankingDataset) -> None:
    xgboost = pytest.importorskip("xgboost")
    stop = xgboost.callback.EarlyStopping(rounds=3, metric_name="ndcg@5", maximize=True)
    params = PARAMS | {"objective": "reg-shf-sdcg", "early_stopping_round": 0}
    ours = EarlyStopping(3, metric="ndcg@5")
    best_rounds = [
        train(
            params, data, 20, [data.take(np.arange(10))], backend="xgboost", callbacks=[callback]
        ).best_iteration
        for callback in (stop, ours)
    ]
    assert best_rounds[0] == best_rounds[1] > 10  # settled in the middle


def test_a_training_of_folds_can_end_after_a_fold(data: RankingDataset) -> None:
    plan = resolve(TrainOptions(params=PARAMS, rounds=5, folds=4), data)
    average = execute(plan, lambda k, *_: k < 1)
    assert len(average.info["folds"]["rounds"]) == 2
    assert average.best_iteration == sum(average.info["folds"]["rounds"])


def test_folds_that_cannot_be_averaged_are_refused_before_all_are_trained(
    data: RankingDataset,
) -> None:
    begun: list[int] = []

    def count_begun(env: Any) -> None:
        if env.iteration == env.begin_iteration:
            begun.append(env.iteration)

    with pytest.raises(InputError, match="averaged"):
        train(
            {"objective": "sdcg"},
            data,
            2,
            folds=5,
            backend="linear",
            callbacks=[count_begun],
        )
    assert begun == []


def test_more_folds_than_queries_are_refused(data: RankingDataset) -> None:
    with pytest.raises(ParameterError, match=r"folds=51 .* 50"):
        train(PARAMS, data, folds=51)
