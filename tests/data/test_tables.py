"""CSV, TSV, Parquet and Arrow files: read as libsvm text of the same numbers, refused where they
are not sound.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import boostrank
from boostrank.core.errors import (
    DataError,
    DataWarning,
    FileFormatError,
    MissingDependency,
    ParameterError,
)
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import pieces_of_files
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.judgements import values_by_query
from boostrank.files.source import format_of
from tests.data.conftest import refused, same_bits

pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(text, name)`: a file that holds the text."""

    def write_text(text: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        content = text.encode() if isinstance(text, str) else text
        path.write_bytes(content)
        return path

    return write_text


def write_tables(folder: Path, columns: dict[str, Any], rows_a_group: int = 3) -> list[Path]:
    """The same table in every format."""
    table = pa.table(columns)
    paths = [folder / f"t.{ending}" for ending in ("csv", "tsv", "parquet", "feather", "arrows")]
    csv.write_csv(table, paths[0])
    csv.write_csv(table, paths[1], csv.WriteOptions(delimiter="\t"))
    parquet.write_table(table, paths[2], row_group_size=rows_a_group)
    feather.write_feather(table, str(paths[3]), chunksize=rows_a_group)
    with pa.ipc.new_stream(str(paths[4]), table.schema) as stream:
        stream.write_table(table, max_chunksize=rows_a_group)
    return paths


CELL = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.just(math.nan),
    st.integers(-(2**24), 2**24).map(float),
)


@st.composite
def tables(draw: Any) -> tuple[list[float], list[Any], list[list[float]]]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    name = draw(st.sampled_from([lambda i: i, lambda i: f"q{i}", lambda i: -i, lambda i: f"00{i}"]))
    qids = [name(i) for i, size in enumerate(sizes) for _ in range(size)]
    rows, width = len(qids), draw(st.integers(1, 4))
    labels = draw(st.lists(st.floats(-5, 5), min_size=rows, max_size=rows))
    return (
        labels,
        qids,
        draw(
            st.lists(st.lists(CELL, min_size=rows, max_size=rows), min_size=width, max_size=width)
        ),
    )


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tables(), st.sampled_from([np.float32, np.float64]), st.integers(1, 200))
@pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")
def test_a_table_is_the_same_in_every_format(
    tmp_path: Path,
    table: tuple[list[float], list[Any], list[list[float]]],
    kind: Any,
    chunk_bytes: int,
) -> None:
    labels, qids, columns = table
    feature_columns = {f"c{j}": np.array(column, kind) for j, column in enumerate(columns)}
    lines = [
        f"{label!r} qid:{qid} "
        + " ".join(
            f"{j}:{float(column[i])!r}" for j, column in enumerate(feature_columns.values(), 1)
        )
        for i, (label, qid) in enumerate(zip(labels, qids, strict=True))
    ]
    (tmp_path / "t.txt").write_text(
        "\n".join([*(f"# f{j}: c{j - 1}" for j in range(1, len(feature_columns) + 1)), *lines, ""])
    )
    expected = boostrank.read(tmp_path / "t.txt", layout="dense")
    # pyarrow writes nulls of floats as empty cells, NaN as nan
    for path in write_tables(tmp_path, {"label": labels, "qid": qids, **feature_columns}):
        data = boostrank.read(path, chunk_bytes=chunk_bytes, threads=2)
        assert data.feature_names == expected.feature_names == tuple(feature_columns)
        assert same_bits(data.features, expected.features), path.name
        assert data.labels.tolist() == expected.labels.tolist()
        assert data.queries.qid.tolist() == expected.queries.qid.tolist()
        assert data.queries.ptr.tolist() == expected.queries.ptr.tolist()


TYPES = {
    "label": pa.array([1, 0, 2, 0], pa.int8()),
    "qid": pa.array(["a", "a", "7", "7"]).dictionary_encode(),
    "half": pa.array(np.array([1.5, 2, 3, 4], np.float16)),
    "bool": pa.array([True, None, False, True]),
    "int": pa.array([1, None, 3, 2**24], pa.int64()),
    "decimal": pa.array([1, 2, None, 4]).cast(pa.decimal128(24, 2)),
    "uint": pa.array([5, None, 5, 7], pa.uint64()),
    "none": pa.nulls(4),
}


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_columns_of_any_number_are_read_and_nulls_are_missing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    write = parquet.write_table if ending == "parquet" else feather.write_feather
    write(pa.table(TYPES), str(path))
    data = boostrank.read(path)
    nan = math.nan
    expected = [
        [1.5, 1, 1, 1, 5, nan],
        [2, nan, nan, 2, nan, nan],
        [3, 0, 3, nan, 5, nan],
        [4, 1, 2**24, 4, 7, nan],
    ]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))
    assert data.queries.qid.tolist() == ["a", "7"]
    assert data.provenance.index_base is None


