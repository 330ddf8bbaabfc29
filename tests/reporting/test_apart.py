"""Every number of a report against slow, obvious NumPy that shares nothing with it but the engines'
own predictions.

Three models: with a linear start, of LightGBM alone, of XGBoost alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from altair.utils.schemapi import debug_mode
from scipy import stats

import boostrank
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.reporting import Report, report
from tests.reporting.studies import words_of

FEATURES, TRAINED, ROUNDS = 14, 70, 6


@dataclass(frozen=True)
class Case:
    """A report, and the engine behind it.

    Args:
        report: the report, against `old`.
        of_rounds: number of rounds -> float64[N], by the engine itself.
        gain, splits: float64[d], as the engine counts them.
        shap: float64[N, d], the engine's own.
        start: float64[N]; None: there is none.
        old: float64[N] of the model from before.
    """

    report: Report
    of_rounds: Callable[[int], np.ndarray]
    gain: np.ndarray
    splits: np.ndarray
    shap: np.ndarray
    start: np.ndarray | None
    old: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        return self.of_rounds(ROUNDS)


@cache
def both() -> tuple[RankingDataset, RankingDataset]:
    """To train on, and to report on: few features, some of them missing."""
    synthetic = make_ranking_data(TRAINED + 60, seed=9, mean_length=9).dataset
    X = np.ascontiguousarray(synthetic.features[:, 5 : 5 + FEATURES])
    whole = RankingDataset(
        X, synthetic.labels, synthetic.queries, synthetic.feature_names[5 : 5 + FEATURES]
    )
    return whole.take(np.arange(TRAINED)), whole.take(np.arange(TRAINED, TRAINED + 60))


@cache
def case(kind: str, folder: Path) -> Case:
    train, data = both()
    X, none = np.asarray(data.features), None
    params = {
        "num_leaves": 8,
        "min_data_in_leaf": 5,
        "num_threads": 1,
        "verbosity": -1,
        "learning_rate": 0.3,
    }
    path = folder / f"{kind}.json"
    if kind == "xgboost":
        matrix = xgb.DMatrix(train.features, train.labels, feature_names=list(train.feature_names))
        matrix.set_group(train.queries.sizes)
        xgb_booster = xgb.train(
            {"objective": "rank:ndcg", "nthread": 1, "max_depth": 3, "eta": 0.3}, matrix, ROUNDS
        )
        xgb_booster.save_model(path)
        of = xgb.DMatrix(X, feature_names=list(train.feature_names))

        def of_rounds(r: int) -> np.ndarray:
            # Base score and rounding to float32 are no part of a ranking.
            return (
                xgb_booster.predict(of, iteration_range=(0, r), output_margin=True).astype(float)
                if r
                else np.zeros(len(X))
            )

        gain = xgb_booster.get_score(importance_type="total_gain")
        splits = xgb_booster.get_score(importance_type="weight")
        counted = [
            np.array([of.get(name, 0.0) for name in train.feature_names]) for of in (gain, splits)
        ]
        shap, start = xgb_booster.predict(of, pred_contribs=True)[:, :-1], none
    else:
        if kind == "start":
            boostrank.train(params, train, ROUNDS).save(path)
            booster = lgb.Booster(model_file=str(path))
        else:
            groups = lgb.Dataset(
                train.features,
                train.labels,
                group=train.queries.sizes,
                feature_name=list(train.feature_names),
            )
            booster = lgb.train({**params, "objective": "lambdarank"}, groups, ROUNDS)
            booster.save_model(path)
        before = booster.num_trees() - ROUNDS

        def of_rounds(r: int) -> np.ndarray:
            return booster.predict(X, num_iteration=before + r) if before + r else np.zeros(len(X))

        counted = [np.zeros(FEATURES), np.zeros(FEATURES)]
        of_trees = booster.dump_model()["tree_info"]
        for tree in of_trees[before:]:
            nodes = [tree["tree_structure"]]
            while nodes:
                node = nodes.pop()
                if "split_feature" in node:
                    counted[0][node["split_feature"]] += node["split_gain"]
                    counted[1][node["split_feature"]] += 1
                    nodes += [node["left_child"], node["right_child"]]
        shap, start = (
            booster.predict(X, pred_contrib=True)[:, :-1],
            of_rounds(0) if before else none,
        )
    old = np.round(X[:, 3].astype(float), 1)
    model_report = report(
        path, data, ("ndcg@5", "map"), baseline=old, baseline_name="old", threads=1
    )
    return Case(model_report, of_rounds, *counted, np.asarray(shap, float), start, old)


@pytest.fixture(params=["start", "lightgbm", "xgboost"])
def engine_case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.getbasetemp() / "apart"
    folder.mkdir(exist_ok=True)
    return case(request.param, folder)


# ---- the arithmetic, as a textbook has it


def lists(*columns: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    ptr = both()[1].queries.ptr
    return [tuple(c[a:b] for c in columns) for a, b in pairwise(ptr)]


def discounts(n: int, k: int) -> np.ndarray:
    top = [1.0 / np.log2(2.0 + i) for i in range(min(n, k))]
    return np.array(top + [0.0] * (n - len(top)))


def ndcg(scores: np.ndarray, k: int) -> np.ndarray:
    """Of each query; the mean over the orders of documents that tie; NaN without a relevant
    document.
    """
    values = []
    for s, y in lists(scores, both()[1].labels):
        gains, d = 2.0**y - 1.0, discounts(len(y), k)
        ideal = np.sort(gains)[::-1] @ d
        dcg, at = 0.0, 0
        for value in np.unique(s)[::-1]:
            tied = gains[s == value]
            dcg += tied.sum() * d[at : at + len(tied)].mean()
            at += len(tied)
        if ideal == 0.0:
            values.append(np.nan)
        elif len(y) > 1:
            values.append(dcg / ideal)
        else:
            values.append(1.0)
    return np.array(values)


def interval(values: np.ndarray, resamples: int) -> tuple[float, float, float]:
    """Mean and 95% interval by the bootstrap that the report documents."""
    counted = values[~np.isnan(values)]
    n = len(counted)
    draws = np.random.default_rng(0).integers(0, n, size=(resamples, n))
    tail = stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf(0.025, n - 1))
    return (counted.mean(), *np.quantile(counted[draws].mean(axis=1), [tail, 1.0 - tail]))


@cache
def single_feature() -> np.ndarray:
    """Each half of the queries by the feature and direction that are best on the other."""
    data = both()[1]
    X, count = np.asarray(data.features, float), len(data.queries)
    order = np.random.default_rng(0).permutation(count)
    lowest = -float(np.finfo(np.float32).max)
    rankings = [
        np.nan_to_num(sign * X[:, f], nan=lowest) for f in range(FEATURES) for sign in (1.0, -1.0)
    ]
    values = np.array([ndcg(r, 5) for r in rankings])
    halves, owner = (order[: count // 2], order[count // 2 :]), data.queries.of_rows()
    best = [int(np.argmax(np.nanmean(values[:, half], axis=1))) for half in halves]
    return np.where(np.isin(owner, halves[1]), rankings[best[0]], rankings[best[1]])


def text_of(model_report: Report, name: str) -> str:
    """What a section says, the captions of its charts included."""
    with debug_mode(False):  # schemas are checked elsewhere, and take seconds
        (section,) = [s for s in model_report.sections if s.name == name]
    return words_of(section)


# ---- section after section


def test_the_verdict(engine_case: Case) -> None:
    frame = engine_case.report.frames["verdict"].set_index(["ranking", "metric"])
    data = both()[1]
    positions = np.concatenate([np.arange(n) for n in data.queries.sizes])
    rankings = {
        "the model": engine_case.scores,
        "old": engine_case.old,
        "the best single feature": single_feature(),
        "random order": 0.0 * positions,
        "the order of the file": -positions,
    }
    if engine_case.start is not None:
        rankings["the linear start"] = engine_case.start
    assert {name for name, _ in frame.index} == set(rankings)
    model_ndcg = ndcg(engine_case.scores, 5)
    for name, scores in rankings.items():
        row, theirs = frame.loc[name, "ndcg@5"], ndcg(scores, 5)
        assert (row.value, row.low, row.high) == pytest.approx(interval(theirs, 2000), abs=1e-9), (
            name
        )
        assert row.queries == np.sum(~np.isnan(model_ndcg))
        if name != "the model":
            assert (row.lead, row.lead_low, row.lead_high) == pytest.approx(
                interval(model_ndcg - theirs, 10_000), abs=1e-9
            )
            assert (row.better, row.worse) == (
                (model_ndcg - theirs > 1e-12).sum(),
                (theirs - model_ndcg > 1e-12).sum(),
            )
    text = text_of(engine_case.report, "verdict")
    mean, low, high = interval(model_ndcg, 2000)
    assert f"ndcg@5{mean:.4f}{low:.4f} to {high:.4f} (95%)" in text
    of_start = {} if engine_case.start is None else {"the linear start": engine_case.start}
    for name, scores in {
        "old": engine_case.old,
        "random order": 0.0 * positions,
        **of_start,
    }.items():
        lead, low, high = interval(model_ndcg - ndcg(scores, 5), 10_000)
        assert f"against {name}{lead:+.4f}{low:+.4f} to {high:+.4f}; " in text
    # The first line is the comparison with the old ranker.
    opening, values = engine_case.report.opening, ndcg(engine_case.old, 5)
    assert opening is not None
    lead, low, high = interval(model_ndcg - values, 10_000)
    assert opening.verdict.startswith("ranks better") == (low > 0.0)
    assert f"{np.nanmean(values):.4f}, {lead:+.4f} (" in opening.numbers
    assert f"{low:+.4f} to {high:+.4f}, on {np.sum(~np.isnan(model_ndcg))}" in opening.numbers


def test_importance(engine_case: Case) -> None:
    frame = (
        engine_case.report.frames["importance"]
        .set_index("feature")
        .loc[list(both()[1].feature_names)]
    )
    np.testing.assert_allclose(frame["gain"], engine_case.gain, rtol=1e-5)
    np.testing.assert_array_equal(frame["splits"], engine_case.splits)
    data = both()[1]
    owner, sizes = data.queries.of_rows(), data.queries.sizes
    for f in range(FEATURES):
        centred = [np.abs(s - s.mean()).mean() for (s,) in lists(engine_case.shap[:, f])]
        assert frame["shap"].iloc[f] == pytest.approx(np.mean(centred), abs=1e-6)
    importances = engine_case.report.importance
    losing = np.argsort(-frame["loss"].to_numpy())[:2]
    base, rng, model = (
        ndcg(engine_case.scores, 5),
        np.random.default_rng(5),
        boostrank.RankingModel.load(engine_case.report.model),
    )
    for f in losing:
        mine = []
        for _ in range(8):
            X = np.array(data.features)
            X[:, f] = X[np.lexsort((rng.random(len(X)), owner)), f]  # within each query
            mine.append(np.nanmean(base - ndcg(model.predict(X), 5)))
        error = np.std(mine, ddof=1) * np.sqrt(1.0 / 8.0 + 1.0 / importances.repeats)
        assert abs(frame["loss"].iloc[f] - np.mean(mine)) < 5.0 * error
    assert sizes.sum() == len(owner)
    useful = [n for n, v in zip(frame.index, frame["verdict"], strict=True) if v == "useful"]
    assert useful == [
        n
        for n in frame.index
        if frame["p_holm"][n] < 0.05 and frame["loss"][n] > 0.0 and frame["loss_high"][n] > 0.001
    ]
    first = frame.index[int(losing[0])]
    text = text_of(engine_case.report, "importance")
    assert f"{len(useful)} of {FEATURES} features are significant (Holm)." in text
    assert f"The largest loss is that of {first} ({frame['loss'][first]:.4f})." in text


def test_learning(engine_case: Case) -> None:
    whole = ndcg(engine_case.scores, 5)
    frame = engine_case.report.frames["prefixes"]
    assert frame["rounds"].tolist() == list(range(ROUNDS + 1))
    for row in frame.itertuples():
        values = ndcg(engine_case.of_rounds(row.rounds), 5)
        assert (row.value, row.low, row.high) == pytest.approx(interval(values, 2000), abs=1e-9)
        assert (row.lost, row.lost_low, row.lost_high) == pytest.approx(
            interval(whole - values, 10_000), abs=1e-9
        )
    text = text_of(engine_case.report, "learning")
    assert f"All {ROUNDS} rounds have {np.nanmean(whole):.4f}." in text
    fewer = re.search(rf"(\d) of {ROUNDS} rounds have a loss of ([+-]\d\.\d{{4}})", text)
    assert fewer is not None
    lost = np.nanmean(whole - ndcg(engine_case.of_rounds(int(fewer[1])), 5))
    assert fewer[2] == f"{lost:+.4f}"


def test_shapes(engine_case: Case) -> None:
    data, model = both()[1], boostrank.RankingModel.load(engine_case.report.model)
    # Edges are all values of the feature, or those that fill a 32nd, and quantiles of the others.
    X = np.asarray(data.features, np.float32)
    name = engine_case.report.shapes.curves[0].feature
    f = data.feature_names.index(name)
    curves = engine_case.report.frames["curves"]
    curve = curves[curves["feature"] == name]
    has_value = ~np.isnan(X[:, f])
    present = np.sort(X[has_value, f]).astype(float)
    edges = np.unique(present)
    if edges.size > 33:
        filling = [value for value in edges if np.sum(present == value) > present.size / 32]
        others = present[~np.isin(present, filling)]
        places = np.linspace(0, others.size - 1, 33 - len(filling))
        edges = np.unique([*filling, *others[np.rint(places).astype(int)]])
    np.testing.assert_array_equal(curve["value"], edges)
    # How scores change from one edge to the next around each document.
    at = np.maximum(np.searchsorted(edges, X[:, f].astype(float)), 1)
    low, high = X.copy(), X.copy()
    low[has_value, f], high[has_value, f] = edges[at[has_value] - 1], edges[at[has_value]]
    change = model.predict(high) - model.predict(low)

    def accumulated(rows: np.ndarray) -> np.ndarray:
        steps = [change[rows & (at == i)].mean() for i in range(1, edges.size)]
        line = np.concatenate([[0.0], np.cumsum(steps)])
        counts = [np.sum(rows & (at == i)) for i in range(1, edges.size)]
        return line - np.average((line[1:] + line[:-1]) / 2.0, weights=counts)

    # Summed up, around a mean of 0.
    effect = accumulated(has_value)
    np.testing.assert_allclose(curve["effect"], effect, atol=2e-6)
    assert curve["documents"].tolist() == [
        0,
        *(np.sum(has_value & (at == i)) for i in range(1, edges.size)),
    ]
    text = text_of(engine_case.report, "shapes")
    assert f"From the lowest to the highest point: {np.ptp(effect):.4g}." in text


def test_queries(engine_case: Case) -> None:
    data, per_query = both()[1], ndcg(engine_case.scores, 5)
    frame = engine_case.report.frames["queries"]
    np.testing.assert_allclose(frame["ndcg@5"], per_query, atol=1e-9)
    parts = engine_case.report.frames["parts"].set_index(["kind", "name"])
    best = np.array([y.max() for (y,) in lists(data.labels)])
    for kind, of_query in (
        ("best label", [f"{b:g}" for b in best]),
        ("list length", frame["list length"]),
    ):
        for name in np.unique(of_query):
            values = per_query[(np.asarray(of_query) == name) & ~np.isnan(per_query)]
            if values.size:
                row: Any = parts.loc[kind, name]
                assert (row["queries"], row["mean"]) == (values.size, pytest.approx(values.mean()))
                assert row["q50"] == pytest.approx(np.median(values))
    quarter, three = np.nanquantile(per_query, [0.25, 0.75])
    text = text_of(engine_case.report, "queries")
    assert f"Half of the queries have ndcg@5 from {quarter:.2f} to {three:.2f}." in text
    counted = per_query[~np.isnan(per_query)]
    assert f"{np.mean(counted == 0.0):.1%}ndcg@5 is 0" in text
    worst = [row.qid for row in engine_case.report.queries.worst]
    values = dict(zip(map(str, data.queries.qid), per_query, strict=True))
    assert sorted(values[q] for q in worst) == pytest.approx(np.sort(counted)[: len(worst)])
