"""Trees that suit the data: what stands in for the engines' own defaults where no parameter is given.

LightGBM's 31 leaves and steps of 0.1 are the same for 100 queries and for 100,000. The rules here were found on eight
sets and parts of them; `experiments/candidates` holds the evidence of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from boostrank.backends.base import Backend

MANY = 1_000
"""Queries from which on trees are larger, and early stopping less patient."""
ROUNDS = 1_000
"""At most, where early stopping chooses the round and no number is given."""
FIXED_ROUNDS = 100
"""Where nothing chooses the round."""
_REACH = 10.0  # learning rate x rounds, at least


@dataclass(frozen=True)
class Sizes:
    """Of the data that a training sees.

    Args:
        rows, queries, features: numbers of them.
    """

    rows: int
    queries: int
    features: int


@dataclass(frozen=True)
class Quick:
    """What `quick` sets.

    Args:
        trees: parameters of the engine.
        rounds: to train, at most.
        patience: of early stopping; 0: none, or the one that was asked for.
    """

    trees: Mapping[str, Any]
    rounds: int
    patience: int


def quick(
    engine: Backend, sizes: Sizes, given: Mapping[str, Any], rounds: int | None, held_out: int, stops: bool
) -> Quick:
    """One training whose trees suit the data.

    Args:
        engine: that trains.
        sizes: of the training set.
        given: parameters of the engine, by any of their names.
        rounds: that were asked for; None: none were.
        held_out: queries by which it could stop; 0: none, or nothing is measured on them.
        stops: whether early stopping was asked for.
    """
    held_out = 0 if drops_trees(engine, given) else held_out
    chosen = rounds if rounds is not None else ROUNDS if held_out else FIXED_ROUNDS
    trees = suited(engine, sizes, None if rounds is None and held_out else chosen, given)
    own = held_out > 0 and rounds is None and not stops
    return Quick(trees, chosen, patience(held_out) if own else 0)


def drops_trees(engine: Backend, given: Mapping[str, Any]) -> bool:
    """Whether parameters ask for dart, whose later rounds rescale earlier trees: it is not stopped early."""
    named = engine.main_names(given)
    return "dart" in (named.get("boosting"), named.get("booster"))


def suited(engine: Backend, sizes: Sizes, rounds: int | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of trees for data of these sizes, without those that are given.

    Args:
        engine: that grows them.
        sizes: of the training set.
        rounds: that were asked for; None: as many as early stopping finds.
        given: parameters of the engine, by any of their names.
    """
    if not engine.grows_trees:
        return {}
    rate = 0.05 if rounds is None else min(0.1, max(0.05, _REACH / rounds))
    trees: dict[str, Any] = {"learning_rate": rate, "num_leaves": 31 if sizes.queries >= MANY else 15}
    if sizes.features > 3:
        trees["feature_fraction"] = 0.5
    return beside(engine, trees, given)


def beside(engine: Backend, suggested: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the suggested parameters that are not given, by whichever name."""
    known = engine.main_names(given)
    return {
        name: value for name, value in suggested.items() if next(iter(engine.main_names({name: value}))) not in known
    }


def patience(queries: int) -> int:
    """Rounds without a better value after which a training stops, by how many queries it is watched on.

    The mean over few queries goes up and down by more than a round gives it.
    """
    return 50 if queries >= MANY // 4 else 100
