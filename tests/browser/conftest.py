"""A headless Chromium, and pages whose names from files all try to become markup."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting import compare
from boostrank.reporting.page import report
from boostrank.reporting.rank_changes import Ranker

EVIL = "=<img src=x onerror=alert(1)>"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The browser; tests are skipped where there is none. Nothing is downloaded."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pip install selenium"
    )
    from selenium.webdriver.chrome.service import Service

    paths = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        pytest.skip(
            f"no {' and no '.join(missing)} here (Debian: apt-get install chromium chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = str(paths["chromium"])
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(paths["chromedriver"]))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


@dataclass(frozen=True)
class World:
    """A model, another one, and the queries they rank."""

    model: RankingModel
    other: RankingModel
    data: RankingDataset


@pytest.fixture(scope="session")
def world() -> World:
    """60 queries of 12 documents; the third feature repeats the first, and the last is one value a
    query.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(720, 6))
    X[:, 2] = np.exp(X[:, 0])
    X[:, 5] = np.repeat(rng.normal(size=60), 12)
    y = np.clip(np.round(X[:, 0] + 0.7 * X[:, 1] + 0.5 * rng.normal(size=720)), 0, 3)
    data = RankingDataset.from_arrays(
        X,
        y,
        qid=[f"{EVIL}{i // 12}" for i in range(720)],
        feature_names=[f"{EVIL}f{i}" for i in range(6)],
    )
    fast = {
        "objective": "regression",
        "num_threads": 1,
        "verbose": -1,
        "min_data_in_leaf": 5,
        "num_leaves": 15,
    }
    return World(
        boostrank.train(fast, data, 20), boostrank.train({**fast, "num_leaves": 4}, data, 8), data
    )


@pytest.fixture(scope="session")
def compare_file(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rankers = [
        Ranker(f"{EVIL}{name}", model.predict(world.data))
        for name, model in (("old", world.model), ("new", world.other))
    ]
    comparison = compare(*rankers, world.data, ["ndcg@5", "map"], fail_if="ndcg@5 < 0")
    return written(comparison.to_html(f"{EVIL}data"), tmp_path_factory, "compare.html")


@pytest.fixture(scope="session")
def report_file(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_report = report(
        world.model,
        world.data,
        "ndcg@5",
        baseline=world.other,
        name=f"{EVIL}model",
        data_name=f"{EVIL}data",
        threads=1,
    )
    return written(model_report.to_html(), tmp_path_factory, "report.html")


def written(text: str, folder: pytest.TempPathFactory, name: str) -> Path:
    path = folder.mktemp("pages") / name
    path.write_bytes(text.encode())
    return path
