"""Trees for large data: ours by rule against LightGBM's at four sizes, on smooth and on rough
generated truth.

python -m experiments.large.run
"""

from __future__ import annotations

import argparse
import json
import re
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np

import boostrank
from boostrank.core.files import write_atomically
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics import Metric, paired_difference
from experiments.common import markdown, save
from experiments.large.rough import rough
from experiments.peers.engines import Stopping

Data = boostrank.RankingDataset
METRIC = Metric.parse("ndcg@10")
OUT = Path(__file__).parent / "out"
TEST, MOST_VALID = 1_500, 1_000
ROUNDS, PATIENCE = 1_000, 50
MEAN_LENGTH = {"g1": 38.0, "g2": 72.5}
MEMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "auto": ({"objective": "auto"}, "auto"),
    "reg": ({"objective": "reg-shf-sdcg", "train_discount": "linear"}, "linear"),
    "lambda": ({"objective": "lambdarank"}, "none"),
    "lambda-raw": ({"objective": "lambdarank", "hessian_scale": "raw"}, "none"),
    "lambda-linear": ({"objective": "lambdarank"}, "linear"),
    "auto-none": ({"objective": "auto"}, "none"),
    "extra": ({"objective": "auto", "extra_trees": True}, "auto"),
}


class Cell(NamedTuple):
    """One training.

    Args:
        data: g1 or g2; rows: to train on.
        method: "lightgbm LEAVES", or "MEMBER LEAVES RATE DOCUMENTS" with further name=value.
        fold: "2/3": the second of three folds of training and validation queries stops it; "":
            validation does.
        rounds: at most.
    """

    data: str
    rows: int
    method: str
    fold: str = ""
    rounds: int = ROUNDS

    @property
    def path(self) -> Path:
        words = [str(part) for part in self if part != ""]
        return OUT / (re.sub(r"[^\w.=]+", "-", "_".join(words)) + ".json")


BASELINE = "lightgbm 31"
NOW, ALL, BY_RULE = "31 .05 20", "feature_fraction=1", "31 .1 50 feature_fraction=1"
PRESET = "31 .1 20 feature_fraction=1 early_stopping_round=100"
"""Trees and patience of the presets on large data."""
FOLDS = {
    "1": Cell("", 0, f"auto {BY_RULE}", "1/3"),
    "2": Cell("", 0, f"auto {BY_RULE}", "2/3"),
    "r": Cell("", 0, f"reg {BY_RULE}", "2/3", 400),
    "l": Cell("", 0, f"lambda-linear {BY_RULE}", "2/3"),
    "x": Cell("", 0, f"extra {BY_RULE}", "3/3"),
    "L": Cell("", 0, f"lambda-linear {PRESET}", "1/3"),
    "M": Cell("", 0, f"lambda-linear {PRESET}", "2/3"),
    "A": Cell("", 0, f"auto {PRESET}", "2/3"),
}


def _single(data: str, rows: int, *methods: str) -> list[tuple[str, int, tuple[Cell, ...]]]:
    return [(data, rows, (Cell(data, rows, method),)) for method in (BASELINE, *methods)]


def _average(data: str, rows: int, *members: str) -> list[tuple[str, int, tuple[Cell, ...]]]:
    folds = {name: cell._replace(data=data, rows=rows) for name, cell in FOLDS.items()}
    return [(data, rows, tuple(folds[m] for m in text)) for text in members]


