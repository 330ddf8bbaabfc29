"""Clicks in columns of the data's own table give what a log beside it gives."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.clicks.log import ClickLog, Propensities
from boostrank.clicks.tables import ClickColumns, ClickRows, from_frame
from boostrank.core.errors import DataError, FileFormatError
from boostrank.data.dataset import RankingDataset
from tests.cli.conftest import FEW, invoke, refuse, succeed

NAMES = ("position", "impressions", "clicks", "doc")


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """(a row a document, with its label; a row a document and position with impressions and clicks,
    shuffled within queries; 1 of 6 documents was never shown)."""
    rng = np.random.default_rng(5)
    documents = pd.DataFrame(
        {"qid": np.repeat(np.arange(120), 8), "doc": np.tile([f"d{i}" for i in range(8)], 120)}
    )
    documents["a"], documents["b"] = rng.random((2, 960)).astype(np.float32)
    # Each document is shown at two of four positions; clicks follow its value `a`.
    rows = []
    for i, (qid, doc, a, b) in enumerate(documents.itertuples(index=False)):
        if i % 6 == 5:
            rows.append((qid, doc, a, b, np.nan, 0, 0))
            continue
        for position in sorted(rng.choice(4, 2, replace=False) + 1):
            impressions = int(rng.integers(5, 30))
            rows.append(
                (
                    qid,
                    doc,
                    a,
                    b,
                    position,
                    impressions,
                    rng.binomial(impressions, (0.1 + 0.8 * a) / position),
                )
            )
    table = pd.DataFrame(rows, columns=["qid", "doc", "a", "b", *NAMES[:3]])
    table = table.iloc[np.lexsort((rng.random(len(table)), table["qid"]))].reset_index(drop=True)
    documents["label"] = 0
    return documents, table


def write(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".feather":
        table.to_feather(path)
    else:
        table.to_csv(path, index=False)
    return path


def twin(table: pd.DataFrame) -> dict[tuple[int, str], tuple[float, float]]:
    """(qid, doc) -> (clicks, exposure at eta 1)."""
    totals: dict[tuple[int, str], tuple[float, float]] = {}
    for row in table.itertuples():
        clicks, exposure = totals.get((row.qid, row.doc), (0.0, 0.0))
        looked_at = row.impressions / row.position if row.impressions else 0.0
        totals[row.qid, row.doc] = clicks + row.clicks, exposure + looked_at
    return totals


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather"])
def test_rows_of_a_document_are_put_together(
    name: str, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    documents, table = tables
    path = write(table, tmp_path / name)
    data = boostrank.read(path, drop=NAMES, format="auto", labelled=False)
    merged, log, kept = ClickRows.read(path, ClickColumns.from_names(NAMES)).of_data(data)
    first = table.drop_duplicates(["qid", "doc"])
    np.testing.assert_array_equal(kept, first.index)
    np.testing.assert_array_equal(merged.features, first[["a", "b"]].to_numpy(np.float32))
    assert merged.queries.sizes.tolist() == [8] * 120
    totals = twin(table)
    expected = [totals[key] for key in zip(first["qid"], first["doc"], strict=True)]
    np.testing.assert_allclose(log.total_clicks(), [clicks for clicks, _ in expected])
    np.testing.assert_allclose(
        log.exposure(Propensities.power(1.0, 4)), [exposure for _, exposure in expected]
    )
    assert log.n_documents == len(documents)
    alone, log_alone, all_rows = ClickRows.read(path, ClickColumns.from_names(NAMES[:3])).of_data(
        data
    )
    assert alone is data
    assert all_rows is None
    assert log_alone.shown.tolist() == (table["impressions"] > 0).tolist()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_data_frames_give_the_same_in_any_order(
    library: str, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    documents, table = tables
    scattered = table.sample(frac=1.0, random_state=3)
    frame = scattered
    if library != "pandas":
        module = pytest.importorskip(library)
        make = module.from_pandas if library == "polars" else module.Table.from_pandas
        frame = make(scattered.reset_index(drop=True))
    data, log = from_frame(frame, ClickColumns.from_names(NAMES), sort=True)
    train = log.training_set(data, Propensities.power(1.0, 4), 0.0)
    gains = {
        (qid, a): gain
        for qid, a, gain in zip(
            train.queries.row_ids(), train.features[:, 0], train.labels, strict=True
        )
    }
    cells = {(row.qid, row.doc): row.a for row in documents.itertuples()}
    expected = {(key[0], cells[key]): clicks / x for key, (clicks, x) in twin(table).items() if x}
    assert gains == pytest.approx(expected)


BAD = [
    ("clicks", 3, "3 clicks of 2 impressions"),
    ("clicks", -1, "clicks is -1"),
    ("clicks", np.nan, "clicks is missing"),
    ("impressions", 1.5, r"impressions is 1\.5"),
    ("impressions", np.nan, "impressions is missing"),
    ("impressions", -2, "impressions is -2"),
    ("position", 0, "position is 0"),
    ("position", 1.5, r"position is 1\.5"),
    ("position", np.nan, "position is missing"),
    ("doc", None, "doc is missing"),
]


@pytest.mark.parametrize(("column", "value", "words"), BAD)
def test_cells_that_cannot_be_are_refused_by_their_row(
    column: str, value: float | None, words: str, tmp_path: Path
) -> None:
    table = pd.DataFrame(
        {
            "qid": [1, 1, 1],
            "doc": ["x", "y", "z"],
            "a": [0.0, 1.0, 2.0],
            "position": [1.0, 2, 3],
            "impressions": [2.0, 2, 2],
            "clicks": [1.0, 0, 0],
        }
    )
    ClickRows.read(write(table, tmp_path / "good.csv"), ClickColumns.from_names(NAMES))
    table.loc[1, column] = value
    for name, where in (("t.csv", r"t\.csv:3"), ("t.parquet", r"t\.parquet: row 2")):
        with pytest.raises(FileFormatError, match=f"{where}: {words}"):
            ClickRows.read(write(table, tmp_path / name), ClickColumns.from_names(NAMES))
    with pytest.raises(DataError, match=rf"row 1 \(from 0\): {words}"):
        from_frame(table, ClickColumns.from_names(NAMES))


def test_words_are_no_counts_and_rows_of_other_data_are_refused(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "qid": [1, 1],
            "doc": ["x", "y"],
            "a": [0.0, 1.0],
            "position": [1, 2],
            "impressions": [2, 2],
            "clicks": ["many", "few"],
        }
    )
    with pytest.raises(DataError, match="column 'clicks'"):
        from_frame(table, ClickColumns.from_names(NAMES))
    table["clicks"] = [1, 0]
    rows = ClickRows.read(write(table, tmp_path / "t.csv"), ClickColumns.from_names(NAMES))
    other = RankingDataset.from_arrays(np.zeros((3, 1)), np.zeros(3), group=[3])
    with pytest.raises(DataError, match=r"2 rows of clicks.* 3 "):
        rows.of_data(other)
    data, log = from_frame(table.drop(columns="doc"), ClickColumns())
    assert (data.n_documents, log.clicks.tolist()) == (2, [1, 0])


def test_the_commands_take_columns_as_they_take_a_log(
    tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    """Propensities, training, validation and comparison say and write what they do of a log beside."""
    _, table = tables
    # The same clicks as a log beside a table with a row for each document.
    first = table.drop_duplicates(["qid", "doc"]).reset_index(drop=True)
    number = {key: i for i, key in enumerate(zip(first["qid"], first["doc"], strict=True))}
    shown_rows = table[table["impressions"] > 0]
    rows = [number[key] for key in zip(shown_rows["qid"], shown_rows["doc"], strict=True)]
    log = ClickLog(
        rows, shown_rows["position"], shown_rows["impressions"], shown_rows["clicks"], len(first)
    )
    beside = first.drop(columns=list(NAMES)).assign(label=0)
    ours, theirs = write(table, tmp_path / "t.parquet"), write(beside, tmp_path / "b.parquet")
    log.write(f"{theirs}.clicks")
    # Propensities.
    columns = ("--click-columns", ",".join(NAMES))
    printed = [
        invoke("data", "propensities", *words, "--json").stdout
        for words in ((ours, *columns), (f"{theirs}.clicks",))
    ]
    assert printed[0] == printed[1]
    # Training and validation: messages and models.
    messages = []
    for name, data, words in (("ours", ours, columns), ("theirs", theirs, ())):
        model = tmp_path / f"{name}.txt"
        result = succeed("train", data, "--clicks", *words, "--valid", data, "-m", model, *FEW)
        messages.append(
            re.findall(
                r"exposure-DCG.*|^last round.*(?:\n.*){2}", result.stderr.replace(str(data), "DATA")
            )
        )
    assert len(messages[0]) > 0
    assert messages[0] == messages[1]
    assert (tmp_path / "ours.txt").read_bytes() == (tmp_path / "theirs.txt").read_bytes()
    # Comparison, where scores of the columns are of their rows.
    np.savetxt(tmp_path / "scores.txt", table["a"])
    np.savetxt(tmp_path / "scores-first.txt", first["a"])
    compared = [
        invoke(
            "compare", tmp_path / scores, tmp_path / "ours.txt", data, "--clicks", *words, "--json"
        ).stdout
        for scores, data, words in (("scores.txt", ours, columns), ("scores-first.txt", theirs, ()))
    ]
    assert compared[0].replace("scores.txt", "").replace("t.parquet", "") == compared[1].replace(
        "scores-first.txt", ""
    ).replace("b.parquet", "")
    assert '"dcg@10"' in compared[0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--click-columns", "a,b,c"), "--click-columns is for --clicks"),
        (("--clicks", "--click-columns", "position,clicks"), "three or four names"),
        (("--clicks", "--click-columns", "position,impressions,clicks"), "is not a table"),
    ],
)
def test_columns_that_make_no_sense_are_refused(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    data = tmp_path / "t.txt"
    data.write_text("0 qid:1 1:1\n1 qid:1 1:2\n")
    result = refuse("train", data, *words, "-m", tmp_path / "m.txt", *FEW)
    assert reason in result.stderr
    table = tmp_path / "t.csv"
    table.write_text("qid,a,position,shown,clicks\n1,0,1,2,1\n")
    result = refuse(
        "train",
        table,
        "--clicks",
        "--click-columns",
        "position,impressions,clicks",
        "-m",
        tmp_path / "m",
    )
    assert f"--click-columns: {table}: no column" in result.stderr
    words = ("--clicks", "--click-columns", "position,shown,clicks", "--label", "clicks")
    result = refuse("train", table, *words, "-m", tmp_path / "m")
    assert "'clicks' is used for both" in result.stderr


@pytest.mark.parametrize("names", [NAMES, NAMES[:3]])
def test_queries_in_pieces_are_brought_together(
    names: tuple[str, ...], tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    """--regroup gives what the same table gives with the rows of each query together."""
    scattered = tables[1].sample(frac=1.0, random_state=3)
    if len(names) == 3:
        scattered = scattered.drop(columns="doc")
    order = {qid: i for i, qid in enumerate(dict.fromkeys(scattered["qid"]))}
    together = scattered.sort_values("qid", key=lambda ids: ids.map(order), kind="stable")
    Propensities.power(1.0, 4).write(tmp_path / "p.json")
    # Rows by themselves did not move.
    curve = () if len(names) > 3 else ("--propensities", tmp_path / "p.json")
    outcomes = []
    for name, table, more in (("scattered", scattered, ["--regroup"]), ("together", together, [])):
        data, model, scores = (
            write(table, tmp_path / f"{name}.csv"),
            tmp_path / f"{name}.txt",
            tmp_path / f"{name}.a",
        )
        np.savetxt(scores, table["a"])
        common = (data, "--clicks", "--click-columns", ",".join(names), *curve, *more)
        trained = succeed("train", *common, "-m", model, *FEW)
        messages = re.findall(r"propensities from .*|exposure-DCG.*", trained.stderr)
        if len(names) > 3:
            assert len(messages) > 1
            messages.append(invoke("compare", scores, model, *common, "--json").stdout)
            assert '"dcg@10"' in messages[-1]
        outcomes.append((model.read_bytes(), [message.replace(name, "") for message in messages]))
    assert outcomes[0] == outcomes[1]


def test_the_command_that_is_advised_can_be_run(tmp_path: Path) -> None:
    # Position 2 is seen a quarter as often, and the propensities in use say otherwise.
    rng = np.random.default_rng(1)
    rows = [
        (qid, doc, rng.random(), position, 50, rng.binomial(50, 0.5 / position**2))
        for qid in range(40)
        for doc in range(3)
        for position in (1, 2)
    ]
    table = tmp_path / "my table.csv"
    pd.DataFrame(rows, columns=["query", "doc", "a", "at", "n, shown", "clicks"]).to_csv(
        table, index=False
    )
    Propensities([1.0, 1.0]).write(tmp_path / "flat.json")
    words = ("--click-columns", 'at,"n, shown",clicks,doc', "--qid", "query")
    result = succeed(
        "train",
        table,
        "--clicks",
        *words,
        "--propensities",
        tmp_path / "flat.json",
        "-m",
        tmp_path / "m.txt",
        *FEW,
    )
    # The advice estimates it.
    advised = re.search(r"`boostrank (data propensities .*?)`", result.stderr)
    assert advised
    succeed(*shlex.split(advised[1]), "-o", tmp_path / "estimated.json")
    assert Propensities.read(str(tmp_path / "estimated.json")).examination[1] < 0.5
