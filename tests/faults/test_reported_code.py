"""Code that people already have for LightGBM and XGBoost, as the field reported it and as first
users wrote it.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb

import boostrank
from boostrank import BoostRanker, RankingDataset, RankingModel
from boostrank.core.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.random((200, 4))
Y = np.clip((4 * X[:, 0] + RNG.normal(0, 0.5, 200)).astype(int), 0, 4)
QID, SIZES, PAIRS = np.repeat(np.arange(20), 10), [10] * 20, [20] * 10
TRAIN, VALID = slice(0, 150), slice(150, 200)
FAST: dict[str, Any] = {"verbosity": -1, "n_jobs": 1}
PLAIN: dict[str, Any] = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1}
ENGINES = ("lightgbm", "xgboost")


def ranker(**params: Any) -> BoostRanker:
    return BoostRanker(**FAST | {"n_estimators": 3, "objective": "lambdarank"} | params)


def lightgbm_sets() -> tuple[Any, Any]:
    train = lgb.Dataset(X[TRAIN], Y[TRAIN], group=[10] * 15)
    return train, train.create_valid(X[VALID], Y[VALID], group=[10] * 5)


def stopped(backend: str, **params: Any) -> BoostRanker:
    """A ranker with a linear start that was stopped early."""
    watched: dict[str, Any] = {"eval_set": [(X[VALID], Y[VALID])], "eval_qid": [QID[VALID]]}
    settings = (
        FAST
        | {"backend": backend, "n_estimators": 40, "early_stopping_rounds": 2, "start": "linear"}
        | params
    )
    return BoostRanker(**settings).fit(X[TRAIN], Y[TRAIN], qid=QID[TRAIN], **watched)


@pytest.fixture(scope="module")
def rankers() -> dict[str, BoostRanker]:
    return {backend: stopped(backend) for backend in ENGINES}


# Reports, row 2: validation on the training data keeps its own queries and weights.


def history(features: Any, labels: Any, **options: Any) -> Any:
    fitted = ranker().fit(X, Y, group=SIZES, eval_set=[(features, labels)], eval_at=[10], **options)
    return next(iter(fitted.evals_result_.values()))["ndcg@10"]


def test_report_02_the_training_set_as_eval_set_keeps_its_groups() -> None:
    expected = history(X.copy(), Y, eval_group=[PAIRS])
    assert history(X, Y, eval_group=[PAIRS]) == expected != history(X, Y, eval_group=[SIZES])
    assert history(X[:], Y, eval_group=[PAIRS]) == expected
    assert history(X, Y, eval_qid=[np.repeat(np.arange(10), 20)]) == expected
    with pytest.raises(InputError, match="210"):
        history(X, Y, eval_group=[[10] * 21])


def test_report_02_weights_lists_and_frames() -> None:
    weights = np.arange(1.0, 21.0)
    expected = history(X.copy(), Y, eval_group=[SIZES], eval_sample_weight=[weights])
    assert history(X, Y, eval_sample_weight=[weights]) == expected != history(X, Y)
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = ranker().fit(
        frame,
        Y,
        group=SIZES,
        eval_set=[(frame, Y), (frame, Y)],
        eval_group=[SIZES, PAIRS],
        eval_at=[10],
    )
    assert fitted.evals_result_["training"]["ndcg@10"] == history(X, Y)
    assert fitted.evals_result_["valid_1"]["ndcg@10"] == history(X, Y, eval_group=[PAIRS])


@pytest.mark.parametrize("backend", ENGINES)
def test_report_02_early_stopping_watches_no_copy_of_the_training_set(backend: str) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    ids = {"eval_qid": [QID[TRAIN], QID[VALID]], "eval_names": ["train", "valid"]}
    sets = [(frame[TRAIN], Y[TRAIN]), (frame[VALID], Y[VALID])]
    early = {"backend": backend, "n_estimators": 40, "early_stopping_rounds": 2}
    fitted = ranker(**early).fit(frame[TRAIN], Y[TRAIN], qid=QID[TRAIN], eval_set=sets, **ids)
    alone = ranker(**early).fit(
        frame[TRAIN], Y[TRAIN], qid=QID[TRAIN], eval_set=sets[1:], eval_qid=[QID[VALID]]
    )
    assert fitted.best_iteration_ == alone.best_iteration_ < 40
    only = ranker(**early).fit(
        frame[TRAIN], Y[TRAIN], qid=QID[TRAIN], eval_set=sets[:1], eval_qid=[QID[TRAIN]]
    )
    assert only.best_iteration_ > alone.best_iteration_


@pytest.mark.parametrize("backend", ENGINES)
def test_report_02_a_callback_watches_no_training_set(backend: str) -> None:
    train = RankingDataset.from_arrays(X[TRAIN], Y[TRAIN], qid=QID[TRAIN])
    valid = RankingDataset.from_arrays(X[VALID], Y[VALID], qid=QID[VALID])
    rounds = []
    for sets in ([valid], [train, valid]):
        callback = boostrank.EarlyStopping(2, metric="ndcg@10")
        model = boostrank.train(PLAIN, train, 40, sets, backend=backend, callbacks=[callback])
        rounds.append(model.best_iteration)
    assert rounds[0] == rounds[1] < 40
    with pytest.raises(InputError, match="early stopping"):
        boostrank.train(PLAIN, train, 5, [train], callbacks=[boostrank.EarlyStopping(2)])


def test_report_02_sets_of_lightgbm_on_the_same_arrays() -> None:
    train = lgb.Dataset(X, Y, group=SIZES, free_raw_data=False)
    model = boostrank.train(PLAIN, train, 3, [train, train.create_valid(X, Y, group=PAIRS)])
    assert model.evals_result["valid_1"]["ndcg@10"] == history(X, Y, eval_group=[PAIRS])
    assert model.evals_result["training"]["ndcg@10"] == history(X, Y)


# Reports, row 15: arguments of `lgb.train` before version 4, and of `xgb.train`.


def test_report_15_arguments_of_lightgbm_3(capsys: pytest.CaptureFixture[str]) -> None:
    train, valid = lightgbm_sets()
    recorded: dict[str, Any] = {"old": 1}
    model = boostrank.train(
        PLAIN,
        train,
        40,
        valid_sets=[valid],
        early_stopping_rounds=2,
        verbose_eval=2,
        evals_result=recorded,
    )
    assert model.best_iteration < 40
    assert recorded == model.evals_result
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()][:1] == ["[2]"]

    def loss(scores: Any, dataset: Any) -> Any:
        return scores - dataset.get_label(), np.ones_like(scores)

    models = [
        boostrank.train(PLAIN | {name: loss}, lightgbm_sets()[0], 2) for name in ("objective",)
    ]
    models.append(boostrank.train(PLAIN, lightgbm_sets()[0], 2, fobj=loss, verbose_eval=False))
    assert len({model.to_bytes() for model in models}) == 1
    coded = RankingDataset.from_arrays(np.c_[X, QID % 3], Y, qid=QID)
    assert boostrank.train(PLAIN, coded, 2, categorical_feature=[4]).categories.keys() == {"f5"}


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({"learning_rates": [0.1] * 5}, r"reset_parameter\(learning_rate"),
        ({"feature_name": list("abcd")}, "feature_names="),
        ({"maximize": False}, "maximize"),
        ({"evals": [1]}, "RankingDataset"),
        ({"callbacks": [xgb.callback.EarlyStopping(rounds=2)]}, "early_stopping_rounds="),
        ({"callbacks": [5]}, "callable"),
    ],
)
def test_report_15_what_cannot_be_taken_names_what_to_pass(arguments: Any, remedy: str) -> None:
    with pytest.raises(InputError, match=remedy):
        boostrank.train(PLAIN, lightgbm_sets()[0], 5, **arguments)


@pytest.mark.parametrize("backend", ENGINES)
def test_report_15_arguments_of_xgboost(backend: str) -> None:
    train = RankingDataset.from_arrays(X[TRAIN], Y[TRAIN], qid=QID[TRAIN])
    valid = RankingDataset.from_arrays(X[VALID], Y[VALID], qid=QID[VALID])
    usual = boostrank.train(
        PLAIN | {"early_stopping_round": 2},
        train,
        40,
        [valid, train],
        ["valid", "train"],
        backend=backend,
    )
    recorded: dict[str, Any] = {}
    params = [("objective", "lambdarank"), ("verbosity", -1), ("nthread", 1)]
    pairs = [(train, "train"), (valid, "valid")]
    model = boostrank.train(
        params,
        train,
        40,
        pairs,
        backend=backend,
        early_stopping_rounds=2,
        evals_result=recorded,  # type: ignore[arg-type]
    )
    assert model.to_bytes() == usual.to_bytes()
    assert recorded == usual.evals_result
    metrics = {
        "custom_metric": lambda scores, dataset: ("size", float(len(scores))),
        "maximize": True,
    }
    measured = boostrank.train(
        PLAIN, dtrain=train, num_boost_round=2, evals=pairs, backend=backend, **metrics
    )
    assert measured.evals_result["valid"]["size"] == [50.0, 50.0]
    with pytest.raises(InputError, match="maximize="):  # XGBoost would guess the direction
        boostrank.train(
            PLAIN,
            train,
            2,
            evals=pairs,
            feval=metrics["custom_metric"],
            early_stopping_rounds=1,
            backend=backend,
        )


def test_report_15_callbacks_of_xgboost() -> None:
    class Counting(xgb.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            counted.append((epoch, len(evals_log["valid_0"]["ndcg@10"])))
            return len(counted) == 3

    counted: list[Any] = []
    assert (
        stopped("xgboost", early_stopping_rounds=None, callbacks=[Counting()]).best_iteration_ == 3
    )
    assert counted == [(0, 1), (1, 2), (2, 3)]
    theirs = [xgb.callback.EarlyStopping(rounds=2, save_best=True)]
    rounds = stopped("xgboost", early_stopping_rounds=None, callbacks=theirs).best_iteration_
    assert rounds == stopped("xgboost").best_iteration_
    rates = [xgb.callback.LearningRateScheduler([0.3] * 5)]
    slow = ranker(backend="xgboost", callbacks=None).fit(X, Y, qid=QID).predict(X)
    fast = ranker(backend="xgboost", callbacks=rates).fit(X, Y, qid=QID).predict(X)
    assert np.ptp(fast) > np.ptp(slow)


@pytest.mark.parametrize(
    ("kind", "backend"), [("LightGBM", "lightgbm"), ("LightGBM", "xgboost"), ("XGBoost", "xgboost")]
)
def test_report_15_pruning_callbacks_of_optuna(kind: str, backend: str) -> None:
    optuna = pytest.importorskip("optuna")
    pruning = getattr(pytest.importorskip("optuna_integration"), f"{kind}PruningCallback")
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2, n_warmup_steps=1)
    )
    key = {"LightGBM": "ndcg@10", "XGBoost": "valid_0-ndcg@10"}[kind]
    study.optimize(
        lambda trial: stopped(backend, callbacks=[pruning(trial, key)]).best_iteration_, n_trials=1
    )
    assert study.trials[0].state == optuna.trial.TrialState.PRUNED


# Reports, rows 16 to 18: XGBRanker's methods, objective and missing values.


@pytest.mark.parametrize("backend", ENGINES)
def test_report_16_models_are_saved_and_loaded(backend: str, rankers: Any, tmp_path: Path) -> None:
    fitted, path = rankers[backend], tmp_path / "model.json"
    scores = fitted.predict(X)
    fitted.save_model(path)
    if backend == "xgboost":
        theirs = xgb.XGBRanker()
        theirs.load_model(path)
        np.testing.assert_array_equal(
            theirs.get_booster().inplace_predict(X, validate_features=False), scores
        )
    else:
        np.testing.assert_array_equal(lgb.Booster(model_file=path).predict(X), scores)
    again = BoostRanker(n_jobs=1)
    again.load_model(path)
    np.testing.assert_array_equal(again.predict(X), scores)
    assert again.score(X, Y, qid=QID) == fitted.score(X, Y, qid=QID)
    assert (again.backend, again.n_features_in_) == (backend, 4)
    with pytest.raises(InputError):
        again.score(X, Y)
    with pytest.raises(InputError, match=r"model\.json"):
        fitted.save_model(tmp_path / "model.ubj")


@pytest.mark.parametrize("values", [[0, 10, 20], [0.5, 1.5, 2.5], ["x", "y", "z"]])
def test_report_16_a_ranker_of_lightgbm_keeps_its_categories(values: Any) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = pd.Categorical(np.array(values)[Y % 3])
    theirs = lgb.LGBMRanker(n_estimators=3, min_child_samples=5, verbose=-1, n_jobs=1)
    scores = theirs.fit(frame, Y, group=SIZES).predict(frame)
    turned = frame.assign(kind=frame["kind"].cat.reorder_categories(values[::-1]))
    np.testing.assert_array_equal(RankingModel(theirs.booster_).predict(turned), scores)


def test_report_16_names_and_results() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = ranker(backend="xgboost").fit(frame, Y, qid=QID, eval_set=(frame, Y))
    assert fitted.evals_result() == {"validation_0": fitted.evals_result_["training"]}
    assert fitted.get_booster().feature_names == list("abcd")
    with pytest.raises(ValueError, match="a, b, c, d"):  # names of columns are checked
        fitted.get_booster().predict(xgb.DMatrix(X))


def test_report_16_a_loaded_ranker_matches_columns_by_name(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = ranker().fit(frame, Y, qid=QID)
    fitted.save_model(tmp_path / "m.txt")
    again = BoostRanker(n_jobs=1).fit(X[:, :2], Y, qid=QID)
    again.load_model(tmp_path / "m.txt")
    np.testing.assert_array_equal(again.predict(frame[list("dcba")]), fitted.predict(frame))
    assert again.feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:map", "rank:pairwise"])
def test_report_17_xgboosts_objectives_with_its_backend(objective: str) -> None:
    labels = Y > 2 if objective == "rank:map" else Y
    of_xgboost = {"lambdarank_pair_method": "topk", "tree_method": "hist"}
    fitted = ranker(objective=objective, backend="xgboost", **of_xgboost).fit(X, labels, qid=QID)
    data = RankingDataset.from_arrays(X, labels, qid=QID)
    whole = {"objective": f"xgboost:{objective}", "num_threads": 1, "verbosity": -1, **of_xgboost}
    expected = boostrank.train(whole, data, 3, backend="xgboost")
    np.testing.assert_array_equal(fitted.predict(X), expected.predict(X))
    with pytest.raises(InputError, match="backend='xgboost'"):
        ranker(objective=objective).fit(X, labels, qid=QID)


def test_report_17_parameters_of_their_rankers() -> None:
    theirs = xgb.XGBRanker(n_estimators=2, n_jobs=1, enable_categorical=True).get_params()
    assert (
        BoostRanker(**theirs | {"backend": "xgboost"}).fit(X, Y, qid=QID).feature_importances_.size
        == 4
    )
    fitted = ranker(objective="rank_xendcg").fit(X, Y, qid=QID)
    assert fitted.objective_ == "lightgbm:rank_xendcg"


@pytest.mark.parametrize("backend", ENGINES)
def test_report_18_other_missing_values_are_refused_with_the_remedy(backend: str) -> None:
    with pytest.raises(InputError, match=r"X\.replace\(-999, np\.nan\)"):
        ranker(backend=backend, missing=-999).fit(X, Y, qid=QID)
    with pytest.raises(InputError, match=r"np\.where"):
        boostrank.train(
            {"missing": 0.0}, RankingDataset.from_arrays(X, Y, qid=QID), 1, backend=backend
        )
    ranker(backend=backend, missing=float("nan")).fit(X, Y, qid=QID)


# First use of Python, rows 2 and 3: functions are told apart by the number of their arguments.


def test_first_use_python_02_metrics_with_defaults_get_weights_and_groups() -> None:
    watched: dict[str, Any] = {"eval_set": (X[VALID], Y[VALID]), "eval_qid": [QID[VALID]]}
    metric = lambda t, s, w=None, g=None: ("m", len(g), True)  # noqa: E731
    for fitted in (
        ranker().fit(X, Y, qid=QID, **watched, eval_metric=metric),
        ranker(eval_metric=["ndcg@5", metric]).fit(X, Y, qid=QID, **watched),
    ):
        assert fitted.evals_result_["valid_0"]["m"] == [5.0] * 3
    weights = [np.full(5, 2.0)]
    weighted = ranker().fit(
        X,
        Y,
        qid=QID,
        **watched | {"eval_set": [(X[VALID], Y[VALID])], "eval_qid": [QID[VALID]]},
        eval_metric=lambda t, s, w: ("w", float(w.sum()), True),
        eval_sample_weight=weights,
    )
    assert weighted.evals_result_["valid_0"]["w"] == [100.0] * 3


@pytest.mark.parametrize("backend", ENGINES)
def test_first_use_python_03_objectives_by_number_of_arguments(backend: str) -> None:
    seen: list[Any] = []

    def four(a: Any, b: Any, c: Any, d: Any) -> Any:
        seen.append((c, list(d)))
        return b - a, np.ones_like(b)

    class Loss:
        def __call__(self, labels: Any, scores: Any, eps: Any = None) -> Any:
            return scores - labels, np.ones_like(scores)

    losses = [lambda y, p: (p - y, np.ones_like(p)), four, Loss()]
    of_each_loss = [
        ranker(objective=loss, backend=backend).fit(X, Y, qid=QID).predict(X) for loss in losses
    ]
    np.testing.assert_array_equal(of_each_loss[0], of_each_loss[1])
    np.testing.assert_array_equal(of_each_loss[0], of_each_loss[2])
    assert seen[0] == (None, SIZES)
    with pytest.raises(InputError, match="p"):
        ranker(objective=lambda p: p, backend=backend).fit(X, Y, qid=QID)


@pytest.mark.parametrize("backend", ENGINES)
def test_first_use_python_03_an_objective_may_change_its_arrays(backend: str) -> None:
    def in_place(labels: Any, scores: Any) -> Any:
        labels -= scores
        return -labels, np.ones_like(scores)

    losses = [in_place, lambda labels, scores: (scores - labels, np.ones_like(scores))]
    first, second = [
        ranker(objective=loss, backend=backend).fit(X, Y, qid=QID).predict(X) for loss in losses
    ]
    np.testing.assert_array_equal(first, second)


def test_first_use_python_03_train_takes_scores_and_the_data_set() -> None:
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    loss = lambda p, d, k=2: (k * (p - d.get_label()), np.full_like(p, k))  # noqa: E731
    model = boostrank.train({**PLAIN, "objective": loss}, data, 2)
    assert np.ptp(model.predict(X)) > 0


# First use of Python, rows 11 and 15: warnings and words.


def test_first_use_python_11_categories_beside_a_start_do_not_warn() -> None:
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=pd.Categorical(QID % 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for start in ("auto", "linear"):
            BoostRanker(n_estimators=2, start=start, **FAST).fit(
                frame.astype({"kind": "str"}).astype({"kind": "category"}), Y, qid=QID
            )


def test_first_use_python_15_weights_and_positions_name_what_works() -> None:
    with pytest.raises(InputError, match=r"sample_weight=\.\.\."):
        ranker(class_weight="balanced").fit(X, Y, qid=QID)
    with pytest.raises(InputError, match=r"from_arrays\(\.\.\., weight="):
        boostrank.train({"class_weight": {0: 1}}, RankingDataset.from_arrays(X, Y, qid=QID), 1)
    with pytest.raises(InputError, match=r"clicks\.md"):
        boostrank.train(PLAIN, lgb.Dataset(X, Y, group=SIZES, position=QID), 1)


# First use of Python, row 13: the booster counts rounds as the ranker does.


def test_first_use_python_13_lightgbms_idioms_give_the_rankers_scores(
    rankers: Any, tmp_path: Path
) -> None:
    fitted = rankers["lightgbm"]
    scores, rounds = fitted.predict(X), fitted.best_iteration_
    for booster in (
        fitted.booster_,
        pickle.loads(pickle.dumps(fitted)).booster_,
        copy.deepcopy(fitted.booster_),
    ):
        assert rounds == booster.best_iteration < booster.num_trees()
        for count in (None, -1, rounds, booster.num_trees()):
            np.testing.assert_array_equal(booster.predict(X, num_iteration=count), scores)
        for span in (
            {"num_iteration": 1},
            {"start_iteration": 1},
            {"start_iteration": 1, "num_iteration": 1},
        ):
            for kind in ({}, {"pred_leaf": True}, {"pred_contrib": True}):
                expected = fitted.predict(X, **span, **kind)
                np.testing.assert_allclose(booster.predict(X, **span, **kind), expected, atol=1e-12)
    fitted.booster_.save_model(tmp_path / "m.txt", num_iteration=fitted.booster_.best_iteration)
    np.testing.assert_array_equal(lgb.Booster(model_file=tmp_path / "m.txt").predict(X), scores)
    for model in (RankingModel.load(tmp_path / "m.txt"), RankingModel(fitted.booster_)):
        np.testing.assert_array_equal(model.predict(X), scores)


def test_first_use_python_13_xgboosts_idioms_give_the_rankers_scores(
    rankers: Any, tmp_path: Path
) -> None:
    fitted, rows = rankers["xgboost"], xgb.DMatrix(X)
    scores, rounds = fitted.predict(X), fitted.best_iteration_
    assert fitted.best_iteration == rounds - 1 < 39
    for booster in (
        fitted.get_booster(),
        copy.copy(fitted.booster_),
        pickle.loads(pickle.dumps(fitted.booster_)),
    ):
        for last in (0, rounds, fitted.best_iteration + 1, booster.best_iteration + 1):
            np.testing.assert_array_equal(booster.predict(rows, iteration_range=(0, last)), scores)
        np.testing.assert_array_equal(
            booster.inplace_predict(X, iteration_range=(0, rounds)), scores
        )
        first_round = booster.predict(rows, iteration_range=(0, 1))
        np.testing.assert_array_equal(first_round, fitted.predict(X, num_iteration=1))
    np.testing.assert_array_equal(fitted.predict(X, iteration_range=(0, rounds)), scores)
    fitted.booster_.save_model(tmp_path / "m.json")
    theirs = xgb.XGBRanker()
    theirs.load_model(tmp_path / "m.json")
    assert theirs.best_iteration == theirs.get_booster().num_boosted_rounds() - 1
    np.testing.assert_array_equal(RankingModel.load(tmp_path / "m.json").predict(X), scores)


def test_first_use_python_13_an_early_stopped_booster_without_a_start_ends_there() -> None:
    for backend in ENGINES:
        fitted = stopped(backend, start="none")
        data = X if backend == "lightgbm" else xgb.DMatrix(X)
        np.testing.assert_array_equal(fitted.booster_.predict(data), fitted.predict(X))


# Labels above 31 with a linear gain, for the engines' own objectives.


@pytest.mark.parametrize(
    ("objective", "backend"),
    [("lightgbm:lambdarank", "lightgbm"), ("rank_xendcg", "lightgbm"), ("rank:ndcg", "xgboost")],
)
def test_large_labels_with_a_linear_gain(objective: str, backend: str) -> None:
    labels = Y * 12.0 + 2.0
    fitted = ranker(objective=objective, backend=backend, gain="linear").fit(X, labels, qid=QID)
    assert fitted.score(X, labels, qid=QID) > 0.8
    if backend == "lightgbm":
        with pytest.raises(InputError, match="label"):
            ranker(objective="lightgbm:lambdarank").fit(X, labels, qid=QID)


def test_report_15_verbose_prints_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    ranker().fit(X, Y, qid=QID, eval_set=(X[VALID], Y[VALID]), eval_qid=[QID[VALID]], verbose=3)
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["[3]"]
    counted: list[int] = []
    callbacks = {"callbacks": [lambda env: counted.append(env.iteration)]}
    ranker(**callbacks).fit(
        X,
        Y,
        qid=QID,
        eval_set=(X[VALID], Y[VALID]),
        eval_qid=[QID[VALID]],
        verbose=True,
        **callbacks,
    )
    assert sorted(counted) == [0, 0, 1, 1, 2, 2]


# Other instances of these kinds.


@pytest.mark.parametrize(
    "result", [None, np.ones(200), (1.0, 2.0, 3.0)], ids=["none", "gradient", "three"]
)
def test_first_use_python_03_objectives_of_another_result(result: Any) -> None:
    with pytest.raises(boostrank.TrainingError, match=r"round 0.*\(gradient, Hessian\)"):
        ranker(objective=lambda labels, scores: result).fit(X, Y, qid=QID)


def test_report_18_the_remedy_has_the_value() -> None:
    with pytest.raises(InputError, match=r"X\.replace\(0, np\.nan\).*--missing-token=0"):
        ranker(missing=0).fit(X, Y, qid=QID)


def test_report_18_weights_of_features_have_a_remedy() -> None:
    with pytest.raises(InputError, match="leave features out"):
        ranker(backend="xgboost", feature_weights=[1, 1, 1, 2]).fit(X, Y, qid=QID)


def test_first_use_python_01_rows_of_json_name_the_remedy(rankers: Any) -> None:
    with pytest.raises(InputError, match="DataFrame"):
        rankers["lightgbm"].predict([{"a": 0.5, "b": None}])


def test_first_use_python_07_a_metric_of_all_queries_names_feval() -> None:
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    with pytest.raises(InputError, match=r"one number.*feval"):
        boostrank.evaluate(Y, data, lambda labels, scores: ("m", 1.0, True))


def test_first_use_python_10_trees_are_short(rankers: Any) -> None:
    assert len(repr(rankers["lightgbm"].model_.trees())) < 100


def test_first_use_python_10_wide_data_is_short() -> None:
    wide = np.tile(X, 50)
    data = RankingDataset.from_arrays(wide, Y, qid=QID)
    fitted = ranker(within_query=["rank"], n_estimators=1).fit(wide, Y, qid=QID)
    assert len(repr(data.feature_space)) < 100
    assert len(repr(fitted.model_.columns)) < 200


def test_first_use_python_12_lazy_frames_are_split() -> None:
    frame = pl.DataFrame({"qid": QID, "a": X[:, 0]})
    (train, _), *_ = boostrank.QueryKFold(4).split(frame.lazy())
    assert train.size == 150


def test_first_use_python_12_lazy_frames_are_listed_as_eval_X() -> None:
    frame = pl.DataFrame(X, schema=list("abcd")).lazy()
    watched: dict[str, Any] = {"eval_y": [Y[VALID]], "eval_qid": [QID[VALID]]}
    fitted = ranker().fit(frame, Y, qid=QID, eval_X=[frame[VALID]], **watched)
    expected = ranker().fit(X, Y, qid=QID, eval_X=[X[VALID]], **watched)
    assert fitted.evals_result_ == expected.evals_result_


@pytest.mark.parametrize("metric", [{"ndcg"}, frozenset({"ndcg"}), np.array(["ndcg"])])
def test_report_15_one_name_in_a_set_is_a_metric(metric: Any) -> None:
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    model = boostrank.train(PLAIN | {"metric": metric, "eval_at": 5}, data, 2, [data])
    assert [*model.evals_result["training"]] == ["ndcg@5"]


@pytest.mark.parametrize("name", ["custom", "None", "na"])
def test_report_15_only_own_metrics_are_measured(name: str) -> None:
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    feval = lambda scores, dataset: ("own", 1.0, True)  # noqa: E731
    model = boostrank.train(PLAIN | {"metric": name}, data, 2, [data], feval=feval)
    assert model.evals_result == {"training": {"own": [1.0, 1.0]}}


def test_report_15_no_objective_is_the_default() -> None:
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    default = {"verbosity": -1, "num_threads": 1}
    expected = boostrank.train(default, data, 2)
    assert boostrank.train(default | {"objective": None}, data, 2).to_bytes() == expected.to_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        {"feval": "ndcg"},
        {"feval": [3]},
        {"evals_result": []},
        {"verbose_eval": "yes"},
        {"valid_names": [1]},
        {"valid_names": 5},
        {"quality": 3},
    ],
)
def test_report_15_arguments_of_another_type_are_named(arguments: Any) -> None:
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    name = next(iter(arguments)).replace("_eval", "")
    with pytest.raises(InputError, match=rf"{name}\w*="):
        boostrank.train(**{"params": PLAIN, "train_set": data, "valid_sets": [data]} | arguments)


def test_report_15_a_callback_of_xgboost_names_the_results_that_exist() -> None:
    class Pruning(xgb.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return evals_log["validation_0"] is None

    with pytest.raises(InputError, match=r"'validation_0'.*valid_0-ndcg@10"):
        stopped("xgboost", callbacks=[Pruning()])


def test_report_16_results_have_the_names_of_xgbranker() -> None:
    sets = [(X[VALID], Y[VALID]), (X[TRAIN], Y[TRAIN])]
    watched: dict[str, Any] = {"eval_set": sets, "eval_qid": [QID[VALID], QID[TRAIN]]}
    fitted = ranker().fit(X, Y, qid=QID, **watched)
    assert [*fitted.evals_result()] == ["validation_0", "validation_1"]
    assert fitted.evals_result()["validation_1"] == fitted.evals_result_["valid_1"]
    named = ranker().fit(X, Y, qid=QID, **watched, eval_names=["late", "early"])
    assert named.evals_result() == named.evals_result_


@pytest.mark.parametrize("source", [b"tree", None, 3])
def test_report_16_only_paths_are_loaded(source: Any) -> None:
    for load in (RankingModel.load, ranker().load_model):
        with pytest.raises(InputError, match="path"):
            load(source)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_iteration": 1.5},
        {"num_iteration": "best"},
        {"start_iteration": "one"},
        {"iteration_range": 2},
    ],
)
def test_report_16_rounds_that_cannot_be_used_are_refused(rankers: Any, arguments: Any) -> None:
    for model in (rankers["lightgbm"], rankers["lightgbm"].model_):
        with pytest.raises(InputError, match=next(iter(arguments))):
            model.predict(X, **arguments)


def test_first_use_python_07_the_ranker_takes_a_function_of_all_queries() -> None:
    def whole_lists(labels: Any, scores: Any, sizes: Any) -> Any:
        return np.full(len(sizes), float(len(labels)))

    watched: dict[str, Any] = {"eval_set": (X[VALID], Y[VALID]), "eval_qid": [QID[VALID]]}
    fitted = ranker().fit(X, Y, qid=QID, **watched, eval_metric=whole_lists)
    assert fitted.evals_result_["valid_0"] == {"whole_lists": [50.0] * 3}


@pytest.mark.parametrize("value", [True, np.bool_(True), np.float32(1), np.array(1)])
def test_first_use_python_07_a_function_may_return_any_number(value: Any) -> None:
    watched: dict[str, Any] = {"eval_set": (X[VALID], Y[VALID]), "eval_qid": [QID[VALID]]}
    fitted = ranker(metric=lambda labels, scores: value).fit(X, Y, qid=QID, **watched)
    assert fitted.evals_result_["valid_0"]["lambda"] == [1.0] * 3


def test_first_use_python_07_a_function_of_a_query_as_feval_names_the_place() -> None:
    data = RankingDataset.from_arrays(X, Y, qid=QID)
    with pytest.raises(InputError, match="as metric"):
        boostrank.train(PLAIN, data, 2, [data], feval=lambda labels, scores: 1.0)


def test_first_use_python_07_nothing_stops_early_on_nan() -> None:
    def undefined(scores: Any, dataset: Any) -> Any:
        return "own", float("nan"), True

    data = RankingDataset.from_arrays(X[TRAIN], Y[TRAIN], qid=QID[TRAIN])
    valid = RankingDataset.from_arrays(X[VALID], Y[VALID], qid=QID[VALID])
    params = PLAIN | {"metric": "none", "early_stopping_round": 2}
    with pytest.raises(InputError, match=r"own.*NaN"):
        boostrank.train(params, data, 5, [valid], feval=undefined)


def test_first_use_python_09_the_remedy_of_a_method_has_its_arguments() -> None:
    fitted = ranker().fit(X, Y, qid=QID)
    with pytest.raises(InputError, match=r"rank .*pass qid="):
        fitted.rank(X)


def test_first_use_python_10_values_of_an_objective_are_short() -> None:
    values = boostrank.objective_values("listnet", Y, X[:, 0], SIZES)
    assert "200" in repr(values)
    assert len(repr(values)) < 100
