"""Training over two worker processes of a Dask cluster on this machine."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.checking.user_file import template_text
from boostrank.core.errors import (
    BoostrankError,
    DataError,
    InputError,
    ParameterError,
    TrainingError,
    WorkerLost,
)
from boostrank.data.dataset import RankingDataset
from boostrank.engines import parse_model
from boostrank.engines.base import StopTraining
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.execute import FoldSummary
from boostrank.fit.start import cross_fit
from boostrank.fit.start import ridge as start_rows
from tests.cli.conftest import refuse, succeed

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'boostrank[dask]'"
)
pytest.importorskip("xgboost", reason="XGBoost is not installed")

from boostrank.cluster import worker as worker_module  # noqa: E402
from boostrank.cluster.dask import DaskWorkers  # noqa: E402
from boostrank.cluster.workers import Workers  # noqa: E402
from tests.cluster.conftest import PARAMS, ndcg, train  # noqa: E402

ROUNDS = 12


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The result of each worker's training."""
    seen: list[Any] = []
    work = Workers.work

    def recorded(self: Any, task: str, *arguments: Any) -> Any:
        results = work(self, task, *arguments)
        if task == "fit":
            seen.extend(results)
        return results

    monkeypatch.setattr(Workers, "work", recorded)
    return seen


def sets(data: Path) -> tuple[RankingDataset, RankingDataset]:
    train_set = read_libsvm(data / "train.txt")
    return train_set, read_libsvm(data / "valid.txt", like=train_set)


@pytest.fixture(scope="module")
def trained(shared_cluster: Any, data: Path) -> boostrank.RankingModel:
    shards, valid = [data / "s*.txt"], [data / "v0.txt", data / "v1.txt"]
    return train(shared_cluster, PARAMS, shards, ROUNDS, valid, ["valid"])


def test_fault_95_the_metric_over_workers_is_that_of_one_process_scoring_everything(
    trained: boostrank.RankingModel, data: Path
) -> None:
    _, valid = sets(data)
    history = trained.evals_result["valid"]["ndcg@10"]
    assert len(history) == ROUNDS
    for round in (1, 5, ROUNDS):
        assert ndcg(trained, valid, num_iteration=round) == pytest.approx(
            history[round - 1], abs=1e-9
        )


def test_the_model_is_as_good_as_that_of_a_single_machine(
    trained: boostrank.RankingModel, data: Path
) -> None:
    train_set, valid = sets(data)
    alone = boostrank.train(PARAMS, train_set, ROUNDS, backend="xgboost")
    assert ndcg(trained, train_set) == pytest.approx(ndcg(alone, train_set), abs=0.005)
    assert ndcg(trained, valid) == pytest.approx(ndcg(alone, valid), abs=0.02)  # 60 queries


def test_the_model_knows_how_it_was_made(
    trained: boostrank.RankingModel, data: Path, tmp_path: Path
) -> None:
    trained.save(tmp_path / "m.json")
    loaded = boostrank.RankingModel.load(tmp_path / "m.json")
    about = loaded.info["data"]
    train_set, _ = sets(data)
    assert about["files"] == [str(data / f"s{i}.txt") for i in range(3)]
    assert (about["rows"], about["queries"]) == (train_set.n_documents, 140)
    assert loaded.info["objective"]["total_rounds"] == ROUNDS
    assert np.array_equal(loaded.predict(train_set), trained.predict(train_set))


def starts(model: boostrank.RankingModel) -> Any:
    """The trees of the start."""
    parsed = parse_model(model.to_bytes())
    return parsed.forest["trees"][: parsed.start_trees]


AUTO = {"num_leaves": 7, "eval_at": [10], "num_threads": 1}


def few_rows(block: int = 700, ranked: int = 400, regressed: int = 600) -> None:
    """From now on, in this process, a start is learnt from fewer rows."""
    start_rows._NUMBERS_A_BLOCK = block
    for module in (cross_fit, start_rows):
        module.RANKED_DOCUMENTS, module.FITTED_DOCUMENTS = ranked, regressed


@pytest.fixture
def learnt_from_few(cluster: Any) -> Iterator[None]:
    real = start_rows._NUMBERS_A_BLOCK, start_rows.RANKED_DOCUMENTS, start_rows.FITTED_DOCUMENTS
    few_rows()
    cluster.run(few_rows)
    yield
    few_rows(*real)
    cluster.run(few_rows, *real)


