"""Presets: `good` and `best` try several ways to train on folds of whole queries, and average what proved good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from boostrank.backends import get_backend
from boostrank.core.errors import DataError, ParameterError, did_you_mean
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Conventions
from boostrank.training.categories import with_categories
from boostrank.training.gain import with_gain
from boostrank.training.model import RankingModel
from boostrank.training.params import STOPPING_NAMES, split_params
from boostrank.training.price import Limit, limited
from boostrank.training.quality.plan import Watch, unfit
from boostrank.training.quality.search import Search
from boostrank.training.quality.trees import ROUNDS, Sizes, quick
from boostrank.training.single import run
from boostrank.training.start import AUTO_START
from boostrank.training.within_query import WithinQuery

PRESETS = ("quick", "good", "best")


def train_quality(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    num_boost_round: int | None = None,
    *,
    quality: str = "good",
    valid_sets: Sequence[RankingDataset] = (),
    time_limit: float | None = None,
    max_candidates: int | None = None,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    start: Any = AUTO_START,
    within_query: WithinQuery | str | Sequence[str] | None = None,
    watch: Watch | None = None,
    max_trees: int | None = None,
    max_microseconds: float | None = None,
) -> RankingModel:
    """Try several objectives and trees, and average what proved good into one model.

    Args:
        params: as for `boostrank.train`; what is given stays as it is, and only what is open is chosen.
        train_set: features in memory.
        num_boost_round: of each training, at most; None: 1,000. Each stops early on the fold that it leaves out.
        quality: "good" or "best".
        valid_sets: their queries are dealt into the folds with those of the training set: each of them is held out by
            the models that leave out its fold, where there are some, and trained on by the others.
        time_limit: seconds after which `best` begins no further candidate; None: half an hour, with `max_candidates`
            none.
        max_candidates: how many are tried, at most: what a model's record says repeats a training that a limit of time
            has stopped.
        backend, conventions, start, within_query: as for `boostrank.train`.
        watch: sees what is done.
        max_trees: that a program walks for a document, at most, those of a linear start among them: the average is cut
            to them, see `boostrank.training.price`.
        max_microseconds: that a document may take, as measured here on one thread: comes to a number of trees, which
            the record holds and `max_trees` repeats.

    Returns:
        The average. `info.quality` holds what was tried, and what each got, `info.price` what it is worth with fewer
        trees.

    Raises:
        InputError: as `boostrank.train`; fewer queries than folds need.
    """
    if quality not in PRESETS[1:]:
        raise ParameterError(f"quality={quality!r}: here it is {' or '.join(PRESETS[1:])}")
    if time_limit is not None and not time_limit > 0.0:
        raise ParameterError(f"time_limit={time_limit}: seconds, above 0")
    if max_candidates is not None and max_candidates < 1:
        raise ParameterError(f"max_candidates={max_candidates}: at least 1")
    return Search(
        params, train_set, num_boost_round, quality, valid_sets, time_limit, max_candidates, backend, conventions,
        start, within_query, watch, Limit(max_trees, max_microseconds),
    ).model()  # fmt: skip


def train_preset(
    quality: str, params: Mapping[str, Any] | None, train_set: Any, num_boost_round: int | None, valid_sets: Any,
    valid_names: Any, alone: Mapping[str, Any], *, backend: str, conventions: Any, start: Any, within_query: Any,
    time_limit: float | None, max_candidates: int | None, limit: Limit,
) -> RankingModel:  # fmt: skip
    """What `boostrank.train` does with a preset.

    Args:
        quality: its name.
        alone: arguments of one training by name.
        params, train_set, num_boost_round, valid_sets, valid_names, backend, conventions, start, within_query,
            time_limit, max_candidates: as for `boostrank.train`.
        limit: what the model may cost.

    Raises:
        ParameterError: no preset; arguments that do not go with it.
        DataError: data that it cannot choose by.
    """
    if quality not in PRESETS:
        raise ParameterError(f"unknown quality {quality!r}.{did_you_mean(str(quality), ('plain', *PRESETS))}")
    if quality != "best" and (time_limit is not None or max_candidates is not None):
        raise ParameterError("time_limit and max_candidates are limits of quality='best'")
    if not isinstance(train_set, RankingDataset):
        raise ParameterError(f"quality={quality!r} looks at the rows: give a RankingDataset")
    params, train_set, valid_sets = with_categories(params, train_set, valid_sets, alone.get("init_model"))
    params, train_set, valid_sets, conventions = with_gain(params, train_set, valid_sets, conventions)
    sets = [] if valid_sets is None else list(valid_sets) if isinstance(valid_sets, list | tuple) else [valid_sets]
    held_out = [one for one in sets if one is not train_set]
    if quality == "quick":
        engine = get_backend(backend)
        checked = split_params(params, num_boost_round or ROUNDS, engine)
        if num_boost_round is None and checked.rounds != ROUNDS:  # by a parameter
            num_boost_round = checked.rounds
        sizes = Sizes(train_set.n_documents, len(train_set.queries), train_set.n_features)
        watched = len(held_out[0].queries) if held_out and isinstance(held_out[0], RankingDataset) else 0
        stops = any(name in (params or {}) for name in STOPPING_NAMES)
        watched = watched if checked.metrics else 0
        found = quick(engine, sizes, checked.engine, num_boost_round, watched, stops)
        stopping = {"early_stopping_round": found.patience} if found.patience else {}
        model = run(
            {**(params or {}), **found.trees, **stopping}, train_set, found.rounds, valid_sets, valid_names, **alone,
            backend=backend, conventions=conventions, start=start, within_query=within_query, max_trees=limit.trees,
        )  # fmt: skip
        return limited(model, limit, train_set)
    given = [name for name, value in alone.items() if value]
    if given:
        raise ParameterError(f"{given[0]}= is for one training, and quality={quality!r} makes many: 'quick' is one")
    reason = unfit(train_set)
    if reason is not None:
        raise DataError(f"quality={quality!r}: the data set {reason}")
    return train_quality(
        params, train_set, num_boost_round, quality=quality, valid_sets=held_out, time_limit=time_limit,
        max_candidates=max_candidates, backend=backend, conventions=conventions, start=start, within_query=within_query,
        max_trees=limit.trees, max_microseconds=limit.microseconds,
    )  # fmt: skip
