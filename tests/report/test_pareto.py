"""Pareto front of two goals: each mix is a training by itself, the table and the page say what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.conventions import GainExpression
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.resampling import PairedDifference, paired_difference
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Conventions, MetricResult, evaluate
from boostrank.reporting.pareto_front import Mix, ParetoFront, _dominated, gain_text, mixed

QUICK: dict[str, Any] = {"objective": "lambdarank", "num_leaves": 5, "verbosity": -1, "num_threads": 1, "seed": 3}


def _data(seed: int, queries: int) -> tuple[RankingDataset, np.ndarray]:
    """Features one of which makes the label, another the goal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * 8, 3)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + 0.3 * rng.normal(size=len(X)) + 1), 0, 3)
    goal = np.exp(X[:, 1]) * (rng.random(len(X)) < 0.7)
    return RankingDataset.from_arrays(X, y, qid=np.repeat(np.arange(queries), 8)), goal


TRAIN, GOAL = _data(0, 40)
VALID, VALID_GOAL = _data(1, 30)


@pytest.fixture(scope="module")
def front() -> ParetoFront:
    return boostrank.pareto(QUICK, TRAIN, {"margin": GOAL}, 8, VALID, valid_goal=VALID_GOAL, mixes=(1, 0.5, 0.25), k=5)


def test_each_mix_is_the_training_on_its_gain(front: ParetoFront) -> None:
    assert [mix.share for mix in front.mixes] == [0.0, 0.25, 0.5, 1.0]
    alone = boostrank.train(QUICK, TRAIN, 8)  # the label by itself, exponential
    for mix in front.mixes:
        gains = GainExpression.parse(mix.gain).evaluate({"label": TRAIN.labels, "margin": GOAL})
        model = boostrank.train(QUICK | {"gain": "linear"}, replace(TRAIN, labels=gains), 8)
        if not mix.share:
            np.testing.assert_array_equal(model.predict(VALID), alone.predict(VALID))
        scores = model.predict(VALID)
        linear = Conventions(gain="linear")
        own = evaluate("ndcg@5", VALID.labels, scores, VALID.queries)["ndcg@5"]
        other = evaluate(["ndcg@5", "dcg@5"], VALID_GOAL, scores, VALID.queries, linear)
        assert [mix.metrics[name].mean for name in front.names] == [
            own.mean, other["ndcg@5"].mean, other["dcg@5"].mean
        ]  # fmt: skip
        first = front.mixes[0].metrics["ndcg@5"]
        assert mix.differences["ndcg@5"] == paired_difference(own.per_query, first.per_query)
    ends = front.mixes[0].metrics, front.mixes[-1].metrics
    assert ends[0]["ndcg@5"].mean > ends[1]["ndcg@5"].mean
    assert ends[0]["ndcg@5 of margin"].mean < ends[1]["ndcg@5 of margin"].mean


def test_both_goals_have_the_same_mean_ideal_dcg(front: ParetoFront) -> None:
    discount = 1 / np.log2(np.arange(2, 7))

    def ideal(values: np.ndarray) -> float:
        return float(np.mean(-np.sort(-values.reshape(-1, 8), axis=1)[:, :5] @ discount))

    assert front.scale * ideal(GOAL) == pytest.approx(ideal(np.exp2(TRAIN.labels) - 1), rel=1e-12)
    assert front.mixes[-1].gain == f"{float(f'{front.scale:.4g}')!r}*(margin)"


def test_folds_hold_each_query_out_once() -> None:
    found = boostrank.pareto(QUICK, TRAIN, "abs(f2)", 4, mixes=[1], folds=3, k=5)
    assert found.folds == 3
    assert found.mixes[0].metrics["ndcg@5"].queries == len(TRAIN.queries)
    assert found.mixes[1].metrics["ndcg@5 of abs(f2)"].mean > found.mixes[0].metrics["ndcg@5 of abs(f2)"].mean


@pytest.mark.parametrize("folds", [0, 1])
def test_too_few_folds_are_refused(folds: int) -> None:
    with pytest.raises(ParameterError, match=f"folds={folds} "):
        boostrank.pareto(QUICK, TRAIN, "abs(f2)", 2, mixes=[1], folds=folds)


def test_the_table_the_page_and_json_say_the_same(front: ParetoFront) -> None:
    frame = front.to_frame()
    assert list(frame["mix"]) == [0.0, 0.25, 0.5, 1.0]
    plain = front.to_dict()
    assert plain["mixes"][2]["ndcg@5 difference"] == pytest.approx(frame["ndcg@5 difference"][2])
    page = front.to_html("valid.csv")
    assert f"{front.mixes[2].metrics['ndcg@5'].mean:.4f}" in page
    assert "0.5*(exp2(label) - 1)" in page
    assert "valid.csv" in page
    assert 'id="pareto"' in page
    assert "margin" in front._repr_html_()


