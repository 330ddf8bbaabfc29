"""The search for parameters."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset, train
from boostrank.core.errors import DataError, InputError, ParameterError
from boostrank.core.params import Param
from boostrank.fit.execute import Folds
from boostrank.fit.resolve import resolve
from boostrank.metrics import BoundMetrics
from boostrank.options import TrainOptions
from boostrank.tuning import Choice, Span, TuningResult, search
from boostrank.tuning import space as space_module
from boostrank.tuning import tune as tune_all
from boostrank.tuning.search import _Search
from boostrank.tuning.space import declared_dimension, full_space, parse_dimension
from tests.cli.conftest import invoke, refuse, succeed
from tests.fit.conftest import make_short_lists

pytest.importorskip("optuna")

FIXED = {"objective": "regression", "eval_at": [5], "verbosity": -1, "num_threads": 1, "seed": 3}
LEAVES = {
    "num_leaves": Span(2, 31, log=True, integer=True),
    "learning_rate": Span(0.01, 0.5, log=True),
}


def tune(*arguments: Any, trees: bool = True, **options: Any) -> TuningResult:
    """Search, on request without the trees' own dimensions."""
    with pytest.MonkeyPatch.context() as patched:
        for module in () if trees else (search, space_module):
            patched.setattr(module, "TREES", {})
        return tune_all(*arguments, **options)


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_short_lists(60, 0)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0.1:10", Span(0.1, 10)),
        ("0.1:10:log", Span(0.1, 10, log=True)),
        ("7:63", Span(7, 63, integer=True)),
        ("a,b", Choice(("a", "b"))),
        ("xe-ndcg,lightgbm:lambdarank", Choice(("xe-ndcg", "lightgbm:lambdarank"))),
        ("true,false", Choice((True, False))),
        ("mix(a, b, mix=0.5),shf-sdcg", Choice(("mix(a, b, mix=0.5)", "shf-sdcg"))),
    ],
)
def test_a_dimension_is_read(text: str, meant: Any) -> None:
    assert parse_dimension(text) == meant
    assert parse_dimension(str(meant)) == meant


@pytest.mark.parametrize("text", ["", "a", "1:a", "3:1", "0:1:log", "2:2", "a,a"])
def test_a_wrong_dimension_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        parse_dimension(text)


def test_a_parameter_is_searched_as_far_as_its_declaration_bounds_it() -> None:
    assert declared_dimension(Param("a", 0.5, "", low=0.0, high=1.0)) == Span(0.0, 1.0)
    assert declared_dimension(Param("a", 2.0, "", low=0.0, log=True)) == Span(0.25, 16.0, log=True)
    assert declared_dimension(Param("a", 2.0, "", low=0.0)) is None
    assert declared_dimension(Param("a", True, "")) is None
    assert declared_dimension(Param("a", "x", "", choices=("x", "y"))) is None
    params = [
        Param("sigma", 1.0, "", low=0.0, log=True, aliases=("width",)),
        Param("k", 3, "", low=1, high=9),
    ]
    space = full_space(params, {"width": 2.0, "num_leaves": 8}, {"k": Span(2, 4, integer=True)})
    assert "sigma" not in space
    assert "num_leaves" not in space
    assert space["k"] == Span(2, 4, integer=True)
    assert "learning_rate" in space


def test_a_search_finds_what_the_start_lacks_and_its_numbers_are_those_of_the_trainings(
    data: RankingDataset,
) -> None:
    valid = make_short_lists(60, 1)
    start = FIXED | {"min_data_in_leaf": 5, "bagging_fraction": 0.7, "bagging_freq": 1}
    search_result = tune(
        start, data, valid, 40, trials=6, space={"learning_rate": Span(0.05, 0.5)}, trees=False
    )
    again = train(
        start
        | {"learning_rate": search_result.best.params["learning_rate"], "early_stopping_round": 50},
        data,
        40,
        valid_sets=[valid],
    )
    metrics = BoundMetrics(["ndcg@5"], valid.labels, valid.queries)
    assert metrics.values(again.predict(valid))["ndcg@5"] == pytest.approx(
        search_result.best.value, abs=1e-12
    )
    assert search_result.best.rounds == again.best_iteration == search_result.best_rounds
    rows = [data, *(data.shuffled(np.random.default_rng([3, i])) for i in range(1, 5))]
    starts = [
        train(start | {"seed": 3 + i, "early_stopping_round": 50}, rows[i], 40, valid_sets=[valid])
        for i in range(5)
    ]
    assert search_result.luck > 0.0
    values = [metrics.values(model.predict(valid))["ndcg@5"] for model in starts]
    assert search_result.start == pytest.approx(np.mean(values), abs=1e-9)
    assert search_result.luck == pytest.approx(np.std(values, ddof=1), abs=1e-9)
    assert search_result.gain.mean == pytest.approx(
        search_result.best.value - search_result.start, abs=1e-8
    )
    # The gain is over all five, not the first of them.
    assert values[0] != pytest.approx(search_result.start, abs=1e-4)
    assert search_result.params == search_result.fixed | search_result.best.params
    assert [t.number for t in search_result.trials] == list(range(6))


