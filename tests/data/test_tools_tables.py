"""The file tools on tables: rows keep every value and type, and queries are those that training
reads.
"""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from boostrank.core.errors import DataWarning, FileFormatError, ParameterError
from boostrank.files import pieces, tools
from boostrank.files.assemble import read_files
from boostrank.files.source import format_of

ENDINGS = ["csv", "tsv.gz", "parquet", "arrow", "arrows"]


def make_table(queries: int = 40, seed: int = 0) -> pa.Table:
    """Query ids as text, large integers, nulls, text, categories with an order, times, lists."""
    rng = np.random.default_rng(seed)
    ids = [f"q {i}" if i % 2 else str(i) for i in rng.permutation(queries)]
    qid = np.repeat(ids, rng.integers(1, 9, queries))
    n = qid.size
    codes = pa.array(rng.integers(0, 3, n), pa.int8())
    colours = pa.DictionaryArray.from_arrays(codes, ["red", "blue", "none"], ordered=True)
    skus = [f'"{i}", "é"' if i % 5 else f"00{i}" for i in range(n)]
    large = [2**53 + i if i % 7 else None for i in range(n)]
    prices = [f"{i / 7:.20f}"[:12] if i % 3 else "" for i in range(n)]
    return pa.table(
        {
            "sku": skus,
            "query": qid,
            "grade": rng.integers(0, 5, n),
            "id": pa.array(large, pa.int64()),
            "price": pa.array(prices),
            "colour": colours,
            "at": pa.array(np.arange(n), pa.timestamp("ns")),
        }
    )


def write(table: pa.Table, path: Path) -> Path:
    ending = path.suffixes[0]
    if ending in (".csv", ".tsv"):
        delimiter = "," if ending == ".csv" else "\t"
        options = pa.csv.WriteOptions(delimiter=delimiter)
        plain = path.with_name("plain")
        pa.csv.write_csv(
            table.set_column(5, "colour", table["colour"].cast(pa.string())), plain, options
        )
        content = plain.read_bytes()
        if path.suffix == ".gz":
            content = gzip.compress(content)
        path.write_bytes(content)
        plain.unlink()
    elif ending == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=17)
    elif ending == ".arrows":
        with pa.ipc.new_stream(str(path), table.schema) as out:
            out.write_table(table, max_chunksize=17)
    else:
        pa.feather.write_feather(table, path, chunksize=17)
    return path


def rows_of(*paths: Path) -> list[Any]:
    """Lines, or rows with their types."""
    rows: list[Any] = []
    for path in paths:
        body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if path.name.endswith((".csv", ".tsv.gz")):
            rows += body.split(b"\n")[1:-1]
        else:
            table = (
                pa.parquet.read_table(path)
                if path.suffix == ".parquet"
                else pa.ipc.open_file(path).read_all()
            )
            types = tuple(str(field.type) for field in table.schema)
            rows += [(types, *row.values()) for row in table.to_pylist()]
    return rows


@pytest.fixture(params=ENDINGS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(make_table(), tmp_path / f"in.{request.param}")


@pytest.fixture(params=[1 << 22, 600], autouse=True)
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "CHUNK_BYTES", request.param)
    monkeypatch.setattr(tools, "_HELD", request.param)


def output(source: Path, name: str = "out") -> Path:
    return source.with_name(name + "".join(source.suffixes).replace("arrows", "arrow"))


def original(source: Path) -> list[Any]:
    """Rows of the input; an Arrow stream is read as a file."""
    if source.suffix == ".arrows":
        return rows_of(write(make_table(), source.with_name("same.arrow")))
    return rows_of(source)


def keyed(source: Path, **options: Any) -> list[bytes]:
    """Query ids in order, each once as long as its rows follow each other."""
    data_pieces = pieces.DataFiles(source, None, **options).pieces()
    return [piece.qid for piece in data_pieces if piece.begins]


def test_shards_joined_again_are_the_same_rows(source: Path) -> None:
    parts = [Path(part.path) for part in tools.shard(source, str(output(source)), 3)]
    assert sorted(map(repr, rows_of(*parts))) == sorted(map(repr, original(source)))
    whole = tools.sample(parts, str(output(source, "whole")), queries=1.0)
    assert rows_of(Path(whole.path)) == rows_of(*parts)
    ids = [set(keyed(part)) for part in parts]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 40 == whole.queries
    assert format_of(whole.path).name == format_of(source).name