ROWS = [
    *_single(
        "g2",
        50_000,
        "lightgbm 63",
        "lightgbm 127",
        f"auto {NOW}",
        f"auto {NOW} {ALL}",
        f"auto 15 .1 20 {ALL}",
        f"auto 31 .1 20 {ALL}",
        "auto 31 .1 20 feature_fraction=.8",
        f"auto {BY_RULE}",
        f"auto 63 .1 20 {ALL}",
        f"auto 63 .1 50 {ALL}",
        f"auto 63 .05 50 {ALL}",
        f"auto 63 .1 20 {ALL} min_sum_hessian_in_leaf=10",
        f"auto 31 .1 20 {ALL} feature_fraction_bynode=.5",
        f"auto-none 63 .1 20 {ALL}",
        f"lambda 63 .1 20 {ALL}",
        f"lambda-raw 63 .1 20 {ALL}",
        f"lambda-linear 63 .1 20 {ALL}",
        f"lambda-linear 31 .1 20 {ALL}",
    ),
    *_single(
        "g2",
        100_000,
        f"auto 15 .1 20 {ALL}",
        f"auto {BY_RULE}",
        f"lambda-linear 31 .1 20 {ALL}",
        f"lambda-linear {PRESET}",
    ),
    *_average("g2", 100_000, "1", "2", "r", "l", "x", "12", "1r", "1l", "1rx", "LA", "LM"),
    *_single(
        "g2",
        200_000,
        "lightgbm 63",
        "lightgbm 127",
        "lightgbm 255",
        f"auto 15 .1 20 {ALL}",
        f"auto {BY_RULE}",
        f"auto 31 .05 50 {ALL}",
        f"auto 63 .1 100 {ALL}",
        f"auto 127 .1 200 {ALL}",
        "auto 127 .1 200 feature_fraction=.8",
        f"lambda-linear {BY_RULE}",
        f"lambda-linear {PRESET}",
    ),
    *_average("g2", 200_000, "LA", "LM"),
    *_single(
        "g1",
        200_000,
        f"auto {NOW}",
        f"auto 15 .1 20 {ALL}",
        f"auto {BY_RULE}",
        f"lambda-linear {PRESET}",
    ),
    *_average("g1", 200_000, "1", "2", "r", "l", "x", "12", "1r", "1l", "1rx", "LA", "LM"),
    *_single(
        "g2",
        1_000_000,
        "lightgbm 63",
        "lightgbm 127",
        f"lambda-linear {PRESET}",
        f"lambda-linear {PRESET}".replace("31", "127"),
    ),
    *_average("g2", 1_000_000, "LM"),
]


def result(cell: Cell, seed: int = 0) -> dict[str, Any]:
    """Kept, or trained and kept: CPU seconds, rounds, the metric of validation by round and of test
    by query.
    """
    if not cell.path.exists():
        train, valid, test = parts(cell.data, cell.rows)
        if cell.fold:
            train, valid = folded(cell.data, cell.rows, cell.fold)
        started = time.process_time()
        fit = _lightgbm if cell.method.startswith("lightgbm") else _boostrank
        predict, curve = fit(cell, train, valid, seed)
        kept: dict[str, Any] = {"cell": cell._asdict(), "cpu": time.process_time() - started}
        scores = predict(test.features)
        kept |= {"best": int(np.argmax(curve)) + 1, "trained": len(curve), "curve": curve}
        kept["test"] = METRIC.evaluate(test.labels, scores, test.queries).per_query.tolist()
        OUT.mkdir(exist_ok=True)
        np.save(cell.path.with_suffix(".npy"), np.asarray(scores, dtype=np.float32))
        write_atomically(cell.path, json.dumps(kept).encode())
    return dict(json.loads(cell.path.read_text()))


