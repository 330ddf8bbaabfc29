"""The training discount on sparse-long, with the learning rate that each objective chooses on
validation.

    python -m experiments.discount.by_rate [--data-root FOLDER]

Folds, trees and rounds are those of `experiments.discount.run`, which compares at one rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.metrics import Metric, paired_difference
from experiments.common import arguments, data_root

RATES = (0.05, 0.2, 0.7)
OBJECTIVES = ("shf-sdcg", "approx-ndcg")
DISCOUNTS = ("log", "linear")
FOLDS, ROUNDS = 3, 200
TREES = {
    "num_leaves": 15,
    "verbosity": -1,
    "early_stopping_round": 60,
    "eval_at": 10,
    "num_threads": 1,
}
METRIC = Metric.parse("ndcg@10")

Values = npt.NDArray[np.float64]


def main() -> None:
    """Train every objective at every rate, and print both discounts at each rate and at the chosen
    one.
    """
    options = arguments(__doc__.split("\n")[0]).parse_args()
    data = boostrank.read(data_root(options.data_root) / "sparse-long/train.txt")
    shuffled = np.random.default_rng(0).permutation(len(data.queries))
    values: dict[tuple[str, str, Any], list[Values]] = {}
    for fold in range(FOLDS):
        test = data.take(shuffled[fold::FOLDS])
        others = np.random.default_rng(fold).permutation(
            np.setdiff1d(shuffled, shuffled[fold::FOLDS])
        )
        valid, train = data.take(others[: others.size // 4]), data.take(others[others.size // 4 :])
        for objective in OBJECTIVES:
            for discount in DISCOUNTS:
                validated = []
                for rate in RATES:
                    params = TREES | {
                        "objective": objective,
                        "train_discount": discount,
                        "learning_rate": rate,
                    }
                    model = boostrank.train(
                        params, train, ROUNDS, valid_sets=[valid], valid_names=["valid"]
                    )
                    measured = METRIC.evaluate(
                        test.labels, model.predict(test), test.queries
                    ).per_query
                    values.setdefault((objective, discount, rate), []).append(measured)
                    validated.append((max(model.evals_result["valid"]["ndcg@10"]), measured))
                chosen = max(validated, key=lambda pair: pair[0])[1]
                values.setdefault((objective, discount, "chosen"), []).append(chosen)
    for objective in OBJECTIVES:
        for rate in (*RATES, "chosen"):
            log, linear = (
                np.concatenate(values[objective, discount, rate]) for discount in DISCOUNTS
            )
            gain = paired_difference(linear, log)
            interval = f"{gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
            print(
                f"{objective}, rate {rate}: log {np.nanmean(log):.4f}, linear minus log {interval}"
            )


if __name__ == "__main__":
    main()
