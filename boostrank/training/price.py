"""Price of a model: the trees that a program walks for each document, and ensembles cut down to a number of them.

The first rounds of every member are worth most, so an ensemble is cut by giving each member at most so many rounds, and
not by leaving out its last members. Of the candidates alone, and of the heaviest together, each set cut to as many
rounds as the trees allow, that with the best scores of held-out queries is taken. Averaging cannot be seen in these: a
query is scored by the models that left it out, which are one fold's. So a single model, whose rounds go further, is
taken only where it is better beyond noise, as it is on large data. `experiments/price` compares this with larger steps,
trainings on all queries, selected rounds, leaves that are fitted again, and distillation, and holds the evidence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.backends import get_backend
from boostrank.core.errors import ParameterError
from boostrank.core.resampling import paired_difference
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import BoundMetrics, Conventions
from boostrank.training.booster_methods import tree_counts
from boostrank.training.model import RankingModel
from boostrank.training.quality.selection import deviation

_HALVINGS = 6
"""Points of a curve below the whole."""
_CURVE_ROWS = 50_000
"""Rows, about, of the queries that a curve is measured on; predictions of more would be felt beside the trainings."""
_ROWS, _TIMES = 4096, 3
"""Rows of which a prediction is timed, and how often."""


Bind = Callable[[RankingDataset], Callable[[Float64Array], Float64Array]]


@dataclass(frozen=True, eq=False)
class Member:
    """Models of one way to train.

    Args:
        name: of the way.
        models: fold -> the model that left it out.
        scores: float64[N], of held-out rows by the model that left them out; NaN of folds without a model.
        weight: in the average; of 0: it may be taken alone.
    """

    name: str
    models: Mapping[int, RankingModel]
    scores: Float64Array
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Cut:
    """An ensemble that keeps to a number of trees.

    Args:
        members: positions of those taken.
        rounds: of each model, at most.
        trees: that a program walks, those of a start among them.
        value: of the metric, over held-out queries: each scored by the models that left it out.
        single: whether one model alone is taken.
        scores: float64[N], of each member taken, as cut.
        together: float64[N], of all of them, weighted.
        per_query: float64[Q], what `value` is the mean of.
    """

    members: tuple[int, ...]
    rounds: int
    trees: int
    value: float
    single: bool = False
    scores: Mapping[int, Float64Array] = field(default_factory=dict, repr=False)
    together: Float64Array = field(default_factory=lambda: np.zeros(0), repr=False)
    per_query: Float64Array = field(default_factory=lambda: np.zeros(0), repr=False)


class Prices:
    """What the members of an ensemble are worth at each number of trees.

    Args:
        members: at least one.
        data: all rows, those of all folds.
        fold: int64[Q], of each query.
        bind: data -> scores, float64[N] -> metric per query, float64[Q], NaN where it does not count; higher is better.
        threads: of predictions.
    """

    def __init__(
        self, members: Sequence[Member], data: RankingDataset, fold: npt.NDArray[Any],
        bind: Bind, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.members = list(members)
        self._data, self._fold, self._threads = data, np.asarray(fold), threads
        self._fold_of_row = np.repeat(self._fold, data.queries.sizes)
        self._bind, self._values = bind, bind(data)
        self._folds = sorted({k for one in self.members for k in one.models})
        self._order = sorted(
            (i for i, one in enumerate(self.members) if one.weight > 0.0), key=lambda i: -self.members[i].weight
        )
        self._singles = self._order + [
            i for i, one in enumerate(self.members) if one.weight == 0.0 and set(one.models) == set(self._folds)
        ]
        counts = [tree_counts(next(iter(one.models.values()))) for one in self.members]
        self._start, self._each = [start for start, _ in counts], [each for _, each in counts]
        self._rounds = [{k: model.best_iteration for k, model in one.models.items()} for one in self.members]
        self._longest = max(max(rounds.values()) for rounds in self._rounds)
        self._known: dict[tuple[int, int], Float64Array] = {}

    @property
    def whole(self) -> Cut:
        """All members of any weight, as they are."""
        return self._cut(tuple(self._order), self._longest)

    def at(self, trees: int) -> Cut:
        """The best that keeps to a number of trees.

        Raises:
            ParameterError: nothing does.
        """
        self._known.clear()
        if self.trees(tuple(self._order), self._longest) <= trees:
            return self.whole
        sets = [tuple(self._order[:m]) for m in range(len(self._order), 1, -1)] + [(i,) for i in self._singles]
        fitting = [(one, self._most(one, trees)) for one in sets if self._covers(one)]
        cuts = [self._cut(one, rounds) for one, rounds in fitting if rounds]
        alone = [
            self._cut((i,), min(self._longest, (trees - self._start[i]) // self._each[i]), single=True)
            for i in self._singles
            if trees - self._start[i] >= self._each[i]
        ]
        if not alone:
            fewest = min(self._singles, key=lambda i: self._start[i] + self._each[i])
            raise _too_few(trees, self._start[fewest], self._each[fewest])
        single = max(alone, key=lambda cut: cut.value)
        if not cuts:
            return single
        best = max(cuts, key=lambda cut: (cut.value, -cut.trees))
        return single if self._surely_better(single, best) else best

    def curve(self) -> list[Cut]:
        """The whole, and what comes of a half of its trees, a quarter and so on, fewest trees first; without scores.

        Of many rows, on a sample of the queries.
        """
        chosen = self._data.queries.sample(_CURVE_ROWS, 0)
        if chosen.size < len(self._data.queries):
            rows = np.isin(self._data.queries.of_rows(), chosen)
            members = [replace(one, scores=one.scores[rows]) for one in self.members]
            return Prices(members, self._data.take(chosen), self._fold[chosen], self._bind, self._threads).curve()
        found = [replace(self.whole, scores={}, together=np.zeros(0), per_query=np.zeros(0))]
        for i in range(1, _HALVINGS + 1):
            try:
                cut = self.at(self.whole.trees >> i)
            except ParameterError:
                break
            if cut.trees < found[-1].trees:
                found.append(replace(cut, scores={}, together=np.zeros(0), per_query=np.zeros(0)))
        return found[::-1]

    def models(self, cut: Cut) -> tuple[list[RankingModel], list[float] | None]:
        """Models to average, and their weights; None: those of the mean."""
        if cut.single:
            [only] = cut.members
            return [cut_model(next(iter(self.members[only].models.values())), cut.rounds)], None
        if len(cut.members) == 1:
            return [cut_model(model, cut.rounds) for model in self.members[cut.members[0]].models.values()], None
        apart = {i: deviation(cut.scores[i], self._data.queries) for i in cut.members}
        total = sum(self.members[i].weight for i in cut.members)
        scale = sum(self.members[i].weight * apart[i] for i in cut.members) / total
        models: list[RankingModel] = []
        weights: list[float] = []
        for fold in self._folds:
            having = [i for i in cut.members if fold in self.members[i].models]
            together = sum(self.members[i].weight for i in having)
            for i in having:
                models.append(cut_model(self.members[i].models[fold], cut.rounds))
                weights.append(self.members[i].weight / together / apart[i] * scale / len(self._folds))
        return models, weights

    def record(self, cut: Cut) -> dict[str, Any]:
        """What a model's file says of a cut."""
        names = [self.members[i].name for i in cut.members]
        return {"trees": cut.trees, "value": cut.value, "rounds": cut.rounds, "of": names, "single": cut.single}

    def trees(self, members: Sequence[int], rounds: int) -> int:
        """Of all models of these members, each cut to so many rounds; a start is one for all."""
        grown = sum(self._each[i] * min(rounds, own) for i in members for own in self._rounds[i].values())
        return max(self._start[i] for i in members) + grown

    def _most(self, members: Sequence[int], trees: int) -> int:
        """The most rounds with which they keep to the trees; 0: none do."""
        low, high = 0, self._longest
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.trees(members, middle) <= trees else (low, middle - 1)
        return low

    def _covers(self, members: Sequence[int]) -> bool:
        """Whether each fold has a model of theirs."""
        return {k for i in members for k in self.members[i].models} == set(self._folds)

    def _cut(self, members: tuple[int, ...], rounds: int, single: bool = False) -> Cut:
        scores = {i: self._scores(i, rounds) for i in members}
        together = scores[members[0]]
        if len(members) > 1:
            together = np.full(together.size, np.nan)
            scaled = {
                i: (self.members[i].weight, scores[i] / deviation(scores[i], self._data.queries)) for i in members
            }
            for fold in self._folds:
                rows = self._fold_of_row == fold
                having = [scaled[i] for i in members if fold in self.members[i].models]
                if having:
                    together[rows] = sum(w * s[rows] for w, s in having) / sum(w for w, _ in having)
        values = self._measured(together)
        if single:
            own = self._rounds[members[0]]
            rounds = min(rounds, own[next(iter(own))])
            trees = self._start[members[0]] + self._each[members[0]] * rounds
        else:
            trees = self.trees(members, rounds)
        counted = np.isfinite(values)
        weights = self._data.queries.each_weight[counted]
        value = float(weights @ values[counted] / weights.sum()) if counted.any() else float("nan")
        return Cut(members, rounds, trees, value, single, scores, together, values)

    def _measured(self, scores: Float64Array) -> Float64Array:
        """float64[Q], of scores of which some may not be there."""
        there = np.isfinite(scores)
        values = np.array(self._values(np.where(there, scores, 0.0)))
        values[~np.logical_and.reduceat(there, self._data.queries.ptr[:-1])] = np.nan
        return values

    def _scores(self, i: int, rounds: int) -> Float64Array:
        """float64[N], of held-out rows by a member's models of so many rounds."""
        member = self.members[i]
        rounds = min(rounds, max(self._rounds[i].values()))
        if (i, rounds) not in self._known:
            scores = np.array(member.scores)
            for fold, model in member.models.items():
                if rounds < self._rounds[i][fold]:
                    queries = np.flatnonzero(self._fold == fold)
                    if not queries.size:
                        continue
                    inside = self._data.take(queries)
                    scores[self._fold_of_row == fold] = model.predict(
                        inside, num_iteration=rounds, threads=self._threads
                    )
            self._known[i, rounds] = scores
        return self._known[i, rounds]

    def _surely_better(self, a: Cut, b: Cut) -> bool:
        """Whether the first is, on the queries that count in both, by the 95% interval of the difference."""
        both = np.isfinite(a.per_query) & np.isfinite(b.per_query)
        if not both.any():
            return False
        weights = self._data.queries.each_weight[both]
        return paired_difference(a.per_query[both], b.per_query[both], weights=weights).low > 0.0


