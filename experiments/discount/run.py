"""Training discounts: does a shallower one help? Cross-validated on the training files of every
data set.

    python -m experiments.discount.run [--folds 3] [--sets sparse-long,mslr-sample]

See README.md in this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.metrics import Metric, paired_difference
from experiments.common import arguments, data_root, interval, markdown, save

SETS = {
    "lambdarank-example": "lambdarank-example/train.txt",
    "mslr-sample": "mslr-sample/train.txt",
    "ohsumed Fold1": "ohsumed/Fold1/train.txt",
    "sparse-long": "sparse-long/train.txt",
}
BASELINE = "lambdarank"
DISCOUNTS = ("log", 0.5, "linear")
METHODS: dict[str, dict[str, Any]] = {
    BASELINE: {"objective": "lambdarank"},
    "regression": {"objective": "regression"},
    **{
        f"{name}, {discount}": {"objective": name, "train_discount": discount}
        for name in ("approx-ndcg", "shf-sdcg", "reg-shf-sdcg")
        for discount in DISCOUNTS
    },
}
# Nothing is tuned for any method.
TREES = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "verbosity": -1,
    "early_stopping_round": 60,
    "eval_at": 10,
}
ROUNDS = 200
METRIC = Metric.parse("ndcg@10")


def main() -> None:
    """Train, compare with the baseline query by query, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "discount.md")
    options = parser.parse_args()
    root = data_root(options.data_root)
    console = Console(stderr=True)
    rows, numbers = [], []
    for name in options.sets.split(","):
        data = boostrank.read(root / SETS[name])
        pooled = cross_validated(data, options.folds, options.threads)
        console.print(f"{name}: done")
        for method, values in pooled.items():
            row = [name, method, interval(values), "-"]
            if method != BASELINE:
                paired = paired_difference(values, pooled[BASELINE])
                row[-1] = f"{paired.mean:+.4f} [{paired.low:+.4f}, {paired.high:+.4f}]"
                numbers.append(
                    {
                        "set": name,
                        "method": method,
                        "difference": paired.mean,
                        "low": paired.low,
                        "high": paired.high,
                    }
                )
            rows.append(row)
    save(
        options.out,
        markdown(["set", "objective, train_discount", "ndcg@10", "minus lambdarank, paired"], rows),
        numbers,
    )
    print(options.out.read_text(), end="")


def cross_validated(
    data: boostrank.RankingDataset, folds: int, threads: int | None
) -> dict[str, Any]:
    """Method -> NDCG@10 of every query by a model that did not see it; rounds chosen on a quarter
    of the others.
    """
    shuffled = np.random.default_rng(0).permutation(len(data.queries))
    pooled: dict[str, list[Any]] = {method: [] for method in METHODS}
    for fold in range(folds):
        test = data.take(shuffled[fold::folds])
        others = np.random.default_rng(fold).permutation(
            np.setdiff1d(shuffled, shuffled[fold::folds])
        )
        valid, train = data.take(others[: others.size // 4]), data.take(others[others.size // 4 :])
        for method, params in METHODS.items():
            limits = {"num_threads": threads} if threads else {}
            model = boostrank.train(
                {**TREES, **limits, **params}, train, ROUNDS, valid_sets=[valid]
            )
            pooled[method].append(
                METRIC.evaluate(test.labels, model.predict(test), test.queries).per_query
            )
    return {method: np.concatenate(parts) for method, parts in pooled.items()}


if __name__ == "__main__":
    main()
