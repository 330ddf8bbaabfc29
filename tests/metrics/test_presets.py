"""Each named set of conventions against the library whose name it bears, fed with the same scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from boostrank.core.types import Float64Array, QueryIndex
from boostrank.metric import MetricResult, evaluate
from tests.reference.tied_orders import in_input_order

lgb = pytest.importorskip("lightgbm")
CUTS = (1, 3, 5, 10)


class Case:
    """Ragged queries with many ties, lists shorter than the cut-offs, empty queries and queries of one document."""

    def __init__(self, grades: int = 5, *, empty: bool = True, weighted: bool = False) -> None:
        rng = np.random.default_rng(11)
        self.sizes = np.concatenate([[1, 1, 3, 4], rng.integers(1, 16, 60)])
        self.labels = rng.integers(0, grades, self.sizes.sum()).astype(np.float64)
        starts = np.cumsum(self.sizes) - self.sizes
        if empty:
            for q in (0, 2, 9):
                self.labels[starts[q] : starts[q] + self.sizes[q]] = 0.0
        else:
            self.labels[starts] = 1.0
        # Some scores tie, some differ by less than float32 can tell, which is what XGBoost and trec_eval compare in.
        self.scores = rng.integers(0, 8, self.labels.size) / 2.0
        self.scores[::3] += 1e-12 * rng.integers(0, 3, self.scores[::3].size)
        self.weights = rng.integers(1, 5, self.sizes.size).astype(np.float64) if weighted else None
        self.queries = QueryIndex.from_sizes(self.sizes, weights=self.weights)

    def ours(self, metrics: list[str], preset: str, **extra: Any) -> dict[str, MetricResult]:
        return evaluate(metrics, self.labels, self.scores, self.queries, preset, **extra)

    def lists(self, values: npt.ArrayLike) -> list[Float64Array]:
        return np.split(np.asarray(values), self.queries.ptr[1:-1])


def assert_means(ours: dict[str, MetricResult], theirs: dict[str, float], rel: float = 1e-12) -> None:
    assert {name: result.mean for name, result in ours.items()} == pytest.approx(theirs, rel=rel)


CASES = [Case(), Case(empty=False, weighted=True)]


@pytest.mark.parametrize("case", CASES, ids=["plain", "weighted"])
def test_lightgbm_gives_these_ndcg_and_map(case: Case) -> None:
    rows = np.zeros((case.labels.size, 1))
    weight = None if case.weights is None else np.repeat(case.weights, case.sizes)
    data = lgb.Dataset(
        rows, case.labels, group=case.sizes, init_score=case.scores, weight=weight,
        params={"feature_pre_filter": False, "verbose": -1},
    )  # fmt: skip
    booster = lgb.Booster(
        {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": list(CUTS), "verbose": -1}, data
    )
    theirs = {name: value for _, name, value, _ in booster.eval_train()}
    assert_means(case.ours(["ndcg@1,3,5,10", "map@1,3,5,10"], "lightgbm"), theirs)


def by_xgboost(case: Case, metrics: list[str]) -> dict[str, float]:
    xgb = pytest.importorskip("xgboost")
    data = xgb.DMatrix(np.zeros((case.labels.size, 1)), case.labels, group=case.sizes)
    if case.weights is not None:
        data.set_weight(case.weights)
    data.set_base_margin(case.scores)
    booster = xgb.Booster({"objective": "rank:ndcg", "eval_metric": metrics, "base_score": 0}, [data])
    words = booster.eval(data, "set").split("\t")[1:]
    return {word[len("set-") : word.index(":")]: float(word[word.index(":") + 1 :]) for word in words}


@pytest.mark.parametrize("case", CASES, ids=["plain", "weighted"])
def test_xgboost_gives_these_ndcg(case: Case) -> None:
    theirs = by_xgboost(case, ["ndcg@1", "ndcg@3", "ndcg@10", "ndcg"])
    assert_means(case.ours(["ndcg@1,3,10", "ndcg"], "xgboost"), theirs)


@pytest.mark.parametrize("weighted", [False, True])
def test_xgboost_gives_these_map_and_precision_of_binary_labels(weighted: bool) -> None:
    case = Case(grades=2, weighted=weighted)
    theirs = by_xgboost(case, ["map@1", "map@5", "map", "pre@1", "pre@5", "pre@10"])
    ours = case.ours(["map@1,5", "map", "precision@1,5,10"], "xgboost")
    assert_means({name.replace("precision", "pre"): result for name, result in ours.items()}, theirs)


def test_scikit_learn_gives_these_ndcg_and_dcg() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    case = Case()
    for k in (*CUTS, None):
        at = f"@{k}" if k else ""
        ours = case.ours([f"ndcg{at}", f"dcg{at}"], "sklearn")
        for name, score in (("ndcg", sklearn.ndcg_score), ("dcg", sklearn.dcg_score)):
            theirs = [
                score([y], [s], k=k) if y.size > 1 else np.nan
                for y, s in zip(case.lists(case.labels), case.lists(case.scores), strict=True)
            ]
            np.testing.assert_allclose(ours[name + at].per_query, theirs, rtol=1e-12)


def by_catboost(case: Case, metric: str) -> float:
    utils = pytest.importorskip("catboost.utils")
    return utils.eval_metric(
        case.labels, case.scores, metric, group_id=np.repeat(np.arange(case.sizes.size), case.sizes)
    )[0]


def test_catboost_gives_these_values() -> None:
    pytest.importorskip("catboost")
    case = Case()
    names = {"ndcg": "NDCG", "dcg": "DCG", "map": "MAP", "precision": "PrecisionAt", "recall": "RecallAt", "mrr": "MRR"}
    theirs = {f"{ours}@{k}": by_catboost(case, f"{name}:top={k}") for ours, name in names.items() for k in CUTS}
    assert_means(case.ours([f"{name}@1,3,5,10" for name in names], "catboost"), theirs)
    case.labels /= 4.0  # its ERR takes labels for probabilities
    assert_means(case.ours(["err@1,3,5,10"], "catboost"), {f"err@{k}": by_catboost(case, f"ERR:top={k}") for k in CUTS})


def test_trec_eval_gives_these_values() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    case = Case()
    rng = np.random.default_rng(12)
    docnos = [f"d{number}" for number in rng.permutation(case.labels.size)]
    names = {"ndcg_cut": "ndcg", "map_cut": "map", "P": "precision", "recall": "recall"}
    qrels, run = {}, {}
    for q, names_of in enumerate(case.lists(docnos)):
        part = slice(case.queries.ptr[q], case.queries.ptr[q + 1])
        qrels[str(q)] = dict(zip(names_of.tolist(), case.labels[part].astype(int).tolist(), strict=True))
        run[str(q)] = dict(zip(names_of.tolist(), case.scores[part].tolist(), strict=True))
    found = pytrec_eval.RelevanceEvaluator(qrels, {*names, "ndcg", "map", "recip_rank"}).evaluate(run)
    ours = case.ours(["ndcg", "map", "mrr", *(f"{n}@5,10" for n in names.values())], "trec", docnos=docnos)
    theirs = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
    theirs |= {f"{name}@{k}": f"{trec}_{k}" for trec, name in names.items() for k in (5, 10)}
    for name, trec in theirs.items():
        values = [found[str(q)][trec] for q in range(case.sizes.size)]
        np.testing.assert_allclose(ours[name].per_query, values, rtol=1e-12, atol=1e-15, err_msg=name)


def letor_dcg(ranked: list[float], depth: int) -> list[float]:
    """As Eval-Score-4.0.pl adds it up: no discount at the second rank, log2 of the rank from the third on."""
    gains = [(0, 1, 3, 7, 15)[int(y)] for y in ranked] + [0] * depth
    sums = [float(gains[0])]
    for position in range(1, depth):
        sums.append(
            sums[-1] + (gains[position] if position < 2 else gains[position] * np.log(2.0) / np.log(position + 1))
        )
    return sums


@pytest.mark.parametrize(("preset", "relevant_from"), [("letor", 1), ("mslr", 2)])
def test_the_letor_scripts_give_these_values(preset: str, relevant_from: int) -> None:
    """Transcribed from Eval-Score-4.0.pl and Eval-Score-MSLR.pl; beyond the end of a list they add no NDCG."""
    case = Case()
    ndcg, precision, average_precision = [], [], []
    for labels, scores in zip(case.lists(case.labels), case.lists(case.scores), strict=True):
        ranked = in_input_order(scores.tolist(), labels.tolist())
        got, best = letor_dcg(ranked, 10), letor_dcg(sorted(ranked, reverse=True), 10)
        ndcg.append([g / b if b and r < len(ranked) else 0.0 for r, (g, b) in enumerate(zip(got, best, strict=True))])
        hits = np.cumsum([y >= relevant_from for y in ranked] + [False] * 10)
        precision.append(hits[:10] / np.arange(1, 11))
        found = [hits[r] / (r + 1) for r, y in enumerate(ranked) if y >= relevant_from]
        average_precision.append(np.mean(found) if found else 0.0)
    ranks = ",".join(map(str, range(1, 11)))
    ours = case.ours([f"ndcg@{ranks}", f"precision@{ranks}", "map"], preset)
    for k in range(1, 11):
        np.testing.assert_allclose(ours[f"ndcg@{k}"].per_query, np.array(ndcg)[:, k - 1], rtol=1e-12)
        np.testing.assert_allclose(ours[f"precision@{k}"].per_query, np.array(precision)[:, k - 1], rtol=1e-12)
    np.testing.assert_allclose(ours["map"].per_query, average_precision, rtol=1e-12)
