"""The section on click data, every number by slow loops that share nothing with it but the estimate of propensities."""

from __future__ import annotations

import copy
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
from boostrank.report import Report, report
from boostrank.report.sections.clicks import ClickData, click_data, curve_chart, learnt_from
from tests.report.studies import study, words_of

for _module in ("pandas", "altair", "vl_convert"):
    pytest.importorskip(_module, reason="the page's charts need the extra `report`")

PARAMS = {"objective": "lambdarank", "num_leaves": 7, "num_threads": 1, "verbosity": -1, "min_data_in_leaf": 5}
ETA = 1.0


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(60, seed=4, mean_length=14).dataset


@pytest.fixture(scope="module")
def log(data: RankingDataset) -> ClickLog:
    scores = np.asarray(data.features[:, 8], float)
    return simulate_clicks(data.labels, data.queries, np.nan_to_num(scores), impressions=60, shown=6, spread=0.7)


@pytest.fixture(scope="module")
def old(data: RankingDataset) -> np.ndarray:
    return np.round(np.nan_to_num(np.asarray(data.features[:, 7], float)), 1)


@pytest.fixture(scope="module")
def model(data: RankingDataset, log: ClickLog) -> RankingModel:
    curve = estimate_propensities(log, data.queries)
    return boostrank.train(PARAMS | {"gain": "linear"}, log.training_set(data, curve, 0.5), 6)


@pytest.fixture(scope="module")
def told(model: RankingModel, data: RankingDataset, log: ClickLog, old: np.ndarray) -> Report:
    return report(model, data, "ndcg@5", clicks=log, baseline=old, baseline_name="old", only=["clicks"], threads=1)


def entries(log: ClickLog) -> list[tuple[int, int, int, int]]:
    columns = (log.rows, log.positions, log.impressions, log.clicks)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def mean_rank(values: dict[int, float], row: int) -> float:
    """Of one among them: equal ones share the mean of their ranks."""
    above = sum(value > values[row] for value in values.values())
    return above + (1 + sum(value == values[row] for value in values.values())) / 2


def text_of(found: Report) -> str:
    (section,) = (one for one in found.sections if one.name == "clicks")
    return words_of(section)


def test_positions_and_propensities(told: Report, data: RankingDataset, log: ClickLog) -> None:
    curve = estimate_propensities(log, data.queries)
    assert curve.errors is not None
    frame = told.frames["click positions"].set_index("position")
    assert frame.index.tolist() == [1, 2, 3, 4, 5, 6]
    for p, row in frame.iterrows():
        assert row["impressions"] == sum(n for _, at, n, _ in entries(log) if at == p)
        assert row["clicks"] == sum(c for _, at, _, c in entries(log) if at == p)
        assert row["rate"] == pytest.approx(row["clicks"] / row["impressions"])
        e, error = curve.examination[p - 1], curve.errors[p - 1]
        assert row["propensity"] == pytest.approx(e)
        assert (row["low"], row["high"]) == pytest.approx((e * np.exp(-1.96 * error), e * np.exp(1.96 * error)))
    chart = told.charts["clicks-propensities"].frame.set_index(["curve", "position"])
    assert set(chart.index.get_level_values(0)) == {"of this log", "learnt with", "clicks an impression"}
    rates = chart.loc["clicks an impression", "propensity"]
    np.testing.assert_allclose(rates, frame["rate"] / frame["rate"][1])
    assert f"position 6 {curve.examination[5]:.2f} [" in told.charts["clicks-propensities"].description
    moved = {row for row, *_ in entries(log) if sum(r == row for r, *_ in entries(log)) > 1}
    clicked = {row for row, _, _, c in entries(log) if c}
    assert told.clicks.moved == pytest.approx(len(moved & clicked) / len(clicked))
    assert f"Estimated from {len(moved & clicked)} clicked documents" in text_of(told)


