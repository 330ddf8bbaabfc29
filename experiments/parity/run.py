"""Our LambdaRank against the engines' own, on every data set, three seeds: the same trees, the same
metric?

    python -m experiments.parity.run [--seeds 3] [--rounds 100]

See README.md in this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from boostrank.metrics import Metric, paired_difference
from experiments.common import arguments, data_root, markdown, save

SETS = {
    "lambdarank-example": ("lambdarank-example/train.txt", "lambdarank-example/test.txt"),
    "mslr-sample": ("mslr-sample/train.txt", "mslr-sample/test.txt"),
    "sparse-long": ("sparse-long/train.txt", "sparse-long/test.txt"),
    **{
        f"ohsumed Fold{i}": (f"ohsumed/Fold{i}/train.txt", f"ohsumed/Fold{i}/test.txt")
        for i in range(1, 6)
    },
}
TREES = {"learning_rate": 0.1, "num_leaves": 31, "verbosity": -1}
# Rows are sampled so that seeds mean something; columns are not: LightGBM draws the first columns
# of a custom objective from another place of its random stream, so that the trees could not be
# compared.
LIGHTGBM = {"bagging_fraction": 0.8, "bagging_freq": 1}
XGBOOST = {"subsample": 0.8, "min_sum_hessian_in_leaf": 0, "lambda_l2": 0}

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "lightgbm:lambdarank": ("lightgbm", {**LIGHTGBM, "objective": "lightgbm:lambdarank"}),
    "ours, LightGBM's rounding": (
        "lightgbm",
        {**LIGHTGBM, "objective": "lambdarank", "lightgbm_rounding": True, "hessian_scale": "raw"},
    ),
    "ours": ("lightgbm", {**LIGHTGBM, "objective": "lambdarank"}),
    "xgboost:rank:ndcg": ("xgboost", {**XGBOOST, "objective": "xgboost:rank:ndcg"}),
    # XGBoost doubles the hessian of every pair, which halves its steps, and cuts off at 32.
    "ours on XGBoost": (
        "xgboost",
        {**XGBOOST, "objective": "lambdarank", "truncation_level": 32, "learning_rate": 0.05},
    ),
}
BASE = {
    name: "lightgbm:lambdarank" if backend == "lightgbm" else "xgboost:rank:ndcg"
    for name, (backend, _) in METHODS.items()
}


def main() -> None:
    """Train, compare, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "parity.md")
    options = parser.parse_args()
    root = data_root(options.data_root)
    metric = Metric.parse("ndcg@10")
    rows, numbers = [], []
    for name in options.sets.split(","):
        train = boostrank.read(root / SETS[name][0])
        test = boostrank.read(root / SETS[name][1], like=train)
        values: dict[str, list[Any]] = {}
        scores: dict[str, list[Any]] = {}
        for seed in range(options.seeds):
            for method, (backend, params) in METHODS.items():
                threads = {"num_threads": options.threads} if options.threads else {}
                model = boostrank.train(
                    {**TREES, **params, **threads, "seed": seed},
                    train,
                    options.rounds,
                    backend=backend,
                )
                predicted = model.predict(test)
                scores.setdefault(method, []).append(predicted)
                values.setdefault(method, []).append(
                    metric.evaluate(test.labels, predicted, test.queries).per_query
                )
        for method in METHODS:
            base = BASE[method]
            means = [float(np.nanmean(v)) for v in values[method]]
            row = [name, method, f"{np.mean(means):.4f}", " ".join(f"{m:.4f}" for m in means)]
            if method != base:
                paired = paired_difference(
                    np.mean(values[method], axis=0), np.mean(values[base], axis=0)
                )
                furthest = max(
                    float(np.abs(a - b).max())
                    for a, b in zip(scores[method], scores[base], strict=True)
                )
                row += [
                    f"{paired.mean:+.4f} [{paired.low:+.4f}, {paired.high:+.4f}]",
                    f"{furthest:.1e}",
                ]
                numbers.append(
                    {
                        "set": name,
                        "method": method,
                        "minus": base,
                        "difference": paired.mean,
                        "scores": furthest,
                    }
                )
            rows.append([*row, *["-"] * (6 - len(row))])
    header = [
        "set",
        "method",
        "ndcg@10",
        "by seed",
        "minus the engine's own, paired",
        "largest score difference",
    ]
    save(options.out, markdown(header, rows), numbers)
    print(options.out.read_text(), end="")


if __name__ == "__main__":
    main()
