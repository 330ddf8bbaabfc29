"""Both engines train from rows on disk the model that they train from the same rows in memory."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.core.errors import DataWarning
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from tests.fit.conftest import save_bytes

# Generated files.
pytestmark = pytest.mark.filterwarnings("ignore:.*a leak, unless:boostrank.core.errors.DataWarning")

PARAMS = {
    "objective": "shf-sdcg",
    "num_leaves": 7,
    "min_data_in_leaf": 5,
    "num_threads": 2,
    "verbosity": -1,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of some 2,500 and 1,000 rows, dense with missing values, and sparse."""
    folder = tmp_path_factory.mktemp("streamed")
    paths: dict[str, Path] = {}
    for name, queries, seed in (("train", 60, 1), ("valid", 25, 2)):
        data = make_ranking_data(queries, seed=seed, useless=4).dataset
        paths[name] = folder / f"{name}.txt"
        write_libsvm(paths[name], data)
        thin = np.where(
            np.random.default_rng(seed).random(data.features.shape) < 0.3, data.features, 0.0
        )
        paths[f"{name}-sparse"] = folder / f"{name}-sparse.txt"
        features = sparse.csr_matrix(np.nan_to_num(thin).astype(np.float32))
        write_libsvm(paths[f"{name}-sparse"], RankingDataset(features, data.labels, data.queries))
    return paths


def both(
    files: dict[str, Path], kind: str, cache: Any, **options: Any
) -> list[tuple[RankingDataset, RankingDataset]]:
    """(training, validation) in memory, and on disk."""
    train, valid = str(files[f"train{kind}"]), str(files[f"valid{kind}"])
    plain = boostrank.read(train)
    streamed = boostrank.stream(train, cache=cache, chunk_bytes=70_000, **options)
    return [
        (plain, boostrank.read(valid, like=plain)),
        (
            streamed,
            boostrank.stream(valid, like=streamed, cache=cache, chunk_bytes=70_000, **options),
        ),
    ]


def trained(
    data: tuple[RankingDataset, RankingDataset], backend: str = "lightgbm", **more: Any
) -> Any:
    params = {k: v for k, v in PARAMS.items() if backend == "lightgbm" or k != "min_data_in_leaf"}
    init = more.pop("init_model", None)
    return boostrank.train(params | more, data[0], 5, [data[1]], backend=backend, init_model=init)


@pytest.mark.parametrize("kind", ["", "-sparse"])
@pytest.mark.parametrize(
    "params", [{}, {"bin_construct_sample_cnt": 500, "seed": 3}, {"max_bin": 31}]
)
def test_lightgbm_streamed_is_lightgbm_in_memory(
    files: dict[str, Path], kind: str, params: dict[str, Any], tmp_path: Path
) -> None:
    """Case 74: the same bytes, sampled bins too, at the first start and at the second."""
    in_memory, _ = both(files, kind, tmp_path)
    expected = save_bytes(trained(in_memory, **params), tmp_path)
    written = []
    for _ in range(2):
        _, on_disk = both(files, kind, tmp_path)
        assert save_bytes(trained(on_disk, **params), tmp_path) == expected
        written.append({path: path.stat().st_mtime_ns for path in tmp_path.glob("*.bins")})
    assert written[0] == written[1]  # the second start writes no bins


