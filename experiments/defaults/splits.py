"""Queries of a set into those that choices may look at, and those that confirm them once.

A third of the queries is dealt once into the confirmation part. The others are dealt into folds,
each tested by models of the rest. What there is to train on is dealt into four parts, one of which
validates where a tool is given validation queries. Queries with the very same documents stay
together.
"""

from __future__ import annotations

import numpy as np

import boostrank
from experiments.peers.splits import PARTS, Fold, dealt, same_documents

STAGES = ("choice", "confirmation")
SHARES = 3
FOLDS = 4
_SEED = 20_261


def folds(data: boostrank.RankingDataset, stage: str) -> list[Fold]:
    """The folds of a stage; that of the confirmation is one, which is trained on all queries that
    choices saw.
    """
    alike = same_documents(data)
    kept, *seen = dealt(np.arange(len(data.queries)), alike, SHARES, _SEED)
    pool = np.sort(np.concatenate(seen))
    tested = [kept] if stage == "confirmation" else dealt(pool, alike, FOLDS, _SEED + 1)
    rests = [np.setdiff1d(pool, test) for test in tested]
    return [
        Fold(test, tuple(dealt(rest, alike, PARTS, _SEED + 2 + i)))
        for i, (test, rest) in enumerate(zip(tested, rests, strict=True))
    ]
