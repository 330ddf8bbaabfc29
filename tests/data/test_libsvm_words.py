"""What the LIBSVM reader says, to the word and the place: refusals with line and column, and
warnings with counts.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import DataWarning, FileFormatError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.chunks import quote_token, separator_in
from boostrank.files.side_files import read_sizes, read_weights, some_sizes
from boostrank.options import ReadOptions


def said(text: str | bytes, **options: Any) -> tuple[RankingDataset, list[str]]:
    """The data set, and the warnings without the name of the file in front."""
    body = text.encode() if isinstance(text, str) else text
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        data = read_libsvm(io.BytesIO(body), **options)
    return data, [str(warning.message).partition(": ")[2] for warning in caught]


def refusal(text: str | bytes, **options: Any) -> tuple[str, int | None, int | None]:
    body = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    with pytest.raises(FileFormatError) as caught:
        read_libsvm(io.BytesIO(body), **options)
    return caught.value.reason, caught.value.line, caught.value.column


FIRST = "1 qid:1 1:1 2:2\n"
LONG = "y" * 100


@pytest.mark.parametrize(
    ("row", "words", "column"),
    [
        ("qid:1 1:1", ("label", "'qid:1'"), 1),
        ("1:2 qid:1", ("label", "'1:2'"), 1),
        ("  x qid:1", ("label 'x'", "number"), 3),
        ("1,0 qid:1", ("label '1,0'", "decimal point"), 1),
        ("-inf qid:1", ("label '-inf'", "finite"), 1),
        ("1e999 qid:1", ("label '1e999'", "float64"), 1),
        ("1 1:1", ("no qid", "qid:ID", "FILE.query"), 3),
        ("1", ("no qid", "qid:ID", "FILE.query"), 2),
        ("1 qid: 1:1", ("qid ''", "empty"), 3),
        ("1 qid:a#b 1:1", ("qid 'a#b'", "blank"), 3),
        ("1 qid:1.5 1:1", ("qid '1.5'", "decimal", "whole numbers"), 3),
        ("1 qid:a\x01b 1:1", (r"qid 'a\x01b'", "control", "UTF-8"), 3),
        ("1 qid:1 1:1 qid:2", ("'qid:2'", "number:value"), 13),
        ("1 qid:1 abc", ("'abc'", "number:value"), 9),
        ("1 qid:1 :5", ("':5'", "number:value"), 9),
        ("1 qid:1 -3:5", ("'-3:5'", "not negative"), 9),
        ("1 qid:1 a:5", ("'a:5'", "names belong to a table"), 9),
        ("1 qid:1 1:", ("feature 1", "value ''"), 9),
        ("1 qid:1 1:1 2:x", ("'x'", "feature 2"), 13),
        ("1 qid:1 1:1,5", ("'1,5'", "feature 1", "decimal point"), 9),
        ("1 qid:1 größe:5", ("ASCII",), 9),
        (r"1 qid:1 1:\N", (r"'\N'", r"--missing-token '\N'"), 9),
        ("1 qid:1 1:NULL", ("'NULL'", "feature 1", "--missing-token NULL"), 9),
        ("1 qid:1 1:?", ("'?'", "feature 1", "--missing-token '?'"), 9),
        ("1 qid:1 1:inf", ("'inf'", "feature 1", "--inf keep", "--inf missing"), 9),
        ("1 qid:1 1:1e39", ("'1e39'", "feature 1", "float32", "--inf missing"), 9),
        ("1 qid:1 7:1 1:1 007:2", ("feature 7", "twice", "--repeated first"), 17),
        ("1 qid:1 16777217:1", ("'16777217'", "16,777,216", "--max-feature"), 9),
        ("1 qid:1 1:٣", ("'1:\\xd9\\xa3'", "ASCII"), 9),
        ("1 qid:1 1:1\0", ("NUL",), 12),
        ("1 qid:1 \ufeff1:1", ("byte order mark",), 9),
        ("1 qid:1 1:1\r2", ("carriage return", "tr '\\r' '\\n'"), 12),
        (f"1 qid:1 1:{LONG}", (f"'{LONG[:40]}...'", "feature 1"), 9),
        (f"1 qid:1 1:{LONG[:40]}", (f"'{LONG[:40]}'", "feature 1"), 9),
    ],
)
def test_a_refused_row_is_named_with_its_line_its_column_and_what_mends_it(
    row: str, words: tuple[str, ...], column: int
) -> None:
    reason, *location = refusal(f"{FIRST}# a comment\n\n{row}\n{FIRST}")
    assert location == [4, column]
    assert [word for word in words if word not in reason] == []
    skipped, messages = said(
        f"{FIRST}# a comment\n\n{row}\n{FIRST}", on_bad_line="skip", max_bad_share=0.5
    )
    assert skipped.n_documents == 2
    (share,) = [words for words in messages if "rows skipped" in words]
    assert share.startswith("1 of 3 rows skipped; the first: ")


@pytest.mark.parametrize(
    ("head", "separator"),
    [
        (b"label,qid,f1\n1,2,3\n", b","),
        (b'"label","qid"\r\n1,2\n', b","),
        (b"label\tqid\tf1\n", b"\t"),
        (b"label,,f1\n", b""),
        (b"1,2,3\n", b""),
        (b"# a,b,c\n", b""),
        (b"1 qid:1 1:2,5,7\n", b""),
        (b"label\n", b""),
        (b"a\tb\t1.5\n", b""),
        (b"", b""),
    ],
)
def test_a_table_is_known_by_its_first_line(head: bytes, separator: bytes) -> None:
    assert separator_in(head) == separator


def test_a_query_id_with_commas_is_no_table() -> None:
    data = read_libsvm(io.BytesIO(b"qid:red,blue,green\nqid:red 1:1\n"), rows_alone=True)
    assert data.n_documents == 2


@pytest.mark.parametrize(
    ("text", "options", "words", "line", "column"),
    [
        ("1 qid:1 0:1 1:1\n", {"zero_based": "false"}, ("feature 0", "--zero-based true"), 1, 9),
        ("1 qid:1 2:1 1:1\n", {"strict": True}, ("feature 1", "--strict"), 1, 13),
        (f"{FIRST}1 qid:1 101:1\n", {"max_feature": 100}, ("'101'", "100", "--max-feature"), 2, 9),
        (
            f"{FIRST}1 qid:1 9:1\n",
            {"n_features": 8},
            ("feature 9", "n_features=8", "1-based"),
            2,
            0,
        ),
        (
            f"{FIRST}1 qid:1 0:1 8:1\n",
            {"n_features": 8},
            ("feature 8", "n_features=8", "0-based"),
            2,
            0,
        ),
        (
            f"{FIRST}1 qid:2\n0 qid:1\n",
            {},
            ("qid 1", "line 1", "--regroup", "boostrank data sort"),
            3,
            0,
        ),
        ("# nothing\n\n", {}, ("no rows",), 0, 0),
        ("1 qid:1 1:5.", {}, ("'1:5.'", "truncated"), 1, 9),
        ("x qid:1", {}, ("label 'x'",), 1, 1),
        ("1 qid:1 1:1 2:x", {}, ("'x'", "feature 2", "no newline", "truncated"), 1, 13),
        ("1 qid:1 1:x 2:1", {}, ("'x'", "feature 1"), 1, 9),
    ],
)
def test_errors_of_options_and_of_whole_files_are_named(
    text: str, options: dict[str, Any], words: tuple[str, ...], line: int | None, column: int | None
) -> None:
    reason, *location = refusal(text, **options)
    assert location == [line, column]
    assert [word for word in words if word not in reason] == []


def test_n_features_may_be_exactly_those_there_are() -> None:
    assert said(f"{FIRST}1 qid:1 8:1\n", n_features=8)[0].n_features == 8
    assert said(f"{FIRST}1 qid:1 0:1 7:1\n", n_features=8)[0].n_features == 8
    assert said(f"{FIRST}1 qid:1 100:1\n", max_feature=100)[0].n_features == 100


def test_feature_zero_after_training_data_that_count_from_one() -> None:
    like = said(FIRST)[0]
    _, *location = refusal("1 qid:1 1:1 00:5\n", like=like)
    assert location == [1, 13]
    arrays = RankingDataset.from_arrays(
        np.ones((1, 2)), [1], qid=[1]
    )  # whose features count from 1, unless 0 occurs
    assert refusal("1 qid:1 1:1 00:5\n", like=arrays)[1:] == (1, 13)
    assert said("1 qid:1 0:1 1:2\n", like=arrays)[0].features.tolist() == [[1.0, 2.0]]
    assert said("1 qid:1 2:1\n", like=arrays)[0].n_features == 2
    assert said("1 qid:1 0:1\n", like=arrays, zero_based="true")[0].n_features == 2
    zero_based = said("1 qid:1 0:1 1:1\n")[0]
    assert refusal(f"1 qid:1\n{FIRST}", like=zero_based)[1:] == (2, 0)
    assert said("1 qid:1 1:1\n", like=zero_based)[0].n_features == 2
    assert said(FIRST, like=zero_based, zero_based="true")[1][-1].startswith(
        "1 values belong to features outside the training data"
    )


@pytest.mark.parametrize("lines", [99, 100, 101, 198, 199])
def test_more_than_one_blank_line_in_a_hundred_are_told(lines: int) -> None:
    _, messages = said(FIRST * (lines - 1) + "\n")
    assert messages == ([f"1 of {lines} lines are blank"] if lines < 100 else [])
    _, messages = said(FIRST * (lines - 2) + "\n\n")
    assert messages == ([f"2 of {lines} lines are blank"] if lines < 200 else [])


@pytest.mark.parametrize(
    ("text", "options", "messages"),
    [
        (
            f"{FIRST}1 qid:1 3:1 2:1\n1 qid:1 9:1 2:1\n",
            {},
            ["2 rows had unsorted feature numbers (first: line 2); they were sorted"],
        ),
        ("1 qid:1 1:inf 2:-inf\n", {"inf": "keep"}, ["2 infinite values: kept"]),
        (
            "1 qid:1 1:inf 2:1\n1 qid:1 2:-inf\n",
            {"inf": "missing"},
            ["2 infinite values: read as missing", "2 missing values: 1 in f1, 1 in f2"],
        ),
        (
            "1 qid:1 1:nan 3:nan\n1 qid:1 3:nan 2:1\n",
            {},
            [
                "1 rows had unsorted feature numbers (first: line 2); they were sorted",
                "3 missing values: 2 in f3, 1 in f1",
            ],
        ),
        (
            "1 qid:1 0:nan 1:1 2:nan 3:nan 4:nan 5:nan\n",
            {},
            ["5 missing values: 1 in f0, 1 in f2, 1 in f3, 1 in f4, 1 in f5"],
        ),
        (
            "1 qid:1 0:nan 1:nan 2:nan 3:nan 4:nan 5:nan\n",
            {},
            ["6 missing values: 1 in f0, 1 in f1, 1 in f2, 1 in f3, 1 in f4 and 1 more"],
        ),
        (
            "1 qid:1 1:1\n0 qid:2\n2 qid:1 2:7\n1 qid:3\n0 qid:2 1:3\n",
            {"regroup": True},
            ["2 queries had scattered rows, which were regrouped"],
        ),
        ("1 qid:1 1:1\n0 qid:2", {}, ["the last line has no newline; the file may be truncated"]),
        (
            "1 qid:1 1:1\n0 qid:2 # 3",
            {},
            ["the last line has no newline; the file may be truncated"],
        ),
        (
            "1 qid:1 1:1\n1 qid:2 0:1\n1 qid:2 y\n",
            {"on_bad_line": "skip", "max_bad_share": 0.7, "zero_based": "false"},
            [
                "2 of 3 rows skipped; the first: <stream>:2:9: feature 0 occurs, but the file or the"
                " training data count from 1 (the default of arrays); use --zero-based true if they"
                " count from 0"
            ],
        ),
    ],
)
def test_warnings_have_counts_and_places(
    text: str, options: dict[str, Any], messages: list[str]
) -> None:
    assert said(text, **options)[1] == messages


def test_features_that_the_training_data_have_not_are_told_with_the_largest() -> None:
    like = said(FIRST)[0]
    data, messages = said("1 qid:8 1:1 7:1\n0 qid:8 3:1 9:2\n0 qid:9 9:2\n", like=like)
    assert data.n_features == 2
    assert messages == [
        (
            "4 values belong to features outside the training data (largest number: 9, line 2);"
            " they are ignored"
        ),
    ]


def test_ids_of_the_training_data_are_told_or_refused() -> None:
    like = said("1 qid:1 1:1\n1 qid:2 1:1\n1 qid:12 1:1\n")[0]
    words = (
        "2 of 3 query ids also occur in the training data (such as 12), which is a leak unless ids"
        " restart in each file"
    )
    assert said("1 qid:2 1:1\n1 qid:12 1:1\n1 qid:3 1:1\n", like=like)[1] == [words]
    assert refusal("1 qid:2 1:1\n1 qid:12 1:1\n1 qid:3 1:1\n", like=like, strict=True)[0] == words


def test_ids_of_the_training_data_are_told_if_they_are_integers_only_there() -> None:
    like = said("1 qid:1 1:1\n1 qid:2 1:1\n")[0]
    (words,) = said("1 qid:2 1:1\n1 qid:x 1:1\n", like=like)[1]
    assert "such as 2" in words


def test_a_label_map_is_recorded_with_all_digits() -> None:
    label_map = {1234567: 2, 1234568: 1, 0.5: 0}
    data = said("1234567 qid:1 1:1\n1234568 qid:1 1:1\n", label_map=label_map)[0]
    assert data.provenance.options["label_map"] == {"1234567": 2, "1234568": 1, "0.5": 0}


@pytest.mark.parametrize(("cells", "layout"), [(3, "dense"), (2, "dense"), (1, "csr")])
def test_half_of_the_cells_make_a_dense_matrix(cells: int, layout: str) -> None:
    row_cells = " ".join(f"{2 * i + 1}:1" for i in range(cells - 1)) + " 4:1"
    data = said(f"1 qid:1 {row_cells}\n")[0]
    assert data.n_features == 4
    assert data.is_sparse == (layout == "csr")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"a", "'a'"),
        (b"a\rb", r"'a\rb'"),
        (b"a\0b", r"'a\x00b'"),
        (b"\xff", r"'\xff'"),
        (b"y" * 40, f"'{'y' * 40}'"),
        (b"\x1b[0m\t\x7f", r"'\x1b[0m\t\x7f'"),
        (b"y" * 41, f"'{'y' * 40}...'"),
    ],
)
def test_a_token_is_shown_printable_and_not_too_long(token: bytes, text: str) -> None:
    assert quote_token(token) == text


def test_sizes_beside_a_file_are_whole_numbers_that_sum_to_its_rows(tmp_path: Any) -> None:
    path = tmp_path / "a.txt.query"

    def sizes(text: str, rows: int) -> list[int]:
        path.write_text(text)
        return read_sizes(str(path), rows).tolist()

    def wrong(text: str, rows: int) -> tuple[str, int | None]:
        with pytest.raises(FileFormatError) as caught:
            sizes(text, rows)
        assert caught.value.file == str(path)
        return caught.value.reason, caught.value.line

    assert sizes("\ufeff3\n 1 \n2\n\n\n", 6) == [3, 1, 2]
    assert sizes("6\n", 6) == [6]
    assert sizes("0000000000000000006\n", 6) == [6]  # 19 digits
    none = "is not a query size: an integer from 1 to the 6 rows of the data"
    for text in ("0", "7", "-1", "x", "+1", "1.0", "\u0663", "00000000000000000006"):
        assert wrong(f"3\n{text}\n3\n", 6) == (f"{text!r} {none}", 2)
    assert wrong("3\n\n3\n", 6) == (f"'' {none}", 2)
    assert wrong(LONG, 6) == (f"{LONG[:40]!r} {none}", 1)
    assert wrong("3\n4\n", 6) == ("the group sizes sum to 7, but the data has 6 rows", 0)
    assert wrong("3\n2\n", 6) == ("the group sizes sum to 5, but the data has 6 rows", 0)
    assert wrong("", 6) == ("the group sizes sum to 0, but the data has 6 rows", 0)
    path.write_text("3 x \u00b2 123456789\n1234567890 -4 5\n")
    assert some_sizes(str(path)) == [3, 123456789, 5]
    assert some_sizes(None) == []


def test_weights_beside_a_file_are_numbers_of_at_least_0(tmp_path: Any) -> None:
    path = tmp_path / "a.txt.weight"

    def weights(text: str, rows: int) -> list[float]:
        path.write_text(text)
        return read_weights(str(path), rows).tolist()

    assert weights("1\n.5\n+2.\n1e-3\n", 9) == [1.0, 0.5, 2.0, 0.001]
    assert weights("0\n1\n", 2) == [0.0, 1.0]
    assert weights("", 2) == []
    for text in ("-1", "nan", "inf", "1e999", "x", "", LONG):
        with pytest.raises(FileFormatError) as caught:
            weights(f"1\n{text}\n1\n", 3)
        assert repr(text[:40]) in caught.value.reason
        assert caught.value.line == 2
    with pytest.raises(FileFormatError, match=r"weight '0' .*positive") as caught:
        weights("1\n0\n", 3)
    assert caught.value.line == 2
    assert np.isfinite(weights("1e308\n", 1)).all()


@pytest.mark.parametrize("name", ["n_features", "max_feature"])
def test_numbers_among_the_options_are_whole(name: str) -> None:
    for good in (300, 300.0, np.int64(300), np.float32(300)):
        assert type(getattr(ReadOptions(**{name: good}), name)) is int
    for bad in (True, 3.5, float("nan"), float("inf"), "300", 0, -1):
        with pytest.raises(ParameterError, match=f"^{name}="):
            ReadOptions(**{name: bad})
