"""The maximum number of trees: models that are truncated to it, and their record.

Early rounds contribute most, so an average is truncated by limiting the number of rounds in each of
its models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from boostrank.core.errors import ParameterError
from boostrank.engines.base import Backend
from boostrank.model.ranking_model import RankingModel
from boostrank.records import PriceRecord


def cap_trees(
    models: Sequence[RankingModel], trees: int | None
) -> tuple[list[RankingModel], PriceRecord | None]:
    """Truncate all models to the same number of rounds: the largest with at most `trees` trees in
    their average, if there is a limit.

    Returns:
        The models, and the number of trees with the limit on it.
    """
    if trees is None:
        return [*models], None
    # The start of an average has a tree for each feature in any of its models' starts.
    first_rounds = [model.trees(1) for model in models]
    features: set[int] = set()
    for first in first_rounds:
        if first.forest is not None and first.forest.start is not None:
            features.update(first.forest.start.feature.tolist())
    start = len(features)
    best_rounds = [model.best_iteration for model in models]

    def trees_after(rounds: int) -> int:
        pairs = zip(first_rounds, best_rounds, strict=True)
        return start + sum(first.count * min(rounds, best_round) for first, best_round in pairs)

    if trees_after(1) > trees:
        raise _too_few(trees, trees_after(1), start)
    rounds = next(n for n in range(max(best_rounds), 0, -1) if trees_after(n) <= trees)
    capped_models = []
    for model in models:
        if model.best_iteration > rounds:
            summary = model.summary and replace(model.summary, best_round=rounds)
            model = model.altered(best_rounds=rounds, summary=summary)
        capped_models.append(model)
    return capped_models, {"trees": trees_after(rounds), "max_trees": trees}


def check_limit(
    trees: int, engine: Backend, *, start: int = 0, earlier: int = 0, models: int = 1
) -> None:
    """Raise an error if the engine grows no trees, or a linear start of `start` trees or a model
    of `earlier` trees leaves none for each of `models` models.
    """
    if not engine.grows_trees:
        raise ParameterError(
            f"max_trees does not apply: models with backend={engine.name!r} have no trees"
        )
    fewest_trees = start + earlier + models
    if trees < fewest_trees:
        raise _too_few(trees, fewest_trees, start, earlier)


def _too_few(trees: int, fewest_trees: int, start: int, earlier: int = 0) -> ParameterError:
    message = f"max_trees={trees} is too low: the model has at least {fewest_trees} trees"
    if earlier:
        message += f", including {earlier} of init_model"
    if start:
        message += f", including {start} of the linear start (one per feature);"
        message += " start='none' omits it"
    return ParameterError(message)
