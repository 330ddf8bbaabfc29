"""Queries into folds: which the search of a default may see, which confirm it, and which validate.

The queries of a set (all its files together) are dealt into 2 F blocks. The first F are the folds
of the search, the others those of the confirmation. The search sees its own F blocks and nothing
else: a fold of it trains on the other F - 1. A fold of the confirmation trains on all the other
blocks. What is left to train on is dealt into four parts, one of which validates (early stopping,
choice of the trees) while the other three are trained on. Queries with the very same documents stay
together, wherever they go.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

import boostrank
from boostrank.core.errors import DataWarning
from experiments.common import data_root

# OHSUMED's five folds hold the same queries; its Feature-null release holds 22 of them again, and
# is left out.
SETS = {
    "ohsumed": tuple(f"ohsumed/Fold1/{part}.txt" for part in ("train", "vali", "test")),
    "mslr-sample": tuple(f"mslr-sample/{part}.txt" for part in ("train", "vali", "test")),
    "lambdarank-example": ("lambdarank-example/train.txt", "lambdarank-example/test.txt"),
    "sparse-long": ("sparse-long/train.txt", "sparse-long/test.txt"),
}
PARTS = 4
STAGES = ("search", "confirm")
SEED = 20_260

Queries = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Fold:
    """One outer fold: positions of queries. Nothing but the final measurement sees `test`."""

    test: Queries
    parts: tuple[Queries, ...]

    def inner(self, part: int) -> tuple[Queries, Queries]:
        """(train, valid) when that part validates; parts come round again."""
        valid = part % len(self.parts)
        return (
            np.concatenate([p for i, p in enumerate(self.parts) if i != valid]),
            self.parts[valid],
        )


def read_sets(
    names: str, further: Sequence[str], given: Path | None
) -> dict[str, boostrank.RankingDataset]:
    """Sets by name: of `SETS`, commas between, from the folder of the data (`data_root`); and
    NAME=FILE,... each.
    """
    files = {name: SETS[name] for name in names.split(",") if name}
    root = data_root(given) if files else Path()
    for one in further:
        name, _, paths = one.partition("=")
        files[name] = tuple(str(Path(path).resolve()) for path in paths.split(","))
    return {name: read(root, found) for name, found in files.items()}


def read(root: Path, files: Sequence[str]) -> boostrank.RankingDataset:
    """Several files as one set; query ids that restart in each file are other queries. Dense, so
    that every library takes absent features for the zeros they are."""
    parts: list[boostrank.RankingDataset] = []
    with warnings.catch_warnings():  # about ids in several files, and last lines without a newline
        warnings.simplefilter("ignore", DataWarning)
        for file in files:
            parts.append(boostrank.read(root / file, **({"like": parts[0]} if parts else {})))
    features = [p.features.toarray() if sparse.issparse(p.features) else p.features for p in parts]
    sizes = np.concatenate([p.queries.sizes for p in parts])
    labels = np.concatenate([p.labels for p in parts])
    return boostrank.RankingDataset.from_arrays(np.concatenate(features), labels, group=sizes)


def folds(
    data: boostrank.RankingDataset, stage: str, count: int | None = None, draw: int = 0
) -> list[Fold]:
    """The outer folds of a stage, `count` of them (None: 4, or 2 of more than 500 queries); always
    the same for the same data and draw."""
    count = count or (2 if len(data.queries) > 500 else 4)
    alike = same_documents(data)
    everything = np.arange(len(data.queries))
    seed = SEED + 1_000 * draw
    blocks = dealt(everything, alike, 2 * count, seed)
    tested = blocks[:count] if stage == "search" else blocks[count:]
    seen = np.sort(np.concatenate(tested if stage == "search" else blocks))
    found = []
    for i, test in enumerate(tested):
        rest = np.setdiff1d(seen, test)
        found.append(Fold(test, tuple(dealt(rest, alike, PARTS, seed + 1 + i))))
    return found


def dealt(queries: Queries, alike: Queries, parts: int, seed: int) -> list[Queries]:
    """Queries in parts of about the same number, in random order; those that are alike in one part."""
    found: list[list[int]] = [[] for _ in range(parts)]
    home: dict[int, int] = {}
    for query in np.random.default_rng(seed).permutation(queries):
        smallest = min(range(parts), key=lambda p: len(found[p]))
        found[home.setdefault(int(alike[query]), smallest)].append(int(query))
    return [np.array(sorted(part), dtype=np.int64) for part in found]


def same_documents(data: boostrank.RankingDataset) -> Queries:
    """int64[Q]: the first query that has the same documents, in whatever order and with whatever
    labels.
    """
    first: dict[bytes, int] = {}
    out = np.empty(len(data.queries), dtype=np.int64)
    for q, (start, stop) in enumerate(
        zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True)
    ):
        rows: Any = sorted(row.tobytes() for row in data.features[start:stop])
        out[q] = first.setdefault(hashlib.blake2b(b"".join(rows)).digest(), q)
    return out
