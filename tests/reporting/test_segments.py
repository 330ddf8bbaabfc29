"""Every query is in one segment of each kind; many tests are adjusted for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.core.errors import DataError, DataWarning, FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.reporting.segments import (
    NO_SEGMENT,
    by_best_label,
    by_length,
    by_table,
    holm,
    read_segments,
)


def list_segment_names(cut: object) -> list[str]:
    return [cut.names[i] for i in cut.of_query]  # type: ignore[attr-defined]


def test_queries_are_told_apart_by_length() -> None:
    queries = QueryIndex.from_sizes([1, 2, 9, 10, 29, 30, 99, 100, 5000])
    expected = [
        "1 document",
        "2 to 9",
        "2 to 9",
        "10 to 29",
        "10 to 29",
        "30 to 99",
        "30 to 99",
        *["100 or more"] * 2,
    ]
    assert list_segment_names(by_length(queries)) == expected


def test_queries_are_told_apart_by_their_best_label() -> None:
    queries = QueryIndex(np.array([0, 2, 2, 3, 5]), np.arange(4))  # the second one has no document
    cut = by_best_label(np.array([0.0, 3.0, 0.0, 1.0, 3.0]), queries)
    assert list_segment_names(cut) == ["3", "-inf", "0", "3"]


def test_many_different_labels_are_told_apart_by_whether_they_are_above_0() -> None:
    queries = QueryIndex.from_sizes([1] * 20)
    assert list_segment_names(by_best_label(np.arange(20) / 7.0, queries)) == [
        "0 or less",
        *["above 0"] * 19,
    ]


def test_a_table_says_the_segment_of_numbers_and_texts_alike() -> None:
    assert list_segment_names(
        by_table({7: "a", "8": 2}, QueryIndex(np.arange(3), np.array([7, 8])))
    ) == ["a", "2"]


def test_queries_without_a_segment_are_one_and_said() -> None:
    with pytest.warns(DataWarning, match="1 of 2 .*no segment"):
        cut = by_table({"7": "a"}, QueryIndex(np.arange(3), np.array([7, 8])))
    assert list_segment_names(cut) == ["a", NO_SEGMENT]


def test_a_table_of_other_queries_and_one_of_ids_are_refused() -> None:
    queries = QueryIndex.from_sizes([1] * 1001)
    with pytest.raises(DataError, match="none of the 1,001 queries"):
        by_table({"x": "a"}, queries)
    with pytest.raises(DataError, match="1,001 segments"):
        by_table({q: q for q in range(1001)}, queries)


@pytest.mark.parametrize(
    "text",
    [
        "1,a\n2,b\n",
        "qid,segment\n1,a\n2,b\n",
        "1\ta\r\n\r\n2\tb\r\n",
        "\n1,a\n2,b\n",
        '\ufeff1,"a"\n2, b \n',
        "Query\tx\n1\ta\n2\tb",
    ],
)
def test_a_file_has_two_columns_between_commas_or_tabs(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(text.encode())
    assert read_segments(tmp_path / "s.csv") == {"1": "a", "2": "b"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,a\n2\n", ":2: "),
        ("1,a\n2,b,c\n", ":2: "),
        ("1,a\n2,\n", ":2: "),
        ('1,"a\n2,b\n3,c\n', ":3: "),
        ('1,a\n2,"b"c\n', ":2: "),
        ('1,a\n2,"b\n3,c"\n', ":3: "),
        ("1," + "a" * 140_000 + "\n", ":1: .*limit"),
        ("1,a\n\n1,b\n", ":3: "),
        ("1,a\n1.0,b\n", ":2: "),
        ("", ": .*817,mobile"),
        ("qid,segment\n", ": .*817,mobile"),
    ],
)
def test_text_that_is_no_table_of_segments_is_refused_with_its_line(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(FileFormatError, match=rf"s\.csv{words}"):
        read_segments(tmp_path / "s.csv")


def test_holm_adjusts_as_in_the_textbook() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([]).size == 0


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_stepping_down_rejects(p: list[float], alpha: float) -> None:
    rejected = np.zeros(len(p), bool)
    for step, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (len(p) - step) >= alpha:
            break
        rejected[i] = True
    np.testing.assert_array_equal(holm(p) < alpha, rejected)
