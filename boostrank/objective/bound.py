"""Objectives bound to a data set, with their constants and buffers, which compute one gradient per
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from boostrank.core.conventions import above_least, gains_from_labels, weighted_gains
from boostrank.core.errors import DataError, NothingToLearn, TrainingError
from boostrank.core.machine import resolve_threads
from boostrank.core.params import find_param
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Float64Array, Schedule
from boostrank.kernels.driver import (
    AllReduce,
    Buffers,
    PassStats,
    QueryData,
    alone,
    finish,
    mix_gradients,
    run_kernel,
)
from boostrank.kernels.objective import GAIN_WEIGHTS, LOSS_WEIGHTS
from boostrank.kernels.options import GAIN_BASE, Composition
from boostrank.kernels.shared import DOCUMENT_WEIGHTS, K

# Longest list for pair loops: 50,000 documents are 2.5e9 ordered pairs, seconds per round.
MAX_QUADRATIC_DOCUMENTS = 50_000


@dataclass(frozen=True, eq=False)
class Gradient:
    """The result of one round, float32[N], or float64[N] if it comes from `evaluate`.

    The arrays of `gradient` belong to the bound objective and are overwritten in the next round.

    Args:
        losses: float64[Q], multiplied by the query weights, whose mean is 1.
    """

    grad: Array
    hess: Array
    losses: Float64Array
    stats: PassStats


class BoundObjective:
    """An objective bound to a data set, which is not thread-safe.

    Args:
        labels: float64[N].
        queries: queries of the N documents. Their `k`, if they have one, replaces that of the
            objective.
        all_reduce: function that adds up the sums of several processes, for the hessian's scale,
            the balance of a mixture and the mean weight. Every process calls it equally often.

    Raises:
        DataError: lengths differ, labels are invalid for the gain, a list is too long for a pair
            loop, the queries have a `k` but the objective has none, or the objective does not
            support the document weights.
    """

    def __init__(
        self,
        objective: Any,
        labels: Float64Array,
        queries: QueryIndex,
        all_reduce: AllReduce = alone,
    ) -> None:
        if labels.shape != (queries.n_documents,):
            raise DataError(
                f"there are {labels.size} labels, but the queries cover {queries.n_documents}"
                " documents: group sizes must sum to the number of rows"
            )
        self.objective, self.queries = objective, queries
        self._parts = [_Part(part, labels, queries) for part in objective.parts]
        self._all_reduce = all_reduce
        weights = queries.each_weight
        total, count = all_reduce(np.array([weights.sum(), weights.size]))
        self.total_queries = int(count)
        """The number of queries over all processes."""
        self._weights = weights / (total / count) if count else weights
        if queries.k is not None and all(part.cutoff_index < 0 for part in self._parts):
            raise DataError(
                f"the queries have their own k, but objective {objective.name!r} has no cut-off"
            )
        self._buffers = Buffers.allocate(labels.size, len(queries))
        self._part_buffers = [self._buffers] if len(self._parts) == 1 else self._exact_buffers
        self._threads = resolve_threads(objective.threads)

    def gradient(self, scores: ArrayLike, round: int, *, loss: bool = True) -> Gradient:
        """Compute the gradient and hessian of the loss in one round.

        Rounds are counted from 0, and those of a continued model are included. Without `loss`, a
        loss that is expensive to compute (`Kernel.loss_on_demand`) is returned as 0.

        Raises:
            TrainingError: a result is not finite. The message names the objective, round, query and
                range of scores.
        """
        scores = self._run(scores, round, self._part_buffers, loss)
        if len(self._parts) > 1:
            factors = self._factors(round, self._part_buffers)
            mix_gradients(
                self._part_buffers,
                factors,
                self._parts[0].ptr,
                self._buffers,
                threads=self._threads,
            )
        is_unit = self.objective.hessian_scale == "unit"
        stats = finish(
            self._parts[0].ptr, self._buffers, unit_hessian=is_unit, all_reduce=self._all_reduce
        )
        self._check_finite(stats.broken_query, self.objective, scores, round)
        if round == 0 and stats.dead_queries == self.total_queries:
            self.check_gains()
            raise NothingToLearn(
                f"nothing to learn: objective {self.objective.name!r} has a zero gradient in every"
                f" query at these scores (range {np.ptp(scores):g}); it needs a warm start"
            )
        return Gradient(self._buffers.grad, self._buffers.hess, self._buffers.loss, stats)

    def evaluate(self, scores: ArrayLike, round: int) -> Gradient:
        """Compute loss, gradient and curvature in float64 and unscaled, even if all gradients are
        0.
        """
        self._run(scores, round, self._exact_buffers, True)
        factors = self._factors(round, self._exact_buffers)
        pairs = list(zip(factors, self._exact_buffers, strict=True))
        is_dead = np.all([factor * part.magnitude == 0.0 for factor, part in pairs], axis=0)
        total_loss = sum(factor * float(part.loss.sum()) for factor, part in pairs)
        return Gradient(
            np.sum([factor * part.grad for factor, part in pairs], axis=0),
            np.sum([factor * part.hess for factor, part in pairs], axis=0),
            np.sum([factor * part.loss for factor, part in pairs], axis=0),
            PassStats(
                total_loss, int(np.count_nonzero(is_dead)), broken_query=-1, floored=0, scale=1.0
            ),
        )

    def mean_loss(self, scores: ArrayLike, round: int) -> float:
        """Return the mean loss over the queries of all processes, weighted by query.

        The loss of a mixture is that of its parts by their shares, without the balance, which
        changes every round.
        """
        self._run(scores, round, self._exact_buffers, True)
        shares = self.objective.factors(round, [1.0] * len(self._parts))
        losses = [float(buffers.loss.sum()) for buffers in self._exact_buffers]
        total = sum(share * loss for share, loss in zip(shares, losses, strict=True))
        return float(self._all_reduce(np.array([total]))[0]) / max(self.total_queries, 1)

    def check_gains(self) -> None:
        """Raise `NothingToLearn` if all documents of each query have the same gain."""
        if not any(
            np.ptp(part.gains[a:b]) > 0
            for part in self._parts
            for a, b in pairwise(part.ptr)
            if b > a
        ):
            raise NothingToLearn(
                "nothing to learn: in every query all documents have the same gain"
            )

    @cached_property
    def _exact_buffers(self) -> list[Buffers]:
        """Outputs of every part in float64."""
        documents, queries = self.queries.n_documents, len(self.queries)
        return [Buffers.allocate(documents, queries, np.float64) for _ in self._parts]

    def _run(
        self, scores: ArrayLike, round: int, out: Sequence[Buffers], loss: bool
    ) -> Float64Array:
        """Run the kernel of every part, and return the scores in the form that the kernels take."""
        # Copy only another dtype or a read-only array.
        flat_scores = np.require(scores, np.float64, ["C", "W"]).ravel()
        if flat_scores.shape != (self.queries.n_documents,):
            raise DataError(
                f"there are {flat_scores.size} scores for {self.queries.n_documents} documents"
            )
        for part, buffers in zip(self._parts, out, strict=True):
            part.run(flat_scores, self._weights, round, buffers, self._threads, loss)
            self._check_finite(buffers.broken_query, part.objective, flat_scores, round)
        return flat_scores

    def _factors(self, round: int, parts: Sequence[Buffers]) -> tuple[float, ...]:
        """Return the factor of each part in this round."""
        *magnitudes, documents = self._all_reduce(
            np.array([*(part.magnitude.sum() for part in parts), self.queries.n_documents])
        )
        means = [float(magnitude) / max(documents, 1) for magnitude in magnitudes]
        return tuple(self.objective.factors(round, means))

    def _check_finite(self, query: int, objective: Any, scores: Float64Array, round: int) -> None:
        """Raise `TrainingError` if a query, from 0, has results that are not finite."""
        if query < 0:
            return
        in_query = scores[self.queries.ptr[query] : self.queries.ptr[query + 1]]
        cause = "the gradient or hessian is not finite, or the hessian is negative"
        n_invalid = in_query.size - np.count_nonzero(np.isfinite(in_query))
        if n_invalid:
            cause = (
                f"{n_invalid} of its {in_query.size} scores are not finite; lower the learning rate"
            )
        raise TrainingError(
            f"objective {objective.name!r}, round {round}, query {self.queries.qid[query]}"
            f" ({in_query.size} documents, scores {in_query.min():g} to {in_query.max():g}):"
            f" {cause}"
        )


def _check_pairs(objective: Any, queries: QueryIndex) -> None:
    """Reject queries that need more pairs than a query of `MAX_QUADRATIC_DOCUMENTS` documents
    has.
    """
    spec, params, longest = objective.spec, objective.params, queries.longest
    # Find what makes the number of pairs grow, and what reduces it.
    limit = MAX_QUADRATIC_DOCUMENTS**2 // max(longest, 1)
    depth, remedy = longest if spec.quadratic else 0, "use another one, such as lambdarank"
    if params.get("sums") == "direct":
        depth, remedy = longest, "replace sums=direct by sums=fast"
    elif "truncation_level" in params:
        depth, remedy = params["truncation_level"], f"set truncation_level to at most {limit:,}"
    elif params.get("neighbors") == 0 and params.get("mode", "classic") != "classic":
        depth, remedy = params["k"] or longest, f"set neighbors, or k to at most {limit:,}"
    pairs = longest * min(depth, longest)
    if pairs > MAX_QUADRATIC_DOCUMENTS**2:
        raise DataError(
            f"query {queries.qid[int(np.argmax(queries.sizes))]} has {longest:,} documents, for"
            f" which objective {spec.name!r} takes {pairs:.1e} pairs in each round: {remedy}"
        )


class _Part:
    """A single objective that is part of a bound one, with its arguments for the driver."""

    def __init__(self, objective: Any, labels: Float64Array, queries: QueryIndex) -> None:
        spec = objective.spec
        _check_pairs(objective, queries)
        self.objective = objective
        # Compiled code takes no read-only arrays.
        self.ptr = np.require(queries.ptr, np.int64, ["C", "W"])
        document_weights = queries.document_weights
        if document_weights is not None and spec.document_weights is None:
            raise DataError(
                f"objective {spec.name!r} does not support document weights: remove them, use one"
                " weight per query, or use another objective, such as lambdarank"
            )
        targets = labels
        if spec.document_weights == GAIN_WEIGHTS and document_weights is not None:
            self.gains = weighted_gains(labels, objective.gain, queries)
            targets = labels * document_weights
        else:
            with queries.naming_rows():
                self.gains = gains_from_labels(labels, objective.gain)
        if objective.options[GAIN_BASE.name] == "least":
            self.gains = above_least(self.gains, queries)
        constants = {k: v for k, v in objective.params.items() if not isinstance(v, Schedule)}
        if spec.document_weights == LOSS_WEIGHTS and document_weights is not None:
            constants[DOCUMENT_WEIGHTS] = document_weights
        self.cutoff_index, self._cutoffs = -1, queries.k
        cutoff = find_param(K.name, spec.params)
        if cutoff is not None and self._cutoffs is not None:
            self.cutoff_index = spec.params.index(cutoff)
            if cutoff.low:  # 0 is no value of this parameter: the whole list is its length
                self._cutoffs = np.where(self._cutoffs, self._cutoffs, queries.sizes)
            self._cutoffs = np.require(self._cutoffs, np.int64, ["C", "W"])
            constants[cutoff.name] = self._cutoffs
        self._doc_const, self._query_const = spec.prepare(targets, self.gains, self.ptr, constants)

    def run(
        self,
        scores: Float64Array,
        weights: Float64Array,
        round: int,
        out: Buffers,
        threads: int,
        loss: bool,
    ) -> None:
        """Write the gradient, the hessian and, if requested, the loss, neither mixed nor scaled."""
        spec, values = self.objective.spec, self.objective.values(round)
        run_kernel(
            spec.kernel,
            QueryData(scores, self.gains, self.ptr, weights, self._doc_const, self._query_const),
            spec.encode(values, round, loss),
            out,
            composition=Composition.at_round(values, round),
            slot=self.cutoff_index,
            slot_values=self._cutoffs,
            ordered=spec.ordered,
            scratch_per_document=spec.scratch_per_document,
            threads=threads,
        )