def bind_metric(metric: str, rules: Conventions, threads: int | None) -> Bind:
    """What `Prices` measures a metric by."""

    def bind(data: RankingDataset) -> Callable[[Float64Array], Float64Array]:
        bound = BoundMetrics([metric], data.labels, data.queries, rules, threads)
        return lambda scores: bound.per_query(scores)[metric]

    return bind


def cut_model(model: RankingModel, rounds: int) -> RankingModel:
    """The same model, of which prediction uses at most so many rounds, at least one."""
    if model.best_iteration <= rounds:
        return model
    summary = None if model.summary is None else replace(model.summary, best_round=rounds)
    return RankingModel(
        get_backend(model.backend), model.booster, best_rounds=rounds, info=model.info, evals_result=model.evals_result,
        summary=summary,
    )  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """What a model may cost.

    Args:
        trees: that a program walks for a document, those of a start among them, at most.
        microseconds: of a document, at most, as `microseconds` measures them here.

    Raises:
        ParameterError: numbers that are not above 0.
    """

    trees: int | None = None
    microseconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_trees", self.trees), ("max_microseconds", self.microseconds)):
            if value is not None and not (isinstance(value, int | float | np.number) and 0 < value < np.inf):
                raise ParameterError(f"{name}={value!r}: a number above 0")

    def __bool__(self) -> bool:
        return self.trees is not None or self.microseconds is not None

    def check(self, backend: str, data: Any) -> None:
        """Refuse, before anything is trained, what cannot be kept.

        Raises:
            ParameterError: an engine without trees, or rows that nothing can be measured on.
        """
        if not self:
            return
        if not get_backend(backend).grows_trees:
            raise ParameterError(f"max_trees, max_microseconds: models of backend={backend!r} have no trees")
        if self.microseconds is not None and (not isinstance(data, RankingDataset) or data.on_disk):
            raise ParameterError("max_microseconds is measured on a RankingDataset in memory: give max_trees")

    def in_trees(self, model: RankingModel, data: RankingDataset) -> int | None:
        """Trees, at most; None: there is no limit.

        Args:
            model: that is to be cut: a tree takes as long as one of its.
            data: to measure on.

        Raises:
            ParameterError: not one tree can be had.
        """
        if self.microseconds is None:
            return self.trees
        taken = microseconds(model, data)
        found = int(self.microseconds * count_trees(model) / taken)
        if found < 1:
            raise ParameterError(
                f"max_microseconds={self.microseconds:g}: a tree takes {taken / count_trees(model):.3g} here"
            )
        return found if self.trees is None else min(found, self.trees)

    def record(self, trees: int | None) -> dict[str, Any]:
        """What a model's file says of it; `max_trees` repeats what a limit of time came to."""
        found = {} if trees is None else {"max_trees": trees}
        return found if self.microseconds is None else found | {"max_microseconds": self.microseconds}