def test_columns_of_other_types_are_refused_by_name(tmp_path: Path) -> None:
    path, good = tmp_path / "t.parquet", {"label": [1.0], "qid": [1]}
    for column, words in (
        (
            pa.array(["http"]),
            "column 'url' contains text: --categorical url reads it as categories; --drop url",
        ),
        (
            pa.array([0], pa.timestamp("s")),
            "column 'url' is of type timestamp[ms]: convert it to numbers",
        ),
        (pa.array([[1]]), "column 'url' is of type list"),
        (pa.array([["a"]]), "column 'url' is of type list"),
        (pa.array([{"string": 1}]), "column 'url' is of type struct"),
    ):
        parquet.write_table(pa.table({**good, "x": [1.0], "url": column}), path)
        with refused(words):
            boostrank.read(path)
        assert boostrank.read(path, drop="url").feature_names == ("x",)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([["a"], ["b"]]),
        pa.array([{"string": "a"}, {"string": "b"}]),
        pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["a", "b"])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([["a"], ["b"]])),
    ],
)
def test_text_within_other_types_is_no_text(tmp_path: Path, values: Any) -> None:
    good, path = {"label": [1.0, 0.0], "qid": [1, 1], "x": [1.0, 2.0]}, str(tmp_path / "t.feather")
    for column, words in (
        ("qid", "ids must be integers or text"),
        ("c", "categories must be text; --drop c"),
        ("label", "expected numbers"),
    ):
        table = pa.table(good | {column: values})
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
        categorical = "c" if column == "c" else None
        with refused(f"column '{column}' is of type ", words):
            boostrank.read(path, categorical=categorical)


def test_decimals_are_no_categories(tmp_path: Path) -> None:
    price = pa.array([1, 2]).cast(pa.decimal128(24, 2))
    parquet.write_table(
        pa.table({"label": [1, 0], "qid": [1, 1], "price": price}), tmp_path / "t.parquet"
    )
    with refused(
        "column 'price' is of type decimal128(24, 2), but categories must be text; --drop price"
    ):
        boostrank.read(tmp_path / "t.parquet", categorical="price")


def test_query_ids_may_be_a_dictionary_of_views_as_polars_writes_them(tmp_path: Path) -> None:
    if not hasattr(pa, "string_view"):
        pytest.skip("an old pyarrow")
    ids = pa.DictionaryArray.from_arrays(
        pa.array([1, 1, 0], pa.uint32()), pa.array(["a", "b"], pa.string_view())
    )
    table = pa.table({"label": [1, 0, 2], "qid": ids, "x": [1.0, 2.0, 3.0]})
    with pa.ipc.new_file(str(tmp_path / "t.feather"), table.schema) as file:
        file.write_table(table)
    assert boostrank.read(tmp_path / "t.feather").queries.qid.tolist() == ["b", "a"]


def test_faults_of_a_file_without_lines_name_the_row(tmp_path: Path) -> None:
    def check(words: str, **columns: Any) -> None:
        table = {"label": [1.0, 0.0, 1.0], "qid": [1, 1, 2], "x": [1.0, 2.0, 3.0], **columns}
        parquet.write_table(pa.table(table), tmp_path / "t.parquet", row_group_size=1)
        with refused(words):
            boostrank.read(tmp_path / "t.parquet", chunk_bytes=1)

    check("row 2: label in column 'label' is missing", label=[1.0, None, 1.0])
    for ids in ([1, 1, None], [True, True, None], [1.0, 1.0, math.inf], [1.0, 1.0, 1.5]):
        check("row 3: query id in column 'qid' is missing", qid=ids)
    check("row 1: query id in column 'qid' is missing", qid=pa.nulls(3))
    check("row 3: value 1e+39 of column 'x' does not fit in float32", x=[1.0, 2.0, 1e39])
    check("row 3: value inf of column 'x' is infinite; use --inf keep", x=[1.0, 2.0, math.inf])
    check("qid 1 reappears after another query; it was first seen on row 1", qid=[1, 2, 1])
    check("expected numbers", label=["1", "0", "1"])


