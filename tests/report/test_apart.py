"""Every number of a report against slow, obvious NumPy that shares nothing with it but the engines' own predictions.

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
from tests.report.studies import words_of

FEATURES, TRAINED, ROUNDS = 14, 70, 6


@dataclass(frozen=True)
class Case:
    """A report, and the engine behind it.

    Args:
        found: the report, against `old`.
        of_rounds: number of rounds -> float64[N], by the engine itself.
        gain, splits: float64[d], as the engine counts them.
        shap: float64[N, d], the engine's own.
        start: float64[N]; None: there is none.
        old: float64[N] of the model from before.
    """

    found: Report
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
    made = make_ranking_data(TRAINED + 60, seed=9, mean_length=9).dataset
    X = np.ascontiguousarray(made.features[:, 5 : 5 + FEATURES])
    whole = RankingDataset(X, made.labels, made.queries, made.feature_names[5 : 5 + FEATURES])
    return whole.take(np.arange(TRAINED)), whole.take(np.arange(TRAINED, TRAINED + 60))


@cache
def case(kind: str, folder: Path) -> Case:
    train, data = both()
    X, none = np.asarray(data.features), None
    params = {"num_leaves": 8, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1, "learning_rate": 0.3}
    path = folder / f"{kind}.json"
    if kind == "xgboost":
        matrix = xgb.DMatrix(train.features, train.labels, feature_names=list(train.feature_names))
        matrix.set_group(train.queries.sizes)
        own = xgb.train({"objective": "rank:ndcg", "nthread": 1, "max_depth": 3, "eta": 0.3}, matrix, ROUNDS)
        own.save_model(path)
        of = xgb.DMatrix(X, feature_names=list(train.feature_names))

        def of_rounds(r: int) -> np.ndarray:
            # Base score and rounding to float32 are no part of a ranking.
            return own.predict(of, iteration_range=(0, r), output_margin=True).astype(float) if r else np.zeros(len(X))

        gain, splits = (own.get_score(importance_type=kind) for kind in ("total_gain", "weight"))
        counted = [np.array([of.get(name, 0.0) for name in train.feature_names]) for of in (gain, splits)]
        shap, start = own.predict(of, pred_contribs=True)[:, :-1], none
    else:
        if kind == "start":
            boostrank.train(params, train, ROUNDS).save(path)
            booster = lgb.Booster(model_file=str(path))
        else:
            groups = lgb.Dataset(train.features, train.labels, group=train.queries.sizes,
                                 feature_name=list(train.feature_names))  # fmt: skip
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
        shap, start = booster.predict(X, pred_contrib=True)[:, :-1], of_rounds(0) if before else none
    old = np.round(X[:, 3].astype(float), 1)
    found = report(path, data, ("ndcg@5", "map"), baseline=old, baseline_name="old", threads=1)
    return Case(found, of_rounds, *counted, np.asarray(shap, float), start, old)


@pytest.fixture(params=["start", "lightgbm", "xgboost"])
def one(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.getbasetemp() / "apart"
    folder.mkdir(exist_ok=True)
    return case(request.param, folder)


# ---- the arithmetic, as a textbook has it


def lists(*columns: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    ptr = both()[1].queries.ptr
    return [tuple(c[a:b] for c in columns) for a, b in pairwise(ptr)]


def discounts(n: int, k: int) -> np.ndarray:
    return np.array([1.0 / np.log2(2.0 + i) if i < k else 0.0 for i in range(n)])


def ndcg(scores: np.ndarray, k: int) -> np.ndarray:
    """Of each query; the mean over the orders of documents that tie; NaN without a relevant document."""
    values = []
    for s, y in lists(scores, both()[1].labels):
        gains, d = 2.0**y - 1.0, discounts(len(y), k)
        ideal = np.sort(gains)[::-1] @ d
        dcg, at = 0.0, 0
        for value in np.unique(s)[::-1]:
            tied = gains[s == value]
            dcg += tied.sum() * d[at : at + len(tied)].mean()
            at += len(tied)
        values.append(dcg / ideal if ideal > 0.0 and len(y) > 1 else np.nan if ideal == 0.0 else 1.0)
    return np.array(values)


def interval(values: np.ndarray, resamples: int) -> tuple[float, float, float]:
    """Mean and 95% interval by the bootstrap that the report documents."""
    counted = values[~np.isnan(values)]
    n = len(counted)
    draws = np.random.default_rng(0).integers(0, n, size=(resamples, n))
    tail = stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf(0.025, n - 1))
    return (counted.mean(), *np.quantile(counted[draws].mean(axis=1), [tail, 1.0 - tail]))


def amount_of(lead: float, low: float, high: float) -> str:
    ends = (low, high) if lead >= 0.0 else (-high, -low)
    return f"{abs(lead):.4f} [{ends[0]:.4f}, {ends[1]:.4f}]"


@cache
def single_feature() -> np.ndarray:
    """Each half of the queries by the feature and direction that are best on the other."""
    data = both()[1]
    X, count = np.asarray(data.features, float), len(data.queries)
    order = np.random.default_rng(0).permutation(count)
    lowest = -float(np.finfo(np.float32).max)
    rankings = [np.nan_to_num(sign * X[:, f], nan=lowest) for f in range(FEATURES) for sign in (1.0, -1.0)]
    values = np.array([ndcg(r, 5) for r in rankings])
    halves, owner = (order[: count // 2], order[count // 2 :]), data.queries.of_rows()
    best = [int(np.argmax(np.nanmean(values[:, half], axis=1))) for half in halves]
    return np.where(np.isin(owner, halves[1]), rankings[best[0]], rankings[best[1]])


def text_of(found: Report, name: str) -> str:
    """What a section says, the captions of its charts included."""
    with debug_mode(False):  # schemas are checked elsewhere, and take seconds
        (section,) = (s for s in found.sections if s.name == name)
    return words_of(section)


# ---- section after section


def test_the_verdict(one: Case) -> None:
    frame = one.found.frames["verdict"].set_index(["ranking", "metric"])
    data = both()[1]
    place = np.concatenate([np.arange(n) for n in data.queries.sizes])
    rankings = {"the model": one.scores, "old": one.old, "the best single feature": single_feature(),
                "random order": 0.0 * place, "the order of the file": -place}  # fmt: skip
    if one.start is not None:
        rankings["the linear start"] = one.start
    assert {name for name, _ in frame.index} == set(rankings)
    own = ndcg(one.scores, 5)
    for name, scores in rankings.items():
        row, theirs = frame.loc[name, "ndcg@5"], ndcg(scores, 5)
        assert (row.value, row.low, row.high) == pytest.approx(interval(theirs, 2000), abs=1e-9), name
        assert row.queries == np.sum(~np.isnan(own))
        if name != "the model":
            assert (row.lead, row.lead_low, row.lead_high) == pytest.approx(interval(own - theirs, 10_000), abs=1e-9)
            assert (row.better, row.worse) == ((own - theirs > 1e-12).sum(), (theirs - own > 1e-12).sum())
    text = text_of(one.found, "verdict")
    mean, low, high = interval(own, 2000)
    counted = np.sum(~np.isnan(own))
    assert f"ndcg@5 is {mean:.4f} [{low:.4f}, {high:.4f}] over the {counted} included queries" in text
    for name in ("old", "random order"):
        lead, low, high = interval(own - ndcg(rankings[name], 5), 10_000)
        assert f"; {amount_of(lead, low, high)} {'above' if lead >= 0.0 else 'below'} {name}" in text
    if one.start is not None:
        lead, low, high = interval(own - ndcg(one.start, 5), 10_000)
        said = re.search(r"(The trees|The benefit of the trees)[^.]*?(\d\.\d{4} \[-?\d\.\d{4}, -?\d\.\d{4}\])", text)
        assert said is not None
        assert said[2] == amount_of(lead, low, high)
        assert said[0].startswith("The trees add 0") == (low > 0.0)


def test_the_ranking(one: Case) -> None:
    frame = one.found.frames["depth"]
    rankings = {"the model": one.scores, "old": one.old, "random order": 0.0 * one.scores}
    if one.start is not None:
        rankings["the linear start"] = one.start
    assert set(frame["ranking"]) == set(rankings)
    for row in frame.itertuples():
        values = ndcg(rankings[row.ranking], row.k)
        assert row.value == pytest.approx(np.nanmean(values), abs=1e-9)
        if row.k in (1, 10):
            assert (row.low, row.high) == pytest.approx(interval(values, 2000)[1:], abs=1e-9)


def test_importance(one: Case) -> None:
    frame = one.found.frames["importance"].set_index("feature").loc[list(both()[1].feature_names)]
    np.testing.assert_allclose(frame["gain"], one.gain, rtol=1e-5)
    np.testing.assert_array_equal(frame["splits"], one.splits)
    data = both()[1]
    owner, sizes = data.queries.of_rows(), data.queries.sizes
    for f in range(FEATURES):
        centred = [np.abs(s - s.mean()).mean() for (s,) in lists(one.shap[:, f])]
        assert frame["shap"].iloc[f] == pytest.approx(np.mean(centred), abs=1e-6)
    found = one.found.importance
    losing = np.argsort(-frame["loss"].to_numpy())[:2]
    base, rng, model = ndcg(one.scores, 5), np.random.default_rng(5), boostrank.RankingModel.load(one.found.model)
    for f in losing:
        mine = []
        for _ in range(8):
            X = np.array(data.features)
            X[:, f] = X[np.lexsort((rng.random(len(X)), owner)), f]  # within each query
            mine.append(np.nanmean(base - ndcg(model.predict(X), 5)))
        error = np.std(mine, ddof=1) * np.sqrt(1.0 / 8.0 + 1.0 / found.repeats)
        assert abs(frame["loss"].iloc[f] - np.mean(mine)) < 5.0 * error
    assert sizes.sum() == len(owner)
    useful = [n for n, v in zip(frame.index, frame["verdict"], strict=True) if v == "useful"]
    assert useful == [n for n in frame.index if frame["p_holm"][n] < 0.05 and frame["loss"][n] > 0.0
                      and frame["loss_high"][n] > 0.001]  # fmt: skip
    first = frame.index[int(losing[0])]
    text = text_of(one.found, "importance")
    assert f"{len(useful)} of {FEATURES} features are significant (Holm)." in text
    assert f"The largest loss is that of {first} ({frame['loss'][first]:.4f})." in text


def test_learning(one: Case) -> None:
    whole = ndcg(one.scores, 5)
    frame = one.found.frames["prefixes"]
    assert frame["rounds"].tolist() == list(range(ROUNDS + 1))
    for row in frame.itertuples():
        values = ndcg(one.of_rounds(row.rounds), 5)
        assert (row.value, row.low, row.high) == pytest.approx(interval(values, 2000), abs=1e-9)
        assert (row.lost, row.lost_low, row.lost_high) == pytest.approx(interval(whole - values, 10_000), abs=1e-9)
    text = text_of(one.found, "learning")
    assert f" 0 rounds: {'a random order' if one.start is None else 'the linear start alone'}." in text
    assert f"All {ROUNDS} rounds have {np.nanmean(whole):.4f}." in text
    fewer = re.search(rf"(\d) of {ROUNDS} rounds (?:\([a-z ]*\) )?(lose|gain) (\d\.\d{{4}})", text)
    assert fewer is not None
    lost = np.nanmean(whole - ndcg(one.of_rounds(int(fewer[1])), 5))
    assert fewer[3] == f"{abs(lost):.4f}"
    assert (fewer[2] == "lose") == (lost >= 0.0)


def test_shapes(one: Case) -> None:
    data, model = both()[1], boostrank.RankingModel.load(one.found.model)
    X, owner = np.asarray(data.features, np.float32), data.queries.of_rows()
    name = one.found.shapes.top[0]
    f = data.feature_names.index(name)
    curves = one.found.frames["curves"]
    curve = curves[(curves["feature"] == name) & curves["value"].notna()]
    here = ~np.isnan(X[:, f])
    present = np.sort(X[here, f]).astype(float)
    edges = np.unique(present)
    if edges.size > 33:
        edges = np.unique(present[np.rint(np.linspace(0, present.size - 1, 33)).astype(int)])
    np.testing.assert_array_equal(curve["value"], edges)
    at = np.maximum(np.searchsorted(edges, X[:, f].astype(float)), 1)
    low, high = X.copy(), X.copy()
    low[here, f], high[here, f] = edges[at[here] - 1], edges[at[here]]
    change = model.predict(high) - model.predict(low)

    def accumulated(rows: np.ndarray) -> np.ndarray:
        steps = [change[rows & (at == i)].mean() for i in range(1, edges.size)]
        line = np.concatenate([[0.0], np.cumsum(steps)])
        counts = [np.sum(rows & (at == i)) for i in range(1, edges.size)]
        return line - np.average((line[1:] + line[:-1]) / 2.0, weights=counts)

    effect = accumulated(here)
    np.testing.assert_allclose(curve["effect"], effect, atol=2e-6)
    assert curve["documents"].tolist() == [0, *(np.sum(here & (at == i)) for i in range(1, edges.size))]
    text = text_of(one.found, "shapes")
    assert f"{np.ptp(effect):.4g} from the lowest to the highest point" in text
    dependence = one.found.frames["dependence"]
    parts = dependence[dependence["feature"] == name]["part"].to_numpy()
    column = one.shap[:, f]
    centred = column - (np.bincount(owner, column) / data.queries.sizes)[owner]
    kept = np.sort(np.random.default_rng(0).permutation(len(X))[:500])
    np.testing.assert_allclose(parts, centred[kept], atol=1e-5)


def test_queries(one: Case) -> None:
    data, own = both()[1], ndcg(one.scores, 5)
    frame = one.found.frames["queries"]
    np.testing.assert_allclose(frame["ndcg@5"], own, atol=1e-9)
    parts = one.found.frames["parts"].set_index(["kind", "name"])
    best = np.array([y.max() for (y,) in lists(data.labels)])
    for kind, of_query in (("best label", [f"{b:g}" for b in best]), ("list length", frame["list length"])):
        for name in np.unique(of_query):
            values = own[(np.asarray(of_query) == name) & ~np.isnan(own)]
            if values.size:
                row: Any = parts.loc[kind, name]
                assert (row["queries"], row["mean"]) == (values.size, pytest.approx(values.mean()))
                assert row["q50"] == pytest.approx(np.median(values))
    quarter, three = np.nanquantile(own, [0.25, 0.75])
    text = text_of(one.found, "queries")
    assert f"Half of the queries have ndcg@5 from {quarter:.2f} to {three:.2f}." in text
    counted = own[~np.isnan(own)]
    assert f"{np.mean(counted >= 1.0):.1%}ndcg@5 is 1" in text
    worst = [row.qid for row in one.found.queries.worst]
    values = dict(zip(map(str, data.queries.qid), own, strict=True))
    assert sorted(values[q] for q in worst) == pytest.approx(np.sort(counted)[: len(worst)])
