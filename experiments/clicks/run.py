"""Learning from clicks: what debiasing gives on either engine, over logs, users and how much was
clicked.

    python -m experiments.clicks.run [--seeds 5] [--sets sparse-long,ohsumed]

Every result is appended to a file as it comes, and not computed again. See README.md in this
folder.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb

import boostrank
from boostrank.clicks.estimation import estimate_propensities
from boostrank.clicks.gate import Judged, gate, held_out, judging_propensities
from boostrank.clicks.log import ClickLog
from boostrank.clicks.simulate import click_probabilities, simulate_clicks
from boostrank.core.errors import DataError
from boostrank.metrics import Conventions, Metric
from experiments.clicks.users import Users
from experiments.common import arguments, data_root, markdown, save

SETS = {
    "sparse-long": ["sparse-long"],
    "ohsumed": [f"ohsumed/Fold{k}" for k in range(1, 6)],
    "lambdarank-example": ["lambdarank-example"],
}
LOGGER_QUERIES = {"sparse-long": 20, "ohsumed": 10, "lambdarank-example": 20}
SHOWN, ROUNDS = 10, 100
TREES = {"num_leaves": 16}
METRIC = Metric.parse("ndcg@10")
CLICKS, LINEAR = Metric.parse("dcg@10"), Conventions(gain="linear")
"""What the gate estimates, of true click probabilities."""
ENGINES = ("lightgbm", "xgboost")
AUTO = (
    "click counts",
    "sum of clicks / e",
    "exposure",
    "exposure, true curve",
    "true labels",
    "exposure, unbiased",
)
"""Gains that `auto` learns on either engine, and last the objective whose gradients clicks estimate
without bias.
"""
UNBIASED = {
    "objective": "approx-ndcg",
    "normalize": "none",
    "gain_base": "zero",
    "train_discount": "linear",
}
BUILT_IN = ("lightgbm position", "xgboost unbiased")
"""What the engines have of their own, on a row an impression."""
OWN = dict(zip(ENGINES, BUILT_IN, strict=True))
COLUMNS = {
    **{gain: "{engine}: " + gain for gain in AUTO if gain not in {"click counts", "true labels"}},
    "the engine's own": "{own}",
    "true labels": "{engine}: true labels",
}
"""What is compared with click counts on the same engine."""
GATES = (
    "logs",
    "cost NDCG",
    "of these below 0",
    "cost clicks",
    "of these below 0",
    "folds",
    "refused",
    "clearly below 0",
    "clear and wrong",
    "interval holds the truth",
    "exposure-DCG to the truth",
    "ever shown of the new top 10",
)
"""Of logs, whose folds are taken together, and of folds."""


@dataclass(frozen=True)
class Condition:
    """How a log comes about."""

    users: str = "position"
    eta: float = 1.0
    impressions: int = 10

    def __str__(self) -> str:
        eta = "" if self.users == "cascade" else f", eta {self.eta:g}"
        return f"{self.users}{eta}, {self.impressions} impressions"


CONDITIONS = [
    *(Condition("position", eta, n) for eta in (1.0, 0.0, 2.0) for n in (10, 2, 100)),
    Condition("trust"),
    Condition("cascade"),
]


@dataclass(frozen=True)
class Log:
    """Training documents, clicks on them, and what is true."""

    train: boostrank.RankingDataset
    test: boostrank.RankingDataset
    log: ClickLog
    users: Users
    seed: int
    threads: int | None


def main() -> None:
    """Everything that is asked for and not there yet; then the tables."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--conditions", type=int, default=len(CONDITIONS), help="the first so many")
    parser.add_argument(
        "--sessions",
        type=int,
        default=100,
        help="impressions a query up to which the engines' own learn",
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    kept, sets = options.out / "results.jsonl", options.sets.split(",")
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    there = {(one["set"], one["condition"], one["seed"], one["method"]) for one in done}
    conditions, root = CONDITIONS[: options.conditions], data_root(options.data_root)
    warnings.simplefilter("ignore")
    for seed in range(1, options.seeds + 1):
        for name in sets:
            for condition in conditions:
                wanted = [
                    m
                    for m in methods(condition, options.sessions)
                    if (name, str(condition), seed, m) not in there
                ]
                for method, found in measured(root, name, condition, seed, wanted, options.threads):
                    line = {
                        "set": name,
                        "condition": str(condition),
                        "seed": seed,
                        "method": method,
                        **found,
                    }
                    done.append(line)
                    with kept.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    said = {str(condition) for condition in conditions}
    write_tables(
        options.out, [one for one in done if one["set"] in sets and one["condition"] in said]
    )


def methods(condition: Condition, sessions: int) -> list[str]:
    """What is trained on such a log; the engines' own on a row an impression, of so many a query at
    most.
    """
    own = [
        f"{engine}: {gain}"
        for engine in ENGINES
        for gain in AUTO
        if gain != "exposure, true curve" or condition.users != "cascade"
    ]
    return ["logger", *own, *(BUILT_IN if condition.impressions <= sessions else ()), "gate"]


def measured(
    root: Path, name: str, condition: Condition, seed: int, wanted: list[str], threads: int | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(method, what was measured) of each."""
    if not wanted:
        return
    logs = [
        simulated(root / folder, LOGGER_QUERIES[name], condition, seed, threads)
        for folder in SETS[name]
    ]
    for method in wanted:
        started = time.monotonic()
        if method == "gate":
            yield method, {"folds": [gated(log) for log, _ in logs]}
            continue
        try:
            values = [ndcg(scored(method, *log), log[0].test) for log in logs]
        except DataError as error:  # no clicked document moved
            yield method, {"refused": str(error)}
            continue
        seconds = time.monotonic() - started
        sys.stderr.write(
            f"{name}, {condition}, seed {seed}, {method}: {np.nanmean(np.concatenate(values)):.4f},"
            f" {seconds:.1f} s\n"
        )
        yield (
            method,
            {"ndcg": np.concatenate(values).round(6).tolist(), "seconds": round(seconds, 2)},
        )


def ndcg(scores: np.ndarray, test: boostrank.RankingDataset) -> np.ndarray:
    """NDCG@10 of the grades, by query; NaN where all documents have the lowest."""
    return METRIC.evaluate(test.labels, scores, test.queries).per_query


def graded(data: boostrank.RankingDataset, lowest: float) -> boostrank.RankingDataset:
    """The same with grades from 0: the lowest, on which people click by mistake alone, is worth
    nothing.
    """
    return replace(data, labels=data.labels - lowest)


def simulated(
    folder: Path, few: int, condition: Condition, seed: int, threads: int | None
) -> tuple[Log, Any]:
    """A log of clicks on lists of a ranker that learnt few judged queries; and that ranker."""
    train = boostrank.read(folder / "train.txt")
    test = boostrank.read(folder / "test.txt", like=train)
    lowest = train.labels.min()
    train, test = graded(train, lowest), graded(test, lowest)
    chosen = np.random.default_rng(seed).permutation(len(train.queries))[:few]
    logger = boostrank.train(
        {**TREES, "objective": "lambdarank", "min_data_in_leaf": 5, "seed": seed, "verbosity": -1},
        train.take(chosen),
        30,
        start="none",
    )
    users = Users(condition.users, condition.eta)
    log = simulate_clicks(
        train.labels,
        train.queries,
        logger.predict(train),
        users.clicks,
        impressions=condition.impressions,
        shown=SHOWN,
        seed=seed,
    )
    return Log(train, test, log, users, seed, threads), logger


def scored(method: str, log: Log, logger: Any) -> np.ndarray:
    """Scores of the test documents."""
    if method == "logger":
        return logger.predict(log.test)
    if method in BUILT_IN:
        return {"lightgbm position": _position, "xgboost unbiased": _unbiased}[method](log)
    engine, _, gain = method.partition(": ")
    objective = UNBIASED if gain == "exposure, unbiased" else {}
    model = boostrank.train(
        {**_params(log, engine), **objective}, _GAINS[gain](log), ROUNDS, backend=engine
    )
    return model.predict(log.test)


def _params(log: Log, engine: str) -> dict[str, Any]:
    limits = {"num_threads": log.threads} if log.threads else {}
    quiet = {"verbosity": -1} if engine == "lightgbm" else {}
    return {**TREES, **limits, **quiet, "seed": log.seed, "gain": "linear"}


def _true_labels(log: Log) -> boostrank.RankingDataset:
    return replace(log.train, labels=np.exp2(log.train.labels) - 1.0)


def _weighted_clicks(log: Log) -> boostrank.RankingDataset:
    """Sum of clicks / e, of the documents that were shown."""
    curve = estimate_propensities(log.log, log.train.queries)
    entries = log.log.up_to(curve)
    weighted = np.bincount(
        entries.rows, entries.clicks / curve.examination[entries.positions - 1], entries.n_documents
    )
    shown = entries.training_set(log.train, curve)
    return replace(shown, labels=weighted[entries.shown])


_GAINS: dict[str, Callable[[Log], boostrank.RankingDataset]] = {
    "click counts": lambda log: log.log.training_set(log.train, None),
    "sum of clicks / e": _weighted_clicks,
    "exposure": lambda log: log.log.training_set(
        log.train, estimate_propensities(log.log, log.train.queries)
    ),
    "exposure, true curve": lambda log: log.log.training_set(
        log.train, log.users.propensities(SHOWN)
    ),
    "true labels": _true_labels,
    "exposure, unbiased": lambda log: log.log.training_set(
        log.train, estimate_propensities(log.log, log.train.queries), prior=0.0
    ),
}


def _session_rows(log: Log) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the documents, clicks, positions from 0, and sizes of the lists: a list an
    impression, as it was shown.

    Which lists a document's impressions at a position were in does not matter to what follows;
    lists are put together anew from the counts, one document a position.
    """
    entries = log.log
    rows, clicks, positions, lists = [], [], [], []
    query = log.train.queries.of_rows()[entries.rows]
    for q in np.unique(query):
        own = np.flatnonzero(query == q)
        columns = []
        for p in np.unique(entries.positions[own]):
            at = own[entries.positions[own] == p]
            documents = np.repeat(entries.rows[at], entries.impressions[at])
            clicked = np.concatenate(
                [
                    np.arange(n) < c
                    for n, c in zip(entries.impressions[at], entries.clicks[at], strict=True)
                ]
            )
            columns.append((documents, clicked))
        for i in range(min(len(documents) for documents, _ in columns)):
            rows += [documents[i] for documents, _ in columns]
            clicks += [clicked[i] for _, clicked in columns]
            positions += range(len(columns))
            lists.append(len(columns))
    return np.array(rows), np.array(clicks, float), np.array(positions), np.array(lists)


def _position(log: Log) -> np.ndarray:
    """LightGBM's lambdarank with `position`."""
    rows, clicks, positions, lists = _session_rows(log)
    data = lgb.Dataset(log.train.features[rows], clicks, group=lists, position=positions)
    limits = {"num_threads": log.threads} if log.threads else {}
    params = {**TREES, **limits, "objective": "lambdarank", "verbosity": -1, "seed": log.seed}
    return lgb.train(params, data, ROUNDS).predict(log.test.features)


def _unbiased(log: Log) -> np.ndarray:
    """XGBoost's rank:ndcg with `lambdarank_unbiased`: the order of the rows is the position."""
    rows, clicks, _, lists = _session_rows(log)
    features = log.train.features[rows]
    data = xgb.DMatrix(features, clicks, qid=np.repeat(np.arange(lists.size), lists))
    limits = {"nthread": log.threads} if log.threads else {}
    params = {
        **limits,
        "objective": "rank:ndcg",
        "lambdarank_unbiased": True,
        "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": 10,
        "max_leaves": 16,
        "grow_policy": "lossguide",
        "max_depth": 0,
        "eta": 0.1,
        "seed": log.seed,
    }
    return xgb.train(params, data, ROUNDS).predict(xgb.DMatrix(log.test.features))


def gated(log: Log) -> dict[str, Any]:
    """What the gate says on held-out queries, and what is true of the same models there, and on
    test queries.
    """
    judged, true, test, own = [], [], [], True
    ends = np.array([0.0, log.train.labels.max()])
    try:
        for rest, part in held_out(len(log.train.queries)):
            (data, kept), (held, held_log) = (
                log.log.of_queries(log.train, one) for one in (rest, part)
            )
            curve = estimate_propensities(kept, data.queries)
            judge, theirs = judging_propensities(held_log, held.queries, curve)
            models = [
                boostrank.train(_params(log, "lightgbm"), kept.training_set(data, one), ROUNDS)
                for one in (None, curve)
            ]
            scores = [model.predict(held) for model in models]
            judged.append(Judged(held, held_log, judge, *scores))
            own = own and theirs
            attraction = click_probabilities(np.append(held.labels, ends))[: held.n_documents]
            true.append(
                [CLICKS.evaluate(attraction, one, held.queries, LINEAR).per_query for one in scores]
            )
            first, second = (ndcg(model.predict(log.test), log.test) for model in models)
            test.append(np.nanmean(second - first))
        found = gate(*judged)
    except DataError as error:
        return {"refused": str(error)}
    old, new = np.nanmean(np.concatenate(true, axis=1), axis=1).tolist()
    return {
        **asdict(found.difference),
        "old": found.old,
        "true": new - old,
        "true_old": old,
        "test": float(np.mean(test)),
        "known": found.known,
        "own": own,
    }


def difference(one: list[list[float]], other: list[list[float]]) -> tuple[float, float]:
    """(mean, half of the 95% interval) of a difference by seed and query: of queries, of logs and
    of trainings.
    """
    d = np.array(one) - np.array(other)
    d = d[:, ~np.isnan(d).all(axis=0)]
    seeds, queries = d.shape
    error = np.nanmean(d, axis=0).var(ddof=1) / queries
    error += np.nanmean(d, axis=1).var(ddof=1) / seeds if seeds > 1 else 0.0
    return float(np.nanmean(d)), 1.96 * float(np.sqrt(error))


def write_tables(out: Path, done: list[dict[str, Any]]) -> None:
    """NDCG@10 of click counts on each engine, what else adds to it there, and how often the gate is
    right.
    """
    places = list(dict.fromkeys((one["set"], one["condition"]) for one in done))
    rows, gates, numbers = [], [], []
    for name, condition in places:
        cell = [one for one in done if (one["set"], one["condition"]) == (name, condition)]
        by: dict[str, dict[int, list[float]]] = {}
        for one in cell:
            if "ndcg" in one:
                by.setdefault(one["method"], {})[one["seed"]] = one["ndcg"]
        for engine in ENGINES:
            base = by.get(f"{engine}: click counts")
            if base is None:
                continue
            row = [
                name,
                condition,
                engine,
                str(len(base)),
                f"{np.nanmean(list(base.values())):.4f}",
            ]
            for column in COLUMNS.values():
                method = column.format(engine=engine, own=OWN[engine])
                other = by.get(method, {})
                seeds = [seed for seed in base if seed in other]
                row.append("")
                if seeds:
                    off, half = difference([other[s] for s in seeds], [base[s] for s in seeds])
                    row[-1] = f"{off:+.4f} [{off - half:+.4f}, {off + half:+.4f}]"
                    row[-1] += f" ({len(seeds)} logs)" if len(seeds) < len(base) else ""
                    numbers.append(
                        {
                            "set": name,
                            "condition": condition,
                            "method": method,
                            "gain": off,
                            "half": half,
                            "seeds": len(seeds),
                        }
                    )
            rows.append(row)
        gates.append(
            [name, condition, *of_gates([one["folds"] for one in cell if one["method"] == "gate"])]
        )
    for name in dict.fromkeys(name for name, _ in places):
        every = [one["folds"] for one in done if (one["set"], one["method"]) == (name, "gate")]
        gates.append([name, "all", *of_gates(every)])
    header = ["set", "clicks", "engine", "logs", "click counts", *COLUMNS]
    save(
        out / "clicks.md",
        markdown(header, rows) + "\n\n" + markdown(["set", "clicks", *GATES], gates),
        numbers,
    )
    print((out / "clicks.md").read_text(), end="")


def of_gates(logs: list[list[dict[str, Any]]]) -> list[str]:
    """What `gated` found of each log's folds, counted: an entry for each of `GATES`."""
    known = [[fold for fold in log if "refused" not in fold] for log in logs]
    means = [
        {what: np.mean([fold[what] for fold in log]) for what in ("mean", "true", "test")}
        for log in known
        if log
    ]
    costs, hurts = ([one["mean"] for one in means if one[what] < 0.0] for what in ("test", "true"))
    folds = [fold for log in known for fold in log]
    clear = [fold for fold in folds if fold["high"] < 0.0]
    off = [fold["old"] / fold["true_old"] - 1.0 for fold in folds]
    counts = (
        len(means),
        len(costs),
        sum(mean < 0.0 for mean in costs),
        len(hurts),
        sum(mean < 0.0 for mean in hurts),
        len(folds),
        sum(map(len, logs)) - len(folds),
        len(clear),
        sum(fold["true"] >= 0.0 for fold in clear),
        sum(fold["low"] <= fold["true"] <= fold["high"] for fold in folds),
    )
    shares = (
        [f"{np.mean(off):+.1%}", f"{np.mean([fold['known'] for fold in folds]):.0%}"]
        if folds
        else ["", ""]
    )
    return [*map(str, counts), *shares]


if __name__ == "__main__":
    main()