@pytest.mark.parametrize("kind", ["", "-sparse"])
@pytest.mark.parametrize("external", [False, True])
def test_xgboost_streamed_is_xgboost_in_memory(
    files: dict[str, Path], kind: str, external: bool, tmp_path: Path
) -> None:
    pytest.importorskip("xgboost")
    in_memory, on_disk = both(files, kind, tmp_path, external_memory=external)
    if external:
        (tmp_path / "boostrank-xgboost-left").mkdir()
        (tmp_path / "boostrank-xgboost-left" / "bins").write_bytes(b"of a killed process")
    model = trained(on_disk, "xgboost")
    assert save_bytes(model, tmp_path) == save_bytes(trained(in_memory, "xgboost"), tmp_path)
    del model, on_disk
    gc.collect()
    assert not list(tmp_path.glob("boostrank-xgboost-*"))


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_pieces_of_any_size_give_nearly_the_same_trees(
    files: dict[str, Path], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XGBoost merges what it saw of each piece; the bounds of its bins may differ a little."""
    in_memory, on_disk = both(files, "", False)
    xgb_stream = pytest.importorskip("boostrank.engines.xgboost.adapter")
    pieces = [(first, first + 400) for first in range(0, 10_000, 400)]
    monkeypatch.setattr(
        xgb_stream,
        "dense_batches",
        lambda features: [
            (a, min(b, features.shape[0])) for a, b in pieces if a < features.shape[0]
        ],
    )
    last = [
        trained(data, backend).evals_result["valid_0"]["ndcg@10"][-1]
        for data in (in_memory, on_disk)
    ]
    assert last[0] == pytest.approx(last[1], abs=0.002)


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_rows_on_disk_are_scored_and_continued_from(
    files: dict[str, Path], backend: str, tmp_path: Path
) -> None:
    in_memory, on_disk = both(files, "", tmp_path)
    of_memory, of_disk = trained(in_memory, backend), trained(on_disk, backend)
    np.testing.assert_array_equal(of_memory.predict(in_memory[1]), of_disk.predict(on_disk[1]))
    further = [trained(data, backend, init_model=of_memory) for data in (in_memory, on_disk)]
    assert save_bytes(further[0], tmp_path) == save_bytes(further[1], tmp_path)


def test_bins_are_made_again_for_other_parameters(files: dict[str, Path], tmp_path: Path) -> None:
    """Case 60: what bins depend on is in the key, what they do not depend on is not."""

    def entries() -> int:
        trained(both(files, "", tmp_path)[1], **params)
        return len(list(tmp_path.glob("*.bins")))

    params: dict[str, Any] = {}
    assert entries() == 2  # training and validation
    params = {"learning_rate": 0.5, "num_leaves": 5, "lambda_l2": 1.0, "objective": "lambdarank"}
    assert entries() == 2
    params = {"max_bin": 20}
    assert entries() == 4
    params = {"min_data_in_leaf": 40}
    assert entries() == 6


@pytest.mark.parametrize("damage", ["flip", "cut", "swap"])
def test_damaged_bins_never_reach_lightgbm(
    files: dict[str, Path], damage: str, tmp_path: Path
) -> None:
    """Case 82: LightGBM's loader would believe them, or crash."""
    expected = save_bytes(trained(both(files, "", tmp_path)[1]), tmp_path)
    bins = sorted(tmp_path.glob("*.bins"), key=lambda path: path.stat().st_size)
    whole = [path.read_bytes() for path in bins]
    for path in bins:
        good = path.read_bytes()
        if damage == "flip":
            path.write_bytes(good[:1000] + bytes([good[1000] ^ 1]) + good[1001:])
        elif damage == "cut":
            path.write_bytes(good[: len(good) // 2])
    if damage == "swap":
        shutil.copy(bins[0], tmp_path / "spare")
        shutil.copy(bins[1], bins[0])
        shutil.copy(tmp_path / "spare", bins[1])
    _, on_disk = both(files, "", tmp_path)
    assert save_bytes(trained(on_disk), tmp_path) == expected
    assert [path.read_bytes() for path in bins] == whole  # they were written anew


def test_the_bins_of_a_validation_set_follow_those_of_training(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """Case 60: the same validation file beside other training data has other bins."""
    valid = str(files["valid"])
    for train in ("train", "valid"):
        for _ in range(2):
            data = boostrank.stream(files[train], cache=tmp_path)
            model = trained((data, boostrank.stream(valid, like=data, cache=tmp_path)))
            plain = boostrank.read(files[train])
            expected = trained((plain, boostrank.read(valid, like=plain)))
            assert model.evals_result == expected.evals_result


_TRAIN = """
import sys, boostrank
from boostrank.data.dataset import RankingDataset
train = boostrank.stream(sys.argv[1], cache=sys.argv[2])
boostrank.train({"verbosity": -1, "num_threads": 1, "objective": "lightgbm:lambdarank"}, train, 3).save(sys.argv[3])
"""


def test_two_runs_that_build_one_cache_at_once_are_both_right(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """Case 61."""
    command = [sys.executable, "-c", _TRAIN, str(files["train"]), str(tmp_path / "cache")]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    runs = [
        subprocess.Popen([*command, str(tmp_path / name)], env=environment) for name in ("a", "b")
    ]
    assert [run.wait() for run in runs] == [0, 0]
    train_set = boostrank.stream(str(files["train"]), cache=str(tmp_path / "cache"))
    params = {"verbosity": -1, "num_threads": 1, "objective": "lightgbm:lambdarank"}
    boostrank.train(params, train_set, 3).save(tmp_path / "c")
    assert (
        (tmp_path / "a").read_bytes()
        == (tmp_path / "b").read_bytes()
        == (tmp_path / "c").read_bytes()
    )


def test_a_full_disk_means_no_bins_and_one_line(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LightGBM does not say when it could not write its file; the lengths in it do."""
    private = pytest.importorskip("boostrank.engines.lightgbm.private")
    _, on_disk = both(files, "", tmp_path)
    complete = private.is_complete

    def cut(path: str) -> bool:
        os.truncate(path, os.path.getsize(path) - 100)
        return bool(complete(path))

    monkeypatch.setattr(private, "is_complete", cut)
    with pytest.warns(DataWarning, match="no cache in .*incomplete"):
        trained(on_disk)
    assert not list(tmp_path.glob("*.bins*"))
