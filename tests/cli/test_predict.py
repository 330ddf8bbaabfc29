"""`boostrank predict`: rows are scored as they are read, and those that are not the model's are
refused.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import boostrank
from boostrank.data.feature_space import FeatureSpace
from boostrank.model.scores import scores_of_files
from tests.cli.conftest import FEW, invoke, refuse, succeed

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")
Write = Callable[[str], Path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt of 6 sparse features, and models of it."""
    folder = tmp_path_factory.mktemp("few")
    rng = np.random.default_rng(1)
    rows = [rng.permutation(6)[: rng.integers(1, 7)] + 1 for _ in range(300)]
    lines = [
        f"{int(2 in row)} qid:{i // 10} "
        + " ".join(f"{f}:{rng.integers(-3, 9)}" for f in sorted(row))
        for i, row in enumerate(rows)
    ]
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    for name, options in {
        "lgb": ("--param", "min_data_in_leaf=5"),
        "xgb": ("--backend", "xgboost"),
    }.items():
        succeed("train", folder / "train.txt", "-m", folder / name, *FEW, *options)
    succeed(
        "train", folder / "train.txt", "-m", folder / "linear", "--backend", "linear", "--rounds", 3
    )
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        (tmp_path / "new.txt").write_text(text)
        return tmp_path / "new.txt"

    return write


@pytest.mark.fault(88)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
@pytest.mark.parametrize("name", ["lgb", "xgb"])
def test_pieces_of_any_size_give_the_scores_of_the_whole(
    folder: Path, name: str, chunk_bytes: int, threads: int
) -> None:
    model = boostrank.RankingModel.load(folder / name)
    data = boostrank.read(folder / "train.txt")
    like = FeatureSpace(1, 6, model.feature_names)
    for rounds in (None, 2):
        pieces = scores_of_files(
            model,
            folder / "train.txt",
            num_iteration=rounds,
            like=like,
            threads=threads,
            chunk_bytes=chunk_bytes,
        )
        assert pieces is not None
        np.testing.assert_array_equal(
            np.concatenate(list(pieces)), model.predict(data, num_iteration=rounds)
        )


def test_scores_come_before_the_last_row_is_there(folder: Path) -> None:
    model = boostrank.RankingModel.load(folder / "lgb")
    text = (folder / "train.txt").read_bytes()
    reading, writing = os.pipe()
    first_was_scored = threading.Event()

    def feed() -> None:
        with os.fdopen(writing, "wb") as pipe:
            for _ in range(40):  # more than is looked at before the first piece is handed on
                pipe.write(text)
            pipe.flush()
            assert first_was_scored.wait(60)
            pipe.write(text)

    feeder = threading.Thread(target=feed)
    feeder.start()
    like = FeatureSpace(1, 6, model.feature_names)
    with os.fdopen(reading, "rb") as pipe:
        pieces = scores_of_files(model, pipe, like=like, threads=1, chunk_bytes=1000)
        assert pieces is not None
        scores = [next(pieces)]
        first_was_scored.set()
        scores += pieces
    feeder.join()
    assert sum(map(len, scores)) == 41 * 300


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["lgb", "linear"])  # scored while it is read, and as a whole
def test_names_stand_beside_scores(folder: Path, tmp_path: Path, name: str, ending: str) -> None:
    lines = (folder / "train.txt").read_text().splitlines()
    rows = [f"{line} # docid = D{i}\n" for i, line in enumerate(lines) if i < 20] + [
        "0 qid:b 1:1\n",
        "0 qid:2 1:1 # x,y\n",
    ]
    order = [*range(0, 22, 2), *range(1, 22, 2)]  # scattered
    (tmp_path / "new.txt").write_text("# qid:0: red shoe\n" + "".join(rows[i] for i in order))
    options = (folder / name, tmp_path / "new.txt", "--zero-based", "false", "--regroup")
    plain = succeed("predict", *options)
    path = tmp_path / f"scores.{ending}"
    succeed("predict", *options, "-o", path)
    read = {
        "csv": partial(pd.read_csv, float_precision="round_trip"),
        "parquet": pd.read_parquet,
    }
    frame = read[ending](path)
    assert list(frame) == ["qid", "doc_id", "score"]
    qids = [rows[i].split("qid:")[1].split()[0] for i in order]
    assert frame["qid"].astype(str).tolist() == qids
    names_by_row = {i: f"D{i}" for i in range(20)} | {20: None, 21: "x,y"}
    names = [names_by_row[i] for i in order]
    assert [name if isinstance(name, str) and name else None for name in frame["doc_id"]] == names
    assert frame["score"].tolist() == list(map(float, plain.stdout.split()))
    logged = invoke("verify", *options, "--against", path) if ending != "parquet" else plain
    assert logged.exit_code == 0, logged.stderr


