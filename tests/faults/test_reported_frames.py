"""Frames that people passed: null numbers of every type, and lazy tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank import BoostRanker, RankingDataset
from boostrank.core.errors import DataError, DataWarning, InputError
from boostrank.data.frames import cut

LABELS = np.random.default_rng(1).integers(0, 3, 60)
QUERIES = np.repeat(np.arange(6), 10)
NUMBERS = np.random.default_rng(0).normal(size=(60, 2)).round(1)
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b"])
WHOLE = FRAME.assign(label=LABELS, qid=QUERIES)
SMALL = {"objective": "lambdarank", "min_child_samples": 2, "n_jobs": 1, "n_estimators": 3}


@pytest.fixture(scope="module")
def ranker() -> BoostRanker:
    return BoostRanker(**SMALL).fit(FRAME, LABELS, qid=QUERIES)


def arrow(type_name: str, *values: Any) -> Any:
    pa = pytest.importorskip("pyarrow", reason="Arrow tables")
    return pa.table(
        {"a": [0.5] * len(values), "b": pa.array(list(values), pa.type_for_alias(type_name))}
    )


def polars(type_name: str, *values: Any) -> Any:
    pl = pytest.importorskip("polars", reason="frames of polars")
    return pl.DataFrame(
        {"a": [0.5] * len(values), "b": pl.Series(list(values), dtype=getattr(pl, type_name))}
    )


def pandas(dtype: Any, *values: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": [0.5] * len(values), "b": pd.Series(list(values), dtype=dtype)})


NULLS: dict[str, Callable[[], Any]] = {
    "one JSON row": lambda: pd.DataFrame([{"a": 0.5, "b": None}]),
    "NA": lambda: pandas(object, pd.NA),
    "NaT": lambda: pandas(object, pd.NaT),
    "text without a value": lambda: pandas("str", None),
    "category without a value": lambda: pandas("category", None),
    "Int16": lambda: pandas("Int16", None),
    "boolean": lambda: pandas("boolean", None),
    "Float32": lambda: pandas("Float32", None),
    "polars Null": lambda: polars("Null", None),
    "polars String": lambda: polars("String", None),
    "polars Object": lambda: polars("Object", None),
    "Arrow null": lambda: arrow("null", None),
    "Arrow string": lambda: arrow("string", None),
    "Arrow dictionary": lambda: (t := arrow("string", None)).set_column(
        1, "b", t["b"].dictionary_encode()
    ),
    "array of objects": lambda: np.array([[0.5, pd.NA]], object),
    "list": lambda: [[0.5, None]],
}
SOME: dict[str, Callable[[], Any]] = {
    "NA and numbers": lambda: pandas(object, pd.NA, 1.5),
    "many types": lambda: pandas(object, None, np.float16(1.5)),
    "Decimal": lambda: pandas(object, None, Decimal("1.5")),
    "float16": lambda: pandas(np.float16, np.nan, 1.5),
    "longdouble": lambda: pandas(np.longdouble, np.nan, 1.5),
    "polars Decimal": lambda: polars("Decimal", None, Decimal("1.5")),
    "polars Object": lambda: polars("Object", None, 1.5),
    "array of Decimal": lambda: np.array([[0.5, None], [0.5, Decimal("1.5")]], object),
}


@pytest.mark.parametrize("name", NULLS)
def test_first_use_python_01_a_null_is_a_missing_number(name: str, ranker: BoostRanker) -> None:
    missing = ranker.predict(pd.DataFrame({"a": [0.5], "b": [np.nan]}))
    for scores in (ranker.predict(NULLS[name]()), ranker.model_.predict(NULLS[name]())):
        np.testing.assert_array_equal(scores, missing)


@pytest.mark.parametrize("name", SOME)
def test_first_use_python_01_nulls_beside_numbers_are_missing(
    name: str, ranker: BoostRanker
) -> None:
    data = RankingDataset.from_arrays(SOME[name](), [0, 1], group=[2])
    np.testing.assert_array_equal(data.features[:, 1], [np.nan, 1.5])
    expected = ranker.predict(pd.DataFrame({"a": [0.5, 0.5], "b": [np.nan, 1.5]}))
    np.testing.assert_array_equal(ranker.predict(SOME[name]()), expected)


def test_first_use_python_01_integers_of_128_bits_are_numbers() -> None:
    features = RankingDataset.from_arrays(polars("Int128", None, 3), [0, 1], group=[2]).features
    np.testing.assert_array_equal(features[:, 1], [np.nan, 3])


@pytest.mark.parametrize("null", [None, pd.NA, np.nan])
def test_first_use_python_01_a_column_of_nulls_trains_as_missing(null: Any) -> None:
    frame = FRAME.assign(c=pd.Series([null] * 60, dtype=object))
    held_out = [(frame[:20], LABELS[:20])]
    fitted = BoostRanker(**SMALL).fit(
        frame, LABELS, qid=QUERIES, eval_set=held_out, eval_qid=[QUERIES[:20]]
    )
    assert len(fitted.evals_result_["valid_0"]["ndcg@10"]) == 3
    np.testing.assert_array_equal(fitted.predict(frame), fitted.predict(frame.assign(c=7.0)))
    data = RankingDataset.from_frame(frame.assign(label=LABELS, qid=QUERIES))
    assert np.isnan(data.features[:, 2]).all()
    assert not data.categories


def test_first_use_python_01_a_null_is_a_missing_category() -> None:
    frame = FRAME.assign(b=pd.Categorical(np.where(NUMBERS[:, 1] > 0, "x", "y")))
    fitted = BoostRanker(**SMALL).fit(frame, LABELS, qid=QUERIES)
    missing = fitted.predict(pd.DataFrame({"a": [0.5], "b": pd.Categorical([None], ["x", "y"])}))
    for name in ("one JSON row", "NA", "Int16", "polars Null", "Arrow null", "Arrow dictionary"):
        np.testing.assert_array_equal(fitted.predict(NULLS[name]()), missing)


@pytest.mark.parametrize(
    ("values", "token"),
    [
        (["x", None], "'x'"),
        (["1.5", None], "'1.5'"),
        ([None, 1.0, "x"], "'x'"),
        ([b"1", None], "b'1'"),
        ([[1], None], "[1]"),
        ([1j, None], "1j"),
        ([10**400, None], "10000"),
    ],
)
def test_first_use_python_01_what_is_no_number_is_refused_by_column_and_token(
    values: list[Any], token: str, ranker: BoostRanker
) -> None:
    frame = pandas(object, *values)
    for door in (
        ranker.predict,
        lambda rows: RankingDataset.from_arrays(rows, [0] * len(values), group=[len(values)]),
    ):
        with pytest.raises(DataError) as caught:
            door(frame)
        assert "'b'" in str(caught.value)
        assert token in str(caught.value)


def duckdb_relation(frame: pd.DataFrame = WHOLE) -> Any:
    return pytest.importorskip("duckdb", reason="relations of DuckDB").connect().from_df(frame)


def polars_lazy(frame: pd.DataFrame = WHOLE) -> Any:
    return pytest.importorskip("polars", reason="frames of polars").from_pandas(frame).lazy()


def ibis_table(frame: pd.DataFrame = WHOLE) -> Any:
    pytest.importorskip("duckdb", reason="a backend of ibis")
    return pytest.importorskip("ibis", reason="tables of ibis").memtable(frame)


@pytest.mark.parametrize("lazy", [polars_lazy, duckdb_relation, ibis_table])
def test_first_use_python_12_lazy_tables_are_collected(
    lazy: Callable[..., Any], ranker: BoostRanker
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        data = RankingDataset.from_frame(lazy(), gain="label + 1")
    np.testing.assert_array_equal(data.features, RankingDataset.from_frame(WHOLE).features)
    np.testing.assert_array_equal(data.labels, LABELS + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        features = lazy(WHOLE[["a", "b", "qid"]])
        fitted = BoostRanker(**SMALL).fit(
            features, LABELS, eval_set=[(lazy(WHOLE[["a", "b", "qid"]]), LABELS)]
        )
        assert fitted.model_.to_bytes() == ranker.model_.to_bytes()
        for scores in (ranker.predict(features), ranker.model_.predict(features, qid=QUERIES)):
            np.testing.assert_array_equal(scores, ranker.predict(FRAME))


@pytest.mark.parametrize("lazy", [duckdb_relation, ibis_table])
def test_first_use_python_12_a_table_without_row_order_says_so(
    lazy: Callable[..., Any], ranker: BoostRanker
) -> None:
    with pytest.warns(DataWarning, match=r"order.*\.to_(arrow_table|pyarrow)\(\)"):
        ranker.predict(lazy())


@pytest.mark.parametrize("values", ["labels", "weights"])
def test_first_use_python_12_lazy_labels_are_refused(values: str) -> None:
    column = polars_lazy().select("label")
    columns = {"labels": {"y": column}, "weights": {"y": LABELS, "weight": column}}[values]
    with pytest.raises(DataError, match=rf"{values} .*LazyFrame.*collect"):
        RankingDataset.from_arrays(FRAME, qid=QUERIES, **columns)


def test_first_use_python_12_what_returns_a_table_is_refused_with_the_method(
    ranker: BoostRanker,
) -> None:
    dataset = pytest.importorskip("pyarrow.dataset", reason="data sets of Arrow").dataset(
        arrow("float64", 1.0)
    )
    for door in (
        ranker.predict,
        RankingDataset.from_frame,
        lambda rows: BoostRanker(**SMALL).fit(rows, LABELS),
    ):
        with pytest.raises(DataError, match=r"to_table\(\)"):
            door(dataset)


def test_first_use_python_12_a_stream_is_read_once(ranker: BoostRanker) -> None:
    pa = pytest.importorskip("pyarrow", reason="Arrow streams")
    reader = pa.table(FRAME).to_reader()
    np.testing.assert_array_equal(ranker.model_.predict(reader, qid=QUERIES), ranker.predict(FRAME))


TRAIN = RankingDataset.from_frame(
    WHOLE.assign(c=np.tile(["x", "y"], 30)), categorical_feature=["c"]
)


def test_first_use_python_11_a_frame_is_read_like_the_training_data() -> None:
    later = pd.DataFrame(
        {"c": ["y", None, "z"], "b": [1, None, 2], "qid": 1, "label": [0, 1, 2], "a": 0.5}
    )
    with pytest.warns(DataWarning, match="'z'"):
        data = RankingDataset.from_frame(later, like=TRAIN)
    assert (data.feature_names, data.categories) == (("a", "b", "c"), TRAIN.categories)
    np.testing.assert_array_equal(
        data.features, [[0.5, 1, 1], [0.5, np.nan, np.nan], [0.5, 2, np.nan]]
    )
    with pytest.warns(DataWarning) as caught:
        others = RankingDataset.from_frame(later.assign(other=1), like=TRAIN.feature_space)
    assert any("other" in str(warning.message) for warning in caught)
    np.testing.assert_array_equal(others.features, data.features)


@pytest.mark.parametrize(
    ("later", "token"),
    [(WHOLE, "'c'"), (WHOLE.assign(c=1), "'x'"), (WHOLE.assign(c="x", a="one"), "'one'")],
)
def test_first_use_python_11_a_frame_unlike_the_training_data_is_refused(
    later: pd.DataFrame, token: str
) -> None:
    with pytest.raises(DataError, match=token):
        RankingDataset.from_frame(later, like=TRAIN)


def test_first_use_python_12_a_lazy_table_is_not_dealt_to_local_workers() -> None:
    with pytest.raises(DataError, match=r"LazyFrame.*lazy.*collect"):
        cut(polars_lazy(), "qid", 2)


def test_first_use_python_12_an_arrow_column_is_no_table(ranker: BoostRanker) -> None:
    column = arrow("double", 1.0, 2.0)["b"].chunk(0)
    with pytest.raises(InputError, match="single column"):
        ranker.predict(column)


@pytest.mark.parametrize("value", [[1, 2], {"x": 1}, np.zeros(2)])
def test_first_use_python_01_several_values_in_a_cell_are_no_categories(value: Any) -> None:
    frame = FRAME.assign(b=pd.Series([value] * 60, dtype=object))
    with pytest.raises(InputError, match=r"'b'.*extract one value"):
        BoostRanker(**SMALL).fit(frame, LABELS, qid=QUERIES)


def test_first_use_python_09_columns_in_the_place_of_labels_are_refused() -> None:
    wide = np.reshape(LABELS, (30, 2))
    for arguments in ({"y": wide}, {"y": LABELS, "weight": wide + 1}):
        with pytest.raises(InputError, match=r"\(30, 2\)"):
            RankingDataset.from_arrays(FRAME, qid=QUERIES, **arguments)
    column = RankingDataset.from_arrays(FRAME, LABELS[:, None], qid=QUERIES)
    np.testing.assert_array_equal(column.labels, LABELS)


def test_first_use_python_09_a_frame_without_features_is_named() -> None:
    with pytest.raises(InputError, match="no features"):
        RankingDataset.from_frame(pd.DataFrame({"qid": QUERIES, "label": LABELS}))


@pytest.mark.parametrize("like", ["model.txt", 3, FRAME])
def test_first_use_python_11_like_must_be_training_data(like: Any, tmp_path: Path) -> None:
    table = FRAME.assign(qid=QUERIES, label=LABELS)
    table.to_csv(tmp_path / "d.csv", index=False)
    for read in (RankingDataset.from_frame, boostrank.read):
        source: Any = table if read != boostrank.read else tmp_path / "d.csv"
        with pytest.raises(InputError, match="like="):
            read(source, like=like)


@pytest.mark.parametrize("name", ["label", "qid", "drop", "categorical"])
def test_first_use_python_09_options_of_another_type_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    FRAME.assign(qid=QUERIES, label=LABELS).to_csv(path, index=False)
    for read in (boostrank.read, boostrank.train_files):
        with pytest.raises(InputError, match=f"{name}=3"):
            read(path, **{name: 3})
