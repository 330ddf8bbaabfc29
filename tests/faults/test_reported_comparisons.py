"""What people met when they measured and compared rankers: metrics of their own, luck, gates,
pages.
"""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.resampling import crossed_difference
from boostrank.data.dataset import RankingDataset
from boostrank.metrics import Metric
from boostrank.reporting.comparison import Comparison, Condition
from tests.cli.conftest import invoke, refuse, succeed

SIZES = np.random.default_rng(0).integers(1, 25, 60)
X = np.random.default_rng(1).normal(size=(SIZES.sum(), 3))
Y = np.clip(np.round(X[:, 0] + 0.7 * np.random.default_rng(2).normal(size=len(X))), 0, 3)
QID = np.repeat(np.arange(1, SIZES.size + 1), SIZES)
PLAIN = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1, "num_leaves": 5}
FILE = """
import numpy as np
def best_on_top(labels, scores):
    return labels[np.argmax(scores)] if labels.max() > 0 else float("nan")
def broken(labels, scores):
    return labels[9999]
"""


def best_on_top(labels: np.ndarray, scores: np.ndarray) -> float:
    """Label of the first document."""
    return labels[np.argmax(scores)] if labels.max() > 0 else math.nan


def all_on_top(labels: np.ndarray, scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The same, for all queries at once."""
    cuts = np.cumsum(sizes)[:-1]
    parts = zip(np.split(labels, cuts), np.split(scores, cuts), strict=True)
    return np.array([best_on_top(*part) for part in parts])


def squared_error(labels: np.ndarray, scores: np.ndarray) -> float:
    return float(np.mean((labels - scores) ** 2))


def noisy(noise: float, seed: int) -> np.ndarray:
    return Y + noise * np.random.default_rng(seed).normal(size=Y.size)


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return RankingDataset.from_arrays(X, Y, group=SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, scores of three trainings and an older one, and a file with metrics."""
    path = tmp_path_factory.mktemp("comparisons")
    rows = (
        f"{y:g} qid:{q} 1:{a:.6f} 2:{b:.6f} 3:{c:.6f}"
        for y, q, (a, b, c) in zip(Y, QID, X, strict=True)
    )
    (path / "d.txt").write_text("\n".join(rows) + "\n")
    (path / "own.py").write_text(FILE)
    for name, noise, seed in (
        ("old", 1.0, 1),
        ("new-1", 1.3, 2),
        ("new-2", 1.3, 3),
        ("new-3", 1.3, 4),
    ):
        (path / f"{name}.scores").write_text("\n".join(map(str, noisy(noise, seed))) + "\n")
    return path


@pytest.fixture
def working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


# Metrics of one's own.


def test_first_use_python_07_a_function_of_a_query_is_compared(data: RankingDataset) -> None:
    comparison = boostrank.compare(noisy(1, 1), noisy(1.5, 2), data, [best_on_top, "ndcg@10"])
    d = comparison.metrics["best_on_top"]
    assert d.old == pytest.approx(np.nanmean(all_on_top(Y, noisy(1, 1), SIZES)))
    assert d.queries == int(np.isfinite(all_on_top(Y, Y, SIZES)).sum()) < SIZES.size
    assert d.low < d.mean < d.high
    assert 0 < d.p <= 1
    assert "best_on_top" in json.dumps(comparison.to_dict())
    assert pickle.loads(pickle.dumps(comparison)).metrics["best_on_top"] == d


def test_first_use_python_07_a_function_of_all_queries_gives_the_same(data: RankingDataset) -> None:
    by_query = boostrank.compare(noisy(1, 1), noisy(1.5, 2), data, best_on_top)
    at_once = boostrank.compare(noisy(1, 1), noisy(1.5, 2), data, all_on_top)
    first, second = by_query.metrics["best_on_top"], at_once.metrics["all_on_top"]
    assert (first.mean, first.low, first.p) == (second.mean, second.low, second.p)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda labels, scores: labels[9999], ("query 0", "IndexError")),
        (lambda labels, scores: None, ("query 0", "NoneType")),
        (lambda labels, scores: math.inf, ("query 0", "inf")),
        (lambda labels, scores, sizes: [1.0], ("all queries", "(1,)")),
        (lambda labels, scores: math.nan, ("NaN for all 60",)),
        (lambda labels: 1.0, ("(labels, scores)",)),
        (3, ("3", "ndcg@10")),
    ],
)
def test_first_use_python_07_what_is_no_metric_is_named(
    data: RankingDataset, function: Any, says: tuple[str]
) -> None:
    with pytest.raises((ParameterError, DataError)) as refused:
        boostrank.evaluate(Y, data, function)
    assert [word for word in says if word not in str(refused.value)] == []


