"""How good a ranker is, and what it is measured against."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics import BoundMetrics, Metric, evaluate, paired_difference
from boostrank.reporting.sections import METRICS
from boostrank.reporting.sections.verdict import (
    MODEL,
    RANDOM,
    SPEC,
    START,
    Ranking,
    Standing,
    Verdict,
    single_feature,
    tied_documents,
)
from boostrank.reporting.sections.verdict import verdict as verdict_of
from tests.reporting.studies import study


def verdict(scores: Any, data: RankingDataset, metrics: Any = METRICS, **options: Any) -> Verdict:
    return verdict_of(study(data, metrics, scores=scores, **options))


def baseline(of: Verdict, name: str) -> Any:
    return {ranking.name: ranking for ranking in of.baselines}.get(name)


def drawn(queries: int, d: int, seed: int, *, useful: int = 0) -> RankingDataset:
    """Lists of 2 to 12 documents; the first `useful` features say something of the label, the
    others nothing.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 13, queries)
    X = rng.normal(size=(int(sizes.sum()), d)).astype(np.float32)
    y = np.clip(np.round(1.0 + X[:, :useful].sum(axis=1) + 0.8 * rng.normal(size=X.shape[0])), 0, 4)
    return RankingDataset(X, y, QueryIndex.from_sizes(sizes))


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(150, seed=3, mean_length=10).dataset


@pytest.fixture(scope="module")
def scores(data: RankingDataset) -> np.ndarray:
    """A ranking with ties in it."""
    return np.round(data.labels + np.random.default_rng(0).normal(size=data.n_documents), 1)


@pytest.fixture(scope="module")
def model_verdict(data: RankingDataset, scores: np.ndarray) -> Verdict:
    return verdict(scores, data, previous=("old.txt", -scores))


def test_the_model_is_measured_as_evaluate_does(
    data: RankingDataset, scores: np.ndarray, model_verdict: Verdict
) -> None:
    names = ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map", "mrr"]
    assert list(model_verdict.model.standings) == names
    assert model_verdict.metric == "ndcg@10"
    for name, result in evaluate(names, data.labels, scores, data.queries).items():
        standing = model_verdict.model.standings[name]
        assert standing.value == pytest.approx(result.mean, abs=1e-12)
        assert (standing.low, standing.high) == pytest.approx((result.low, result.high), abs=1e-12)
        assert standing.queries == result.queries
        assert np.isnan(standing.lead)


def test_the_lead_over_a_previous_model_is_the_paired_difference(
    data: RankingDataset, scores: np.ndarray, model_verdict: Verdict
) -> None:
    (old,) = [b for b in model_verdict.baselines if b.name == "old.txt"]
    for name, standing in old.standings.items():
        metric = Metric.parse(name)
        a = metric.evaluate(data.labels, scores, data.queries).per_query
        b = metric.evaluate(data.labels, -scores, data.queries).per_query
        pair = paired_difference(a, b)  # as `compare` and `evaluate` have it
        assert standing.lead == pytest.approx(pair.mean, abs=1e-12)
        assert (standing.lead_low, standing.lead_high) == pytest.approx(
            (pair.low, pair.high), abs=1e-12
        )
        assert (standing.better, standing.worse) == ((a - b > 1e-12).sum(), (b - a > 1e-12).sum())


def test_random_order_is_the_mean_over_all_orders() -> None:
    labels = np.array([2.0, 0, 1, 0, 3, 1, 0, 0])
    queries = QueryIndex.from_sizes([4, 3, 1])
    small = RankingDataset(np.zeros((8, 1), np.float32), labels, queries)
    model_verdict = verdict(
        labels, small, ["ndcg@2", "map", "mrr"], conventions=Conventions(empty="zero")
    )
    standings = baseline(model_verdict, "random order").standings
    for name, standing in standings.items():
        per_query = []
        for a, b in zip(queries.ptr[:-1], queries.ptr[1:], strict=True):
            one_query, mine = QueryIndex.from_sizes([b - a]), labels[a:b]
            values = [
                evaluate(name, mine, np.array(order, float), one_query, Conventions(empty="zero"))[
                    name
                ].mean
                for order in permutations(range(b - a))
            ]
            per_query.append(np.mean(values))
        assert standing.value == pytest.approx(np.mean(per_query), abs=1e-12)


def test_random_order_stays_random_where_ties_count_as_best(
    data: RankingDataset, scores: np.ndarray
) -> None:
    lucky = verdict(scores, data, "ndcg@10", conventions=Conventions(ties="optimistic"))
    plain = verdict(scores, data, "ndcg@10")
    for name in ("random order", "the best single feature"):
        assert name in {b.name for b in lucky.baselines}
    assert baseline(lucky, "random order").standings["ndcg@10"].value == pytest.approx(
        baseline(plain, "random order").standings["ndcg@10"].value
    )
    assert lucky.headline.value > plain.headline.value


