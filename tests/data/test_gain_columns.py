"""Gains of expressions while data are read: tables of every kind, libsvm text, frames, streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.core.errors import DataError, DataWarning, FileFormatError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files

GAIN = "0.7*label + 0.3*log1p(margin)"
Read = boostrank.read


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 60
    return pd.DataFrame(
        {
            "rel": rng.integers(0, 4, n),
            "query": np.repeat(np.arange(10), 6),
            "a": rng.normal(size=n).astype(np.float32),
            "b": rng.normal(size=n).astype(np.float32),
            "margin": rng.exponential(size=n),
            "name": ["x"] * n,
        }
    )


COLUMNS: dict[str, Any] = {"label": "rel", "qid": "query", "drop": "margin,name"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The frame as files; bad.* has a negative margin in row 21 (from 1) and none in row 41."""
    folder, frame = tmp_path_factory.mktemp("gains"), _frame()
    bad = frame.copy()
    bad.loc[20, "margin"], bad.loc[40, "margin"] = -3.0, np.nan
    for name, table in (("good", frame), ("bad", bad)):
        table.to_csv(folder / f"{name}.csv", index=False)
        table.to_csv(folder / f"{name}.tsv", index=False, sep="\t")
        table.to_parquet(folder / f"{name}.parquet")
        table.to_feather(folder / f"{name}.arrow")
    rows = [f"{r.rel} qid:{r.query} 1:{r.a} 2:{r.b}" for r in frame.itertuples()]
    (folder / "good.txt").write_text("\n".join(rows) + "\n")
    return folder


def _expected_gain(frame: pd.DataFrame) -> np.ndarray:
    return np.asarray(0.7 * frame.rel + 0.3 * np.log1p(frame.margin))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_gain_of_other_columns_does_without_labels(ending: str, tmp_path: Path) -> None:
    frame, path = _frame(), tmp_path / f"some.{ending}"
    frame["rel"] = frame["rel"].where(frame.index >= 20)
    (frame.to_csv if ending == "csv" else frame.to_parquet)(path, index=False)
    data = boostrank.read(path, gain="margin", **COLUMNS)
    np.testing.assert_array_equal(data.labels, frame["margin"])
    assert data.provenance.options["rows_without_label"] == 20
    for gain in (None, GAIN):
        with pytest.raises(FileFormatError, match=r"some\.\w+: ?(2|row 1|1)\b"):
            boostrank.read(path, gain=gain, **COLUMNS)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow"])
def test_a_column_that_is_no_feature_makes_the_labels(folder: Path, ending: str, tmp_path: Path):
    data = Read(folder / f"good.{ending}", gain=GAIN, **COLUMNS)
    np.testing.assert_array_equal(data.labels, _expected_gain(_frame()))
    assert data.feature_names == ("a", "b")
    assert data.gain == GAIN
    streamed = boostrank.stream(folder / f"good.{ending}", cache=tmp_path, gain=GAIN, **COLUMNS)
    np.testing.assert_array_equal(streamed.labels, data.labels)
    assert streamed.gain == GAIN
    assert boostrank.stream(folder / f"good.{ending}", cache=tmp_path, **COLUMNS).gain is None


def test_scattered_queries_chunks_and_several_files_keep_columns_with_their_rows(
    folder: Path, tmp_path: Path
):
    # Scattered rows of two files, read in small chunks.
    frame = _frame()
    mixed = frame.sample(frac=1.0, random_state=1)
    mixed.iloc[:30].to_csv(tmp_path / "1.csv", index=False)
    mixed.iloc[30:].to_csv(tmp_path / "2.csv", index=False)
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    with pytest.warns(DataWarning, match="regrouped"):
        data = read_files(files, regroup=True, chunk_bytes=300, gain=GAIN, **COLUMNS)
    np.testing.assert_array_equal(data.in_input_order(data.labels), _expected_gain(mixed))
    # A gain below 0 is told with its line.
    mixed.iloc[7, mixed.columns.get_loc("margin")] = -1.0
    mixed.to_csv(tmp_path / "3.csv", index=False)
    with pytest.raises(FileFormatError, match=r"3\.csv:9: .*'margin' is -1"):
        Read(tmp_path / "3.csv", regroup=True, gain="margin", **COLUMNS)
    # A row that is left out takes its gain along, and so do queries that are taken.
    rows = frame.astype({"b": object})
    rows.loc[2, "b"] = "?"
    rows.to_csv(tmp_path / "4.csv", index=False)
    with pytest.warns(DataWarning, match="1 of 60 rows skipped"):
        skipped = Read(
            tmp_path / "4.csv", on_bad_line="skip", max_bad_share=0.1, gain=GAIN, **COLUMNS
        )
    np.testing.assert_array_equal(skipped.labels, np.delete(_expected_gain(frame), 2))
    taken = data.take([3, 1])
    assert taken.gain == GAIN
    np.testing.assert_array_equal(
        taken.labels,
        np.concatenate([np.split(data.labels, data.queries.ptr[1:-1])[q] for q in (3, 1)]),
    )


