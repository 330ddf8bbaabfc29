"""Curvature that the trees divide by: four kinds of it under the same gradients, tuned alike.

    python -m experiments.curvature.run [--sets mslr-sample] [--objectives ranknet] [--seeds 2]
    [--afresh]

What is trained is kept in out/runs.jsonl: a run that was stopped goes on where it was. See
README.md in this folder.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import Metric, paired_difference
from experiments.common import arguments, data_root, markdown, save
from experiments.curvature.families import CURVATURES, SHIPPED, SPECS
from experiments.curvature.layout import check_layout

SETS = {
    "ohsumed": "ohsumed",
    "mslr-sample": "mslr-sample/train.txt",
    "lambdarank-example": "lambdarank-example/train.txt",
    "sparse-long": "sparse-long/train.txt",
}
OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "ranknet": ("ranknet", {}),
    "shf-sdcg": ("shf-sdcg", {}),
    "shf-sdcg, linear": ("shf-sdcg", {"train_discount": "linear"}),
    "sdcg": ("sdcg", {}),
}
FOLDS = 3  # of the sets that have none of their own
# The one thing that is tuned, for every curvature alike.
RATES = "0.03,0.1,0.3,0.9"
ROUNDS = 150
TREES: dict[str, Any] = {
    "num_leaves": 7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.8,
    "early_stopping_round": 40,
    "eval_at": 10,
    "verbosity": -1,
}
METRIC = Metric.parse("ndcg@10")

Parts = tuple[boostrank.RankingDataset, boostrank.RankingDataset, boostrank.RankingDataset]
Cell = tuple[str, str, str]  # set, objective, curvature


def main() -> None:
    """Train what is not yet trained, compare with the shipped curvature query by query, and write
    the tables.
    """
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument(
        "--objectives", default=";".join(OBJECTIVES), help="with semicolons between them"
    )
    parser.add_argument("--seeds", type=int, default=2, help="the rate is chosen with the first")
    parser.add_argument(
        "--rates", default=RATES, help="learning rates to choose from, comma-separated"
    )
    parser.add_argument("--afresh", action="store_true", help="forget what was trained before")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "curvature.md")
    options = parser.parse_args()
    root = data_root(options.data_root)
    console = Console(stderr=True)
    rates = [float(rate) for rate in options.rates.split(",")]
    check_layout()
    check_shipped()
    kept = Kept(options.out.with_name("runs.jsonl"), options.afresh)
    found: dict[Cell, list[dict[str, Any]]] = {}
    for name in options.sets.split(","):
        for fold, parts in enumerate(splits(root / SETS[name])):
            for objective in options.objectives.split(";"):
                started = time.perf_counter()
                for curvature in curvatures_of(objective):
                    key = f"{name}|{fold}|{objective}|{curvature}|{options.rates}|{options.seeds}"
                    if key not in kept.runs:
                        kept.add(
                            key,
                            trained(
                                parts, objective, curvature, rates, options.seeds, options.threads
                            ),
                        )
                    found.setdefault((name, objective, curvature), []).append(kept.runs[key])
                console.print(
                    f"{name}, fold {fold + 1}, {objective}: {time.perf_counter() - started:.0f} s"
                )
    text, numbers = report(found)
    save(options.out, text, numbers)
    print(options.out.read_text(), end="")


def check_shipped() -> None:
    """Refuse to compare with something else: gradients, and the curvature that is named shipped,
    are the package's.
    """
    rng = np.random.default_rng(0)
    sizes = [1, 2, 30, 80]
    labels, scores = rng.integers(0, 5, sum(sizes)), rng.normal(size=sum(sizes))
    queries = boostrank.RankingDataset.from_arrays(
        np.zeros((labels.size, 1)), labels, group=sizes
    ).queries
    for name, spec in SPECS.items():
        ours, theirs = (
            boostrank.Objective(o).bind(labels, queries).gradient(scores, 0) for o in (spec, name)
        )
        for mine, shipped in ((ours.grad, theirs.grad), (ours.hess, theirs.hess)):
            if np.abs(mine - shipped).max() > 1e-5 * np.abs(shipped).max():
                raise SystemExit(
                    f"{name} has changed: bring experiments/curvature/families.py up to it"
                )


class Kept:
    """What was trained before, a line of JSON each; another setting or another objective makes it
    void.

    Args:
        path: read if it is there, and appended to.
        afresh: whether to forget what it holds.
    """

    def __init__(self, path: Path, afresh: bool) -> None:
        code = Path(__file__).with_name("families.py").read_text()
        setting = repr((FOLDS, ROUNDS, TREES, METRIC, OBJECTIVES, boostrank.__version__))
        self.version = hashlib.sha256((code + setting).encode()).hexdigest()[:16]
        self.path, self.runs = path, dict[str, dict[str, Any]]()
        if afresh:
            path.unlink(missing_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        for run in (json.loads(line) for line in lines if line.endswith("}")):
            if run["version"] == self.version:
                self.runs[run["key"]] = run

    def add(self, key: str, run: dict[str, Any]) -> None:
        """Remember a run, here and in the file."""
        self.runs[key] = run | {"key": key, "version": self.version}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(self.runs[key]) + "\n")


def splits(path: Path) -> Iterator[Parts]:
    """(train, valid, test): OHSUMED's own five; of another set's training file three, validated on
    a quarter.
    """
    read = boostrank.read
    if path.is_dir():
        for own in sorted(path.glob("Fold*")):
            train = read(own / "train.txt")
            yield train, read(own / "vali.txt", like=train), read(own / "test.txt", like=train)
        return
    data = read(path)
    shuffled = np.random.default_rng(0).permutation(len(data.queries))
    for fold in range(FOLDS):
        rest = np.random.default_rng(fold).permutation(
            np.setdiff1d(shuffled, shuffled[fold::FOLDS])
        )
        quarter = rest.size // 4
        yield data.take(rest[quarter:]), data.take(rest[:quarter]), data.take(shuffled[fold::FOLDS])


def curvatures_of(objective: str) -> list[str]:
    """Those that differ for it, the shipped one first."""
    shipped = SHIPPED[OBJECTIVES[objective][0]]
    return [shipped, *(c for c in CURVATURES if c not in (shipped, "slope"))]


def trained(
    parts: Parts,
    objective: str,
    curvature: str,
    rates: list[float],
    seeds: int,
    threads: int | None,
) -> dict[str, Any]:
    """The rate that does best on the validation queries with seed 0, and NDCG@10 of every test
    query over all seeds.
    """
    train, valid, test = parts
    name, extra = OBJECTIVES[objective]
    params = {**TREES, "objective": SPECS[name], "curvature": curvature, **extra}
    params |= {"num_threads": threads} if threads else {}

    def model_at(rate: float, seed: int) -> boostrank.RankingModel:
        return boostrank.train(
            {**params, "learning_rate": rate, "seed": seed}, train, ROUNDS, valid_sets=[valid]
        )

    def measured(model: boostrank.RankingModel, data: boostrank.RankingDataset) -> Any:
        return METRIC.evaluate(data.labels, model.predict(data), data.queries).per_query

    models = [model_at(rate, 0) for rate in rates]
    best = int(np.argmax([np.nanmean(measured(model, valid)) for model in models]))
    chosen = [models[best], *(model_at(rates[best], seed) for seed in range(1, seeds))]
    values = np.mean([measured(model, test) for model in chosen], axis=0)
    return {"rate": rates[best], "rounds": models[best].best_iteration, "ndcg": values.tolist()}


def report(found: dict[Cell, list[dict[str, Any]]]) -> tuple[str, list[dict[str, Any]]]:
    """Two tables, and their numbers: each set, and all sets with the same weight."""
    rows, numbers, sets = [], [], list(dict.fromkeys(name for name, _, _ in found))
    values = {cell: np.concatenate([run["ndcg"] for run in runs]) for cell, runs in found.items()}
    for cell, runs in found.items():
        name, objective, curvature = cell
        shipped = SHIPPED[OBJECTIVES[objective][0]]
        rates = " ".join(f"{run['rate']:g}" for run in runs)
        against, numbers_of = difference(values[cell], values[name, objective, shipped])
        rows.append([name, objective, curvature, f"{np.nanmean(values[cell]):.4f}", against, rates])
        numbers.append(
            {
                "set": name,
                "objective": objective,
                "curvature": curvature,
                "rates": rates,
                **numbers_of,
            }
        )
    pooled = []
    for objective in dict.fromkeys(objective for _, objective, _ in found):
        shipped = SHIPPED[OBJECTIVES[objective][0]]
        for curvature in curvatures_of(objective):
            mine = [values[name, objective, curvature] for name in sets]
            theirs = [values[name, objective, shipped] for name in sets]
            weights = np.concatenate(
                [np.full(v.size, 1.0 / np.count_nonzero(~np.isnan(v))) for v in mine]
            )
            mean = float(np.mean([np.nanmean(v) for v in mine]))
            against, numbers_of = difference(np.concatenate(mine), np.concatenate(theirs), weights)
            pooled.append([objective, curvature, f"{mean:.4f}", against])
            numbers.append(
                {"set": "all", "objective": objective, "curvature": curvature, **numbers_of}
            )
    text = markdown(
        ["objective", "curvature", "ndcg@10, mean of the sets", "minus the shipped, paired"], pooled
    )
    each = markdown(
        ["set", "objective", "curvature", "ndcg@10", "minus the shipped, paired", "rates chosen"],
        rows,
    )
    return f"{text}\n\n{each}", numbers


def difference(mine: Any, shipped: Any, weights: Any = None) -> tuple[str, dict[str, float]]:
    """`+.0031 [-.0010, +.0072]`, and as numbers; a dash for the shipped one itself."""
    paired = paired_difference(mine, shipped, weights=weights)
    itself = np.array_equal(mine, shipped, equal_nan=True)
    text = "shipped" if itself else f"{paired.mean:+.4f} [{paired.low:+.4f}, {paired.high:+.4f}]"
    return text, {"difference": paired.mean, "low": paired.low, "high": paired.high}


if __name__ == "__main__":
    main()
