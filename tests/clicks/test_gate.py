"""The gate by a slow twin, in any order of rows."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank import RankingDataset
from boostrank.clicks.gate import Judged, gate, held_out, with_click_gains
from boostrank.clicks.log import ClickLog, Propensities
from boostrank.core.errors import DataError, DataWarning

CURVE = Propensities([1.0, 0.5, 0.25])


def test_exposure_dcg_is_the_mean_discounted_click_probability_of_the_top() -> None:
    # A log of 30 queries with 8 documents each, at up to three positions.
    rng = np.random.default_rng(0)
    qid, rows = np.repeat(np.arange(30), 8), np.arange(240)
    entries = [
        (row, p, 20, int(rng.integers(0, 8)))
        for row in rows
        for p in (1, 2, 3)
        if rng.random() < 0.4
    ]
    log = ClickLog(*np.array(entries).T, 240)
    old, new = rng.normal(size=(2, 240))
    # By hand: gains are clicks by exposure, discounted in the top 3.
    clicks, exposure = np.zeros((2, 240))
    for row, p, n, c in entries:
        clicks[row] += c
        exposure[row] += n * CURVE.examination[p - 1]
    gains = np.divide(clicks, exposure, out=np.zeros(240), where=exposure > 0)
    values = {}
    for name, scores in (("old", old), ("new", new)):
        tops = [q * 8 + np.argsort(-scores[q * 8 : q * 8 + 8])[:3] for q in range(30)]
        clicked = [gains[q * 8 : q * 8 + 8].any() for q in range(30)]
        sums = np.array(
            [sum(gains[row] / np.log2(i + 2) for i, row in enumerate(top)) for top in tops]
        )
        values[name] = sums[clicked]
        known_share = np.mean([exposure[row] > 0 for top in tops for row in top])
    moved = [len({p for r, p, *_ in entries if r == row}) > 1 for row in rows if clicks[row] > 0]
    # The gate gives the same, in whatever order rows are.
    shuffled = rng.permutation(240)
    for order in (rows, shuffled):
        data = RankingDataset.from_arrays(
            np.zeros((240, 1)), np.zeros(240), qid=qid[order], sort=True
        )
        gate_result = gate(
            Judged(data, log.renumbered(np.argsort(order)), CURVE, old[order], new[order]), k=3
        )
        assert gate_result.old == pytest.approx(values["old"].mean())
        assert gate_result.new == pytest.approx(values["new"].mean())
        assert gate_result.difference.mean == pytest.approx(gate_result.new - gate_result.old)
        assert gate_result.known == pytest.approx(known_share)
        assert gate_result.moved == pytest.approx(np.mean(moved))


def test_equal_scores_win_nothing_by_the_order_of_rows() -> None:
    data = RankingDataset.from_arrays(np.zeros((3, 1)), np.zeros(3), group=[3])
    log = ClickLog([0, 0, 1, 2], [1, 2, 1, 1], [10] * 4, [10, 5, 0, 0], 3)
    gate_result = gate(Judged(data, log, CURVE, np.zeros(3), np.array([1.0, 0.0, 0.0])), k=1)
    assert (gate_result.old, gate_result.new) == (pytest.approx(1 / 3), pytest.approx(1.0))


def test_moves_among_positions_without_a_propensity_do_not_count() -> None:
    data = RankingDataset.from_arrays(np.zeros((2, 1)), np.zeros(2), group=[2])
    log = ClickLog([0, 1, 1], [1, 4, 5], [5, 5, 5], [2, 2, 2], 2)
    with (
        pytest.raises(DataError, match="no better than chance"),
        pytest.warns(DataWarning, match="10 of 15"),
    ):
        with_click_gains(data, log, CURVE)


def test_a_log_of_other_documents_is_refused_before_its_movement() -> None:
    data = RankingDataset.from_arrays(np.zeros((2, 1)), np.zeros(2), group=[2])
    log = ClickLog([0, 1], [1, 1], [5, 5], [1, 1], 3)
    with pytest.raises(DataError, match="3 documents, but the data have 2"):
        with_click_gains(data, log, CURVE)


@pytest.mark.parametrize(("queries", "turns"), [(7, 5), (999, 5), (1000, 1)])
def test_few_queries_are_held_out_in_turn(queries: int, turns: int) -> None:
    data = RankingDataset.from_arrays(
        np.arange(2.0 * queries)[:, None], np.zeros(2 * queries), group=[2] * queries
    )
    count = 2 * queries
    log = ClickLog(np.arange(count), [1, 2] * queries, np.arange(count) + 1, [0] * count, count)
    parts = held_out(queries)
    assert len(parts) == turns
    judged = []
    for sides in ([log.of_queries(data, chosen) for chosen in numbers] for numbers in parts):
        rows = [part.features[:, 0].astype(int) for part, _ in sides]
        for (_, part_log), numbers in zip(sides, rows, strict=True):
            # Each row with its own entry.
            np.testing.assert_array_equal(part_log.impressions, numbers + 1)
        assert sorted(np.concatenate(rows)) == list(range(2 * queries))
        judged += [int(row) // 2 for row in rows[1][::2]]
    assert sorted(judged) == list(range(queries)) if turns > 1 else len(judged) == queries / 5


def test_parts_count_as_their_queries_together() -> None:
    rng = np.random.default_rng(1)
    weights = rng.random(20) + 0.5
    data = RankingDataset.from_arrays(
        np.zeros((100, 1)), np.zeros(100), group=[5] * 20, weight=weights
    )
    entries = [
        (row, p, 9, int(rng.integers(0, 9)))
        for row in range(90)
        for p in (1, 2, 3)
        if rng.random() < 0.6
    ]
    log, (old, new) = ClickLog(*np.array(entries).T, 100), rng.normal(size=(2, 100))
    together = gate(Judged(data, log, CURVE, old, new), k=3)
    parts = []
    for chosen in (np.arange(13), np.arange(13, 20)):
        rows = np.isin(np.arange(100) // 5, chosen)
        parts.append(Judged(*log.of_queries(data, chosen), CURVE, old[rows], new[rows]))
    gate_result = gate(*parts, k=3)
    assert gate_result.difference == together.difference
    for name in ("old", "new", "known", "moved"):
        assert getattr(gate_result, name) == pytest.approx(getattr(together, name))
