"""Long lists: whole-list objectives against truncated ones, in lists of 1,000, 10,000 and 100,000
documents.

    python -m experiments.long_lists.run [--million]

Every training and every measurement is kept under out/: a run that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

import boostrank
from boostrank.core.files import write_atomically
from boostrank.core.queries import QueryIndex
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics import BoundMetrics, paired_difference
from boostrank.objective.mixture import parse_objective
from boostrank.objectives import OBJECTIVES
from experiments.common import interval, markdown, save

Data = boostrank.RankingDataset
METRICS = ("ndcg@10", "ndcg@1000")
SETS = {1_000: (300, 100, 600), 10_000: (30, 10, 60), 100_000: (3, 2, 6)}
"""Documents in a list -> lists to train on, to choose the round by, and to test."""
SEEDS = {1_000: 1, 10_000: 1, 100_000: 2}
SHARES = (0.97, 0.02, 0.007, 0.0025, 0.0005)
"""Of grades 0 to 4."""
JUDGES = 0.5
ROUNDS = 100
TREES = {"num_leaves": 31, "learning_rate": 0.1, "num_threads": 1, "verbosity": -1}
TRUTH, REFERENCE = "the truth", "lambdarank"
LEFT_OUT = {
    100_000: (
        "xgboost:rank:ndcg, 1000 pairs",
        "yetirank(mode=ndcg)",
        "shf-sdcg(train_discount=linear)",
    ),
}
"""Not trained at that length, to save time."""
PAIRS = {"xgboost:rank:ndcg, 1000 pairs": {"lambdarank_num_pair_per_sample": 1_000}}
PAIRS["lightgbm:lambdarank, level 1000"] = {"lambdarank_truncation_level": 1_000}
METHODS = (
    REFERENCE,
    "lightgbm:lambdarank",
    "xgboost:rank:ndcg",
    *PAIRS,
    "lambdarank(k=10)",
    "lambdarank(k=1000)",
    "auto",
    "shf-sdcg",
    "shf-sdcg(train_discount=linear)",
    "reg-shf-sdcg",
    "approx-ndcg",
    "smooth-ndcg",
    "xe-ndcg",
    "listnet",
    "yetirank",
    "yetirank(mode=ndcg)",
    "query-rmse",
)
DOCUMENTS, FEATURES = 1_000_000, 10
LENGTHS = (1_000, 10_000, 100_000, DOCUMENTS)
VARIANTS = (
    "auto",
    "lambdarank(k=1000)",
    "yetirank(mode=ndcg)",
    "yetirank(mode=err)",
    "lambdarank(metric=err)",
)


def main() -> None:
    """Train or measure what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--million",
        action="store_true",
        help="cost of gradients, up to a million documents a query",
    )
    parser.add_argument("--lengths", default=",".join(map(str, SETS)), help="comma-separated")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    if options.million:
        text, numbers = costs(options.out)
    else:
        text, numbers = quality([int(length) for length in options.lengths.split(",")], options.out)
    save(options.out / ("million.md" if options.million else "long_lists.md"), text, numbers)
    print(text)


