"""What a sample says of a file, against what is in it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from boostrank import planning as surveying
from boostrank.core.errors import DataError, FileFormatError
from boostrank.data.assemble import read_files as read_libsvm
from boostrank.data.dataset import RankingDataset
from boostrank.data.text.writer import write_libsvm
from boostrank.planning import is_pipe, survey

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")

ROWS, COLUMNS, LIST = 6000, 12, 20


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 rows in lists of 20, one of them of 60; half of the cells 0, three columns of few values."""
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
    monkeypatch.setattr(surveying, "_PLACE_BYTES", 1 << 14)


def test_a_small_file_is_counted_exactly(file: Path) -> None:
    found, data = survey(file), read_libsvm(file)
    assert found.exact
    assert (found.rows, found.features) == data.features.shape
    assert (found.queries, found.longest) == (len(data.queries), int(data.queries.sizes.max()))
    assert found.text_bytes == found.disk_bytes == file.stat().st_size
    dense = data.features.toarray() if data.is_sparse else data.features
    assert found.nonzero == np.count_nonzero(dense) / dense.size
    assert found.is_sparse == data.is_sparse
    assert found.grades == {label: np.mean(data.labels == label) for label in np.unique(data.labels)}


@pytest.mark.usefixtures("small_sample")
def test_a_large_file_is_estimated_from_places_all_over_it(file: Path) -> None:
    found, data = survey(file), read_libsvm(file)
    assert not found.exact
    assert found.sampled_rows < ROWS / 2
    assert found.rows == pytest.approx(ROWS, rel=0.03)
    assert found.queries == pytest.approx(len(data.queries), rel=0.1)
    assert found.longest >= LIST
    assert found.features == COLUMNS
    assert found.nonzero == pytest.approx(0.5, abs=0.03)
    assert found.grades[0.0] == pytest.approx(0.6, abs=0.05)


def test_a_compressed_file_is_unpacked_at_its_beginning_and_scaled(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "SAMPLE_BYTES", 1 << 20)
    text = b"".join(file.read_bytes().replace(b"qid:", b"qid:%d" % i) for i in range(10))
    packed = tmp_path / "data.txt.gz"
    packed.write_bytes(gzip.compress(text, 1))
    found = survey(packed)
    assert not found.exact
    assert found.disk_bytes == packed.stat().st_size
    assert found.rows == pytest.approx(10 * ROWS, rel=0.2)
    assert found.text_bytes == pytest.approx(len(text), rel=0.2)


def test_a_small_compressed_file_is_counted_exactly(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "data.txt.gz"
    packed.write_bytes(gzip.compress(file.read_bytes(), 1))
    found = survey(packed)
    assert (found.exact, found.rows, found.queries) == (True, ROWS, survey(file).queries)


@pytest.mark.usefixtures("small_sample")
def test_of_a_pipe_nobody_knows_the_length(file: Path) -> None:
    stream = io.BytesIO(file.read_bytes())
    assert is_pipe(stream)
    found = survey(stream)
    assert (found.rows, found.queries, found.text_bytes) == (None, None, None)
    assert found.features == COLUMNS
    assert not is_pipe(file)


def test_a_short_stream_is_known_when_it_has_ended(file: Path) -> None:
    assert survey(io.BytesIO(file.read_bytes())).rows == ROWS


@pytest.mark.usefixtures("small_sample")
def test_several_files_are_one_data_set(file: Path, tmp_path: Path) -> None:
    parts = [tmp_path / f"{i}.txt" for i in range(3)]
    for i, part in enumerate(parts):
        part.write_text(file.read_text().replace("qid:", f"qid:{i}"))
    found = survey([str(part) for part in parts])
    assert found.files == 3
    assert found.rows == pytest.approx(3 * ROWS, rel=0.03)


def test_group_sizes_beside_the_file_count_the_queries(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("".join(f"{i % 2} 1:{i}\n" for i in range(30)))
    Path(f"{path}.query").write_text("10\n15\n5\n")
    found = survey(path)
    assert (found.rows, found.queries, found.longest) == (30, 3, 15)


@pytest.mark.parametrize(
    ("sizes", "words", "line"),
    [("9" * 20, "'9{20}'", 1), ("9" * 5000, "'9{40}'", 1), ("10\nten\n", "ten", 2), ("30\n0\n", "'0'", 2),
     ("10\n10\n", "sum to 20", 0)],
)  # fmt: skip
def test_fault_052_group_sizes_that_cannot_be_are_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: str, words: str, line: int
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("".join(f"{i % 2} 1:{i}\n" for i in range(30)))
    Path(f"{path}.query").write_text(sizes)
    with pytest.raises(FileFormatError, match=words) as caught:
        survey(path)
    assert (caught.value.file, caught.value.line) == (f"{path}.query", line)
    monkeypatch.setattr(surveying, "SAMPLE_BYTES", 40)  # of a part of the text nobody knows how many rows there are
    monkeypatch.setattr(surveying, "_PLACE_BYTES", 20)
    if line:
        with pytest.raises(FileFormatError, match=words):
            survey(path)
    else:
        assert survey(path).rows == 20
    Path(f"{path}.query").write_text("100\n" * 3)
    with pytest.raises(FileFormatError, match="sum to 300, but the data can have no more than"):
        survey(path)


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("1 qid:1 1:0.5\n0 qid:1 1:x\n2 qid:2 1:NULL\n")
    found = survey(path)
    assert (found.rows, found.refused_rows, found.queries) == (1, 2, 1)
    assert survey(path, missing_tokens=["NULL"]).refused_rows == 1


def test_a_file_without_a_readable_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("label query a\n1 2 0.5\n")
    with pytest.raises(DataError, match="no row of the sample"):
        survey(path)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(FileFormatError, match="zip"):
        survey(path)
