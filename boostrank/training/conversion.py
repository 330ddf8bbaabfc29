"""Conversion of a start with linear leaves, as version 0.1.0 made it, to one in steps, which every program reads.

A function of a feature that is straight in pieces becomes constant in steps of about equal height, so that no score
moves by more than the sum of half a step a feature, whatever the values are. (Solr counts what is up to 1e-6 above a
threshold as below it, so that no step ends closer below 0.) With data at hand the steps end between values that occur,
each is what the function says of the values in it, and its documents are counted; a feature of few values loses
nothing.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from boostrank.backends import get_backend
from boostrank.core.arguments import takes
from boostrank.core.errors import ModelError, ParameterError
from boostrank.core.types import Float32Array, Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.formats.lightgbm.format import LIGHTGBM
from boostrank.formats.lightgbm.parser import LightGBMText
from boostrank.formats.lightgbm.start import read_start
from boostrank.formats.steps import just_above
from boostrank.kernels.trees.curves import ZERO, Curve, Curves, rounded_down
from boostrank.metric import evaluate
from boostrank.training.model import RankingModel
from boostrank.training.steps import MOST_STEPS, SLACK, between, simplified

ALLOWED = 0.02
"""A score may move by this share of the deviation of the scores of the data; without data, of the reach of the start:
the sum over its functions of how far their values are apart."""

_METRIC = "ndcg@10"
_ZERO = np.float32(ZERO)
_RANGE = re.compile(rb"\[([^:]*):(.*)\]")


@dataclass(frozen=True)
class Conversion:
    """What was changed, and by how much scores move.

    Args:
        functions: features that the start looks at.
        steps: of all of them.
        bound: no score moves by more, of any row with values between the least and the largest that the training or
            the data had (beyond, functions are level) and none from -1.5e-6 to 0, which count as 0.
        outside: features whose function went on straight beyond these.
        reach: of the start.
        documents, moved: of the data, and how many of them change their place in their query; None without data.
        largest: difference of the scores of the data, and
        deviation: of these scores.
        ndcg: NDCG@10 of the data before and after; None without labels that differ.
    """

    functions: int
    steps: int
    bound: float
    outside: int
    reach: float
    documents: int | None = None
    moved: int | None = None
    largest: float | None = None
    deviation: float | None = None
    ndcg: tuple[float, float] | None = None

    @property
    def difference(self) -> float:
        """By how much scores move: those of the data, or else any."""
        return self.bound if self.largest is None else self.largest

    @property
    def allowed(self) -> float:
        """By how much they may without being asked."""
        return ALLOWED * (self.reach if self.deviation is None else self.deviation)


@takes(model=RankingModel, data=RankingDataset | None, steps=int)
def convert_start(
    model: RankingModel, data: RankingDataset | None = None, *, steps: int = MOST_STEPS
) -> tuple[RankingModel, Conversion]:
    """The model with its linear leaves as steps.

    Args:
        model: of LightGBM, with a start that 0.1.0 made; the rounds that its prediction uses are kept.
        data: rows like those that it ranks, N documents; labels are used where they differ.
        steps: at most so many a feature.

    Returns:
        The new model, whose `info["conversion"]` says what was done, and the differences.

    Raises:
        ModelError: there are no such leaves in front of its trees.
        ParameterError: fewer than 2 steps; or a function without an end, whose values nobody knows: `data` tells.
    """
    if steps < 2:
        raise ParameterError(f"steps={steps!r}: a function takes at least 2")
    body = model.to_bytes()
    text: Any = get_backend(model.backend).format.parse(body)
    if not isinstance(text, LightGBMText) or not any(tree.linear for tree in text.trees[: text.start_trees]):
        what = "its start is in steps already" if getattr(text, "start_trees", 0) else "it has no start"
        raise ModelError(f"no linear leaves to convert: {what}")
    old = read_start(text.trees[: text.start_trees])
    data = None if data is None else model.check_features(data)
    ranges, documents = _ranges(text), _documents(text)
    new: dict[int, Curve] = {}
    bound, outside, reach = 0.0, 0, 0.0
    for feature, curve in old.items():
        column = None if data is None else _column(data, feature)
        low, high = ranges.get(feature, (np.inf, -np.inf))
        if column is not None and column.size:
            low, high = min(low, float(column.min())), max(high, float(column.max()))
        endless = bool(curve.slope[0] or curve.slope[-1])
        if endless and not low < high:
            raise ParameterError(
                f"{model.feature_names[feature]} counts without an end, and the file does not say what values it has: "
                "give data, which tell"
            )
        ends = _ends(curve, low, high, steps)
        if column is None or data is None:
            new[feature] = _in_steps(curve, ends, low, high, documents)
        else:
            new[feature] = _in_steps_of(curve, ends, low, high, column, data.n_documents - column.size, steps)
        every = np.unique(np.concatenate([ends, new[feature].bounds]))
        edges = np.concatenate(_edges(every, low, high))
        was = _values(curve, edges)
        bound += float(np.abs(was - _values(new[feature], edges)).max())
        outside += endless
        reach += float(np.ptp(was))
    kept = simplified(new, 0.0)
    engine = get_backend("lightgbm")
    found = Conversion(len(kept), sum(c.constant.size for c in kept.values()), bound, outside, reach)
    converted = RankingModel(
        engine, engine.from_bytes(LIGHTGBM.with_start(text, kept)), info=model.info, evals_result=model.evals_result
    )
    if data is not None:
        found = _measured(found, model, converted, data)
    converted.info |= {"conversion": {"from": "linear leaves", **asdict(found)}}
    return converted, found


def _ends(curve: Curve, low: float, high: float, most: int) -> Float64Array:
    """Where steps end: where pieces do, and between, so that steps have about the same height.

    Args:
        curve: straight in pieces.
        low, high: values of the feature, where it goes on without an end.
        most: about so many.
    """
    zero = np.abs(curve.bounds) <= ZERO
    ends = [rounded_down(curve.bounds[~zero])]
    if zero.any():
        ends.append(np.array([-SLACK, _ZERO], np.float32))
    pieces = np.unique(np.concatenate(ends))
    if low <= high:
        pieces = pieces[(pieces >= np.float32(low)) & (pieces < np.float32(high))]
    begin, end = _edges(just_above(pieces), low, high)
    height = np.abs(_values(curve, end) - _values(curve, begin))
    step = float(height.sum()) / max(1, most - begin.size)
    for a, b, parts in zip(begin, end, np.ceil(height / (step or 1.0)).tolist(), strict=True):
        inner = np.linspace(float(a), float(b), max(1, int(parts)) + 1)[1:-1]
        ends.append(inner.astype(np.float32))
    return just_above(np.unique(np.concatenate(ends)))


def _edges(ends: Float64Array, low: float, high: float) -> tuple[Float32Array, Float32Array]:
    """The least and the largest value of each step, the first from `low` and the last up to `high`."""
    last = rounded_down(ends)
    begin = np.nextafter(last, np.float32(np.inf))
    first = np.minimum(np.float32(low), last[:1] if last.size else np.float32(high))
    end = np.maximum(np.float32(high), begin[-1:] if last.size else np.float32(low))
    begin = np.append(first, begin).astype(np.float32)
    begin[(begin < 0.0) & (begin > -SLACK)] = 0.0  # such values count as 0
    return begin, np.append(last, end).astype(np.float32)


def _values(curve: Curve, x: Float32Array) -> Float64Array:
    return np.asarray(Curves.of([(0, curve)]).values(x[:, np.newaxis])[:, 0])


def _in_steps(curve: Curve, ends: Float64Array, low: float, high: float, documents: float) -> Curve:
    """Steps in the middle of what the function is in them; each of its pieces has as many documents."""
    begin, end = _edges(ends, low, high)
    levels = (_values(curve, begin) + _values(curve, end)) / 2.0
    piece = np.searchsorted(curve.bounds, end)
    counts = documents / curve.constant.size / np.bincount(piece, minlength=curve.constant.size)[piece]
    return replace(Curve.steps(ends, levels, curve.missing), documents=np.append(counts, 1.0))


def _in_steps_of(
    curve: Curve, ends: Float64Array, low: float, high: float, column: Float32Array, missing: int, most: int
) -> Curve:
    """The same, in the middle of what the function is of the values that the data have there, and counted.

    Few values have a step each, and no end is close below a value.
    """
    found, counts = np.unique(np.where(np.abs(column) <= _ZERO, np.float32(0.0), column), return_counts=True)
    seen = found.astype(np.float64)
    if seen.size > 1:
        apart = between(seen[:-1], seen[1:])
        gap = np.searchsorted(seen, ends)  # the value behind each end
        close = (gap < seen.size) & (seen[np.minimum(gap, seen.size - 1)] - ends < SLACK)
        instead = apart if seen.size <= most // 2 else apart[gap[close & (gap > 0)] - 1]
        ends = np.unique(np.concatenate([ends[~close], instead]))
    begin, end = _edges(ends, low, high)
    least, most_of = np.sort(np.stack([_values(curve, begin), _values(curve, end)]), axis=0)
    levels, step = _values(curve, found), np.searchsorted(ends, seen)
    there, first = np.unique(step, return_index=True)
    if there.size:
        least[there], most_of[there] = (of.reduceat(levels, first) for of in (np.minimum, np.maximum))
    documents = np.append(np.bincount(step, counts, ends.size + 1), missing)
    return replace(Curve.steps(ends, (least + most_of) / 2.0, curve.missing), documents=documents)


def _column(data: RankingDataset, feature: int) -> Float32Array:
    """The values of a feature, those that are missing or infinite left out."""
    rows: Any = data.features[:, [feature]]
    column = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float32)[:, 0]
    return column[np.isfinite(column)]


def _ranges(text: LightGBMText) -> dict[int, tuple[float, float]]:
    """Feature -> its least and largest value in the training, where the file says so."""
    infos = re.search(rb"^feature_infos=(.*)$", text.head, re.MULTILINE)
    found = {}
    for feature, info in enumerate(infos[1].split(b" ") if infos else ()):
        if (both := _RANGE.fullmatch(info)) and all(map(np.isfinite, values := [float(one) for one in both.groups()])):
            found[feature] = (values[0], values[1])
    return found


def _documents(text: LightGBMText) -> float:
    """How many documents the training had, as its first tree that grew tells; 1 where none does."""
    counts = (tree.words(b"internal_count") for tree in text.trees[text.start_trees :])
    return max(1.0, next((float(words[0]) for words in counts if words), 1.0))


def _measured(found: Conversion, before: RankingModel, after: RankingModel, data: RankingDataset) -> Conversion:
    old, new = (data.in_row_order(model.predict(data)) for model in (before, after))
    queries, ndcg = data.queries, None
    if any(np.ptp(data.labels[a:b]) > 0.0 for a, b in pairwise(queries.ptr.tolist()) if b > a):
        first, second = (evaluate(_METRIC, data.labels, scores, queries)[_METRIC].mean for scores in (old, new))
        ndcg = first, second
    return replace(
        found, documents=old.size, moved=int(np.count_nonzero(queries.ranks(old) != queries.ranks(new))),
        largest=float(np.abs(new - old).max(initial=0.0)), deviation=float(old.std()), ndcg=ndcg,
    )  # fmt: skip