@pytest.mark.filterwarnings("ignore:the linear start is made of:boostrank.core.errors.DataWarning")
def test_of_shards_the_start_is_that_of_a_single_machine(
    cluster: Any, data: Path, learnt_from_few: None
) -> None:
    """Learnt from some rows, in parts that lie in two shards."""
    whole = boostrank.read([data / f"s{i}.txt" for i in range(3)])
    params = AUTO | {
        "learning_rate": 1e-9
    }  # the metric is that of the scores that the training rows begin with
    alone = boostrank.train(params, whole, 1, valid_sets=[whole], backend="xgboost")
    model = train(cluster, params, [data / "s*.txt"], 1)
    assert starts(model) == starts(alone)
    assert starts(model)
    assert model.info["start"] == alone.info["start"]
    assert model.evals_result["training"]["ndcg@10"] == pytest.approx(
        alone.evals_result["training"]["ndcg@10"], abs=1e-9
    )
    assert (
        abs(ndcg(model, whole) - model.evals_result["training"]["ndcg@10"][0]) > 1e-4
    )  # by folds, not by the start


def test_of_one_shard_the_whole_model_is_that_of_a_single_machine(cluster: Any, data: Path) -> None:
    train_set, valid = sets(data)
    params = AUTO | {"monotone_constraints": [1] * train_set.n_features}
    model = train(cluster, params, [data / "train.txt"], 3, [data / "valid.txt"])
    alone = boostrank.train(params, train_set, 3, valid_sets=[valid], backend="xgboost")
    assert model.to_bytes() == alone.to_bytes()


def test_a_model_with_a_start_is_continued_and_kept_by_checkpoints(
    cluster: Any, data: Path, tmp_path: Path
) -> None:
    shards, valid, path = (
        [data / "s*.txt"],
        [data / "v0.txt", data / "v1.txt"],
        tmp_path / "so-far.json",
    )
    whole = train(cluster, AUTO, shards, 5, [valid], checkpoint=Checkpoint(path, every=2))
    before = boostrank.RankingModel.load(path)
    assert before.best_iteration < 5
    assert len(starts(before)) > 3
    assert len(starts(before)) == len(starts(whole))
    assert before.info["start"] == whole.info["start"]
    expected = whole.predict(sets(data)[1], num_iteration=before.best_iteration)
    assert np.allclose(before.predict(sets(data)[1]), expected, rtol=1e-4, atol=1e-5)
    more = train(cluster, AUTO, shards, 2, [valid], init_model=before)
    assert len(starts(more)) == len(starts(before))
    assert more.best_iteration == before.best_iteration + 2
    assert ndcg(more, sets(data)[1]) == pytest.approx(
        more.evals_result["valid_0"]["ndcg@10"][-1], abs=1e-6
    )


def test_what_no_start_can_be_made_of_is_said_or_refused(cluster: Any, data: Path) -> None:
    shards = [data / "s0.txt"]
    with pytest.raises(ParameterError, match=r"start='m.json'"):
        train(cluster, AUTO, shards, 1, start="m.json")
    train_set, _ = sets(data)
    falls = AUTO | {"monotone_constraints": [-1] * train_set.n_features}
    before = boostrank.train(AUTO, train_set, 1, backend="xgboost")
    with pytest.raises(ParameterError, match=r"monotone_constraints"):
        train(cluster, falls, [data / "train.txt"], 1, init_model=before)


def test_every_worker_hears_of_every_round_and_ends_with_the_same_model(
    cluster: Any, data: Path, outcomes: list[Any]
) -> None:
    shards = [data / f"s{i}.txt" for i in range(3)]
    before, seen = train(cluster, PARAMS, shards, 2), list[int]()
    model = train(
        cluster,
        PARAMS,
        shards,
        3,
        init_model=before,
        callbacks=[lambda env: seen.append(env.iteration)],
    )
    assert seen == [2, 3, 4]
    assert outcomes[2][1] == outcomes[3][1]
    assert model.best_iteration == 5


def test_fault_93_a_worker_without_rows_leaves_and_one_without_rows_to_evaluate_takes_part(
    cluster: Any, data: Path
) -> None:
    model = train(cluster, PARAMS, [data / "train.txt"], 3, [data / "valid.txt"])
    train_set, valid = sets(data)
    assert model.info["training"]["workers"] == 1
    alone = boostrank.train(PARAMS, train_set, 3, [valid], backend="xgboost")
    assert (model.to_bytes(), model.evals_result) == (alone.to_bytes(), alone.evals_result)
    of_two = train(cluster, PARAMS, [data / "s0.txt", data / "s2.txt"], 3, [data / "valid.txt"])
    assert of_two.info["training"]["workers"] == 2
    assert of_two.evals_result["valid_0"]["ndcg@10"][-1] == pytest.approx(
        ndcg(of_two, valid), abs=1e-9
    )


