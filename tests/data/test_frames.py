"""Data frames of four libraries: the same rows, the same categories, and refusals by name."""

from __future__ import annotations

import datetime
import math
import warnings
from typing import Any

import numpy as np
import pytest

from boostrank import RankingDataset
from boostrank.core.errors import DataError, DataWarning
from boostrank.data.categories import Categories

N = 6
LABELS, GROUP = np.arange(N) % 3, [N]
NAMES = ("number", "count", "flag", "kind")
KINDS = ("pear", "apple", "fig")
ROWS = np.array(
    [
        [0.5, 1, 1, 1],
        [np.nan, 2, 0, np.nan],
        [-2.0, np.nan, np.nan, 0],
        [3.25, 4, 1, 1],
        [1, 5, 0, 2],
        [0, 6, 1, 0],
    ],
    np.float32,
)
COLUMNS: dict[str, list[Any]] = {
    name: [None if np.isnan(value) else kind(value) for value in column]
    for name, kind, column in zip(
        NAMES, (float, int, bool, lambda i: KINDS[int(i)]), ROWS.T, strict=True
    )
}


def pandas_frame(columns: dict[str, list[Any]], kinds: tuple[str, ...] = KINDS) -> Any:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    return pd.DataFrame(
        {
            "number": columns["number"],
            "count": pd.array(columns["count"], dtype="Int64"),
            "flag": pd.array(columns["flag"], dtype="boolean"),
            "kind": pd.Categorical(columns["kind"], categories=list(kinds)),
        }
    )


def arrow_backed(columns: dict[str, list[Any]], kinds: tuple[str, ...] = KINDS) -> Any:
    pytest.importorskip("pyarrow", reason="pandas backed by Arrow")
    frame = pandas_frame(columns, kinds)
    return frame.astype(
        {"number": "double[pyarrow]", "count": "int64[pyarrow]", "flag": "bool[pyarrow]"}
    )


def polars_frame(columns: dict[str, list[Any]], kinds: tuple[str, ...] = KINDS) -> Any:
    pl = pytest.importorskip("polars", reason="frames of polars")
    return pl.DataFrame({**columns, "kind": pl.Series(columns["kind"], dtype=pl.Enum(list(kinds)))})


def arrow_table(columns: dict[str, list[Any]], kinds: tuple[str, ...] = KINDS) -> Any:
    pa = pytest.importorskip("pyarrow", reason="tables of Arrow")
    codes = [None if kind is None else kinds.index(kind) for kind in columns["kind"]]
    # Two chunks, of which the second has a dictionary of its own.
    turned = [None if code is None else len(kinds) - 1 - code for code in codes]
    first = pa.DictionaryArray.from_arrays(pa.array(codes[:3], pa.int8()), list(kinds))
    second = pa.DictionaryArray.from_arrays(pa.array(turned[3:], pa.int8()), list(kinds)[::-1])
    return pa.table({**columns, "kind": pa.chunked_array([first, second])})


LIBRARIES = [pandas_frame, arrow_backed, polars_frame, arrow_table]


@pytest.mark.parametrize("make_frame", LIBRARIES)
def test_a_frame_of_any_library_is_the_same_rows(make_frame: Any) -> None:
    data = RankingDataset.from_arrays(make_frame(COLUMNS), LABELS, group=GROUP)
    np.testing.assert_array_equal(data.features, ROWS)
    assert data.feature_names == NAMES
    assert data.categories == {"kind": Categories(KINDS)}
    assert data.categorical == (3,)


def test_an_arrow_stream_of_an_unknown_library_is_a_frame() -> None:
    table = arrow_table(COLUMNS)

    class Stream:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

    data = RankingDataset.from_arrays(Stream(), LABELS, group=GROUP)
    np.testing.assert_array_equal(data.features, ROWS)


def test_a_large_frame_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boostrank.data.frames._VALUES_AT_A_TIME", 8)
    for make_frame in LIBRARIES:
        np.testing.assert_array_equal(
            RankingDataset.from_arrays(make_frame(COLUMNS), LABELS, group=GROUP).features, ROWS
        )


@pytest.mark.parametrize("make_frame", LIBRARIES)
def test_labels_queries_weights_and_what_is_dropped_are_columns_of_the_frame(
    make_frame: Any,
) -> None:
    names = {"number": "grade", "count": "weight", "flag": "document", "kind": "query"}
    columns = {"number": [0.0, 1, 2, 0, 1, 2], "count": [2, 2, 2, 3, 3, 3], "flag": [None] * N}
    columns |= {"kind": ["pear"] * 3 + ["fig"] * 3}
    frame = make_frame(columns)
    values = np.arange(N, dtype=np.float64)
    if make_frame is arrow_table:
        frame = frame.rename_columns(list(names.values())).append_column("x", [values])
    elif hasattr(frame, "iloc"):
        frame = frame.rename(columns=names).assign(x=values)
    else:
        frame = frame.rename(mapping=names).with_columns(x=values)
    data = RankingDataset.from_frame(
        frame, label="grade", qid="query", weight="weight", drop=["document"]
    )
    assert data.feature_names == ("x",)
    np.testing.assert_array_equal(data.features[:, 0], values)
    np.testing.assert_array_equal(data.labels, columns["number"])
    assert data.queries.qid.tolist() == ["pear", "fig"]
    np.testing.assert_array_equal(data.queries.weights, [2, 3])