HEAD = "label,qid,a,b\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            HEAD + "1,1,2,3\n0,1,x,3\n",
            3,
            "value 'x' of column 'a' is not a number: --drop a leaves the column out",
        ),
        (HEAD + "1,1,2,3\n\n0,1,3\n", 4, "the row has 3 cells, but the first line has 4 names"),
        (HEAD + "1,1,2,3\n0,1,3,4,5\n", 3, "the row has 5 cells"),
        (HEAD + ",1,2,3\n", 2, "label in column 'label' is missing"),
        (HEAD + "nan,1,2,3\n", 2, "label in column 'label' is missing"),
        (
            HEAD + "inf,1,2,3\n",
            2,
            "label in column 'label' is inf; every row needs a finite number",
        ),
        (HEAD + "1e999,1,2,3\n", 2, "is inf"),
        (HEAD + "1,,2,3\n", 2, "query id in column 'qid' is missing"),
        (HEAD + "1,1.5,2,3\n", 2, "query id '1.5' is not an integer"),
        (HEAD + "1,1,1e39,3\n", 2, "value 1e+39 of column 'a' does not fit in float32"),
        (HEAD + "1,1,-Infinity,3\n", 2, "value -inf of column 'a' is infinite; use --inf keep"),
        (HEAD + "1,1,NULL,3\n", 2, "--missing-token NULL reads it as one"),
        (HEAD + '1,1,"2,5",3\n', 2, "'2,5' of column 'a'"),
        (HEAD + '1,1,"2\n3",3\n', 2, 'a quote (") is not closed on its line'),
        (
            HEAD + "1,1,2,3\n1,2,2,3\n1,1,2,3\n",
            4,
            "qid 1 reappears after another query; it was first seen on line 2",
        ),
        (HEAD + "1,1,2,3\r0,1,2,3\n", 2, "carriage return without a line feed"),
        (HEAD + "1,1,2\0,3\n", 2, "NUL byte"),
        (HEAD + '1,1,x","y\n0,1,p"q"\n', 2, 'a quote (") is not closed on its line'),
        (HEAD + "1,1,2,3\n0,1,\u0661,3\n", 3, "is not a number"),
        (HEAD.replace("\n", "\r") + "1,1,2,3\r", 1, "carriage return without a line feed"),
        ('label,qid,"a\n1,1,2\n', 1, "the first line does not name the columns"),
        ("label,qid,a\0\n1,1,2\n", 1, "columns: the line contains a NUL byte"),
        ("label,qid,a,a\n1,1,2,3\n", 1, "2 columns are called 'a'"),
        ("label,,qid,a\n0,1,1,2\n", 1, "column 2 has no name"),
        ("2,1,0.5\n", 1, "the first line contains numbers"),
        (
            "rel,qid,a\n1,1,2\n",
            1,
            "no column is called label or relevance or grade or rating; pass its name",
        ),
        ("label,a\n1,2\n", 1, "no column is called qid or query_id or query; pass its name"),
        ("label,relevance,qid,a\n1,1,1,2\n", 1, "columns 'label' and 'relevance'"),
        ("label,qid\n1,1\n", 1, "no column is left for features"),
        ("label\tqid\ta\n1\t1\t2\n", 1, "--format csv, tsv"),
        (
            "label;qid;a\n1;1;2\n",
            1,
            "'label;qid;a'; pass --format csv, tsv or libsvm, write commas",
        ),
        ("2 qid:1 1:0.5\n", 1, "'2 qid:1 1:0.5'; pass --format csv, tsv or libsvm"),
        ("", 1, "the file is empty"),
        (HEAD, 0, "no rows"),
    ],
)
def test_wrong_text_is_refused_with_its_line(
    write: Write, text: str, line: int, words: str
) -> None:
    with refused(words, line=line):
        boostrank.read(write(text))


@pytest.mark.parametrize("column", ["c", "qid"])
def test_text_that_is_not_utf8_is_refused_with_its_line_where_it_is_read(
    write: Write, column: str
) -> None:
    row = {"label": b"1", "qid": b"1", "a": b"2", "c": b"x"} | {column: b"caf\xe9"}
    path = write(b"label,qid,a,c\n1,1,2,x\n" + b",".join(row.values()) + b"\n")
    with refused("the line is not UTF-8: convert the file", line=3):
        boostrank.read(path, categorical="c")
    if column == "c":
        assert boostrank.read(path, drop="c").n_documents == 2


@pytest.mark.filterwarnings("error")  # empty cells of a table are ordinary
def test_blanks_around_a_word_for_what_is_missing_change_nothing(write: Write) -> None:
    text = 'label,qid,a,c\n1,1, NA , x\n0,1,2,  \n0,1,NA," "\n0,1,3, NA \n0,1,  ,x \n'
    data = boostrank.read(write(text), missing_tokens=["NA"], categorical="c")
    nan = math.nan
    np.testing.assert_array_equal(
        data.features, [[nan, 0], [2, nan], [nan, nan], [3, nan], [nan, 0]]
    )
    assert data.categories["c"].values == ("x",)


@pytest.mark.parametrize("cell", ["3", "+3"])  # read by pyarrow, or line by line
def test_a_query_id_that_is_a_word_for_what_is_missing_is_refused(write: Write, cell: str) -> None:
    path = write(f"label,qid,a\n1,1,2\n0, NA ,{cell}\n0,NA,{cell}\n")
    with refused("query id", line=3):
        boostrank.read(path, missing_tokens=["NA"])


@pytest.mark.parametrize(("kind", "largest"), [("float64", 2.0**53), ("float32", 2.0**24)])
def test_query_ids_that_floats_round_are_refused(tmp_path: Path, kind: str, largest: float) -> None:
    columns = {"label": [1, 0], "a": [1, 2]}
    for qid, works in ((largest - 1, True), (largest, False), (-largest, False)):
        ids = pa.array([1, qid], kind)
        parquet.write_table(pa.table({**columns, "qid": ids}), tmp_path / "t.parquet")
        if works:
            assert boostrank.read(tmp_path / "t.parquet").queries.qid.tolist() == [1, int(qid)]
        else:
            with refused("row 2", "rounded"):
                boostrank.read(tmp_path / "t.parquet")


def test_query_ids_that_pandas_wrote_as_floats_are_refused(write: Write) -> None:
    with refused("'1.2345678901234568e+18' was rounded", line=3):
        boostrank.read(write("label,qid,a\n1,1,2\n0,1.2345678901234568e+18,1\n"))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_header_that_is_too_long_is_refused_with_a_byte_order_mark_too(
    write: Write, mark: str
) -> None:
    names = ",".join(f"feature_number_{i}" for i in range(5000))
    with refused("64 KiB", line=1):
        boostrank.read(write(f"{mark}label,qid,{names}\n"))