def test_models_that_need_all_rows_at_once_get_them(folder: Path, tmp_path: Path) -> None:
    data = boostrank.read(folder / "train.txt")
    matrix = xgb.DMatrix(np.where(data.features == 0, np.nan, data.features), data.labels)
    alone = xgb.train({"max_depth": 3, "base_score": 0.0}, matrix, 4)
    alone.save_model(tmp_path / "alone.json")
    cells = [
        line.split()[0] + " " + line.split()[1] + " 6:1\n" for line in (folder / "train.txt").open()
    ]
    # What is absent is missing to XGBoost alone.
    (tmp_path / "sparse.txt").write_text("".join(cells))
    for model, rows in (
        (folder / "linear", folder / "train.txt"),
        (tmp_path / "alone.json", folder / "train.txt"),
        (tmp_path / "alone.json", tmp_path / "sparse.txt"),
    ):
        ranker = boostrank.RankingModel.load(model)
        whole = boostrank.read(rows, like=FeatureSpace(1, 6, ranker.feature_names))
        result = invoke("predict", model, rows, "--zero-based", "false")
        assert result.stdout == "".join(f"{float(s)!r}\n" for s in ranker.predict(whole)), (
            result.stderr
        )
    assert whole.is_sparse


def test_scattered_queries_need_no_regrouping(folder: Path, write: Write) -> None:
    lines = (folder / "train.txt").read_text().splitlines(keepends=True)
    straight = invoke("predict", folder / "lgb", folder / "train.txt").stdout.splitlines()
    result = invoke("predict", folder / "lgb", write("".join([*lines[::2], *lines[1::2]])))
    assert result.stdout.splitlines() == [*straight[::2], *straight[1::2]]


@pytest.mark.fault(88)
def test_a_feature_that_the_model_has_not_is_refused_with_its_place(
    folder: Path, write: Write
) -> None:
    text = "0 qid:1 1:2 6:1\n0 qid:1 2:2 7:1\n" + "0 qid:1 1:2 6:1\n" * 2000
    result = refuse("predict", folder / "lgb", write(text))
    assert re.search("new.txt:2:13: feature 7 .*features 1 to 6", result.stderr)


def test_fault_109_no_row_is_skipped_where_each_has_a_score(folder: Path, write: Write) -> None:
    skipped = invoke(
        "predict", folder / "lgb", write("0 qid:1 1:2\n0 qid:1 1:x\n"), "--on-bad-line", "skip"
    )
    assert (skipped.exit_code, skipped.stdout) == (2, "")
    assert "fewer scores" in skipped.stderr


def test_files_that_count_from_another_number_are_refused(folder: Path, write: Write) -> None:
    result = refuse("predict", folder / "lgb", write("0 qid:1 1:2\n0 qid:1 0:2 2:1\n"))
    assert "new.txt:2:9: feature 0" in result.stderr
    plain = folder / "plain"
    plain.write_bytes((folder / "lgb").read_bytes())
    result = refuse(
        "predict", plain, write("0 qid:1 1:2\n0 qid:1 2:2 6:1\n"), "--zero-based", "true"
    )
    assert re.search("new.txt:2:13: feature 6 .*features 0 to 5.* count from 0", result.stderr)


def test_rows_that_all_end_before_the_models_last_feature_are_said(
    folder: Path, write: Write
) -> None:
    fewer, sparse = "0 qid:1 1:2 2:1\n1 qid:1 1:3 2:1\n", "0 qid:1 1:2 2:1\n1 qid:1 1:3\n"
    result = succeed("predict", folder / "lgb", write(fewer))
    assert "features up to 6" in result.stderr
    refuse("predict", folder / "lgb", write(fewer), "--strict")
    assert "every row" not in invoke("predict", folder / "lgb", write(sparse), "--strict").stderr


def test_a_file_of_scores_is_written_whole_or_not_at_all(
    folder: Path, write: Write, tmp_path: Path
) -> None:
    output = tmp_path / "scores.txt"
    output.write_text("old\n")
    # More than is scored at a time.
    bad = write(300 * (folder / "train.txt").read_text() + "broken\n")
    assert invoke("predict", folder / "lgb", bad, "--threads", 1).stdout.count("\n") > 10_000
    refuse("predict", folder / "lgb", bad, "--threads", 1, "-o", output)
    assert output.read_text() == "old\n"
    empty = invoke("predict", folder / "lgb", write("# nothing\n"), "-o", output)
    assert (empty.exit_code, output.read_text()) == (2, "old\n")
    assert "no rows" in empty.stderr
    result = invoke("predict", folder / "lgb", folder / "train.txt", "-o", output)
    assert output.read_text().count("\n") == 300
    assert "300 rows, 6 features, scored in " in result.stderr


def test_rows_read_in_pieces_give_the_warnings_of_a_whole_file(folder: Path, write: Write) -> None:
    text = "0 qid:1 1:nan 6:1\n\n\n0 qid:1 6:2 2:nan\n0 qid:1 6:2 1:inf"
    result = succeed("predict", folder / "lgb", write(text), "--inf", "missing")
    for words in (
        "2 of 5 lines are blank",
        "2 rows had unsorted feature numbers (first: line 4)",
        "no newline",
        "1 infinite values: read as missing",
        "3 missing values",
    ):
        assert words in result.stderr
