"""Simulated users click as they are said to."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.clicks.simulate import click_probabilities, simulate_clicks
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from experiments.clicks.users import Users

QUERIES = QueryIndex.from_sizes([4, 1, 6])
LABELS = np.array([0, 1, 2, 3, 2, 0, 0, 1, 3, 2, 1])
SCORES = np.array([1.0, 2, 3, 4, 0, 5, 4, 3, 2, 1, 0])


def test_a_label_is_clicked_by_its_gain() -> None:
    expected = [0.1, 0.1 + 0.9 / 7, 0.1 + 2.7 / 7, 1.0]
    np.testing.assert_allclose(click_probabilities([0, 1, 2, 3]), expected)
    np.testing.assert_allclose(click_probabilities([4, 1, 2, 3]), [expected[3], *expected[:3]])


@pytest.mark.parametrize("labels", [[0, 0], [2], [], [0, 40]])
def test_labels_without_grades_are_refused(labels: list[float]) -> None:
    with pytest.raises(ParameterError, match="graded documents"):
        click_probabilities(labels)


def test_lists_that_do_not_vary_are_the_ranking() -> None:
    log = simulate_clicks(LABELS, QUERIES, SCORES, impressions=7, shown=3, spread=0.0)
    assert log.rows.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert log.positions.tolist() == [3, 2, 1, 1, 1, 2, 3]
    assert set(log.impressions.tolist()) == {7}


@pytest.mark.parametrize(
    "users", [None, Users(), Users(eta=0.0), Users("trust", eta=0.5), Users("cascade")]
)
def test_positions_are_clicked_as_often_as_expected(users: Users | None) -> None:
    count = 20_000
    draw = {} if users is None else {"draw": users.clicks}
    log = simulate_clicks(
        LABELS, QUERIES, SCORES, **draw, impressions=count, shown=4, spread=0.0, seed=5
    )
    users = users or Users()
    r = click_probabilities(LABELS)
    for start, stop in zip(QUERIES.ptr[:-1], QUERIES.ptr[1:], strict=True):
        order, reached = start + np.argsort(-SCORES[start:stop])[:4], 1.0
        for p, row in enumerate(order, start=1):
            if users.model == "cascade":
                expected = reached * r[row]
                reached *= 0.9 * (1 - r[row] / 2)
            elif users.model == "trust":
                relevant, irrelevant = 1 - (p + 1) / 100, 0.65 / p
                expected = p**-users.eta * (relevant * r[row] + irrelevant * (1 - r[row]))
                curve = users.propensities(4)
                slope = 0.98 - 0.65  # to which the curve is relative
                assert expected == pytest.approx(
                    curve.examination[p - 1] * slope * r[row] + curve.false_clicks[p - 1]
                )
            else:
                expected = p**-users.eta * r[row]
            clicks = int(log.clicks[(log.rows == row) & (log.positions == p)][0])
            assert (
                abs(clicks - count * expected)
                <= 4.5 * np.sqrt(count * expected * (1 - expected)) + 1e-9
            )


def test_cascade_users_have_no_propensities_of_positions() -> None:
    with pytest.raises(ParameterError, match=r"cascade.* propensities"):
        Users(model="cascade").propensities(5)


def test_the_same_seed_gives_the_same_log_and_queries_do_not_depend_on_others() -> None:
    first = simulate_clicks(LABELS, QUERIES, SCORES, seed=1, impressions=50)
    again = simulate_clicks(LABELS, QUERIES, SCORES, seed=1, impressions=50)
    other = simulate_clicks(LABELS, QUERIES, SCORES, seed=2, impressions=50)
    assert first.clicks.tolist() == again.clicks.tolist()
    assert first.clicks.tolist() != other.clicks.tolist()
    alone = simulate_clicks(
        LABELS[:4], QueryIndex.from_sizes([4]), SCORES[:4], seed=1, impressions=50
    )
    assert len(alone.rows)
    np.testing.assert_array_equal(alone.impressions, first.impressions[first.rows < 4])


@pytest.mark.parametrize("curve", [0.0, 1.0])
def test_gains_without_a_prior_are_unbiased(curve: float) -> None:
    users, r = Users(eta=curve), click_probabilities(LABELS)
    logs = [
        simulate_clicks(
            LABELS,
            QUERIES,
            SCORES,
            users.clicks,
            impressions=200,
            shown=6,
            spread=1.0,
            seed=seed,
        )
        for seed in range(60)
    ]
    gains = np.array([log.gains(users.propensities(6), 0.0) for log in logs])
    biased = np.array([log.gains(users.propensities(6), 20.0) for log in logs])
    error = gains.std(axis=0) / np.sqrt(60)
    assert np.all(np.abs(gains.mean(axis=0) - r) <= 4.5 * error + 1e-9)
    assert not np.all(np.abs(biased.mean(axis=0) - r) <= 4.5 * error + 1e-9)


@pytest.mark.parametrize(
    "options",
    [{"impressions": 0}, {"shown": 0}, {"spread": -1.0}, {"spread": np.nan}],
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        simulate_clicks(LABELS, QUERIES, SCORES, **options)
    with pytest.raises(ParameterError):
        Users(model="dwell")


@pytest.mark.parametrize(("n_labels", "n_scores"), [(5, 6), (6, 5), (7, 7)])
def test_labels_and_scores_of_other_documents_are_refused(n_labels: int, n_scores: int) -> None:
    queries = QueryIndex.from_sizes([3, 3])
    with pytest.raises(DataError, match=f"{n_labels} .* {n_scores} .* 6"):
        simulate_clicks(np.arange(n_labels), queries, np.arange(n_scores))