def kept(out: Path, name: str, work: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What an earlier run wrote under this name, or the result of `work(*args)`, written."""
    path = out / (re.sub(r"[^\w.=]+", "-", name) + ".json")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(work(*args)).encode())
        print(name, flush=True)
    return dict(json.loads(path.read_text()))


def quality(lengths: list[int], out: Path) -> tuple[str, Any]:
    """A table a length: each method by both metrics, and its difference from the reference, paired
    by test list.
    """
    texts, numbers = [], {}
    for length in lengths:
        found: dict[str, list[dict[str, Any]]] = {}
        for seed in range(SEEDS[length]):
            for method in (TRUTH, *(m for m in METHODS if m not in LEFT_OUT.get(length, ()))):
                one = kept(out, f"{length} {seed} {method}", trained, method, length, seed)
                found.setdefault(method, []).append(one)
        rows, base = [], found[REFERENCE]
        for method, runs in found.items():
            if any("error" in run for run in runs):
                rows.append([method, runs[0]["error"], "", "", "", "", ""])
                continue
            cells = []
            for metric in METRICS:
                values, others = (
                    np.concatenate([np.array(r[metric], float) for r in of]) for of in (runs, base)
                )
                gap = paired_difference(values, others)
                cells += [
                    f"{np.nanmean(values):.4f}",
                    f"{gap.mean:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]",
                ]
                cells[-1] = interval(values) if method == REFERENCE else cells[-1]
                numbers[f"{length}, {method}, {metric}"] = [
                    np.nanmean(values),
                    gap.mean,
                    gap.low,
                    gap.high,
                ]
            best = "; ".join(
                ", ".join(str(run["best"][metric]) for metric in METRICS)
                for run in runs
                if run["best"]
            )
            rows.append([method, *cells, f"{np.mean([run['seconds'] for run in runs]):.1f}", best])
        head = [
            f"{length:,} documents",
            METRICS[0],
            f"minus {REFERENCE}",
            METRICS[1],
            f"minus {REFERENCE}",
        ]
        texts.append(markdown([*head, "CPU seconds", "best rounds"], rows))
    return "\n\n".join(texts), numbers


@cache
def parts(length: int, seed: int) -> tuple[Data, Data, Data, Any]:
    """To train, to choose the round by, to test; and the relevance of the test documents."""
    train, valid, test = SETS[length]
    # Nearly all lists would be longer than `max_length`, so every list has that length.
    made = make_ranking_data(
        train + valid + test, seed=seed, mean_length=1e5 * length, max_length=length, useless=0
    )
    seen = made.relevance + JUDGES * np.random.default_rng(seed).normal(size=made.relevance.size)
    labels = np.searchsorted(np.quantile(seen, np.cumsum(SHARES)[:-1]), seen).astype(np.float64)
    columns = np.isin(made.roles, ("informative", "query"))
    whole = Data.from_arrays(
        made.dataset.features[:, columns], labels, group=made.dataset.queries.sizes
    )
    places = np.split(np.arange(train + valid + test), [train, train + valid])
    return *(whole.take(place) for place in places), made.relevance[-test * length :]


def trained(method: str, length: int, seed: int) -> dict[str, Any]:
    """CPU seconds of a training, and for each metric its best round by validation and the values of
    the test lists.
    """
    train, valid, test, truth = parts(length, seed)
    run: dict[str, Any] = {"best": {}, "seconds": 0.0}
    if method != TRUTH:
        seen: dict[str, Any] = {}
        params = {"objective": method.split(",")[0], "metric": list(METRICS), "seed": seed} | TREES
        params |= PAIRS.get(method, {})
        begun = time.process_time()
        try:
            model = boostrank.train(
                params,
                train,
                ROUNDS,
                valid_sets=[valid],
                callbacks=[lgb.record_evaluation(seen)],
                backend="xgboost" if method.startswith("xgboost") else "lightgbm",
            )
        except (boostrank.BoostrankError, lgb.basic.LightGBMError) as error:
            return {"error": str(error)}
        run["seconds"] = time.process_time() - begun
        run["best"] = {metric: int(np.argmax(seen["valid_0"][metric])) + 1 for metric in METRICS}
    for metric in METRICS:
        best = run["best"].get(metric)
        scores = (
            truth if best is None else model.predict(test.features, num_iteration=best, threads=1)
        )
        run[metric] = (
            BoundMetrics(metric, test.labels, test.queries, threads=1)
            .per_query(scores)[metric]
            .tolist()
        )
    return run


def costs(out: Path) -> tuple[str, Any]:
    """Nanoseconds of a gradient per document by the length of lists; seconds and memory of a
    training on one list.
    """
    rows, numbers = [], {}
    for name in (*(spec.name for spec in OBJECTIVES), *VARIANTS):
        # A process for each, since its peak of memory is that of a process.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            one = kept(out, f"million {name}", lambda *of: pool.submit(*of).result(), cost, name)
        numbers[name] = one
        each = [f"{one['nanoseconds'][str(length)]:.0f}" for length in LENGTHS]
        first, last = (one["nanoseconds"][str(length)] for length in (LENGTHS[0], LENGTHS[-1]))
        trained = [f"{one[key]:.2f}" for key in ("gradient", "round")] + [
            f"{one['bytes'] / 2**20:.0f}"
        ]
        rows.append([name, *each, f"{last / first:.1f}", *trained])
    lengths = [f"{length:,}" for length in LENGTHS]
    head = ["objective", *lengths, "last / first", "gradient, s", "round, s", "MiB above the data"]
    return markdown(head, rows), numbers


def cost(name: str) -> dict[str, Any]:
    """Costs of one objective, on one thread: the same documents, in lists of each length; then two
    rounds on one.
    """
    rng = np.random.default_rng(0)
    features = rng.standard_normal((DOCUMENTS, FEATURES), dtype=np.float32)
    seen = features[:, :3].sum(axis=1) + rng.standard_normal(DOCUMENTS, dtype=np.float32)
    labels = np.searchsorted(np.quantile(seen, np.cumsum(SHARES)[:-1]), seen).astype(np.float64)
    objective = parse_objective(name, threads=1, total_rounds=ROUNDS)
    objective.bind(labels[:10], QueryIndex.from_sizes([10])).gradient(seen[:10], 60)  # compiles
    result: dict[str, Any] = {"nanoseconds": {}}
    for length in LENGTHS:
        over = objective.bind(labels, QueryIndex.from_sizes([length] * (DOCUMENTS // length)))
        times = []
        for _ in range(2):
            begun = time.process_time()
            over.gradient(seen, 60)  # a round past every warm start
            times.append(time.process_time() - begun)
        result["nanoseconds"][str(length)] = 1e9 * min(times) / DOCUMENTS
    result["gradient"] = min(times)
    data = Data.from_arrays(features, labels, group=[DOCUMENTS])
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    boostrank.train({"objective": name, "start": "none"} | TREES, data, 2)
    result["round"] = (time.process_time() - begun) / 2
    result["bytes"] = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return result


if __name__ == "__main__":
    main()