def test_first_use_python_07_a_function_may_sort_its_arrays(data: RankingDataset) -> None:
    scores = noisy(1, 1)

    def sorting(labels: np.ndarray, ranked: np.ndarray) -> float:
        ranked.sort()
        labels.sort()
        return 1.0

    boostrank.evaluate(scores, data, [sorting, "ndcg"])
    assert (scores == noisy(1, 1)).all()
    assert (data.labels == Y).all()


def test_first_use_python_07_smaller_may_be_better(data: RankingDataset) -> None:
    loss = Metric(squared_error, higher_is_better=False)  # type: ignore[arg-type]
    d = boostrank.compare(noisy(0.5, 1), noisy(2.0, 2), data, loss).metrics["squared_error"]
    assert d.mean > 0
    assert d.look == "worse"
    assert d.worse > d.better
    model = boostrank.train(
        PLAIN | {"metric": loss, "early_stopping_round": 2},
        data,
        9,
        valid_sets=[data.take(range(40))],
    )
    assert model.best_iteration == 1 + int(
        np.argmin(model.evals_result["valid_0"]["squared_error"])
    )


def test_first_use_python_07_training_stops_on_a_function(
    data: RankingDataset, tmp_path: Path
) -> None:
    params = PLAIN | {"metric": [best_on_top, "ndcg"], "early_stopping_round": 3}
    model = boostrank.train(params, data, 8, valid_sets=[data.take(range(30))])
    values = model.evals_result["valid_0"]["best_on_top"]
    assert model.best_iteration == 1 + int(np.argmax(values))
    model.save(tmp_path / "m.txt")
    record = json.loads((tmp_path / "m.txt.meta.json").read_text())
    assert record["metrics"][0] == record["parameters"]["metric"][0] == "best_on_top"


def test_first_use_python_07_the_ranker_takes_both_kinds_of_functions() -> None:
    def lightgbms(y: np.ndarray, p: np.ndarray) -> tuple[str, float, bool]:
        return "theirs", float(y.mean()), True

    ranker = boostrank.BoostRanker(n_estimators=2, verbosity=-1)
    ranker.fit(
        X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID], eval_metric=[best_on_top, lightgbms]
    )
    (values,) = ranker.evals_result_.values()
    expected = boostrank.evaluate(
        ranker.predict(X), RankingDataset.from_arrays(X, Y, group=SIZES), best_on_top
    )
    assert set(values) == {"best_on_top", "theirs"}
    assert values["best_on_top"][-1] == pytest.approx(expected["best_on_top"].mean)


def test_first_use_python_07_folds_report_and_importance_take_a_function(
    data: RankingDataset,
) -> None:
    model = boostrank.train(PLAIN | {"metric": best_on_top, "folds": 2}, data, 3)
    assert model.info["folds"]["held_out"]["best_on_top"]["queries"] > 0
    page = boostrank.report(
        model, data, [best_on_top, "map"], only=["verdict", "queries"], threads=1
    )
    assert set(page.results) == {"verdict", "queries"}
    assert page.verdict.headline.metric == "best_on_top"
    baselines = {ranking.name: ranking for ranking in page.verdict.baselines}
    assert "best_on_top" in baselines["the order of the file"].standings
    assert "random order" not in baselines  # a function has no mean over orders
    assert (
        boostrank.reporting.importance(model, data, best_on_top, repeats=1).metric == "best_on_top"
    )