def test_all_workers_stop_after_the_round_that_the_global_metric_says(
    cluster: Any, data: Path, outcomes: list[Any]
) -> None:
    shards = [data / f"s{i}.txt" for i in range(3)]
    params = PARAMS | {"sigma": 1.0, "early_stopping_round": 3, "learning_rate": 1.0}
    model = train(cluster, params, shards, 60, [[data / "v0.txt", data / "v1.txt"]])
    values = model.evals_result["valid_0"]["ndcg@10"]
    assert len(values) < 60
    assert model.best_iteration == int(np.argmax(values)) + 1 == len(values) - 3
    assert outcomes[0][1] == outcomes[1][1]


def test_a_callback_that_stops_ends_the_training_on_all_workers(cluster: Any, data: Path) -> None:
    def stop(env: Any) -> None:
        raise StopTraining(env.iteration)

    model = train(cluster, PARAMS, [data / "s*.txt"], 100_000, callbacks=[stop])
    assert 1 <= model.best_iteration < 100_000


def test_lightgbms_exception_ends_the_training_on_all_workers(cluster: Any, data: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")

    def stop(env: Any) -> None:
        raise lightgbm.callback.EarlyStopException(env.iteration, [])

    model = train(cluster, PARAMS, [data / "s*.txt"], 100_000, callbacks=[stop])
    assert 1 <= model.best_iteration < 100_000


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("EarlyStopping", lambda: boostrank.EarlyStopping(3)),
        ("LearningRateScheduler", lambda: xgboost_callback("LearningRateScheduler")),
        ("_ResetParameterCallback", lambda: lightgbm_callback("reset_parameter")),
    ],
)
def test_callbacks_that_a_cluster_cannot_call_are_refused(name: str, make: Any, data: Path) -> None:
    with pytest.raises(ParameterError, match=name):
        train("local:2", PARAMS, [data / "s*.txt"], 2, callbacks=[make()])


def xgboost_callback(name: str) -> Any:
    callbacks = pytest.importorskip("xgboost").callback
    return getattr(callbacks, name)(lambda round: 0.1)


def lightgbm_callback(name: str) -> Any:
    return getattr(pytest.importorskip("lightgbm"), name)(learning_rate=lambda round: 0.1)


@pytest.mark.parametrize("workers", [2, None, ["local:2"]])
def test_other_objects_are_no_workers(workers: Any, data: Path) -> None:
    with pytest.raises(ParameterError, match="local:2"):
        train(workers, PARAMS, [data / "s*.txt"], 2)


def test_validation_tables_need_training_tables(data: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"f": [1.0], "qid": [1], "label": [0]})
    with pytest.raises(ParameterError, match="valid"):
        train("local:2", PARAMS, [data / "s*.txt"], 2, valid=table)


@pytest.mark.parametrize("case", ["training", "validation"])
def test_fault_91_a_query_in_two_shards_is_refused_with_both_files(
    cluster: Any, data: Path, case: str
) -> None:
    v0, copy = data / "v0.txt", data / "copy.txt"
    copy.write_bytes(v0.read_bytes())
    two = [v0, copy]
    arguments: Mapping[str, Any] = (
        {"data": two} if case == "training" else {"data": data / "s0.txt", "valid": two}
    )
    with pytest.raises(DataError, match=r"query 14\d .*v0\.txt .*copy\.txt"):
        train(cluster, PARAMS, num_boost_round=2, **arguments)


def test_a_bad_line_is_told_with_file_and_line(cluster: Any, data: Path) -> None:
    bad = data / "bad.txt"
    bad.write_text("1 qid:900 1:0.5\n1 qid:900 1:oops\n")
    with pytest.raises(DataError, match=r"bad.txt:2:\d+: .*oops"):
        train(cluster, PARAMS, [data / "s0.txt", bad], 2)


@pytest.mark.filterwarnings("ignore:.*names 1 features:boostrank.core.errors.DataWarning")
def test_what_goes_wrong_on_one_worker_is_told_with_its_shards(cluster: Any, data: Path) -> None:
    huge = data / "huge.txt"
    huge.write_text("5000 qid:900 1:0.5\n0 qid:900 1:1\n")
    with pytest.raises(DataError, match=r"^worker 127\S+ \(\S+huge.txt\): .*5000"):
        train(cluster, PARAMS, [data / "s0.txt", huge], 2)


