"""The section on click data, every number by slow loops that share nothing with it but the estimate
of propensities.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.clicks.estimation import estimate_propensities
from boostrank.clicks.log import ClickLog, Propensities
from boostrank.clicks.simulate import simulate_clicks
from boostrank.core.errors import DataError
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting import Report, report
from boostrank.reporting.sections.clicks import (
    ClickData,
    click_data,
    curve_chart,
    read_trained_clicks,
)
from tests.clicks.conftest import list_entries
from tests.reporting.studies import study, words_of

for _module in ("pandas", "altair", "vl_convert"):
    pytest.importorskip(_module, reason="the page's charts need the extra `report`")

PARAMS = {
    "objective": "lambdarank",
    "num_leaves": 7,
    "num_threads": 1,
    "verbosity": -1,
    "min_data_in_leaf": 5,
}
ETA = 1.0


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(60, seed=4, mean_length=14).dataset


@pytest.fixture(scope="module")
def log(data: RankingDataset) -> ClickLog:
    scores = np.asarray(data.features[:, 8], float)
    return simulate_clicks(
        data.labels, data.queries, np.nan_to_num(scores), impressions=60, shown=6, spread=0.7
    )


@pytest.fixture(scope="module")
def old(data: RankingDataset) -> np.ndarray:
    return np.round(np.nan_to_num(np.asarray(data.features[:, 7], float)), 1)


@pytest.fixture(scope="module")
def model(data: RankingDataset, log: ClickLog) -> RankingModel:
    curve = estimate_propensities(log, data.queries)
    return boostrank.train(PARAMS | {"gain": "linear"}, log.training_set(data, curve, 0.5), 6)


@pytest.fixture(scope="module")
def click_report(
    model: RankingModel, data: RankingDataset, log: ClickLog, old: np.ndarray
) -> Report:
    return report(
        model,
        data,
        "ndcg@5",
        clicks=log,
        baseline=old,
        baseline_name="old",
        only=["clicks"],
        threads=1,
    )


def text_of(click_report: Report) -> str:
    (section,) = [section for section in click_report.sections if section.name == "clicks"]
    return words_of(section)


def test_the_report_has_clicks_and_propensities_by_position(
    click_report: Report, data: RankingDataset, log: ClickLog
) -> None:
    curve = estimate_propensities(log, data.queries)
    assert curve.errors is not None
    frame = click_report.frames["click positions"].set_index("position")
    assert frame.index.tolist() == [1, 2, 3, 4, 5, 6]
    for p, row in frame.iterrows():
        assert row["impressions"] == sum(n for _, at, n, _ in list_entries(log) if at == p)
        assert row["clicks"] == sum(c for _, at, _, c in list_entries(log) if at == p)
        assert row["rate"] == pytest.approx(row["clicks"] / row["impressions"])
        e, error = curve.examination[p - 1], curve.errors[p - 1]
        assert row["propensity"] == pytest.approx(e)
        assert (row["low"], row["high"]) == pytest.approx(
            (e * np.exp(-1.96 * error), e * np.exp(1.96 * error))
        )
    chart = click_report.charts["clicks-propensities"]
    np.testing.assert_array_equal(chart.frame["propensity"], frame["propensity"])
    assert f"{curve.examination[5]:.2f} at position 6" in chart.description
    positions = Counter(row for row, *_ in list_entries(log))
    moved = {row for row, count in positions.items() if count > 1}
    clicked = {row for row, _, _, c in list_entries(log) if c}
    assert click_report.clicks.moved == pytest.approx(len(moved & clicked) / len(clicked))
    assert f" from {len(moved & clicked)} clicked documents" in text_of(click_report)


def test_documents_that_were_never_shown(
    click_report: Report, model: RankingModel, data: RankingDataset, log: ClickLog
) -> None:
    shown_rows = {row for row, *_ in list_entries(log)}
    click_data: ClickData = click_report.clicks
    assert (click_data.documents, click_data.shown) == (data.n_documents, len(shown_rows))
    assert click_data.prior == 0.5  # as the model was trained with
    scores = model.predict(data)
    tops = [a + np.argsort(-scores[a:b], kind="stable")[:10] for a, b in pairwise(data.queries.ptr)]
    assert click_data.top_shown == pytest.approx(
        np.mean([row in shown_rows for row in np.concatenate(tops).tolist()])
    )


def test_any_order_of_rows_gives_the_same(
    click_report: Report, model: Any, data: RankingDataset, log: ClickLog
) -> None:
    order = np.random.default_rng(1).permutation(data.n_documents)
    other = RankingDataset.from_arrays(
        data.features[order],
        data.labels[order],
        qid=data.queries.row_ids()[order],
        sort=True,
        feature_names=data.feature_names,
    )
    number = np.argsort(order)  # old row -> row of the file
    same = report(
        model,
        other,
        "ndcg@5",
        clicks=log.renumbered(number),
        only=["clicks"],
        threads=1,
    )
    mine, theirs = click_report.clicks, same.clicks
    np.testing.assert_allclose(mine.propensities.errors, theirs.propensities.errors)
    assert (mine.shown, mine.top_shown) == (theirs.shown, pytest.approx(theirs.top_shown))


def test_without_moves_the_models_propensities_serve(
    model: RankingModel, data: RankingDataset, log: ClickLog
) -> None:
    # A log where each document is at one position.
    first = np.unique(log.rows, return_index=True)[1]
    still = ClickLog(
        log.rows[first],
        log.positions[first],
        log.impressions[first],
        log.clicks[first],
        log.n_documents,
    )
    click_report = report(
        model,
        data,
        "ndcg@5",
        clicks=still,
        only=["clicks"],
        threads=1,
    )
    assert click_report.clicks.origin == "model"
    # A model without propensities cannot lend them.
    plain = boostrank.train(PARAMS, data, 2)
    plain_report = report(
        plain, data, "ndcg@5", clicks=still, only=["clicks", "verdict"], threads=1
    )
    assert "no clicked document was shown both at position 1" in plain_report.missing["clicks"]


def test_given_propensities_may_lack_positions(
    model: RankingModel, data: RankingDataset, log: ClickLog
) -> None:
    def by(curve: Propensities) -> ClickData:
        return click_data(study(data, model=model, clicks=log, propensities=curve))

    assert by(Propensities(np.arange(1.0, 7.0) ** -ETA)).origin == "given"
    short = by(Propensities(np.arange(1.0, 5.0) ** -ETA))
    lost = sum(n for _, p, n, _ in list_entries(log) if p > 4)
    assert short.notes[0].startswith(f"{lost:,} of {log.impressions.sum():,} impressions")


def test_no_section_without_clicks_unless_it_is_asked_for(
    model: RankingModel, data: RankingDataset, log: ClickLog
) -> None:
    plain_report = report(model, data, "ndcg@5", only=["verdict"], threads=1)
    assert "clicks" not in [section.name for section in plain_report.sections]
    with pytest.raises(DataError, match="no click log"):
        report(model, data, "ndcg@5", only=["clicks"], threads=1)
    none = replace(log, clicks=np.zeros_like(log.clicks))
    with pytest.raises(DataError, match="has no clicks"):
        report(model, data, "ndcg@5", only=["clicks"], clicks=none, threads=1)


def test_the_record_of_a_stranger_is_not_taken_for_granted(model: RankingModel) -> None:
    propensities, prior = read_trained_clicks(model)
    assert propensities is not None
    assert prior == 0.5
    for junk in (
        None,
        [],
        {"reader": 4},
        {"reader": {"clicks": []}},
        {"reader": {"clicks": {"propensities": {}}}},
        {"reader": {"clicks": {"propensities": {"version": 1, "examination": [1, 10**400]}}}},
        {"reader": {"clicks": {"propensities": {"version": 1, "examination": [0.5]}}}},
    ):
        other = copy.copy(model)
        other.info = model.info | {"data": junk}
        assert read_trained_clicks(other) == (None, 1.0)
    curve = {"version": 1, "examination": [1, 0.5]}
    for clicks, prior in (
        ({"propensities": None, "prior": 0.25}, 0.25),
        ({"propensities": curve, "prior": True}, 1.0),
    ):
        other.info = model.info | {"data": {"reader": {"clicks": clicks}}}
        assert read_trained_clicks(other)[1] == prior


def test_an_interval_that_says_nothing_does_not_squeeze_the_picture() -> None:
    values = {"propensity": [1.0, 0.5, 0.25], "low": [1.0, 0.45, 1e-9], "high": [1.0, 0.55, 1e9]}
    chart = curve_chart({"position": [1, 2, 3], "rate": [0.3, 0.1, 0.05], **values})
    drawn = chart.spec()
    low, high = drawn["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert 0.05 < low < 0.25
    assert 1.0 < high < 4.0
