"""Files that are something else are named for what they are, with the way on."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import DataWarning, FileFormatError, ModelError, ParameterError
from boostrank.core.files import foreign_kind
from boostrank.model.scores import read_scores


def archive(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as zip_file:
            zip_file.writestr("train.txt", "1 qid:1 1:2\n")
    else:
        with tarfile.open(fileobj=out, mode="w") as tar_file:
            tar_file.addfile(tarfile.TarInfo("train.txt"))
    return out.getvalue()


def engines(kind: str) -> bytes:
    X, y = np.random.default_rng(0).random((60, 3)), np.arange(60) % 3
    model = xgb.train({}, xgb.DMatrix(X, y), 1)
    if kind == "ubj":
        return bytes(model.save_raw("ubj"))
    return f"booster[0]:\n{model.get_dump()[0]}".encode()


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html><head>", "web page"),
        (b"<?xml version='1.0'?><ensemble>", "XML"),
        (archive("zip"), "zip"),
        (archive("tar"), "tar"),
        (gzip.compress(b"1 qid:1 1:2"), "gzip"),
        (pickle.dumps([1, 2]), "pickle"),
        (b"PAR1\x15\x04", "Parquet"),
        (engines("ubj"), "UBJSON"),
        (engines("xgboost text"), "save_model"),
        (b"## LambdaMART\n## No. of trees = 10\n", "RankLib"),
        (b"q1 Q0 d7 1 0.5 tag\n", "run file"),
        (b"q1 0 d7 2\n", "qrels"),
        (b"201\t0\t0.3656\n", "RankLib"),
        ("label\n1\n".encode("utf-16"), "UTF-16"),
    ],
    ids=range(15),
)
def test_a_file_of_another_kind_is_named(body: bytes, word: str, tmp_path: Path) -> None:
    assert word in str(foreign_kind(body[:1000]))
    file = tmp_path / "model.txt"
    file.write_bytes(body)
    with pytest.raises(ModelError, match=word):
        boostrank.RankingModel.load(file)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
        ("<html><body>Not found</body></html>\n", "web page"),
        ("q1 Q0 d7 1 0.5 tag\nq1 Q0 d8 2 0.4 tag\n", "run file"),
        ("q1 0 d7 2\n", "qrels"),
        ("201\t0\t0.3656\n", "RankLib"),
        ("score\n1.2E-4\n0.5\n", "header"),
    ],
)
def test_data_and_scores_of_another_kind_are_named(text: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_text(text)
    with pytest.raises(FileFormatError, match=word):
        boostrank.read(file)
    with pytest.raises(FileFormatError, match=word):
        read_scores(str(file), boostrank.RankingDataset.from_arrays([[0.0]], [0.0], qid=[1]))


@pytest.mark.parametrize(
    "body", [b"1 qid:1 1:0.5 2:3\n", b"0.25\n-1e3\n", b"label,qid,a\n1,2,3\n", b""]
)
def test_our_own_files_are_of_no_other_kind(body: bytes) -> None:
    assert foreign_kind(body) is None


@pytest.mark.parametrize("name", ["m.ubj", "m.PKL", "m.onnx"])
def test_a_model_has_no_ending_of_another_format(name: str, tmp_path: Path) -> None:
    data = boostrank.RankingDataset.from_arrays(np.eye(4), np.arange(4) % 2, group=[4])
    model = boostrank.train({"objective": "regression"}, data, 1, backend="xgboost", start="none")
    with pytest.raises(ParameterError, match=r"model\.json"):
        model.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_rounds_after_early_stopping_elsewhere_are_not_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.random((400, 3)).astype("float32"), np.repeat(np.arange(40), 10)
    y = np.clip(3 * X[:, 0] + rng.random(400), 0, 3).astype(int)
    ranker = xgb.XGBRanker(n_estimators=60, learning_rate=0.7, early_stopping_rounds=15)
    ranker.fit(
        X[:280],
        y[:280],
        qid=qid[:280],
        eval_set=[(X[280:], y[280:])],
        eval_qid=[qid[280:]],
        verbose=False,
    )
    ranker.save_model(tmp_path / "m.json")
    with pytest.warns(DataWarning, match=f"best_iteration={ranker.best_iteration}"):
        ours = boostrank.RankingModel.load(tmp_path / "m.json")
    np.testing.assert_array_equal(ours.predict(X).astype("float32"), ranker.predict(X))
