"""Proof of an export: what its reader makes of a parity pack and of a user's own rows, beside the model itself."""

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
"""What `allow` names when documents of the user's own data may change their places."""

_WHAT = {
    "thresholds": "rows at the border of a split",
    "random": "random rows",
    "zeros": "rows with zeros",
    "missing": "rows with missing values",
    "infinite": "rows with infinite values",
    "categories": "rows with categories that were not seen",
}
# Kinds of rows that a user may know to have none of.
_ABSENT = ("zeros", "missing", "infinite", "categories")
_CHUNK = 1 << 16
_NOTHING = 1e-30  # nobody has values so near to each other
_TYPES: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}


@dataclass(frozen=True)
class Moves:
    """What a target makes of a user's documents.

    Args:
        documents, queries: how many there are.
        moved: documents that change places with one whose score differs by more than rounding.
        rounded: documents that change places otherwise.
        largest: difference of scores.
        first: the first that moved: query, document within it from 1, rank before and after, and both scores;
            None: none did.
    """

    documents: int
    queries: int
    moved: int
    rounded: int
    largest: float
    first: tuple[str, int, int, int, float, float] | None


@dataclass(frozen=True)
class Proof:
    """What was run, and what it gave.

    Args:
        target, proved_by: see `TargetSpec`.
        rows: of the pack.
        nodes, of_nodes: splits that the pack passes on both sides, of how many.
        largest: difference from the model's own scores.
        same_bits: whether there is none.
        other_leaves: kind of row -> how many get scores that adding up does not explain, all of them allowed.
        size: of the file, in bytes.
        moves: of the user's data.
        untried: how far from a threshold values were tried, where float32 has numbers nearer to one; else 0.
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
    """Score a parity pack, and the user's rows, by what was written.

    Args:
        model: the ranker.
        served: the same on its way out.
        target: where to.
        body: what the target's `write` gave.
        data: rows of the user's own.
        allow: kinds of rows (`pack.KINDS`) that may get other scores, and "moved".

    Raises:
        ExportError: rows get other scores, or documents change their places, and `allow` does not name them.
    """
    score = target.read(body, served.feature_names)
    pack = parity_pack(served.trees.forest, len(served.feature_names), target.most_rows, _resolution(target, served))
    if target.finite:
        pack = pack.without("infinite")
    own = model.predict(pack.rows)
    given = np.asarray(score(pack.rows))
    if given.shape != own.shape:
        raise ExportError(f"{target.proved_by} gives scores of shape {given.shape} for {own.size} rows")
    if served.engine in target.exact:
        wrong, rounding = given != own, 0.0
    else:
        wanted = _in_arithmetic_of(target, served, pack.rows)
        with np.errstate(all="ignore"):
            differs = ~(np.abs(given.astype(_TYPES[target.gives]) - wanted) <= _unit(wanted, target))
            # `wanted` and the file come from one reading of the model: the engine itself says whether that is right.
            wrong = differs | ~(np.abs(wanted - own) <= _rounded(target, served))
        rounding = 2.0 * float(np.where(wrong, 0.0, np.abs(wanted - own)).max())
    found = {kind: int(wrong[pack.kind == number].sum()) for number, kind in enumerate(KINDS)}
    other = {kind: count for kind, count in found.items() if count}
    moves = None if data is None else _moves(model, score, data, rounding)
    for kind in other:
        if kind not in allow:
            reason = _refusal(target, served, kind, pack.kind, pack.rows, wrong, own, given)
            raise ExportError(reason if moves is None else f"{reason}; of your data {moved_line(moves)}")
    difference = np.where(wrong, 0.0, np.abs(given - own))
    if moves is not None and moves.moved and MOVED not in allow:
        raise ExportError(f"{target.title}: {moved_line(moves)}; `--allow moved` writes it all the same")
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
        _untried(target, served),
    )


def moved_line(moves: Moves) -> str:
    """What moved, in words."""
    if moves.first is None:
        return f"no document of {moves.documents:,} changes its place"
    query, number, before, after, own, given = moves.first
    return (
        f"{moves.moved:,} of {count_of(moves.documents, 'document')} change their place; the first is document "
        f"{number} of query {query}, from rank {before} to {after} (score {own:.9g}, there {given:.9g})"
    )


def _in_arithmetic_of(target: TargetSpec, served: ServedModel, rows: npt.NDArray[Any]) -> Float64Array:
    """The scores of the leaves that the model itself reaches, added up as the target adds."""
    rules = Rules.of(served.trees)
    rules = Rules(rules.values, leaves=_TYPES[target.leaves], sums=_TYPES[target.adds])
    with np.errstate(over="ignore"):
        found = scores(served.trees, rows, rules).astype(_TYPES[target.gives])
    return np.asarray(found.astype(np.float64))


def _rounded(target: TargetSpec, served: ServedModel) -> float:
    """What adding up in the target's types and in the engine's may change in a score, at most."""
    single = served.trees.single or "float32" in (target.leaves, target.adds, target.gives)
    forest = served.trees.forest
    largest = np.zeros(forest.roots.size)
    np.maximum.at(largest, forest.leaf_trees(), np.abs(forest.value))
    size = abs(served.trees.base) + float(largest.sum())
    return (largest.size + 3) * size * float(np.finfo(np.float32 if single else np.float64).eps)


def _untried(target: TargetSpec, served: ServedModel) -> float:
    """`Proof.untried`."""
    resolution = _resolution(target, served)
    largest = 0.0 if resolution is None else float(resolution.max(initial=0.0))
    return largest if largest > _NOTHING else 0.0


def _resolution(target: TargetSpec, served: ServedModel) -> Float64Array | None:
    return None if target.resolution is None else target.resolution(served.trees.forest)


def _unit(scores: Float64Array, target: TargetSpec) -> Float64Array:
    """What the order of adding up may change: nothing that rounding to float32 leaves."""
    return np.zeros(1) if target.gives == "float32" else np.spacing(np.abs(scores))


def _refusal(
    target: TargetSpec,
    served: ServedModel,
    kind: str,
    kinds: npt.NDArray[np.int8],
    rows: npt.NDArray[Any],
    wrong: npt.NDArray[np.bool_],
    own: Float64Array,
    given: npt.NDArray[Any],
) -> str:
    of_kind = kinds == KINDS.index(kind)
    bad = np.flatnonzero(wrong & of_kind)
    largest = bad[np.argmax(np.nan_to_num(np.abs(given[bad] - own[bad]), nan=np.inf))]
    of_row = {"missing": np.isnan(rows[largest]), "infinite": np.isinf(rows[largest])}.get(kind)
    columns = [] if of_row is None else [i for i in np.flatnonzero(of_row) if i in served.trees.forest.used]
    allowed = f"`--allow {kind}` writes it all the same, where your rows are not of that kind"
    where = f" ({', '.join(served.feature_names[i] for i in columns)})" if 0 < len(columns) <= 3 else ""
    return (
        f"{target.title}: {bad.size:,} of {count_of(int(of_kind.sum()), 'row')} of the kind {kind!r} "
        f"({_WHAT[kind]}) get other scores, as {own[largest]:.9g} by the model and "
        f"{given[largest]:.9g} by {target.proved_by}{where}; {target.helps.get(kind, '')}"
        f"{allowed if kind in _ABSENT else 'take another target'}"
    )


def _moves(model: RankingModel, score: Score, data: RankingDataset, rounding: float) -> Moves:
    data = model.check_features(data)
    rows = DenseRows(data, np.arange(data.n_features), model.absent_is_missing)
    ends = [*range(0, data.n_documents, _CHUNK), data.n_documents]
    own = data.in_row_order(model.predict(data))
    parts = [np.asarray(score(rows[slice(a, b)])) for a, b in pairwise(ends)]
    return moves_of(own, np.concatenate([np.zeros(0), *parts]), data.queries, rounding)


def moves_of(own: Float64Array, given: Float64Array, queries: QueryIndex, rounding: float) -> Moves:
    """Documents that change their places.

    Args:
        own: float64[N], scores.
        given: float64[N], those that somebody else computed.
        queries: of the documents.
        rounding: two documents whose scores differ by no more may change places without having moved.
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
    """Documents that come before one which should be above them by more than rounding."""
    order = np.argsort(-own, kind="stable")
    last = np.concatenate([[-np.inf], np.maximum.accumulate(after[order])])
    above = np.searchsorted(-own[order], -own - rounding, side="left")
    return np.asarray(after < last[above])
