"""Price: what an ensemble keeps of its gain at a number of trees, and which way keeps most of it.

    python -m experiments.price.run [--sets ohsumed,mslr-sample]

See README.md in this folder.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from scipy.optimize import nnls

import boostrank
from boostrank.metric import BoundMetrics, paired_difference
from boostrank.objective.mixture import Mixture
from boostrank.training.averaging import average
from boostrank.training.price import Member, Prices, cut_model, tree_counts
from boostrank.training.quality.selection import selected
from boostrank.training.query_folds import fold_numbers
from experiments.common import arguments, data_root, markdown, save
from experiments.defaults.splits import folds
from experiments.peers.splits import SETS, read

Floats = npt.NDArray[np.float64]

FOLDS = 4
ROUNDS, PATIENCE = 400, 100
RATE = 0.05
TREES: dict[str, Any] = {
    "learning_rate": RATE,
    "num_leaves": 15,
    "feature_fraction": 0.5,
    "verbosity": -1,
    "metric": "ndcg",
    "eval_at": 10,
}
LINEAR = {"start": "linear"}
CANDIDATES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "auto": ({"objective": "auto"}, {}),
    "yetirank, random splits": ({"objective": "yetirank", "extra_trees": True}, LINEAR),
    "auto, random splits": ({"objective": "auto", "extra_trees": True}, {}),
    "reg-shf-sdcg": ({"objective": "reg-shf-sdcg", "train_discount": "linear"}, {"start": "none"}),
}
"""Those of `--quality good`: parameters, and options of `train_folds`."""
STEPS = (0.1, 0.2)
FACTORS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Of the trees that one training grows; those of a start, one a feature, are in all of them and not counted."""
MAIN = 1.5
METRIC = "ndcg@10"
ONE, GOOD = "one training", "good"


class Place:
    """What there is to train on, and the queries that judge."""

    def __init__(self, data: boostrank.RankingDataset, train: Any, test: Any, threads: int | None) -> None:
        self.train, self.test, self.threads = data.take(train), data.take(test), threads
        self.fold = fold_numbers(self.train, FOLDS, 0) % FOLDS
        self.rows = np.repeat(self.fold, self.train.queries.sizes)
        self._on = {
            id(one): BoundMetrics([METRIC], one.labels, one.queries, threads=threads) for one in (self.train, self.test)
        }

    def held_out(self, scores: Floats) -> Floats:
        return self._on[id(self.train)].per_query(np.asarray(scores, np.float64))[METRIC]

    def tested(self, scores: Floats) -> Floats:
        return self._on[id(self.test)].per_query(np.asarray(scores, np.float64))[METRIC]

    def member(self, name: str, stopped: bool = True, rounds: int = ROUNDS, **trees: Any) -> Member:
        """A candidate on folds; not stopped: with all its rounds."""
        params, options = CANDIDATES[name]
        models: dict[int, boostrank.RankingModel] = {}
        scores = np.full(self.train.n_documents, np.nan)

        def keep(k: int, model: boostrank.RankingModel) -> bool:
            models[k] = model
            inside = self.train.take(np.flatnonzero(self.fold == k))
            scores[self.rows == k] = model.predict(inside, threads=self.threads)
            return True

        given = TREES | params | trees | {"num_threads": self.threads, "seed": 0}
        stopping = {"early_stopping_round": PATIENCE} if stopped else {}
        boostrank.train_folds(given | stopping, self.train, rounds, folds=FOLDS, after=keep, **options)
        return Member(name, models, scores)

    def on_all(self, rounds: int, **given: Any) -> Floats:
        """Test scores of `auto` trained on all queries."""
        params = TREES | {"objective": "auto", "num_threads": self.threads, "seed": 0} | given
        start = "linear" if callable(params["objective"]) else "auto"
        return boostrank.train(params, self.train, rounds, start=start).predict(self.test, threads=self.threads)


