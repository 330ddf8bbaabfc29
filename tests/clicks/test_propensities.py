"""Propensities: against a fixed point, known truths, and files that are no such."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from boostrank.clicks.estimation import check_propensities, estimate_propensities
from boostrank.clicks.log import ClickLog, Propensities
from boostrank.clicks.simulate import simulate_clicks
from boostrank.core.errors import DataError, DataWarning, FileFormatError, ParameterError
from boostrank.core.queries import QueryIndex
from experiments.clicks.users import Users, power

QUERIES = QueryIndex.from_sizes([15] * 60)


def logged(seed: int, impressions: int = 30, **more: object) -> ClickLog:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, QUERIES.n_documents)
    scores = labels + 1.5 * rng.normal(size=labels.size)
    return simulate_clicks(
        labels, QUERIES, scores, impressions=impressions, shown=6, seed=seed, **more
    )


def fixed_point(log: ClickLog) -> np.ndarray:
    """r_d = c_d / sum_p n_dp e_p and e_p = c_p / sum_d n_dp r_d in turn, of clicked documents at
    two positions.
    """
    n, c = np.zeros((2, log.n_documents, log.depth))
    np.add.at(n, (log.rows, log.positions - 1), log.impressions)
    np.add.at(c, (log.rows, log.positions - 1), log.clicks)
    moved = ((n > 0).sum(axis=1) > 1) & (c.sum(axis=1) > 0)
    n, c, e = n[moved], c[moved], np.ones(log.depth)
    for _ in range(20_000):
        r = c.sum(axis=1) / (n @ e)
        e = c.sum(axis=0) / (r @ n)
        e /= e[0]
    return e


def test_the_estimate_is_where_the_two_equations_agree() -> None:
    log = logged(1)
    curve = estimate_propensities(log, QUERIES)
    np.testing.assert_allclose(curve.examination, fixed_point(log), rtol=1e-8)
    assert curve.errors is not None
    assert curve.errors[0] == 0.0


def test_the_errors_are_those_that_clicks_of_queries_have() -> None:
    log = logged(2)
    curve = estimate_propensities(log, QUERIES)
    by_query = [log.where(log.rows // 15 == q) for q in range(60)]
    theta, step = np.log(curve.examination), 1e-6

    def slopes(part: ClickLog) -> np.ndarray:
        """d/d theta of the log-likelihood of where a query's clicks fell, by central differences."""

        def value(theta: np.ndarray) -> float:
            total = 0.0
            for row in np.unique(part.rows):
                in_row = part.rows == row
                weight = part.impressions[in_row] * np.exp(theta[part.positions[in_row] - 1])
                total += float(part.clicks[in_row] @ np.log(weight / weight.sum()))
            return total

        units = step * np.eye(6)[1:]
        return np.array(
            [(value(theta + unit) - value(theta - unit)) / (2 * step) for unit in units]
        )

    # Sandwich errors: slopes by query around the inverse curvature.
    scores = np.array([slopes(part) for part in by_query])
    curvature = np.zeros((5, 5))
    n, c = np.zeros((2, log.n_documents, 6))
    n[log.rows, log.positions - 1], c[log.rows, log.positions - 1] = log.impressions, log.clicks
    for row in range(log.n_documents):
        if (n[row] > 0).sum() > 1 and c[row].sum():
            share = n[row] * curve.examination / (n[row] @ curve.examination)
            curvature += c[row].sum() * (np.diag(share) - np.outer(share, share))[1:, 1:]
    inverse = np.linalg.inv(curvature)
    expected = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse) * 60 / 59)
    assert curve.errors is not None
    np.testing.assert_allclose(curve.errors[1:], expected, rtol=1e-5)


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_intervals_hold_the_truth_as_often_as_they_say(eta: float) -> None:
    truth, inside = -eta * np.log(np.arange(1, 7)), []
    for seed in range(40):
        curve = estimate_propensities(logged(seed, draw=Users(eta=eta).clicks), QUERIES)
        assert curve.errors is not None
        inside += list(np.abs(np.log(curve.examination) - truth)[1:] <= 1.96 * curve.errors[1:])
    assert 0.88 <= np.mean(inside) <= 0.99  # of 200; dependent within a log


def test_a_curve_that_holds_passes_and_others_do_not() -> None:
    log = logged(3, impressions=100)
    assert check_propensities(log, power(1.0, 6), QUERIES).p > 0.01
    assert check_propensities(log, power(1.0, 4), QUERIES).positions == 3
    for wrong in (0.5, 2.0):
        check = check_propensities(log, power(wrong, 6), QUERIES)
        assert check.p < 1e-6
        assert check.nats > 10.0
    best = estimate_propensities(log, QUERIES)
    same = check_propensities(log, best, QUERIES)
    assert same.nats == pytest.approx(0.0, abs=1e-6)
    assert same.p == pytest.approx(1.0)


