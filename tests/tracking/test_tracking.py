"""What other programs are told of a training's rounds."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import TrainingWarning
from boostrank.tracking import JsonLines
from tests.cli.conftest import invoke, succeed
from tests.fit.conftest import BACKENDS, FAST, make_dataset

ROUNDS = 3


def trained(*callbacks: Any, backend: str = "lightgbm", **options: Any) -> boostrank.RankingModel:
    params = {"objective": "regression", "eval_at": [5, 10], **FAST}
    sets = {
        "valid_sets": [make_dataset(0), make_dataset(1)],
        "valid_names": ["training", "held out"],
        "callbacks": callbacks,
    }
    return boostrank.train(params, make_dataset(0), ROUNDS, backend=backend, **(sets | options))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_round_is_a_line_that_lies_in_the_file_before_the_next(
    backend: str, tmp_path: Path
) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(b'{"round": 7, "ti')  # what a full disk left of another training
    seen: list[int] = []

    def look(env: Any) -> None:
        seen.append(lines(path)[-1].get("round"))

    look.order = 24  # type: ignore[attr-defined]
    model = trained(JsonLines(path), look, backend=backend)
    assert seen == [1, 2, 3]
    begin, *rounds = lines(path)
    assert (begin["event"], begin["first_round"], begin["last_round"]) == ("begin", 1, ROUNDS)
    assert begin["params"]["num_leaves"] == FAST["num_leaves"]
    logged = [event["metrics"]["held out"]["ndcg@10"] for event in rounds]
    assert logged == model.evals_result["held out"]["ndcg@10"]
    trained(JsonLines(path), backend=backend, init_model=model)
    again = lines(path)[1 + ROUNDS :]
    assert again[0] | {"time": 0, "params": 0} == {
        "event": "begin",
        "time": 0,
        "first_round": 4,
        "last_round": 6,
        "params": 0,
    }
    assert [event["round"] for event in again[1:]] == [4, 5, 6]


def test_training_outlives_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.warns(TrainingWarning, match="stopped: No space"):
        model = trained(JsonLines("/dev/full"))
    assert model.best_iteration == ROUNDS


def test_training_outlives_a_log_whose_folder_goes(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    with pytest.raises(FileNotFoundError):
        trained(JsonLines(folder / "rounds.jsonl"))
    folder.mkdir()

    def gone(env: Any) -> None:
        if env.iteration == 1:
            shutil.rmtree(folder)

    with pytest.warns(TrainingWarning, match="stopped: No such file"):
        model = trained(JsonLines(folder / "rounds.jsonl"), gone)
    assert model.best_iteration == ROUNDS


def test_the_command_logs_every_training(tmp_path: Path) -> None:
    succeed("data", "make", tmp_path, "--queries", 30, "--mean-length", 15)
    log, model, train = tmp_path / "log.jsonl", tmp_path / "m.txt", tmp_path / "train.txt"
    arguments = [
        "train",
        train,
        "-m",
        model,
        "--rounds",
        3,
        "--threads",
        1,
        "--objective",
        "regression",
        "--log",
        log,
    ]
    succeed(*arguments)
    assert [event.get("round") for event in lines(log)] == [None, 1, 2, 3] * 4
    assert "would be overwritten" in invoke(*arguments[:-1], train).stderr
    assert "folder" in invoke(*arguments[:-1], tmp_path / "no" / "log").stderr


def test_mlflow_holds_the_rounds_and_serves_the_model(tmp_path: Path, monkeypatch: Any) -> None:
    mlflow = pytest.importorskip("mlflow", reason="tracking with MLflow")
    import pandas as pd

    from boostrank.tracking import MLflow, log_model

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    with mlflow.start_run() as run:
        model = trained(MLflow())
        logged = log_model(model)
    # Rounds and parameters.
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "held out/ndcg_at_10")
    assert [(measurement.step, measurement.value) for measurement in history] == list(
        enumerate(model.evals_result["held out"]["ndcg@10"], 1)
    )
    assert mlflow.get_run(run.info.run_id).data.params["num_leaves"] == "7"
    # The served model takes arrays, columns in any order, and whole numbers.
    served = mlflow.pyfunc.load_model(logged.model_uri)
    frame = pd.DataFrame(
        np.asarray(make_dataset(1).features, np.float64), columns=list(model.feature_names)
    )
    np.testing.assert_array_equal(served.predict(frame.to_numpy()), model.predict(make_dataset(1)))
    np.testing.assert_array_equal(
        served.predict(frame[frame.columns[::-1]]), model.predict(make_dataset(1))
    )
    whole = (frame * 10).round().astype("int64")
    np.testing.assert_array_equal(served.predict(whole), model.predict(whole.to_numpy(np.float32)))
    # A model with columns within queries takes the query ids, too.
    with mlflow.start_run():
        logged = log_model(trained(within_query="rank", valid_sets=None, valid_names=None))
    served = mlflow.pyfunc.load_model(logged.model_uri)
    assert np.isfinite(served.predict(frame.assign(qid=make_dataset(1).queries.of_rows()))).all()


def test_a_line_that_a_full_disk_cuts_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = JsonLines(tmp_path / "rounds.jsonl")
    log._append({"round": 1})

    def cut(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("boostrank.tracking.write_all", cut)
    with pytest.warns(TrainingWarning, match=r"rounds\.jsonl: .*No space"):
        log._append({"round": 2})
    assert (tmp_path / "rounds.jsonl").read_text() == '{"round": 1}\n'