def test_exposure(told: Report, model: RankingModel, data: RankingDataset, log: ClickLog) -> None:
    e = estimate_propensities(log, data.queries).examination
    exposure: dict[int, float] = {}
    for row, p, n, _ in entries(log):
        exposure[row] = exposure.get(row, 0.0) + n * e[p - 1]
    found: ClickData = told.clicks
    assert (found.documents, found.shown) == (data.n_documents, len(exposure))
    assert found.exposure["documents"].sum() == len(exposure)
    for count, a, b in found.to_frame("exposure")[["documents", "begin", "end"]].itertuples(index=False):
        assert b == 2 * a
        assert count == sum(a <= x < b for x in exposure.values())
    most = sorted(exposure.values(), reverse=True)
    tenth = -(-len(most) // 10)
    assert found.top_tenth == pytest.approx(sum(most[:tenth]) / sum(most))
    text, never = text_of(told), data.n_documents - len(exposure)
    assert f"has {found.top_tenth:.0%} of all exposure; {never} of {data.n_documents} documents" in text
    scores, ptr = model.predict(data), data.queries.ptr
    for rank in (1, 3, 10):
        lists = [a + np.argsort(-scores[a:b], kind="stable") for a, b in pairwise(ptr)]
        rows = [int(one[rank - 1]) for one in lists if len(one) >= rank]
        assert found.known["shown"][rank - 1] == pytest.approx(np.mean([row in exposure for row in rows]))


def test_what_exposure_changes(told: Report, data: RankingDataset, log: ClickLog) -> None:
    e = estimate_propensities(log, data.queries).examination
    found: ClickData = told.clicks
    assert found.prior == 0.5  # as the model was trained with
    sums = np.zeros((4, data.n_documents))  # impressions, clicks, exposure, impressions times position
    for row, p, n, c in entries(log):
        sums[:, row] += (n, c, n * e[p - 1], n * p)
    changes, by_position, unchanged = {}, {}, []
    for a, b in zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True):
        shown = [row for row in range(a, b) if sums[0, row]]
        counts = {row: sums[1, row] for row in shown}
        gains = {row: sums[1, row] / (sums[2, row] + 0.5) for row in shown}
        if not any(counts.values()):
            continue
        for row in shown:
            changes[row] = mean_rank(counts, row) - mean_rank(gains, row)
            by_position.setdefault(round(sums[3, row] / sums[0, row]), []).append(changes[row])
        unchanged.append(all(changes[row] == 0.0 for row in shown))
    assert found.same_order == pytest.approx(np.mean(unchanged))
    found_by = told.frames["click changes"].set_index("position")
    assert found_by.index.tolist() == sorted(by_position)
    for position, one in found_by.iterrows():
        assert one["documents"] == len(by_position[position])
        assert one["change"] == pytest.approx(np.mean(by_position[position]))
    assert found_by["change"].idxmin() < found_by["change"].idxmax()
    moves = told.frames["click moves"]
    assert np.abs(moves["change"]).tolist() == sorted(np.abs(list(changes.values())), reverse=True)[: len(moves)]
    for one in moves.itertuples():
        row = int(one.document.removeprefix("row ")) - 1
        assert str(data.queries.qid[data.queries.of_row(row)]) == one.qid
        assert one.change == changes[row]
        assert (one.impressions, one.clicks) == (sums[0, row], sums[1, row])
        assert (one.exposure, one.gain) == pytest.approx((sums[2, row], sums[1, row] / (sums[2, row] + 0.5)))
        assert one.position == pytest.approx(sums[3, row] / sums[0, row])


def test_the_other_ranker(told: Report, model: RankingModel, data: RankingDataset, log: ClickLog, old: Any) -> None:
    e, new = estimate_propensities(log, data.queries).examination, model.predict(data)
    clicks, exposure = np.zeros((2, data.n_documents))
    for row, p, n, c in entries(log):
        clicks[row] += c
        exposure[row] += n * e[p - 1]
    gains = np.divide(clicks, exposure, out=np.zeros(clicks.size), where=exposure > 0.0)
    expected = {}
    for q, (a, b) in enumerate(zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True)):
        weights, values = np.zeros((2, b - a)), []
        for i, s in enumerate((old[a:b], new[a:b])):
            order = np.argsort(-s, kind="stable")[:10]
            weights[i, order] = 1.0 / np.log2(np.arange(2, len(order) + 2))
            tied = np.array([gains[a:b][s == one].mean() for one in s])  # the mean over orders of equal scores
            values.append(tied[order] @ weights[i, order] if gains[a:b].any() else np.nan)
        differs = np.abs(weights[1] - weights[0]).sum() / weights.sum()
        top = a + np.argsort(-new[a:b], kind="stable")[:10]
        expected[str(data.queries.qid[q])] = (differs, *values, np.mean(exposure[top] > 0.0))
    against = told.clicks.against
    assert against.name == "old"
    assert against.differs == pytest.approx(np.mean([one[0] for one in expected.values()]))
    most = sorted((one[0] for one in expected.values()), reverse=True)
    queries = told.frames["click queries"]
    assert queries["differs"].tolist() == pytest.approx(most[: len(queries)])
    for one in queries.itertuples():
        assert (one.differs, one.old, one.new, one.known) == pytest.approx(expected[one.qid], nan_ok=True)
    means = np.nanmean(np.array(list(expected.values())), axis=0)
    assert (against.gate.old, against.gate.new) == pytest.approx(means[1:3])
    d = against.gate.difference
    verdict = "better" if d.low > 0 else "worse" if d.high < 0 else "unclear"
    assert against.verdict == verdict
    words = {"better": "Clicks prefer the model to old", "worse": "Clicks prefer old to the model",
             "unclear": "Clicks do not distinguish the model from old"}  # fmt: skip
    assert f"{words[verdict]}: exposure-DCG@10 of {d.queries} queries: {means[2]:.4f} against" in text_of(told)