def test_first_use_cli_07_a_function_in_a_file(working_folder: Path) -> None:
    result = succeed("evaluate", "old.scores", "d.txt", "--metric", "own.py:best_on_top", "--json")
    expected = boostrank.evaluate(
        noisy(1, 1), RankingDataset.from_arrays(X, Y, group=SIZES), best_on_top
    )
    assert json.loads(result.stdout)["best_on_top"]["mean"] == pytest.approx(
        expected["best_on_top"].mean
    )
    for metric, says in (
        ("own.py:broken", "query 1"),
        ("own.py:", "own.py:NAME"),
        ("own.py:absent", "best_on_top"),
    ):
        refused = refuse("compare", "old.scores", "new-1.scores", "d.txt", "--metric", metric)
        assert says in refused.stderr


def test_first_use_cli_07_train_and_compare_take_a_function_in_a_file(working_folder: Path) -> None:
    how = (
        "--quality",
        "plain",
        "--rounds",
        3,
        "--threads",
        1,
        "--metric",
        "own.py:best_on_top",
        "--early-stopping",
        2,
    )
    succeed("train", "d.txt", "--valid", "d.txt", "-m", "m.txt", *how)
    assert json.loads((working_folder / "m.txt.meta.json").read_text())["metrics"] == [
        "best_on_top"
    ]
    gate = ("--metric", "own.py:best_on_top", "--fail-if", "best_on_top < 3", "--json")
    compared = invoke("compare", "old.scores", "m.txt", "d.txt", *gate)
    assert compared.exit_code == 1, compared.stderr


# The luck of training, what was not measured, and gates.


@pytest.fixture(scope="module")
def several(data: RankingDataset) -> Comparison:
    return boostrank.compare(
        [noisy(1, 1), noisy(1, 2)], [noisy(1.3, i) for i in (3, 4, 5)], data, "ndcg@10"
    )


def test_first_use_python_06_what_was_not_measured_is_not_zero(data: RankingDataset) -> None:
    comparison = boostrank.compare(noisy(1, 1), noisy(1.3, 2), data)
    d = comparison.metrics["ndcg@10"]
    assert math.isnan(d.matters)
    assert math.isnan(d.luck)
    assert comparison.to_dict()["metrics"]["ndcg@10"]["matters"] is None
    assert not d.by_luck
    assert "over queries only" in comparison.luck_notes[0]
    assert "nan" not in repr(comparison)


def test_first_use_python_06_several_trainings_add_their_luck(
    data: RankingDataset, several: Comparison
) -> None:
    d, single = (
        several.metrics["ndcg@10"],
        boostrank.compare(noisy(1, 1), noisy(1.3, 3), data).metrics["ndcg@10"],
    )
    means = [boostrank.evaluate(noisy(1.3, i), data, "ndcg@10")["ndcg@10"].mean for i in (3, 4, 5)]
    assert several.models["ndcg@10"]["new"] == pytest.approx(means)
    assert d.new == pytest.approx(np.mean(means))
    assert d.luck > 0
    assert math.isnan(single.luck)
    assert f"{min(means):.4f} to {max(means):.4f}" in several.luck_notes[0]
    query = data.take([0])
    alone = boostrank.compare([query.labels, -query.labels], query.labels, query, "ndcg@10")
    words = alone.luck_notes[0]
    assert "2 old models" in words
    assert "nan" not in words


