"""Every objective on both engines over the five OHSUMED folds: NDCG@1..10 and MAP on the test
queries.

    python -m experiments.ohsumed.run [--objectives shf-sdcg,lambdarank] [--backends lightgbm]
    [--seeds 3]

See README.md in this folder for what is held equal and what the table says.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import evaluate
from boostrank.objectives import OBJECTIVES
from experiments.common import arguments, data_root, difference, interval, markdown, save

FOLDS = ("Fold1", "Fold2", "Fold3", "Fold4", "Fold5")
METRICS = ("ndcg@1,2,3,4,5,6,7,8,9,10", "map")
SHOWN = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map")
DIGITS = 3  # those that two machines share, nearly
NATIVE = {
    "lightgbm": ("lightgbm:lambdarank", "lightgbm:rank_xendcg"),
    "xgboost": ("xgboost:rank:ndcg",),
}

# Curvature bounds are looser for some objectives than for others, so that one rate means other
# steps: each fold's validation queries choose it, with the first seed. Nothing else is tuned. A
# leaf holds at least the curvature of 20 average documents; for the engines' own objectives, whose
# curvature has another scale, LightGBM's own gate of 20 rows.
RATES = (0.05, 0.2, 0.7)
ROUNDS = 300
TREES: dict[str, Any] = {"num_leaves": 7, "verbosity": -1}
GATE = {"min_sum_hessian_in_leaf": 20}
SAMPLING = {"lightgbm": {"bagging_fraction": 0.8, "bagging_freq": 1}, "xgboost": {"subsample": 0.8}}
STOPPING = {"early_stopping_round": 100, "eval_at": 10}


def main() -> None:
    """Train, evaluate, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument(
        "--objectives", default=None, help="comma-separated; default: all, and the engines' own"
    )
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
        others = [
            boostrank.read(root / fold / f"{part}.txt", like=train) for part in ("vali", "test")
        ]
        folds.append((train, *others))

    results: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    rates: dict[str, list[float]] = {}
    for backend in options.backends.split(","):
        names = (
            options.objectives.split(",")
            if options.objectives
            else [*OBJECTIVES.names(), *NATIVE[backend]]
        )
        for name in names:
            started = time.perf_counter()
            label = name if ":" in name else f"{name} ({backend})"
            results[label], rates[label] = over_folds(
                name, backend, folds, options.seeds, options.threads
            )
            mean = float(np.nanmean(results[label]["ndcg@10"]))
            console.print(f"{label}: ndcg@10 {mean:.4f}, {time.perf_counter() - started:.0f} s")
    save(
        options.out,
        report(results, rates, options.seeds),
        {k: summary(v) for k, v in results.items()},
    )
    print(options.out.read_text(), end="")


def over_folds(
    name: str, backend: str, folds: list[Any], seeds: int, threads: int | None
) -> tuple[dict[str, Any], list[float]]:
    """Metric -> test value of every query of all folds, averaged over seeds; and the rate that each
    fold chose.
    """
    params = {**TREES, **SAMPLING[backend], **STOPPING, "objective": name}
    params |= {} if ":" in name else GATE
    params |= {"num_threads": threads} if threads else {}
    pooled: dict[str, list[Any]] = {}
    rates = []
    for parts in folds:
        rate, runs = on_fold(params, backend, parts, seeds)
        rates.append(rate)
        for metric in runs[0]:
            pooled.setdefault(metric, []).append(
                np.mean([run[metric].per_query for run in runs], axis=0)
            )
    return {metric: np.concatenate(values) for metric, values in pooled.items()}, rates


def on_fold(
    params: dict[str, Any], backend: str, parts: Any, seeds: int
) -> tuple[float, list[dict[str, Any]]]:
    """The rate that does best on the validation queries with the first seed, and each seed's test
    results at it.
    """
    train, valid, test = parts

    def model_at(rate: float, seed: int) -> boostrank.RankingModel:
        settings = {**params, "learning_rate": rate, "seed": seed}
        return boostrank.train(settings, train, ROUNDS, valid_sets=[valid], backend=backend)

    def measured(model: boostrank.RankingModel, data: boostrank.RankingDataset) -> dict[str, Any]:
        return evaluate(METRICS, data.labels, model.predict(data), data.queries)

    tried = [model_at(rate, 0) for rate in RATES]
    best = int(np.argmax([measured(model, valid)["ndcg@10"].mean for model in tried]))
    models = [tried[best], *(model_at(RATES[best], seed) for seed in range(1, seeds))]
    return RATES[best], [measured(model, test) for model in models]


def summary(result: dict[str, Any]) -> dict[str, float]:
    """Metric -> mean over queries."""
    return {metric: float(np.nanmean(values)) for metric, values in result.items()}


def report(results: dict[str, dict[str, Any]], rates: dict[str, list[float]], seeds: int) -> str:
    """Two tables: means with intervals at a few cut-offs against LambdaRank, and NDCG at every
    cut-off.
    """
    any_result = next(iter(results.values()))
    counted = int(np.count_nonzero(~np.isnan(any_result["map"])))
    rows = []
    for label, result in results.items():
        backend = "xgboost" if "xgboost" in label else "lightgbm"
        baseline = results.get(f"lambdarank ({backend})")
        against = "-"
        if baseline is not None and result is not baseline:
            against = difference(result["ndcg@10"], baseline["ndcg@10"], DIGITS)
        chosen = " ".join(f"{rate:g}" for rate in rates[label])
        rows.append([label, *(interval(result[m], DIGITS) for m in SHOWN), against, chosen])
    first = markdown(
        ["method", *SHOWN, "ndcg@10 minus our lambdarank, paired", "rates chosen"], rows
    )
    cuts = [m for m in any_result if m != "map"]
    second = markdown(
        ["method", *(c.removeprefix("ndcg") for c in cuts), "map"],
        [
            [
                label,
                *(f"{np.nanmean(r[c]):.{DIGITS}f}" for c in cuts),
                f"{np.nanmean(r['map']):.{DIGITS}f}",
            ]
            for label, r in results.items()
        ],
    )
    return (
        f"OHSUMED, {counted} test queries with a relevant document, pooled over folds; each value"
        f" is the mean over {seeds} seeds. In brackets: 95% bootstrap interval over"
        f" queries.\n\n{first}\n\nNDCG@1..10 and MAP\n\n{second}"
    )


if __name__ == "__main__":
    main()
