"""Candidates: objectives, starts and trees that a preset tries. One more is one line here.

No single objective or tree setting is best everywhere (`experiments/candidates`): random splits gain on one set what
they lose on another. What an option says is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from boostrank.backends.base import Backend
from boostrank.training.params import OBJECTIVE_NAMES
from boostrank.training.quality.trees import beside
from boostrank.training.start import AUTO_START, LINEAR

RANDOM_SPLITS = {"extra_trees": True}
"""Of LightGBM alone."""
SMALL, LARGE = {"num_leaves": 7}, {"num_leaves": 63}


@dataclass(frozen=True)
class Candidate:
    """One way to train.

    Args:
        name: distinct, for tables.
        objective: as `boostrank.train` takes it; None: the one that was given.
        start: as `boostrank.train` takes it.
        params: of the objective.
        trees: of the engine, beside those that suit all.
        rounds: over which its schedules run, at most; None: all there are.
        large: whether it is tried on large data too, where there is time for few.
    """

    name: str
    objective: Any = None
    start: str = "none"
    params: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    large: bool = False


GOOD: tuple[Candidate, ...] = (
    Candidate("auto", "auto", AUTO_START, large=True),
    Candidate("auto, random splits", "auto", AUTO_START, trees=RANDOM_SPLITS, large=True),
    Candidate("reg-shf-sdcg", "reg-shf-sdcg", params={"train_discount": "linear"}, rounds=400),
)
MORE: tuple[Candidate, ...] = (
    Candidate("yetirank, random splits", "yetirank", LINEAR, trees=RANDOM_SPLITS),
    Candidate("yetirank", "yetirank", LINEAR),
    Candidate("auto, small trees", "auto", AUTO_START, trees=SMALL),
    Candidate("auto, large trees", "auto", AUTO_START, trees=LARGE),
    Candidate("lambdarank", "lambdarank"),
    Candidate(
        "reg-shf-sdcg, random splits",
        "reg-shf-sdcg",
        params={"train_discount": "linear"},
        trees=RANDOM_SPLITS,
        rounds=400,
    ),
    Candidate("xe-ndcg", "xe-ndcg", LINEAR),
)
"""What `best` tries after those, in this order, as long as there is time."""


def candidates(
    engine: Backend, listed: Sequence[Candidate], given: Mapping[str, Any], start: Any, trees: Mapping[str, Any]
) -> list[Candidate]:
    """Those of a list that an engine can train, and that do as the options say.

    Args:
        engine: that trains them.
        listed: in the order of trying.
        given: parameters, by any of their names; an objective among them is that of all.
        start: that was asked for; `AUTO_START`: nothing was.
        trees: parameters of the engine among those given.
    """
    has_objective = any(name in given for name in OBJECTIVE_NAMES)
    found: dict[str, Candidate] = {}
    for one in listed:
        if one.trees == RANDOM_SPLITS and not engine.random_splits:
            one = replace(one, name=one.name.removesuffix(", random splits"), trees={})
        own = beside(engine, one.trees, trees)
        if own != one.trees:  # an option says otherwise
            continue
        if has_objective:
            one = Candidate(one.name.partition(", ")[2] or "as given", trees=own, start=AUTO_START)
        if start != AUTO_START:
            one = replace(one, start=start)
        found.setdefault(one.name, one)
    return list(found.values())
