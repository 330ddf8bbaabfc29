"""Presets: what they come to on given data, what folds train, and how their models are averaged."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from boostrank import Checkpoint, RankingDataset, RankingModel, train
from boostrank.core.errors import DataWarning, ParameterError, TrainingError
from boostrank.core.queries import QueryIndex
from boostrank.engines import get_backend
from boostrank.fit import execute as module
from boostrank.fit.execute import execute
from boostrank.fit.plan import Member, Preset, Training
from boostrank.fit.presets import (
    FEW_MEMBERS,
    FOLDS,
    FOLDS_OF_LARGE,
    LARGE,
    LARGE_MEMBERS,
    MANY_MEMBERS,
    MANY_QUERIES,
    PATIENCE,
    ROUNDS,
    Sizes,
    patience,
    suited,
    why_no_folds,
)
from boostrank.fit.resolve import resolve
from boostrank.metrics import BoundMetrics
from boostrank.options import DEFAULT_ROUNDS, TrainOptions
from tests.fit.conftest import make_short_lists

PARAMS: dict[str, Any] = {
    "num_threads": 1,
    "eval_at": [3, 5],
    "seed": 7,
    "verbosity": -1,
    "min_data_in_leaf": 3,
}
ENGINES = ["lightgbm", "xgboost"]
pytestmark = [
    pytest.mark.usefixtures("leaves_as_grown"),
    pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning"),
]


def params_of(backend: str) -> dict[str, Any]:
    return {k: v for k, v in PARAMS.items() if backend == "lightgbm" or k != "min_data_in_leaf"}


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    """Queries have weights, which metrics count."""
    dataset = make_short_lists(50, 2)
    weights = np.array([0.5, 1.5, 2.5])[np.arange(len(dataset.queries)) % 3]
    return replace(dataset, queries=replace(dataset.queries, weights=weights))


@pytest.fixture(scope="module")
def valid() -> RankingDataset:
    return make_short_lists(22, 5)


def recipe(
    quality: str,
    data: RankingDataset,
    valid: Any = (),
    *,
    backend: str = "lightgbm",
    rounds: int | None = None,
    folds: int | None = None,
    start: Any = "auto",
    **params: Any,
) -> Preset:
    all_params = params_of(backend) | params
    options = TrainOptions(
        params=all_params, backend=backend, quality=quality, rounds=rounds, folds=folds, start=start
    )
    return resolve(options, data, name_sets(valid)).preset


def name_sets(valid: Any) -> list[tuple[str, RankingDataset]]:
    return [(f"valid_{i}", dataset) for i, dataset in enumerate(valid)]


def train_good(
    data: RankingDataset,
    valid: Any = (),
    *,
    backend: str = "lightgbm",
    rounds: int,
    start: str = "auto",
    **params: Any,
) -> tuple[RankingModel, list[tuple[Training, RankingModel]]]:
    """The average, and what each fold gave."""
    seen: list[tuple[Training, RankingModel]] = []

    def keep(_: int, training: Training, model: RankingModel) -> bool:
        seen.append((training, model))
        return True

    all_params = params_of(backend) | params
    options = TrainOptions(
        params=all_params, backend=backend, quality="good", rounds=rounds, start=start
    )
    return execute(resolve(options, data, name_sets(valid)), keep), seen


def make_sized(rows: int, queries: int, features: int) -> RankingDataset:
    """Data of these sizes, whose features take no memory."""
    features_of_all = np.broadcast_to(np.zeros(1, np.float32), (rows, features))
    dataset = RankingDataset.from_arrays(
        np.zeros((rows, 1), np.float32), np.arange(rows) % 3, group=[rows // queries] * queries
    )
    return replace(
        dataset, features=features_of_all, feature_names=tuple(map(str, range(features)))
    )


def test_good_trains_another_member_in_each_fold(data: RankingDataset) -> None:
    preset = recipe("good", data)
    assert (preset.folds, preset.rounds, preset.members) == (FOLDS, ROUNDS, FEW_MEMBERS)
    assert preset.patience == PATIENCE
    assert recipe("good", data, folds=6).members == (*FEW_MEMBERS, *FEW_MEMBERS[:2])
    for members in (FEW_MEMBERS, MANY_MEMBERS):
        assert len({member.name for member in members}) == len(members)


def test_members_and_trees_follow_the_size_of_the_data() -> None:
    many = make_sized(2 * MANY_QUERIES, MANY_QUERIES, 5)
    assert recipe("good", many).members == MANY_MEMBERS
    assert (
        recipe("good", many).trees["learning_rate"]
        > recipe("quick", many, [replace(many)]).trees["learning_rate"]
    )
    large = make_sized(LARGE // 100 + MANY_QUERIES, MANY_QUERIES, 100)
    good, quick = recipe("good", large), recipe("quick", large, [replace(large)])
    assert (good.members, good.folds) == (LARGE_MEMBERS, FOLDS_OF_LARGE)
    assert quick.members == LARGE_MEMBERS[:1]
    assert (
        recipe("quick", many).trees["feature_fraction"]
        > recipe("good", many).trees["feature_fraction"]
    )
    assert "feature_fraction" not in {**good.trees, **quick.trees}
    assert {member.objective for member in recipe("good", large, objective="sdcg").members} == {
        None
    }
    assert recipe("good", large, balance="raw").members == (Member(),) * len(LARGE_MEMBERS)
    assert recipe("quick", large, balance="raw").members == (Member(),)


def test_a_continued_model_goes_on_with_its_objective(data: RankingDataset) -> None:
    first = train(PARAMS | {"objective": "sdcg"}, data, 2)
    assert train(PARAMS, data, 2, init_model=first, quality="quick").info.objective_name == "sdcg"


def test_options_win_over_members(data: RankingDataset) -> None:
    assert {member.objective for member in recipe("good", data, objective="sdcg").members} == {None}
    assert not any(member.begins_linear for member in recipe("good", data, start="none").members)
    assert not any(member.trees for member in recipe("good", data, extra_trees=False).members)
    assert not any(member.trees for member in recipe("good", data, backend="xgboost").members)
    discount = next(member for member in FEW_MEMBERS if member.params)
    members = recipe("good", data, **dict.fromkeys(discount.params, "log")).members
    assert not any(member.params for member in members)
    assert "learning_rate" not in recipe("good", data, eta=0.3).trees
    # A parameter that some objectives alone have leaves out the members that have not.
    only = recipe("good", data, balance="raw").members
    assert {member.objective for member in only} == {"auto"}


@pytest.mark.parametrize("backend", ENGINES)
def test_the_average_weighs_members_alike_on_one_scale(
    data: RankingDataset, valid: Any, backend: str
) -> None:
    preset = recipe("good", data, [valid], backend=backend, rounds=12, early_stopping_round=3)
    average, seen = train_good(data, [valid], backend=backend, rounds=12, early_stopping_round=3)
    assert [training.name for training, _ in seen] == [member.name for member in preset.members]
    together = data.join(valid.like(data))
    fold = np.random.default_rng(7).permutation(len(together.queries)) % FOLDS
    bound = BoundMetrics(["ndcg@5"], together.labels, together.queries)
    scores, apart, per_query = [], [], np.full(len(together.queries), np.nan)
    for k, (_, model) in enumerate(seen):
        scores_of_fold = model.predict(together)
        scores.append(scores_of_fold)
        centred = [
            part - part.mean() for part in np.split(scores_of_fold, together.queries.ptr[1:-1])
        ]
        apart.append(
            np.sqrt(
                np.mean(
                    np.concatenate([c for c, f in zip(centred, fold, strict=True) if f == k]) ** 2
                )
            )
        )
        per_query[fold == k] = bound.per_query(scores_of_fold)["ndcg@5"][fold == k]
    mean = np.mean(
        [fold_scores / a for fold_scores, a in zip(scores, apart, strict=True)], axis=0
    ) * np.mean(apart)
    difference = average.predict(together) - mean
    assert np.ptp(difference) < 1e-5 * np.ptp(mean)  # but for XGBoost's base score
    record = average.info["folds"]
    assert record["members"] == [member.name for member in preset.members]
    assert record["rounds"] == [model.best_iteration for _, model in seen]
    first = len(data.queries)
    for part, value in (
        (slice(None), record["held_out"]["ndcg@5"]),
        (slice(first, None), record["valid"][0]),
    ):
        counted = np.isfinite(per_query[part])
        weights = together.queries.each_weight[part][counted]
        assert value["value"] == pytest.approx(
            weights @ per_query[part][counted] / weights.sum(), abs=1e-9
        )
        assert value["queries"] == counted.sum()
    assert average.info.data is not None
    assert average.info.data["queries"] == len(together.queries)


@pytest.mark.parametrize("backend", ENGINES)
def test_threads_change_no_byte(data: RankingDataset, backend: str) -> None:
    models = [
        train(
            params_of(backend) | {"num_threads": n}, data, 6, quality="good", backend=backend
        ).to_bytes()
        for n in (1, 2)
    ]
    assert models[0] == models[1]


def test_callbacks_and_feval_see_every_fold(data: RankingDataset) -> None:
    begun: list[int] = []
    history: dict[str, Any] = {}

    def begins(env: Any) -> None:
        begun.append(env.iteration) if env.iteration == env.begin_iteration else None

    train(
        PARAMS,
        data,
        5,
        quality="good",
        start="none",
        feval=lambda scores, _: ("size", float(len(scores)), True),
        callbacks=[begins, lgb.record_evaluation(history), lgb.early_stopping(3, verbose=False)],
    )
    assert begun == [0] * FOLDS
    assert "size" in history["held out"]


@pytest.mark.parametrize("backend", ENGINES)
def test_folds_resume_to_the_same_bytes(data: RankingDataset, backend: str, tmp_path: Any) -> None:
    params, path = params_of(backend) | {"early_stopping_round": 4}, tmp_path / "checkpoint"

    class Stop(Exception):
        pass

    def broken_in(fold: int, round: int) -> Any:
        begun: list[int] = []

        def callback(env: Any) -> None:
            begun.append(0) if env.iteration == env.begin_iteration else None
            if (len(begun), env.iteration) == (fold, round):
                raise Stop

        callback.order = 50  # type: ignore[attr-defined]
        return callback

    whole = train(params, data, 12, quality="good", backend=backend)
    with pytest.raises(Stop):
        train(
            params,
            data,
            12,
            quality="good",
            backend=backend,
            checkpoint=Checkpoint(path, every=2),
            callbacks=[broken_in(3, 3)],
        )
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "checkpoint.1",
        "checkpoint.2",
        "checkpoint.3",
    ]
    going_on = Checkpoint(path, every=2, resume=True)
    again = train(params, data, 12, quality="good", backend=backend, checkpoint=going_on)
    assert going_on.resumed_at
    assert again.to_bytes() == whole.to_bytes()
    assert dict(again.info) == dict(whole.info)
    going_on.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_member_that_cannot_be_trained_gives_way_to_the_first(
    data: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_one = module.run

    def run(training: Training) -> RankingModel:
        if training.objective is not None and training.objective.name == "reg-shf-sdcg":
            raise TrainingError("nothing to learn")
        return train_one(training)

    monkeypatch.setattr(module, "run", run)
    with pytest.warns(DataWarning, match=r"fold 2: reg-.*auto"):
        average, seen = train_good(data, rounds=3, start="none")
    assert [training.name.partition(",")[0] for training, _ in seen] == ["auto"] * FOLDS
    seeds = [training.recorded["seed"] for training, _ in seen]
    assert seeds == list(range(seeds[0], seeds[0] + FOLDS))
    assert average.info["folds"]["members"][1] == FEW_MEMBERS[0].name
    monkeypatch.setattr(
        module, "run", lambda *_, **__: (_ for _ in ()).throw(TrainingError("nothing at all"))
    )
    with pytest.raises(TrainingError, match="nothing at all"):
        train_good(data, rounds=3)


def test_data_that_folds_cannot_take_train_one_model_and_a_line_says_so(
    data: RankingDataset,
) -> None:
    few = data.take(np.arange(5))
    assert why_no_folds(data) == ""
    assert "8 queries" in why_no_folds(few)
    level = replace(data, labels=np.zeros(data.n_documents))
    assert "not 0" in why_no_folds(level)
    queries = QueryIndex(
        np.append(data.queries.ptr, data.n_documents), np.arange(len(data.queries) + 1)
    )
    assert why_no_folds(replace(data, queries=queries)) == ""  # a query without documents
    preset = recipe("good", few)
    assert (preset.folds, preset.rounds, preset.note) == (0, DEFAULT_ROUNDS, why_no_folds(few))
    with pytest.warns(DataWarning, match="quality='good' "):
        assert train(PARAMS, few, 2, quality="good", start="none").info.folds is None


def test_parameters_that_folds_cannot_have_are_refused(data: RankingDataset) -> None:
    for quality, folds in (("good", None), ("quick", 3)):
        with pytest.raises(ParameterError, match=r"dart .*quality='quick'"):
            recipe(quality, data, folds=folds, boosting="dart")
    with pytest.raises(ParameterError, match=r"linear .*averaged"):
        resolve(TrainOptions(quality="good", backend="linear"), data)


def test_quick_stops_where_it_can_and_has_trees_that_suit(
    data: RankingDataset, valid: RankingDataset
) -> None:
    alone, watched = recipe("quick", data), recipe("quick", data, [valid])
    assert (alone.rounds, alone.patience, alone.trees["learning_rate"]) == (DEFAULT_ROUNDS, 0, 0.1)
    assert (watched.rounds, watched.trees["learning_rate"]) == (ROUNDS, 0.05)
    assert watched.patience == patience(len(valid.queries), Sizes.of_sets(data))
    for all_params in ({"rounds": 30}, {"n_estimators": 30}):
        preset = recipe("quick", data, [valid], **all_params)
        assert (preset.rounds, preset.patience, preset.trees["learning_rate"]) == (30, 0, 0.1)
    default = recipe("quick", data, [valid], n_estimators=DEFAULT_ROUNDS)  # set is set
    assert (default.rounds, default.patience) == (DEFAULT_ROUNDS, 0)
    assert recipe("quick", data, [valid], early_stopping_round=5).patience == 0  # its own
    assert recipe("quick", data, [valid], metric="none").rounds == DEFAULT_ROUNDS
    assert recipe("quick", data, [valid], boosting="dart").patience == 0
    assert recipe("quick", data, [valid], backend="linear").trees == {}


def test_trees_grow_with_the_data() -> None:
    engine = get_backend("lightgbm")
    leaves = [
        suited(engine, Sizes(10 * q, q, 9), None, {})["num_leaves"]
        for q in (50, MANY_QUERIES - 1, MANY_QUERIES)
    ]
    assert leaves == sorted(leaves)
    assert leaves[0] < leaves[-1]
    small, large = Sizes(10, 10, 1), Sizes(LARGE, 1_000, 2)
    assert patience(MANY_QUERIES, small) < patience(10, small) == patience(MANY_QUERIES, large)
    rates = [
        suited(engine, Sizes(500, 50, 9), rounds, {})["learning_rate"] for rounds in (50, 150, 1000)
    ]
    assert all(a >= b for a, b in pairwise(rates))


def test_plain_folds_are_of_the_engines_defaults(data: RankingDataset) -> None:
    preset = recipe("plain", data, folds=3)
    assert (preset.rounds, preset.trees, preset.patience, preset.members) == (
        DEFAULT_ROUNDS,
        {},
        0,
        (Member(),) * 3,
    )
    assert preset.folds == 3


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("quality", ["quick", "good"])
def test_a_judged_list_of_24_rows_trains(backend: str, quality: str) -> None:
    rng = np.random.default_rng(0)
    few = RankingDataset.from_arrays(rng.random((24, 2)), np.arange(24) % 3, group=[8, 8, 8])
    model = train({"verbosity": -1}, few, 5, quality=quality, backend=backend, start="none")
    assert np.unique(model.predict(few)).size > 3
    assert "min_data_in_leaf" not in recipe("quick", few).trees  # it is given