def test_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    for path in write_tables(tmp_path, {"qid": [1, 1], "label": [1, 0], "a": [1, 2]}):
        done: list[tuple[int, int | None]] = []
        boostrank.read(path, progress=lambda *amounts, done=done: done.append(amounts))
        assert done[-1] == (path.stat().st_size, path.stat().st_size)


def test_a_file_that_is_removed_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"qid": [1, 1], "label": [1, 0], "a": [1, 2]}), path)
    with refused("changed while it was read"):
        boostrank.read(path, progress=lambda *_: path.unlink(missing_ok=True))


def test_odd_numbers_are_those_of_the_libsvm_reader(write: Write) -> None:
    words = [
        "+1",
        ".5",
        "1.",
        "-0",
        "1e-50",
        "16777217",
        "0.1",
        "1E+2",
        " 7 ",
        "nan",
        "3.4028235e38",
    ]
    rows = "".join(f"1,1,{word}\n" for word in words)
    libsvm = "".join(f"1 qid:1 1:{word.strip()}\n" for word in words)
    data = boostrank.read(write("label,qid,a\n" + rows))
    with pytest.warns(DataWarning, match="1 missing values"):
        assert same_bits(data.features, boostrank.read(write(libsvm, "data.txt")).features)


def test_the_options_of_the_reader_hold(write: Write) -> None:
    text = write(
        "rel,q,a,b,w,u\n2,x,inf,NA,2,z\n0,x,1,,2,z\n\n1,y,3,?,1,z\n-1,x,5,6,2,z\n1,y,bad,6,1,z\n"
    )
    with pytest.warns(DataWarning) as caught:
        data = boostrank.read(
            text,
            label="rel",
            qid="q",
            weight="w",
            drop="u",
            inf="missing",
            missing_tokens=["NA", "?"],
            regroup=True,
            on_bad_line="skip",
            max_bad_share=0.5,
            label_map="-1=0",
        )
    # The line that is skipped is named; everything else follows the options.
    assert any(
        "1 of 5 rows" in str(warning.message) and ":7: " in str(warning.message)
        for warning in caught
    )
    assert data.queries.qid.tolist() == ["x", "y"]
    assert data.queries.weights is not None
    assert data.queries.weights.tolist() == [2.0, 1.0]
    assert data.labels.tolist() == [2.0, 0.0, 0.0, 1.0]
    np.testing.assert_array_equal(
        data.features, np.array([[math.nan] * 2, [1, math.nan], [5, 6], [3, math.nan]], "f4")
    )
    assert data.provenance.options["label"] == "rel"
    assert data.provenance.options["drop"] == ["u"]
    # Weights that differ within a query are of documents.
    each = boostrank.read(write("label,qid,a,w\n1,1,2,1\n1,1,2,0\n"), weight="w")
    assert each.document_weights is not None
    assert each.document_weights.tolist() == [1.0, 0.0]
    with refused("weight in column 'w' is -2; ", "at least 0", line=3):
        boostrank.read(write("label,qid,a,w\n1,1,2,1\n1,1,2,-2\n"), weight="w")


def test_all_tables_of_a_data_set_have_weights_or_none_has(write: Write) -> None:
    # There are as many queries as rows with weights, which must not become query weights.
    weighted = write("label,qid,a,w\n1,1,2,1\n0,1,2,1\n1,2,2,3\n", "weighted.csv")
    plain = write("label,qid,a\n1,7,2\n0,7,3\n", "plain.csv")
    train = boostrank.read(weighted, weight="w")
    for files in ([weighted, plain], [plain, weighted]):
        with pytest.raises(FileFormatError, match="only one has a weight column") as caught:
            boostrank.read(files, like=train)
        assert caught.value.file == str(files[1])


def test_names_that_not_every_table_has_are_left_out_with_a_warning(write: Write) -> None:
    named = write("label,qid,a,docid\n1,1,2,x\n0,1,2,y\n", "named.csv")
    plain = write("label,qid,a\n1,7,2\n0,7,3\n", "plain.csv")
    with pytest.warns(DataWarning, match="not every file has document names"):
        data = boostrank.read([named, plain], keep_names=True)
    assert data.document_names is None


def test_options_of_the_other_kind_of_file_are_refused(write: Write) -> None:
    with pytest.raises(ParameterError, match="label='rel'"):
        read_libsvm(write("1 qid:1 1:1\n", "t.txt"), label="rel")
    with pytest.raises(ParameterError, match="zero_based='true'"):
        boostrank.read(write(HEAD + "1,1,2,3\n"), zero_based=True)


def test_a_last_line_without_newline_is_said(write: Write) -> None:
    with pytest.warns(DataWarning, match="last line .*newline"):
        assert boostrank.read(write(HEAD + "1,1,2,3\n0,1,4,5")).features.tolist() == [
            [2.0, 3.0],
            [4.0, 5.0],
        ]