def count_trees(model: RankingModel) -> int:
    """Trees that prediction walks, those of a start among them."""
    start, each = tree_counts(model)
    return start + each * model.best_iteration


def limited(model: RankingModel, limit: Limit, data: Any) -> RankingModel:
    """A model of one training, cut to what it may cost; `info.price` says so.

    Raises:
        ParameterError: its start alone costs more.
    """
    trees = limit.in_trees(model, data)
    if trees is None:
        return model
    start, each = tree_counts(model)
    if trees < start + each:
        raise _too_few(trees, start, each)
    model = cut_model(model, (trees - start) // each)
    model.info |= {"price": {"trees": count_trees(model)} | limit.record(trees)}
    return model


def check_start(start: int, trees: int) -> None:
    """Refuse a start of so many trees where that is all that a model may have.

    Raises:
        ParameterError: not one round can follow it.
    """
    if trees <= start:
        raise _too_few(trees, start, 1)


def _too_few(trees: int, start: int, each: int) -> ParameterError:
    of_start = f", of which {start} are the linear start's, one a feature; start='none' leaves it out" if start else ""
    return ParameterError(f"max_trees={trees}: the model has at least {start + each}{of_start}")


def microseconds(model: RankingModel, data: RankingDataset) -> float:
    """What a prediction takes for a document, by the clock: one thread, up to 4,096 rows at once, the fastest of 3."""
    rows = data.take(np.flatnonzero(data.queries.ptr[1:] <= max(_ROWS, int(data.queries.sizes[0]))))
    taken = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        model.predict(rows, threads=1)
        taken.append(time.perf_counter() - begun)
    return 1e6 * min(taken) / rows.n_documents
