"""A row that cannot be used is told by the file and the line that it was read from, however it was
read.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, FileFormatError
from boostrank.data.dataset import RankingDataset
from boostrank.metrics import BoundMetrics

BAD = 7
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a file of nine rows, three a query, of which row 7 (from 0) has a label of its own."""

    def write(
        name: str = "t.txt",
        label: str = "-1",
        sep: str = " ",
        line: str = "{label} qid:{q} 1:{i}",
        head: str = "",
        before: dict[int, str] | None = None,
    ) -> Path:
        labels: list[Any] = [i % 3 for i in range(9)]
        labels[BAD] = label
        rows = [line.format(label=labels[i], q=i // 3, i=i) for i in range(9)]
        text = head + "".join((before or {}).get(i, "") + row + "\n" for i, row in enumerate(rows))
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def refused(data: RankingDataset, words: str) -> None:
    row = int(np.argmin(data.labels))
    assert data.labels[row] == -1
    with pytest.raises(DataError, match=f"{words}: label -1 is negative"):
        boostrank.Objective("lambdarank").bind(data.labels, data.queries)
    with pytest.raises(DataError, match=f"{words}: label -1 is negative"):
        BoundMetrics("err", data.labels, data.queries)


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=pytest.mark.fault(n))
        for n, label in ((25, "-1"), (26, "0.5"), (27, "1e30"))
    ],
)
@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_a_label_that_the_objective_does_not_take_is_told_by_its_line(
    make: Make, label: str, backend: str
) -> None:
    data = boostrank.read(make(label=label))
    gain = "0,1,3" if label == "0.5" else "exponential"
    with pytest.raises(
        FileFormatError, match=rf"t\.txt:8: query 2: label {re.escape(f'{float(label):g}')} "
    ):
        boostrank.train(
            {"objective": "lambdarank", "gain": gain}, data, 1, backend=backend, start="none"
        )


def test_lines_without_rows_are_counted(make: Make) -> None:
    refused(
        boostrank.read(make(head="# about\n\n", before={6: "# a query\n"})), r"t\.txt:11: query 2"
    )
    refused(boostrank.read(make(before={7: "\n"})), r"t\.txt:9: query 2")


def test_files_are_told_apart_also_where_their_sizes_are_beside_them(
    make: Make, tmp_path: Path
) -> None:
    first, second = make("a.txt", "1", line="{label} 1:{i}"), make("b.txt", line="{label} 1:{i}")
    for file in (first, second):
        Path(f"{file}.query").write_text("3\n3\n3\n")
    refused(boostrank.read([first, second]), r"b\.txt:8: query 5")
    refused(boostrank.read([second, first]), r"b\.txt:8: query 2")


def test_scattered_rows_are_told_as_they_stand_in_the_file(make: Make) -> None:
    with pytest.warns(boostrank.core.errors.DataWarning, match="regrouped"):
        data = boostrank.read(
            make(line="{label} qid:{i} 1:{i}", before={3: "1 qid:7 1:1\n"}), regroup=True
        )
    refused(data, r"t\.txt:9: query 7")


def test_tables_count_their_heading_and_blank_lines(make: Make) -> None:
    table = make("t.csv", line="{label},{q},{i}", head="label,qid,x\n", before={3: "\n"})
    with open(table, "a") as file:
        file.write("\n")
    refused(boostrank.read(table), r"t\.csv:10: query 2")


def test_rows_of_files_without_lines_are_counted_from_1(make: Make, tmp_path: Path) -> None:
    csv = pytest.importorskip("pyarrow.csv")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = csv.read_csv(make("t.csv", line="{label},{q},{i}", head="label,qid,x\n"))
    parquet.write_table(table, tmp_path / "t.parquet")
    refused(boostrank.read(tmp_path / "t.parquet"), r"t\.parquet: row 8: query 2")


def test_rows_on_disk_have_their_places_too(make: Make, tmp_path: Path) -> None:
    file = make(head="# about\n")
    refused(boostrank.stream(file, cache=tmp_path / "cache"), r"t\.txt:9: query 2")


def test_some_queries_keep_their_places_and_shuffled_rows_have_none(make: Make) -> None:
    data = boostrank.read(make())
    refused(data.take([2, 0]), r"t\.txt:8: query 2")
    refused(pickle.loads(pickle.dumps(data.take([2, 0]).take([0]))), r"t\.txt:8: query 2")
    refused(data.shuffled(np.random.default_rng(0)), r"row \d \(from 0, query \d\)")


def test_rows_of_arrays_are_counted_as_they_were_given() -> None:
    labels, arrays = [0, 1, -1, 0], {"X": np.ones((4, 1)), "qid": [2, 1, 2, 1]}
    refused(RankingDataset.from_arrays(y=labels, **arrays, sort=True), r"row 2 \(from 0, query 2\)")
    data: Any = RankingDataset.from_arrays(np.ones((4, 1)), labels, group=[2, 2])
    refused(data, r"row 2 \(from 0, query 1\)")