@pytest.mark.parametrize("drop", ["weight,docno,weight", None])
def test_a_column_that_hardly_is_a_feature_is_said(write: Write, drop: str | None) -> None:
    path = write("label,qid,a,weight,doc_id,docno,b\n1,1,2,3,x,x,16777217\n")
    if drop:
        boostrank.read(path, drop=drop)
        return
    with pytest.warns(DataWarning) as caught:
        boostrank.read(path)
    words = [str(warning.message) for warning in caught]
    assert any("'weight'" in message and "--drop weight" in message for message in words)
    assert any("'docno'" in message and "--drop docno" in message for message in words)
    assert any("'b': integers above 16,777,216 are rounded" in message for message in words)


NAMED = {
    "grade": [2, 0, 1, 0],
    "query": ["red shoe", "red shoe", "hat", "hat"],
    "product_id": ["p1", "p,2", None, "p4"],
    "bm25": [1.5, 2.5, 3.5, 4.5],
}


@pytest.mark.parametrize("file_index", range(5))
@pytest.mark.parametrize("threads", [1, 3])
def test_documents_keep_their_names_on_request(
    tmp_path: Path, file_index: int, threads: int
) -> None:
    path = write_tables(tmp_path, NAMED)[file_index]
    plain = boostrank.read(path)
    assert plain.feature_names == ("bm25",)
    assert plain.document_names is None
    assert plain.provenance.options["id"] == "product_id"
    for data in (
        boostrank.read(path, keep_names=True, chunk_bytes=20, threads=threads),
        boostrank.read(path, id="product_id"),
        boostrank.stream(path, keep_names=True),
    ):
        assert data.document_names is not None
        assert data.document_names.tolist() == ["p1", "p,2", "", "p4"]
        assert data.take([1, 0]).document_names.tolist() == ["", "p4", "p1", "p,2"]  # type: ignore[union-attr]
        assert data.queries.qid.tolist() == ["red shoe", "hat"]
        assert data.fingerprint == plain.fingerprint
    framed = RankingDataset.from_frame(
        pa.table(NAMED), label="grade", qid="query", id="product_id", sort=True
    )
    names = framed.document_names
    assert names is not None
    assert framed.in_input_order(names).tolist() == ["p1", "p,2", "", "p4"]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ([7.0, None, 8.5], "7"),
        ([Decimal("7.00"), None, Decimal("8.50")], "7"),
        ([datetime(2024, 1, 1), None, datetime(2024, 1, 2, 10)], "2024-01-01"),
    ],
)
def test_documents_have_the_same_names_in_files_frames_and_judgements(
    column: list[Any], name: str, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "label": [0, 1, 2],
            "qid": [1, 1, 1],
            "doc_id": column,
            "a": [1.0, 2.0, 3.0],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    read = boostrank.read(tmp_path / "t.parquet", keep_names=True).document_names
    framed = RankingDataset.from_frame(table, id="doc_id").document_names
    assert read is not None
    assert framed is not None
    assert read.tolist() == framed.tolist()
    assert framed.tolist()[:2] == [name, ""]
    judged = values_by_query(table.select(["qid", "doc_id", "label"]).take([0, 2]))
    assert list(judged["1"]) == [framed[0], framed[2]]


def test_a_column_of_document_names_can_be_chosen_dropped_or_a_feature(tmp_path: Path) -> None:
    path = write_tables(
        tmp_path, NAMED | {"product_id": [4711, 4712, 4713, 4714], "sku": [7.0, 8.0, None, 9.0]}
    )[2]

    def read(**options: Any) -> RankingDataset:
        return boostrank.read(path, keep_names=True, **options)

    assert read().document_names.tolist() == ["4711", "4712", "4713", "4714"]  # type: ignore[union-attr]
    chosen = read(id="sku")
    assert chosen.document_names.tolist() == ["7", "8", "", "9"]  # type: ignore[union-attr]
    assert chosen.feature_names == ("product_id", "bm25")
    assert read(like=chosen).document_names.tolist() == ["7", "8", "", "9"]  # type: ignore[union-attr]
    assert read(drop="product_id,sku").document_names is None
    assert read(categorical="product_id").feature_names == ("product_id", "bm25")
    with pytest.raises(FileFormatError, match="'code'"):
        read(id="code")
    with pytest.raises(FileFormatError, match=r"'bm25'.*id and drop"):
        read(id="bm25", drop="bm25")


def test_columns_of_later_files_go_by_name(write: Write) -> None:
    train = boostrank.read(
        write("rel,query,a,b,url\n1,1,2,3,z\n", "train.csv"), label="rel", qid="query", drop="url"
    )
    later = write("b,url,a,query,rel\n3,z,2,9,1\n", "later.csv")
    data = boostrank.read(later, like=train)  # label, query and url as in the training
    assert data.feature_names == ("a", "b")
    assert data.features.tolist() == [[2.0, 3.0]]
    with refused(
        "lacks 'a', which the model or its training data has; has 'c', 'd', which", "rename"
    ):
        boostrank.read(write("rel,query,b,c,d\n1,9,3,2,1\n"), like=train)
    both = boostrank.read(
        [write("label,qid,a,b\n1,1,2,3\n", "x.csv"), write("b,a,qid,label\n5,4,2,0\n", "y.csv")]
    )
    assert both.features.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    with refused("lacks 'b'"):
        boostrank.read(
            [write("label,qid,a,b\n1,1,2,3\n", "x.csv"), write("a,qid,label\n4,2,0\n", "y.csv")]
        )
    libsvm = read_libsvm(write("1 qid:1 1:1 2:2\n", "t.txt"))
    with pytest.warns(DataWarning, match="by position, .*'a'"):
        assert boostrank.read(write(HEAD + "1,2,2,3\n"), like=libsvm).features.tolist() == [
            [2.0, 3.0]
        ]


def test_features_with_the_names_of_labels_and_queries_stay_features(write: Write) -> None:
    text = "rel,s,label,query_id,relevance\n1,1,2,3,4\n"
    with pytest.warns(DataWarning, match="used as features"):
        train = boostrank.read(write(text), label="rel", qid="s", drop="relevance")
    for header, row in (("query_id,label", "3,2"), ("relevance,query_id,label", "4,3,2")):
        path = write(f"{header}\n{row}\n", "rows.csv")
        pieces = pieces_of_files(path, np.copy, like=train.feature_space)
        assert pieces is not None
        assert np.concatenate(list(pieces)).tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize(
    ("column", "hint"), [("id", ""), ("weight", "--weight weight reads query weights, ")]
)
def test_query_weights_are_suggested_for_a_column_of_weights_only(
    column: str, hint: str, write: Write
) -> None:
    with pytest.warns(DataWarning) as caught:
        boostrank.read(write(f"label,qid,{column},a\n1,1,2,3\n"))
    assert str(caught[0].message).endswith(
        f"used as features: '{column}'; {hint}--drop {column} leaves them out"
    )


def test_rows_are_handed_on_without_labels(write: Write, tmp_path: Path) -> None:
    train = boostrank.read(write(HEAD + "1,1,2,3\n0,1,4,5\n"))
    write("b,a\n3,2\n5,4\n", "rows.csv")
    parquet.write_table(pa.table({"b": [3, 5], "a": [2, 4]}), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        for columns, expected in (
            (None, [[2.0, 3.0], [4.0, 5.0]]),
            (np.array([1]), [[3.0], [5.0]]),
        ):
            pieces = pieces_of_files(
                tmp_path / name, np.copy, like=train.feature_space, columns=columns, chunk_bytes=4
            )
            assert pieces is not None
            assert np.concatenate(list(pieces)).tolist() == expected


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_rows_on_disk_are_those_in_memory(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "label": rng.integers(0, 3, 60),
        "qid": np.repeat(np.arange(12), 5),
        "a": rng.random(60),
        "b": rng.random(60),
    }
    path = next(p for p in write_tables(tmp_path, columns, 7) if p.suffix == f".{ending}")
    streamed = boostrank.stream(path, chunk_bytes=64)
    assert boostrank.read(path).fingerprint == streamed.fingerprint
    np.testing.assert_array_equal(streamed.features[3:20], boostrank.read(path).features[3:20])
    assert streamed.feature_names == ("a", "b")


def test_names_and_first_bytes_say_what_a_file_is(write: Write, tmp_path: Path) -> None:
    tsv = HEAD.replace(",", "\t") + "1\t1\t2\t3\n"
    for text, name, kind in (
        (HEAD, "a.csv.gz", "csv"),
        (HEAD, "a.TSV", "tsv"),
        (HEAD, "a.dat", "csv"),
        (tsv, "b.dat", "tsv"),
        ("# c\n1 qid:1 1:2\n", "c.dat", "libsvm"),
        ("1,2 qid:1\n", "d.dat", "libsvm"),
        (b"PAR1....", "e", "parquet"),
        (b"ARROW1\0\0", "f", "arrow"),
    ):
        assert format_of(write(text, name)).name == kind, name
    assert format_of("-").name == "libsvm"
    assert boostrank.read(write(tsv, "b.dat")).features.tolist() == [[2.0, 3.0]]
    assert boostrank.read(io.BytesIO(tsv.encode()), format="tsv").n_documents == 1


def test_a_table_that_is_given_as_libsvm_is_recognised(write: Write, tmp_path: Path) -> None:
    with refused("'label,qid,a,b'", "--format csv", line=1):
        read_libsvm(write(HEAD + "1,1,2,3\n"), format="libsvm")
    with refused("--format csv or tsv", line=1):
        read_libsvm(write("label\tqid\ta\n1\t1\t2\n"), format="libsvm")
    with refused("'1,17,0.5'", "--format csv", line=1):
        read_libsvm(write("1,17,0.5\n"), format="libsvm")
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with refused("a Parquet file", "--format parquet"):
        read_libsvm(tmp_path / "x.parquet", format="libsvm")
    with refused("a Parquet file", "--format parquet"):
        boostrank.read(tmp_path / "x.parquet", format="csv")
    with refused("no column is called label"):  # the content decides
        boostrank.read(tmp_path / "x.parquet", format="arrow")
    with refused("neither Parquet nor Arrow"):
        boostrank.read(write(HEAD), format="parquet")


def test_a_dictionary_may_hold_what_is_missing(tmp_path: Path) -> None:
    values = {"text": pa.array(["y", None, "x"]), "number": pa.array([5.0, math.nan, None])}
    columns = {
        name: pa.DictionaryArray.from_arrays(pa.array([2, 1, 0, None]), dictionary)
        for name, dictionary in values.items()
    }
    table = pa.table({"label": [1, 0, 0, 0], "qid": [1] * 4, **columns})
    feather.write_feather(table, str(tmp_path / "t.feather"))
    read, framed = boostrank.read(tmp_path / "t.feather"), RankingDataset.from_frame(table)
    nan = math.nan
    for data in (read, framed):
        np.testing.assert_array_equal(data.features, [[1, nan], [nan, nan], [0, 0], [nan, nan]])
        assert {name: categories.values for name, categories in data.categories.items()} == {
            "text": ("y", "x"),
            "number": (5.0,),
        }


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_categories_with_an_order_are_those_of_the_frame(tmp_path: Path, ending: str) -> None:
    pandas = pytest.importorskip("pandas", reason="which notes the order in the file")
    sizes = pandas.Categorical(list("SLMMLS"), categories=["XS", "S", "M", "L"], ordered=True)
    years = pandas.Categorical([3, 1] * 3, categories=[3, 1], ordered=True)
    frame = pandas.DataFrame(
        {"label": [0.0, 1.0] * 3, "qid": [1] * 6, "size": sizes, "year": years}
    )
    path, options = (
        tmp_path / f"t.{ending}",
        {"row_group_size": 2} if ending == "parquet" else {"chunksize": 2},
    )
    getattr(frame, f"to_{ending}")(path, **options)
    drop = []
    if ending == "parquet":  # which has no dictionaries of numbers
        with pytest.warns(DataWarning, match="'year'.* order "):
            assert not boostrank.read(path).categories["year"].ordered
        drop = ["year"]
    read, framed = (
        boostrank.read(path, drop=drop, chunk_bytes=8),
        RankingDataset.from_frame(frame, drop=drop),
    )
    assert same_bits(read.features, framed.features)
    assert read.categories == framed.categories
    assert read.categories["size"].ordered
    assert not boostrank.read(path, drop="year", categorical="size").categories["size"].ordered


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_the_order_of_categories_is_that_of_a_frame_without_notes_of_pandas(
    tmp_path: Path, ending: str, library: str
) -> None:
    path, frame = tmp_path / f"t.{ending}", {"label": [1, 0], "qid": [1, 1]}
    if library == "polars":
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(
            frame | {"c": polars.Series(["x", "y"], dtype=polars.Enum(["y", "x"]))}
        )
        frame.write_parquet(path) if ending == "parquet" else frame.write_ipc(path)
    else:
        frame = pa.table(
            frame
            | {"c": pa.DictionaryArray.from_arrays(pa.array([1, 0]), ["y", "x"], ordered=True)}
        )
        parquet.write_table(frame, path) if ending == "parquet" else feather.write_feather(
            frame, str(path)
        )
    categories = boostrank.read(path).categories
    assert categories == RankingDataset.from_frame(frame).categories
    assert categories["c"].ordered == (library == "pyarrow")


@pytest.mark.parametrize("noted", [{"ordered": True}, "abc", [1], 7, True, None])
@pytest.mark.filterwarnings("ignore:.*lacks the order:boostrank.core.errors.DataWarning")
def test_odd_notes_about_categories_are_as_none(tmp_path: Path, noted: Any) -> None:
    table = pa.table(
        {"label": [1, 0], "qid": [1, 1], "c": pa.array(["x", "y"]).dictionary_encode()}
    )
    notes = {"columns": [{"name": "c", "pandas_type": "categorical", "metadata": noted}]}
    parquet.write_table(
        table.replace_schema_metadata({"pandas": json.dumps(notes)}), tmp_path / "t.parquet"
    )
    assert boostrank.read(tmp_path / "t.parquet").categories == {"c": Categories(("x", "y"))}


@pytest.mark.filterwarnings("ignore:.*also in the training:boostrank.core.errors.DataWarning")
def test_a_text_holds_numbers_where_the_categories_are_numbers(
    write: Write, tmp_path: Path
) -> None:
    years = pa.array([2020, 2010]).dictionary_encode()
    feather.write_feather(
        pa.table({"label": [1, 0], "qid": [1, 1], "year": years}), str(tmp_path / "t.feather")
    )
    train = boostrank.read(tmp_path / "t.feather")
    with pytest.warns(DataWarning, match=r"1 value.* 1990.0"):
        later = boostrank.read(
            write("label,qid,year\n1,7,2010\n1,7,2020.0\n1,7,1990\n1,7,\n"), like=train
        )
    np.testing.assert_array_equal(later.features[:, 0], [1, 0, math.nan, math.nan])
    with pytest.raises(DataError, match=r"'new', .*category .*text"):
        boostrank.read(write("label,qid,year\n1,7,new\n"), like=train)


def test_text_of_a_damaged_file_is_refused(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], "i4")), pa.py_buffer(b"a\xff")]
    )
    for column in ("c", "qid"):
        table = {"label": [1, 0], "qid": [1, 1], "c": ["x", "y"], "a": [1, 2]} | {column: bad}
        parquet.write_table(pa.table(table), tmp_path / "t.parquet")
        with refused(f"column '{column}' is damaged"):
            boostrank.read(tmp_path / "t.parquet", categorical="c")


