"""Rows of data as people have them: query columns, ids, heads of scikit-learn, rows without labels,
indexes, doctor.
"""

from __future__ import annotations

import datetime as dt
import gzip
import re
import subprocess
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import boostrank
from boostrank import BoostRanker, RankingDataset
from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.sklearn import QueryKFold
from tests.cli.conftest import invoke, refuse, succeed

N, QUERIES = 60, 6
X = np.random.default_rng(0).random((N, 3)).round(3)
Y = (3 * X[:, 0]).astype(int)
QID = np.repeat(np.arange(1, QUERIES + 1), N // QUERIES)
FRAME = pd.DataFrame(X, columns=list("abc"))
PLAIN = {
    "n_estimators": 2,
    "quality": "plain",
    "objective": "lambdarank",
    "verbosity": -1,
    "n_jobs": 1,
}
TRAIN = ("--quality", "plain", "--rounds", 2, "--objective", "lambdarank", "--threads", 1)
KINDS = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(label: str = "{label} ", qid: str = "qid:{qid} ") -> list[str]:
    cells = (" ".join(f"{j}:{value}" for j, value in enumerate(row, 1)) for row in X)
    heads = (f"{label}{qid}".format(label=y, qid=q) for y, q in zip(Y, QID, strict=True))
    return [head + cell for head, cell in zip(heads, cells, strict=True)]


def write(name: str, lines: list[str]) -> str:
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def scores(model: str, data: str) -> str:
    succeed("predict", model, data, "-o", "scores.txt")
    return Path("scores.txt").read_text()


@pytest.fixture
def model() -> str:
    succeed("train", write("train.txt", rows()), *TRAIN, "--model", "model.txt")
    return "model.txt"


# A column of query ids in frames
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["query_id", "Query ID", "query", "QueryId", "qid "])
def test_report_03_a_frame_with_a_usual_query_column_is_not_one_query(kind: str, name: str) -> None:
    frame = KINDS[kind](FRAME.assign(**{name: QID}))
    expected = BoostRanker(**PLAIN).fit(FRAME, Y, qid=QID)
    with pytest.warns(DataWarning, match=name):
        ranker = BoostRanker(**PLAIN).fit(
            frame, Y, eval_set=[(KINDS[kind](FRAME.assign(**{name: QID})), Y)]
        )
    assert list(ranker.model_.feature_names) == ["a", "b", "c"]
    assert np.array_equal(ranker.predict(frame), expected.predict(FRAME))
    assert ranker.score(frame, Y) == expected.score(FRAME, Y, qid=QID)
    assert np.array_equal(ranker.rank(frame), expected.rank(FRAME, qid=QID))
    assert len(list(QueryKFold(3).split(frame))) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_report_03_from_frame_takes_the_usual_columns_of_files(kind: str) -> None:
    data = RankingDataset.from_frame(KINDS[kind](FRAME.assign(relevance=Y, query_id=QID)))
    assert (len(data.queries), data.feature_names, data.labels.tolist()) == (
        QUERIES,
        ("a", "b", "c"),
        Y.tolist(),
    )
    with pytest.raises(DataError, match=r"query_id.*qid="):
        RankingDataset.from_frame(KINDS[kind](FRAME.assign(label=Y, session=QID)))


def test_report_03_several_query_columns_are_refused_and_given_ids_stay_features_with_a_warning() -> (
    None
):
    with pytest.raises(DataError, match="'query_id' and 'qid'"):
        BoostRanker(**PLAIN).fit(FRAME.assign(query_id=QID, qid=QID), Y)
    with pytest.warns(DataWarning, match="'query_id' .*feature"):
        ranker = BoostRanker(**PLAIN).fit(FRAME.assign(query_id=QID), Y, qid=QID)
    assert ranker.predict(FRAME.assign(query_id=QID)).size == N


# Rows without labels, and label:weight
# -------------------------------------------------------------------------------