def test_named_text_becomes_categories_in_the_order_of_the_rows_and_numbers_are_codes() -> None:
    pl = pytest.importorskip("polars", reason="frames of polars")
    frame = pl.DataFrame({"word": ["b", None, "a", "b"], "code": [3, 0, 2, 1]})
    data = RankingDataset.from_arrays(
        frame, [0, 1, 0, 1], group=[4], categorical_feature=["word", 1]
    )
    np.testing.assert_array_equal(
        data.features, np.array([[0, 3], [np.nan, 0], [1, 2], [0, 1]], np.float32)
    )
    assert data.categories == {"word": Categories(("b", "a")), "code": Categories()}


def test_categories_with_an_order_are_numbers_unless_they_are_named() -> None:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    sizes = pd.DataFrame(
        {"size": pd.Categorical(["m", "s", "l"], categories=["s", "m", "l"], ordered=True)}
    )
    data = RankingDataset.from_arrays(sizes, [0, 1, 2], group=[3])
    assert data.categorical == ()
    np.testing.assert_array_equal(data.features[:, 0], [1, 0, 2])
    assert RankingDataset.from_arrays(
        sizes, [0, 1, 2], group=[3], categorical_feature=["size"]
    ).categorical == (0,)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (["a", "b"], "column 'x' contains text .'a', .*categorical_feature"),
        ([datetime.date(2020, 1, 1)] * 2, "column 'x' contains times .*numbers"),
        ([[1.0], [2.0]], "column 'x' contains .*not numbers"),
        ([1e39, 0.0], "column 'x' contains .*range of float32"),
    ],
    ids=["text", "dates", "lists", "large"],
)
def test_values_that_are_no_numbers_are_refused_by_the_name_of_their_column(
    column: list[Any], match: str
) -> None:
    pl = pytest.importorskip("polars", reason="frames of polars")
    with pytest.raises(DataError, match=match):
        RankingDataset.from_arrays(pl.DataFrame({"x": column}), [0, 1], group=[2])


def test_numbers_that_are_no_codes_are_said_of_later_data() -> None:
    def rows(*values: float) -> RankingDataset:
        return RankingDataset.from_arrays(
            np.array(values)[:, None], [0] * len(values), group=[len(values)]
        )

    train = RankingDataset.from_arrays(np.zeros((1, 1)), [1], group=[1], categorical_feature=[0])
    with pytest.warns(DataWarning, match=r"'f1' has 2 .*-7, .* codes"):
        rows(-7, 1.5, 3, math.nan).like(train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows(9, 3, math.nan).like(train)


def test_a_named_column_of_nothing_has_no_categories_yet() -> None:
    pa = pytest.importorskip("pyarrow", reason="Arrow tables")
    data = RankingDataset.from_arrays(
        pa.table({"c": pa.nulls(2)}), [1, 0], group=[2], categorical_feature=["c"]
    )
    assert data.categories["c"].values == ()


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([0.5, 1], "'x' contains 0.5"),
        ([-1, 0], "contains -1"),
        ([2.0**24, 0], "contains 1.67772e.07"),
    ],
)
def test_codes_are_whole_numbers_from_zero(values: list[float], match: str) -> None:
    for rows in (
        np.array(values)[:, None],
        pytest.importorskip("polars", reason="polars").DataFrame({"x": values}),
    ):
        with pytest.raises(DataError, match=match):
            RankingDataset.from_arrays(
                rows, [0, 1], group=[2], feature_names=["x"], categorical_feature=["x"]
            )


def test_tables_that_are_no_rows_of_features_are_refused() -> None:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    # Tables that are no features.
    for table, match in (
        (pd.Series([1.0]), "two-dimensional"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), "must be distinct"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", " "]), "feature 1 .from 0. has a blank name"),
        (
            pd.DataFrame({"x": pd.cut([1.0, 2.0], 2)}),
            "'x' .*Interval",
        ),
        (pd.DataFrame({"x": pd.Categorical([1, "a"])}), "'a', .*text"),
    ):
        with pytest.raises(DataError, match=match):
            RankingDataset.from_arrays(table, [1] * len(table), group=[1])
    # Columns that are not there.
    for drop, column in (
        ({"drop": "y"}, "y"),
        ({"weight": "w"}, "w"),
        ({"label": "grade"}, "grade"),
    ):
        with pytest.raises(DataError, match=f"no column '{column}'"):
            RankingDataset.from_frame(
                pd.DataFrame({"label": [1.0], "qid": [1], "x": [1.0]}), **drop
            )
    with pytest.raises(DataError, match=r"categorical_feature: .*no feature 'y'"):
        RankingDataset.from_arrays(
            pd.DataFrame({"x": [1.0]}), [1], group=[1], categorical_feature=["y"]
        )
    with pytest.raises(DataError, match="no feature 1; positions end at 0"):
        RankingDataset.from_arrays(np.zeros((1, 1)), [1], group=[1], categorical_feature=[1])