def test_folds_hold_out_each_query_once_and_cut_none(data: RankingDataset) -> None:
    (training,) = resolve(TrainOptions(params=FIXED), data).trainings
    folds = Folds(training, 4, 0, shares=False)
    parts = [folds.held_out(fold) for fold in range(4)]
    assert sorted(np.concatenate([part.queries.qid for part in parts])) == sorted(data.queries.qid)
    for fold, part in enumerate(parts):
        outside = folds.training(training, fold).train_set
        assert not set(outside.queries.qid) & set(part.queries.qid)
        assert len(outside.queries) + len(part.queries) == len(data.queries)


def test_a_trial_is_given_up_only_when_neither_queries_nor_seeds_explain_it(
    data: RankingDataset,
) -> None:
    search = _Search(TrainOptions(params=FIXED), data, [], 2, {})
    search._sd = 0.0
    rng = np.random.default_rng(0)
    against = rng.uniform(0.3, 0.9, len(data.queries))
    noisy = against[:30] + rng.normal(0.0, 0.1, 30)
    assert not search._behind(noisy, against)
    assert search._behind(noisy - 0.2, against)
    assert not search._behind(noisy + 0.2, against)  # far ahead is no reason
    search._sd = 0.2
    assert not search._behind(noisy - 0.2, against)  # so much is luck


def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(
    data: RankingDataset, tmp_path: Path
) -> None:
    args: dict[str, Any] = {"space": LEAVES, "trees": False, "folds": 2}
    whole = tune(FIXED, data, num_boost_round=8, trials=6, **args)
    tune(FIXED, data, num_boost_round=8, trials=2, study=tmp_path / "s", **args)
    with pytest.raises(RuntimeError, match="killed"):  # in the middle of a trial, after one more
        tune(
            FIXED, data, num_boost_round=8, trials=6, study=tmp_path / "s", progress=_killer, **args
        )
    resumed = tune(FIXED, data, num_boost_round=8, trials=6, study=tmp_path / "s", **args)
    assert [(t.params, t.state, t.rounds) for t in resumed.trials] == [
        (t.params, t.state, t.rounds) for t in whole.trials
    ]
    np.testing.assert_equal([t.value for t in resumed.trials], [t.value for t in whole.trials])
    assert resumed.start == whole.start
    record = tune(FIXED, data, num_boost_round=8, trials=0, study=tmp_path / "s", **args)
    assert record.best == resumed.best
    with pytest.raises(InputError, match=r"another search, .*fixed, rounds"):
        tune(FIXED | {"min_data_in_leaf": 3}, data, num_boost_round=9, study=tmp_path / "s", **args)


def _killer(*_: Any) -> None:
    raise RuntimeError("killed")


def test_objectives_are_searched_with_their_own_parameters(data: RankingDataset) -> None:
    fixed = {name: value for name, value in FIXED.items() if name != "objective"}
    space = {"objective": Choice(("lightgbm:lambdarank", "regression"))}
    search_result = tune(
        fixed, data, num_boost_round=4, trials=5, folds=2, space=space, trees=False
    )
    assert {t.params["objective"] for t in search_result.trials} == {
        "lightgbm:lambdarank",
        "regression",
    }


def test_a_linear_model_is_tuned_without_trees(data: RankingDataset) -> None:
    space = {"lambda_l2": Span(1e-4, 1.0, log=True)}
    fixed = {"objective": "regression", "eval_at": [5]}
    search_result = tune(
        fixed, data, num_boost_round=3, trials=2, folds=2, space=space, backend="linear"
    )
    assert [set(t.params) for t in search_result.trials] == [{"lambda_l2"}] * 2
    assert all(t.state == "done" for t in search_result.trials)


def test_options_that_cannot_be_searched_are_refused(data: RankingDataset, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="both given and searched"):
        tune(FIXED | {"num_leaves": 5}, data, space=LEAVES)
    with pytest.raises(ParameterError, match="both given and searched"):
        tune(FIXED | {"eta": 0.1}, data, space=LEAVES)
    with pytest.raises(ParameterError, match="folds=61"):
        tune(FIXED, data, folds=61)
    with pytest.raises(ParameterError, match="needs a metric"):
        tune(FIXED | {"metric": "none"}, data)
    with pytest.raises(ParameterError, match=r"trials=-1 .*at least 0"):
        tune(FIXED, data, trials=-1)
    values = {"params": 3, "trials": "x", "folds": 2.5, "space": [1], "study": 3, "progress": 3}
    for name, value in {**values, "num_boost_round": "x"}.items():
        with pytest.raises(ParameterError, match=f"{name}="):
            tune(**{"params": FIXED, "train_set": data, "trials": 0, name: value})
    with pytest.raises(InputError, match=r"study: .*directory"):
        tune(FIXED, data, study=tmp_path / "none" / "study", num_boost_round=2)
    text = "".join(f"{i % 3} qid:{i // 10} 1:{i % 7} 2:{i}\n" for i in range(60))
    (tmp_path / "rows.txt").write_text(text)
    with pytest.raises(DataError, match=r"on disk .*folds"):
        tune(FIXED, boostrank.stream(tmp_path / "rows.txt", cache=False))
    (tmp_path / "s").write_bytes(b"\x00 no study\n")
    with pytest.raises(InputError, match="not a study"):
        tune(FIXED, data, study=tmp_path / "s", num_boost_round=2)


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_other_names_of_the_engine_replace_the_parameters_of_trees(
    data: RankingDataset, backend: str
) -> None:
    search_result = tune(
        {"eta": 0.2, "eval_at": [5], "verbosity": -1, "objective": "regression"},
        data,
        num_boost_round=2,
        trials=2,
        folds=2,
        space={"reg_lambda": Span(1.0, 2.0)},
        backend=backend,
    )
    names = {"num_leaves", "min_sum_hessian_in_leaf", "feature_fraction", "reg_lambda"}
    assert [set(trial.params) for trial in search_result.trials] == [names] * 2
    assert not any("failed" in trial.state for trial in search_result.trials)