@pytest.mark.parametrize("qid", ["qid:{qid} ", ""], ids=["qid", "no qid"])
def test_report_04_predict_takes_rows_without_labels(model: str, qid: str) -> None:
    expected = scores(model, "train.txt")
    bare = ["# head", "", *rows("", qid)]
    assert scores(model, write("bare.txt", bare)) == expected
    with gzip.open("bare.gz", "wt") as file:
        file.write("\r\n".join(bare) + "\r\n")
    assert scores(model, "bare.gz") == expected


def test_report_04_verify_and_export_take_rows_without_labels(
    model: str,
) -> None:
    scores(model, "train.txt")
    bare = write("bare.txt", rows(""))
    succeed("verify", model, bare, "--against", "scores.txt")
    succeed("export", model, bare, "--to", "lightgbm", "-o", "copy.txt")
    for command in (("train", bare, *TRAIN, "--model", "m.txt"), ("evaluate", model, bare)):
        refuse(*command, says=("bare.txt:1:1", "qid:1", "not with a label"))
    assert invoke("doctor", bare).exit_code == 2


@pytest.mark.parametrize("first", [True, False], ids=["bare first", "bare later"])
def test_report_04_mixed_rows_are_refused_at_their_line(model: str, first: bool) -> None:
    parts = rows("")[:3] + rows()[3:] if first else rows()[:3] + rows("")[3:]
    refuse(
        "predict", model, write("mixed.txt", parts), "-o", "s.txt", says=("mixed.txt:4:1", "label")
    )


@pytest.mark.parametrize("first", [0, 1])
def test_a_label_for_each_class_is_no_grade(first: int) -> None:
    order = [first, 1 - first, *range(2, N)]
    with open("classes.txt", "wb") as file:
        dump_svmlight_file(X[order], Y[order, None], file, query_id=QID, multilabel=True)
    place = f"classes.txt:{2 - first}:"
    refuse("train", "classes.txt", *TRAIN, "--model", "m.txt", says=(place, "multilabel"))


def test_report_09_whole_decimals_as_ids_are_refused(model: str) -> None:
    path = write("decimal.txt", rows(qid="qid:{qid}.0 "))
    refuse("train", path, *TRAIN, "--model", "m.txt", says=("decimal.txt:1:3", "'1.0'", "point"))


@pytest.mark.parametrize(("head", "mark"), [("", "|"), ("", "\1"), ("", " "), ("# by x\n", ",")])
def test_tables_of_other_programs_are_refused_with_their_first_line(head: str, mark: str) -> None:
    text = FRAME.assign(label=Y, qid=QID).to_csv(index=False, sep=mark)
    Path("t.csv").write_text(head + text)
    refuse(
        "train", "t.csv", *TRAIN, "--model", "m.txt", says=("t.csv:1", "separated by ','", "commas")
    )


def test_report_03_a_second_query_column_that_becomes_a_feature_is_said() -> None:
    FRAME.assign(label=Y, qid=QID, query=QID).to_csv("t.csv", index=False)
    result = succeed("train", "t.csv", *TRAIN, "--model", "m.txt")
    assert all(word in result.stderr for word in ("'query'", "--drop query")), result.stderr


