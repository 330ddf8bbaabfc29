"""Run in each environment: train small models and save them, or read what others have saved.

    python -m qa.versions.models make FOLDER python -m qa.versions.models bare FOLDER
    # of the engines alone, where there is no boostrank python -m qa.versions.models read
    RESULT.json FOLDER...

A folder holds the model files of one maker, `rows.npy` and `scores.json`, what its maker's own
predictions were. Models with "frame" or "letters" in their names take the rows as a table of
pandas, with names for the codes.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb

import boostrank

QUERIES, DOCUMENTS = 16, 12
CODES = 3
"""The column that holds codes of categories."""
TREES: dict[str, Any] = {
    "num_leaves": 6,
    "learning_rate": 0.3,
    "seed": 7,
    "num_threads": 1,
    "verbosity": -1,
}
DEPTH: dict[str, Any] = {"max_depth": 3, "eta": 0.3, "seed": 7, "nthread": 1, "verbosity": 0}
NAMES = ["apple", "b b", "c,d", "", "e", "f", "g", "h"]
"""Of the codes, in frames; in those of models with "letters" in their names, the first has letters
beyond ASCII.
"""
TYPES = ["c" if column == CODES else "q" for column in range(5)]
ROUNDS = 5


def table(rows: int, seed: int) -> np.ndarray:
    """float32[rows, 5]: zeros, missing values, and codes."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 5)).astype(np.float32)
    values[rng.random(values.shape) < 0.2] = np.nan
    values[:, 2] = rng.integers(0, 3, rows)
    values[:, CODES] = rng.integers(0, 8, rows)
    return values


def grades(X: np.ndarray) -> np.ndarray:
    """int64[rows]: 0 to 3."""
    return np.clip(np.round(np.nan_to_num(X[:, 0]) + X[:, CODES] % 2 + X[:, 2] / 3), 0, 3).astype(
        np.int64
    )


def name_columns(X: np.ndarray, first: str = NAMES[0]) -> pd.DataFrame:
    """A table with a column of categories."""
    rows = pd.DataFrame(X, columns=[f"c{column}" for column in range(5)])
    codes, names = rows[f"c{CODES}"].astype(int), np.array([first, *NAMES[1:]], dtype=object)
    rows[f"c{CODES}"] = pd.Categorical.from_codes(codes, categories=names)
    return rows


def lettered(X: np.ndarray) -> pd.DataFrame:
    """The same with letters beyond ASCII."""
    return name_columns(X, "größe")


def ours(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], Any]]:
    """File name -> what trains the model in it."""
    group = [DOCUMENTS] * QUERIES
    data = boostrank.RankingDataset.from_arrays(X, y, group=group)
    frame = boostrank.RankingDataset.from_arrays(name_columns(X), y, group=group)
    letters = boostrank.RankingDataset.from_arrays(lettered(X), y, group=group)

    def train(objective: str = "lambdarank", backend: str = "lightgbm", **more: Any) -> Any:
        rows = more.pop("rows", data)
        return boostrank.train(
            {**TREES, "objective": objective, **more}, rows, ROUNDS, backend=backend
        )

    def average(backend: str) -> Any:
        return boostrank.average([train(backend=backend, seed=seed) for seed in (1, 2)])

    trainings: dict[str, Callable[[], Any]] = {
        "lightgbm.txt": train,
        "lightgbm-start.txt": lambda: train("auto"),
        "lightgbm-categories.txt": lambda: train(categorical_feature=[CODES], min_data_per_group=5),
        "lightgbm-frame.txt": lambda: train(rows=frame, min_data_per_group=5),
        "lightgbm-letters.txt": lambda: train(rows=letters, min_data_per_group=5),
        "lightgbm-dart.txt": lambda: train(boosting="dart", drop_rate=0.5),
        "lightgbm-average.txt": lambda: average("lightgbm"),
        "xgboost.json": lambda: train(backend="xgboost"),
        "xgboost-start.json": lambda: train("auto", backend="xgboost"),
        "xgboost-categories.json": lambda: train(backend="xgboost", categorical_feature=[CODES]),
        "xgboost-frame.json": lambda: train(backend="xgboost", rows=frame),
        "xgboost-letters.json": lambda: train(backend="xgboost", rows=letters),
        "xgboost-average.json": lambda: average("xgboost"),
        "linear.json": lambda: boostrank.train(
            {"objective": "lambdarank"}, data, ROUNDS, backend="linear"
        ),
    }
    return trainings


def bare_lightgbm(X: Any, y: np.ndarray, **more: Any) -> lgb.Booster:
    """Of the engine alone."""
    categorical = more.pop("categorical_feature", "auto")
    data = lgb.Dataset(
        X, y, group=[DOCUMENTS] * QUERIES, categorical_feature=categorical, params={"verbosity": -1}
    )
    return lgb.train({**TREES, "objective": "lambdarank", **more}, data, ROUNDS)