def test_features_are_named_too_and_so_are_numbers_of_libsvm_text(folder: Path):
    frame = _frame()
    expected = frame.rel + frame.a.astype(float) ** 2 * (frame.b > 0)
    for data in (
        Read(folder / "good.txt", gain="label + f1**2 * (f2 > 0)"),
        Read(folder / "good.txt", feature_names=("a", "b"), gain="label + f1**2 * (b > 0)"),
        Read(folder / "good.txt").with_gain("label + f1**2 * (f2 > 0)"),
        Read(folder / "good.txt", layout="csr").with_gain("label + f1**2 * (f2 > 0)"),
        boostrank.stream(folder / "good.txt", cache=False, gain="label + f1**2 * (f2 > 0)"),
        RankingDataset.from_frame(
            frame.drop(columns=["name"]),
            label="rel",
            qid="query",
            drop="margin",
            gain="label + a**2 * (b > 0)",
        ),
    ):
        np.testing.assert_allclose(data.labels, expected, rtol=1e-15)
    with pytest.warns(DataWarning, match="gain and as features: 'a'"):
        Read(folder / "good.csv", gain="label + a**2", **COLUMNS)


def test_a_frame_has_columns_that_are_no_features(tmp_path: Path):
    frame = _frame().sample(frac=1.0, random_state=2)
    data = RankingDataset.from_frame(
        frame, label="rel", qid="query", drop=["margin", "name"], gain=GAIN, sort=True
    )
    np.testing.assert_array_equal(data.in_input_order(data.labels), _expected_gain(frame))
    with pytest.raises(DataError, match=r"'name' .*must be numbers"):
        RankingDataset.from_frame(
            _frame(), label="rel", qid="query", drop=["margin", "name"], gain="label*name"
        )


@pytest.mark.parametrize(
    ("file", "gain", "location", "words"),
    [
        ("bad.csv", GAIN, "bad.csv:22: ", r"query 3: .* is nan: gains must be finite"),
        (
            "bad.tsv",
            "max(label, margin) + margin",
            "bad.tsv:22: ",
            r"is -?\d.*max\(..., 0\) or clip",
        ),
        ("bad.parquet", GAIN, "bad.parquet: row 21: ", "finite and at least 0"),
        (
            "bad.arrow",
            "clip(margin, 0, 9)",
            "bad.arrow: row 41: ",
            r"is nan.* where\(isnan\(x\), 0, x\)",
        ),
        ("good.csv", "1/(label - label)", "good.csv:2: ", "is (inf|nan)"),
        ("good.csv", "label*labl", "good.csv:1: ", "no column 'labl'. Did you mean 'label'"),
        ("good.csv", "lineer", "good.csv:1: ", "Did you mean 'linear'"),
        ("good.csv", "query", "good.csv:1: ", "no column 'query'"),
        ("good.csv", "label+name", "good.csv:2: ", "'name'"),
        ("good.txt", "label + f1", r"good.txt:\d+: ", "is -.*max"),
        ("good.txt", "label + f3", "", "no column 'f3'"),
    ],
)
def test_values_that_are_no_gain_are_refused_with_their_place(
    folder: Path, file: str, gain: str, location: str, words: str
):
    columns = {} if file.endswith(".txt") else COLUMNS
    with pytest.raises(DataError, match=words) as caught:
        Read(folder / file, gain=gain, **columns)
    caught.match(location)


def test_lines_of_libsvm_text_are_those_of_the_file(tmp_path: Path):
    values = [1] * 7 + [-2, 1]
    plain = "".join(f"1 qid:{i // 3} 1:{value}\n" for i, value in enumerate(values))
    (tmp_path / "a.txt").write_text("# head\n\n" + plain)
    with pytest.raises(FileFormatError, match=r"a\.txt:10: query 2: gain"):
        Read(tmp_path / "a.txt", gain="label+f1")
    rows = plain.splitlines(keepends=True)
    (tmp_path / "b.txt").write_text("".join([*rows[:7], "\n", *rows[7:]]))
    with pytest.raises(FileFormatError, match=r"b\.txt:9: query 2: gain"):
        Read(tmp_path / "b.txt", gain="label+f1")


def test_an_expression_is_computed_once_and_not_mixed(folder: Path):
    data = Read(folder / "good.csv", gain=GAIN, **COLUMNS)
    assert data.with_gain(f" {GAIN} ") is data
    with pytest.raises(DataError, match=r"are the gain '0\.7"):
        data.with_gain("label")
    with pytest.raises(DataError, match="cannot be joined"):
        data.join(Read(folder / "good.csv", **COLUMNS))
    with pytest.raises(ParameterError, match="expression"):
        Read(folder / "good.csv", gain="linear", **COLUMNS)
    frame = _frame().drop(columns=["margin"])
    frame["name"] = frame["name"].astype("category")
    coded = RankingDataset.from_frame(frame, label="rel", qid="query")
    with pytest.raises(DataError, match="'name' is categorical"):
        coded.with_gain("label + name")


def test_a_dropped_column_called_f1_is_that_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label,qid,f1,f2,f3\n1,1,10,20,30\n0,1,11,21,31\n")
    data = boostrank.read(tmp_path / "t.csv", drop=["f1"], gain="f1")
    np.testing.assert_array_equal(data.labels, [10.0, 11.0])
    (tmp_path / "named.csv").write_text("label,qid,a,b\n1,1,10,20\n0,1,11,21\n")
    with pytest.raises(DataError, match="no column 'f1'"):
        boostrank.read(tmp_path / "named.csv", gain="f1")