def test_names_from_files_are_no_markup() -> None:
    evil = "<img src=x onerror=alert(1)>"
    found = boostrank.pareto(QUICK, TRAIN, {evil: GOAL}, 2, VALID, valid_goal=VALID_GOAL, mixes=[1], k=5)
    assert "<img src=x" not in found.to_html(evil)
    assert found.mixes[1].gain.endswith(f"*(`{evil}`)")


def test_every_rule_is_an_expression() -> None:
    labels = np.array([0.0, 1.0, 2.0, 3.0])
    for rule, expression in (
        ("exponential", None),
        ("linear", None),
        ((0.0, 1.0, 1.5, 7.0), None),
        ("linear", "label + 1"),
        ((0.0, 1234567.0, 2345678.0, 2345678.25), None),
    ):
        text = gain_text(rule, expression)
        wanted = labels + 1 if expression else boostrank.core.conventions.gains_from_labels(labels, rule)
        np.testing.assert_array_equal(GainExpression.parse(text).evaluate({"label": labels}), wanted)
        gains, mix = mixed(0.3, wanted, labels**2, 0.123456, text, "label**2")
        np.testing.assert_array_equal(GainExpression.parse(mix).evaluate({"label": labels}), gains)


def test_what_another_mix_dominates_is_not_on_the_front() -> None:
    def mix(a: float, b: float) -> Mix:
        return Mix(0.0, "", {"a": _result(a), "b": _result(b)}, {})

    def _result(mean: float) -> Any:
        return type("Result", (), {"mean": mean})

    mixes = [mix(3, 1), mix(2, 2), mix(1, 2), mix(1, 3), mix(2, 2)]
    assert [_dominated(one, mixes, ("a", "b")) for one in mixes] == [False, False, True, False, False]


def _front(*mixes: tuple[float, tuple[float, float], float, tuple[float, float]]) -> ParetoFront:
    """Mix 0 and the others: of each the label's mean and the interval of its difference, then the goal's."""

    def difference(mean: float, interval: tuple[float, float]) -> PairedDifference:
        return PairedDifference(mean, *interval, p=0.5, queries=9)

    def result(mean: float) -> MetricResult:
        return MetricResult("", mean, mean, mean, 9, 0, 0, np.full(9, mean))

    names = ("label", "goal", "dcg")
    every = [(0.5, (0.0, 0.0), 0.5, (0.0, 0.0)), *mixes]
    found = [
        Mix(i / 10, f"gain {i}", {"label": result(a), "goal": result(b), "dcg": result(b)},
            {"label": difference(a - 0.5, one), "goal": difference(b - 0.5, other), "dcg": difference(b - 0.5, other)})
        for i, (a, one, b, other) in enumerate(every)
    ]  # fmt: skip
    return ParetoFront("goal", names, tuple(found), 1.0, 0, 5, Conventions(), 0.0)


def test_the_free_mix_has_most_of_the_goal_without_a_sure_loss() -> None:
    sure_loss = (0.4, (-0.15, -0.05), 0.9, (0.3, 0.5))
    unsure_win = (0.5, (-0.05, 0.05), 0.8, (-0.1, 0.7))
    most, less = (0.48, (-0.05, 0.01), 0.7, (0.1, 0.3)), (0.49, (-0.05, 0.02), 0.6, (0.05, 0.2))
    found = _front(less, most, unsure_win, sure_loss).free
    assert found is not None
    assert found.share == 0.2
    none = _front(unsure_win, sure_loss)
    assert none.free is None
    assert none.verdict().startswith("No mix surely gains goal without surely losing label.")


def test_the_verdict_says_what_the_interval_of_the_label_allows() -> None:
    both = _front((0.55, (0.048, 0.0536), 0.7, (0.1, 0.3))).verdict()
    assert "improves goal by +0.2000 [+0.1000, +0.3000] and label by +0.0500 [+0.0480, +0.0536]" in both
    assert "better by both" in both
    assert "remains possible" not in both
    unsure = _front((0.48, (-0.0512, 0.01), 0.7, (0.1, 0.3))).verdict()
    assert "changes label by -0.0200 [-0.0512, +0.0100], so a loss of up to 0.0512 remains possible." in unsure
    assert "better by both" not in unsure


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"goal": np.zeros(320)}, DataError, "the goal has no gain"),
        ({"goal": GOAL - 5}, DataError, "row .*finite and at least 0"),
        ({"goal": GOAL[:5]}, DataError, "5 values.*320 rows"),
        ({"goal": GOAL, "valid_set": VALID}, ParameterError, "valid_goal"),
        ({"goal": "f9"}, DataError, "no column 'f9'"),
        ({"goal": {"margin": GOAL, "price": GOAL}}, ParameterError, "one name .* 2 names"),
        ({"mixes": [2]}, ParameterError, "shares of the goal"),
        ({"mixes": [0]}, ParameterError, "shares of the goal"),
        ({"params": QUICK | {"early_stopping_round": 3}}, ParameterError, "early stopping"),
    ],
)
def test_what_cannot_be_mixed_is_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    given: dict[str, Any] = {"params": QUICK, "train_set": TRAIN, "goal": GOAL, "num_boost_round": 2} | change
    with pytest.raises(error, match=words):
        boostrank.pareto(**given)
