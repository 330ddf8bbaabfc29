"""Golden files: everything that this version writes and a later one reads, in one archive.

    make golden                                       # of this version, VERSION.tar.gz beside this
    file python tests/model/golden/make.py OUT.tar.gz    # of the version that Python finds

An archive holds data (`rows.txt`, `new.txt`), model files with their sidecars, checkpoints with the
models they lead to, a cache, a study, a configuration, a measure of noise, scores, clicks and
propensities; and `expected.json`, what the version that wrote them made of them. That of a version
that is out is never made again.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import boostrank

TREES: dict[str, Any] = {
    "num_leaves": 4,
    "learning_rate": 0.3,
    "seed": 7,
    "num_threads": 1,
    "verbosity": -1,
}
ROUNDS = 3
CODES = 3
"""The column that holds codes of categories."""


def write_rows(path: str, queries: range, documents: int, seed: int) -> None:
    """Libsvm text with zeros that are left out, missing values and codes."""
    rng = np.random.default_rng(seed)
    lines = []
    for query in queries:
        for _ in range(documents):
            first, second = rng.normal(size=2)
            third, code, last = rng.integers(0, 3), rng.integers(0, 6), rng.uniform()
            label = int(np.clip(round(first + (code % 2) + 0.3 * rng.normal()), 0, 3))
            cells = {
                1: f"{first:.1f}",
                2: "nan" if rng.random() < 0.2 else f"{second:.1f}",
                3: third,
                4: code,
            }
            cells[5] = f"{last:.2f}"
            words = (f"{column}:{value}" for column, value in cells.items() if value != 0)
            lines.append(f"{label} qid:{query} {' '.join(words)}\n")
    Path(path).write_text("".join(lines))


def models(data: Any, valid: Any) -> dict[str, Callable[[], Any]]:
    """File name -> what trains the model in it."""

    def train(objective: Any, rounds: int = ROUNDS, **more: Any) -> Any:
        options = {name: more.pop(name) for name in _OPTIONS if name in more}
        return boostrank.train({**TREES, "objective": objective, **more}, data, rounds, **options)

    mixture = {"objective": "mix(shf-sdcg(sigma=linear(1, 0.2)), xe-ndcg, mix=0.25)"}
    # Each engine, each way of training, and each record that a sidecar can have.
    trainings: dict[str, Callable[[], Any]] = {
        "lightgbm.txt": lambda: train(
            **mixture, metric="ndcg@5,map", valid_sets=[valid], early_stopping_round=2
        ),
        "lightgbm-auto.txt": lambda: train("auto"),
        "lightgbm-dart.txt": lambda: train("lambdarank", boosting="dart", drop_rate=0.5),
        "lightgbm-categories.txt": lambda: train(
            "lambdarank", categorical_feature=[CODES], min_data_per_group=5
        ),
        "lightgbm-continued.txt": lambda: train(
            "lambdarank", init_model=train("ranknet", rounds=1)
        ),
        "lightgbm-on-linear.txt": lambda: train("lambdarank", start="linear"),
        "lightgbm-average.txt": lambda: boostrank.average(
            [train("lambdarank", 2, seed=seed) for seed in (1, 2)]
        ),
        "lightgbm-folds.txt": lambda: folds(),
        "xgboost.json": lambda: train(
            **mixture, metric="ndcg@5,map", valid_sets=[valid], backend="xgboost"
        ),
        "xgboost-auto.json": lambda: train("auto", backend="xgboost"),
        "xgboost-native.json": lambda: train("xgboost:rank:ndcg", backend="xgboost"),
        "linear.json": lambda: linear(),
        "lightgbm-within.txt": lambda: train("lambdarank", within_query="rank,zscore"),
        "lightgbm-gain.txt": lambda: train("lambdarank", gain="2**label - 1 + 0.5*f5"),
        "lightgbm-calibrated.txt": lambda: calibrated(),
        "lightgbm-fill.txt": lambda: train("lambdarank", fill="median"),
        "lightgbm-refit.txt": lambda: boostrank.refit(train("lambdarank"), data, keep=0.5),
        "lightgbm-price.txt": lambda: train("lambdarank", max_trees=2),
        "lightgbm-quality.txt": lambda: train("lambdarank", rounds=4, quality="good", max_trees=6),
        "lightgbm-frame.txt": lambda: frame("lightgbm"),
        "xgboost-frame.json": lambda: frame("xgboost"),
        "xgboost-categories.json": lambda: train(
            "lambdarank", categorical_feature=[CODES], backend="xgboost"
        ),
    }

    def linear() -> Any:
        return boostrank.train(
            {"objective": "lambdarank", "seed": 7}, data, ROUNDS, backend="linear"
        )

    def calibrated() -> Any:
        first, others = data.take(range(6)), data.take(range(6, 16))
        return boostrank.calibrate(
            boostrank.train({**TREES, "objective": "lambdarank"}, first, ROUNDS), others
        )

    def folds() -> Any:
        return boostrank.train(
            {**TREES, "objective": "lambdarank", "metric": "ndcg@5"}, data, ROUNDS, folds=2
        )

    def frame(backend: str) -> Any:
        more = {"min_data_per_group": 5} if backend == "lightgbm" else {}
        return boostrank.train(
            {**TREES, "objective": "lambdarank", **more},
            name_columns(data),
            ROUNDS,
            backend=backend,
        )

    return trainings


_OPTIONS = (
    "backend",
    "fill",
    "init_model",
    "max_trees",
    "quality",
    "start",
    "valid_sets",
    "within_query",
)


def name_columns(data: Any) -> Any:
    """The same as a frame whose codes are categories with names; what has none is the code 5."""
    import pandas as pd

    table = pd.DataFrame(np.asarray(data.features), columns=["f1", "f2", "f3", "f4", "ö5"])
    names = np.array(["größe", "b b", "c,d", "", "e"], dtype=object)
    codes = table["f4"].astype(int)
    names_of_rows = [names[code] if code < 5 else None for code in codes]
    table["f4"] = pd.Categorical(names_of_rows, categories=list(names))
    return boostrank.RankingDataset.from_arrays(table, data.labels, group=np.diff(data.queries.ptr))


# What each is trained with: a checkpoint goes on with the same alone.
CHECKPOINTS: dict[str, dict[str, Any]] = {
    "lightgbm.checkpoint": {
        "params": {**TREES, "objective": "lambdarank", "metric": "ndcg@5"},
        "rounds": 6,
        "backend": "lightgbm",
    },
    "xgboost.checkpoint": {
        "params": {**TREES, "objective": "xe-ndcg", "metric": "ndcg@5"},
        "rounds": 6,
        "backend": "xgboost",
    },
}


# What is searched, and whose noise is measured.
STUDY = (
    "rows.txt",
    "--valid",
    "new.txt",
    "--objective",
    "lambdarank",
    "--metric",
    "ndcg@5",
    "--rounds",
    "3",
    "--num-leaves",
    "4",
    "--threads",
    "1",
    "--seed",
    "7",
)


def make_checkpoints(data: Any, valid: Any) -> None:
    """The state after four rounds, and the model after six."""
    for name, settings in CHECKPOINTS.items():
        model = boostrank.train(
            settings["params"],
            data,
            settings["rounds"],
            valid_sets=[valid],
            backend=settings["backend"],
            checkpoint=boostrank.Checkpoint(name, every=4),
        )
        model.save(f"{name}.model")


def make_cache() -> None:
    """Rows and LightGBM's bins, remembered for another run."""
    streamed = boostrank.stream("rows.txt", cache="cache")
    boostrank.train({**TREES, "objective": "lambdarank"}, streamed, 1)


