"""Session logs of every form are added up as a dictionary would."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from boostrank.clicks import tables
from boostrank.clicks.log import ClickLog
from boostrank.clicks.tables import count_clicks, read_clicks
from boostrank.core.errors import DataWarning, FileFormatError
from boostrank.files.tables import TableSource
from tests.cli.conftest import refuse, succeed


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "device": rng.choice(["mobile", "desktop"], 5_000),
            "row": rng.integers(1, 40, 5_000),
            "position": rng.integers(1, 6, 5_000),
            "clicked": rng.integers(0, 2, 5_000),
        }
    )
    table["qid"], table["doc"] = "q" + (table["row"] // 10).astype(str), table["row"] % 10
    return table


def twin(frame: pd.DataFrame) -> dict[tuple[int, int], tuple[int, int]]:
    impressions, clicks = Counter(), Counter()
    for row, position, clicked in zip(
        frame["row"], frame["position"], frame["clicked"], strict=True
    ):
        impressions[row - 1, position] += 1
        clicks[row - 1, position] += int(clicked)
    return {key: (impressions[key], clicks[key]) for key in impressions}


def entries(log: ClickLog) -> dict[tuple[int, int], tuple[int, int]]:
    keys = zip(log.rows.tolist(), log.positions.tolist(), strict=True)
    return dict(
        zip(keys, zip(log.impressions.tolist(), log.clicks.tolist(), strict=True), strict=True)
    )


def write(frame: pd.DataFrame, path: Path) -> Path:
    match path.suffix:
        case ".parquet":
            frame.to_parquet(path)
        case ".feather":
            frame.to_feather(path)
        case ".gz":
            path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
        case ending:
            separator = "\t" if ending == ".tsv" else ","
            frame.to_csv(path, index=False, sep=separator)
    return path


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.csv.gz", "log.parquet", "log.feather"])
def test_forms_are_added_up_alike(
    name: str, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableSource, "chunk_bytes", 4096)
    monkeypatch.setattr(tables, "_MANY", 4)
    path = write(frame, tmp_path / name)
    assert entries(count_clicks([path])) == twin(frame)
    half = (
        write(frame[:2_000], tmp_path / f"a-{name}"),
        write(frame[2_000:], tmp_path / f"b-{name}"),
    )
    assert entries(count_clicks(half)) == twin(frame)


def test_clicks_may_be_true_and_false(frame: pd.DataFrame, tmp_path: Path) -> None:
    other = frame.assign(clicked=frame["clicked"].astype(bool))
    assert entries(count_clicks([write(other, tmp_path / "log.parquet")])) == twin(frame)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_documents_may_go_by_keys(ending: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    data = frame[["row", "qid", "doc"]].drop_duplicates("row").sample(frac=1.0, random_state=1)
    row_numbers = dict(zip(data["row"], range(len(data)), strict=True))
    expected = {
        (row_numbers[row + 1], position): counts for (row, position), counts in twin(frame).items()
    }
    log, table = write(frame, tmp_path / f"log.{ending}"), write(data, tmp_path / f"data.{ending}")
    counted = count_clicks([log], table)
    assert entries(counted) == expected
    assert counted.n_documents == len(data)
    fewer = write(data[data["row"] != 7], tmp_path / f"fewer.{ending}")
    first = int(np.flatnonzero(frame["row"] == 7)[0]) + 1
    where = rf"row {first:,}" if ending == "parquet" else rf"log\.csv:{first + 1}"
    with pytest.warns(DataWarning, match=rf"{where}: .*q0, 7"):
        assert count_clicks([log], fewer).impressions.sum() == (frame["row"] != 7).sum()
    twice = write(pd.concat([data, data[:1]]), tmp_path / f"twice.{ending}")
    with pytest.raises(FileFormatError, match="two rows"):
        count_clicks([log], twice)
    nameless = write(data.rename(columns={"doc": "thing"}), tmp_path / f"nameless.{ending}")
    with pytest.raises(FileFormatError, match=r"nameless.*such as qid and doc_id.*thing"):
        count_clicks([log], nameless)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("0,1,0", r"row is 0, and must be a whole number from 1"),
        ("1,0,0", r"position is 0"),
        ("1,10001,0", r"position is 10001, and must be a whole number from 1 to 10,000"),
        ("1,1,2", r"clicked is 2, and must be a whole number from 0 to 1"),
        ("1,1,-1", r"clicked is -1"),
        ("1,,1", r"position is missing"),
        ("1,1,", r"clicked is missing"),
        ("1,1,yes", r"value 'yes' of column 'clicked' is not a number"),
        ("1,1.5,0", r"position is 1\.5"),
        ("1,one,0", r"value 'one' of column 'position' is not a number"),
        ("1,1", r"the row has 2 cells, but the first line has 3 names"),
    ],
)
def test_a_cell_that_cannot_be_is_refused_by_file_and_line(
    cells: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"row,position,clicked\n1,1,0\n2,1,1\n{cells}\n")
    with pytest.raises(FileFormatError, match=rf"log\.csv:4: {words}"):
        count_clicks([path])


def test_a_cell_of_a_file_without_lines_is_refused_by_its_row(tmp_path: Path) -> None:
    for column, values, words in (
        ("position", [1, 2, 0], "row 3: position is 0"),
        ("position", [1.0, None, 1.0], "row 2: position is missing"),
        ("clicked", [0, 1, 2], "row 3: clicked is 2"),
        ("row", [0.5, 1.0, 1.0], "row 1: row is 0.5"),
        ("clicked", ["0", "1", "x"], "column 'clicked' is of type"),
        ("clicked", [0, None, 1], "row 2: clicked is missing"),
    ):
        table = pd.DataFrame(
            {"row": [1, 2, 3], "position": [1, 1, 1], "clicked": [0, 0, 1]} | {column: values}
        )
        with pytest.raises(FileFormatError, match=rf"log\.parquet: {words}"):
            count_clicks([write(table, tmp_path / "log.parquet")])


def test_summed_rows_are_a_log(frame: pd.DataFrame, tmp_path: Path) -> None:
    summed = frame.groupby(["row", "position"], as_index=False).agg(
        impressions=("clicked", "size"), clicks=("clicked", "sum")
    )
    assert entries(read_clicks(write(summed, tmp_path / "log.parquet"), 40)) == twin(frame)
    summed.loc[4, "clicks"] = summed.loc[4, "impressions"] + 1
    with pytest.raises(FileFormatError, match=r"log\.csv:6: \d+ clicks"):
        read_clicks(write(summed, tmp_path / "log.csv"))


def test_true_and_false_may_be_words(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("row,position,clicked\n1,1,True\n1,1,false\n2,1,1\n")
    assert entries(count_clicks([path])) == {(0, 1): (2, 1), (1, 1): (1, 1)}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.csv", b"row,position\n1,1\n", "'clicked'"),
        ("log.csv", b"", "the file is empty"),
        ("log.parquet", b"PAR1", "cannot be read"),
        ("log.feather", b"ARROW1 no", "cannot be read"),
        ("log.svm", b"1 qid:1\n", "not recognised as CSV"),
        ("log.csv.gz", b"\x1f\x8bno", "gzip"),
        ("log.csv", b"row,position,clicked,row\n", "'row'"),
    ],
)
def test_a_file_that_is_none_is_refused(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=words):
        count_clicks([path])


def test_the_command_writes_the_log(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = write(frame, tmp_path / "log.csv")
    succeed("data", "count-clicks", path, "-o", tmp_path / "out.clicks")
    assert entries(read_clicks(tmp_path / "out.clicks")) == twin(frame)
    table = write(frame.drop_duplicates("row"), tmp_path / "documents.csv")
    succeed("data", "count-clicks", path, "--documents", table, "-o", tmp_path / "by.clicks")
    assert read_clicks(tmp_path / "by.clicks").impressions.sum() == len(frame)
    refused = refuse("data", "count-clicks", path, "-o", tmp_path / "no.clicks", "--row", "item")
    assert "--row" in refused.stderr
    assert not (tmp_path / "no.clicks").exists()


def test_one_file_needs_no_list(tmp_path: Path) -> None:
    path = tmp_path / "sessions.csv"
    path.write_text("row,position,clicked\n1,1,1\n2,2,0\n")
    log = count_clicks(path)
    assert repr(count_clicks(str(path))) == repr(log)
    assert (log.impressions.sum(), log.clicks.sum()) == (2, 1)