def test_ties_and_the_order_of_the_file_are_those_of_metrics(
    data: RankingDataset, scores: np.ndarray, model_verdict: Verdict
) -> None:
    assert model_verdict.tied == tied_documents(data.labels, scores, data.queries) > 0
    positions = np.arange(data.n_documents)
    order = evaluate("ndcg@10", data.labels, -positions.astype(float), data.queries)["ndcg@10"].mean
    assert baseline(model_verdict, "the order of the file").standings[
        "ndcg@10"
    ].value == pytest.approx(order)


@pytest.mark.parametrize("is_noise", [False, True])
def test_a_single_feature_is_chosen_by_the_other_half(data: RankingDataset, is_noise: bool) -> None:
    """Against a loop over features, halves and directions, on data with missing values, and on
    noise, from which the halves choose different features.
    """
    data = drawn(40, 20, 3) if is_noise else data
    chosen = single_feature(study(data, "ndcg@10", seed=5))
    assert chosen is not None
    order = np.random.default_rng(5).permutation(len(data.queries))
    halves = np.split(order, [len(order) // 2])
    owner = np.repeat(np.arange(len(data.queries)), data.queries.sizes)
    ranked = [
        np.where(np.isnan(c), -1e38, c).astype(float) for s in (1, -1) for c in s * data.features.T
    ]
    directions = []
    for half in halves:
        half_data = data.take(np.sort(half))
        rows = data.queries.take(np.sort(half))[1]
        values = [
            evaluate("ndcg@10", half_data.labels, r[rows], half_data.queries)["ndcg@10"].mean
            for r in ranked
        ]
        best = int(np.argmax(values))
        side = "higher" if best < data.n_features else "lower"
        directions.append((data.feature_names[best % data.n_features], side))
        others = ~np.isin(owner, half)
        np.testing.assert_array_equal(
            np.argsort(chosen.scores[others]), np.argsort(ranked[best][others])
        )
    (first, side), (second, other_side) = directions
    assert (directions[0] != directions[1]) == is_noise
    expected = f"{first} ({side} is better)"
    if is_noise:
        expected += f" or {second} ({other_side} is better)"
    assert chosen.about == expected


def test_the_best_single_feature_of_noise_is_no_better_than_random() -> None:
    """Chosen on the queries that it is measured on, it would be: among 40 features in two
    directions one is lucky.
    """
    leads, naive = [], []
    for seed in range(25):
        noise = drawn(40, 20, seed)
        bound = BoundMetrics("ndcg@5", noise.labels, noise.queries)

        def value(scores: np.ndarray, bound: BoundMetrics = bound) -> float:
            return bound.values(scores)["ndcg@5"]

        chosen = single_feature(study(noise, "ndcg@5", seed=seed, threads=1))
        assert chosen is not None
        chance = value(np.zeros(noise.n_documents))
        leads.append(value(chosen.scores) - chance)
        naive.append(
            max(value(s * column) for column in noise.features.T for s in (1.0, -1.0)) - chance
        )
    assert abs(np.mean(leads)) < 3 * np.std(leads, ddof=1) / np.sqrt(len(leads))
    assert np.mean(naive) > 6 * np.std(naive, ddof=1) / np.sqrt(len(naive))


def test_a_feature_that_says_it_all_is_found_whatever_its_direction() -> None:
    data = drawn(60, 5, 1, useful=1)
    turned = RankingDataset(-data.features, data.labels, data.queries, ("a", "b", "c", "d", "e"))
    chosen = single_feature(study(turned, "ndcg@5"))
    assert chosen is not None
    assert chosen.about == "a (lower is better)"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_is_missing_comes_last_and_infinity_first_in_either_direction(sign: float) -> None:
    data = drawn(60, 1, 1, useful=1)
    X = sign * data.features
    X[::7] = np.nan
    X[1::7] = sign * np.inf
    chosen = single_feature(study(RankingDataset(X, data.labels, data.queries), "ndcg@5"))
    assert chosen is not None
    assert chosen.about.endswith("(higher is better)" if sign > 0.0 else "(lower is better)")
    assert np.isfinite(chosen.scores).all()
    assert chosen.scores[::7].max() < chosen.scores[2::7].min()
    assert chosen.scores[1::7].min() > chosen.scores[2::7].max()


def test_many_values_are_sampled_to_choose_by_but_every_query_is_ranked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = drawn(300, 4, 2, useful=1)
    monkeypatch.setattr("boostrank.reporting.sections.verdict._VALUES_TO_CHOOSE_BY", 4 * 100)
    chosen = single_feature(study(data, "ndcg@5"))
    assert chosen is not None
    np.testing.assert_array_equal(chosen.scores, data.features[:, 0].astype(float))


def test_one_document_gives_a_note_instead_of_an_interval() -> None:
    one_document = RankingDataset(
        np.ones((1, 2), np.float32), np.array([1.0]), QueryIndex.from_sizes([1])
    )
    model_verdict = verdict(np.zeros(1), one_document)
    assert model_verdict.headline.value == 1.0
    assert np.isnan(model_verdict.headline.low)
    assert baseline(model_verdict, "the best single feature") is None
    assert "too few" in model_verdict.notes[0]
    with pytest.raises(DataError, match=r"none .*1 queries"):
        verdict(
            np.zeros(1),
            RankingDataset(np.ones((1, 2), np.float32), np.zeros(1), QueryIndex.from_sizes([1])),
        )
    with pytest.raises(ParameterError, match="metrics"):
        verdict(np.zeros(1), one_document, [])


@pytest.mark.parametrize("left_out_by", ["model", "baseline", "both"])
def test_a_lead_is_over_the_queries_that_a_function_counts_for_both(
    data: RankingDataset, scores: np.ndarray, left_out_by: str
) -> None:
    """The model's scores are positive in all queries, and the baseline's are negative."""
    positive = np.exp(scores)

    def first_label(labels: np.ndarray, scores: np.ndarray) -> float:
        is_model = scores[0] > 0.0
        is_left_out = {
            "model": is_model and labels.size % 3 == 0,
            "baseline": scores[0] < 0.0 and labels.size % 3 == 0,
            "both": labels.size % 3 == int(is_model),
        }
        return float("nan") if is_left_out[left_out_by] else float(labels[np.argmax(scores)])

    metric = Metric("first", function=first_label)
    model_verdict = verdict(positive, data, metric, previous=("old.txt", -positive))
    standing = baseline(model_verdict, "old.txt").standings["first"]
    lead, sizes = model_verdict.lead, data.queries.sizes % 3
    assert lead.queries == sum(sizes != 0 if left_out_by != "both" else sizes == 2)
    assert lead.mean == pytest.approx(lead.new - lead.old) == pytest.approx(standing.lead)
    assert (lead.better, lead.worse) == (standing.better, standing.worse)
    assert lead.better + lead.same + lead.worse == lead.queries


def test_the_frame_has_a_row_for_each_ranking_and_metric(model_verdict: Verdict) -> None:
    frame = model_verdict.to_frame()
    assert len(frame) == 5 * 6
    assert set(frame["ranking"]) == {
        MODEL,
        "old.txt",
        "the best single feature",
        "random order",
        "the order of the file",
    }
    rows = model_verdict.to_dict()["verdict"]
    (row,) = [row for row in rows if (row["ranking"], row["metric"]) == (MODEL, "map")]
    assert row["value"] == model_verdict.model.standings["map"].value


def test_the_start_has_a_row_and_what_is_not_significant_is_called_so() -> None:
    data = drawn(60, 3, seed=5, useful=1)
    start = data.features[:, 0].astype(np.float64)
    same = verdict(start, data, "ndcg@5", start=start)
    (row,) = [baseline for baseline in same.baselines if baseline.name == START]
    assert row.standings["ndcg@5"].lead == 0.0
    assert same.doubt(row.standings["ndcg@5"]) == "not significant"
    better = verdict(data.labels + 0.01 * start, data, "ndcg@5", start=start)
    assert better.doubt(baseline(better, START).standings["ndcg@5"]) == ""
    noise = verdict(data.features[:, 2], data, "ndcg@5")
    assert baseline(noise, START) is None  # it may have no trees at all
    assert noise.doubt(baseline(noise, RANDOM).standings["ndcg@5"])


@pytest.mark.parametrize(
    ("lead", "matters", "look"),
    [
        ((0.005, 0.003, 0.008), {}, "better"),
        ((0.005, 0.003, 0.008), 0.006, ""),
        ((-0.05, -0.1005, 0.0005), {}, ""),
        ((-0.05, -0.08, -0.02), {}, "worse"),
        ((0.01, -0.02, 0.05), {}, ""),
    ],
)
def test_a_lead_has_a_colour_if_it_exceeds_chance_and_training_noise(
    model_verdict: Verdict, lead: Any, matters: Any, look: str
) -> None:
    standing = Standing("ndcg@5", 0.7, 0.6, 0.8, *lead, queries=50)
    bounds = {"ndcg@5": matters} if matters else {}
    model = Ranking(MODEL, "", {}, {"ndcg@5": standing})
    start = Ranking(START, "", {}, {"ndcg@5": standing})
    start_verdict = replace(
        model_verdict, metric="ndcg@5", model=model, baselines=(start,), matters=bounds
    )
    cards = str(SPEC.on_page(start_verdict).body).partition("</dl>")[0]
    assert f'<span class="{look}">{lead[0]:+.4f}</span>' in cards
    assert ("not significant" in cards) == (lead[1] < 0.0 < lead[2])
    assert ("within the training noise" in cards) == bool(matters)
    looks = {cell.look for cell in start_verdict.table().cells_of("lead")}
    assert looks == {look or "faint"}