@pytest.mark.parametrize("column", ["label", "w", "qid", "c"])
def test_places_outside_of_a_dictionary_are_refused(tmp_path: Path, column: str) -> None:
    places = pa.array([0, 2**30], pa.int32())
    bad = pa.DictionaryArray.from_arrays(places, pa.array([0, 1, 2]), safe=False)
    table = pa.table(
        {"label": [1, 0], "qid": [1, 1], "w": [1, 1], "c": [1, 2], "a": [1, 2]} | {column: bad}
    )
    with pa.ipc.new_file(str(tmp_path / "t.feather"), table.schema) as file:
        file.write_table(table)
    with refused(f"column '{column}' is damaged"):
        boostrank.read(tmp_path / "t.feather", weight="w")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    columns = {
        "label": np.arange(99.0),
        "qid": np.arange(99),
        "a": np.random.default_rng(0).random(99),
    }
    for path in write_tables(tmp_path, columns)[2:]:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FileFormatError, match=path.name):
            boostrank.read(path)


def test_without_pyarrow_the_words_say_what_to_install(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match=r"pip install 'boostrank\[tables\]'"):
        boostrank.read(write(HEAD + "1,1,2,3\n"))


COLOURS = ["red", None, "blue", "red", "green", "blue"]
CODES = [[0.0], [math.nan], [1.0], [0.0], [2.0], [1.0]]