def test_a_split_is_that_of_the_ids_in_any_format(source: Path, tmp_path: Path) -> None:
    parts = {"a": 0.5, "b": 0.5}
    drawn = [
        keyed(Path(part.path)) for part in tools.split(source, str(output(source)), parts, seed=3)
    ]
    libsvm = tmp_path / "in.txt"
    libsvm.write_text(
        "".join(f"1 qid:{qid.decode().replace(' ', '_')} 1:1\n" for qid in keyed(source))
    )
    numbers = [[q for q in ids if b" " not in q] for ids in drawn]
    theirs = [
        keyed(Path(part.path))
        for part in tools.split(libsvm, str(tmp_path / "o.txt"), parts, seed=3)
    ]
    assert numbers == [[q for q in ids if b"_" not in q] for ids in theirs]
    again = [
        keyed(Path(part.path)) for part in tools.split(source, str(output(source)), parts, seed=4)
    ]
    assert again != drawn


def test_a_sample_by_number_is_the_smallest_of_every_larger_one(source: Path) -> None:
    small = tools.sample(source, str(output(source, "s")), queries=5)
    large = tools.sample(source, str(output(source, "l")), queries=0.6)
    few, many = rows_of(output(source, "s")), rows_of(output(source, "l"))
    assert small.queries == 5 < large.queries
    assert [row for row in many if row in few] == few
    assert [row for row in original(source) if row in many] == many


