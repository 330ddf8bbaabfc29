"""Selection of rounds, and averaging: what choosing a model is worth beside choosing an objective.

    python -m experiments.selection.run [--sets sparse-long,mslr-sample] [--seeds 2]

See README.md in this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

import boostrank
from boostrank.metrics import BoundMetrics, paired_difference
from experiments.common import arguments, data_root, markdown, save
from experiments.peers.splits import PARTS, SETS, Fold, folds, read

Floats = npt.NDArray[np.float64]

METHODS: dict[str, dict[str, Any]] = {
    "lightgbm:lambdarank": {"objective": "lightgbm:lambdarank"},
    "xe-ndcg": {"objective": "xe-ndcg"},
}
# The same for both, tuned for neither. A feature's chance to be seen is what seeds change.
TREES = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_sum_hessian_in_leaf": 0.001,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.5,
    "verbosity": -1,
    "metric": "none",
}
ROUNDS = 300
WINDOWS = (5, 15, 31)
METRIC = "ndcg@10"
BASE = "the best round"


def main() -> None:
    """Train, choose in several ways, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "selection.md")
    options = parser.parse_args()
    root = data_root(options.data_root)
    console = Console(stderr=True)
    numbers: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name in options.sets.split(","):
        data = read(root, SETS[name])
        for method, params in METHODS.items():
            pooled: dict[str, list[Floats]] = {}
            for fold in folds(data, "search"):
                for rule, values in measured(
                    data, fold, params, options.seeds, options.threads
                ).items():
                    pooled.setdefault(rule, []).append(values)
            numbers.setdefault(method, {})[name] = {
                rule: np.concatenate(v).tolist() for rule, v in pooled.items()
            }
            console.print(f"{name}, {method}: done")
    save(options.out, table(numbers), numbers)
    print(options.out.read_text(), end="")


def measured(
    data: boostrank.RankingDataset,
    fold: Fold,
    params: dict[str, Any],
    seeds: int,
    threads: int | None,
) -> dict[str, Floats]:
    """Rule -> the metric of each test query, the mean over the trainings that the rule gives."""
    test = data.take(fold.test)
    on_test = BoundMetrics([METRIC], test.labels, test.queries)
    values: dict[str, list[Floats]] = {}
    of_fold: dict[int, list[Floats]] = {}

    def note(rule: str, scores: Floats) -> None:
        values.setdefault(rule, []).append(on_test.per_query(scores)[METRIC])

    for part in range(PARTS):
        training, validating = (data.take(queries) for queries in fold.inner(part))
        on_valid = BoundMetrics([METRIC], validating.labels, validating.queries)
        of_seed: list[Floats] = []
        for seed in range(seeds):
            how = (
                params
                | TREES
                | {"seed": seed}
                | ({} if threads is None else {"num_threads": threads})
            )
            model = boostrank.train(how, training, ROUNDS)
            staged = rounds_of(model, test)
            curve = np.array(
                [on_valid.values(scores)[METRIC] for scores in rounds_of(model, validating)]
            )
            best = staged[int(np.argmax(curve))]
            note(BASE, best)
            note("all rounds", staged[-1])
            for window in WINDOWS:
                note(f"the best of {window} rounds' mean", staged[middle_of_best(curve, window)])
            of_seed.append(best)
            of_fold.setdefault(seed, []).append(best)
        note(f"mean of {seeds} seeds", np.mean(of_seed, axis=0))
    for scores in of_fold.values():
        note(f"mean of {PARTS} folds", np.mean(scores, axis=0))
    every = [scores for of_one in of_fold.values() for scores in of_one]
    note(f"mean of {PARTS} folds and {seeds} seeds", np.mean(every, axis=0))
    return {rule: np.mean(found, axis=0) for rule, found in values.items()}


def rounds_of(model: boostrank.RankingModel, data: boostrank.RankingDataset) -> Floats:
    """float64[rounds, N], the scores after each round."""
    trees = model.trees()
    assert trees.forest is not None
    leaves = np.bincount(trees.forest.tree, minlength=trees.count) + 1
    at = model.booster.predict(data.features, pred_leaf=True, num_threads=1).astype(np.int64)
    return np.cumsum(trees.forest.value[at + np.cumsum(leaves) - leaves].T, axis=0)


def middle_of_best(curve: Floats, window: int) -> int:
    """The round in the middle of the window with the highest mean; windows are cut at both ends."""
    half = window // 2
    sums = np.cumsum(np.concatenate([[0.0], curve]))
    low = np.maximum(np.arange(curve.size) - half, 0)
    high = np.minimum(np.arange(curve.size) + half + 1, curve.size)
    return int(np.argmax((sums[high] - sums[low]) / (high - low)))


def table(numbers: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    """Each rule against the base, query by query, pooled over the sets, each set with the same
    weight.
    """
    out = []
    for method, sets in numbers.items():
        rows = []
        for rule in next(iter(sets.values())):
            values = np.concatenate([sets[name][rule] for name in sets])
            base = np.concatenate([sets[name][BASE] for name in sets])
            sizes = np.concatenate(
                [np.full(len(sets[name][rule]), float(len(sets[name][rule]))) for name in sets]
            )
            paired = paired_difference(values, base, weights=values.size / sizes)
            row = [rule, *(f"{np.nanmean(sets[name][rule]):.4f}" for name in sets)]
            cells = (
                f"{paired.mean:+.4f} [{paired.low:+.4f}, {paired.high:+.4f}]"
                if rule != BASE
                else "-"
            )
            rows.append([*row, cells, "-" if rule == BASE else f"{paired.p:.4f}"])
        out += [
            f"### {method}",
            "",
            markdown(["rounds kept", *sets, "mean of the sets", "p"], rows),
            "",
        ]
    return "\n".join(out)


if __name__ == "__main__":
    main()