@pytest.mark.parametrize("stream", [False, True])
def test_categories_are_those_of_data_frames_in_every_format(tmp_path: Path, stream: bool) -> None:
    pandas = pytest.importorskip("pandas", reason="a frame to compare with")
    columns: dict[str, Any] = {
        "label": [0, 1, 2, 0, 1, 2],
        "qid": [1, 1, 1, 2, 2, 2],
        "colour": pa.array(COLOURS),
    }
    frame = pandas.DataFrame({"colour": pandas.Categorical(COLOURS, ["red", "blue", "green"])})
    expected = RankingDataset.from_arrays(frame, columns["label"], qid=columns["qid"])
    read = boostrank.stream if stream else boostrank.read
    datasets = [
        read(path, categorical="colour", chunk_bytes=8, threads=2)
        for path in write_tables(tmp_path, columns)
    ]
    declared = columns | {"colour": pa.array(COLOURS).dictionary_encode()}
    datasets += [read(path, chunk_bytes=8) for path in write_tables(tmp_path, declared)[2:]]
    if stream:  # from the cache
        datasets.append(read(tmp_path / "t.parquet", chunk_bytes=8))
    for data in datasets:
        np.testing.assert_array_equal(data.features[0:6], np.array(CODES, np.float32))
        assert data.categories == expected.categories
        assert data.provenance.index_base is None


