"""Sizes, counts and values as people write them; errors that say where."""

from __future__ import annotations

import pickle

import pytest

from boostrank.core.conventions import Conventions
from boostrank.core.errors import FileFormatError, ParameterError, RowError
from boostrank.core.text import count_of, parse_size, size_words, typed_value


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000000", 10**6),
        ("800MB", 8 * 10**8),
        (" 1.5 GB ", 15 * 10**8),
        ("2GiB", 2**31),
        ("3k", 3000),
        ("1TiB", 2**40),
        ("7 b", 7),
        ("1", 1),
    ],
)
def test_a_size_is_in_thousands_unless_it_says_otherwise(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MB", "0", "0.5", "-1GB", "1XB", "1MM", "nan", "inf", "1e30", "1.2.3MB"]
)
def test_text_that_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ParameterError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-0.5", -0.5), ("True", True), ("false", False), ("1x", "1x"), ("", "")],
)
def test_text_is_the_value_that_it_spells(text: str, value: object) -> None:
    parsed = typed_value(text)
    assert (parsed, type(parsed)) == (value, type(value))


def test_counts_and_sizes_are_words() -> None:
    assert [count_of(n, "worker") for n in (0, 1, 2000)] == [
        "0 workers",
        "1 worker",
        "2,000 workers",
    ]
    assert [size_words(n) for n in (310e6, 0.9994e9, 1.07e9)] == ["310 MB", "999 MB", "1.07 GB"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RowError(3, "no label"), "row 3 (from 0): no label"),
        (FileFormatError("odd", file="a.txt"), "a.txt: odd"),
        (FileFormatError("odd", file="a.txt", line=2), "a.txt:2: odd"),
        (FileFormatError("odd", file="a.txt", line=2, column=5), "a.txt:2:5: odd"),
        (FileFormatError("odd", file="a.txt", column=5), "a.txt: odd"),
    ],
)
def test_errors_say_where_also_from_another_process(error: Exception, words: str) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (str(error), str(again), type(again), vars(again)) == (
        words,
        words,
        type(error),
        vars(error),
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ties": "coin"}, "ties='coin'"),
        ({"empty_of": [("map", "two")]}, "empty_of: map='two' is not one"),
        ({"relevant_from": float("nan")}, "relevant_from=nan"),
        ({"max_grade": -1.0}, "max_grade=-1.0"),
        ({"max_grade": float("inf")}, "max_grade=inf"),
    ],
)
def test_conventions_that_are_none_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Conventions(**options)  # type: ignore[arg-type]


def test_conventions_have_names_and_one_line_each() -> None:
    with pytest.raises(ParameterError, match=r"conventions 'lightgmb'.*'lightgbm'"):
        Conventions.of("lightgmb")
    assert Conventions.of(None, "linear").describe().startswith("gain linear; ties ")
    conventions = Conventions(gain=[0.0, 1.0, 2.5], empty_of=(("map", "zero"),), ties="docno")  # type: ignore[arg-type]
    assert "gain table 0,1,2.5" in conventions.describe()
    assert "(map: count 0)" in conventions.describe()
    assert (conventions.without_names.ties, Conventions().without_names) == (
        "expected",
        Conventions(),
    )
    assert (conventions.empty_for("map"), conventions.empty_for("ndcg")) == (
        "zero",
        conventions.empty,
    )