def test_a_shard_that_nobody_can_read_is_refused(cluster: Any, data: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.txt: no worker"):
        train(cluster, PARAMS, [data / "s0.txt", data / "nowhere.txt"], 2)


def test_shards_of_different_width_count_features_as_one_file_would(
    cluster: Any, tmp_path: Path
) -> None:
    """One shard names feature 0 and the other feature 3: together they have four."""
    rng = np.random.default_rng(0)
    lines: list[list[str]] = [[], []]
    for q in range(40):
        for _ in range(6):
            x = rng.normal(size=3).round(3)
            first = 0 if q % 2 else 1
            cells = " ".join(f"{first + i}:{v}" for i, v in enumerate(x))
            lines[q % 2].append(f"{int(x[1 - first] > 0)} qid:{q} {cells}")
    for i in (0, 1):
        (tmp_path / f"{i}.txt").write_text("\n".join(lines[i]) + "\n")
    model = train(cluster, PARAMS, [tmp_path / "0.txt", tmp_path / "1.txt"], 3)
    assert model.info.index_base == 0
    assert model.feature_names == ("f0", "f1", "f2", "f3")


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm"])
def test_shards_are_tables_too(cluster: Any, data: Path, tmp_path: Path, engine: str) -> None:
    pytest.importorskip("pyarrow")
    import pandas as pd

    names: list[str] = []
    for name in ("s0", "s1", "v0"):
        part = read_libsvm(data / f"{name}.txt")
        names = [f"column {i}" for i in range(part.n_features)]
        frame = pd.DataFrame(np.asarray(part.features), columns=names)
        frame.assign(
            label=part.labels, qid=np.repeat(part.queries.qid, part.queries.sizes)
        ).to_parquet(tmp_path / f"{name}.parquet")
    shards, valid = [tmp_path / "s?.parquet"], [tmp_path / "v0.parquet"]
    model = train(cluster, PARAMS, shards, 3, valid, backend=engine)
    assert list(model.feature_names) == names
    of_text = train(
        cluster, PARAMS, [data / "s0.txt", data / "s1.txt"], 3, [data / "v0.txt"], backend=engine
    )
    assert model.evals_result == of_text.evals_result
    with pytest.raises(DataError, match=r"s2\.txt|s0\.parquet"):
        train(cluster, PARAMS, [tmp_path / "s0.parquet", data / "s2.txt"], 1, backend=engine)


def test_callables_and_other_engines_models_are_refused(cluster: Any, data: Path) -> None:
    with pytest.raises(ParameterError, match="custom objectives"):
        train(cluster, {"objective": lambda scores, data: (scores, scores)}, [data / "s0.txt"], 2)
    with pytest.raises(ParameterError, match="needs a validation set"):
        train(cluster, PARAMS | {"early_stopping_round": 2}, [data / "s0.txt"], 2)


def test_fault_94_workers_with_another_version_than_the_client_are_refused(
    cluster: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_versions = worker_module.versions()
    monkeypatch.setattr(worker_module, "versions", lambda: local_versions | {"xgboost": "1.0"})
    with pytest.raises(InputError, match=r"xgboost .*1\.0 .*client .*worker 127"):
        train(cluster, PARAMS, [data / "s0.txt"], 2)


def test_fault_94_a_model_with_other_features_is_not_continued(
    cluster: Any, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "narrow.txt").write_text("0 qid:1 1:1 2:3\n1 qid:1 1:0 2:1\n")
    before = train(cluster, PARAMS, [tmp_path / "narrow.txt"], 1)
    with pytest.raises(DataError, match=r"\b2 features|2 \D*features|2$"):
        train(cluster, PARAMS, [data / "s0.txt"], 1, init_model=before)


def test_fault_96_a_port_that_is_taken_is_told(cluster: Any, data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            train(DaskWorkers(cluster, ("127.0.0.1", port)), PARAMS, [data / "s0.txt"], 2)


def test_fault_96_an_address_of_another_machine_is_told() -> None:
    from boostrank.engines.xgboost.workers import tracker

    expected = pytest.raises(TrainingError, match=r"workers cannot connect at 192\.0\.2\.1: \w+")
    with expected, tracker(2, "192.0.2.1"):
        pass


def test_the_command_line_trains_on_a_cluster(cluster: Any, data: Path, tmp_path: Path) -> None:
    scheduler = f"dask:{cluster.scheduler.address}"
    model = tmp_path / "m.json"
    result = succeed(
        "train",
        data / "s*.txt",
        "--cluster",
        scheduler,
        "--backend",
        "xgboost",
        "--valid",
        data / "v?.txt",
        "-m",
        model,
        "--rounds",
        4,
        "--num-leaves",
        7,
        "--objective",
        "shf-sdcg",
        "--early-stopping",
        2,
        "--checkpoint-every",
        1,
    )
    # The model is written, and no checkpoint is left.
    assert result.stdout == f"model written to {model}\n"
    assert "quality plain: workers" in result.stderr
    assert boostrank.RankingModel.load(model).backend == "xgboost"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.json.meta.json"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cluster", "local:2", "--backend", "linear"], "linear.*xgboost or lightgbm"),
        (["--cluster", "nowhere"], "local, env, dask, spark, ray"),
        (["--cluster", "dask:nowhere"], "dask:nowhere is no address"),
        (["--cluster", "local:0"], "local:0.*number of workers"),
        (["--cluster", "local:2", "--resume"], "--cluster and --resume"),
        (["--cluster", "local:2", "--route", "bins"], "--cluster and --route"),
        (["--cluster", "local:2", "--start", __file__], "--start"),
    ],
)
def test_wrong_options_of_clusters_are_refused(
    options: list[str], words: str, data: Path, tmp_path: Path
) -> None:
    result = refuse("train", data / "s0.txt", "-m", tmp_path / "m", *options)
    assert re.search(words, result.stderr)