def test_categories_of_later_files_have_the_codes_of_the_training(
    write: Write, tmp_path: Path
) -> None:
    text = "label,qid,colour\n" + "".join(
        f"{i % 2},{i // 3},{colour or ''}\n" for i, colour in enumerate(COLOURS)
    )
    train = boostrank.read(write(text, "train.csv"), categorical=["colour"])
    assert train.features.tolist()[2:] == CODES[2:]
    # A later file, read whole and in pieces: what the training had not is missing.
    later = write("label,qid,colour\n1,9,green\n0,9, red\n1,9,pink\n0,9,pink\n", "later.csv")
    with pytest.warns(DataWarning, match="2 values .*'pink'.*missing"):
        data = boostrank.read(later, like=train)
    np.testing.assert_array_equal(
        data.features, np.array([[2], [0], [math.nan], [math.nan]], np.float32)
    )
    assert data.categories == train.categories
    for columns in (None, np.array([0])):
        with pytest.warns(DataWarning, match="'pink'"):
            pieces = list(
                pieces_of_files(later, np.copy, like=train.feature_space, columns=columns) or ()
            )
        np.testing.assert_array_equal(np.concatenate(pieces), data.features)
    # Numbers where the training has text are refused, and text where it has numbers.
    parquet.write_table(
        pa.table({"label": [1], "qid": [9], "colour": [3.5]}), tmp_path / "later.parquet"
    )
    with pytest.raises(DataError, match=r"category .*number, .*others"):
        boostrank.read(tmp_path / "later.parquet", like=train)
    numbers = boostrank.read(write("label,qid,colour\n1,9,3\n"))
    with refused(
        "column 'colour' contains categories, but the model or its training data has numbers"
    ):
        boostrank.read(later, like=numbers, categorical="colour")
    with refused("no column is called 'color' (--categorical). Did you mean 'colour'?"):
        boostrank.read(later, categorical="color")
    # Of several files together the codes are of all values.
    both = boostrank.read(
        [tmp_path / "train.csv", write("colour,label,qid\npink,1,9\n")], categorical="colour"
    )
    assert both.categories["colour"].values == ("red", "blue", "green", "pink")
