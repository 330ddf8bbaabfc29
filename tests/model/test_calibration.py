"""Calibrated scores: the map, its record and its check."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, DataWarning, ModelError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import bootstrap_intervals
from boostrank.data.dataset import RankingDataset
from boostrank.metrics import BoundMetrics, Conventions, Metric
from boostrank.model.calibration import reliability
from boostrank.model.ranking_model import calibrated_scores
from tests.model.conftest import CALIBRATION, make_graded_dataset


@pytest.fixture(scope="module")
def model() -> boostrank.RankingModel:
    return boostrank.train(CALIBRATION, make_graded_dataset(0), num_boost_round=10)


@pytest.fixture(scope="module")
def calibrated_model(model: boostrank.RankingModel) -> boostrank.RankingModel:
    return boostrank.calibrate(model, make_graded_dataset(1))


def test_no_document_changes_its_place(calibrated_model: boostrank.RankingModel) -> None:
    data = make_graded_dataset(2)
    scores, values = calibrated_model.predict(data), calibrated_model.predict(data, calibrated=True)
    assert np.array_equal(
        np.unique(scores, return_inverse=True)[1], np.unique(values, return_inverse=True)[1]
    )
    metrics = [Metric.parse("ndcg@1,3,10"), Metric.parse("map")]
    for ties in ("expected", "input", "pessimistic"):
        bound = BoundMetrics(metrics, data.labels, data.queries, Conventions(ties=ties))
        before, after = bound.per_query(scores), bound.per_query(values)
        assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)


def test_scores_that_differ_in_their_last_digit_keep_their_order() -> None:
    record: Any = {"scores": [-1.0, 0.5, 2.0], "values": [0.1, 0.100001, 1.9], "ends": [0.0, 2.0]}
    rng = np.random.default_rng(0)
    scores = rng.choice([-1e9, -7.0, -1.0, 0.0, 0.3, 0.5, 1.7, 2.0, 40.0, 1e9], 400)
    scores = np.where(rng.random(400) < 0.5, np.nextafter(scores, np.inf), scores)
    values = calibrated_scores(record, scores)
    order = np.argsort(scores, kind="stable")
    assert np.array_equal(np.sign(np.diff(scores[order])), np.sign(np.diff(values[order])))
    assert 0.0 < values.min() < values.max() < 2.0
    assert np.allclose(calibrated_scores(record, np.array(record["scores"])), record["values"])


def test_the_record_keeps_the_map(
    model: boostrank.RankingModel, calibrated_model: boostrank.RankingModel, tmp_path: Path
) -> None:
    calibrated_model.save(tmp_path / "known.txt")
    model.save(tmp_path / "model.txt")
    again = boostrank.RankingModel.load(tmp_path / "known.txt")
    assert (tmp_path / "known.txt").read_bytes() == (tmp_path / "model.txt").read_bytes()
    assert again.info.calibration == calibrated_model.info.calibration
    assert np.array_equal(
        again.predict(make_graded_dataset(2), calibrated=True),
        calibrated_model.predict(make_graded_dataset(2), calibrated=True),
    )
    assert (
        boostrank.calibrate(tmp_path / "model.txt", make_graded_dataset(1)).info.calibration
        == calibrated_model.info.calibration
    )


def test_error_and_shares_are_of_queries_left_out(calibrated_model: boostrank.RankingModel) -> None:
    data, record = make_graded_dataset(1), calibrated_model.info["calibration"]
    assert record["queries"] == 60
    assert record["rows"] == data.n_documents
    error, low, high = record["error"]
    assert low <= error < high
    assert error < 0.3 * record["uncalibrated_error"]
    fresh = make_graded_dataset(3, 600)
    values = calibrated_model.predict(fresh, calibrated=True)
    explained = 1.0 - np.var(fresh.labels - values) / np.var(fresh.labels)
    assert record["explained"] == pytest.approx(explained, abs=0.08)


def test_labels_of_two_grades_give_probabilities(model: boostrank.RankingModel) -> None:
    data, fresh = make_graded_dataset(1), make_graded_dataset(3, 600)
    data = replace(data, labels=(data.labels >= 2).astype(np.float64))
    fresh = replace(fresh, labels=(fresh.labels >= 2).astype(np.float64))
    values = boostrank.calibrate(model, data).predict(fresh, calibrated=True)
    assert 0.0 < values.min() < values.max() < 1.0
    assert values.mean() == pytest.approx(fresh.labels.mean(), abs=0.03)


def test_bins_are_compared_with_their_grades() -> None:
    data = make_graded_dataset(4)
    weighted = QueryIndex(
        data.queries.ptr, data.queries.qid, np.linspace(1.0, 3.0, len(data.queries))
    )
    values = np.random.default_rng(0).normal(size=data.n_documents).round(1)
    calibration = reliability(values, data.labels, weighted)
    weights = weighted.each_weight[weighted.of_rows()]
    bins = np.split(np.argsort(values, kind="stable"), np.cumsum(calibration.documents)[:-1])
    assert calibration.documents.sum() == values.size
    assert np.ptp(calibration.documents) < values.size / 10
    for i, rows in enumerate(bins):
        assert calibration.predicted[i] == pytest.approx(
            np.average(values[rows], weights=weights[rows])
        )
        assert calibration.observed[i] == pytest.approx(
            np.average(data.labels[rows], weights=weights[rows])
        )
        assert calibration.low[i] < calibration.observed[i] < calibration.high[i]
    size = [weights[rows].sum() for rows in bins]
    assert calibration.error[0] == pytest.approx(
        np.average(np.abs(calibration.predicted - calibration.observed), weights=size)
    )
    # One bin: the interval of the weighted mean of queries.
    single_bin = reliability(values, data.labels, weighted, bins=1)
    of_query = np.add.reduceat(data.labels, weighted.ptr[:-1]) / weighted.sizes
    ends = bootstrap_intervals(of_query[:, None], weighted.each_weight * weighted.sizes)
    assert (single_bin.low[0], single_bin.high[0]) == pytest.approx((ends[0][0], ends[1][0]))


def test_data_that_cannot_tell_are_refused(model: boostrank.RankingModel) -> None:
    data, rng = make_graded_dataset(1), np.random.default_rng(0)
    with pytest.raises(DataError, match="trained"):
        boostrank.calibrate(model, make_graded_dataset(0))
    for labels in (
        np.ones(data.n_documents),
        rng.permutation(data.labels),
        data.labels.max() - data.labels,
    ):
        with pytest.raises(DataError, match="do not say"):
            boostrank.calibrate(model, RankingDataset(data.features, labels, data.queries))
    with pytest.raises(DataError, match="do not say"):
        boostrank.calibrate(model, data.take([0]))


def test_data_that_tell_little_cause_a_warning(
    model: boostrank.RankingModel, tmp_path: Path
) -> None:
    with pytest.warns(DataWarning, match="12 queries"):
        boostrank.calibrate(model, make_graded_dataset(5, 12))
    data = make_graded_dataset(1)
    # The same file, with other queries or not.
    rows = zip(data.labels, data.queries.of_rows(), data.features, strict=True)
    lines = [f"{y:g} qid:{q} 1:{x[0]} 2:{x[1]} 3:{x[2]}" for y, q, x in rows]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    read = boostrank.read(tmp_path / "data.txt")
    model_of_file = boostrank.train(CALIBRATION, read.take(np.arange(30)), num_boost_round=5)
    with pytest.warns(DataWarning, match=r"data\.txt"):
        boostrank.calibrate(model_of_file, read.take(np.arange(30, 60)))


def test_the_map_is_for_the_rounds_it_was_fitted_to(
    model: boostrank.RankingModel, calibrated_model: boostrank.RankingModel, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="calibrate"):
        model.predict(make_graded_dataset(2), calibrated=True)
    for options in (
        {"num_iteration": 3},
        {"pred_contrib": True},
        {"pred_leaf": True},
        {"start_iteration": 2},
    ):
        with pytest.raises(ParameterError, match="calibrated"):
            calibrated_model.predict(make_graded_dataset(2), calibrated=True, **options)
    expected = calibrated_model.predict(make_graded_dataset(2), calibrated=True)
    assert np.array_equal(
        calibrated_model.predict(make_graded_dataset(2), calibrated=True, num_iteration=10),
        expected,
    )  # all rounds
    with pytest.warns(DataWarning, match="calibration"):
        calibrated_model.save(tmp_path / "short.txt", num_iteration=3)
    assert boostrank.RankingModel.load(tmp_path / "short.txt").info.calibration is None
    assert boostrank.average([calibrated_model, model]).info.calibration is None
    more = boostrank.train(
        CALIBRATION, make_graded_dataset(0), num_boost_round=2, init_model=calibrated_model
    )
    assert more.info.calibration is None


def test_an_export_says_that_it_has_raw_scores(
    calibrated_model: boostrank.RankingModel, tmp_path: Path
) -> None:
    with pytest.warns(DataWarning, match="raw scores"):
        boostrank.export_model(calibrated_model, tmp_path / "solr.json", "solr")


@pytest.mark.parametrize("name", ["sparse-long", "ohsumed"])
def test_a_tenth_of_the_error_on_real_data(name: str, data_root: Path) -> None:
    folders = (
        [data_root / name]
        if name == "sparse-long"
        else [data_root / name / f"Fold{i}" for i in range(1, 6)]
    )
    raw, values, labels, sizes = [], [], [], []
    for folder in folders:
        # Train on one part, calibrate on another.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            train = boostrank.read(folder / "train.txt")
            test = boostrank.read(folder / "test.txt", like=train)
            if (folder / "vali.txt").exists():
                unseen = boostrank.read(folder / "vali.txt", like=train)
            else:
                chosen = np.random.default_rng(0).permutation(len(train.queries))
                unseen, train = train.take(chosen[:800]), train.take(chosen[800:])
            model = boostrank.train(
                {"objective": "lambdarank", "verbosity": -1}, train, num_boost_round=20
            )
            calibrated = boostrank.calibrate(model, unseen)
        # Calibrated values have the order of the scores.
        scores = test.in_row_order(calibrated.predict(test, calibrated=False))
        after = test.in_row_order(calibrated.predict(test, calibrated=True))
        bound = BoundMetrics([Metric.parse("ndcg@1,10")], test.labels, test.queries)
        before, now = bound.per_query(scores), bound.per_query(after)
        assert all(np.array_equal(before[metric], now[metric], equal_nan=True) for metric in before)
        raw, values, labels = [*raw, scores], [*values, after], [*labels, test.labels]
        sizes += test.queries.sizes.tolist()
    # They err a tenth as much, over the test parts together.
    queries, grades = QueryIndex.from_sizes(sizes), np.concatenate(labels)
    uncalibrated = reliability(np.concatenate(raw), grades, queries)
    calibration = reliability(np.concatenate(values), grades, queries)
    assert calibration.error[0] < 0.1 * uncalibrated.error[0]
    assert (calibration.low <= calibration.observed).all()
