"""What a sample says of a file, against what is in it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from boostrank import routes as surveying
from boostrank.core.errors import DataError, FileFormatError
from boostrank.data.dataset import RankingDataset
from boostrank.files import chunks
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.writer import write_libsvm
from boostrank.routes import is_pipe, survey

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")

ROWS, COLUMNS, LIST = 6000, 12, 20


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 rows in lists of 20, one of them of 60; half of the cells 0, three columns of few
    values.
    """
    rng = np.random.default_rng(1)
    features = np.round(rng.random((ROWS, COLUMNS)), 6)
    features[:, :3] = rng.integers(1, 5, (ROWS, 3))
    features[rng.random(features.shape) < 0.5] = 0.0
    labels = rng.choice([0.0, 1.0, 2.0], ROWS, p=[0.6, 0.3, 0.1])
    sizes = [60, *[LIST] * ((ROWS - 60) // LIST)]
    path: Path = tmp_path_factory.mktemp("survey") / "data.txt"
    write_libsvm(path, RankingDataset.from_arrays(features.astype(np.float32), labels, group=sizes))
    return path


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample that the file is several times larger than."""
    monkeypatch.setattr(surveying, "SAMPLE_BYTES", 1 << 17)
    monkeypatch.setattr(surveying, "_CHUNK_BYTES", 1 << 14)


def test_a_small_file_is_counted_exactly(file: Path) -> None:
    surveyed, data = survey(file), read_libsvm(file)
    assert surveyed.exact
    assert (surveyed.rows, surveyed.features) == data.features.shape
    dense = data.features.toarray() if data.is_sparse else data.features
    assert surveyed.nonzero == np.count_nonzero(dense) / dense.size
    assert surveyed.is_sparse == data.is_sparse


@pytest.mark.usefixtures("small_sample")
def test_a_large_file_is_estimated_from_its_beginning(file: Path) -> None:
    surveyed = survey(file)
    assert not surveyed.exact
    assert surveyed.sampled_rows < ROWS / 2
    assert surveyed.rows == pytest.approx(ROWS, rel=0.03)
    assert surveyed.features == COLUMNS
    assert surveyed.nonzero == pytest.approx(0.5, abs=0.03)


@pytest.mark.usefixtures("small_sample")
def test_many_small_files_are_estimated_from_a_few(file: Path, tmp_path: Path) -> None:
    for number in range(100):
        lines = file.read_bytes().splitlines(keepends=True)[60 + 40 * number :][:40]
        (tmp_path / f"part-{number:02}.txt").write_bytes(b"".join(lines))
    surveyed = survey(str(tmp_path / "part-*.txt"))
    assert not surveyed.exact
    assert surveyed.sampled_rows < 4_000
    assert surveyed.rows == pytest.approx(4_000, rel=0.05)


def test_a_compressed_file_is_unpacked_at_its_beginning_and_scaled(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "SAMPLE_BYTES", 3 << 20)
    text = b"".join(file.read_bytes().replace(b"qid:", b"qid:%d" % i) for i in range(10))
    packed = tmp_path / "data.txt.gz"
    packed.write_bytes(gzip.compress(text, 1))
    surveyed = survey(packed)
    assert not surveyed.exact
    assert surveyed.rows == pytest.approx(10 * ROWS, rel=0.2)


def test_a_small_compressed_file_is_counted_exactly(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "data.txt.gz"
    packed.write_bytes(gzip.compress(file.read_bytes(), 1))
    surveyed = survey(packed)
    assert (surveyed.exact, surveyed.rows) == (True, ROWS)


@pytest.mark.usefixtures("small_sample")
def test_of_a_pipe_nobody_knows_the_length(file: Path) -> None:
    stream = io.BytesIO(file.read_bytes())
    assert is_pipe(stream)
    surveyed = survey(stream)
    assert surveyed.rows is None
    assert surveyed.features == COLUMNS
    assert not is_pipe(file)


def test_a_short_stream_is_known_when_it_has_ended(file: Path) -> None:
    assert survey(io.BytesIO(file.read_bytes())).rows == ROWS


@pytest.mark.usefixtures("small_sample")
def test_several_files_are_one_data_set(file: Path, tmp_path: Path) -> None:
    parts = [tmp_path / f"{i}.txt" for i in range(3)]
    for i, part in enumerate(parts):
        part.write_text(file.read_text().replace("qid:", f"qid:{i}"))
    surveyed = survey([str(part) for part in parts])
    assert surveyed.rows == pytest.approx(3 * ROWS, rel=0.03)


@pytest.mark.usefixtures("small_sample")
def test_many_tables_that_know_their_rows_are_one_data_set(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    values = np.random.default_rng(1).random(2000)
    table = pa.table({"label": values.round(), "qid": np.arange(2000) // 20, "a": values})
    for i in range(5):
        parquet.write_table(table, tmp_path / f"{i}.parquet")
    assert survey(str(tmp_path / "*.parquet")).rows == pytest.approx(10_000, rel=0.03)


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("1 qid:1 1:0.5\n0 qid:1 1:x\n2 qid:2 1:NULL\n")
    surveyed = survey(path)
    assert (surveyed.rows, surveyed.refused_rows) == (1, 2)
    assert survey(path, missing_tokens=["NULL"]).refused_rows == 1


def test_a_file_without_a_readable_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("label query a\n1 2 0.5\n")
    with pytest.raises(DataError, match=r"no row .*sample"):
        survey(path)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(FileFormatError, match="zip"):
        survey(path)


@pytest.mark.usefixtures("small_sample")
def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_LINE", 1 << 15)
    path = tmp_path / "data.txt.gz"
    path.write_bytes(gzip.compress(b"1 qid:1 1:0.5\n0 qid:1 1:0" + b"1" * (1 << 16)))
    with pytest.raises(FileFormatError, match="longer than"):
        survey(path)
