"""What a training refuses: each argument that it cannot take, in words, before anything is learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import DataError, ModelError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.fit.callbacks import EarlyStopping

PARAMS: dict[str, Any] = {"num_leaves": 4, "num_threads": 1, "verbosity": -1}


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    rng = np.random.default_rng(2)
    return RankingDataset.from_arrays(
        rng.normal(size=(120, 6)), rng.integers(0, 3, 120), group=[6] * 20
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"eval_at": "1,soon"}, "eval_at='soon' must be a whole number"),
        ({"eval_at": [True]}, "eval_at=True must be a whole number"),
        ({"eval_at": 2**31}, "eval_at=2147483648 must be a whole number, at least 1 and below 2"),
        ({"monotone_constraints": "up"}, "monotone_constraints='up' is not a list"),
        ({"monotone_constraints": [1, 0]}, "monotone_constraints has 2 numbers, .* 6 features"),
        ({"feature_contri": [1.0] * 6}, "feature_contri is not supported: .*leave features out"),
        ({"max_bin_by_feature": [8] * 6}, "max_bin_by_feature is not supported: .*max_bin"),
        (
            {"interaction_constraints": "[[0, -1]]"},
            "-1 is not a feature: pass its name, or its column counted from 0",
        ),
        ({"interaction_constraints": [[0, True]]}, "True is not a feature"),
        (
            {"early_stopping_round": 3, "boosting": "dart", "metric": "ndcg"},
            "dart does not support early stopping",
        ),
    ],
    ids=str,
)
def test_parameters_of_another_kind(
    params: dict[str, Any], words: str, data: RankingDataset
) -> None:
    with pytest.raises(ParameterError, match=words.replace("[", r"\[")):
        boostrank.train(PARAMS | params, data, 2, valid_sets=[data.take(np.arange(5))])


def test_one_group_of_interactions_as_text_is_one_group(data: RankingDataset) -> None:
    model = boostrank.train(PARAMS | {"interaction_constraints": "[0,1]"}, data, 3, start="none")
    same = boostrank.train(PARAMS | {"interaction_constraints": [[0, 1]]}, data, 3, start="none")
    assert np.array_equal(model.predict(data), same.predict(data))


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"quality": "god"}, ParameterError, "quality='god'.*'good'"),
        (
            {"quality": "good", "init_model": "model"},
            ParameterError,
            "init_model .*quality='quick'",
        ),
        ({"folds": 2, "init_model": "model"}, ParameterError, "init_model .*folds"),
        ({"folds": 1}, ParameterError, "folds=1"),
        ({"valid_names": ["a", "b"]}, ParameterError, "2 valid_names for 1 valid_sets"),
        (
            {"valid_sets": "copies", "valid_names": ["a", "a"]},
            ParameterError,
            "valid_names must be distinct: a, a",
        ),
        (
            {"start": "linear", "init_model": "model"},
            ParameterError,
            "init_model .*start",
        ),
    ],
    ids=str,
)
def test_arguments_that_do_not_go_together(
    arguments: dict[str, Any], kind: type[Exception], words: str, data: RankingDataset
) -> None:
    valid = data.take(np.arange(5))
    sets = [valid, data.take(np.arange(5, 10))] if "valid_sets" in arguments else [valid]
    if "init_model" in arguments:
        arguments = arguments | {"init_model": boostrank.train(PARAMS, data, 1, start="none")}
    with pytest.raises(kind, match=words):
        boostrank.train(PARAMS, data, 2, **(arguments | {"valid_sets": sets}))


def test_a_checkpoint_of_no_rounds(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="every=0 "):
        boostrank.Checkpoint(tmp_path / "c", every=0)


@pytest.mark.parametrize("min_delta", [[0.1], None, -1.0], ids=str)
def test_an_improvement_that_is_no_number(min_delta: Any) -> None:
    with pytest.raises(ParameterError, match="min_delta"):
        EarlyStopping(3, min_delta=min_delta)


def test_sets_without_a_name_and_names_as_functions(data: RankingDataset) -> None:
    valid = data.take(np.arange(5))
    with pytest.raises(ParameterError, match="evals"):
        boostrank.train(PARAMS, data, 2, evals=[(valid, "a"), valid])
    with pytest.raises(ParameterError, match="feval='ndcg'"):
        boostrank.train(PARAMS, data, 2, evals=[(valid, "a")], custom_metric="ndcg")


def test_early_stopping_on_what_is_not_evaluated(data: RankingDataset) -> None:
    stop = EarlyStopping(3, dataset="test")
    with pytest.raises(ParameterError, match=r"early stopping .*test, .* valid_0"):
        boostrank.train(PARAMS, data, 2, valid_sets=[data.take(np.arange(5))], callbacks=[stop])


def test_callbacks_are_told_the_path_of_the_model_to_continue(
    data: RankingDataset, tmp_path: Path
) -> None:
    class Told:
        def planned(self, plan: Any) -> None:
            self.init_model = plan.options.init_model

        def __call__(self, env: Any) -> None:
            pass

    told, path = Told(), str(tmp_path / "m")
    boostrank.train(PARAMS, data, 1, start="none").save(path)
    boostrank.train(PARAMS, data, 1, init_model=path, callbacks=[told])
    assert told.init_model == path
    with pytest.raises(ParameterError, match="init_model"):
        boostrank.train(PARAMS | {"init_model": path}, data, 1)


def test_models_of_something_else_are_not_averaged(data: RankingDataset) -> None:
    model = boostrank.train(PARAMS, data, 1, start="none")
    with pytest.raises(ParameterError, match="RankingDataset"):
        boostrank.average([model, data])


def test_rows_of_queries_that_do_not_fit(data: RankingDataset) -> None:
    model = boostrank.train(PARAMS, data, 1, start="none", within_query="rank")
    plain = boostrank.train(PARAMS, data, 1, start="none")
    for score in (model.predict, model.rank, plain.predict, plain.rank):
        with pytest.raises(DataError, match=r"3 query ids .* 2 rows"):
            score(data.features[:2], qid=[1, 1, 2])
        with pytest.raises(DataError, match=r"3 rows .*group.* 2 rows"):
            score(data.features[:2], group=[3])


def test_arguments_that_are_no_dataset_are_refused(data: RankingDataset) -> None:
    with pytest.raises(ParameterError, match=r"ndarray.*RankingDataset.*from_arrays"):
        boostrank.train(PARAMS, data.features, 2)
    with pytest.raises(ParameterError, match=r"DMatrix.*RankingDataset.*from_arrays"):
        boostrank.train(PARAMS, xgb.DMatrix(data.features, data.labels), 2)
    with pytest.raises(ParameterError, match=r"valid_sets.*ndarray"):
        boostrank.train(PARAMS, data, 2, valid_sets=[data.features])


@pytest.mark.parametrize("every", [None, 1])
def test_a_checkpoint_among_the_callbacks(
    every: int | None, data: RankingDataset, tmp_path: Path
) -> None:
    checkpoint = boostrank.Checkpoint(tmp_path / "c", every=every)
    with pytest.raises(ParameterError, match=r"boostrank\.train .*checkpoint="):
        boostrank.train(PARAMS, data, 2, callbacks=[checkpoint])
    native = lgb.Dataset(data.features, data.labels, group=data.queries.sizes)
    with pytest.raises(ParameterError, match=r"boostrank\.train .*checkpoint="):
        lgb.train(PARAMS | {"objective": "lambdarank"}, native, 2, callbacks=[checkpoint])


def test_a_checkpoint_of_a_newer_version_is_refused(data: RankingDataset, tmp_path: Path) -> None:
    path = tmp_path / "c"

    def stop(env: Any) -> None:
        if env.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        boostrank.train(
            PARAMS, data, 3, checkpoint=boostrank.Checkpoint(path, every=1), callbacks=[stop]
        )
    first, _, content = path.read_bytes().partition(b"\n")
    path.write_bytes(first.rstrip(b"0123456789") + b"999\n" + content)
    with pytest.raises(ModelError, match="newer boostrank"):
        boostrank.train(PARAMS, data, 3, checkpoint=boostrank.Checkpoint(path, resume=True))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"path": 3}, "path"),
        ({"path": b"c"}, "path"),
        ({"path": "c", "every": "x"}, "every"),
        ({"path": "c", "every": 1.5}, "every"),
        ({"path": "c", "every": True}, "every"),
    ],
)
def test_arguments_of_a_checkpoint_of_another_type(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=f"^{name}="):
        boostrank.Checkpoint(**options)


def test_a_model_to_continue_of_another_type_and_names_in_an_array(data: RankingDataset) -> None:
    with pytest.raises(ParameterError, match=r"^init_model=int"):
        boostrank.train(PARAMS, data, 2, init_model=3)
    sets = {"valid_sets": [data, data], "valid_names": np.array(["a", "b"])}
    assert list(boostrank.train(PARAMS, data, 1, **sets).evals_result) == ["a", "b"]
