"""One training on one fold and what it measured, kept on disk: a run that is stopped goes on where
it was.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.core.files import write_atomically
from boostrank.metrics import Conventions, evaluate

OUT = Path(__file__).parent / "out"
FOLDS = (1, 2, 3, 4, 5)
CUTS = tuple(range(1, 11))
METRICS = ("ndcg@" + ",".join(map(str, CUTS)), "ndcg", "map")
# What the published numbers were counted by, and ours.
CONVENTIONS = ("letor", "default")
SELECTED_BY = "ndcg@10"
# Cells of another version are trained again: raise it with what changes results.
VERSION = 3

console = Console(stderr=True)


@dataclass(frozen=True)
class Cell:
    """One training.

    Args:
        fold: 1 to 5.
        params: as for `boostrank.train`.
        rounds, backend: likewise.
        start: as for `boostrank.train`.
        curves: whether to keep NDCG@10 of all three sets after every round.
        to_end: whether to measure after the last round, not after the one that validation prefers.
    """

    fold: int
    params: dict[str, Any]
    rounds: int
    backend: str = "linear"
    start: str = "none"
    curves: bool = False
    to_end: bool = False

    @property
    def path(self) -> Path:
        """Where its result lies."""
        return _path_of([VERSION, asdict(self)])


@dataclass
class Lab:
    """Trains cells, each once.

    Args:
        root: folder of the OHSUMED folds.
        threads: for kernels and trees.
    """

    root: Path
    threads: int = 1
    trained: int = 0
    seconds: float = 0.0
    _folds: dict[int, tuple[Any, Any, Any]] = field(default_factory=dict)

    def fold(self, number: int) -> tuple[Any, Any, Any]:
        """Training, validation and test set."""
        if number not in self._folds:
            folder = self.root / f"Fold{number}"
            train = boostrank.read(folder / "train.txt")
            others = (boostrank.read(folder / f"{p}.txt", like=train) for p in ("vali", "test"))
            self._folds[number] = (train, *others)
        return self._folds[number]

    def model(self, cell: Cell) -> boostrank.RankingModel:
        """Train one, whether its result is known or not."""
        train, vali, test = self.fold(cell.fold)
        params = {
            "num_threads": self.threads,
            "metric": "ndcg",
            "eval_at": 10,
            "early_stopping_round": 100_000,
            **cell.params,
        }
        sets, names = [vali], ["vali"]
        if cell.curves:
            sets, names = [vali, train, test], ["vali", "train", "test"]
        return boostrank.train(
            params,
            train,
            cell.rounds,
            sets,
            names,
            backend=cell.backend,
            conventions="letor",
            start=cell.start,
        )

    def result(self, cell: Cell) -> dict[str, Any]:
        """What the cell measured: from disk, or by training."""
        if cell.path.exists():
            return dict(json.loads(cell.path.read_text()))
        started = time.process_time()
        result = self._measured(cell, self.model(cell))
        result["cpu_seconds"] = time.process_time() - started
        _write(cell.path, {"cell": asdict(cell), **result})
        self.trained += 1
        self.seconds += result["cpu_seconds"]
        return result

    def kept(self, *settings: Any, make: Callable[[], Any]) -> Any:
        """What `make` gave for these plain data: from disk, or made now."""
        path = _path_of([VERSION, *settings])
        if path.exists():
            return json.loads(path.read_text())["result"]
        started = time.process_time()
        result = make()
        _write(path, {"settings": settings, "result": result})
        self.trained += 1
        self.seconds += time.process_time() - started
        return result

    def _measured(self, cell: Cell, model: boostrank.RankingModel) -> dict[str, Any]:
        train, vali, test = self.fold(cell.fold)
        curve = model.evals_result["vali"]["ndcg@10"]
        rounds = len(curve) if cell.to_end else model.best_iteration
        scores = {
            name: model.predict(data, num_iteration=rounds)
            for name, data in (("train", train), ("vali", vali), ("test", test))
        }
        result: dict[str, Any] = {
            "best_round": rounds,
            "rounds": len(curve),
            "selected": curve[-1] if cell.to_end else max(curve),
            "train": ndcg_at_10(train, scores["train"]),
            "vali": ndcg_at_10(vali, scores["vali"]),
            **measured(test, scores["test"]),
        }
        if cell.curves:
            result["curves"] = {
                name: values["ndcg@10"] for name, values in model.evals_result.items()
            }
        return result


def measured(data: boostrank.RankingDataset, scores: Any) -> dict[str, dict[str, list[float]]]:
    """Conventions -> metric -> value of every query."""
    return {
        name: {
            metric: result.per_query.tolist()
            for metric, result in evaluate(
                METRICS, data.labels, scores, data.queries, conventions=Conventions.of(name)
            ).items()
        }
        for name in CONVENTIONS
    }


def ndcg_at_10(data: boostrank.RankingDataset, scores: Any) -> float:
    """Mean over queries, LETOR's conventions."""
    results = evaluate(
        [SELECTED_BY], data.labels, scores, data.queries, conventions=Conventions.of("letor")
    )
    return results[SELECTED_BY].mean


def _path_of(settings: list[Any]) -> Path:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return OUT / "cells" / f"{digest[:24]}.json"


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content).encode())


def selected(
    lab: Lab, name: str, grid: list[dict[str, Any]], rounds: int, **options: Any
) -> list[dict[str, Any]]:
    """Each fold's result by the parameters that its validation set likes best."""
    chosen = []
    for fold in FOLDS:
        results = [lab.result(Cell(fold, params, rounds, **options)) for params in grid]
        best = int(np.argmax([result["selected"] for result in results]))
        chosen.append({**results[best], "params": grid[best]})
    mean = np.mean(np.concatenate([r["letor"]["ndcg@10"] for r in chosen]))
    console.print(
        f"{name}: ndcg@10 {mean:.4f} ({lab.trained} trained so far, {lab.seconds:.0f} s of CPU)"
    )
    return chosen


def mean_of(results: list[dict[str, Any]], metric: str = "ndcg@10") -> float:
    """Mean over the test queries of all folds, LETOR's conventions."""
    return float(np.nanmean(pooled(results, "letor", metric)))


def pooled(results: list[dict[str, Any]], conventions: str, metric: str) -> Any:
    """float64[Q]: the test value of every query of all folds; NaN where it does not count."""
    return np.concatenate(
        [np.array(result[conventions][metric], dtype=np.float64) for result in results]
    )


@lru_cache
def settled_ridge(root: Path) -> dict[int, float]:
    """Fold -> ridge of the regression that all methods of that fold begin with, chosen on its
    validation set.
    """
    lab = Lab(root)
    grid = [regression(ridge) for ridge in RIDGES]
    return {
        fold: RIDGES[
            int(np.argmax([lab.result(Cell(fold, params, 1))["selected"] for params in grid]))
        ]
        for fold in FOLDS
    }


RIDGES = (0.03, 0.1, 0.3, 1.0)


def regression(ridge: float) -> dict[str, Any]:
    """Parameters of the ridge regression on gains alone: one step of no length from it."""
    return {
        "objective": "regression",
        "target": "gains",
        "ridge": ridge,
        "scaling": "none",
        "optimizer": "newton",
        "learning_rate": 1e-12,
    }
