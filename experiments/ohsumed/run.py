"""Every objective on both engines over the five OHSUMED folds: NDCG@1..10 and MAP on the test queries.

    python -m experiments.ohsumed.run [--objectives shf-sdcg,lambdarank] [--backends lightgbm] [--seeds 3]

See README.md in this folder for what is held equal and what the table says.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import evaluate, paired_difference
from boostrank.objectives import OBJECTIVES
from experiments.common import arguments, data_root, interval, markdown, save

FOLDS = ("Fold1", "Fold2", "Fold3", "Fold4", "Fold5")
METRICS = ("ndcg@1,2,3,4,5,6,7,8,9,10", "map")
SHOWN = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map")
NATIVE = {"lightgbm": ("lightgbm:lambdarank", "lightgbm:rank_xendcg"), "xgboost": ("xgboost:rank:ndcg",)}

# The same for every method: nothing is tuned for any of them. A leaf holds at least the curvature of 20 average
# documents; for the engines' own objectives, whose curvature has another scale, LightGBM's own gate of 20 rows.
ROUNDS = 300
TREES: dict[str, Any] = {"learning_rate": 0.05, "num_leaves": 7, "verbosity": -1}
GATE = {"min_sum_hessian_in_leaf": 20}
SAMPLING = {"lightgbm": {"bagging_fraction": 0.8, "bagging_freq": 1}, "xgboost": {"subsample": 0.8}}
STOPPING = {"early_stopping_round": 100, "eval_at": 10}


def main() -> None:
    """Train, evaluate, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--objectives", default=None, help="comma-separated; default: all, and the engines' own")
    parser.add_argument("--backends", default="lightgbm,xgboost")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=len(FOLDS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "ohsumed.md")
    options = parser.parse_args()
    root = data_root(options.data_root) / "ohsumed"
    console = Console(stderr=True)
    folds = []
    for fold in FOLDS[: options.folds]:
        train = boostrank.read(root / fold / "train.txt")
        others = [boostrank.read(root / fold / f"{part}.txt", like=train) for part in ("vali", "test")]
        folds.append((train, *others))

    results: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for backend in options.backends.split(","):
        names = options.objectives.split(",") if options.objectives else [*OBJECTIVES.names(), *NATIVE[backend]]
        for name in names:
            started = time.perf_counter()
            label = name if ":" in name else f"{name} ({backend})"
            results[label] = over_folds(name, backend, folds, options.seeds, options.threads)
            mean = float(np.nanmean(results[label]["ndcg@10"]))
            console.print(f"{label}: ndcg@10 {mean:.4f}, {time.perf_counter() - started:.0f} s")
    save(options.out, report(results, options.seeds), {k: summary(v) for k, v in results.items()})
    print(options.out.read_text(), end="")


def over_folds(name: str, backend: str, folds: list[Any], seeds: int, threads: int | None) -> dict[str, Any]:
    """Metric -> test value of every query of all folds, averaged over seeds."""
    pooled: dict[str, list[Any]] = {}
    for train, valid, test in folds:
        runs: list[dict[str, Any]] = []
        for seed in range(seeds):
            params = {**TREES, **SAMPLING[backend], **STOPPING, "objective": name, "seed": seed}
            if ":" not in name:
                params |= GATE
            if threads:
                params["num_threads"] = threads
            model = boostrank.train(params, train, ROUNDS, valid_sets=[valid], backend=backend)
            measured = evaluate(METRICS, test.labels, model.predict(test), test.queries)
            runs.append({metric: result.per_query for metric, result in measured.items()})
        for metric in runs[0]:
            pooled.setdefault(metric, []).append(np.mean([run[metric] for run in runs], axis=0))
    return {metric: np.concatenate(parts) for metric, parts in pooled.items()}


def summary(result: dict[str, Any]) -> dict[str, float]:
    """Metric -> mean over queries."""
    return {metric: float(np.nanmean(values)) for metric, values in result.items()}


def report(results: dict[str, dict[str, Any]], seeds: int) -> str:
    """Two tables: means with intervals at a few cut-offs against LambdaRank, and NDCG at every cut-off."""
    any_result = next(iter(results.values()))
    counted = int(np.count_nonzero(~np.isnan(any_result["map"])))
    rows = []
    for label, result in results.items():
        backend = "xgboost" if "xgboost" in label else "lightgbm"
        baseline = results.get(f"lambdarank ({backend})")
        against = "-"
        if baseline is not None and result is not baseline:
            paired = paired_difference(result["ndcg@10"], baseline["ndcg@10"])
            against = f"{paired.mean:+.4f} [{paired.low:+.4f}, {paired.high:+.4f}], p {paired.p:.2f}"
        rows.append([label, *(interval(result[m]) for m in SHOWN), against])
    first = markdown(["method", *SHOWN, "ndcg@10 minus our lambdarank, paired"], rows)
    cuts = [m for m in any_result if m != "map"]
    second = markdown(
        ["method", *(c.removeprefix("ndcg") for c in cuts), "map"],
        [
            [label, *(f"{np.nanmean(r[c]):.4f}" for c in cuts), f"{np.nanmean(r['map']):.4f}"]
            for label, r in results.items()
        ],
    )
    return (
        f"OHSUMED, {counted} test queries with a relevant document, pooled over folds; each value is the mean over "
        f"{seeds} seeds. In brackets: 95% bootstrap interval over queries.\n\n{first}\n\nNDCG@1..10 and MAP\n\n{second}"
    )


if __name__ == "__main__":
    main()
