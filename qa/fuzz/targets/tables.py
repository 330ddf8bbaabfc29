"""CSV, TSV, Parquet and Arrow files: numbers as Python reads them, or refused; damaged files are
never more.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
from hypothesis import strategies as st

import boostrank
from boostrank.data.dataset import RankingDataset
from qa.fuzz.cases import NUMBERS, WORDS, PromiseBroken, damaged, may_refuse
from tests.data.conftest import dense

_GOOD = st.one_of(
    st.floats(-1e30, 1e30).map(repr),
    st.integers(-(2**24), 2**24).map(str),
    st.sampled_from(["nan", ""]),
)
_CELL = st.one_of(_GOOD, _GOOD, _GOOD, st.sampled_from([*NUMBERS, *WORDS, '"1"', '"a""b"', "NULL"]))
_TYPES = [
    "float64",
    "float32",
    "int64",
    "uint64",
    "int8",
    "bool",
    "string",
    "dictionary",
    "date",
    "list",
    "null",
]
_HEADER = st.sampled_from(
    ["label", "qid", "query", "a", "b", "c", "A", "", "label ", "größe", '"x,y"', "1", "weight"]
)


@st.composite
def _texts(draw: Any, delimiter: str) -> bytes:
    columns = draw(
        st.one_of(st.just(["label", "qid", "a", "b"]), st.lists(_HEADER, min_size=1, max_size=5))
    )
    lines = [delimiter.join(columns)]
    for i in range(draw(st.integers(0, 5))):
        cells = [str(i % 3), str(1 + i // 3), *(draw(_CELL) for _ in columns[2:])][: len(columns)]
        if draw(st.integers(0, 5)) == 0:
            cells[draw(st.integers(0, len(cells) - 1))] = draw(_CELL)
        lines.append(delimiter.join(cells))
    ending = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    body = (ending.join(lines) + draw(st.sampled_from([ending, ""]))).encode(
        "utf-8", "surrogatepass"
    )
    return body if draw(st.booleans()) else draw(damaged(body))


cases = st.one_of(
    st.fixed_dictionaries({"ending": st.just("csv"), "body": _texts(",")}),
    st.fixed_dictionaries({"ending": st.just("tsv"), "body": _texts("\t")}),
    st.fixed_dictionaries(
        {
            "ending": st.sampled_from(["parquet", "feather", "arrows"]),
            "body": st.just(b""),
            "types": st.lists(st.sampled_from(_TYPES), max_size=4),
            "key_types": st.sampled_from(
                [("int64", "int64"), ("float64", "string"), ("bool", "uint64")]
            ),
            "nulls": st.lists(st.integers(0, 40), max_size=3),
            "flips": st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=3),
            "cut": st.one_of(st.just(0), st.just(0), st.integers(1, 60)),
        }
    ),
)


def check(ending: str, body: bytes, **contents: Any) -> None:
    path = Path(f"table.{ending}")
    if contents:
        _write(path, **contents)
    else:
        path.write_bytes(body)
    with may_refuse():
        data = boostrank.read(path, threads=1)
        if len(data.labels) != data.n_documents or not np.isfinite(data.labels).all():
            raise PromiseBroken("labels that are no numbers")
        if not contents:
            delimiter = "," if ending == "csv" else "\t"
            _compare(data, body, delimiter)


def _compare(data: RankingDataset, body: bytes, delimiter: str) -> None:
    """Cells without quotes, as `float` reads them; true and false are 1 and 0."""
    if b'"' in body or data.categorical or b"\r" in body.replace(b"\r\n", b""):
        return
    lines = [line for line in body.decode("utf-8-sig").replace("\r\n", "\n").split("\n") if line]
    names, *rows = [line.split(delimiter) for line in lines]
    if len(rows) != data.n_documents:
        raise PromiseBroken("another number of rows than lines")
    table = dense(data)
    for j, name in enumerate(data.feature_names):
        if names.count(name) != 1:
            continue
        for i, row in enumerate(rows):
            text = row[names.index(name)]
            if (word := text.strip().lower()) in (
                "",
                "nan",
                "null",
                "na",
                "+nan",
                "-nan",
                "n/a",
                "none",
            ):
                expected = math.nan
            else:
                expected = float({"true": 1, "false": 0}.get(word, text))
            with np.errstate(over="ignore"):
                if not np.array_equal(np.float32(expected), table[i, j], equal_nan=True):
                    raise PromiseBroken(f"another number than float's: {text!r} {table[i, j]!r}")


def _write(
    path: Path,
    types: list[str],
    key_types: tuple[str, str],
    nulls: list[int],
    flips: list[tuple[int, int]],
    cut: int,
) -> None:
    kinds = [*key_types, *types]
    columns = {}
    for j, (name, kind) in enumerate(
        zip(["label", "qid", "a", "b", "c", "d"], kinds, strict=False)
    ):
        numbers = [i // 3 if j == 1 else i % 3 for i in range(6)]
        values = [
            None if 6 * j + i in nulls else _value(kind, number) for i, number in enumerate(numbers)
        ]
        columns[name] = pa.array(values, _arrow_type(kind))
    table = pa.table(columns)
    match path.suffix:
        case ".parquet":
            parquet.write_table(table, path, row_group_size=4)
        case ".feather":
            feather.write_feather(table, str(path), compression="uncompressed")
        case _:
            with pa.ipc.new_stream(str(path), table.schema) as stream:
                stream.write_table(table)
    body = bytearray(path.read_bytes())
    for at, byte in flips:
        body[at % len(body)] ^= byte
    path.write_bytes(bytes(body[: len(body) - cut]))


def _arrow_type(kind: str) -> Any:
    arrow_types = {
        "dictionary": pa.dictionary(pa.int8(), pa.string()),
        "date": pa.date32(),
        "list": pa.list_(pa.int8()),
    }
    return (
        arrow_types[kind]
        if kind in arrow_types
        else getattr(pa, {"bool": "bool_"}.get(kind, kind))()
    )


def _value(kind: str, number: int) -> Any:
    if kind == "null":
        return None
    if kind in ("string", "dictionary"):
        return f"x{number}"
    return {
        "bool": bool(number % 2),
        "list": [number],
        "float64": number + 0.1,
        "float32": number + 0.5,
    }.get(kind, number)
