"""Each named set of conventions against the library whose name it bears, fed with the same scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.metrics import MetricResult, evaluate
from tests.metrics.golden.make import CUTS, Inputs, inputs
from tests.reference.tied_orders import in_input_order

lgb = pytest.importorskip("lightgbm")


class Case:
    """The rankings of `inputs`, or stored ones, as arrays."""

    def __init__(self, inputs: Inputs, *, weighted: bool = False) -> None:
        self.sizes = np.array(inputs["sizes"])
        self.labels = np.array(inputs["labels"])
        self.scores = np.array(inputs["scores"])
        self.weights = np.resize([1.0, 4.0, 2.0], self.sizes.size) if weighted else None
        self.queries = QueryIndex.from_sizes(self.sizes, weights=self.weights)

    def ours(self, metrics: list[str], preset: str, **extra: Any) -> dict[str, MetricResult]:
        return evaluate(metrics, self.labels, self.scores, self.queries, preset, **extra)

    def lists(self, values: npt.ArrayLike) -> list[Float64Array]:
        return np.split(np.asarray(values), self.queries.ptr[1:-1])


def assert_means(
    ours: dict[str, MetricResult], theirs: dict[str, float], rel: float = 1e-12
) -> None:
    assert {name: result.mean for name, result in ours.items()} == pytest.approx(theirs, rel=rel)


CASES = [Case(inputs()), Case(inputs(empty=False), weighted=True)]


@pytest.mark.parametrize("case", CASES, ids=["plain", "weighted"])
def test_lightgbm_gives_these_ndcg_and_map(case: Case) -> None:
    rows = np.zeros((case.labels.size, 1))
    weight = None if case.weights is None else np.repeat(case.weights, case.sizes)
    data = lgb.Dataset(
        rows,
        case.labels,
        group=case.sizes,
        init_score=case.scores,
        weight=weight,
        params={"feature_pre_filter": False, "verbose": -1},
    )
    booster = lgb.Booster(
        {
            "objective": "lambdarank",
            "metric": ["ndcg", "map"],
            "eval_at": list(CUTS),
            "verbose": -1,
        },
        data,
    )
    theirs = {name: value for _, name, value, _ in booster.eval_train()}
    assert_means(case.ours(["ndcg@1,3,5,10", "map@1,3,5,10"], "lightgbm"), theirs)


def by_xgboost(case: Case, metrics: list[str]) -> dict[str, float]:
    xgb = pytest.importorskip("xgboost")
    data = xgb.DMatrix(np.zeros((case.labels.size, 1)), case.labels, group=case.sizes)
    if case.weights is not None:
        data.set_weight(case.weights)
    data.set_base_margin(case.scores)
    booster = xgb.Booster(
        {"objective": "rank:ndcg", "eval_metric": metrics, "base_score": 0}, [data]
    )
    words = booster.eval(data, "set").split("\t")[1:]
    return {
        word[len("set-") : word.index(":")]: float(word[word.index(":") + 1 :]) for word in words
    }


@pytest.mark.parametrize("case", CASES, ids=["plain", "weighted"])
def test_xgboost_gives_these_ndcg(case: Case) -> None:
    theirs = by_xgboost(case, ["ndcg@1", "ndcg@3", "ndcg@10", "ndcg"])
    assert_means(case.ours(["ndcg@1,3,10", "ndcg"], "xgboost"), theirs)


@pytest.mark.parametrize("weighted", [False, True])
def test_xgboost_gives_these_map_and_precision_of_binary_labels(weighted: bool) -> None:
    case = Case(inputs(grades=2), weighted=weighted)
    theirs = by_xgboost(case, ["map@1", "map@5", "map", "pre@1", "pre@5", "pre@10"])
    ours = case.ours(["map@1,5", "map", "precision@1,5,10"], "xgboost")
    assert_means(
        {name.replace("precision", "pre"): result for name, result in ours.items()}, theirs
    )


def test_scikit_learn_gives_these_ndcg_and_dcg() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    case = Case(inputs())
    for k in (*CUTS, None):
        at = f"@{k}" if k else ""
        ours = case.ours([f"ndcg{at}", f"dcg{at}"], "sklearn")
        for name, score in (("ndcg", sklearn.ndcg_score), ("dcg", sklearn.dcg_score)):
            theirs = [
                score([y], [s], k=k) if y.size > 1 else np.nan
                for y, s in zip(case.lists(case.labels), case.lists(case.scores), strict=True)
            ]
            np.testing.assert_allclose(ours[name + at].per_query, theirs, rtol=1e-12)


def stored(library: str) -> tuple[Inputs, dict[str, Any]]:
    """Rankings and what a library made of them; `golden.make` wrote the file."""
    golden = json.loads((Path(__file__).parent / "golden" / f"{library}.json").read_text())
    return golden["inputs"], golden["values"]


def test_catboost_gives_these_values() -> None:
    inputs, theirs = stored("catboost")
    case = Case(inputs)
    errs = {name: value for name, value in theirs.items() if name.startswith("err@")}
    others = {name: value for name, value in theirs.items() if name not in errs}
    assert len(errs) == 4
    assert len(others) == 24
    assert_means(case.ours(list(others), "catboost"), others)
    case.labels /= 4.0  # its ERR takes labels for probabilities
    assert_means(case.ours(list(errs), "catboost"), errs)


def test_trec_eval_gives_these_values() -> None:
    inputs, theirs = stored("trec_eval")
    ours = Case(inputs).ours(list(theirs), "trec", docnos=inputs["docnos"])
    assert len(theirs) == 11
    for name, values in theirs.items():
        np.testing.assert_allclose(
            ours[name].per_query, values, rtol=1e-12, atol=1e-15, err_msg=name
        )


def letor_dcg(ranked: list[float], depth: int) -> list[float]:
    """As Eval-Score-4.0.pl adds it up: no discount at the second rank, log2 of the rank from the
    third on.
    """
    gains = [(0, 1, 3, 7, 15)[int(y)] for y in ranked] + [0] * depth
    sums = [float(gains[0])]
    for position in range(1, depth):
        gain = (
            gains[position]
            if position < 2
            else gains[position] * np.log(2.0) / np.log(position + 1)
        )
        sums.append(sums[-1] + gain)
    return sums


@pytest.mark.parametrize(("preset", "relevant_from"), [("letor", 1), ("mslr", 2)])
def test_the_letor_scripts_give_these_values(preset: str, relevant_from: int) -> None:
    """Transcribed from Eval-Score-4.0.pl and Eval-Score-MSLR.pl; beyond the end of a list they add
    no NDCG.
    """
    case = Case(inputs())
    ndcg, precision, average_precision = [], [], []
    for labels, scores in zip(case.lists(case.labels), case.lists(case.scores), strict=True):
        ranked = in_input_order(scores.tolist(), labels.tolist())
        got, best = letor_dcg(ranked, 10), letor_dcg(sorted(ranked, reverse=True), 10)
        pairs = enumerate(zip(got, best, strict=True))
        by_rank = [g / b if b and r < len(ranked) else 0.0 for r, (g, b) in pairs]
        ndcg.append(by_rank)
        hits = np.cumsum([y >= relevant_from for y in ranked] + [False] * 10)
        precision.append(hits[:10] / np.arange(1, 11))
        precisions = [hits[r] / (r + 1) for r, y in enumerate(ranked) if y >= relevant_from]
        mean = np.mean(precisions) if precisions else 0.0
        average_precision.append(mean)
    ranks = ",".join(map(str, range(1, 11)))
    ours = case.ours([f"ndcg@{ranks}", f"precision@{ranks}", "map"], preset)
    for k in range(1, 11):
        np.testing.assert_allclose(
            ours[f"ndcg@{k}"].per_query, np.array(ndcg)[:, k - 1], rtol=1e-12
        )
        np.testing.assert_allclose(
            ours[f"precision@{k}"].per_query, np.array(precision)[:, k - 1], rtol=1e-12
        )
    np.testing.assert_allclose(ours["map"].per_query, average_precision, rtol=1e-12)
