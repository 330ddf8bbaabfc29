"""Candidates of the presets: what objectives, starts and trees are worth on folds, and how to choose among them.

    python -m experiments.candidates.run [--trainings "auto/plain;auto/random splits"] [--out out]

See README.md in this folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

import boostrank
from boostrank.metric import BoundMetrics
from boostrank.training.folds import train_folds
from boostrank.training.quality.selection import deviation, selected
from boostrank.training.query_folds import fold_numbers
from experiments.common import arguments, markdown, save
from experiments.defaults.splits import folds
from experiments.peers.splits import SETS, read_sets

Floats = npt.NDArray[np.float64]
METRIC, FOLDS, GRID, PATIENCE = "ndcg@10", 4, 30, 100
REACH = 20.0  # rounds x learning rate of every training; a stop is chosen among its rounds afterwards
PART = 400  # queries of a part of the large set

OBJECTIVES: dict[str, tuple[dict[str, Any], str]] = {
    "auto": ({"objective": "auto"}, "auto"),
    "lambdarank": ({"objective": "lightgbm:lambdarank"}, "none"),
    "yetirank": ({"objective": "yetirank"}, "linear"),
    "reg-shf-sdcg": ({"objective": "reg-shf-sdcg", "train_discount": "linear"}, "none"),
    "reg-shf-sdcg, start": ({"objective": "reg-shf-sdcg", "train_discount": "linear"}, "linear"),
    "regression": ({"objective": "regression", "per_query": True}, "linear"),
    "shf-sdcg": ({"objective": "shf-sdcg"}, "linear"),
}
_SUITED = {"learning_rate": 0.05, "num_leaves": 15, "feature_fraction": 0.5}
TREES: dict[str, dict[str, Any]] = {
    "suited": _SUITED,
    "random splits": _SUITED | {"extra_trees": True},
    "31 leaves": _SUITED | {"num_leaves": 31},
    "7 leaves": _SUITED | {"num_leaves": 7},
    "rate 0.025": _SUITED | {"learning_rate": 0.025},
    "a quarter of the features": _SUITED | {"feature_fraction": 0.25},
    "features by node": {"learning_rate": 0.05, "num_leaves": 15, "feature_fraction_bynode": 0.3},
    "path_smooth=10": _SUITED | {"path_smooth": 10.0},
    "lambda_l2=20": _SUITED | {"lambda_l2": 20.0},
    "5 documents in a leaf": _SUITED | {"min_data_in_leaf": 5},
    "50 documents in a leaf": _SUITED | {"min_data_in_leaf": 50},
    "LightGBM's": {"learning_rate": 0.1, "num_leaves": 31},
}
TRAININGS = [
    *(f"auto/{trees}" for trees in TREES), *(f"{one}/suited" for one in OBJECTIVES if one != "auto"),
    "yetirank/random splits", "lambdarank/random splits",
]  # fmt: skip
POOL = ("auto/suited", "auto/random splits", "reg-shf-sdcg/suited")
POOLS = (
    ("auto/suited",), ("auto/suited", "auto/random splits"), ("auto/suited", "reg-shf-sdcg/suited"),
    ("auto/random splits", "reg-shf-sdcg/suited"), POOL, ("auto/suited", "yetirank/random splits"),
    (*POOL, "yetirank/random splits"), (*POOL[:2], "yetirank/random splits"),
)  # fmt: skip
RACES = (1.0, 1.64, 1.96, 2.6)


@dataclass(frozen=True, eq=False)
class Place:
    """Queries to train on in folds, and others to test by."""

    name: str
    train: boostrank.RankingDataset
    test: boostrank.RankingDataset

    @cached_property
    def fold(self) -> npt.NDArray[np.int64]:
        """Of each training query."""
        return fold_numbers(self.train, FOLDS, 0) % FOLDS

    @cached_property
    def fold_of_row(self) -> npt.NDArray[np.int64]:
        """Of each training document."""
        return np.repeat(self.fold, self.train.queries.sizes)

    @cached_property
    def _bound(self) -> dict[str, BoundMetrics]:
        sets = {"train": self.train, "test": self.test}
        return {name: BoundMetrics(METRIC, data.labels, data.queries, threads=1) for name, data in sets.items()}

    def values(self, of: str, scores: npt.ArrayLike) -> Floats:
        """Of each query of "train" or "test"; NaN where it does not count."""
        return self._bound[of].per_query(scores)[METRIC]


@dataclass(frozen=True, eq=False)
class Kept:
    """A training on folds: scores after some rounds each."""

    rounds: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.float32]
    tests: npt.NDArray[np.float32]
    curves: Floats

    def stops(self, patience: int) -> list[int]:
        """For each fold the place of the round that early stopping keeps."""
        found = []
        for curve in self.curves:
            best = 0
            for i, value in enumerate(curve):
                best = i if value > curve[best] else best
                if i - best >= patience:
                    break
            found.append(min(int(np.searchsorted(self.rounds, best + 1)), self.rounds.size - 1))
        return found


def trained(place: Place, words: str, threads: int) -> Kept:
    """Train on folds and keep the scores."""
    objective, _, trees = words.partition("/")
    own, start = OBJECTIVES[objective]
    total = round(REACH / TREES[trees]["learning_rate"])
    rounds = np.concatenate([[0], np.unique(np.round(np.geomspace(1, total, GRID)).astype(int))])
    held_out = np.zeros((rounds.size, place.train.n_documents), np.float32)
    tests = np.zeros((FOLDS, rounds.size, place.test.n_documents), np.float32)
    curves = np.zeros((FOLDS, total))

    def after(k: int, model: boostrank.RankingModel) -> bool:
        inside = place.train.take(np.flatnonzero(place.fold == k))
        held_out[:, place.fold_of_row == k] = staged(model, inside.features, rounds, total)
        tests[k] = staged(model, place.test.features, rounds, total)
        curves[k] = next(iter(model.evals_result.values()))[METRIC]
        return True

    params = {**own, **TREES[trees], "num_threads": threads, "seed": 0, "verbosity": -1, "metric": METRIC}
    train_folds(params, place.train, total, folds=FOLDS, after=after, start=start)
    return Kept(rounds, held_out, tests, curves)


def staged(model: boostrank.RankingModel, rows: Any, rounds: npt.NDArray[np.int64], total: int) -> Floats:
    """Scores after so many of its rounds each, [m, n]; before them is the start."""
    booster = model.booster
    first, done = booster.current_iteration() - total, 0
    scores = np.zeros((rounds.size, rows.shape[0]))
    for i, end in enumerate(first + rounds):
        scores[i] = scores[i - 1]
        if end > done:
            more = {"start_iteration": done, "num_iteration": end - done, "raw_score": True, "num_threads": 1}
            scores[i] += booster.predict(rows, **more)
            done = end
    return scores


def main() -> None:
    """Train what is missing, and write the tables."""
    parser = arguments(__doc__.split("\n")[0])
    parser.set_defaults(threads=1)
    parser.add_argument("--trainings", default=";".join(TRAININGS), help="OBJECTIVE/TREES, semicolons between")
    parser.add_argument("--set", action="append", default=[], help="one set more, NAME=FILE,...")
    parser.add_argument("--pool", default=";".join(POOL), help="among which is chosen")
    parser.add_argument("--only-report", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    console, store = Console(stderr=True), options.out / "trainings"
    store.mkdir(parents=True, exist_ok=True)
    kept: dict[str, dict[int, Kept]] = {}
    places = of_sets(options.data_root, options.set)
    for words in options.trainings.split(";"):
        for i, place in enumerate(places):
            name = hashlib.sha256(f"{place.name}/{i}/{words}".encode()).hexdigest()[:16]
            path = store / f"{name}.npz"
            if not path.exists() and not options.only_report:
                one = trained(place, words, options.threads)
                unfinished = path.with_suffix(".part.npz")
                np.savez_compressed(unfinished, **vars(one))
                unfinished.rename(path)
                console.print(f"{place.name}: {words}")
            if path.exists():
                with np.load(path) as found:
                    kept.setdefault(words, {})[i] = Kept(**{key: found[key] for key in found.files})
    text, numbers = report(places, kept, options.pool.split(";"))
    save(options.out / "candidates.md", text, numbers)
    print(text)


def of_sets(root: Path | None, further: Sequence[str] = ()) -> list[Place]:
    """The choice folds of `experiments/defaults`; of the large set one, and parts of `PART` queries of two."""
    found, random = [], np.random.default_rng(5)
    for name, data in read_sets(",".join(SETS), further, root).items():
        large = len(data.queries) > 4 * PART
        for i, fold in enumerate(folds(data, "choice")[: 2 if large else None]):
            train, test = np.sort(np.concatenate(fold.parts)), data.take(fold.test)
            if not large or i == 0:
                found.append(Place(name, data.take(train), test))
            if large:
                part = np.sort(random.permutation(train)[:PART])
                found.append(Place(f"{name}, {PART} queries", data.take(part), test))
    return found


def report(places: Sequence[Place], kept: dict[str, dict[int, Kept]], pool: Sequence[str]) -> tuple[str, Any]:
    """Tables of trainings, of patience, and of ways to choose; and their numbers."""
    names = list(dict.fromkeys(place.name for place in places))
    complete = {words: of for words, of in kept.items() if len(of) == len(places)}
    numbers: dict[str, dict[str, float]] = {}

    def row(words: str, values: Callable[[int], Floats]) -> list[str]:
        by_set = {
            name: float(np.nanmean(np.concatenate([values(i) for i, place in enumerate(places) if place.name == name])))
            for name in names
        }
        numbers[words] = by_set
        return [words, *(f"{by_set[name]:.4f}" for name in names), f"{np.mean(list(by_set.values())):.4f}"]

    def single(of: dict[int, Kept], i: int, patience: int) -> Floats:
        stops = of[i].stops(patience)
        return np.mean([places[i].values("test", of[i].tests[k][stops[k]]) for k in range(FOLDS)], axis=0)

    def average(of: dict[int, Kept], i: int, patience: int) -> Floats:
        stops = of[i].stops(patience)
        return places[i].values("test", np.mean([of[i].tests[k][stops[k]] for k in range(FOLDS)], axis=0))

    rows = []
    for words, of in complete.items():
        rows.append(row(f"{words}: one", lambda i, of=of: single(of, i, PATIENCE)))
        rows.append(row(f"{words}: mean of {FOLDS}", lambda i, of=of: average(of, i, PATIENCE)))
    head = ["", *names, "mean"]
    parts = ["### Objectives and trees", markdown(head, rows)]
    if pool[0] in complete:
        of = complete[pool[0]]
        rows = [
            row(f"{words} with patience {patience}", lambda i, f=f, p=patience: f(of, i, p))
            for patience in (20, 50, 100, 200, 1000)
            for words, f in (("one", single), (f"mean of {FOLDS}", average))
        ]
        parts += [f"### Patience, {pool[0]}", markdown(head, rows)]
    if all(words in complete for words in pool):
        chosen = Chosen(places, [complete[words] for words in pool])
        rows = [row(name, lambda i, way=way: chosen.value(i, way)) for name, way in WAYS.items()]
        for errors in RACES:
            race = Race(errors)
            rows.append(
                row(f"raced by {errors} errors, greedy", lambda i, race=race: chosen.value(i, race.of(places[i])))
            )
            rows[-1][0] += f": {np.mean(race.trainings):.1f} trainings"
        parts += [f"### Ways to choose among {', '.join(pool)}", markdown(head, rows)]
    rows, first = [], None
    for names_of in POOLS:
        if all(words in complete for words in names_of):
            chosen = Chosen(places, [complete[words] for words in names_of])
            each = [chosen.value(i, _greedy(10)) for i in range(len(places))]
            first = first or each
            rows.append([*row(" + ".join(names_of), lambda i, each=each: each[i]), apart(places, names, each, first)])
    if rows:
        parts += ["### Greedy selection, 10 steps, among", markdown([*head, f"minus {POOLS[0][0]}"], rows)]
    return "\n\n".join(parts), numbers


def apart(places: Sequence[Place], names: Sequence[str], each: Sequence[Floats], first: Sequence[Floats]) -> str:
    """Mean over the sets of what a row is above another, query by query, with its 95% interval over queries."""
    means, variances = [], []
    for name in names:
        found = np.concatenate([each[i] - first[i] for i, place in enumerate(places) if place.name == name])
        found = found[np.isfinite(found)]
        means.append(found.mean())
        variances.append(found.var() / found.size)
    error = 1.96 * np.sqrt(np.sum(variances)) / len(names)
    return f"{np.mean(means):+.4f} [{np.mean(means) - error:+.4f}, {np.mean(means) + error:+.4f}]"


Values = Callable[[Floats], Floats]
Way = Callable[[Floats, Values], Floats]
"""(scores of each candidate [m, N], scores -> value of each query) -> weights [m]."""


def _best(scores: Floats, values: Values) -> Floats:
    return np.eye(len(scores))[int(np.argmax([np.nanmean(values(one)) for one in scores]))]


def _within(errors: float) -> Way:
    def way(scores: Floats, values: Values) -> Floats:
        """All that are not worse than the best by more than so many standard errors, paired."""
        each = np.array([values(one) for one in scores])
        apart = each[int(np.argmax(np.nanmean(each, axis=1)))] - each
        error = np.nanstd(apart, axis=1) / np.sqrt(np.isfinite(apart).sum(axis=1)) + 1e-12
        kept = (np.nanmean(apart, axis=1) <= errors * error).astype(np.float64)
        return kept / kept.sum()

    return way


def _greedy(steps: int) -> Way:
    return lambda scores, values: selected(scores, lambda one: float(np.nanmean(values(one))), steps)


class Race:
    """Candidates that are worse than the best by so many standard errors on the folds so far go no further."""

    def __init__(self, errors: float) -> None:
        self._errors = errors
        self.trainings: list[int] = []

    def of(self, place: Place) -> Way:
        """The weights of those that are left, by greedy selection."""

        def way(scores: Floats, values: Values) -> Floats:
            each, left, many = np.array([values(one) for one in scores]), list(range(len(scores))), 0
            for k in range(FOLDS):
                many += len(left)
                seen = (place.fold <= k) & np.isfinite(each[0])
                best = max(left, key=lambda m: each[m][seen].mean())
                apart = {m: each[best][seen] - each[m][seen] for m in left}
                if k < FOLDS - 1:
                    left = [
                        m for m in left if apart[m].mean() <= self._errors * apart[m].std() / np.sqrt(apart[m].size)
                    ]
            self.trainings.append(many)
            weights = np.zeros(len(scores))
            weights[left] = _greedy(10)(scores[left], values)
            return weights

        return way


def _bagged(scores: Floats, values: Values) -> Floats:
    """Greedy selection on queries drawn with replacement, its weights averaged."""
    random, weights = np.random.default_rng(0), []
    for _ in range(10):
        drawn = random.integers(0, values(scores[0]).size, values(scores[0]).size)
        weights.append(selected(scores, lambda one, drawn=drawn: float(np.nanmean(values(one)[drawn])), 8))
    return np.mean(weights, axis=0)


WAYS: dict[str, Way] = {
    "all alike": lambda scores, values: np.full(len(scores), 1.0 / len(scores)),
    "the best": _best, "within 0.5 errors of the best": _within(0.5), "within 1 error": _within(1.0),
    "within 2 errors": _within(2.0), "greedy, 10 steps": _greedy(10), "greedy, 20 steps": _greedy(20),
    "greedy, 40 steps": _greedy(40), "greedy on 10 resamples": _bagged,
}  # fmt: skip


class Chosen:
    """Averages of candidates by weights that their held-out scores have given them."""

    def __init__(self, places: Sequence[Place], trainings: Sequence[dict[int, Kept]]) -> None:
        self._places, self._trainings = places, trainings
        self._scores: dict[int, tuple[Floats, Floats]] = {}

    def value(self, i: int, way: Way) -> Floats:
        """Of each test query of a place."""
        place = self._places[i]
        if i not in self._scores:
            self._scores[i] = self._of(i)
        held_out, tests = self._scores[i]
        weights = way(held_out, lambda scores: place.values("train", scores))
        return place.values("test", weights @ tests)

    def _of(self, i: int) -> tuple[Floats, Floats]:
        """[m, N] and [m, n]: held-out and test scores of each candidate on the scale of the former."""
        place, held_out, tests = self._places[i], [], []
        for training in self._trainings:
            one = training[i]
            stops = one.stops(PATIENCE)
            scores = np.zeros(place.train.n_documents)
            for k, stop in enumerate(stops):
                scores[place.fold_of_row == k] = one.held_out[stop][place.fold_of_row == k]
            unit = deviation(scores, place.train.queries)
            held_out.append(scores / unit)
            tests.append(np.mean([one.tests[k][stop] for k, stop in enumerate(stops)], axis=0) / unit)
        return np.array(held_out), np.array(tests)


if __name__ == "__main__":
    main()