def test_few_queries_and_documents_are_not_certain() -> None:
    small_log = ClickLog([0, 0], [1, 2], [10, 10], [5, 2], 1)
    curve = estimate_propensities(small_log)
    assert curve.errors is not None
    # Of the logarithm of a ratio of two counts.
    assert curve.errors[1] == pytest.approx(np.sqrt(1 / 5 + 1 / 2))
    assert check_propensities(small_log, Propensities([1.0, 0.5])).p > 0.5
    rejected = 0
    for seed in range(40):
        few = logged(seed, impressions=20)
        few = few.where(few.rows < 15 * 4)
        rejected += check_propensities(few, power(1.0, 6), QUERIES).p < 0.05
    assert rejected <= 7  # of 40; 2 expected


def test_a_curve_with_false_clicks_cannot_be_checked() -> None:
    with pytest.raises(ParameterError, match="cannot be checked"):
        check_propensities(logged(3), Users("trust").propensities(6), QUERIES)


def test_nothing_moved_is_refused() -> None:
    still = logged(4, spread=0.0)
    with pytest.raises(DataError, match="position 1 and elsewhere"):
        estimate_propensities(still)
    with pytest.raises(DataError, match="no clicked document"):
        check_propensities(still, power(1.0, 6))


def test_a_position_that_nothing_ties_to_the_first_has_none() -> None:
    # 1 and 2 are tied; 3 and 4 to each other alone; 5 was never clicked.
    rows, positions = [0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 1, 2, 3, 4, 1, 5]
    log = ClickLog(rows, positions, [100] * 8, [50, 25, 30, 20, 10, 10, 40, 0], 4)
    curve = estimate_propensities(log)
    assert np.isnan(curve.examination).tolist() == [False, False, True, True, True]
    assert curve.examination[1] == pytest.approx(45 / 80, rel=1e-6)
    assert curve.moved == 2


def test_few_clicks_are_said_to_say_nothing() -> None:
    with pytest.warns(DataWarning, match="unreliable"):
        estimate_propensities(logged(5, impressions=2, draw=Users(eta=2.0).clicks))


def test_trust_has_an_affine_curve() -> None:
    curve = Users("trust", eta=1.0).propensities(3)
    assert curve.false_clicks[1] == pytest.approx(0.65 / 2 / 2)
    assert curve.examination[1] == pytest.approx((0.97 - 0.325) / 2 / (0.98 - 0.65))


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for curve in (
        estimate_propensities(logged(6), QUERIES),
        Propensities([1.0, np.nan, 0.5], [0.1, 0.0, 0.2]),
        power(0.5, 4),
    ):
        curve.write(path)
        back = Propensities.read(path)
        np.testing.assert_array_equal(back.examination, curve.examination)
        np.testing.assert_array_equal(back.false_clicks, curve.false_clicks)
        assert (back.method, back.moved, back.errors is None) == (
            curve.method,
            curve.moved,
            curve.errors is None,
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version"),
        ({"version": True}, "version"),
        ({"version": None}, "version"),
        ({"examination": None}, "examination"),
        ({"examination": []}, "there are 0"),
        ({"examination": [0.5, 1]}, "relative to position 1"),
        ({"examination": [1, 0]}, "above 0"),
        ({"examination": [None, 1]}, "relative to position 1"),
        ({"examination": [1, "2"]}, r"examination\[1\]"),
        ({"examination": [1, True]}, r"examination\[1\]"),
        ({"examination": {"0": 1}}, "examination"),
        ({"examination": [1, 10**400]}, r"examination\[1\]"),
        ({"false_clicks": [0.1]}, "false_clicks"),
        ({"false_clicks": [0.1, 1.0]}, "false_clicks"),
        ({"errors": [0.0]}, "1 standard errors for 2"),
        ({"method": 3}, "method"),
        ({"moved": -1}, "moved"),
        ({"moved": True}, "moved"),
        ({"examinaton": [1]}, "examinaton"),
    ],
)
def test_a_file_that_is_none_is_refused(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"version": 1, "examination": [1.0, 0.5]} | change))
    with pytest.raises(FileFormatError, match=f"p.json: .*{words}"):
        Propensities.read(path)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", "[" * 100_000, "[" * 300 + "]" * 300, '{"version": NaN}']
)
def test_text_that_is_no_json_object_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="propensities"):
        Propensities.read(path)


def test_a_position_that_one_document_moved_to_is_not_certain_among_many() -> None:
    rng = np.random.default_rng(0)
    rows, positions = np.repeat(np.arange(100), 2), np.tile([1, 2], 100)
    clicks = rng.binomial(40, np.where(positions == 1, 0.5, 0.25))
    log = ClickLog([*rows, 0], [*positions, 3], [40] * 201, [*clicks, 1], 100)
    with pytest.warns(DataWarning, match="1 positions .from 3. are unreliable"):
        curve = estimate_propensities(log)
    assert curve.errors is not None
    assert curve.errors[2] >= 0.9  # of the logarithm of a count of 1
    assert curve.errors[1] < 0.1
