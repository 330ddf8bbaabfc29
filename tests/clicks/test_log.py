"""Click logs: what is refused, what is added up, and the gains that they make."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset
from boostrank.clicks.log import ClickLog, Propensities
from boostrank.clicks.tables import read_clicks
from boostrank.core.errors import DataError, DataWarning, FileFormatError, ParameterError
from boostrank.files import chunks
from boostrank.files.tables import TableSource, batches
from tests.clicks.conftest import list_entries

LOG = ClickLog([2, 0, 0, 2, 4], [1, 2, 1, 1, 3], [4, 10, 5, 6, 2], [1, 2, 5, 2, 0], 6)
ENTRIES = [(0, 1, 5, 5), (0, 2, 10, 2), (2, 1, 10, 3), (4, 3, 2, 0)]
CURVE = Propensities([1.0, 0.5, 0.25])


def test_entries_are_sorted_and_added_up() -> None:
    assert list_entries(LOG) == ENTRIES
    assert LOG.shown.tolist() == [True, False, True, False, True, False]
    assert LOG.total_clicks().tolist() == [7, 0, 3, 0, 0, 0]
    assert LOG.depth == 3
    assert "27 impressions and 10 clicks of 3 of 6 documents, 3 positions" in repr(LOG)


@pytest.mark.parametrize("prior", [0.0, 1.0, 2.5])
def test_gains_are_clicks_over_exposure(prior: float) -> None:
    false = np.array([0.1, 0.05, 0.0])
    expected = np.full(6, np.nan)
    for row in {row for row, *_ in ENTRIES}:
        row_entries = [entry for entry in ENTRIES if entry[0] == row]
        exposure = sum(n * CURVE.examination[p - 1] for _, p, n, _ in row_entries)
        clicks = sum(c - n * false[p - 1] for _, p, n, c in row_entries)
        expected[row] = max(clicks, 0.0) / (exposure + prior)
    np.testing.assert_allclose(LOG.gains(Propensities(CURVE.examination, false), prior), expected)
    np.testing.assert_allclose(LOG.exposure(CURVE), [10.0, 0, 10.0, 0, 0.5, 0])


def test_positions_without_a_propensity_are_left_out_and_said() -> None:
    with pytest.warns(DataWarning, match="12 of 27 .*from 2"):
        gains = LOG.gains(Propensities([1.0, np.nan, np.nan, 0.25]), 0.0)
    np.testing.assert_allclose(gains, [1.0, np.nan, 0.3, np.nan, np.nan, np.nan])
    with pytest.warns(DataWarning, match="2 of 27"):
        LOG.gains(Propensities([1.0, 0.5]))


@pytest.mark.parametrize("prior", [-1.0, np.nan, np.inf])
def test_a_prior_is_a_number_of_at_least_0(prior: float) -> None:
    with pytest.raises(ParameterError, match="prior"):
        LOG.gains(CURVE, prior)


def test_the_training_set_has_what_was_shown_in_whatever_order_the_rows_lie() -> None:
    X = np.arange(12.0).reshape(6, 2)
    qid, scrambled = np.array([1, 1, 1, 2, 2, 3]), np.array([3, 0, 5, 1, 4, 2])
    straight = RankingDataset.from_arrays(X, np.zeros(6), qid=qid)
    data = RankingDataset.from_arrays(X[scrambled], np.zeros(6), qid=qid[scrambled], sort=True)
    assert data.input_rows is not None
    moved = LOG.renumbered(np.argsort(scrambled))
    for log, dataset in ((LOG, straight), (moved, data)):
        train = log.training_set(dataset, CURVE, 1.0)
        gains = dict(zip(train.features[:, 0].tolist(), train.labels.tolist(), strict=True))
        assert gains == pytest.approx({0.0: 7 / 11, 4.0: 3 / 11, 8.0: 0.0})
        sizes = dict(zip(train.queries.qid.tolist(), train.queries.sizes.tolist(), strict=True))
        assert sizes == {1: 2, 2: 1}
    naive = LOG.training_set(straight, None)
    assert naive.labels.tolist() == [7.0, 3.0, 0.0]


def test_the_training_set_forgets_another_gain_and_knows_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("".join(f"0 qid:1 1:{i}\n" for i in range(6)))
    data = boostrank.read(path).with_gain("2*label")
    train = LOG.training_set(data, CURVE)
    assert train.gain is None
    assert train.provenance.options["clicks"]["prior"] == 1.0
    with pytest.raises(ParameterError, match="integer grades"):
        boostrank.train({"objective": "lightgbm:rank_xendcg", "gain": "linear"}, train, 1)
    assert [train.queries.places(row)[1] for row in range(3)] == [
        data.queries.places(row)[1] for row in (0, 2, 4)
    ]


def test_weights_and_comments_stay_with_their_documents() -> None:
    data = RankingDataset.from_arrays(
        np.zeros((6, 1)),
        np.zeros(6),
        qid=[1, 1, 1, 2, 2, 3],
        weight=[1.0, 2.0, 3.0],
    )
    both = replace(data.queries, document_weights=np.arange(6.0))
    data = replace(data, queries=both)
    train = LOG.training_set(data, CURVE)
    assert train.document_weights.tolist() == [0.0, 2.0, 4.0]
    assert train.queries.weights.tolist() == [1.0, 2.0]


def test_a_log_of_other_documents_or_without_clicks_is_refused() -> None:
    data = RankingDataset.from_arrays(np.zeros((5, 1)), np.zeros(5), group=[5])
    with pytest.raises(DataError, match=r"6 documents.* 5"):
        LOG.training_set(data, CURVE)
    with pytest.raises(DataError, match="no clicks"):
        ClickLog([0], [1], [3], [0], 5).training_set(data, CURVE)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([6], [1], [1], [0]), r"entry 0 .*row is 7, .* 1 to 6"),
        (([-1], [1], [1], [0]), r"row is 0"),
        (([0], [0], [1], [0]), r"position is 0"),
        (([0], [10_001], [1], [0]), r"position is 10001"),
        (([0], [1], [9 * 10**18], [1]), r"impressions is 9"),
        (([0], [1], [2], [3]), r"3 clicks of 2 impressions"),
        (([0], [1], [2], [-1]), r"clicks is -1"),
        (([0.5], [1], [2], [1]), r"row is 1.5"),
        (([0], [1], [np.nan], [1]), r"impressions is missing"),
        (([0, 1], [1], [2], [1]), r"row int64\(2,\), position int64\(1,\)"),
        (([[0]], [1], [2], [1]), r"one-dimensional"),
        ((["a"], [1], [2], [1]), r"one-dimensional whole numbers"),
    ],
)
def test_entries_that_cannot_be_are_refused(columns: tuple[list[float], ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        ClickLog(*columns, 6)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "log.clicks"
    LOG.write(path)
    assert path.read_text().splitlines()[:2] == ["row,position,impressions,clicks", "1,1,5,5"]
    assert list_entries(read_clicks(path, 6)) == ENTRIES
    assert read_clicks(path).n_documents == 3
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert list_entries(read_clicks(path, 6)) == ENTRIES


def test_a_file_may_have_other_columns_and_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "log.clicks"
    path.write_text(
        "clicks,note,row,position,impressions\n5,x,1,1,5\n2,,1,2,10\r\n1,,3,1,4\n2,,3,1,6\n0,,5,3,2\n"
    )
    assert list_entries(read_clicks(path, 6)) == ENTRIES
    path.write_text("row,position,impressions,clicks\n1,1,0,0\n2,,0,0\n")
    assert list_entries(read_clicks(path, 6)) == []


def test_a_table_of_parquet_is_a_log_too(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows, *counts = zip(*ENTRIES, strict=True)
    columns = dict(zip(("position", "impressions", "clicks"), counts, strict=True))
    pandas.DataFrame({"row": [row + 1 for row in rows], **columns}).to_parquet(
        tmp_path / "log.clicks"
    )
    assert list_entries(read_clicks(tmp_path / "log.clicks", 6)) == ENTRIES


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("7,1,1,0", "row is 7, .* 1 to 6"),
        ("0,1,1,0", "row is 0"),
        ("1,0,1,0", "position is 0"),
        ("1,10001,1,0", "position is 10001"),
        ("1,1,1,2", "2 clicks of 1 impressions"),
        ("1,1,1", ""),
        ("1,1,1,0,9", ""),
        ("1,1,1.5,0", "impressions is 1.5"),
        ("1,1,,0", "impressions is missing"),
        ("1,1,-1,0", "impressions is -1"),
        ("1,1,x,0", "'x'"),
        ("99999999999999999999,1,1,0", "row"),
    ],
)
def test_a_line_that_cannot_be_is_refused_where_it_stands(
    line: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.clicks"
    path.write_text(f"row,position,impressions,clicks\n1,1,5,5\n{line}\n2,1,1,1\n")
    with pytest.raises(FileFormatError, match=f"log.clicks:3: .*{words}"):
        read_clicks(path, 6)


def test_a_file_without_its_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.clicks"
    path.write_text("row,position,impression,clicks\n1,1,5,5\n")
    with pytest.raises(FileFormatError, match=r"log\.clicks:1: .*'impressions'.*'impression'"):
        read_clicks(path)
    path.write_text("1 1 5 5\n")
    with pytest.raises(FileFormatError, match=r"log\.clicks"):
        read_clicks(path)


def test_an_endless_line_is_refused_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MAX_LINE", 1000)
    monkeypatch.setattr(TableSource, "chunk_bytes", 100)
    path = tmp_path / "log.clicks"
    path.write_text("row,position,impressions,clicks\n" + "1,1,5,5\n" * 20 + 2000 * "1")
    with pytest.raises(FileFormatError, match=r"log\.clicks:22: .*longer than"):
        list(batches(path, numbers=("row",)))


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.clicks"
    path.write_bytes(gzip.compress(b"row,position,impressions,clicks\n" + b"1,1,5,5\n" * 100)[:-9])
    with pytest.raises(FileFormatError, match=r"log\.clicks"):
        read_clicks(path, 6)


def test_small_integers_are_rows_too() -> None:
    rows = np.arange(256, dtype=np.uint8)
    ones = np.ones(256, np.uint8)
    assert ClickLog(rows, ones, ones, ones, 256).rows.tolist() == list(range(256))


def test_a_mask_selects_queries_and_their_clicks() -> None:
    data = RankingDataset.from_arrays(np.arange(6.0)[:, None], np.zeros(6), group=[2, 3, 1])
    part, log = LOG.of_queries(data, [False, True, False])
    assert part.features[:, 0].tolist() == [2, 3, 4]
    assert list_entries(log) == [(0, 1, 10, 3), (2, 3, 2, 0)]
