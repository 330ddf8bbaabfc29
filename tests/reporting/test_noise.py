"""What luck does to a metric."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.errors import ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.reporting.studies import (
    SOURCES,
    measure_noise,
    spread_of,
)

DATA = make_ranking_data(queries=60, mean_length=10, seed=3).dataset
TRAIN, VALID = DATA.take(np.arange(40)), DATA.take(np.arange(40, 60))
QUICK = {
    "objective": "regression",
    "num_leaves": 5,
    "verbosity": -1,
    "num_threads": 1,
    "eval_at": [3, 10],
}


def rows_of(data: RankingDataset, query: int) -> set[bytes]:
    span = slice(data.queries.ptr[query], data.queries.ptr[query + 1])
    return {
        row.tobytes() + label.tobytes()
        for row, label in zip(data.features[span], data.labels[span], strict=True)
    }


def test_the_interval_holds_the_truth_and_the_bound_is_passed_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    trials = [spread_of(values) for values in rng.normal(0.8, 0.003, (4000, 6))]
    inside = np.mean([spread.low <= 0.003 <= spread.high for spread in trials])
    assert inside == pytest.approx(0.95, abs=0.012)
    first, second = rng.normal(0.8, 0.003, (2, 4000))
    beyond = np.mean(np.abs(first - second) > [spread.matters for spread in trials])
    assert beyond == pytest.approx(0.05, abs=0.012)


def test_runs_that_are_all_alike_have_no_spread() -> None:
    assert spread_of(np.full(5, 0.1 + 0.2)) == spread_of(np.zeros(3))
    assert spread_of(np.full(5, 0.3)).matters == 0.0


def test_shuffled_rows_are_the_same_queries_in_another_order() -> None:
    other = TRAIN.shuffled(np.random.default_rng(0))
    before = [rows_of(TRAIN, q) for q in range(40)]
    after = [rows_of(other, q) for q in range(40)]
    assert before != after
    assert sorted(map(sorted, before)) == sorted(map(sorted, after))
    assert sorted(other.queries.sizes) == sorted(TRAIN.queries.sizes)
    longest = int(np.argmax(TRAIN.queries.sizes))
    again = TRAIN.take([longest]).shuffled(np.random.default_rng(0))
    assert not np.array_equal(again.features, TRAIN.take([longest]).features, equal_nan=True)


def test_redrawn_queries_are_whole_and_some_come_twice() -> None:
    other = TRAIN.redrawn(np.random.default_rng(0))
    originals = [rows_of(TRAIN, q) for q in range(40)]
    drawn = [originals.index(rows_of(other, q)) for q in range(len(other.queries))]
    assert len(drawn) == 40
    assert 20 < len(set(drawn)) < 32
    assert len(set(other.queries.qid)) == 40


def test_seeds_that_change_nothing_are_noticed_and_not_followed() -> None:
    seen: list[tuple[int, int, str]] = []
    noise = measure_noise(
        QUICK,
        TRAIN,
        VALID,
        3,
        runs=4,
        progress=lambda done, total, source, metrics: seen.append((done, total, source)),
    )
    assert noise.values["seed"]["ndcg@10"].size == 3
    assert noise.spread("seed", "ndcg@10").matters == 0.0
    assert noise.values["training queries"]["ndcg@3"].size == 4
    assert noise.spread("training queries", "ndcg@10").sd > 0.0
    assert noise.matters("ndcg@10") == max(
        noise.spread(source, "ndcg@10").matters for source in SOURCES
    )
    assert seen[0] == (1, 12, "seed")
    assert seen[2] == (3, 11, "seed")
    assert (
        seen[-1][0] == seen[-1][1] == sum(values["ndcg@3"].size for values in noise.values.values())
    )


def test_seeds_matter_where_trees_draw() -> None:
    noise = measure_noise(QUICK | {"feature_fraction": 0.3, "seed": 5}, TRAIN, VALID, 3, runs=3)
    assert noise.spread("seed", "ndcg@10").sd > 0.0
    again = measure_noise(
        QUICK | {"feature_fraction": 0.3, "random_state": 5}, TRAIN, VALID, 3, runs=3
    )
    for source, values in noise.values.items():
        np.testing.assert_array_equal(values["ndcg@10"], again.values[source]["ndcg@10"])


def test_the_other_engine_and_regrouped_validation_rows_are_measured_alike() -> None:
    params = QUICK | {"feature_fraction": 0.3}
    scattered = np.random.default_rng(0).permutation(VALID.n_documents)
    regrouped = RankingDataset.from_arrays(
        VALID.features[scattered],
        VALID.labels[scattered],
        qid=VALID.queries.row_ids()[scattered],
        feature_names=VALID.feature_names,
        sort=True,
    )
    straight = measure_noise(params, TRAIN, VALID, 2, runs=3, backend="xgboost")
    other = measure_noise(params, TRAIN, regrouped, 2, runs=3, backend="xgboost")
    assert straight.spread("seed", "ndcg@10").sd > 0.0
    for source, values in straight.values.items():
        np.testing.assert_allclose(values["ndcg@10"], other.values[source]["ndcg@10"], rtol=1e-12)


def test_too_few_runs_and_no_metric_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least 3"):
        measure_noise(QUICK, TRAIN, VALID, 2, runs=2)
    with pytest.raises(ParameterError, match="metric="):
        measure_noise(QUICK | {"metric": "None"}, TRAIN, VALID, 2, runs=3)