def test_first_use_python_06_the_combined_interval_is_a_two_way_one() -> None:
    rng = np.random.default_rng(0)
    hits = {"both": 0, "queries": 0}
    for _ in range(300):
        a = (
            rng.normal(0, 0.1, (200, 1))
            + 0.01 * rng.normal(size=4)
            + 0.02 * rng.normal(size=(200, 4))
        )
        b = (
            rng.normal(0, 0.1, (200, 1))
            + 0.01 * rng.normal(size=4)
            + 0.02 * rng.normal(size=(200, 4))
        )
        for name, sides in {
            "both": (a, b),
            "queries": [s.mean(axis=1, keepdims=True) for s in (a, b)],
        }.items():
            difference, _ = crossed_difference(*sides)
            hits[name] += difference.low <= 0 <= difference.high
    assert hits["both"] >= 0.92 * 300 > hits["queries"] + 10


def test_first_use_python_06_the_gate_reads_the_combined_interval(
    data: RankingDataset, several: Comparison
) -> None:
    bound = several.metrics["ndcg@10"].low
    rankers = [noisy(1, 1), noisy(1, 2)], [noisy(1.3, i) for i in (3, 4, 5)]
    for limit, failed in ((bound + 1e-6, True), (bound - 1e-6, False)):
        comparison = boostrank.compare(*rankers, data, fail_if=f"low(ndcg@10) < {limit:.9f}")
        assert comparison.failed is failed


def test_first_use_cli_06_a_pattern_names_several_trainings(working_folder: Path) -> None:
    printed = succeed("compare", "old.scores", "new-*.scores", "d.txt", "--json")
    result = json.loads(printed.stdout)
    assert len(result["models"]["ndcg@10"]["new"]) == 3
    assert result["metrics"]["ndcg@10"]["luck"] > 0
    assert "over queries only" in " ".join(
        invoke("compare", "old.scores", "new-1.scores", "d.txt").stdout.split()
    )
    for pattern, says in (("new-[1].scores", "twice"), ("nothing-*.scores", "no file matches")):
        refused = refuse("compare", "new-1.scores", pattern, "d.txt")
        assert says in refused.stderr


def test_first_use_cli_11_a_condition_on_an_end_of_the_interval(
    working_folder: Path, data: RankingDataset
) -> None:
    d = boostrank.compare(noisy(1, 1), noisy(1.3, 2), data).metrics["ndcg@10"]
    for end, value in (("low", d.low), ("high", d.high)):
        for shift, status in ((1e-6, 1), (-1e-6, 0)):
            condition = f"{end}(ndcg@10) < {value + shift:.9f}"
            assert (
                invoke(
                    "compare", "old.scores", "new-1.scores", "d.txt", "--fail-if", condition
                ).exit_code
                == status
            )