def test_whole_numbers_that_float32_rounds_are_said() -> None:
    pl = pytest.importorskip("polars", reason="frames of polars")
    ids = np.array([[2**24 + 1, 1], [5, 2]])
    for rows in (
        ids,
        pl.DataFrame({"f1": ids[:, 0], "f2": ids[:, 1]}),
        pl.DataFrame({"f1": ids[:, 0], "f2": [0.5, 1]}),
    ):
        with pytest.warns(DataWarning, match="'f1': integers above 16,777,216 are rounded"):
            RankingDataset.from_arrays(rows, [0, 1], group=[2])


def test_labels_and_query_ids_may_be_columns_of_any_library() -> None:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    X = np.zeros((3, 1))
    with pytest.raises(DataError, match=r"row 1 .*label nan"):
        RankingDataset.from_arrays(X, pd.array([1, None, 2], dtype="Int64"), group=[3])
    with pytest.raises(DataError, match="labels must be numbers"):
        RankingDataset.from_arrays(X, ["a", "b", "c"], group=[3])
    with pytest.raises(DataError, match=r"row 1 .*query id"):
        RankingDataset.from_arrays(
            X, [1, 2, 0], qid=pd.array([7, None, 7], dtype="Int64"), sort=True
        )


@pytest.mark.parametrize("value", [[1], {}, {1}, np.ones(2)])
def test_a_value_that_holds_several_is_no_category(value: Any) -> None:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    frame = pd.DataFrame({"c": np.fromiter([value] * N, object, N)})
    with pytest.raises(
        DataError,
        match=f"'c' .*type {type(value).__name__}, ",
    ):
        RankingDataset.from_arrays(frame, LABELS, group=GROUP, categorical_feature=["c"])


def test_a_column_of_structs_is_no_number() -> None:
    pl = pytest.importorskip("polars", reason="frames of polars")
    frame = pl.DataFrame({"c": [{"a": 1}] * N, "number": range(N), "qid": [0] * N})
    with pytest.raises(DataError, match="column 'c' contains Struct"):
        RankingDataset.from_arrays(frame, LABELS, group=GROUP)
    with pytest.raises(DataError, match="column 'c' contains Struct"):
        RankingDataset.from_frame(frame, label="c")


def test_whole_numbers_of_any_size_are_categories() -> None:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    frame = pd.DataFrame({"c": np.fromiter((2**70 + i for i in range(N)), object, N)})
    data = RankingDataset.from_arrays(frame, LABELS, group=GROUP, categorical_feature=["c"])
    assert data.categories["c"].values == tuple(2**70 + i for i in range(N))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"label": "grade"}, "no column 'grade'"),
        ({"drop": None}, "drop .*list"),
        ({"categorical_feature": 3.5}, "categorical_feature=3.5 must be a list"),
    ],
)
def test_columns_are_named_by_lists(options: dict[str, Any], match: str) -> None:
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    frame = pd.DataFrame({"number": np.arange(N), "qid": 0, "label": LABELS})
    with pytest.raises(DataError, match=match):
        RankingDataset.from_frame(frame, **options)


def test_integers_of_128_bits_are_labels_and_ids() -> None:
    pl = pytest.importorskip("polars", reason="integers of 128 bits")
    columns = {"qid": [2**70, 2**70, 3], "label": [1, 0, 2], "a": [0.5, 1.5, 2.5]}
    frame = pl.DataFrame(columns, {"qid": pl.Int128, "label": pl.Int128, "a": pl.Float64})
    data = RankingDataset.from_frame(frame)
    assert data.labels.tolist() == [1, 0, 2]
    assert data.queries.qid.tolist() == [str(2**70), "3"]


def test_an_index_that_is_named_as_a_category_is_a_feature_in_any_list() -> None:
    pd = pytest.importorskip("pandas", reason="index of pandas")
    frame = pd.DataFrame({"index": [1, 2, 3], "qid": [1, 1, 2], "label": [0, 1, 2], "a": [1, 2, 3]})
    for named in (["index"], pd.Index(["index"]), np.array(["index"])):
        data = RankingDataset.from_frame(frame, categorical_feature=named)
        assert data.feature_names == ("index", "a")
        assert [*data.categories] == ["index"]