def test_a_search_with_another_start_is_another_and_its_seed_is_in_the_parameters(
    data: RankingDataset, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"num_boost_round": 2, "trials": 0, "folds": 2, "study": tmp_path / "s"}
    assert tune(FIXED, data, start="linear", **how).params["seed"] == FIXED["seed"]
    with pytest.raises(InputError, match=r"another search, .*start"):
        tune(FIXED, data, **how)


def test_a_trial_that_falls_far_behind_is_given_up_after_some_folds(data: RankingDataset) -> None:
    search_result = tune(
        FIXED,
        data,
        num_boost_round=30,
        trials=6,
        folds=3,
        space={"num_leaves": Choice((2, 15))},
        trees=False,
    )
    worst = [trial for trial in search_result.trials if trial.params["num_leaves"] == 2]
    assert "given up" in {trial.state for trial in worst}
    assert all(math.isnan(trial.value) for trial in worst if trial.state == "given up")


def test_trials_that_all_fail_end_the_search(data: RankingDataset) -> None:
    with pytest.raises(ParameterError, match=r"max_bin=-\d .*at least 2"):
        tune(
            FIXED,
            data,
            num_boost_round=2,
            trials=20,
            folds=2,
            trees=False,
            space={"max_bin": Span(-9, 1, integer=True)},
        )


def test_values_that_an_engine_refuses_fail_their_trial_alone(data: RankingDataset) -> None:
    search_result = tune(
        FIXED,
        data,
        num_boost_round=3,
        trials=4,
        folds=2,
        trees=False,
        space={"max_bin": Span(1, 3, integer=True)},
    )
    assert len(search_result.trials) == 4
    assert any(t.state == "done" for t in search_result.trials)
    for trial in search_result.trials:
        assert math.isnan(trial.value) == (trial.state != "done")


def test_the_command_writes_a_config_that_train_takes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(0, 3)} qid:{q} " + " ".join(f"{j}:{rng.normal():.3f}" for j in (1, 2, 3))
        for q in range(30)
        for _ in range(6)
    ]
    file, config = tmp_path / "train.txt", tmp_path / "tuned.toml"
    file.write_text("\n".join(lines) + "\n")
    how = [
        "tune",
        file,
        "-o",
        config,
        "--trials",
        "3",
        "--folds",
        "2",
        "--rounds",
        "5",
        "--objective",
        "shf-sdcg",
        "--param",
        "min_data_in_leaf=2",
        "--space",
        "max_depth=2:6",
        "--seed",
        "4",
        "--eval-at",
        "3",
    ]
    # The configuration is the best trial, with what was given.
    record = json.loads(invoke(*how, "--json").stdout)
    assert len(record["trials"]) == 3
    content = tomllib.loads(config.read_text())
    assert content["objective"] == "shf-sdcg"
    assert content["param"]["min_data_in_leaf"] == 2
    assert content["rounds"] == record["rounds"]
    if record["gain"] is not None:
        assert content["set"]["train_discount"] == record["params"]["train_discount"]
        assert content["param"]["max_depth"] == record["params"]["max_depth"]
    # `train` takes it.
    model = tmp_path / "model.txt"
    succeed("train", file, "--config", config, "-m", model)
    sidecar = json.loads(next(tmp_path.glob("model.txt.*json")).read_text())
    assert sidecar["training"]["rounds"] == content["rounds"]
    # The same search again is refused, or resumed.
    refused = refuse(*how)
    assert "--resume" in refused.stderr
    more = succeed(*how[:5], "4", *how[6:], "--resume")
    assert "4/4" in more.stderr
    assert "3/4" not in more.stderr


def test_a_search_takes_the_data_sets_of_the_engines(data: RankingDataset) -> None:
    ours = [data, data.take(np.arange(6))]
    theirs = [
        lgb.Dataset(part.features[:], part.labels, group=part.queries.sizes, free_raw_data=False)
        for part in ours
    ]
    results = [tune(FIXED, *sets, num_boost_round=2, trials=0) for sets in (ours, theirs)]
    assert results[0].start == results[1].start
