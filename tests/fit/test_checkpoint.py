"""A training that stops after any round goes on to the bytes of one that never stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.core.errors import InputError, ModelError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import StopTraining
from tests.fit.conftest import save_bytes

FAST = {
    "objective": "shf-sdcg",
    "num_leaves": 7,
    "verbosity": -1,
    "num_threads": 1,
    "eval_at": [10],
}
ROUNDS = 10
SAMPLING = {
    "lightgbm": {
        "bagging_fraction": 0.4,
        "bagging_freq": 3,
        "feature_fraction": 0.7,
        "feature_fraction_bynode": 0.8,
        "extra_trees": True,
    },
    "xgboost": {"subsample": 0.6, "colsample_bytree": 0.7, "colsample_bynode": 0.8},
}
NATIVE = {"lightgbm": "lightgbm:lambdarank", "xgboost": "xgboost:rank:ndcg"}
backends = pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])


def make_dataset(queries: int, seed: int) -> RankingDataset:
    random = np.random.default_rng(seed)
    X = random.normal(size=(15 * queries, 8)).astype(np.float32)
    noise = random.normal(size=len(X))
    y = np.clip(np.round(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * noise + 1), 0, 4)
    X[random.random(X.shape) < 0.05] = np.nan
    return RankingDataset.from_arrays(X, y, group=[15] * queries)


TRAIN, VALID = make_dataset(40, 1), make_dataset(15, 2)
WEIGHTED = replace(TRAIN.queries, document_weights=np.ones(TRAIN.n_documents))


class StopAt:
    """Somebody stops the training after a 0-based round, and the checkpoint is written."""

    before_iteration = False
    order = 50

    def __init__(self, round: int, checkpoint: boostrank.Checkpoint) -> None:
        self._round, self._checkpoint = round, checkpoint

    def __call__(self, env: Any) -> None:
        if env.iteration == self._round:
            self._checkpoint.write(env)
            raise StopTraining(env.iteration)


def trained(
    params: dict[str, Any], backend: str = "lightgbm", **options: Any
) -> boostrank.RankingModel:
    options = {
        "train_set": TRAIN,
        "num_boost_round": ROUNDS,
        "valid_sets": [TRAIN, VALID],
        **options,
    }
    return boostrank.train({**FAST, **params}, backend=backend, **options)


def stopped(
    path: Path, round: int, params: dict[str, Any], callbacks: Any = (), **options: Any
) -> None:
    checkpoint = boostrank.Checkpoint(path)
    trained(
        params, checkpoint=checkpoint, callbacks=[*callbacks, StopAt(round, checkpoint)], **options
    )


CASES: dict[str, Any] = {
    "plain": lambda backend: ({}, lambda: []),
    "sampling": lambda backend: ({**SAMPLING[backend], "seed": 5}, lambda: []),
    "native objective and sampling": lambda backend: (
        {**SAMPLING[backend], "objective": NATIVE[backend]},
        lambda: [],
    ),
    "schedules and noise": lambda backend: (
        {"objective": "reg-shf-sdcg", "score_noise": "gumbel"},
        lambda: [],
    ),
    "early stopping of ours": lambda backend: (
        {"learning_rate": 0.9, "early_stopping_round": 5, "num_boost_round": 40},
        lambda: [],
    ),
    "callbacks of LightGBM": lambda backend: (
        {"learning_rate": 0.9, "num_boost_round": 40},
        lambda: [
            lgb.early_stopping(5, verbose=False),
            lgb.record_evaluation({}),
            lgb.reset_parameter(max_depth=[3 + i % 3 for i in range(40)]),
        ],
    ),
}


@backends
@pytest.mark.parametrize("case", CASES)
def test_fault_075_a_resumed_training_gives_the_same_files(
    case: str, backend: str, tmp_path: Path
) -> None:
    params, callbacks = CASES[case](backend)
    whole = save_bytes(trained(params, backend, callbacks=callbacks()), tmp_path)
    for round in (2, 4):
        stopped(tmp_path / "checkpoint", round, params, callbacks(), backend=backend)
        checkpoint = boostrank.Checkpoint(tmp_path / "checkpoint", every=2, resume=True)
        again = trained(params, backend, callbacks=callbacks(), checkpoint=checkpoint)
        assert checkpoint.resumed_at == round + 1
        assert save_bytes(again, tmp_path) == whole


@backends
def test_fault_075_a_continued_model_is_resumed_too(backend: str, tmp_path: Path) -> None:
    first = trained({}, backend, num_boost_round=3)
    whole = save_bytes(trained({}, backend, init_model=first), tmp_path)
    stopped(tmp_path / "checkpoint", 5, {}, backend=backend, init_model=first)
    checkpoint = boostrank.Checkpoint(tmp_path / "checkpoint", resume=True)
    assert (
        save_bytes(trained({}, backend, init_model=first, checkpoint=checkpoint), tmp_path) == whole
    )
    assert checkpoint.resumed_at == 6


@backends
def test_a_checkpoint_changes_nothing_of_the_training(backend: str, tmp_path: Path) -> None:
    with_it = trained(
        SAMPLING[backend],
        backend,
        checkpoint=boostrank.Checkpoint(tmp_path / "checkpoint", every=3),
    )
    assert save_bytes(with_it, tmp_path) == save_bytes(
        trained(SAMPLING[backend], backend), tmp_path
    )


@backends
def test_sampling_differs_from_round_to_round_and_follows_the_seed(
    backend: str, tmp_path: Path
) -> None:
    params = {**SAMPLING[backend], "seed": 1}
    of_seed_1 = trained({**params, "seed": 1}, backend).predict(VALID)
    of_seed_2 = trained({**params, "seed": 2}, backend).predict(VALID)
    assert np.any(of_seed_1 != of_seed_2)
    # A constant target: every tree would be the same, but for its sample.
    same = trained({**params, "learning_rate": 1e-9, "objective": "regression"}, backend)
    trees = same.booster.trees_to_dataframe()
    column = "split_feature" if backend == "lightgbm" else "Feature"
    tree = "tree_index" if backend == "lightgbm" else "Tree"
    roots = trees.groupby(tree)[column].apply(tuple)
    assert len(set(roots)) > 5


def test_without_a_file_a_resumed_training_is_one_from_the_start(tmp_path: Path) -> None:
    checkpoint = boostrank.Checkpoint(tmp_path / "checkpoint", resume=True)
    trained({}, checkpoint=checkpoint)
    assert checkpoint.resumed_at is None


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "checkpoint"
    stopped(path, 4, {})
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"params": {"learning_rate": 0.2}}, "parameters.learning_rate unset then, 0.2 now"),
        ({"params": {"objective": "sdcg"}}, "objective.name shf-sdcg then, sdcg now"),
        ({"params": {"sigma": 0.5}}, r"objective.params.sigma .* now"),
        ({"params": {"early_stopping_round": 3}}, "stopping"),
        ({"num_boost_round": 11}, "rounds 10 then, 11 now"),
        ({"train_set": make_dataset(40, 3), "valid_sets": [VALID]}, r"train.data .*valid"),
        (
            {"train_set": replace(TRAIN, queries=WEIGHTED), "valid_sets": [VALID]},
            "train.document_weights unset then",
        ),
        ({"valid_sets": [TRAIN, make_dataset(15, 3)]}, r"valid.valid_1.data"),
        ({"init_model": "a model"}, "init_model unset then"),
        ({"backend": "xgboost"}, "versions.lightgbm .* then, unset now"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_fault_076_another_training_is_refused_with_what_differs(
    changes: dict[str, Any], words: str, written: Path
) -> None:
    if "init_model" in changes:
        changes = {"init_model": trained({}, num_boost_round=2)}
    checkpoint = boostrank.Checkpoint(written, resume=True)
    with pytest.raises(ParameterError, match=words):
        trained(**{"params": {}, **changes}, checkpoint=checkpoint)


def test_fault_076_other_versions_are_refused(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from boostrank.fit import run as described

    real = described._versions
    monkeypatch.setattr(described, "_versions", lambda engine: {**real(engine), "lightgbm": "0.1"})
    with pytest.raises(ParameterError, match=r"versions.lightgbm .* then, 0.1 now"):
        trained({}, checkpoint=boostrank.Checkpoint(written, resume=True))


def test_threads_and_talk_may_change(written: Path) -> None:
    checkpoint = boostrank.Checkpoint(written, resume=True)
    again = trained({"num_threads": 2, "verbosity": 0}, checkpoint=checkpoint)
    assert again.booster.current_iteration() == ROUNDS


def test_fault_082_a_torn_or_damaged_checkpoint_is_refused(written: Path, tmp_path: Path) -> None:
    data = written.read_bytes()
    random = np.random.default_rng(0)
    torn = [
        data[:n]
        for n in (0, 1, 21, 22, 60, 87, 88, 89, len(data) - 1, *random.integers(0, len(data), 60))
    ]
    flipped = []
    for position in [*range(100), *random.integers(0, len(data), 100)]:
        copy = bytearray(data)
        copy[position] ^= 1 << random.integers(8)
        flipped.append(bytes(copy))
    for damaged in [*torn, *flipped, data + b"x"]:
        (tmp_path / "damaged").write_bytes(damaged)
        checkpoint = boostrank.Checkpoint(tmp_path / "damaged", resume=True)
        with pytest.raises(ModelError, match="damaged"):
            checkpoint.begin(boostrank.engines.get_backend("lightgbm"), {})  # type: ignore[attr-defined]


def test_a_checkpoint_with_a_hostile_model_is_refused(written: Path, tmp_path: Path) -> None:
    import hashlib

    lines = written.read_bytes().split(b"\n", 3)
    header = json.loads(lines[2])
    model, arrays = lines[3][: header["model_bytes"]], lines[3][header["model_bytes"] :]
    hostile = model.replace(b"left_child=1", b"left_child=9", 1)
    assert hostile != model
    body = lines[2] + b"\n" + hostile + arrays
    (tmp_path / "hostile").write_bytes(
        lines[0] + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    )
    with pytest.raises(ModelError, match="hostile: "):
        trained({}, checkpoint=boostrank.Checkpoint(tmp_path / "hostile", resume=True))


def test_a_checkpoint_with_more_rounds_than_its_model_can_hold_is_refused(
    written: Path, tmp_path: Path
) -> None:
    import hashlib

    lines = written.read_bytes().split(b"\n", 3)
    header = json.loads(lines[2])
    model = lines[3][: header["model_bytes"]]
    body = (
        json.dumps(header | {"metrics": [], "scores": [], "rounds": 10**12}).encode()
        + b"\n"
        + model
    )
    (tmp_path / "hostile").write_bytes(
        lines[0] + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    )
    with pytest.raises(ModelError, match=r"hostile: .*too many rounds .*1,000,000,000,000"):
        trained({}, checkpoint=boostrank.Checkpoint(tmp_path / "hostile", resume=True))


def test_a_checkpoint_behind_a_symbolic_link_goes_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    # Nothing there yet: from the start.
    checkpoint = boostrank.Checkpoint(tmp_path / "link", every=1, resume=True)
    trained({}, checkpoint=checkpoint)
    assert (tmp_path / "elsewhere").exists()
    checkpoint.remove()
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_fault_081_a_checkpoint_that_cannot_be_written_is_found_before_training(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        trained({}, checkpoint=boostrank.Checkpoint(tmp_path / "missing" / "checkpoint"))


def test_fault_077_a_write_that_fails_leaves_the_old_checkpoint_and_the_training_goes_on(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    path = tmp_path / "checkpoint"
    path.write_bytes(written.read_bytes())
    (tmp_path / ".checkpoint.0123456789ab.tmp").write_bytes(b"left by a killed process")
    real = os.write

    def write_little(descriptor: int, data: bytes) -> int:
        if len(data) >= 200:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:100])

    monkeypatch.setattr(os, "write", write_little)

    checkpoint = boostrank.Checkpoint(path, every=1)
    with pytest.warns(boostrank.core.errors.TrainingWarning, match="No space left") as caught:
        model = trained({}, checkpoint=checkpoint)
    assert len(caught) == 1
    assert model.best_iteration == ROUNDS
    assert checkpoint.failure
    assert checkpoint.holds is None
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]
    assert path.read_bytes() == written.read_bytes()


def test_a_checkpoint_that_another_training_writes_is_refused(tmp_path: Path) -> None:
    inside: list[bool] = []

    def second(env: Any) -> None:
        if not inside:
            inside.append(True)
            with pytest.raises(InputError, match="checkpoint: another run is writing it"):
                trained(
                    {}, num_boost_round=1, checkpoint=boostrank.Checkpoint(tmp_path / "checkpoint")
                )

    trained(
        {},
        num_boost_round=2,
        callbacks=[second],
        checkpoint=boostrank.Checkpoint(tmp_path / "checkpoint"),
    )
    assert inside
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("backend", "params", "words"),
    [
        ("lightgbm", {"boosting": "dart"}, "dart"),
        ("lightgbm", {"data_sample_strategy": "goss"}, "goss"),
        ("lightgbm", {"use_quantized_grad": True}, "stochastic rounding"),
        ("lightgbm", {"objective": "lightgbm:rank_xendcg"}, "lambdarank alone"),
        ("xgboost", {"objective": "xgboost:rank:ndcg", "lambdarank_pair_method": "mean"}, "pairs"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_trainings_that_cannot_be_resumed_exactly_have_no_checkpoint(
    backend: str, params: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=f"no checkpoint .*{words}"):
        trained(params, backend, checkpoint=boostrank.Checkpoint(tmp_path / "checkpoint"))
