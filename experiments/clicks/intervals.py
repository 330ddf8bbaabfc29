"""Whether the intervals of estimated propensities hold the truth as often as they say, over
simulated logs.

    python -m experiments.clicks.intervals [--logs 200]

See README.md in this folder.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

import boostrank
from boostrank.clicks.estimation import NONSENSE, estimate_propensities
from boostrank.clicks.simulate import simulate_clicks
from experiments.clicks.run import SHOWN
from experiments.clicks.users import Users
from experiments.common import arguments, data_root, markdown, save

SETS = {"sparse-long": ("sparse-long", 200), "ohsumed": ("ohsumed/Fold1", 63)}
"""Folder, and how many queries of it are drawn."""
WRONG_WAY = 0.7
"""Standard deviations of a grade by which the logged ranker errs."""


def main() -> None:
    """A row a set, eta and number of impressions."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, numbers = [], []
    for name, (folder, queries) in SETS.items():
        train = boostrank.read(data_root(options.data_root) / folder / "train.txt")
        for eta in (0.0, 1.0, 2.0):
            for impressions in (10, 100):
                found = held(train, queries, eta, impressions, options.logs)
                numbers.append({"set": name, "eta": eta, "impressions": impressions, **found})
                rows.append(
                    [
                        name,
                        f"{eta:g}",
                        str(impressions),
                        f"{found['inside']:.1%}",
                        f"{found['error']:.3f}",
                        f"{found['vague']:.1%}",
                    ]
                )
                print(rows[-1], flush=True)
    header = [
        "set",
        "eta",
        "impressions",
        "95% intervals hold the truth",
        "rms error of log e",
        "without, or vague",
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    save(options.out / "intervals.md", markdown(header, rows), numbers)


def held(
    train: boostrank.RankingDataset, queries: int, eta: float, impressions: int, logs: int
) -> dict[str, float]:
    """Share of the positions but the first whose interval holds the truth; those that are vague are
    counted apart.
    """
    truth, inside, errors, vague = -eta * np.log(np.arange(1, SHOWN + 1)), [], [], []
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        data = train.take(np.sort(rng.permutation(len(train.queries))[:queries]))
        scores = data.labels + WRONG_WAY * data.labels.std() * rng.normal(size=data.n_documents)
        log = simulate_clicks(
            data.labels,
            data.queries,
            scores,
            Users(eta=eta).clicks,
            impressions=impressions,
            shown=SHOWN,
            seed=seed,
        )
        curve = estimate_propensities(log, data.queries)
        assert curve.errors is not None
        known = (curve.errors[1:] <= NONSENSE) & np.isfinite(curve.examination[1:])
        off = (np.log(curve.examination) - truth[: log.depth])[1:][known]
        inside += list(np.abs(off) <= 1.96 * curve.errors[1:][known])
        errors += list(off)
        vague += list(~known)
    return {
        "inside": float(np.mean(inside)),
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "vague": float(np.mean(vague)),
    }


if __name__ == "__main__":
    main()
