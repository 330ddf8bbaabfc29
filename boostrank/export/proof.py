"""Proof of an export: scores of its reader compared with the model's own, on a parity pack and on a user's rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.queries import QueryIndex
from boostrank.core.text import count_of
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows
from boostrank.export.pack import KINDS, parity_pack
from boostrank.export.reading import Rules, scores
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec
from boostrank.model.ranking_model import RankingModel

MOVED = "moved"
"""Value of `allow` that lets documents of the user's data change their ranks."""

_WHAT = {
    "thresholds": "rows at a threshold",
    "random": "random rows",
    "zeros": "rows with zeros",
    "missing": "rows with missing values",
    "infinite": "rows with infinite values",
    "categories": "rows with unseen categories",
}
# Kinds of rows that a user's data may lack.
_ABSENT = ("zeros", "missing", "infinite", "categories")
_CHUNK = 1 << 16
_NOTHING = 1e-30  # smaller than any real difference of two values
_TYPES: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}


@dataclass(frozen=True)
class Moves:
    """Changes of rank that a target causes in a user's data.

    Args:
        moved: documents that swap with one whose score differs by more than rounding.
        rounded: documents whose rank changes only by rounding.
        largest: largest difference of two scores.
        first: first moved document: query, position in it from 1, rank before and after, both scores; None: none moved.
    """

    documents: int
    queries: int
    moved: int
    rounded: int
    largest: float
    first: tuple[str, int, int, int, float, float] | None


@dataclass(frozen=True)
class Proof:
    """Result of a proof.

    Args:
        target, proved_by: see `TargetSpec`.
        nodes, of_nodes: splits that the pack crosses on both sides, and splits of the model.
        largest: largest difference from the model's own scores.
        same_bits: whether all scores are equal bit by bit.
        other_leaves: kind of row -> number of rows whose difference rounding does not explain; all are allowed.
        size: size of the file in bytes.
        moves: changes of rank in the user's data.
        untried: minimum distance from a threshold at which values were tested; 0: the nearest float32 numbers were
            tested.
    """

    target: str
    proved_by: str
    rows: int
    nodes: int
    of_nodes: int
    largest: float
    same_bits: bool
    other_leaves: dict[str, int]
    size: int
    moves: Moves | None = None
    untried: float = 0.0


def prove(
    model: RankingModel,
    served: ServedModel,
    target: TargetSpec,
    body: bytes,
    *,
    data: RankingDataset | None = None,
    allow: Collection[str] = (),
) -> Proof:
    """Compare the scores of an exported file with the model's own.

    Args:
        served: the same model, prepared for export.
        body: file that `target.write` returned.
        allow: kinds of rows (`pack.KINDS`) whose scores may differ, and "moved".

    Raises:
        ExportError: scores or ranks differ, and `allow` does not name that kind.
    """
    forest, names = served.trees.forest, served.feature_names
    score = target.read(body, names)
    resolution = None if target.resolution is None else target.resolution(forest)
    pack = parity_pack(forest, len(names), target.most_rows, resolution)
    if target.finite:
        pack = pack.without("infinite")
    own = model.predict(pack.rows)
    given = np.asarray(score(pack.rows))
    if given.shape != own.shape:
        raise ExportError(f"{target.proved_by} returned scores of shape {given.shape} for {own.size} rows")
    wrong, rounding = _wrong(target, served, pack.rows, own, given)
    found = {kind: int(wrong[pack.kind == number].sum()) for number, kind in enumerate(KINDS)}
    other = {kind: count for kind, count in found.items() if count}
    moves = None if data is None else _moves(model, score, data, rounding)
    for kind in other:
        if kind not in allow:
            of_kind = pack.kind == KINDS.index(kind)
            bad = np.flatnonzero(wrong & of_kind)
            worst = bad[np.argmax(np.nan_to_num(np.abs(given[bad] - own[bad]), nan=np.inf))]
            mend = f"if your data has no such rows, pass `--allow {kind}` to write the file anyway"
            raise ExportError(
                f"{target.title}: {bad.size:,} of {count_of(int(of_kind.sum()), 'row')} of kind {kind!r} "
                f"({_WHAT[kind]}) get different scores, e.g. {own[worst]:.9g} from the model and {given[worst]:.9g} "
                f"from {target.proved_by}; {target.helps.get(kind, '')}"
                f"{mend if kind in _ABSENT else 'choose another target'}"
                + ("" if moves is None else f"; in your data, {moved_line(moves)}")
            )
    difference = np.where(wrong, 0.0, np.abs(given - own))
    if moves is not None and moves.moved and MOVED not in allow:
        raise ExportError(f"{target.title}: {moved_line(moves)}; pass `--allow moved` to write the file anyway")
    untried = 0.0 if resolution is None else float(resolution.max(initial=0.0))
    return Proof(
        target.name,
        target.proved_by,
        own.size,
        pack.nodes,
        pack.of_nodes,
        float(difference.max()),
        bool(np.array_equal(given[~wrong], own[~wrong])),
        other,
        len(body),
        moves,
        untried if untried > _NOTHING else 0.0,
    )


