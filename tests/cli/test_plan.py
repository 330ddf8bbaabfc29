"""The plan in `boostrank train`, and the memory limit: routes, estimates, refusals.

`make experiment NAME=bench-scale` compares the estimates with measured peaks.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.files.writer import write_libsvm
from boostrank.routes import Work, routes_of, survey
from tests.cli.conftest import FEW, invoke, messages, refuse, succeed

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")

ROWS, COLUMNS, LIST, LEAVES = 32_000, 120, 40, 31
TRAIN = ("--quality", "plain", "--rounds", "2", "--num-leaves", LEAVES, "--threads", "2")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """32,000 rows x 120, 32 MB: whole numbers, zeros and six-digit fractions."""
    rng = np.random.default_rng(1)
    path: Path = tmp_path_factory.mktemp("plan") / "large.txt"
    part = path.with_suffix(".part")
    with path.open("wb") as out:
        for shard in range(4):
            rows = ROWS // 4
            features = np.round(rng.random((rows, COLUMNS)), 6)
            features[:, ::4] = rng.integers(0, 200, features[:, ::4].shape)
            features[:, 1::2][rng.random(features[:, 1::2].shape) < 0.8] = 0.0
            queries = QueryIndex.from_sizes(np.full(rows // LIST, LIST))
            ids = np.arange(len(queries), dtype=np.int64) + shard * rows
            labels = np.floor(3 * features[:, 2] + rng.random(rows))
            write_libsvm(
                part,
                RankingDataset(features.astype(np.float32), labels, QueryIndex(queries.ptr, ids)),
            )
            out.write(part.read_bytes())
    return path


def test_fault_80_under_a_limit_the_route_is_chosen_that_stays_below_it(
    large: Path, tmp_path: Path
) -> None:
    work = Work(train=survey(str(large)))
    in_memory, bins = [route.peak for route in routes_of(work)[:2]]
    limit = round((bins + in_memory) / 2)
    assert bins < limit < in_memory
    train = (
        "train",
        large,
        "--model",
        tmp_path / "m",
        "--memory-limit",
        limit,
        "--cache",
        "none",
        *TRAIN,
    )
    result = succeed(*train)
    assert "streamed into bins" in result.stderr


def test_fault_80_a_limit_that_nothing_holds_is_refused_before_anything_is_read(
    large: Path, tmp_path: Path
) -> None:
    result = invoke("train", large, "--model", tmp_path / "m", "--memory-limit", "100MB")
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.search(
        r"error: training would take about \d+ MB .* --memory-limit is 100 MB: ", result.stderr
    )
    assert "read in" not in result.stderr
    assert not (tmp_path / "m").exists()


def test_train_begins_with_the_plan(data: Path, tmp_path: Path) -> None:
    result = invoke("train", data / "train.txt", "--model", tmp_path / "m", *FEW)
    first = messages(result)[0]
    assert re.fullmatch(
        r"plan: \d+ rows x \d+ features, floats in memory: \d+ MB "
        r"\(it fits in half of the \S+ [MG]B that are free\)",
        first,
    )


def test_a_file_that_cannot_be_read_is_refused_by_the_reader_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.txt"
    file.write_text("1 qid:1 1:x\n")
    result = refuse("train", file, "--model", tmp_path / "m", *FEW)
    assert f"{file}:1:" in result.stderr
    assert "plan:" not in result.stderr


def test_a_limit_goes_with_a_named_route_and_not_with_a_cluster(data: Path, tmp_path: Path) -> None:
    train = ("train", data / "train.txt", "--model", tmp_path / "m")
    result = succeed(*train, "--route", "bins", "--memory-limit", "1GB", "--cache", "none", *FEW)
    assert "streamed into bins" in result.stderr
    assert "limit of 1.00 GB" in result.stderr
    refused = invoke(*train, "--memory-limit", "1 parsec")
    assert (refused.exit_code, "is not a size" in refused.stderr) == (2, True)
    clustered = invoke(*train, "--cluster", "local:1", "--memory-limit", "1GB")
    assert (clustered.exit_code, "--cluster and --memory-limit" in clustered.stderr) == (2, True)
