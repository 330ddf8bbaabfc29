"""CatBoost's trees: what in them ranks well, whether LightGBM's own means give it, and what our
gradient on them costs.

    python -m experiments.catboost.run [--part inside|means|gradient|cost] [--sets sparse-long]
    [--seeds 3]

Every training is kept under out/, as in `experiments/defaults`. See README.md in this folder.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.data.synthetic import make_ranking_data
from boostrank.objective.mixture import parse_objective
from experiments.common import arguments, markdown, save
from experiments.defaults.run import Cell, code_of_boostrank, report
from experiments.defaults.splits import folds
from experiments.defaults.tools import (
    PATIENCE,
    ROUNDS,
    YETIRANK,
    Data,
    Fitted,
    Scores,
    Tool,
    suited,
)
from experiments.peers.engines import Start, Stopping
from experiments.peers.splits import SETS, read_sets
from experiments.peers.store import Run, Store

LARGE = 1000
"""Queries from which on a set has fewer folds and two seeds: it is more queries all the same."""


@dataclass(frozen=True)
class Ours(Tool):
    """boostrank with trees by the size of the set, as `suited`, and a start that is named."""

    def fit(self, train: Data, valid: Data, seed: int, threads: int) -> Fitted:
        """Train on queries of one fold."""
        params = suited("boostrank", len(train.queries) >= LARGE) | dict(self.params)
        start, share = params.pop("start"), params.pop("queries", 1.0)
        if share < 1.0:
            params["objective"] = of_queries(params["objective"], share, train, seed)
        own = {
            "num_threads": threads,
            "seed": seed,
            "verbosity": -1,
            "early_stopping_round": PATIENCE,
            "eval_at": 10,
        }
        model = boostrank.train(own | params, train, ROUNDS, valid_sets=[valid], start=start)
        return Fitted(lambda rows: model.predict(rows, threads=threads), model.best_iteration)


def of_queries(name: str, share: float, train: Data, seed: int) -> Callable[..., Any]:
    """An objective in which a share of the queries, drawn anew each round, has a gradient: bagging
    by query.
    """
    bound = parse_objective(name).scale_to(ROUNDS).bind(train.labels, train.queries)
    draws = np.random.default_rng(seed)
    rounds = itertools.count()

    def objective(scores: Scores, _: Any) -> Any:
        made = bound.gradient(scores, next(rounds))
        kept = np.repeat(draws.random(len(train.queries)) < share, train.queries.sizes)
        return made.grad * kept, made.hess * kept

    return objective


@dataclass(frozen=True)
class OurGradient(Tool):
    """CatBoost's trees on an objective of ours."""

    def fit(self, train: Data, valid: Data, seed: int, threads: int) -> Fitted:
        """Train on queries of one fold."""
        params = dict(self.params)
        objective = params.pop("objective")
        start = Start.taken_from(params, train)
        begin = start.of(valid.features)
        model, stopping = catboost_with(
            objective, params, train, valid, seed, threads, start.train, begin
        )
        rounds = stopping.best_round
        return Fitted(
            lambda x: model.predict(x, ntree_end=rounds, thread_count=threads) + start.of(x),
            stopping.best_round,
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What a training depends on beside data and seed."""
        return super().identity | {"code": code_of_boostrank()}


def catboost_with(
    objective: str,
    params: Mapping[str, Any],
    train: Data,
    valid: Data,
    seed: int,
    threads: int,
    begin_train: Scores | None = None,
    begin_valid: Scores | None = None,
    rounds: int = ROUNDS,
) -> tuple[Any, Stopping]:
    """CatBoost on our gradient.

    An objective in Python is handed blocks of at most 1,000 documents, never whole queries, and not
    their numbers. A metric in Python is handed all documents after every round. So the metric takes
    the gradient of the next round, the objective hands it out in pieces, and labels are the numbers
    of the rows.
    """
    import catboost

    bound = (
        parse_objective(objective, threads=threads)
        .scale_to(rounds)
        .bind(train.labels, train.queries)
    )
    stopping, count = Stopping(valid, PATIENCE), train.n_documents
    ders, following = np.empty((count, 2)), itertools.count(1)

    def prepare(scores: Scores, round: int) -> None:
        made = bound.gradient(scores, round)
        ders[:, 0], ders[:, 1] = -made.grad, -made.hess

    class Objective:
        def calc_ders_range(self, scores: Any, rows: Any, weights: Any) -> Any:
            return ders[np.asarray(rows).astype(np.int64)]

    class Metric:
        def is_max_optimal(self) -> bool:
            return True

        def get_final_error(self, value: float, weight: float) -> float:
            return value

        def evaluate(self, scores: Any, rows: Any, weights: Any) -> tuple[float, float]:
            at = np.asarray(rows).astype(np.int64)
            own = bool(at[0] < count)
            placed = np.empty(at.size)
            placed[at if own else at - count] = scores[0]
            if not own:
                return stopping.see(placed), 1.0
            if (round := next(following)) < rounds:
                prepare(placed, round)
            return 0.0, 1.0

    def pool(data: Data, rows: Any, begin: Scores | None) -> Any:
        groups = np.repeat(np.arange(len(data.queries)), data.queries.sizes)
        return catboost.Pool(
            data.features, rows, group_id=groups, baseline=begin, thread_count=threads
        )

    prepare(np.zeros(count) if begin_train is None else begin_train, 0)
    own = {
        "iterations": rounds,
        "learning_rate": 0.03,
        "thread_count": threads,
        "random_seed": seed,
        "verbose": False,
        "loss_function": Objective(),
        "eval_metric": Metric(),
        "od_type": "Iter",
        "od_wait": PATIENCE,
        "use_best_model": False,
        "allow_writing_files": False,
        "boosting_type": "Plain",
        "leaf_estimation_method": "Newton",
        "leaf_estimation_iterations": 1,
        "bootstrap_type": "MVS",
        "subsample": 0.8,
    }
    model = catboost.CatBoost(own | dict(params))
    with warnings.catch_warnings():  # that the objective cannot be compiled
        warnings.simplefilter("ignore")
        model.fit(
            pool(train, np.arange(count), begin_train),
            eval_set=pool(
                valid,
                count + np.arange(valid.n_documents),
                None if begin_train is None else begin_valid,
            ),
        )
    return model, stopping


def _catboost(name: str, **params: Any) -> Tool:
    return Tool(
        f"catboost, {name}" if name else "catboost",
        "catboost",
        {**YETIRANK, **params},
        group="inside",
    )


_BARE = {"random_strength": 0, "bootstrap_type": "No"}
_LEAFWISE = {"grow_policy": "Lossguide", "min_data_in_leaf": 20}
INSIDE = (
    _catboost(""),
    _catboost("Depthwise", grow_policy="Depthwise"),
    _catboost("Lossguide", grow_policy="Lossguide"),
    _catboost("Lossguide, 20 documents a leaf", **_LEAFWISE),
    _catboost("no noise in scores", random_strength=0),
    _catboost("no sampling", bootstrap_type="No"),
    _catboost("neither", **_BARE),
    _catboost("l2_leaf_reg=3", l2_leaf_reg=3),
    _catboost("learning_rate=.1", learning_rate=0.1),
    _catboost("depth=4", depth=4),
    _catboost(
        "none of it: Lossguide, 20 a leaf, .1, neither", learning_rate=0.1, **_LEAFWISE, **_BARE
    ),
)

# Steps of the size of CatBoost's; leaves by the size of the set, as `suited`.
_PLAIN = {"learning_rate": 0.03, "feature_fraction": 1.0}
_BAGGING = {
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
}  # of documents: LightGBM takes its own objectives alone by query
MEANS_OF_LIGHTGBM: dict[str, dict[str, Any]] = {
    "plain": {},
    "extra_trees": {"extra_trees": True},
    "half the features": {"feature_fraction": 0.5},
    "bynode .3": {"feature_fraction_bynode": 0.3},
    "bagging .7": _BAGGING,
    "path_smooth 10": {"path_smooth": 10},
    "extra_trees, half": {"extra_trees": True, "feature_fraction": 0.5},
    "extra_trees, bagging": {"extra_trees": True, **_BAGGING},
}
OURS: dict[str, dict[str, Any]] = {
    "auto": {"objective": "auto", "start": "linear"},
    "yetirank, linear": {"objective": "yetirank", "start": "linear"},
    "yetirank": {"objective": "yetirank", "start": "none"},
}
LAMBDARANK = {"objective": "lightgbm:lambdarank", "start": "none", **_PLAIN}
MEANS = (
    *(
        Ours(f"{objective}; {mean}", "boostrank", {**own, **_PLAIN, **params}, group="means")
        for objective, own in OURS.items()
        for mean, params in MEANS_OF_LIGHTGBM.items()
    ),
    *(
        Ours(
            f"{objective}; bagging .7 by query",
            "boostrank",
            {**OURS[objective], **_PLAIN, "queries": 0.7},
        )
        for objective in ("auto", "yetirank, linear")
    ),
    Ours("auto, no start; plain", "boostrank", {"objective": "auto", "start": "none", **_PLAIN}),
    Ours("lambdarank; plain", "boostrank", LAMBDARANK),
    Ours("lambdarank; extra_trees", "boostrank", {**LAMBDARANK, "extra_trees": True}),
    Ours("lambdarank; bagging .7", "boostrank", LAMBDARANK | _BAGGING),
    Ours(
        "lambdarank; bagging .7 by query",
        "boostrank",
        {**LAMBDARANK, **_BAGGING, "bagging_by_query": True},
    ),
)

GRADIENT = (
    OurGradient("catboost's trees: auto", "catboost", {"objective": "auto", "start": "linear"}),
    OurGradient(
        "catboost's trees: auto, depth 4",
        "catboost",
        {"objective": "auto", "start": "linear", "depth": 4},
    ),
    OurGradient(
        "catboost's trees: auto, l2_leaf_reg=0",
        "catboost",
        {"objective": "auto", "start": "linear", "l2_leaf_reg": 0},
    ),
    OurGradient("catboost's trees: auto, no start", "catboost", {"objective": "auto"}),
    OurGradient("catboost's trees: yetirank", "catboost", {"objective": "yetirank"}),
    OurGradient(
        "catboost's trees: yetirank, linear",
        "catboost",
        {"objective": "yetirank", "start": "linear"},
    ),
)
PARTS: dict[str, tuple[tuple[Tool, ...], str]] = {
    "inside": (INSIDE, "catboost"),
    "means": ((*MEANS, INSIDE[0]), "auto; plain"),
    "gradient": ((*GRADIENT, *MEANS, INSIDE[0]), "auto; plain"),
}


def main() -> None:
    """Train what is missing of a part, and write its table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.set_defaults(threads=1)
    parser.add_argument(
        "--part", choices=(*PARTS, "cost"), action="append", default=[], help="default: all"
    )
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=3, help="trainings a fold")
    parser.add_argument(
        "--large-folds", type=int, default=2, help=f"of the 4, from {LARGE} queries on"
    )
    parser.add_argument(
        "--only", default="", help="tools whose names hold one of these words, semicolons between"
    )
    parser.add_argument("--only-report", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    console, store = Console(stderr=True), Store(options.out)
    places = read_sets(options.sets, [], options.data_root)
    for part in options.part or (*PARTS, "cost"):
        if part == "cost":
            text, numbers = cost(places, options.threads)
        else:
            tools, reference = PARTS[part]
            cells = cells_of(tools, places, options.seeds, options.large_folds, options.only)
            for i, cell in enumerate(cells if not options.only_report else ()):
                with store.claim(cell.key) as free:
                    if free and store.get(cell.key) is None:
                        cell.run(store, options.threads)
                        console.print(
                            f"{part}: {i + 1} of {len(cells)}: {cell.name}",
                            highlight=False,
                            soft_wrap=True,
                        )
            text, numbers = report(cells, store, reference)
            if part == "means":
                over, more = report(*over_objectives(cells, store), "plain")
                text, numbers = (
                    f"{text}\n\nMean over {', '.join(map(repr, OURS))}:\n\n{over}",
                    [numbers, more],
                )
        save(options.out / f"{part}.md", text, numbers)
        print(f"### {part}\n\n{text}\n")


def cells_of(
    tools: tuple[Tool, ...], places: Mapping[str, Data], seeds: int, large: int, only: str
) -> list[Cell]:
    """Every training of a part."""
    words = [word.strip() for word in only.split(";") if word.strip()]
    chosen = [
        tool
        for tool in tools
        if not tool.missing and (not words or any(word in tool.name for word in words))
    ]
    of = {
        name: folds(data, "choice")[: large if len(data.queries) > LARGE else None]
        for name, data in places.items()
    }
    return [
        Cell(tool, name, data, fold, seed)
        for seed in range(seeds)
        for name, data in places.items()
        for fold in of[name]
        for tool in chosen
        if len(data.queries) <= LARGE or seed < 2
    ]


def over_objectives(cells: Sequence[Cell], store: Store) -> tuple[Any, Any]:
    """Cells and store as `report` takes them, of each means by itself: its trainings averaged over
    our objectives.
    """
    found: dict[tuple[str, str, int, int], list[Cell]] = {}
    for cell in cells:
        objective, _, means = cell.tool.name.partition("; ")
        if objective in OURS and means in MEANS_OF_LIGHTGBM:
            found.setdefault((means, cell.place, id(cell.fold), cell.seed), []).append(cell)

    class Averaged:
        def get(self, keys: Sequence[str]) -> Run | None:
            runs = [store.get(key) for key in keys]
            if any(run is None or "error" in run for run in runs):
                return None
            return {
                k: np.mean([run[k] for run in runs if run], axis=0) for k in ("trees", "seconds")
            } | {
                "test": np.mean(
                    [np.array(run["test"], dtype=np.float64) for run in runs if run], axis=0
                )
            }

    return [
        SimpleNamespace(
            tool=SimpleNamespace(name=means),
            key=tuple(c.key for c in of),
            place=of[0].place,
            fold=of[0].fold,
        )
        for (means, *_), of in found.items()
    ], Averaged()


def cost(places: Mapping[str, Data], threads: int, rounds: int = 40) -> tuple[str, Any]:
    """Seconds a round: between a training of `rounds` and one of a quarter of them, each the
    fastest of two.
    """
    made = {**{k: d for k, d in places.items() if k == "sparse-long"}, "generated": _generated()}
    rows, numbers = [], {}
    for name, data in made.items():
        for words, train in _trainings(data, threads).items():
            train(2)  # compiles what is to be compiled
            few, many = (
                min(_seconds(train, count) for _ in range(2)) for count in (rounds // 4, rounds)
            )
            each = (many - few) / (rounds - rounds // 4)
            rows.append(
                [
                    f"{name}, {data.n_documents:,} x {data.features.shape[1]}",
                    words,
                    f"{1000 * each:.0f}",
                ]
            )
            numbers[f"{name}: {words}"] = each
    return markdown(["data", "what", "CPU ms a round"], rows), numbers


def _seconds(train: Callable[[int], Any], rounds: int) -> float:
    begun = time.process_time()
    train(rounds)
    return time.process_time() - begun


def _generated() -> Data:
    informative = make_ranking_data(2, useless=0).dataset.features.shape[1]
    data = make_ranking_data(1_100, mean_length=100.0, useless=136 - informative).dataset
    return data.take(np.flatnonzero(np.cumsum(data.queries.sizes) <= 100_000))


def _trainings(data: Data, threads: int) -> dict[str, Callable[[int], Any]]:
    few = data.take(np.arange(min(20, len(data.queries))))  # validated on next to nothing
    trees = {
        "learning_rate": 0.03,
        "num_leaves": 64,
        "num_threads": threads,
        "verbosity": -1,
        "metric": "none",
    }

    def ours(objective: str) -> Callable[[int], Any]:
        return lambda rounds: boostrank.train(
            {**trees, "objective": objective}, data, rounds, start="none"
        )

    def theirs(rounds: int) -> Any:
        import catboost

        groups = np.repeat(np.arange(len(data.queries)), data.queries.sizes)
        pool = catboost.Pool(data.features, data.labels, group_id=groups, thread_count=threads)
        own = {
            "iterations": rounds,
            "thread_count": threads,
            "verbose": False,
            "allow_writing_files": False,
        }
        return catboost.CatBoost({**own, **YETIRANK, "metric_period": rounds}).fit(pool)

    def both(objective: str) -> Callable[[int], Any]:
        return lambda rounds: catboost_with(objective, {}, data, few, 0, threads, rounds=rounds)

    return {
        "catboost, YetiRank": theirs,
        "catboost's trees, auto": both("auto"),
        "catboost's trees, yetirank": both("yetirank"),
        "lightgbm's trees, auto": ours("auto"),
        "lightgbm's trees, yetirank": ours("yetirank"),
    }


if __name__ == "__main__":
    main()