def moved_line(moves: Moves) -> str:
    """Describe the changes of rank in one line."""
    if moves.first is None:
        return f"none of {moves.documents:,} documents changes its rank"
    query, number, before, after, own, given = moves.first
    return (
        f"{moves.moved:,} of {count_of(moves.documents, 'document')} change rank; the first is document "
        f"{number} of query {query}, from rank {before} to {after} (score {own:.9g}, exported {given:.9g})"
    )


def _wrong(
    target: TargetSpec, served: ServedModel, rows: npt.NDArray[Any], own: Float64Array, given: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.bool_], float]:
    """Return the rows whose difference the target's arithmetic does not explain, bool[n], and the largest rounding."""
    if served.engine in target.exact:
        return given != own, 0.0
    trees, types = served.trees, [_TYPES[one] for one in (target.leaves, target.adds, target.gives)]
    rules = Rules(Rules.of(trees).values, leaves=types[0], sums=types[1])
    # Rounding and summing in another type can cause this difference.
    single = trees.single or np.float32 in types
    largest = np.zeros(trees.forest.roots.size)
    np.maximum.at(largest, trees.forest.leaf_trees(), np.abs(trees.forest.value))
    size = abs(trees.base) + float(largest.sum())
    most = (largest.size + 3) * size * float(np.finfo(np.float32 if single else np.float64).eps)
    with np.errstate(all="ignore"):
        wanted = scores(trees, rows, rules).astype(types[2]).astype(np.float64)
        # The order of summation can cause a unit; float32 scores are exact.
        unit = 0.0 if target.gives == "float32" else np.spacing(np.abs(wanted))
        differs = ~(np.abs(given.astype(types[2]) - wanted) <= unit)
        # `wanted` comes from our reading of the model; the engine's own scores check that reading.
        wrong = differs | ~(np.abs(wanted - own) <= most)
    return wrong, 2.0 * float(np.where(wrong, 0.0, np.abs(wanted - own)).max())


def _moves(model: RankingModel, score: Score, data: RankingDataset, rounding: float) -> Moves:
    data = model.check_features(data)
    rows = DenseRows(data, np.arange(data.n_features), model.absent_is_missing)
    ends = [*range(0, data.n_documents, _CHUNK), data.n_documents]
    own = data.in_row_order(model.predict(data))
    parts = [np.asarray(score(rows[slice(a, b)])) for a, b in pairwise(ends)]
    return moves_of(own, np.concatenate([np.zeros(0), *parts]), data.queries, rounding)


def moves_of(own: Float64Array, given: Float64Array, queries: QueryIndex, rounding: float) -> Moves:
    """Compare two rankings of the same documents.

    Args:
        own: float64[N], the model's scores.
        given: float64[N], scores that another program computed.
        rounding: scores that differ by no more may swap without counting as moved.
    """
    before, after = queries.ranks(own), queries.ranks(given)
    changed, moved = before != after, np.zeros(own.size, bool)
    owner = queries.of_rows()
    for query in np.unique(owner[changed]).tolist():
        part = slice(int(queries.ptr[query]), int(queries.ptr[query + 1]))
        moved[part] = _jumped(own[part], after[part], rounding) | _jumped(-own[part], -after[part], rounding)
    moved &= changed
    first = None
    if moved.any():
        i = int(np.argmax(moved))
        query = int(owner[i])
        place = i - int(queries.ptr[query]) + 1
        scored = float(own[i]), float(given[i])
        first = str(queries.qid[query]), place, int(before[i]), int(after[i]), *scored
    largest = float(np.abs(given - own).max(initial=0.0))
    return Moves(own.size, len(queries), int(moved.sum()), int((changed & ~moved).sum()), largest, first)


def _jumped(own: Float64Array, after: Int64Array, rounding: float) -> npt.NDArray[np.bool_]:
    """Return documents ranked above one whose score exceeds theirs by more than rounding."""
    order = np.argsort(-own, kind="stable")
    last = np.concatenate([[-np.inf], np.maximum.accumulate(after[order])])
    above = np.searchsorted(-own[order], -own - rounding, side="left")
    return np.asarray(after < last[above])
