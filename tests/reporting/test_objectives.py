"""Objectives compared on one's own data, each at the learning rate that is best for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.data.synthetic import make_ranking_data
from boostrank.reporting import ObjectiveComparison, compare_objectives
from tests.cli.conftest import data as data
from tests.cli.conftest import invoke, refuse, succeed

REVERSED = '''
import boostrank


def kernel(query, params, grad, hess, scratch):
    """Reversed regression: relevant documents sink."""
    loss = 0.0
    for i in range(query.scores.size):
        error = query.scores[i] + params.weight * query.gains[i]
        grad[i] = error
        hess[i] = 1.0
        loss += 0.5 * error * error
    return loss


SPEC = boostrank.define_objective(
    "reversed", kernel, params=[boostrank.Param("weight", 1.0, "slope")], shift_invariant=False, quadratic=False
)
'''
DATA = make_ranking_data(queries=140, mean_length=10, seed=3).dataset
TRAIN = DATA.take(np.arange(50))
VALID = DATA.take(np.arange(50, 80))
TEST = DATA.take(np.arange(80, 140))
PARAMS = {
    "num_leaves": 5,
    "verbosity": -1,
    "num_threads": 1,
    "eval_at": [5],
    "seed": 2,
    "feature_fraction": 0.4,
}


@pytest.fixture(scope="module")
def reversed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("own") / "reversed.py"
    path.write_text(REVERSED)
    return path


@pytest.fixture(scope="module")
def result(reversed_file: Path) -> ObjectiveComparison:
    steps: list[tuple[int, int]] = []
    objectives = {
        "mine": {"objective": boostrank.load_objective(reversed_file), "weight": 2.0},
        "regression": "regression",
        "pairs": boostrank.Objective("ranknet"),
        "again": {"objective": boostrank.load_objective(reversed_file), "weight": 2.0},
    }
    comparison = compare_objectives(
        PARAMS,
        TRAIN,
        VALID,
        TEST,
        objectives,
        6,
        rates=(0.02, 0.3),
        repeats=3,
        progress=lambda done, total, *_: steps.append((done, total)),
    )
    assert steps == [(i, 16) for i in range(1, 17)]  # the same number of trainings for each
    return comparison


def test_a_reversed_objective_loses_and_holm_is_monotone(result: ObjectiveComparison) -> None:
    assert list(result.differences) == ["regression", "pairs", "again"]
    lost = [result.differences[name] for name in ("regression", "pairs")]
    for difference in lost:
        assert difference.high < 0.0
        assert difference.low < difference.mean < difference.high
        assert difference.p_holm < 0.05
        assert difference.worse > difference.better
    # Against itself nothing is different.
    assert (result.differences["again"].mean, result.differences["again"].p_holm) == (0.0, 1.0)
    by_p_value = sorted(result.differences.values(), key=lambda difference: difference.p)
    adjusted = [difference.p_holm for difference in by_p_value]
    assert adjusted == sorted(adjusted)
    assert adjusted[0] == pytest.approx(3 * by_p_value[0].p)
    assert all(holm >= difference.p for holm, difference in zip(adjusted, by_p_value, strict=True))


def test_the_rate_is_the_best_on_the_validation_queries(result: ObjectiveComparison) -> None:
    assert result.metric == "ndcg@5"
    for tuned in result.objectives.values():
        assert set(tuned.valid) == {0.02, 0.3}
        assert tuned.valid[tuned.rate] == max(tuned.valid.values())
    params = PARAMS | {"objective": "regression", "learning_rate": 0.3, "early_stopping_round": 50}
    model = boostrank.train(params, TRAIN, 6, [VALID])
    tuned = result.objectives["regression"]
    assert tuned.valid[0.3] == max(model.evals_result["valid_0"]["ndcg@5"])
    if tuned.rate == 0.3:
        value = (
            boostrank.Metric("ndcg", (5,))
            .evaluate(TEST.labels, model.predict(TEST), TEST.queries)
            .mean
        )
        assert tuned.test[0] == pytest.approx(value, abs=1e-12)
        assert tuned.rounds[0] == model.best_iteration


def test_the_interval_has_the_luck_of_training(result: ObjectiveComparison) -> None:
    difference, pairs = result.differences["pairs"], result.objectives["pairs"]
    assert len(pairs.test) == 3
    ours = result.objectives["mine"]
    luck = np.sqrt(np.var(pairs.test, ddof=1) / 3 + np.var(ours.test, ddof=1) / 3)
    assert difference.luck == pytest.approx(luck, rel=1e-6)
    assert difference.luck > 0.0
    assert difference.mean == pytest.approx(np.mean(ours.test) - np.mean(pairs.test), abs=1e-12)


def test_the_command_prints_the_same_comparison_as_json_and_as_tables(
    reversed_file: Path, data: Path
) -> None:
    files = (data / "train.txt", "--valid", data / "valid.txt", "--test", data / "test.txt")
    few = (
        "--rate",
        0.3,
        "--repeats",
        2,
        "--rounds",
        3,
        "--num-leaves",
        4,
        "--threads",
        1,
        "--eval-at",
        5,
    )
    objective_args = ("--objective", reversed_file, "--set", "weight=2")
    result = succeed(
        "study", "compare", *files, *objective_args, "--against", "regression", *few, "--json"
    )
    printed = json.loads(result.stdout)
    assert list(printed["objectives"]) == [str(reversed_file), "regression"]
    assert printed["objectives"]["regression"]["rate"] == 0.3
    assert printed["differences"]["regression"]["mean"] < 0.0
    table = invoke(
        "study", "compare", *files, *objective_args, "--against", "regression", *few
    ).stdout
    assert f"{printed['differences']['regression']['mean']:+.4f}" in table
    twice = refuse(
        "study", "compare", *files, "--objective", "regression", "--against", "regression", *few
    )
    assert "regression, regression" in twice.stderr
    refuse("study", "compare", *files, *objective_args, *few)  # against nothing
    assert invoke("compare", "--help").stdout.startswith(
        "Usage: boostrank compare [OPTIONS] OLD NEW"
    )


@pytest.mark.parametrize(
    "wrong", [{"repeats": 1}, {"objectives": {"a": "ranknet"}}, {"params": {"learning_rate": 0.1}}]
)
def test_objectives_that_cannot_be_compared_are_refused(wrong: dict[str, object]) -> None:
    asked = {
        "params": PARAMS,
        "objectives": {"a": "ranknet", "b": "sdcg"},
        "num_boost_round": 2,
    } | wrong
    with pytest.raises(ParameterError, match=r"2 objectives .*2 repeats.* rates="):
        compare_objectives(train_set=TRAIN, valid_set=VALID, test_set=TEST, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["learning_rate", "random_state", "eval_metric"])
def test_parameters_of_all_objectives_are_refused_for_one_before_the_first_training(
    name: str,
) -> None:
    objectives = {"a": "ranknet", "b": {"objective": "sdcg", name: 1}}
    steps: list[int] = []
    with pytest.raises(ParameterError, match=rf"objective b: {name} "):
        compare_objectives(
            PARAMS, TRAIN, VALID, TEST, objectives, 2, progress=lambda done, *_: steps.append(done)
        )
    assert not steps


def test_rates_may_be_an_array_and_a_seed_is_a_whole_number() -> None:
    objectives = {"a": "ranknet", "b": "sdcg"}
    tuned = compare_objectives(
        PARAMS, TRAIN, VALID, TEST, objectives, 1, rates=np.array([0.1, 0.2]), repeats=2
    ).objectives["a"]
    assert list(tuned.valid) == [0.1, 0.2]
    for seed in (None, "x"):
        with pytest.raises(ParameterError, match="seed="):
            compare_objectives(PARAMS | {"seed": seed}, TRAIN, VALID, TEST, objectives, 1)
