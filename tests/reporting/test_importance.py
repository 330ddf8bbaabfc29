"""Importance by shuffling within queries: what it finds where the truth is known, and how sure it
is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from scipy import sparse, stats

import boostrank
from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows
from boostrank.data.synthetic import make_ranking_data
from boostrank.engines.trees import Trees
from boostrank.kernels.forest import Walker
from boostrank.metrics import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting import Importance, importance
from boostrank.reporting.permutation import Losses, Unit, measure_losses, p_values
from boostrank.reporting.scoring import Engine
from boostrank.reporting.section import Context
from boostrank.reporting.segments import holm

NDCG = Metric.parse("ndcg@10")
PARAMS = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "deterministic": True}


def ranker(data: RankingDataset, rounds: int, folder: Any, **params: Any) -> RankingModel:
    """A model that LightGBM trained and saved by itself."""
    dataset = lgb.Dataset(
        data.features, data.labels, group=data.queries.sizes, feature_name=list(data.feature_names)
    )
    path = folder / "theirs.txt"
    lgb.train({**PARAMS, **params}, dataset, rounds).save_model(path)
    return RankingModel.load(path)


@pytest.fixture(scope="module")
def world() -> tuple[RankingDataset, RankingDataset, tuple[str, ...]]:
    """Queries to train on, too few for such large trees; others to look at; and the role of each
    feature.
    """
    drawn = make_ranking_data(1200, seed=4, mean_length=12)
    return drawn.dataset.take(np.arange(100)), drawn.dataset.take(np.arange(100, 1200)), drawn.roles


@pytest.fixture(scope="module")
def greedy(world: Any, tmp_path_factory: Any) -> RankingModel:
    """A ranker that overfits: its trees find use for everything."""
    return ranker(
        world[0], 40, tmp_path_factory.mktemp("greedy"), num_leaves=31, min_data_in_leaf=2
    )


@pytest.fixture(scope="module")
def importances(world: Any, greedy: RankingModel) -> Importance:
    return importance(greedy, world[1], negligible=0.004, repeats=3, shap_documents=500, threads=2)


def separation(values: np.ndarray, above: list[int], below: list[int]) -> float:
    """Share of pairs that these values put in the right order."""
    return float(np.mean(values[above][:, None] > values[below][None, :]))


def of_role(world: Any, importances: Importance, role: str) -> list[int]:
    used = [i for i, v in enumerate(importances.verdicts) if v != "unused"]
    return [i for i in used if world[2][i] == role]


def test_shuffling_tells_useful_from_useless_where_gain_does_not(
    world: Any, importances: Importance
) -> None:
    informative, useless = (
        of_role(world, importances, "informative"),
        of_role(world, importances, "useless"),
    )
    strongest = (
        "tf_body",
        "pagerank",
        "spam_score",
        "page_quality",
        "lm_body",
        "age_days",
        "dwell_seconds",
    )
    strong = [importances.feature_names.index(n) for n in strongest]
    assert len(useless) == 8  # the trees split by noise
    assert separation(importances.loss, strong, useless) == 1.0
    assert separation(importances.gain, strong, useless) < 0.95
    assert separation(importances.loss, informative, useless) > 0.8
    assert separation(importances.gain, informative, useless) < 0.65  # hardly better than a coin
    assert sum(importances.loss_low[i] > 0.0 for i in strong) >= 4
    assert not any(importances.verdicts[i] == "useful" for i in useless)


def test_useless_features_are_removable_and_removing_them_costs_nothing(
    world: Any, importances: Importance
) -> None:
    removable = importances.features_with("removable")
    assert sum(name.startswith("noise_") for name in removable) >= 4
    assert importances.removed is not None
    assert set(importances.removed.features) == set(removable)
    assert importances.removed.high < 0.01


def test_query_level_features_are_called_out_and_exchanged_between_queries(
    world: Any, importances: Importance
) -> None:
    query = of_role(world, importances, "query")
    assert {i for i, v in enumerate(importances.verdicts) if v == "query-level"} == set(query)
    assert np.isnan(importances.p_holm[query]).all()
    # It moves the weight between what matters to documents, and only so has an effect.
    assert importances.loss_low[importances.feature_names.index("navigational")] > 0.0


def test_redundant_features_cluster_with_what_they_repeat(importances: Importance) -> None:
    clusters = [set(c.features) for c in importances.clusters]
    for pair in (
        {"bm25_sum", "bm25_mean"},
        {"inlinks", "log_inlinks"},
        {"bm25_body", "bm25_body_copy"},
    ):
        used = pair - set(importances.features_with("unused"))
        assert len(used) < 2 or any(used <= c for c in clusters), pair
    noise = {n for n in importances.feature_names if n.startswith("noise")}
    assert not any(noise & c for c in clusters)


def test_the_value_is_that_of_evaluate(
    world: Any, greedy: RankingModel, importances: Importance
) -> None:
    data = world[1]
    result = NDCG.evaluate(data.labels, greedy.predict(data), data.queries)
    assert importances.value == pytest.approx(result.mean, abs=1e-12)
    assert (importances.low, importances.high) == pytest.approx(
        (result.low, result.high), abs=1e-12
    )


def test_centred_contributions_are_those_of_the_booster(
    world: Any, greedy: RankingModel, importances: Importance
) -> None:
    data = world[1]
    sampled = data.take(data.queries.sample(500, 0))
    assert importances.shap_documents == sampled.n_documents
    parts = greedy.booster.predict(sampled.features, pred_contrib=True)[:, :-1]
    means = [
        np.abs(p - p.mean(axis=0)).mean(axis=0) for p in np.split(parts, sampled.queries.ptr[1:-1])
    ]
    np.testing.assert_allclose(importances.shap, np.mean(means, axis=0), atol=1e-9)


def test_one_thread_or_two_and_any_other_features_give_the_same(
    world: Any, greedy: RankingModel, importances: Importance
) -> None:
    data = world[1]
    again = importance(greedy, data, negligible=0.004, repeats=3, shap_documents=0, threads=1)
    np.testing.assert_array_equal(again.loss, importances.loss)


@cache
def trees_of(model: RankingModel) -> Trees:
    """Read once."""
    return model.trees()


def losses(
    model: RankingModel,
    data: RankingDataset,
    *,
    scorer: Any = None,
    seed: int = 0,
    repeats: int = 1,
) -> Losses:
    trees = trees_of(model)
    assert trees.forest is not None
    rows = DenseRows(data, trees.used)
    units = [Unit(str(c), (i,), int(c)) for i, c in enumerate(trees.used)]
    walker = scorer or Walker(trees.forest, trees.used)
    context = Context(model, data, NDCG, seed=seed, threads=1)
    return measure_losses(context, walker, rows, units, repeats=repeats, step="")


def test_walking_the_trees_gives_what_the_engine_predicts(greedy: RankingModel, world: Any) -> None:
    data = world[1].take(np.arange(60))
    walked = losses(greedy, data)
    predicted = losses(greedy, data, scorer=Engine(greedy, greedy.trees().used, 1))
    np.testing.assert_allclose(walked.loss, predicted.loss, atol=1e-12)
    np.testing.assert_allclose(walked.low, predicted.low, atol=1e-12)


def coin(queries: int) -> RankingDataset:
    """Two documents a query; the first feature says which is relevant, the second says nothing."""
    X = np.tile(np.array([[1.0], [0.0]], np.float32), (queries, 1))
    X = np.column_stack([X, np.random.default_rng(0).normal(size=2 * queries)]).astype(np.float32)
    return RankingDataset.from_arrays(X, X[:, 0], group=np.full(queries, 2))


def test_the_loss_of_a_known_case_is_the_formulas(tmp_path: Any) -> None:
    # Shuffled, the two documents stand the wrong way round half of the time: NDCG is then 1 /
    # log2(3).
    data = coin(3000)
    importances = importance(ranker(data, 3, tmp_path, objective="regression"), data, repeats=2)
    truth = 0.5 * (1.0 - 1.0 / math.log2(3.0))
    assert importances.value == 1.0
    assert importances.loss_low[0] < truth < importances.loss_high[0]
    assert importances.loss[0] == pytest.approx(truth, abs=0.01)
    assert importances.loss[1] == 0.0
    assert importances.verdicts[0] == "useful"


@pytest.fixture(scope="module")
def small(tmp_path_factory: Any) -> tuple[RankingModel, RankingDataset]:
    """A small ranker, and very many queries."""
    drawn = make_ranking_data(6000, seed=8, mean_length=8, max_length=30)
    return ranker(
        drawn.dataset.take(np.arange(400)), 8, tmp_path_factory.mktemp("small"), num_leaves=8
    ), drawn.dataset


def test_intervals_cover_the_truth_at_about_their_rate(small: Any) -> None:
    model, data = small
    truth = losses(model, data, seed=1, repeats=4).loss
    strongest = int(np.argmax(truth))
    rng, runs = np.random.default_rng(0), 120
    hits = 0
    for run in range(runs):
        estimate = losses(
            model, data.take(rng.choice(len(data.queries), 150, replace=False)), seed=1000 + run
        )
        hits += bool(estimate.low[strongest] <= truth[strongest] <= estimate.high[strongest])
    assert 0.90 <= hits / runs <= 0.99  # 95% with a standard error of 2%


def test_weights_of_queries_count(small: Any) -> None:
    model, data = small
    part = data.take(np.arange(40))
    weights = np.where(np.arange(40) < 20, 1.0, 1e-12)
    weighted = RankingDataset(
        part.features,
        part.labels,
        QueryIndex(part.queries.ptr, part.queries.qid, weights),
        part.feature_names,
    )
    first = data.take(np.arange(20))
    np.testing.assert_allclose(losses(model, weighted).loss, losses(model, first).loss, atol=1e-9)


def test_where_ties_go_by_name_the_mean_over_orders_is_taken(small: Any) -> None:
    model, data = small
    few = data.take(np.arange(30))
    trec = Conventions.of("trec")
    assert trec.ties == "docno"
    expected = importance(
        model, few, conventions=replace(trec, ties="expected"), repeats=1, shap_documents=0
    )
    importances = importance(model, few, conventions="trec", repeats=1, shap_documents=0)
    assert importances.value == expected.value
    np.testing.assert_array_equal(importances.loss, expected.loss)


def test_a_sample_is_of_whole_queries_and_said(small: Any) -> None:
    model, data = small
    importances = importance(model, data, documents=3000, repeats=1)
    assert 2500 < importances.documents < 3500
    assert importances.all_documents == data.n_documents


def test_xgboost_rankers_are_walked_too(small: Any, tmp_path: Any) -> None:
    _, data = small
    part = data.take(np.arange(300))
    matrix = xgb.DMatrix(
        part.features, part.labels, group=part.queries.sizes, feature_names=list(part.feature_names)
    )
    params = {"objective": "rank:ndcg", "max_depth": 4, "nthread": 1}
    xgb.train(params, matrix, 10).save_model(tmp_path / "theirs.json")
    importances = importance(tmp_path / "theirs.json", part, threads=1)
    model = RankingModel.load(tmp_path / "theirs.json")
    assert importances.value == pytest.approx(
        NDCG.evaluate(part.labels, model.predict(part), part.queries).mean, abs=1e-4
    )
    assert importances.loss.max() > 0.01
    assert np.isfinite(importances.shap).all()


def test_what_a_sparse_row_does_not_name_is_missing_where_the_model_was_trained_so(
    small: Any, tmp_path: Any
) -> None:
    part = small[1].take(np.arange(200))
    thin = sparse.csr_matrix(np.nan_to_num(part.features))
    data = RankingDataset(thin, part.labels, part.queries, part.feature_names)
    matrix = xgb.DMatrix(thin, part.labels, group=part.queries.sizes)
    xgb.train({"objective": "rank:ndcg", "max_depth": 4, "nthread": 1}, matrix, 5).save_model(
        tmp_path / "theirs.json"
    )
    model = RankingModel.load(tmp_path / "theirs.json")
    assert model.absent_is_missing
    importances = importance(model, data, threads=1, shap_documents=0)
    result = NDCG.evaluate(data.labels, model.predict(data), data.queries)
    assert importances.value == pytest.approx(result.mean, abs=1e-4)
    filled = RankingDataset(thin.toarray(), part.labels, part.queries, part.feature_names)
    assert (
        abs(
            importances.value - NDCG.evaluate(data.labels, model.predict(filled), data.queries).mean
        )
        > 1e-3
    )


def test_only_the_best_rounds_count(small: Any) -> None:
    model, data = small
    short = RankingModel(model.booster, best_rounds=3)
    part = data.take(np.arange(100))
    importances = importance(short, part, threads=1, shap_documents=0)
    assert importances.value == pytest.approx(
        NDCG.evaluate(part.labels, short.predict(part), part.queries).mean, abs=1e-12
    )
    assert importances.splits.sum() < model.trees().splits.sum()


def test_linear_models_are_left_to_the_engine() -> None:
    data = coin(40)
    linear = boostrank.train({"num_threads": 1}, data, backend="linear")
    loss = importance(linear, data, repeats=1, threads=1).loss
    assert loss[0] > 0.1 > abs(loss[1])


def test_sparse_data_are_the_same_as_dense(small: Any) -> None:
    model, data = small
    part = data.take(np.arange(50))
    thin = RankingDataset(
        sparse.csr_matrix(part.features), part.labels, part.queries, part.feature_names
    )
    np.testing.assert_array_equal(
        importance(model, thin, threads=1).loss, importance(model, part, threads=1).loss
    )


def test_a_model_of_constants_has_nothing_but_unused_features(world: Any, tmp_path: Any) -> None:
    data = world[0].take(np.arange(20))
    model = ranker(data, 2, tmp_path, min_gain_to_split=1e9)
    importances = importance(model, data)
    assert set(importances.verdicts) == {"unused"}
    assert importances.removed is None
    assert not importances.loss.any()


def test_a_data_frame_has_a_line_a_feature(importances: Importance) -> None:
    frame = importances.to_frame()
    assert len(frame) == len(importances.feature_names)
    assert frame["feature"][0] == importances.feature_names[importances.order[0]]
    assert frame["loss"].max() == importances.loss.max()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "ndcg@1,3"}, "several cut-offs"),
        ({"repeats": 0}, "repeats"),
    ],
)
def test_several_cut_offs_and_no_repeats_are_refused(
    small: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        importance(*small, **options)


def test_other_features_and_labels_without_relevance_are_refused(small: Any) -> None:
    model, data = small
    part = data.take(np.arange(5))
    with pytest.raises(DataError, match="features"):
        importance(model, RankingDataset(part.features[:, :4].copy(), part.labels, part.queries))
    with pytest.raises(DataError, match=r"none .*5 queries"):
        importance(
            model,
            RankingDataset(
                part.features, np.zeros(part.n_documents), part.queries, part.feature_names
            ),
        )


def test_importance_is_public() -> None:
    assert callable(boostrank.reporting.importance)


def test_useful_and_harmful_are_significant_over_all_features() -> None:
    """Of 60 features without effect, intervals of some miss 0; none is called anything after Holm's
    method.
    """
    values = np.random.default_rng(1).normal(size=(200, 60))
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 200)
    p = p_values(values, weights)
    assert (p < 0.05).any()
    assert (holm(p) >= 0.05).all()
    np.testing.assert_allclose(
        p_values(values, np.ones(200)), stats.ttest_1samp(values, 0.0).pvalue, rtol=1e-9
    )
    assert p_values(np.zeros((5, 1)), np.ones(5)).tolist() == [1.0]
    assert p_values(np.ones((5, 1)), np.ones(5)).tolist() == [0.0]
    assert p_values(np.ones((1, 1)), np.ones(1)).tolist() == [1.0]
    assert p_values(np.array([[1.0], [0.5]]), np.array([1.0, 1e-30])).tolist() == [1.0]


@pytest.mark.parametrize(
    "weights",
    [
        np.r_[500.0, np.ones(49)],
        np.r_[20.0, np.ones(49)],
        np.r_[300.0, 300.0, np.ones(98)],
        np.random.default_rng(3).lognormal(0.0, 2.0, 200),
        np.random.default_rng(4).lognormal(0.0, 1.0, 100),
    ],
    ids=["one of 500", "one of 20", "two of 300", "lognormal, 2", "lognormal, 1"],
)
def test_a_query_of_much_weight_makes_no_false_positives(weights: np.ndarray) -> None:
    values = np.random.default_rng(5).normal(size=(weights.size, 4000))
    assert (p_values(values, weights) < 0.05).mean() < 0.06
    far = values + 10.0
    assert weights.max() > 0.9 * weights.sum() or (p_values(far, weights) < 0.05).mean() > 0.2
