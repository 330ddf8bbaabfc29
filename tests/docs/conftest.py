"""A folder with every file that the pages name, small; each page gets a copy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from tests.docs.examples import run_line


@pytest.fixture(scope="session")
def made_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, and models of the names that the pages use."""
    folder: Path = tmp_path_factory.mktemp("docs")
    (folder / "demo").mkdir()
    small = [make_ranking_data(queries=40, seed=seed, mean_length=12).dataset for seed in range(4)]
    for name, data in zip(("train", "vali", "test", "new"), small, strict=True):
        write_libsvm(folder / f"{name}.txt", data)
    for name in ("web", "web-valid", "log", "day1"):
        shutil.copy(folder / "train.txt", folder / f"{name}.txt")
    write_libsvm(
        folder / "web.txt.gz", make_ranking_data(queries=1100, seed=9, mean_length=2).dataset
    )
    (folder / "day2.txt").write_text((folder / "day1.txt").read_text().replace("qid:", "qid:9"))
    for number, name in enumerate(("vali", "test", "new"), 1):
        # A query is in one shard.
        text = (folder / f"{name}.txt").read_text().replace("qid:", f"qid:{number}0")
        for subfolder in ("data/vali",) if name == "new" else ("shards", "data/shards"):
            (folder / subfolder).mkdir(parents=True, exist_ok=True)
            (folder / subfolder / f"{number}.txt").write_text(text)
    few = "--quality plain --rounds 6 --num-leaves 7 --threads 1"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_line("boostrank data make demo/data --queries 300 --seed 1")
        for model, objective in (("auto", "auto"), ("lambdarank", "lightgbm:lambdarank")):
            run_line(
                f"boostrank train demo/data/train.txt --objective {objective} {few} --model"
                f" demo/{model}.txt"
            )
        for seed, model in enumerate(("old", "model")):
            run_line(
                f"boostrank train train.txt {few} --start none --seed {seed} --model {model}.txt"
            )
    return folder


@pytest.fixture
def folder(made_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, as the current folder."""
    copy = tmp_path / "page"
    shutil.copytree(made_files, copy)
    monkeypatch.chdir(copy)
    monkeypatch.syspath_prepend(copy)
    return copy


@pytest.fixture(scope="session")
def scheduler() -> Iterator[Any]:
    """The address of a Dask scheduler with a worker on this machine."""
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install 'boostrank[dask]'"
    )
    pytest.importorskip("xgboost", reason="XGBoost is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address
