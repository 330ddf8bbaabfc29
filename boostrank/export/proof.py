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
    score = target.read(body, served.feature_names)
    pack = parity_pack(served.trees.forest, len(served.feature_names), target.most_rows, _resolution(target, served))
    if target.finite:
        pack = pack.without("infinite")
    own = model.predict(pack.rows)
    given = np.asarray(score(pack.rows))
    if given.shape != own.shape:
        raise ExportError(f"{target.proved_by} returned scores of shape {given.shape} for {own.size} rows")
    if served.engine in target.exact:
        wrong, rounding = given != own, 0.0
    else:
        wanted = _in_arithmetic_of(target, served, pack.rows)
        with np.errstate(all="ignore"):
            differs = ~(np.abs(given.astype(_TYPES[target.gives]) - wanted) <= _unit(wanted, target))
            # `wanted` comes from our reading of the model; the engine's own scores check that reading.
            wrong = differs | ~(np.abs(wanted - own) <= _rounded(target, served))
        rounding = 2.0 * float(np.where(wrong, 0.0, np.abs(wanted - own)).max())
    found = {kind: int(wrong[pack.kind == number].sum()) for number, kind in enumerate(KINDS)}
    other = {kind: count for kind, count in found.items() if count}
    moves = None if data is None else _moves(model, score, data, rounding)
    for kind in other:
        if kind not in allow:
            reason = _refusal(target, served, kind, pack.kind, pack.rows, wrong, own, given)
            raise ExportError(reason if moves is None else f"{reason}; in your data, {moved_line(moves)}")
    difference = np.where(wrong, 0.0, np.abs(given - own))
    if moves is not None and moves.moved and MOVED not in allow:
        raise ExportError(f"{target.title}: {moved_line(moves)}; pass `--allow moved` to write the file anyway")
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
    """Describe the changes of rank in one line."""
    if moves.first is None:
        return f"none of {moves.documents:,} documents changes its rank"
    query, number, before, after, own, given = moves.first
    return (
        f"{moves.moved:,} of {count_of(moves.documents, 'document')} change rank; the first is document "
        f"{number} of query {query}, from rank {before} to {after} (score {own:.9g}, exported {given:.9g})"
    )


def _in_arithmetic_of(target: TargetSpec, served: ServedModel, rows: npt.NDArray[Any]) -> Float64Array:
    """Return the model's scores, with leaves rounded and summed as the target does."""
    rules = Rules.of(served.trees)
    rules = Rules(rules.values, leaves=_TYPES[target.leaves], sums=_TYPES[target.adds])
    with np.errstate(over="ignore"):
        found = scores(served.trees, rows, rules).astype(_TYPES[target.gives])
    return np.asarray(found.astype(np.float64))


def _rounded(target: TargetSpec, served: ServedModel) -> float:
    """Return the maximum difference that rounding and summing in another type can cause."""
    single = served.trees.single or "float32" in (target.leaves, target.adds, target.gives)
    forest = served.trees.forest
    largest = np.zeros(forest.roots.size)
    np.maximum.at(largest, forest.leaf_trees(), np.abs(forest.value))
    size = abs(served.trees.base) + float(largest.sum())
    return (largest.size + 3) * size * float(np.finfo(np.float32 if single else np.float64).eps)


def _untried(target: TargetSpec, served: ServedModel) -> float:
    resolution = _resolution(target, served)
    largest = 0.0 if resolution is None else float(resolution.max(initial=0.0))
    return largest if largest > _NOTHING else 0.0


def _resolution(target: TargetSpec, served: ServedModel) -> Float64Array | None:
    return None if target.resolution is None else target.resolution(served.trees.forest)


def _unit(scores: Float64Array, target: TargetSpec) -> Float64Array:
    """Return the difference that the order of summation can cause; 0 for float32 scores."""
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
    allowed = f"if your data has no such rows, pass `--allow {kind}` to write the file anyway"
    where = f" ({', '.join(served.feature_names[i] for i in columns)})" if 0 < len(columns) <= 3 else ""
    return (
        f"{target.title}: {bad.size:,} of {count_of(int(of_kind.sum()), 'row')} of kind {kind!r} "
        f"({_WHAT[kind]}) get different scores, e.g. {own[largest]:.9g} from the model and "
        f"{given[largest]:.9g} from {target.proved_by}{where}; {target.helps.get(kind, '')}"
        f"{allowed if kind in _ABSENT else 'choose another target'}"
    )


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