def test_any_order_of_rows_gives_the_same(
    told: Report, model: Any, data: RankingDataset, log: ClickLog, old: Any
) -> None:
    order = np.random.default_rng(1).permutation(data.n_documents)
    other = RankingDataset.from_arrays(
        data.features[order], data.labels[order], qid=data.queries.row_ids()[order], sort=True,
        feature_names=data.feature_names,
    )  # fmt: skip
    number = np.argsort(order)  # old row -> row of the file
    same = report(model, other, "ndcg@5", clicks=log.renumbered(number), baseline=old[order], baseline_name="old",
                  only=["clicks"], threads=1)  # fmt: skip
    mine, theirs = told.clicks, same.clicks
    np.testing.assert_allclose(mine.propensities.errors, theirs.propensities.errors)
    np.testing.assert_array_equal(mine.exposure["documents"], theirs.exposure["documents"])
    assert mine.against.gate.new == pytest.approx(theirs.against.gate.new)
    changes = [dict(zip(found.moves["document"], found.moves["change"], strict=True)) for found in (mine, theirs)]
    shared = {f"row {number[int(name.removeprefix('row ')) - 1] + 1}": change for name, change in changes[0].items()}
    assert {name: change for name, change in shared.items() if abs(change) > 2.5} == {
        name: change for name, change in changes[1].items() if abs(change) > 2.5
    }


def test_without_moves_the_models_propensities_serve_and_clicks_do_not_tell_rankers_apart(
    model: RankingModel, data: RankingDataset, log: ClickLog, old: np.ndarray
) -> None:
    first = np.unique(log.rows, return_index=True)[1]
    still = ClickLog(log.rows[first], log.positions[first], log.impressions[first], log.clicks[first], log.n_documents)
    told = report(model, data, "ndcg@5", clicks=still, baseline=old, baseline_name="old", only=["clicks"], threads=1)
    assert (told.clicks.origin, told.clicks.check, told.clicks.learnt) == ("model", None, None)
    assert told.clicks.against.gate is None
    assert "The log cannot test them" in text_of(told)
    assert "Clicks cannot compare the two: no clicked document was shown at two positions" in text_of(told)
    plain = boostrank.train(PARAMS, data, 2)
    found = report(plain, data, "ndcg@5", clicks=still, only=["clicks", "verdict"], threads=1)
    assert "no clicked document was shown both at position 1" in found.missing["clicks"]


def test_given_propensities_are_checked(model: RankingModel, data: RankingDataset, log: ClickLog) -> None:
    def by(curve: Propensities) -> ClickData:
        return click_data(study(data, model=model, clicks=log, propensities=curve))

    wrong, right = by(Propensities.power(2.5, 6)), by(Propensities.power(ETA, 6))
    assert wrong.origin == right.origin == "given"
    assert wrong.check is not None
    assert right.check is not None
    assert wrong.check.p < 1e-6 < 0.001 < right.check.p
    short = by(Propensities.power(ETA, 4))
    lost = sum(n for _, p, n, _ in entries(log) if p > 4)
    assert short.notes[0].startswith(f"{lost:,} of {log.impressions.sum():,} impressions")


def test_no_section_without_clicks_unless_it_is_asked_for(
    model: RankingModel, data: RankingDataset, log: ClickLog
) -> None:
    found = report(model, data, "ndcg@5", only=["verdict"], threads=1)
    assert "clicks" in found.unsuited
    assert "clicks" not in [section.name for section in found.sections]
    with pytest.raises(DataError, match="no click log"):
        report(model, data, "ndcg@5", only=["clicks"], threads=1)
    none = replace(log, clicks=np.zeros_like(log.clicks))
    with pytest.raises(DataError, match="has no clicks"):
        report(model, data, "ndcg@5", only=["clicks"], clicks=none, threads=1)


def test_the_record_of_a_stranger_is_not_taken_for_granted(model: RankingModel) -> None:
    known, prior = learnt_from(model)
    assert known is not None
    assert prior == 0.5
    for junk in (None, [], {"reader": 4}, {"reader": {"clicks": []}}, {"reader": {"clicks": {"propensities": {}}}},
                 {"reader": {"clicks": {"propensities": {"version": 1, "examination": [1, 10**400]}}}},
                 {"reader": {"clicks": {"propensities": {"version": 1, "examination": [0.5]}}}}):  # fmt: skip
        other = copy.copy(model)
        other.info = model.info | {"data": junk}
        assert learnt_from(other) == (None, 1.0)
    curve = {"version": 1, "examination": [1, 0.5]}
    for clicks, prior in (({"propensities": None, "prior": 0.25}, 0.25), ({"propensities": curve, "prior": True}, 1.0)):
        other.info = model.info | {"data": {"reader": {"clicks": clicks}}}
        assert learnt_from(other)[1] == prior


def test_an_interval_that_says_nothing_does_not_squeeze_the_picture() -> None:
    curve = Propensities([1.0, 0.5, 0.25], errors=[0.0, 0.05, 9.0])
    drawn = curve_chart({"here": curve}).spec()
    low, high = drawn["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert 0.05 < low < 0.25
    assert 1.0 < high < 4.0
    assert 'role="img" aria-label="How likely each position is looked at.' in curve_chart({"here": curve}).to_svg()