def test_fault_92_a_killed_worker_ends_the_job_and_its_checkpoint_goes_on_elsewhere(
    cluster: Any, data: Path, tmp_path: Path
) -> None:
    """Dask starts the worker anew."""
    path = tmp_path / "so-far.json"

    def kill(env: Any) -> None:
        if path.exists() and not killed:
            victim = sorted(cluster.run(os.getpid).values())[-1]
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    killed: list[int] = []
    with pytest.raises(WorkerLost, match=r"so-far\.json .* \d+ more") as caught:
        train(
            cluster,
            PARAMS,
            [data / "s*.txt"],
            100_000,
            callbacks=[kill],
            checkpoint=Checkpoint(path, every=5),
        )
    assert isinstance(caught.value, BoostrankError)
    assert caught.value.exit_code == 4
    so_far = boostrank.RankingModel.load(path)
    assert so_far.best_iteration >= 5
    further = train(cluster, PARAMS, [data / "train.txt"], 2, init_model=so_far)  # on one worker
    assert further.best_iteration == so_far.best_iteration + 2


def test_folds_are_of_the_queries_of_all_workers(cluster: Any, data: Path) -> None:
    folds: list[FoldSummary] = []
    how: dict[str, Any] = {
        "backend": "lightgbm",
        "fold_ended": folds.append,
        "quality": "good",
        "start": "linear",
    }
    shards, valid = [data / f"s{i}.txt" for i in range(3)], [[data / f"v{i}.txt" for i in range(2)]]
    model = train(cluster, PARAMS, shards, 4, valid, folds=3, **how)
    record = model.info["folds"]
    assert [fold.rounds for fold in folds] == record["rounds"]
    assert model.info["data"]["queries"] == 200
    whole, held_out = sets(data)
    how = {"backend": "lightgbm", "quality": "good", "start": "linear"}
    alone = boostrank.train(PARAMS, whole, 4, [held_out], folds=3, **how)
    expected = alone.info["folds"]
    pairs = [
        (record["held_out"]["ndcg@10"], expected["held_out"]["ndcg@10"]),
        (record["valid"][0], expected["valid"][0]),
    ]
    for mean, mean_alone in pairs:
        assert mean["queries"] == mean_alone["queries"]
        assert mean["value"] == pytest.approx(mean_alone["value"], abs=0.05)
    assert np.corrcoef(model.predict(whole), alone.predict(whole))[0, 1] > 0.9


def test_workers_run_an_objectives_file_and_compute_gains(
    cluster: Any, data: Path, tmp_path: Path
) -> None:
    objective_file = tmp_path / "own.py"
    objective_file.write_text(template_text())
    params = PARAMS | {"objective": str(objective_file), "gain": "2 * label"}
    model = train(cluster, params, [data / "train.txt"], 3, backend="lightgbm", start="none")
    params |= {"objective": boostrank.load_objective(objective_file)}
    alone = boostrank.train(
        params, read_libsvm(data / "train.txt"), 3, backend="lightgbm", start="none"
    )
    rows = read_libsvm(data / "valid.txt")
    np.testing.assert_allclose(model.predict(rows), alone.predict(rows), rtol=1e-5, atol=1e-6)
    assert model.info.gain == "2 * label"
    assert model.info.objective_name == alone.info.objective_name


def test_a_gain_under_two_names_is_refused() -> None:
    with pytest.raises(ParameterError, match="the same parameter"):
        train("local:1", {"gain": "label * 2", "label_gain": "label * 3"}, ["nowhere.txt"], 2)
