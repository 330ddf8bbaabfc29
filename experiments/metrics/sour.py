"""SOUR: a second training without the documents that the first one's last rounds all place wrongly.

    python -m experiments.metrics.sour [--sets ohsumed] [--set NAME=FILE,...] [--seeds 1]

Marcuzzi, Lucchese, Orlando, "Filtering out outliers in learning to rank", ICTIR 2022. Every result
is kept under out/.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from boostrank.metrics import BoundMetrics
from experiments.common import markdown, save
from experiments.defaults.run import code_of_boostrank
from experiments.defaults.splits import folds
from experiments.defaults.tools import LARGE, Data, suited
from experiments.metrics.run import PATIENCE, ROUNDS
from experiments.peers.splits import Fold, read_sets
from experiments.peers.statistics import against
from experiments.peers.store import Run, Store, key_of

METRIC, CUTOFF = "ndcg@10", 10
BASES = ("lambdarank", "auto")
KINDS = ("negative", "positive", "all")


def main() -> None:
    """Train what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-root", type=Path, default=None, help="folder of the real data sets")
    parser.add_argument(
        "--sets",
        default="ohsumed,mslr-sample,lambdarank-example,sparse-long",
        help="comma-separated",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=FILE,...", help="a further set, libsvm"
    )
    parser.add_argument(
        "--seeds", type=int, default=1, help="trainings a fold, whose NDCG is averaged"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    store, rows, numbers = Store(options.out), [], {}
    places = read_sets(options.sets, options.set, options.data_root)
    of = {name: (data, folds(data, "choice")) for name, data in places.items()}
    for base in BASES:
        runs = {
            place: [
                [_kept(store, base, place, data, fold, seed) for seed in range(options.seeds)]
                for fold in found
            ]
            for place, (data, found) in of.items()
        }
        models = {
            name: [
                (place, np.array([run[name] for run in fold], float))
                for place, f in runs.items()
                for fold in f
            ]
            for name in (base, *KINDS)
        }
        measured = {
            name: {
                place: np.concatenate([v.mean(axis=0) for p, v in each if p == place])
                for place in of
            }
            for name, each in models.items()
        }
        every = [run for of_place in runs.values() for fold in of_place for run in fold]
        for kind, one in against(measured, models, base).items():
            left_out = f"{np.mean([run['left out'][kind] for run in every]):.1%}"
            pooled = [_interval(one.by_query), f"{one.holm_by_query:.3f}", _interval(one.by_set)]
            rows.append(
                [
                    f"{base}, {kind}",
                    left_out,
                    *pooled,
                    *(_interval(one.each[place]) for place in of),
                ]
            )
            numbers[rows[-1][0]] = rows[-1][1:]
    head = ["without", "left out", "every query", "p, Holm", "every set alike", *of]
    save(options.out / "sour.md", markdown(head, rows), numbers)
    print((options.out / "sour.md").read_text())


def _kept(store: Store, base: str, place: str, data: Data, fold: Fold, seed: int) -> Run:
    what = {
        "data": data.fingerprint,
        "sour": base,
        "seed": seed,
        "test": fold.test.tolist(),
        "cutoff": CUTOFF,
    }
    key = key_of(what | {"code": code_of_boostrank(), "rounds": ROUNDS, "patience": PATIENCE})
    if store.get(key) is None:
        begun = time.process_time()
        store.put(
            key,
            _run(base, data, fold, seed) | {"what": {"cell": f"{place}, SOUR on {base}, {seed}"}},
        )
        print(
            f"{place}, {base}, seed {seed}: {time.process_time() - begun:.1f} CPU seconds",
            flush=True,
        )
    return store.get(key) or {}


def _run(base: str, data: Data, fold: Fold, seed: int) -> Run:
    """NDCG of the test queries: of the base, and of a training without each kind of outliers."""
    train, valid = (data.take(queries) for queries in fold.inner(seed))
    test = data.take(fold.test)
    params = {
        "objective": base,
        "metric": METRIC,
        "eval_at": (),
        "early_stopping_round": PATIENCE,
        "seed": seed,
    }
    params |= {"num_threads": 1, "verbosity": -1} | suited("boostrank", len(train.queries) >= LARGE)

    def fitted(rows: Data) -> boostrank.RankingModel:
        return boostrank.train(params, rows, ROUNDS, valid_sets=[valid])

    def values(model: boostrank.RankingModel) -> list[float | None]:
        scores = model.predict(test.features, threads=1)
        found = BoundMetrics(METRIC, test.labels, test.queries, threads=1).per_query(scores)[METRIC]
        return [None if np.isnan(v) else round(float(v), 6) for v in found]

    first = fitted(train)
    wrong = dict(zip(KINDS[:2], _outliers(first, train), strict=True))
    wrong["all"] = wrong["negative"] | wrong["positive"]
    run: Run = {
        base: values(first),
        "left out": {kind: float(out.mean()) for kind, out in wrong.items()},
    }
    for kind, out in wrong.items():
        sizes = np.add.reduceat(~out, train.queries.ptr[:-1], dtype=np.int64)
        rows = Data.from_arrays(train.features[~out], train.labels[~out], group=sizes[sizes > 0])
        run[kind] = values(fitted(rows)) if out.any() else run[base]
    return run


def _outliers(model: boostrank.RankingModel, data: Data) -> tuple[Any, Any]:
    """Documents wrong after each round of the last half: bool[N] without, and with relevance.

    Wrong without relevance: among the first `CUTOFF` documents of a query, above a relevant one.
    Wrong with relevance: below the first `CUTOFF` documents, and below one without.
    """
    begin, sizes, rounds = data.queries.ptr[:-1], data.queries.sizes, model.best_iteration
    query = np.repeat(np.arange(sizes.size), sizes)
    pos = np.arange(query.size) - np.repeat(begin, sizes)
    cut = np.minimum(CUTOFF, sizes)
    booster = model.booster
    scores = model.predict(data.features, threads=1)  # of all rounds, and of the linear start
    never = np.ones((2, query.size), dtype=bool)
    for last in range(rounds, rounds // 2, -1):
        order = np.lexsort((-scores, query))
        relevant = data.labels[order] > data.labels.min()
        lowest = np.maximum.reduceat(np.where(relevant, pos, -1), begin)
        highest = np.minimum.reduceat(np.where(relevant, query.size, pos), begin)
        never[0, order] &= ~relevant & (pos < np.minimum(cut, lowest)[query])
        never[1, order] &= (
            relevant & (highest < sizes)[query] & (pos >= np.maximum(cut, highest)[query])
        )
        scores = scores - booster.predict(
            data.features, start_iteration=last - 1, num_iteration=1, num_threads=1
        )
    return never[0], never[1]


def _interval(one: Any) -> str:
    return f"{one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"


if __name__ == "__main__":
    main()