def bare_xgboost(X: Any, y: np.ndarray, categories: bool = False, **more: Any) -> xgb.Booster:
    """Of the engine alone."""
    qid = np.repeat(np.arange(QUERIES), DOCUMENTS)
    types = TYPES if categories and isinstance(X, np.ndarray) else None
    data = xgb.DMatrix(X, y, qid=qid, feature_types=types, enable_categorical=categories, nthread=1)
    params = {**DEPTH, "objective": "rank:ndcg", "tree_method": "hist", **more}
    return xgb.train(params, data, ROUNDS)


def theirs(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], Any]]:
    """File name -> what trains the engine's own model in it."""
    return {
        "bare-lightgbm.txt": lambda: bare_lightgbm(X, y),
        "bare-lightgbm-categories.txt": lambda: bare_lightgbm(
            X, y, categorical_feature=[CODES], min_data_per_group=5
        ),
        "bare-lightgbm-frame.txt": lambda: bare_lightgbm(name_columns(X), y, min_data_per_group=5),
        "bare-lightgbm-letters.txt": lambda: bare_lightgbm(lettered(X), y, min_data_per_group=5),
        "bare-lightgbm-dart.txt": lambda: bare_lightgbm(X, y, boosting="dart"),
        "bare-xgboost.json": lambda: bare_xgboost(X, y),
        "bare-xgboost-categories.json": lambda: bare_xgboost(X, y, categories=True),
        "bare-xgboost-frame.json": lambda: bare_xgboost(name_columns(X), y, categories=True),
        "bare-xgboost-letters.json": lambda: bare_xgboost(lettered(X), y, categories=True),
        "bare-xgboost.ubj": lambda: bare_xgboost(X, y),
    }


def by_engine(path: Path, rows: Any) -> np.ndarray:
    """Scores by the engine alone, without boostrank."""
    if path.suffix == ".txt":
        return np.asarray(
            lgb.Booster(model_file=str(path)).predict(rows, raw_score=True, num_threads=1)
        )
    booster = xgb.Booster({"nthread": 1})
    booster.load_model(path)
    column_options: dict[str, Any] = {}
    if isinstance(rows, np.ndarray):
        types = booster.feature_types or (TYPES if "categories" in path.name else None)
        column_options = {"feature_names": booster.feature_names, "feature_types": types}
    data = xgb.DMatrix(rows, enable_categorical=True, nthread=1, **column_options)
    return np.asarray(booster.predict(data, output_margin=True), dtype=np.float64)


def by_boostrank(path: Path, rows: Any) -> np.ndarray:
    """Scores by boostrank; what lies beside the file is read with it."""
    return np.asarray(boostrank.RankingModel.load(path).predict(rows, threads=1))


def without_sidecar(path: Path, rows: Any) -> np.ndarray:
    """Scores by boostrank of the model file alone."""
    with tempfile.TemporaryDirectory() as folder:
        return by_boostrank(Path(shutil.copy(path, folder)), rows)


def make(folder: Path, bare: bool) -> None:
    """Train, save, and keep the maker's own scores."""
    X, rows = table(QUERIES * DOCUMENTS, 1), table(60, 2)
    y = grades(X)
    np.save(folder / "rows.npy", rows)
    scores: dict[str, list[float]] = {}
    for name, train in ours(X, y).items() if not bare else ():
        train().save(folder / name)
        scores[name] = by_boostrank(folder / name, rows_for(name, rows)).tolist()
    for name, train in theirs(X, y).items():
        train().save_model(folder / name)
        scores[name] = by_engine(folder / name, rows_for(name, rows)).tolist()
    (folder / "scores.json").write_text(json.dumps(scores))


def rows_for(name: str, rows: np.ndarray) -> Any:
    """As the model of that name takes them."""
    if "frame" in name:
        return name_columns(rows)
    return lettered(rows) if "letters" in name else rows


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Model -> way of reading it -> its scores, or the words of the refusal, or what went wrong."""
    rows = np.load(folder / "rows.npy")
    outcomes: dict[str, dict[str, Any]] = {}
    for name in json.loads((folder / "scores.json").read_text()):
        ways = {"boostrank": by_boostrank}
        if not name.startswith("bare"):
            ways["no sidecar"] = without_sidecar
        # Names of categories beyond ASCII stand in our record alone, not in XGBoost's file.
        if not name.startswith(("linear", "xgboost-letters")):
            ways["engine alone"] = by_engine
        outcomes[name] = {
            way: _outcome(score, folder / name, rows_for(name, rows)) for way, score in ways.items()
        }
    return outcomes


def _outcome(score: Callable[[Path, Any], np.ndarray], path: Path, rows: Any) -> Any:
    try:
        return score(path, rows).tolist()
    except boostrank.BoostrankError as error:
        return {"refused": str(error).rpartition(f"{path.name}: ")[2]}
    except Exception as error:
        words = re.sub(
            r"^\[[\d:]+\] \S+ ", "", (str(error).splitlines() or [""])[0]
        )  # XGBoost's time and place
        return {"failed": f"{type(error).__name__}: {words}"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "read":
        outcomes = {Path(folder).name: read(Path(folder)) for folder in sys.argv[3:]}
        Path(sys.argv[2]).write_text(json.dumps(outcomes))
    else:
        make(Path(sys.argv[2]), bare=sys.argv[1] == "bare")
