"""Estimates of how likely each position is looked at, from documents that were shown at several.

The expected clicks of document d at position p are n_dp e_p r_d: its impressions there, the propensity of the position
and the document's own probability of a click. Given how many clicks a document got in all, where they fell says nothing
of r_d: with probability n_dp e_p / sum_q n_dq e_q at p. The maximum of that likelihood over e is that of the Poisson
model with an effect of each document (J. Hausman, B. Hall, Z. Griliches, Econometrica 52, 1984), and needs the
expectation alone to be right (J. Wooldridge, "Distribution-free estimation of some nonlinear panel data models",
Journal of Econometrics 90, 1999), so that errors are those that clicks really have, by query.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtrc

from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import AnyPropensities, Propensities, SegmentPropensities
from boostrank.core.errors import DataError, DataWarning, ParameterError, warn_user
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array

NONSENSE = 0.5
"""Standard error of log e from which on a propensity says nothing."""
_FEW = 20
_STEPS, _CLOSE = 100, 1e-10


@dataclass(frozen=True)
class CurveCheck:
    """Whether clicks fell where a curve says that they fall.

    Args:
        nats: by how much less likely they are under it than under the curve that suits them best.
        p: probability of as great a difference by chance: twice the nats against a chi-square distribution, over how
            much more the clicks of a query vary together than by themselves (J. Rao, A. Scott, "On chi-squared tests
            for multiway contingency tables", Annals of Statistics 12, 1984, first order).
        positions: that were compared, besides the first.
    """

    nats: float
    p: float
    positions: int


def estimate_propensities(log: ClickLog, queries: QueryIndex | None = None) -> Propensities:
    """Propensities of the positions of a log, from the documents that moved.

    A position that no chain of moved and clicked documents ties to position 1 has none (NaN).

    Args:
        log: of clicks.
        queries: of the documents in the order of the log, whose clicks may have to do with each other; None: each
            document is taken for itself.

    Raises:
        DataError: no clicked document moved between position 1 and another.
    """
    log = log.pooled()
    moved = _Moved.of(log, np.ones(log.depth, bool))
    theta = moved.fit()
    examination, errors = np.full(log.depth, np.nan), np.full(log.depth, np.nan)
    examination[moved.known] = np.exp(theta)
    alone, together = (np.diag(one) for one in moved.covariances(theta, queries))
    pairs = np.unique(moved.clusters(queries)[moved.document] * theta.size + moved.at)
    few = np.bincount(pairs % theta.size) < _FEW  # which seem to vary less than they do: one alone, not at all
    errors[moved.known] = np.sqrt(np.where(few, np.maximum(alone, together), together))
    vague = np.flatnonzero(errors > NONSENSE) + 1
    if vague.size:
        warn_user(
            f"the propensities of {vague.size} positions, {vague[0]} the first, say nothing: the standard error of "
            f"their logarithm is above {NONSENSE:g} (more clicks on documents that move are needed)",
            DataWarning,
        )
    return Propensities(examination, errors=errors, method="documents that moved", moved=moved.totals.size)


def check_curve(log: ClickLog, given: Propensities, queries: QueryIndex | None = None) -> CurveCheck:
    """Compare a given curve with where the clicks of moved documents fell.

    Raises:
        DataError: no clicked document moved between position 1 and another that the curve has.
        ParameterError: a curve with false clicks, which where clicks of a document fell does not tell.
    """
    if given.false_clicks.any():
        raise ParameterError("a curve with false_clicks cannot be checked: clicks of one document depend on it, too")
    log = log.pooled()
    allowed = np.isfinite(np.append(given.examination, np.full(log.depth, np.nan))[: log.depth])
    moved = _Moved.of(log, allowed)
    theta, own = moved.fit(), np.log(given.examination[moved.known])
    nats, others = moved.likelihood(theta) - moved.likelihood(own), theta.size - 1
    alone, together = moved.covariances(theta, queries)
    inflation = np.trace(np.linalg.pinv(alone) @ together) / others
    return CurveCheck(nats, float(chdtrc(others, 2.0 * max(nats, 0.0) / max(inflation, 1.0))), others)


@dataclass(frozen=True, eq=False)
class _Moved:
    """The entries of clicked documents at two positions or more, which moves tie to position 1.

    Args:
        known: int64[K], positions from 0, the first 0.
        row: int64[D], row of each document.
        document, at, impressions, clicks: [m], number of the document and of the position among the known ones.
    """

    known: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    document: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    impressions: Float64Array
    clicks: Float64Array

    @classmethod
    def of(cls, log: ClickLog, allowed: npt.NDArray[np.bool_]) -> _Moved:
        """Those of a log at some positions, bool[P].

        Raises:
            DataError: there are none.
        """
        entries = np.flatnonzero(allowed[log.positions - 1])
        while True:
            rows = log.rows[entries]
            shown, clicked = np.bincount(rows), np.bincount(rows, log.clicks[entries])
            kept = (shown >= 2) & (clicked > 0)
            left = entries[kept[rows]]
            document, at = np.unique(log.rows[left], return_inverse=True)[1], log.positions[left] - 1
            tied = _tied_to_first(document, at, log.clicks[left], allowed.size)
            left = left[tied[at]]
            if left.size == entries.size:
                break
            entries = left
        if not entries.size:
            raise DataError(
                "no clicked document was shown both at position 1 and elsewhere, by itself or through others: nothing "
                "tells how likely positions are looked at. Give a file of propensities, or log lists that vary"
            )
        known, number = np.unique(log.positions[entries] - 1, return_inverse=True)
        row, document = np.unique(log.rows[entries], return_inverse=True)
        counts = (log.impressions[entries].astype(np.float64), log.clicks[entries].astype(np.float64))
        return cls(known, row, document, number, *counts)

    @property
    def totals(self) -> Float64Array:
        """float64[D]: clicks of each document."""
        return np.asarray(np.bincount(self.document, self.clicks), np.float64)

    def clusters(self, queries: QueryIndex | None) -> npt.NDArray[np.int64]:
        """int64[D], from 0: documents with the same number may be clicked together, those of a query; or none are."""
        if queries is None:
            return np.arange(self.row.size)
        return np.asarray(np.unique(queries.of_rows()[self.row], return_inverse=True)[1], np.int64)

    def _shares(self, theta: Float64Array) -> Float64Array:
        """float64[m]: the probability that a click of the document falls at the position."""
        weight = self.impressions * np.exp(theta - theta.max())[self.at]
        return np.asarray(weight / np.bincount(self.document, weight)[self.document])

    def likelihood(self, theta: Float64Array) -> float:
        """Log-likelihood of where the clicks fell, in nats, up to a constant; theta is log e of the known positions."""
        return float(self.clicks @ np.log(self._shares(theta)))

    def _matrix(self, values: Float64Array) -> Any:
        """CSR [D, K] of one number an entry."""
        return sparse.csr_matrix((values, (self.document, self.at)), shape=(self.row.size, self.known.size))

    def _information(self, theta: Float64Array) -> Float64Array:
        """float64[K, K]: minus the second derivatives of the log-likelihood."""
        shares = self._shares(theta)
        expected = np.bincount(self.at, self.totals[self.document] * shares, self.known.size)
        root = self._matrix(np.sqrt(self.totals[self.document]) * shares)
        return np.asarray(np.diag(expected) - (root.T @ root).toarray())

    def fit(self) -> Float64Array:
        """float64[K]: log e of the known positions, the first 0, by Newton's method: the likelihood is concave."""
        theta = np.zeros(self.known.size)
        value = self.likelihood(theta)
        for _ in range(_STEPS):
            gradient = np.bincount(
                self.at, self.clicks - self.totals[self.document] * self._shares(theta), self.known.size
            )
            step = np.zeros(self.known.size)
            step[1:] = np.linalg.lstsq(self._information(theta)[1:, 1:], gradient[1:], rcond=None)[0]
            length = 1.0
            while (new := self.likelihood(theta + length * step)) < value and length > _CLOSE:
                length /= 2.0
            theta, value = theta + length * step, max(new, value)
            if np.abs(step).max() < _CLOSE:
                break
        return theta

    def covariances(self, theta: Float64Array, queries: QueryIndex | None) -> tuple[Float64Array, Float64Array]:
        """float64[K, K] of log e, of clicks that fall by themselves, and the sandwich by query (or document).

        0 of the first position, to which they are relative.
        """
        bread = np.linalg.pinv(self._information(theta)[1:, 1:])
        scores = self._matrix(self.clicks - self.totals[self.document] * self._shares(theta))
        number = self.clusters(queries)
        count = int(number.max()) + 1
        scores = sparse.csr_matrix((np.ones(number.size), (number, np.arange(number.size)))) @ scores
        meat = (scores.T @ scores).toarray()[1:, 1:] * (count / max(count - 1, 1))
        alone, together = np.zeros((2, self.known.size, self.known.size))
        alone[1:, 1:], together[1:, 1:] = bread, bread @ meat @ bread
        return alone, together


def _tied_to_first(
    document: npt.NDArray[np.int64], at: npt.NDArray[np.int64], clicks: npt.NDArray[np.int64], positions: int
) -> npt.NDArray[np.bool_]:
    """bool[P]: the positions that a chain of documents ties to the first, clicked at the one and shown at the other.

    In both directions: a position where none of them was clicked has no finite logarithm.
    """
    shape = (int(document.max(initial=-1)) + 1, positions)
    if not document.size:
        return np.zeros(positions, dtype=bool)
    shown = sparse.csr_matrix((np.ones(at.size), (document, at)), shape=shape)
    clicked = sparse.csr_matrix(((clicks > 0).astype(float), (document, at)), shape=shape)
    graph = clicked.T @ shown
    graph.eliminate_zeros()
    component = connected_components(graph, connection="strong")[1]
    tied = component == component[0]
    return tied if tied.sum() > 1 else np.zeros(positions, dtype=bool)


def estimate(log: ClickLog, queries: QueryIndex | None = None) -> AnyPropensities:
    """Propensities of a log as `estimate_propensities` finds them, of each segment where it has some.

    A segment whose documents did not move has the curve of all segments together, which a `DataWarning` says.

    Raises:
        DataError: no clicked document moved between position 1 and another.
    """
    if log.segments is None:
        return estimate_propensities(log, queries)
    curves: dict[str, Propensities] = {}
    for name in log.segment_names:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", DataWarning)
            try:
                curves[name] = estimate_propensities(log.of_segment(name), queries)
            except DataError:
                curves[name] = replace(
                    estimate_propensities(log, queries), moved=0, method="that of all segments together"
                )
                warnings.warn(
                    "no clicked document moved: it has the curve of all segments together", DataWarning, stacklevel=1
                )
        for one in warned:
            warn_user(f"segment {name}: {one.message}", DataWarning)
    return SegmentPropensities(curves)


def check(log: ClickLog, given: AnyPropensities, queries: QueryIndex | None = None) -> CurveCheck:
    """As `check_curve`; of a curve for each segment, that all of them hold: p by Bonferroni's inequality.

    Raises:
        DataError, ParameterError: as `check_curve`, where no segment tells; a segment without a curve.
    """
    if isinstance(given, Propensities):
        return check_curve(log, given, queries)
    log.at(given)
    found, last = [], None
    for name in log.segment_names:
        try:
            found.append(check_curve(log.of_segment(name), given.curves[name], queries))
        except (DataError, ParameterError) as error:
            last = error
    if not found:
        raise last or DataError("the click log is empty")
    p = min(1.0, len(found) * min(one.p for one in found))
    return CurveCheck(sum(one.nats for one in found), p, sum(one.positions for one in found))
