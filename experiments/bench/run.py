"""Cost of a round's gradient and Hessian: against list length, against pair loops, against
LightGBM's own.

    python -m experiments.bench.run [--documents 200000] [--threads 2]

See README.md in this folder. Ratios are taken within one run, in one process; times are of this
machine, now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from rich.console import Console

import boostrank
from boostrank.core.machine import resolve_threads
from boostrank.core.params import find_param
from boostrank.core.queries import QueryIndex
from boostrank.objective.bound import BoundObjective
from boostrank.objective.description import Objective
from boostrank.objectives import OBJECTIVES
from experiments.bench import folds
from experiments.bench.formula import FORMULA
from experiments.common import arguments, markdown, save

LENGTHS = (10, 30, 100, 300, 1_000, 4_000)
LONG = 4_000
GRADES = (0.52, 0.32, 0.13, 0.02, 0.01)  # the shares of MSLR
REPEATS = 5
PEERS = (120, 2_000)
PEER_DOCUMENTS = 1_000_000
PEER_OBJECTIVES = (
    "approx-ndcg",
    "shf-sdcg",
    "reg-shf-sdcg",
    "smooth-ndcg",
    "lambdarank",
    "xe-ndcg",
)
LISTS = (100_000, 1_000_000)
TRAINING = {"documents": 200_000, "length": 120, "features": 136, "leaves": 63, "rounds": 100}
TRAINED = ("lightgbm:lambdarank", "auto", "approx-ndcg", "shf-sdcg", "reg-shf-sdcg")
# Pair loops take minutes at full length for nothing: they are measured on one list a thread.
PAIRS = {"sums": "direct"}


def main() -> None:
    """Measure, and write table and numbers."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument(
        "--documents", type=int, default=200_000, help="documents measured at each list length"
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="leave out whole trainings, LightGBM's and folds"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "bench.md")
    options = parser.parse_args()
    threads = resolve_threads(options.threads)
    console = Console(stderr=True)
    results: dict[str, dict[str, float]] = {}
    for spec in OBJECTIVES:
        results[spec.name] = measure(spec.name, options.documents, threads)
        console.print(
            f"{spec.name}: {results[spec.name][str(LONG)]:.0f} ns a document in lists of {LONG:,}"
        )
    by_formula = nanoseconds(Objective(FORMULA, threads=threads), LONG, threads)
    lists = {spec.name: one_list(spec.name, threads, console) for spec in OBJECTIVES}
    peers = {} if options.no_peers else against_lightgbm(threads, console)
    training = {} if options.no_peers else whole_trainings(threads, console)
    folded = (
        []
        if options.no_peers
        else [
            row
            for name in folds.SETS
            for row in folds.measured(name, options.data_root, threads, console)
        ]
    )
    numbers = {
        "objectives": results,
        "by_formula": by_formula,
        "lists": lists,
        "peers": peers,
        "training": training,
        "threads": threads,
        "folds": folded,
    }
    save(options.out, report(numbers), numbers)
    print(options.out.read_text(), end="")


def measure(name: str, documents: int, threads: int) -> dict[str, float]:
    """List length -> nanoseconds a document; and the pair loop's at the longest, where there is one
    to switch to.
    """
    objective = Objective(name, threads=threads, total_rounds=100)
    result = {}
    for length in LENGTHS:
        # Four long lists are enough for what is quadratic all the same.
        queries = max(
            1,
            (documents if not objective.spec.quadratic or length < 1_000 else 4 * length) // length,
        )
        result[str(length)] = nanoseconds(objective, length, queries)
    if find_param("sums", objective.spec.params):
        result["direct"] = nanoseconds(
            Objective(name, threads=threads, total_rounds=100, **PAIRS), LONG, threads
        )
    return result


def one_list(name: str, threads: int, console: Console) -> dict[str, float]:
    """Documents -> seconds of one round over one list of them."""
    objective = Objective(name, threads=threads, total_rounds=100)
    result = {str(length): 1e-9 * nanoseconds(objective, length, 1) * length for length in LISTS}
    console.print(f"{name}: one list of {LISTS[-1]:,} in {result[str(LISTS[-1])]:.1f} s")
    return result


def bound(
    objective: Objective, length: int, queries: int
) -> tuple[BoundObjective, np.ndarray[Any, Any]]:
    """An objective over generated lists, and scores that lean towards the labels."""
    rng = np.random.default_rng(length)
    labels = rng.choice(len(GRADES), length * queries, p=GRADES).astype(np.float64)
    scores = labels + 2.0 * rng.normal(size=labels.size)
    return objective.bind(labels, QueryIndex.from_sizes([length] * queries)), scores


def nanoseconds(objective: Objective, length: int, queries: int) -> float:
    """Median time of a pass, per document, in a round past every warm start."""
    over, scores = bound(objective, length, queries)
    seconds = median(lambda: over.gradient(scores, 60))
    return 1e9 * seconds / scores.size