def test_sorting_is_what_the_reader_regroups(source: Path, tmp_path: Path) -> None:
    scattered = make_table()
    order = np.random.default_rng(1).permutation(scattered.num_rows)
    mixed = write(scattered.take(order), source.with_name("mixed" + "".join(source.suffixes)))
    written = tools.sort(mixed, str(output(source)))
    assert written.rows == scattered.num_rows
    assert sorted(map(repr, rows_of(output(source)))) == sorted(map(repr, original(source)))
    options = {"drop": ("sku", "price", "at"), "categorical": ("colour",)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        ours, expected = (
            read_files(output(source), **options),
            read_files(mixed, regroup=True, **options),
        )
    assert ours.queries.qid.tolist() == expected.queries.qid.tolist()
    np.testing.assert_array_equal(ours.labels, expected.labels)
    np.testing.assert_array_equal(ours.features, expected.features)
    assert ours.categories == expected.categories


def test_dictionaries_of_several_files_are_joined(tmp_path: Path) -> None:
    for ending in ("arrow", "parquet"):
        for i, words in enumerate((["a", "b"], ["c", "b", None], ["d"])):
            table = pa.table({"qid": [i] * len(words), "c": pa.array(words).dictionary_encode()})
            write(table, tmp_path / f"{i}.{ending}")
        tools.sample(
            [tmp_path / f"{i}.{ending}" for i in range(3)],
            str(tmp_path / f"all.{ending}"),
            queries=1.0,
        )
        assert [row[2] for row in rows_of(tmp_path / f"all.{ending}")] == [
            "a",
            "b",
            "c",
            "b",
            None,
            "d",
        ]


def test_columns_of_another_order_or_type_are_matched_or_refused(tmp_path: Path) -> None:
    write(pa.table({"qid": [1], "a": [2**60], "b": ["x"]}), tmp_path / "1.parquet")
    write(pa.table({"b": pa.nulls(1), "a": [7], "qid": [2]}), tmp_path / "2.parquet")
    write(pa.table({"b": ["x"], "a": [0.5], "qid": [3]}), tmp_path / "3.parquet")
    tools.sample(
        [tmp_path / "1.parquet", tmp_path / "2.parquet"], str(tmp_path / "o.parquet"), queries=1.0
    )
    assert [row[1:] for row in rows_of(tmp_path / "o.parquet")] == [(1, 2**60, "x"), (2, 7, None)]
    with pytest.raises(FileFormatError, match="'a'") as caught:
        tools.sample(
            [tmp_path / f"{i}.parquet" for i in (1, 3)], str(tmp_path / "p.parquet"), queries=1.0
        )
    assert caught.value.file == str(tmp_path / "3.parquet")
    (tmp_path / "1.csv").write_text("qid,a\n1,2\n")
    (tmp_path / "2.csv").write_text("a,qid\n1,2\n")
    with pytest.raises(FileFormatError) as caught:
        tools.sample(str(tmp_path / "?.csv"), str(tmp_path / "o.csv"), queries=1.0)
    assert caught.value.file == str(tmp_path / "2.csv")


def test_the_column_of_queries_is_recognised_or_named(source: Path) -> None:
    assert keyed(source, qid="grade") != keyed(source)
    with pytest.raises(FileFormatError, match=r"(?s)--qid.*query"):
        keyed(source, qid="qurey")


def test_parquet_and_arrow_are_written_by_the_name(tmp_path: Path) -> None:
    source = write(make_table(), tmp_path / "in.parquet")
    tools.sample([source], str(tmp_path / "out.arrow"), queries=1.0)
    tools.sample([tmp_path / "out.arrow"], str(tmp_path / "back.parquet"), queries=1.0)
    assert rows_of(tmp_path / "back.parquet") == rows_of(source)
    assert pa.parquet.read_schema(tmp_path / "back.parquet").equals(make_table().schema)


@pytest.mark.parametrize(
    ("ending", "name"),
    [
        ("csv", "o.parquet"),
        ("parquet", "o.csv"),
        ("parquet", "o.parquet.gz"),
        ("arrow", "-"),
        ("csv", "o.tsv"),
    ],
)
def test_an_output_of_another_format_is_refused(ending: str, name: str, tmp_path: Path) -> None:
    source = write(make_table(), tmp_path / f"in.{ending}")
    output_path = name if name == "-" else str(tmp_path / name)
    with pytest.raises(ParameterError, match=name):
        tools.sample([source], output_path, queries=1.0)
    assert {path.name for path in tmp_path.iterdir()} == {source.name}


def test_a_row_without_a_query_id_and_a_query_that_comes_back_are_refused_with_their_place(
    source: Path,
) -> None:
    table = make_table().slice(0, 30)
    ids = table["query"].to_pylist()
    for row, word, name in ((20, None, "n"), (29, ids[0], "back")):
        changed = pa.array([*ids[:row], word, *ids[row + 1 :]])
        bad = write(
            table.set_column(1, "query", changed), source.with_name(name + "".join(source.suffixes))
        )
        with pytest.raises(FileFormatError) as caught:
            tools.split(bad, str(output(source)), {"a": 0.5, "b": 0.5})
        location = (
            f"row {row + 1}:"
            if source.suffix in (".parquet", ".arrow", ".arrows")
            else f":{row + 2}:"
        )
        assert location in str(caught.value)


def test_lines_keep_quotes_blank_lines_and_line_ends(tmp_path: Path) -> None:
    body = b'qid,a\r\n1,"x, ""y"""\r\n1, 1e400 \r\n\r\n2,00\r\n'
    (tmp_path / "in.csv").write_bytes(body)
    assert tools.sample([tmp_path / "in.csv"], str(tmp_path / "out.csv"), queries=1.0).rows == 3
    assert (tmp_path / "out.csv").read_bytes() == body


def test_a_query_in_two_tables_is_refused_with_its_row(tmp_path: Path) -> None:
    table = pa.table({"label": [1.0, 0.0], "qid": [1, 2], "f": [0.5, 0.25]})
    for name in ("in1.parquet", "in2.parquet"):
        pyarrow.parquet.write_table(table, tmp_path / name)
    with pytest.raises(FileFormatError, match=r"qid 1 .*in1\.parquet: row 1"):
        tools.sample(str(tmp_path / "in*.parquet"), str(tmp_path / "out.parquet"), 1.0)


def test_a_header_may_be_quoted_in_one_file_and_plain_in_another(tmp_path: Path) -> None:
    plain, quoted, output = (tmp_path / f"{name}.csv" for name in ("plain", "quoted", "out"))
    plain.write_text("qid,label,a\n1,1,2\n")
    quoted.write_text('"qid","label","a"\n2,1,2\n')
    tools.sort([plain, quoted], str(output))
    assert output.read_text() == "qid,label,a\n1,1,2\n2,1,2\n"
    quoted.write_text("qid,a,label\n2,1,2\n")
    with pytest.raises(FileFormatError, match=r"quoted\.csv: has other columns"):
        tools.sort([plain, quoted], str(output))