@pytest.mark.parametrize(
    "text",
    [
        "ndcg@10 low < -0.01",
        "low(ndcg@10 < 0",
        "low(ndcg@10) < 0 at p<0.05",
        "mean(map) < 0",
        "map < 0 in any",
    ],
)
def test_first_use_cli_11_other_forms_are_told_the_grammar(text: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Condition.parse(text)
    assert "low(METRIC) < NUMBER" in str(refused.value)
    assert str(Condition.parse("LOW( ndcg@10 ) < -0.01")) == "low(ndcg@10) < -0.01"


def test_first_use_cli_11_the_floor_of_p_names_its_cause(data: RankingDataset) -> None:
    condition = "ndcg@10 < -0.01 at p<0.00005"
    with pytest.raises(DataError) as by_flips:
        boostrank.compare(noisy(1, 1), noisy(1.3, 2), data, fail_if=condition)
    few = data.take(range(5))
    with pytest.raises(DataError) as by_queries:
        boostrank.compare(few.labels, -few.labels, few, fail_if=condition)
    assert "10,000 random" in str(by_flips.value)
    assert "use more queries" not in str(by_flips.value)
    assert "use more queries" in str(by_queries.value)


# What prints, and what is a function.


def test_first_use_python_10_results_print_in_a_line(data: RankingDataset) -> None:
    model = boostrank.train(PLAIN, data, 2)
    results = boostrank.evaluate(model, data, "ndcg@1,3,5,10")
    lines = [repr(result) for result in (*results.values(), data.queries, model.info)]
    assert [text for text in lines if len(text) > 200 or "\n" in text] == []
    assert f"{results['ndcg@10'].mean:.4f}" in repr(results)


def test_first_use_python_10_siblings_are_as_short(data: RankingDataset) -> None:
    comparison = boostrank.compare(noisy(1, 1), noisy(1.3, 2), data)
    page = boostrank.report(boostrank.train(PLAIN, data, 2), data, only=["verdict"], threads=1)
    assert max(len(repr(printed)) for printed in (comparison.churn, page)) < 600


def test_first_use_python_11_functions_and_like(data: RankingDataset) -> None:
    frame = pd.DataFrame(X, columns=list("abc")).assign(label=Y, qid=QID)
    first = RankingDataset.from_frame(frame)
    other = RankingDataset.from_frame(frame[["c", "label", "b", "qid", "a"]], like=first)
    assert other.feature_names == first.feature_names
    assert (other.features == first.features).all()
    result = boostrank.evaluate(Y, data, "map")["map"]
    assert result.mean == boostrank.metrics.evaluate("map", Y, Y, SIZES)["map"].mean
    assert all(
        map(
            callable,
            (
                boostrank.evaluate,
                boostrank.report,
                boostrank.compare,
                boostrank.doctor,
                boostrank.tune,
            ),
        )
    )


def test_first_use_python_11_with_categories() -> None:
    frame = pd.DataFrame(
        {"a": X[:, 0], "c": pd.Categorical(np.where(X[:, 1] > 0, "x", "y")), "label": Y, "qid": QID}
    )
    first = RankingDataset.from_frame(frame)
    part = frame[frame.c == "y"].assign(c=lambda rows: rows.c.cat.remove_unused_categories())
    other = RankingDataset.from_frame(part, like=first)
    assert (np.unique(other.features[:, 1]) == np.unique(first.features[X[:, 1] <= 0, 1])).all()


def test_first_use_python_16_the_report_says_what_its_metrics_are(data: RankingDataset) -> None:
    model = boostrank.train(PLAIN, data, 2)
    page = boostrank.report(model, data, only=["verdict"], threads=1)
    assert "DCG divided by the largest possible DCG" in repr(page)
    assert "Label of the first document" in repr(
        boostrank.report(model, data, best_on_top, only=["verdict"], threads=1)
    )


def test_first_use_python_06_one_query_has_no_interval(data: RankingDataset) -> None:
    query = data.take([0])
    rankers = query.labels, -query.labels
    measured = boostrank.evaluate(rankers[0], query, "ndcg@10")["ndcg@10"]
    assert np.isnan([measured.low, measured.high]).all()
    comparison = boostrank.compare(*rankers, query)
    d = comparison.to_dict()["metrics"]["ndcg@10"]
    assert (d["low"], d["high"]) == (None, None)
    assert "nan" not in f"{comparison}{comparison.opening}"
    for end in ("low", "high"):
        with pytest.raises(DataError, match="one query"):
            boostrank.compare(*rankers, query, fail_if=f"{end}(ndcg@10) < -0.01")


def test_first_use_python_11_one_section_may_be_text(data: RankingDataset) -> None:
    model = boostrank.train({"objective": "listnet", "verbosity": -1}, data, 2)
    by_name = boostrank.report(model, data, "ndcg@5", only="verdict")
    assert [*by_name.results] == ["verdict"]


@pytest.mark.parametrize("segments", [3, np.zeros(60), [1, 2]])
def test_first_use_python_11_segments_of_another_type_are_named(
    data: RankingDataset, segments: Any
) -> None:
    with pytest.raises(ParameterError, match="segments"):
        boostrank.compare(Y, -Y, data, segments=segments)