def median(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median wall time, after one call that compiles."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def against_lightgbm(threads: int, console: Console) -> dict[str, dict[str, float]]:
    """Lists of one length -> milliseconds a round for 1M documents, ours and the gradient of
    LightGBM's own.

    LightGBM's gradient is the difference between training with its objective and with squared
    error, on one feature and two leaves, where trees cost next to nothing. All are measured in
    turns.
    """
    peers: dict[str, dict[str, float]] = {}
    for length in PEERS:
        queries = PEER_DOCUMENTS // length
        objectives = {
            name: Objective(name, threads=threads, total_rounds=100) for name in PEER_OBJECTIVES
        }
        ours = {name: bound(objective, length, queries) for name, objective in objectives.items()}
        labels = np.random.default_rng(length).choice(len(GRADES), length * queries, p=GRADES)
        boosters = {
            name: booster(labels, length, params, threads) for name, params in NATIVE.items()
        }
        times: dict[str, list[float]] = {}
        for repeat in range(REPEATS + 1):
            for name, (over, scores) in ours.items():
                times.setdefault(name, []).append(
                    seconds(lambda over=over, scores=scores: over.gradient(scores, 60))
                )
            for name, trained in boosters.items():
                times.setdefault(name, []).append(seconds(trained.update))
            if repeat == 0:
                times = {}  # compilation, first touches
        middle = {name: 1e3 * float(np.median(values)) for name, values in times.items()}
        base = middle.pop("regression")
        peers[str(length)] = {n: v - base if n in NATIVE else v for n, v in middle.items()}
        console.print(f"1M documents in lists of {length:,}: done")
    return peers


def whole_trainings(threads: int, console: Console) -> dict[str, list[float]]:
    """Objective -> seconds of each of several trainings, taken in turns: binning, a start and the
    trees included.
    """
    rng = np.random.default_rng(1)
    queries = TRAINING["documents"] // TRAINING["length"]
    features = rng.normal(size=(queries * TRAINING["length"], TRAINING["features"])).astype(
        np.float32
    )
    labels = np.digitize(
        features[:, :5].sum(axis=1) + 2 * rng.normal(size=len(features)), (0.0, 2.5, 5.0, 7.0)
    )
    data = boostrank.RankingDataset.from_arrays(
        features, labels, group=[TRAINING["length"]] * queries
    )
    times: dict[str, list[float]] = {name: [] for name in TRAINED}
    for repeat in range(REPEATS + 1):
        for name in TRAINED:
            params = {
                "objective": name,
                "num_leaves": TRAINING["leaves"],
                "num_threads": threads,
                "verbosity": -1,
            }
            taken = seconds(lambda params=params: boostrank.train(params, data, TRAINING["rounds"]))
            if repeat:
                times[name].append(taken)
    console.print("whole trainings: done")
    return times


NATIVE: dict[str, dict[str, Any]] = {
    "regression": {"objective": "regression", "boost_from_average": False},
    "LightGBM lambdarank, truncation 30": {"objective": "lambdarank"},
    "LightGBM lambdarank, whole list": {
        "objective": "lambdarank",
        "lambdarank_truncation_level": 10_000,
    },
    "LightGBM rank_xendcg": {"objective": "rank_xendcg"},
}


def booster(
    labels: np.ndarray[Any, Any], length: int, params: dict[str, Any], threads: int
) -> lgb.Booster:
    """One feature that says something, two leaves."""
    feature = (labels + np.random.default_rng(0).normal(size=labels.size)).reshape(-1, 1)
    dataset = lgb.Dataset(feature, labels, group=[length] * (labels.size // length))
    return lgb.Booster(
        {**params, "num_leaves": 2, "verbosity": -1, "num_threads": threads}, dataset
    )


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def report(numbers: dict[str, Any]) -> str:
    """Tables: cost against list length; very long lists; 1M documents beside LightGBM; whole
    trainings.
    """
    rows = []
    for name, row in numbers["objectives"].items():
        growth = row[str(LONG)] / row["100"]
        faster = f"{row['direct'] / row[str(LONG)]:.0f}x" if "direct" in row else "-"
        rows.append([name, *(f"{row[str(n)]:.0f}" for n in LENGTHS), f"{growth:.1f}", faster])
    lengths = [f"{n:,}" for n in LENGTHS]
    first = markdown(["objective", *lengths, f"{LONG:,} / 100", f"pair loop at {LONG:,}"], rows)
    text = (
        f"Nanoseconds a document for gradient and Hessian, {numbers['threads']} threads, by list"
        f" length. Last columns: growth from lists of 100 to {LONG:,}, and how many times slower"
        " the objective's own pair loop is there. `approx-ndcg` as its formulas stand, an"
        f" exponential a pair, takes {numbers['by_formula']:,.0f}.\n\n{first}"
    )
    table = [
        [name, *(f"{row[str(n)]:.2f}" for n in LISTS)] for name, row in numbers["lists"].items()
    ]
    text += "\n\nSeconds of a round over one list.\n\n" + markdown(
        ["objective", *(f"{n:,}" for n in LISTS)], table
    )
    for length, values in numbers["peers"].items():
        base = values["LightGBM lambdarank, truncation 30"]
        table = [[name, f"{ms:.1f}", f"{ms / base:.2f}"] for name, ms in values.items()]
        text += f"\n\n1M documents in lists of {int(length):,}, one round.\n\n" + markdown(
            ["gradient of", "ms", "/ LightGBM lambdarank, truncation 30"], table
        )
    if training := numbers["training"]:
        table = []
        for name, times in training.items():
            ratios = np.array(times) / training[TRAINED[0]]
            table.append(
                [
                    name,
                    f"{np.median(times):.2f}",
                    f"{np.median(ratios):.3f}",
                    f"{ratios.min():.3f} to {ratios.max():.3f}",
                ]
            )
        head = ["training with", "s", f"/ {TRAINED[0]}", "range over the turns"]
        text += (
            "\n\nWhole trainings:"
            f" {', '.join(f'{n:,} {what}' for what, n in TRAINING.items())}.\n\n"
        )
        text += markdown(head, table)
    if numbers["folds"]:
        text += "\n\n" + folds.table(numbers["folds"])
    return text


if __name__ == "__main__":
    main()