def test_sizes_that_contradict_each_other_are_refused(model: str) -> None:
    path = write("sizes.txt", rows(qid=""))
    write(f"{path}.query", [str(N)])
    write(f"{path}.group", [str(N // QUERIES)] * QUERIES)
    refuse("train", path, *TRAIN, "--model", "m.txt", says=("sizes.txt.query", "sizes.txt.group"))
    write(f"{path}.query", [str(N // QUERIES)] * QUERIES)
    succeed("train", path, *TRAIN, "--model", "m.txt")


def test_side_files_are_moved_by_a_command_that_can_be_pasted() -> None:
    write("a b.txt.init", ["0"] * N)
    result = refuse("train", write("a b.txt", rows()), *TRAIN, "--model", "m.txt")
    subprocess.run(["bash", "-c", re.search("`(.+?)`", result.stderr)[1]], check=True)  # type: ignore[index]
    succeed("train", "a b.txt", *TRAIN, "--model", "m.txt")


@pytest.mark.parametrize("name", ["s.csv.gz", "s.txt.zst", "s.json", "s.xlsx", "s.npy"])
def test_scores_in_a_form_that_is_not_written_are_refused(model: str, name: str) -> None:
    refuse("predict", model, "train.txt", "-o", name, says=(name, ".parquet"))
    assert not Path(name).exists()


def test_parts_for_more_files_than_queries_name_the_queries(model: str) -> None:
    path = write("one.txt", rows()[:5])
    result = refuse("data", "split", path, "--parts", "a=.5,b=.5", "-o", "part", says=("only 1 ",))
    assert "seed" not in result.stderr


def test_report_11_label_and_weight_are_refused(model: str) -> None:
    pairs = [f"{y}:{q} qid:{q} 1:{row[0]}" for y, q, row in zip(Y, QID, X, strict=True)]
    path = write("pairs.txt", pairs)
    refuse("predict", model, path, "-o", "s.txt", says=("pairs.txt:1:1", "label:weight"))
    assert "label:weight" in invoke("doctor", path).stdout
    refuse("train", path, *TRAIN, "--model", "m.txt", says=("pairs.txt:1:1", "FILE.weight"))


def test_report_11_label_and_weight_without_query_ids(model: str) -> None:
    path = write("pairs.txt", ["1:2 1:.5 2:.3", "0:1 1:.2 2:.1"])
    write("pairs.txt.query", ["2"])
    refuse("train", path, *TRAIN, "--model", "m.txt", says=("pairs.txt:1:1", "label:weight"))
    refuse("predict", model, path, "-o", "s.txt", says=("pairs.txt:1:1", "label:weight"))


# Ids of other types
# --------------------------------------------------------------------------------------------------

DAYS = [dt.date(2024, 1, 31), dt.date(2024, 2, 1)]
MIDNIGHTS = [dt.datetime(2024, 1, 31), dt.datetime(2024, 2, 1)]
DAY_TEXT = ["2024-01-31", "2024-02-01"]
LARGE = [10**30, 10**30 + 1]
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "decimal128": (pa.array(list(map(Decimal, (7, 8))), pa.decimal128(38, 0)), [7, 8]),
    "decimal with zeros": (
        pa.array(list(map(Decimal, ("7.00", "8.00"))), pa.decimal128(38, 2)),
        [7, 8],
    ),
    "large decimal": (
        pa.array(list(map(Decimal, LARGE)), pa.decimal256(60, 0)),
        list(map(str, LARGE)),
    ),
    "date32": (pa.array(DAYS), DAY_TEXT),
    "date64": (pa.array(DAYS, pa.date64()), DAY_TEXT),
    "timestamp": (pa.array(MIDNIGHTS), DAY_TEXT),
    "zone": (pa.array(MIDNIGHTS, pa.timestamp("us", "UTC")), DAY_TEXT),
    "time of day": (
        pa.array(
            [midnight.replace(hour=9, microsecond=500000) for midnight in MIDNIGHTS],
            pa.timestamp("ns"),
        ),
        [f"{day} 09:00:00.5" for day in DAY_TEXT],
    ),
    "dictionary": (pa.array(DAYS).dictionary_encode(), DAY_TEXT),
    "binary": (pa.array([b"x", b"y"], pa.large_binary()), ["x", "y"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_report_09_10_ids_are_the_same_text_in_files_and_frames(name: str) -> None:
    column, expected = COLUMNS[name]
    table = pa.table(
        {
            "label": [0, 1, 2, 1],
            "qid": column.take(pa.array([0, 0, 1, 1])),
            "x": [1.0, 2.0, 3.0, 4.0],
        }
    )
    parquet.write_table(table, "t.parquet")
    feather.write_feather(table, "t.arrow")
    datasets = {"parquet": boostrank.read("t.parquet"), "arrow": boostrank.read("t.arrow")}
    frames = {
        "table": table,
        "pandas": table.to_pandas(),
        "arrow in pandas": table.to_pandas(types_mapper=pd.ArrowDtype),
    }
    # Polars has no decimal256.
    frames |= {} if name == "large decimal" else {"polars": pl.from_arrow(table)}
    datasets |= {kind: RankingDataset.from_frame(frame) for kind, frame in frames.items()}
    if name != "binary":
        table.to_pandas().to_csv("t.csv", index=False)
        datasets["csv"] = boostrank.read("t.csv")
    assert {kind: data.queries.qid.tolist() for kind, data in datasets.items()} == dict.fromkeys(
        datasets, expected
    )


@pytest.mark.parametrize(
    "ids",
    [
        DAYS,
        np.array(DAYS, "M8[ns]"),
        pd.Series(MIDNIGHTS),
        pd.Series(MIDNIGHTS).dt.tz_localize("Europe/Berlin"),
        pd.PeriodIndex(DAYS, freq="D"),
        pl.Series(DAYS),
        pl.Series(MIDNIGHTS).dt.replace_time_zone("Europe/Berlin"),
        pa.array(DAYS),
        pa.array(MIDNIGHTS, pa.timestamp("us", "UTC")),
        pd.Series(DAYS).astype("category"),
    ],
    ids=[
        "dates",
        "numpy",
        "timestamps",
        "zone",
        "periods",
        "polars",
        "polars zone",
        "arrow",
        "arrow zone",
        "categories",
    ],
)
def test_report_10_days_in_python_are_ids(ids: Any) -> None:
    data = RankingDataset.from_arrays(np.arange(2.0)[:, None], [0, 1], qid=ids)
    assert data.queries.qid.tolist() == DAY_TEXT


def test_report_10_uuids_are_their_text() -> None:
    uuids = [UUID(bytes=bytes([i] * 16)) for i in (1, 2)]
    column = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.bytes for uuid in uuids], pa.binary(16))
    )
    table = pa.table({"label": [0, 1], "qid": column, "x": [1.0, 2.0]})
    parquet.write_table(table, "t.parquet")
    read = boostrank.read("t.parquet"), RankingDataset.from_frame(table)
    for data in (*read, RankingDataset.from_arrays([[1.0], [2.0]], [0, 1], qid=uuids)):
        assert data.queries.qid.tolist() == list(map(str, uuids))
    with pytest.raises(DataError, match="convert ids to text"):
        RankingDataset.from_arrays([[1.0], [2.0]], [0, 1], qid=[b"\xff", b"\xfe"])


def test_report_09_decimals_in_python_and_unsuitable_types() -> None:
    two = np.arange(2.0)[:, None]
    assert RankingDataset.from_arrays(
        two, [0, 1], qid=[Decimal(1), Decimal("2.0")]
    ).queries.qid.tolist() == [1, 2]
    with pytest.raises(DataError, match=r"row 1 .*2\.5.*text"):
        RankingDataset.from_arrays(two, [0, 1], qid=[Decimal(1), Decimal("2.5")])
    with pytest.raises(DataError, match=r"row 1 .*query id"):
        RankingDataset.from_arrays(two, [0, 1], qid=np.array(["2024-01-31", "NaT"], "M8[D]"))
    fraction = pa.array(list(map(Decimal, ("7.50", "8.00"))), pa.decimal128(9, 2))
    for column, words in (
        (pa.array([[1], [2]]), "list"),
        (fraction, "7.50"),
        (pa.array([{"a": 1}] * 2), "struct"),
    ):
        parquet.write_table(
            pa.table({"label": [0, 1], "qid": column, "x": [1.0, 2.0]}), "t.parquet"
        )
        refuse("train", "t.parquet", *TRAIN, "--model", "m.txt", says=("t.parquet", words, "text"))


# scikit-learn's heads
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"query_id": QID}], ids=["sizes", "qid"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("base", [0, 1])
def test_heads_of_scikit_learn_number_the_features(
    more: dict[str, Any], packed: bool, base: int
) -> None:
    empty = np.c_[np.zeros(N), X]
    name = "sk.svm.gz" if packed else "sk.svm"
    with gzip.open(name, "wb") if packed else open(name, "wb") as file:
        dump_svmlight_file(empty, Y, file, zero_based=not base, comment="judged in May", **more)
    if not more:
        write(f"{name}.query", [str(N // QUERIES)] * QUERIES)
    data = boostrank.read(name)
    assert (data.provenance.index_base, data.n_features) == (base, 4)
    assert np.array_equal(np.asarray(data.features), empty.astype(np.float32))


def test_heads_of_scikit_learn_after_other_comments_and_against_the_training_data(
    model: str,
) -> None:
    head = ["# f0: bm25", "# f1: price", "# Generated by dump_svmlight_file from scikit-learn 0.11"]
    head += ["# Column indices are zero-based", "#"]
    data = boostrank.read(write("named.txt", [*head, "1 qid:1 1:2", "0 qid:1 1:3"]))
    assert (data.provenance.index_base, data.feature_names) == (0, ("bm25", "price"))
    shifted = np.c_[np.zeros(N), X[:, :2]]  # feature 0 is absent, and the model counts from 1
    dump_svmlight_file(shifted, Y, "zero.svm", query_id=QID, comment="x")
    refuse("predict", model, "zero.svm", "-o", "s.txt", says=("zero.svm", "from 0", "--zero-based"))
    later = write("later.txt", ["1 qid:1 1:2", "# Column indices are zero-based", "0 qid:1 1:3"])
    assert boostrank.read(later).provenance.index_base == 1  # a comment between rows is no head


# The index of pandas
# -------------------------------------------------------------------------------------------------


def test_first_use_cli_03_the_index_is_no_feature_of_a_table_or_file() -> None:
    sample = FRAME.assign(label=Y, qid=QID)[X[:, 1] < 0.9]
    with_index_name = sample.rename_axis("position")
    parquet.write_table(pa.Table.from_pandas(with_index_name), "named.parquet")
    tables = {
        "arrow": pa.Table.from_pandas(sample),
        "polars": pl.from_arrow(pa.Table.from_pandas(sample)),
    }
    tables |= {
        "named": pa.Table.from_pandas(with_index_name),
        "csv": pd.read_csv(Path(sample.to_csv("t.csv") or "t.csv")),
    }
    tables["polars from pandas"] = pl.from_pandas(sample, include_index=True)
    for table in tables.values():
        with pytest.warns(DataWarning, match="index"):
            data = RankingDataset.from_frame(table)
        assert data.feature_names == ("a", "b", "c")
        with pytest.warns(DataWarning, match="index"):
            ranker = BoostRanker(**PLAIN).fit(table, sample.label.to_numpy())
        assert ranker.model_.feature_names == ("a", "b", "c", "label")
        assert ranker.predict(table).size == len(sample)
    with pytest.warns(DataWarning, match="'position'"):
        assert boostrank.read("named.parquet").feature_names == ("a", "b", "c")
    by_query = pa.Table.from_pandas(sample.set_index("qid"))  # an index with a role stays
    assert len(RankingDataset.from_frame(by_query).queries) == QUERIES
    with pytest.warns(DataWarning, match="index"):
        arrays = RankingDataset.from_arrays(
            tables["arrow"].select(["a", "__index_level_0__"]), sample.label, qid=sample.qid
        )
    assert arrays.feature_names == ("a",)


# The doctor on frames and data sets
# ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "dataset", "sparse"])
def test_first_use_python_04_doctor_examines_frames_and_data_sets(kind: str) -> None:
    def convert(frame: pd.DataFrame) -> Any:
        if kind in KINDS:
            return KINDS[kind](frame)
        data = RankingDataset.from_frame(frame)
        features = sparse.csr_matrix(data.features)
        return (
            data
            if kind == "dataset"
            else RankingDataset.from_arrays(features, data.labels, qid=QID)
        )

    sound = FRAME.assign(label=Y, qid=QID)
    assert boostrank.doctor(convert(sound.assign(label=(3 * X[:, 0] * X[:, 1]).astype(int)))) == []
    findings = boostrank.doctor(
        convert(sound.assign(even=5.0)), valid=convert(sound.assign(even=5.0))
    )
    assert [finding.check for finding in findings] == ["leaked-queries"]
    (error,) = boostrank.doctor(convert(sound.assign(label=1)))
    assert (error.check, error.severity.value) == ("nothing-to-learn", "error")


def test_first_use_python_04_doctor_finds_what_training_refuses_in_frames() -> None:
    scattered = FRAME.assign(label=Y, qid=np.tile(np.arange(QUERIES), N // QUERIES))
    assert [finding.check for finding in boostrank.doctor(scattered)] == ["split-queries"]
    assert [
        finding.check
        for finding in boostrank.doctor(FRAME.assign(grades=Y, qid=QID), label="grades")
    ] == []
    assert "label" in boostrank.doctor(FRAME.assign(qid=QID))[0].message
    with pytest.raises(ParameterError, match="from_arrays"):
        boostrank.doctor(X)


# Numbers and labels
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lines", "location", "token"),
    [
        ("t.tsv", ["label\tqid\tx", "0,5\t1\t2", "1\t1\t3"], "t.tsv:2", "'0,5'"),
        ("t.tsv", ["label\tqid\tx", "0\t1\t-2,5e1", "1\t1\t3"], "t.tsv:2", "'-2,5e1'"),
        ("t.csv", ["label,qid,x", "0,1,2,5", "1,1,3"], "t.csv:2", "4 cells"),
        ("t.csv", ["label,qid,x", '0,1,"2,5"', "1,1,3"], "t.csv:2", "'2,5'"),
        ("t.txt", ["0,5 qid:1 1:2"], "t.txt:1:1", "'0,5'"),
        ("t.txt", ["0 qid:1 1:2,5"], "t.txt:1:9", "'2,5'"),
    ],
)
def test_report_14_decimal_commas_in_data_are_named(
    name: str, lines: list[str], location: str, token: str
) -> None:
    refuse(
        "train",
        write(name, lines),
        *TRAIN,
        "--model",
        "m.txt",
        says=(location, token, "decimal point"),
    )


def test_report_14_decimal_commas_in_weights_are_named(model: str) -> None:
    write("train.txt.weight", ["0,5"] * QUERIES)
    refuse(
        "train",
        "train.txt",
        *TRAIN,
        "--model",
        "m.txt",
        says=("train.txt.weight:1", "'0,5'", "decimal point"),
    )


def test_first_use_python_08_a_missing_category_is_nan() -> None:
    coded = np.c_[X, np.where(Y == 2, -1, Y)]
    with pytest.raises(DataError, match=r"-1.*use NaN"):
        RankingDataset.from_arrays(coded, Y, qid=QID, categorical_feature=[3])
    frame = FRAME.assign(d=coded[:, 3], label=Y, qid=QID)
    with pytest.raises(DataError, match=r"'d'.*-1.*use NaN"):
        RankingDataset.from_frame(frame, categorical_feature=["d"])


def test_first_use_python_09_sizes_as_ids_are_named() -> None:
    for call in (
        lambda: RankingDataset.from_arrays(X, Y, qid=[10] * QUERIES),
        lambda: BoostRanker(**PLAIN).fit(X, Y, qid=[20, 20, 20]),
        lambda: BoostRanker(**PLAIN).fit(X, Y, qid=QID).score(X, Y, qid=[20, 20, 20]),
    ):
        with pytest.raises(DataError, match="group"):
            call()
    with pytest.raises(DataError, match="sizes"):
        RankingDataset.from_arrays(X[:12], Y[:12], qid=np.repeat([4, 2, 4, 2], [4, 2, 4, 2]))


def test_first_use_python_09_label_minus_one_says_when_a_map_merges_grades() -> None:
    with pytest.raises(DataError, match=r"-1=0.*label 0.*not judged"):
        boostrank.train({"verbosity": -1}, RankingDataset.from_arrays(X, Y - 1, qid=QID), 2)
    with pytest.raises(DataError) as caught:  # nothing is merged
        boostrank.train(
            {"verbosity": -1}, RankingDataset.from_arrays(X, np.where(Y > 1, 1, -1), qid=QID), 2
        )
    assert "not judged" not in str(caught.value)
    lines = ["-1" + row[1:] if row[0] == "2" else row for row in rows()]
    path = write("t.txt", lines)
    assert "not judged" in invoke("doctor", path).stdout


def test_first_use_python_09_validation_sets_are_named_and_listed() -> None:
    with pytest.raises(DataError, match="'valid_0' has no rows"):
        BoostRanker(**PLAIN).fit(X, Y, qid=QID, eval_set=[(X[:0], Y[:0])], eval_qid=[QID[:0]])
    ranker = BoostRanker(**PLAIN).fit(
        X,
        Y,
        qid=QID,
        eval_X=[X.copy(), FRAME.to_numpy()[:30]],
        eval_y=[Y, Y[:30]],
        eval_qid=[QID, QID[:30]],
    )
    assert list(ranker.evals_result_) == ["valid_0", "valid_1"]
    with pytest.raises(ParameterError, match="eval_y"):
        BoostRanker(**PLAIN).fit(X, Y, qid=QID, eval_X=[X, X], eval_y=[Y], eval_qid=[QID, QID])


@pytest.mark.parametrize("scale", [0.5, 0.01])
def test_first_use_python_14_labels_between_grades_are_named_with_exponential_gain(
    scale: float,
) -> None:
    with pytest.warns(DataWarning, match=rf"label {scale}.*gain='linear'"):
        BoostRanker(**PLAIN).fit(X, Y * scale, qid=QID)
    with pytest.warns(DataWarning, match=rf"label {scale}"):
        BoostRanker(**PLAIN).fit(X, Y, qid=QID, eval_set=[(X, Y * scale)], eval_qid=[QID])
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        BoostRanker(**PLAIN, gain="linear").fit(X, Y * scale, qid=QID)
        BoostRanker(**PLAIN).fit(X, Y, qid=QID)
    frame = FRAME.assign(label=Y * scale, qid=QID)
    frame.to_csv("t.csv", index=False)
    assert f"label {scale}" in succeed("train", "t.csv", *TRAIN, "--model", "m.txt").stderr
    assert [finding.check for finding in boostrank.doctor("t.csv")] == ["broken-labels"]


def test_first_use_cli_14_split_says_the_shares() -> None:
    result = succeed(
        "data",
        "split",
        write("t.txt", rows()),
        "-o",
        "p.txt",
        "--parts",
        "a=0.7,b=0.3",
        "--seed",
        3,
    )
    number = {
        name: len(set(re.findall(r"qid:\d+", Path(f"p-{name}.txt").read_text()))) for name in "ab"
    }
    for name, share in (("a", "70.0%"), ("b", "30.0%")):
        line = next(line for line in result.stderr.splitlines() if f"p-{name}.txt" in line)
        assert f"{number[name] / QUERIES:.1%}" in line
        assert share in line


def test_features_called_index_stay_where_they_are_named_or_stand_later() -> None:
    frame = pd.DataFrame(
        {"qid": [1, 1], "label": [1.0, 0.0], "index": [7.0, 8.0], "f1": [0.1, 0.2]}
    )
    data = RankingDataset.from_frame(frame)
    assert data.feature_names == ("index", "f1")
    assert RankingDataset.from_frame(
        frame[["index", "qid", "label", "f1"]], like=data
    ).feature_names == ("index", "f1")
    two = frame.assign(relevance=[0.0, 1.0])
    assert (
        "relevance" in RankingDataset.from_frame(two).feature_names
    )  # the column `label` is the label


def test_unsorted_ids_are_told_to_be_sorted() -> None:
    for ids in ([0, 1, 0, 1], [1, 1, 2, 2, 1]):
        with pytest.raises(DataError, match="sort=True"):
            RankingDataset.from_arrays(np.zeros((len(ids), 1)), np.zeros(len(ids)), qid=ids)