def main() -> None:
    """Train, cut in every way, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.set_defaults(threads=1)
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "price.md")
    options = parser.parse_args()
    root, console = data_root(options.data_root), Console(stderr=True)
    values: dict[str, dict[str, list[Floats]]] = {}
    trees: dict[str, list[float]] = {}
    for name in options.sets.split(","):
        data = read(root, SETS[name])
        for i, fold in enumerate(folds(data, "choice")[: 2 if len(data.queries) > 1000 else 4]):
            everything = np.sort(np.concatenate(fold.parts))
            places = {name: everything}
            if everything.size > 1000:  # a small set of a large one
                places[f"{name}, 400 queries"] = np.sort(np.random.default_rng(i).permutation(everything)[:400])
            for place, queries in places.items():
                for way, (found, share) in measured(Place(data, queries, fold.test, options.threads)).items():
                    values.setdefault(way, {}).setdefault(place, []).append(found)
                    trees.setdefault(way, []).append(share)
                console.print(f"{place}, fold {i}: done")
    pooled = {way: {place: np.concatenate(v) for place, v in of.items()} for way, of in values.items()}
    numbers = {way: {place: v.tolist() for place, v in of.items()} for way, of in pooled.items()}
    save(options.out, table(pooled, trees), numbers)
    print(options.out.read_text(), end="")


def measured(place: Place) -> dict[str, tuple[Floats, float]]:
    """Way -> the metric of each test query, and its trees as a multiple of those of one training."""
    found: dict[str, tuple[Floats, float]] = {}
    members = [place.member(name) for name in CANDIDATES]
    auto, threads = members[0], place.threads
    one = float(np.mean([model.best_iteration for model in auto.models.values()]))
    alone = [place.tested(model.predict(place.test, threads=threads)) for model in auto.models.values()]
    found[ONE] = np.mean(alone, axis=0), 1.0
    start = max(tree_counts(member.models[0])[0] for member in members)

    def prices(of: list[Member]) -> Prices:
        return Prices(of, place.train, place.fold, lambda _: place.held_out, threads)

    def take(way: str, of: Prices, factor: float | None, limit: Any = None) -> None:
        cut = of.whole if factor is None else of.at(start + max(1, int(factor * one)))
        if cut.single:  # whichever fold: the mean of all of them has less luck
            own = [cut_model(model, cut.rounds) for model in of.members[cut.members[0]].models.values()]
            scores = [place.tested(model.predict(place.test, threads=threads)) for model in own]
            found[way] = np.mean(scores, axis=0), float(np.mean([model.best_iteration for model in own])) / one
            return
        models = average(*of.models(cut))
        found[way] = place.tested(models.predict(place.test, threads=threads)), models.best_iteration / one

    scaled = np.stack([member.scores / deviation(place, member.scores) for member in members])
    weights = selected(scaled, lambda scores: float(np.nanmean(place.held_out(scores))))
    together = prices([replace(member, weight=float(w)) for member, w in zip(members, weights, strict=True) if w > 0.0])
    folds_of_auto = prices([auto])
    take(GOOD, together, None)
    for factor in FACTORS:
        take(f"--max-trees, {factor:g}x", together, factor)
    take("4 folds of auto, own rounds", folds_of_auto, None)
    long = prices([place.member("auto", stopped=False)])
    cuts = {rounds: long._cut((0,), rounds) for rounds in np.unique(np.geomspace(1, ROUNDS, 25).astype(int)).tolist()}
    for factor in FACTORS:
        fitting = [cut for cut in cuts.values() if 4 * cut.rounds <= factor * one] or [cuts[1]]
        best = max(fitting, key=lambda cut: cut.value)
        models = average(*long.models(best))
        found[f"4 folds of auto, common rounds, {factor:g}x"] = (
            place.tested(models.predict(place.test, threads=threads)), models.best_iteration / one,
        )  # fmt: skip
    for factor in FACTORS:
        take(f"4 folds of auto, {factor:g}x", folds_of_auto, factor)
    for rate in STEPS:
        larger = prices([place.member("auto", rounds=int(20 / rate), learning_rate=rate)])
        for factor in (0.5, MAIN):
            take(f"4 folds of auto, steps of {rate:g}, {factor:g}x", larger, factor)
    limit = MAIN * one
    fitting = [cut for cut in cuts.values() if cut.rounds <= limit] or [cuts[1]]
    rounds = max(fitting, key=lambda cut: cut.value).rounds
    long_models = list(long.members[0].models.values())
    first = [place.tested(m.predict(place.test, num_iteration=rounds, threads=threads)) for m in long_models]
    found["one model, common rounds, 1.5x"] = np.mean(first, axis=0), rounds / one
    found["auto on all queries, common rounds, 1.5x"] = place.tested(place.on_all(rounds)), rounds / one
    for keep in (0.75, 0.5):
        refitted = [place.tested(refit(place, m, k, keep, rounds)) for k, m in enumerate(long_models)]
        found[f"one model, leaves fitted to its held-out fold by {1 - keep:g}, 1.5x"] = (
            np.mean(refitted, axis=0), rounds / one,
        )  # fmt: skip
    scores, count = chosen_rounds(place, long_models, folds_of_auto.whole.scores[0], int(limit // FOLDS))
    found["4 folds of auto, rounds chosen and weighted by held-out scores, 1.5x"] = place.tested(scores), count / one
    for share in (0.1, 0.5):
        pulled = place.on_all(rounds, objective=pull(place, folds_of_auto.whole.scores[0], share))
        found[f"auto on all queries, drawn to held-out scores by {share:g}, 1.5x"] = place.tested(pulled), rounds / one
    return found


def centred(place: Place, scores: Floats) -> Floats:
    """Scores, float64[N] or float64[N, t], without the mean of each query."""
    queries = place.train.queries
    mean = np.add.reduceat(scores, queries.ptr[:-1], axis=0) / queries.sizes.reshape(-1, *[1] * (scores.ndim - 1))
    return scores - mean[queries.of_rows()]


def deviation(place: Place, scores: Floats) -> float:
    """Of scores within queries."""
    return float(np.sqrt(np.mean(centred(place, scores) ** 2)))


def refit(place: Place, model: boostrank.RankingModel, k: int, keep: float, rounds: int) -> Floats:
    """Test scores with leaves drawn to the Newton step that the held-out fold asks for, tree by tree."""
    booster, inside = model.booster, place.train.take(np.flatnonzero(place.fold == k))
    first = tree_counts(model)[0]
    bound = Mixture("lambdarank", "xe-ndcg", threads=1).bind(inside.labels, inside.queries)
    given = {"start_iteration": first, "num_iteration": rounds, "pred_leaf": True}
    leaves, on_test = (
        booster.predict(one.features, **given).astype(np.int64).reshape(one.n_documents, -1)
        for one in (inside, place.test)
    )
    begin = {"num_iteration": first, "raw_score": True}
    scores, result = (
        booster.predict(one.features, **begin) if first else np.zeros(one.n_documents) for one in (inside, place.test)
    )
    for t in range(rounds):
        count = int(max(leaves[:, t].max(), on_test[:, t].max())) + 1
        old = np.array([booster.get_leaf_output(first + t, leaf) for leaf in range(count)])
        gradient = bound.gradient(scores, t)
        g, h = (np.bincount(leaves[:, t], part, count) for part in (gradient.grad, gradient.hess))
        new = np.where(h > 0.0, -RATE * g / np.maximum(h, 1e-3), old)
        value = keep * old + (1.0 - keep) * new
        scores, result = scores + value[leaves[:, t]], result + value[on_test[:, t]]
    return result


def chosen_rounds(
    place: Place, models: list[boostrank.RankingModel], teacher: Floats, count: int
) -> tuple[Floats, float]:
    """Test scores, and trees, of the rounds that non-negative least squares needs for held-out scores."""
    first, length = tree_counts(models[0])[0], 150
    on_train, begin = np.zeros((place.train.n_documents, length)), np.zeros(place.train.n_documents)
    on_test = []
    for k, model in enumerate(models):
        inside = place.train.take(np.flatnonzero(place.fold == k))
        on_train[place.rows == k] = each_tree(model, inside, first, length)
        begin[place.rows == k] = start_of(model, inside, first)
        on_test.append((each_tree(model, place.test, first, length), start_of(model, place.test, first)))
    share = np.sqrt(1.0 / place.train.queries.sizes[place.train.queries.of_rows()])
    columns, target = centred(place, on_train), centred(place, teacher - begin)
    found, _ = nnls(columns * share[:, None], target * share, maxiter=20_000)
    chosen = np.argsort(-found * columns.std(axis=0))[: max(1, count)]
    weights, _ = nnls(columns[:, chosen] * share[:, None], target * share)
    return np.mean([start + trees[:, chosen] @ weights for trees, start in on_test], axis=0), FOLDS * chosen.size


def each_tree(model: boostrank.RankingModel, data: boostrank.RankingDataset, first: int, count: int) -> Floats:
    """float64[N, count]: what each round adds."""
    booster = model.booster
    leaves = booster.predict(data.features, pred_leaf=True, start_iteration=first, num_iteration=count)
    leaves = leaves.astype(np.int64).reshape(data.n_documents, -1)
    values = [
        np.array([booster.get_leaf_output(first + t, leaf) for leaf in range(int(leaves[:, t].max()) + 1)])
        for t in range(leaves.shape[1])
    ]
    return np.stack([values[t][leaves[:, t]] for t in range(leaves.shape[1])], axis=1)


def start_of(model: boostrank.RankingModel, data: boostrank.RankingDataset, first: int) -> Floats:
    """float64[N]: what a start adds."""
    return np.asarray(model.booster.predict(data.features, num_iteration=first, raw_score=True))


def pull(place: Place, teacher: Floats, share: float) -> Any:
    """`auto`, and beside it the squared distance from held-out scores."""
    bound = Mixture("lambdarank", "xe-ndcg", threads=1).bind(place.train.labels, place.train.queries)
    target = centred(place, teacher)

    def objective(scores: Floats, _: Any) -> tuple[Floats, Floats]:
        now = np.asarray(scores, np.float64)
        gradient = bound.gradient(now, 0)
        scale = share * float(np.abs(gradient.grad).mean()) / float(np.abs(target).mean())
        return np.asarray(gradient.grad + scale * (centred(place, now) - target)), np.asarray(gradient.hess + scale)

    return objective


def table(values: dict[str, dict[str, Floats]], trees: dict[str, list[float]]) -> str:
    """A row a way: trees, the metric on each set, the difference to one training on the mean of the sets, what is kept
    of the gain."""
    places = list(values[ONE])
    rows = []
    for way, of in values.items():
        each = {place: of[place] - values[ONE][place] for place in places}
        mean = float(np.mean([np.nanmean(d) for d in each.values()]))
        spread = [np.nanvar(d) / np.count_nonzero(~np.isnan(d)) for d in each.values()]
        half = 1.96 * float(np.sqrt(np.sum(spread))) / len(places)
        gain = float(np.mean([np.nanmean(values[GOOD][p] - values[ONE][p]) for p in places]))
        difference = "-" if way == ONE else f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"
        rows.append(
            [
                way,
                f"{np.mean(trees[way]):.2f}",
                *(f"{np.nanmean(of[p]):.4f}" for p in places),
                difference,
                "-" if way == ONE else f"{mean / gain:.0%}",
            ]
        )
    lines = [markdown(["way", "trees", *places, "mean of the sets", "of the gain"], rows), ""]
    cut = f"--max-trees, {MAIN:g}x"
    for place in places:
        whole, kept = (paired_difference(values[way][place], values[ONE][place]) for way in (GOOD, cut))
        lines.append(
            f"- {place}: good {whole.mean:+.4f} [{whole.low:+.4f}, {whole.high:+.4f}], at {MAIN:g} times the trees "
            f"{kept.mean:+.4f} [{kept.low:+.4f}, {kept.high:+.4f}]"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
