"""The route of a training: how its features are held, chosen before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from boostrank.core.errors import DataError, InputError
from boostrank.core.text import size_words
from boostrank.engines import ENGINES
from boostrank.model.ranking_model import RankingModel
from boostrank.options import TrainOptions
from boostrank.planning.plan import make_plan
from boostrank.planning.sample import Survey, is_pipe, survey

NO_CACHE = "none"


def wanted_route(backend: str, route: str, cache: str | None) -> str:
    """The route that was asked for, or "auto".

    Args:
        backend: the engine.
        route, cache: values of the options; a cache directory asks for streaming.

    Raises:
        InputError: the engine has no such route, or a cache that it would not use.
    """
    routes, kept = ENGINES[backend].routes if backend in ENGINES else ("memory",), cache not in (None, NO_CACHE)
    if routes == ("memory",):
        if kept or route not in ("auto", "memory"):
            raise InputError(f"{backend} trains on rows in memory: no --route or --cache")
        return "memory"
    if route == "external" and route not in routes:
        raise InputError("--route external is XGBoost's: --backend xgboost")
    if kept and route == "memory":
        raise InputError("--route memory uses no cache")
    return "bins" if route == "auto" and kept else route


def choose_route(
    train: Sequence[str],
    valid: Sequence[str],
    options: TrainOptions,
    reading: Mapping[str, Any],
    checked: Any,
    *,
    route: str,
    limit: int | None,
    folds: bool,
    copies: float,
) -> tuple[str, str]:
    """(route, a line about what it costs) of a training.

    Args:
        train, valid: files.
        options: of the training.
        reading: options of reading, as of `survey`.
        checked: the parameters, as of `fit.params.split_params`.
        route: the route that was asked for, or "auto".
        limit: bytes of memory that the training may take.
        folds, copies: as of `make_plan`.

    Raises:
        InputError: no route stays below the limit.
    """
    if any(is_pipe(one) for one in [list(train), *valid]):  # a sample would be missing afterwards
        if route == "auto":
            routes = [name for name in ENGINES[options.backend].routes if name != "again"]
            route = "memory" if limit is None else routes[-1]
        return route, f"plan: --route {route}; its memory is unknown: the length of a pipe is unknown"
    try:
        first, *others = [survey(one, **reading) for one in (list(train), *valid)]
        stops = reading.get("on_bad_line", "stop") == "stop"
        refused = stops and any(found.refused_rows for found in (first, *others))
    except DataError:
        refused = True
    if refused:  # the reader will say where
        return ("memory" if route == "auto" else route), ""
    added = 0
    if options.within_query:
        within = options.within_query
        added = len(within.kinds) * (first.features if within.is_auto or within.of is None else len(within.of))
    elif options.init_model:
        model = RankingModel.load(options.init_model)
        added = len(model.column_names) - model.n_features
    plan = make_plan(
        first,
        others,
        backend=options.backend,
        route=route,
        limit=limit,
        params=checked.engine,
        threads=checked.threads,
        added=added,
        folds=folds,
        copies=copies,
    )
    chosen = plan.check()
    if chosen.peak is None:
        return chosen.name, f"plan: {chosen.words}; the memory of {options.backend} is not measured"
    return chosen.name, (
        f"plan: {rows_words(first, first.rows)} rows x {first.features:,} features"
        f"{f' and {added:,} columns within queries' if added else ''}, {chosen.words}: "
        f"{size_words(chosen.peak_bytes)} ({plan.why})"
    )


def rows_words(found: Survey, number: int | None) -> str:
    """Return a number of rows or queries in words: exact, or `about` the number."""
    if number is None:
        return "an unknown number of"
    return f"{number:,}" if found.exact else f"about {round(number, min(0, 3 - len(str(number)))):,}"