@cache
def parts(name: str, rows: int) -> tuple[Data, Data, Data]:
    """To train, to stop by (a quarter as many queries, at most `MOST_VALID`) and to test: the same
    for all rows.
    """
    train = round(rows / MEAN_LENGTH[name])
    valid = min(MOST_VALID, train // 4)
    total = TEST + MOST_VALID + train
    # 106 useless features make 136 in all. The grades' cuts of g1 move a little with the number of
    # queries.
    data = (
        make_ranking_data(total, seed=3, useless=106).dataset
        if name == "g1"
        else rough(total, seed=3)
    )
    places = np.split(np.arange(total), [TEST, TEST + valid, TEST + MOST_VALID])
    test, valid_set, _, train_set = (data.take(place) for place in places)
    return train_set, valid_set, test


@cache
def folded(name: str, rows: int, fold: str) -> tuple[Data, Data]:
    """All queries but those of a fold, and those."""
    number, of = map(int, fold.split("/"))
    train, valid, _ = parts(name, rows)
    both = Data.from_arrays(
        np.concatenate([valid.features, train.features]),
        np.concatenate([valid.labels, train.labels]),
        group=np.concatenate([valid.queries.sizes, train.queries.sizes]),
    )
    place = np.random.default_rng(0).permutation(len(both.queries)) % of
    return both.take(np.flatnonzero(place != number - 1)), both.take(
        np.flatnonzero(place == number - 1)
    )


def _lightgbm(cell: Cell, train: Data, valid: Data, seed: int) -> tuple[Any, list[float]]:
    """Its defaults but for the leaves, stopped as `experiments.defaults` stops it."""
    leaves, curve, stopping = int(cell.method.split()[1]), [], Stopping(valid, PATIENCE)

    def stop(env: Any) -> None:
        if stopping.stalled:
            raise lgb.callback.EarlyStopException(
                stopping.best_round - 1, env.evaluation_result_list
            )

    def see(scores: Any, _: Any) -> tuple[str, float, bool]:
        curve.append(stopping.see(scores))
        return "ndcg@10", curve[-1], True

    params = {"objective": "lambdarank", "num_leaves": leaves, "metric": "None"} | _common(seed)
    data = lgb.Dataset(train.features, train.labels, group=train.queries.sizes, params=params)
    watched = lgb.Dataset(
        valid.features, valid.labels, group=valid.queries.sizes, params=params, reference=data
    )
    booster = lgb.train(
        params, data, cell.rounds, valid_sets=[watched], feval=see, callbacks=[stop]
    )
    return lambda rows: booster.predict(
        rows, num_iteration=stopping.best_round, num_threads=1
    ), curve


def _boostrank(cell: Cell, train: Data, valid: Data, seed: int) -> tuple[Any, list[float]]:
    member, leaves, rate, documents, *more = cell.method.split()
    objective, start = MEMBERS[member]
    trees: dict[str, Any] = {
        "num_leaves": int(leaves),
        "learning_rate": float(rate),
        "min_data_in_leaf": int(documents),
        "feature_fraction": 0.5,
        "early_stopping_round": PATIENCE,
        "eval_at": 10,
    }
    trees |= {name: float(value) for name, value in (pair.split("=") for pair in more)}
    seen: dict[str, Any] = {}
    model = boostrank.train(
        _common(seed) | trees | objective,
        train,
        cell.rounds,
        valid_sets=[valid],
        start=start,
        callbacks=[lgb.record_evaluation(seen)],
    )
    (curve,) = next(iter(seen.values())).values()
    return lambda rows: model.predict(rows, threads=1), list(curve)


def _common(seed: int) -> dict[str, Any]:
    return {"num_threads": 1, "seed": seed, "verbosity": -1}


def main() -> None:
    """Train what is not kept, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", default="", help="rows of the table whose words match this regular expression"
    )
    parser.add_argument("--out", type=Path, default=OUT / "large.md")
    options = parser.parse_args()
    rows, numbers = [], []
    for data, size, cells in ROWS:
        if not re.search(options.only, f"{data} {size} {cells[0].method}"):
            continue
        results = [result(cell) for cell in cells]
        values = averaged(cells) if len(cells) > 1 else np.array(results[0]["test"])
        base = np.array(result(Cell(data, size, BASELINE))["test"])
        paired = paired_difference(values, base)
        names = " ".join((cells[0].method, cells[0].fold)).strip()
        if len(cells) > 1:
            names = "average of " + ", ".join(f"{c.method.split()[0]} {c.fold}" for c in cells)
        cpu, best = sum(r["cpu"] for r in results), "+".join(str(r["best"]) for r in results)
        gain = f"{paired.mean:+.4f} [{paired.low:+.4f}, {paired.high:+.4f}]"
        rows.append(
            [f"{data} {size:,}", names, f"{np.nanmean(values):.4f}", gain, f"{cpu:.0f}", best]
        )
        numbers.append(
            {
                "data": data,
                "rows": size,
                "method": names,
                "cpu": cpu,
                "low": paired.low,
                "high": paired.high,
            }
        )
    header = ["rows", "method", "ndcg@10", f"minus {BASELINE}, paired", "CPU s", "best round"]
    save(options.out, markdown(header, rows), numbers)
    print(options.out.read_text(), end="")


def averaged(cells: tuple[Cell, ...]) -> Any:
    """NDCG@10 by query of the scores' mean, each divided by its deviation within queries."""
    *_, test = parts(cells[0].data, cells[0].rows)
    total = np.zeros(test.n_documents)
    for cell in cells:
        result(cell)
        scores = np.load(cell.path.with_suffix(".npy")).astype(np.float64)
        means = np.add.reduceat(scores, test.queries.ptr[:-1]) / test.queries.sizes
        inner = scores - np.repeat(means, test.queries.sizes)
        total += inner / inner.std()
    return METRIC.evaluate(test.labels, total, test.queries).per_query


if __name__ == "__main__":
    main()
