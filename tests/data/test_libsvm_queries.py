"""Faults 42 to 53: query ids, scattered queries, sidecars."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

from boostrank.core.errors import DataWarning
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import FeatureSpace
from boostrank.files.assemble import read_files as read_libsvm
from tests.data.conftest import Read, dense, refused, same_data

SCATTERED = (
    "1 qid:7 1:1 # a\n2 qid:3 1:2 # b\n3 qid:7 1:3 # c\n4 qid:5 1:4 # d\n5 qid:3 1:5 # e\n6 qid:7"
    " 1:6\n"
)


@pytest.mark.parametrize("chunk_bytes", [1, 40, 1 << 20])
@pytest.mark.parametrize("threads", [1, 2])
def test_fault_042_a_qid_that_comes_back_is_refused(
    read: Read, chunk_bytes: int, threads: int
) -> None:
    with refused("qid 7 reappears", "first seen on line 1", "--regroup", line=3):
        read(SCATTERED, chunk_bytes=chunk_bytes, threads=threads)


def test_fault_042_a_query_may_go_on_in_the_next_chunk(read: Read) -> None:
    text = "1 qid:1 1:1\n" * 50 + "1 qid:2 1:1\n" * 50
    assert read(text, chunk_bytes=30).queries.sizes.tolist() == [50, 50]


def test_fault_042_an_earlier_scattered_query_wins_over_a_later_bad_row(read: Read) -> None:
    with refused("reappears", line=3):
        read(SCATTERED + "1 qid:9 1:x\n")
    with refused("'x'", line=3):
        read(SCATTERED.replace("1:3", "1:x"))


def test_fault_042_scattered_queries_are_regrouped_stably(read: Read) -> None:
    with pytest.warns(DataWarning, match="2 queries .*regrouped"):
        data = read(SCATTERED, regroup=True, keep_names=True, chunk_bytes=20)
    assert data.queries.qid.tolist() == [7, 3, 5]
    assert data.queries.sizes.tolist() == [3, 2, 1]
    assert data.labels.tolist() == [1, 3, 6, 2, 5, 4]
    assert dense(data)[:, 0].tolist() == [1, 3, 6, 2, 5, 4]
    assert data.document_names is not None
    assert data.document_names.tolist() == ["a", "c", "", "b", "e", "d"]
    assert data.input_rows is not None
    assert data.input_rows.tolist() == [0, 2, 5, 1, 4, 3]
    assert data.in_input_order(data.labels).tolist() == [1, 2, 3, 4, 5, 6]


def test_fault_042_text_ids_are_regrouped_too(read: Read) -> None:
    with pytest.warns(DataWarning, match="1 queries had scattered rows"):
        data = read("1 qid:b 1:1\n2 qid:a 1:2\n3 qid:b 1:3\n", regroup=True, layout="csr")
    assert data.queries.qid.tolist() == ["b", "a"]
    assert dense(data)[:, 0].tolist() == [1, 3, 2]


def test_fault_042_whole_queries_stay_in_their_order(read: Read) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read("1 qid:9 1:1\n1 qid:2 1:1\n", regroup=True)
    assert data.input_rows is None
    assert data.queries.qid.tolist() == [9, 2]


def test_fault_043_a_row_without_qid_is_refused(read: Read) -> None:
    with refused("no qid", "qid:ID", line=2, column=3):
        read("1 qid:1 1:1\n1 1:2\n1 qid:1 1:1\n")
    with refused("no qid", line=1, column=3):
        read("1 1:2\n1 qid:1 1:1\n")


def test_fault_043_a_file_without_any_qid_is_refused(read: Read) -> None:
    with refused("no qid", "FILE.query", line=1):
        read("1 1:2\n0 1:1\n")


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [
        ("1 qid:1 qid:2 1:1", 9, "number:value"),
        ("1 qid:1 1:1 qid:1", 13, "number:value"),
        ("1 1:1 qid:1", 3, "no qid"),
    ],
)
def test_fault_044_a_qid_out_of_place_is_refused(
    read: Read, row: str, column: int, words: str
) -> None:
    with refused(words, line=2, column=column):
        read(f"1 qid:1 1:1\n{row}\n")


def test_fault_045_ids_may_be_text(read: Read) -> None:
    data = read("1 qid:shoes 1:1\n0 qid:shoes 1:2\n2 qid:caf\u00e9/1:2 1:3\n1 qid:7 1:1\n")
    assert data.queries.qid.dtype == object
    assert data.queries.qid.tolist() == ["shoes", "caf\u00e9/1:2", "7"]
    assert data.queries.sizes.tolist() == [2, 1, 1]
    with refused("qid shoes reappears", "line 1", line=3):
        read("1 qid:shoes 1:1\n1 qid:2 1:1\n1 qid:shoes 1:1\n")


@pytest.mark.parametrize("name", ["2.5", "-1.", "+.5", "2.0"])
def test_fault_045_a_fraction_is_no_id(read: Read, name: str) -> None:
    with refused(f"qid '{name}' is empty, a decimal", line=1, column=3):
        read(f"1 qid:{name} 1:1\n")


@pytest.mark.parametrize(
    "ids",
    [
        [9223372036854775807, -9223372036854775807, 0],
        ["9223372036854775808", "1"],
        ["99999999999999999999", "99999999999999999998"],
        ["01", "1", "001"],
        ["+1", "1", "-0", "0"],
        ["1e5", "100000"],
    ],
)
def test_fault_045_ids_are_int64_when_all_are_canonical_and_fit(
    read: Read, ids: list[int] | list[str]
) -> None:
    data = read("".join(f"1 qid:{name} 1:1\n" for name in ids), chunk_bytes=20)
    assert data.queries.qid.tolist() == ids
    assert data.queries.qid.dtype == (np.int64 if isinstance(ids[0], int) else object)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (b"", "id"),
        (b"a#b", "blank"),
        (b"5#doc", "blank"),
        (b"a\x01", "control"),
        (b"\xff\xfe", "UTF-8"),
        (b"\xed\xa0\x80", "UTF-8"),
    ],
)
def test_fault_045_an_id_that_cannot_be_told_apart_from_others_is_refused(
    read: Read, name: bytes, words: str
) -> None:
    for text in (b"1 qid:" + name + b" 1:1\n", b"1 qid:" + name + b"\n"):
        with refused(words, line=2, column=3):
            read(b"1 qid:5 1:1\n" + text)


@pytest.mark.parametrize(
    ("first", "last", "outside"),
    [
        ("\x80", "\u07ff", [b"\xc1\xbf", b"\xc2", b"\xc2\x7f", b"\xc2\xc0"]),
        ("\u0800", "\ud7ff", [b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xe2\x82", b"\xe2\x82\x28"]),
        ("\ue000", "\uffff", [b"\x80", b"\xbf\xbf"]),
        (
            "\U00010000",
            "\U0010ffff",
            [b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf0\x90\x80"],
        ),
    ],
)
def test_fault_045_ids_are_utf8_as_python_reads_it(
    read: Read, first: str, last: str, outside: list[bytes]
) -> None:
    assert read(f"1 qid:{first} 1:1\n1 qid:{last}a 1:1\n").queries.qid.tolist() == [
        first,
        f"{last}a",
    ]
    for name in outside:
        for text in (name, name + b"a"):
            with refused("UTF-8"):
                read(b"1 qid:" + text + b" 1:1\n")


def test_fault_046_ids_may_be_negative(read: Read) -> None:
    assert read("1 qid:-3 1:1\n1 qid:-1 1:1\n").queries.qid.tolist() == [-3, -1]


def test_fault_047_queries_shared_with_the_training_data_are_told_or_refused(read: Read) -> None:
    train = read("1 qid:1 1:1\n1 qid:2 1:1\n")
    text = "1 qid:2 1:1\n1 qid:3 1:1\n"
    with pytest.warns(
        DataWarning,
        match="1 of 2 query ids .* 2.*leak",
    ):
        read(text, like=train)
    with refused("a leak"):
        read(text, like=train, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read("1 qid:3 1:1\n", like=train)
        read(text, like=FeatureSpace(1, 1))
        read(text, like=RankingDataset.from_arrays([[1.0]], [1], group=[1]))


def test_fault_048_queries_of_one_document_are_read(read: Read) -> None:
    assert read("1 qid:1 1:1\n1 qid:2 1:1\n").queries.sizes.tolist() == [1, 1]


def test_fault_049_queries_of_equal_labels_are_read(read: Read) -> None:
    assert read("0 qid:1 1:1\n0 qid:1 1:2\n").labels.tolist() == [0, 0]


def test_fault_050_a_query_of_100_000_documents_is_read(read: Read) -> None:
    data = read("1 qid:1 1:1\n" * 100_000, chunk_bytes=50_000, threads=2)
    assert data.queries.sizes.tolist() == [100_000]


def test_fault_051_a_query_and_a_row_may_be_longer_than_a_chunk(read: Read) -> None:
    row = "1 qid:1 " + " ".join(f"{i}:1" for i in range(1, 400)) + "\n"
    assert same_data(read(row * 5, chunk_bytes=64), read(row * 5))


GROUPED = "1 1:1\n0 1:2\n2 1:3\n"


def beside(tmp_path: Path, suffix: str, text: str) -> Path:
    path = tmp_path / f"data.txt{suffix}"
    path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", [".query", ".group"])
@pytest.mark.parametrize("sizes", ["2\n1\n", "2\r\n1", "\ufeff2\n1\n\n"])
def test_fault_052_group_sizes_beside_a_file_without_qids(
    read: Read, tmp_path: Path, suffix: str, sizes: str
) -> None:
    sidecar = beside(tmp_path, suffix, sizes)
    data = read(GROUPED)
    assert data.queries.sizes.tolist() == [2, 1]
    assert data.provenance.files == (str(tmp_path / "data.txt"), str(sidecar))
    assert data.provenance.options["queries"] == "sizes"


@pytest.mark.parametrize(
    ("sizes", "line", "words"),
    [
        ("2\n0\n1\n", 2, "'0' is not a query size"),
        ("4\n-1\n", 1, "'4' is not a query size: an integer from 1 to the 3 rows"),
        ("2\n-1\n", 2, "'-1'"),
        ("2\n1.0\n", 2, "'1.0'"),
        ("2 1\n", 1, "'2 1'"),
        ("2\n\n1\n", 2, "''"),
        ("\u0662\n1\n", 1, "is not a query size"),
        ("2\n", 0, "sum to 2, but the data has 3 rows"),
        ("2\n2\n", 0, "sum to 4, but the data has 3 rows"),
        ("", 0, "sum to 0"),
    ],
)
def test_fault_052_group_sizes_that_do_not_fit_are_refused(
    read: Read, tmp_path: Path, sizes: str, line: int, words: str
) -> None:
    sidecar = beside(tmp_path, ".query", sizes)
    with refused(words, line=line) as _:
        read(GROUPED)
    assert sidecar.exists()


def test_fault_052_sizes_and_qids_must_agree(read: Read, tmp_path: Path) -> None:
    text = "1 qid:1 1:1\n0 qid:1 1:2\n2 qid:2 1:3\n"
    beside(tmp_path, ".query", "2\n1\n")
    assert read(text).queries.qid.tolist() == [1, 2]
    beside(tmp_path, ".query", "1\n2\n")
    with refused("contradict", "remove one"):
        read(text)


def test_fault_052_a_qid_in_a_file_without_qids_is_refused(read: Read, tmp_path: Path) -> None:
    beside(tmp_path, ".query", "100\n")
    with refused("have no qid", line=100, column=3):
        read("1 1:1\n" * 99 + "1 qid:1 1:1\n")


def test_fault_052_weights_of_queries_or_of_rows(read: Read, tmp_path: Path) -> None:
    text = "1 qid:1 1:1\n0 qid:1 1:2\n2 qid:2 1:3\n"
    beside(tmp_path, ".weight", "0.5\n2e0\n")
    by_query = read(text)
    assert by_query.queries.weights is not None
    assert by_query.queries.weights.tolist() == [0.5, 2]
    sidecar = beside(tmp_path, ".weight", "0.5\n.5\n2.\n")
    by_row = read(text)
    assert by_row.queries.weights is not None
    assert by_row.queries.weights.tolist() == [0.5, 2]
    assert by_row.provenance.files[-1] == str(sidecar)


def test_weights_of_rows_that_differ_within_a_query_are_of_documents(
    read: Read, tmp_path: Path
) -> None:
    beside(tmp_path, ".weight", "1\n0\n2.5\n")
    data = read("1 qid:1 1:1\n0 qid:1 1:2\n2 qid:2 1:3\n")
    assert data.queries.weights is None
    assert data.document_weights is not None
    assert data.document_weights.tolist() == [1, 0, 2.5]


@pytest.mark.parametrize(
    ("weights", "line", "words"),
    [
        ("1\n0\n", 2, "weight '0'"),
        ("-1\n1\n", 1, "'-1'"),
        ("1\nnan\n", 2, "'nan'"),
        ("1\n1e999\n", 2, "'1e999'"),
        ("1_0\n1\n", 1, "'1_0'"),
        ("1\n\n1\n", 2, "''"),
        ("1\n", 0, "1 weights for 2 queries and 3 rows"),
        ("1\n-2\n2\n", 2, "weight '-2' must be finite and at least 0"),
    ],
)
def test_fault_052_weights_that_do_not_fit_are_refused(
    read: Read, tmp_path: Path, weights: str, line: int, words: str
) -> None:
    beside(tmp_path, ".weight", weights)
    with refused(words, line=line):
        read("1 qid:1 1:1\n0 qid:1 1:2\n2 qid:2 1:3\n")


def test_fault_052_weights_of_rows_follow_regrouped_rows(read: Read, tmp_path: Path) -> None:
    beside(tmp_path, ".weight", "7\n3\n7\n5\n3\n7\n")
    with pytest.warns(DataWarning):
        data = read(SCATTERED, regroup=True)
    assert data.queries.weights is not None
    assert data.queries.weights.tolist() == data.queries.qid.tolist()
    beside(tmp_path, ".weight", "1\n2\n3\n4\n5\n6\n")
    with pytest.warns(DataWarning):
        data = read(SCATTERED, regroup=True)
    assert data.document_weights is not None
    np.testing.assert_array_equal(data.in_input_order(data.document_weights), [1, 2, 3, 4, 5, 6])


def test_fault_052_sidecars_of_a_compressed_file(tmp_path: Path) -> None:
    (tmp_path / "data.txt.gz").write_bytes(gzip.compress(GROUPED.encode()))
    beside(tmp_path, ".query", "1\n2\n")
    assert read_libsvm(tmp_path / "data.txt.gz").queries.sizes.tolist() == [1, 2]


def test_fault_052_rows_may_not_be_skipped_when_sizes_count_them(
    read: Read, tmp_path: Path
) -> None:
    beside(tmp_path, ".query", "2\n2\n")
    with refused("the data has 3 rows"):
        read(GROUPED + "x 1:1\n", on_bad_line="skip", max_bad_share=1)


def test_fault_053_a_file_whose_rows_are_all_refused_has_no_rows(read: Read) -> None:
    with refused("no rows"):
        read("x\ny\n", on_bad_line="skip", max_bad_share=1)