def command(*words: str) -> str:
    """Standard output of a command that must succeed."""
    from boostrank.cli import main

    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            main(list(words))
    except SystemExit as left:
        if left.code:
            raise
    return out.getvalue()


def make_records() -> None:
    """What commands write for other commands."""
    command("tune", *STUDY, "--trials", "2", "-o", "tune.toml")
    Path("noise.json").write_text(command("study", "noise", *STUDY, "--repeats", "3", "--json"))
    command("predict", "lightgbm.txt", "new.txt", "-o", "scores.txt")
    command("data", "simulate-clicks", "lightgbm.txt", "rows.txt", "-o", "clicks.txt")
    command("data", "propensities", "clicks.txt", "-o", "propensities.json")


def facts_of(model: Any) -> dict[str, Any]:
    """What a loaded model says of itself."""
    return {
        "backend": model.backend,
        "best_iteration": model.best_iteration,
        "n_features": model.n_features,
        "feature_names": list(model.feature_names),
        "index_base": model.info.index_base,
        "objective": model.info["objective"]["name"],
    }


def make(folder: Path) -> None:
    """Write all of it into an empty folder."""
    previous_folder = Path.cwd()
    os.chdir(folder)  # files are named as they lie there
    try:
        write_rows("rows.txt", range(16), 12, seed=1)
        write_rows("new.txt", range(16, 21), 10, seed=2)
        data = boostrank.read("rows.txt")
        new = boostrank.read("new.txt", like=data)
        expected: dict[str, Any] = {"models": {}, "checkpoints": CHECKPOINTS}
        for name, train in models(data, new).items():
            train().save(name)
            model = boostrank.RankingModel.load(name)
            rows = name_columns(new) if "-frame" in name else new
            expected["models"][name] = {**facts_of(model), "scores": model.predict(rows).tolist()}
        make_checkpoints(data, new)
        make_cache()
        make_records()
        Path("expected.json").write_text(json.dumps(expected))
    finally:
        os.chdir(previous_folder)


def main(path: Path) -> None:
    """Write the archive; the same version writes the same but for times in its records."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(Path(folder))
        with (
            gzip.GzipFile(path, "wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for file in sorted(Path(folder).rglob("*")):
                if file.is_file() and file.suffix != ".lock":
                    entry = tarfile.TarInfo(str(file.relative_to(folder)))  # neither time nor owner
                    entry.size = file.stat().st_size
                    archive.addfile(entry, io.BytesIO(file.read_bytes()))


if __name__ == "__main__":
    golden_folder = Path(__file__).parent
    archive = golden_folder / f"{boostrank.__version__}.tar.gz"
    if len(sys.argv) > 1:
        archive = Path(sys.argv[1])
    main(archive)
