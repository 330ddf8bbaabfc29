"""Estimation of position propensities from documents that were shown at several positions.

The expected number of clicks on document d at position p is n_dp e_p r_d: impressions, position
propensity, and click probability of the document. Given the total number of clicks on a document,
their distribution over positions does not depend on r_d: a click falls at p with probability n_dp
e_p / sum_q n_dq e_q. The maximum of this likelihood over e equals that of the Poisson model with
document effects (J. Hausman, B. Hall, Z. Griliches, Econometrica 52, 1984). It is consistent if
only the expectation is correct (J. Wooldridge, "Distribution-free estimation of some nonlinear
panel data models", Journal of Econometrics 90, 1999), so standard errors are clustered by query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtrc

from boostrank.clicks.log import ClickLog, Propensities
from boostrank.core.errors import DataError, ParameterError, warn_user
from boostrank.core.queries import QueryIndex
from boostrank.core.types import BoolArray, Float64Array, Int64Array

NONSENSE = 0.5
"""The standard error of log e above which a propensity is meaningless."""
_FEW = 20
_MOST_STEPS, _SHORTEST_STEP = 100, 1e-10


@dataclass(frozen=True)
class CurveCheck:
    """The result of testing a given curve against the observed clicks.

    Args:
        nats: log-likelihood of the best curve minus that of the given curve.
        p: p-value from comparing twice the nats, divided by the variance inflation of clicks within
            queries, with a chi-square distribution (J. Rao, A. Scott, "On chi-squared tests for
            multiway contingency tables", Annals of Statistics 12, 1984, first order).
        positions: number of compared positions, without position 1.
    """

    nats: float
    p: float
    positions: int


def estimate_propensities(log: ClickLog, queries: QueryIndex | None = None) -> Propensities:
    """Estimate propensities from the documents that moved.

    Positions that no chain of moved and clicked documents connects to position 1 are NaN.

    Args:
        queries: queries of the documents, within which clicks may be dependent; None treats
            documents as independent.

    Raises:
        DataError: no clicked document moved between position 1 and another position.
    """
    moved = _Moved.select(log, np.ones(log.depth, bool))
    theta = moved.fit()
    examination, errors = np.full((2, log.depth), np.nan)
    examination[moved.connected] = np.exp(theta)
    independent, clustered = map(np.diag, moved.covariances(theta, queries))
    pairs = np.unique(moved.clusters(queries)[moved.document] * theta.size + moved.at)
    few = np.bincount(pairs % theta.size) < _FEW  # few clusters underestimate the variance
    errors[moved.connected] = np.sqrt(np.where(few, np.maximum(independent, clustered), clustered))
    vague = np.flatnonzero(errors > NONSENSE) + 1
    if vague.size:
        warn_user(
            f"the propensities of {vague.size} positions (from {vague[0]}) are unreliable: the"
            f" standard error of their logarithm is above {NONSENSE:g}; collect more clicks on"
            " documents that move"
        )
    return Propensities(
        examination, errors=errors, method="documents that moved", moved=moved.totals.size
    )


def check_propensities(
    log: ClickLog, curve: Propensities, queries: QueryIndex | None = None
) -> CurveCheck:
    """Test a given curve against the clicks of moved documents."""
    if curve.false_clicks.any():
        raise ParameterError(
            "a curve with false_clicks cannot be checked, since these also depend on the document"
        )
    allowed = np.isfinite(np.append(curve.examination, np.full(log.depth, np.nan))[: log.depth])
    moved = _Moved.select(log, allowed)
    theta = moved.fit()
    given_theta = np.log(curve.examination[moved.connected])
    nats = moved.likelihood(theta) - moved.likelihood(given_theta)
    n_free = theta.size - 1
    independent, clustered = moved.covariances(theta, queries)
    inflation = np.trace(np.linalg.pinv(independent) @ clustered) / n_free
    return CurveCheck(
        nats, float(chdtrc(n_free, 2.0 * max(nats, 0.0) / max(inflation, 1.0))), n_free
    )


@dataclass(frozen=True, eq=False)
class _Moved:
    """Log entries of clicked documents that were shown at two or more positions connected to
    position 1.

    Args:
        connected: int64[K], connected positions, counted from 0, of which the first is 0.
        row: int64[D], data row of each document.
        document, at, impressions, clicks: [m], indices into `row` and `connected`, and the two
            counts.
    """

    connected: Int64Array
    row: Int64Array
    document: Int64Array
    at: Int64Array
    impressions: Float64Array
    clicks: Float64Array

    @classmethod
    def select(cls, log: ClickLog, allowed: BoolArray) -> _Moved:
        """Select the log entries at the allowed positions, bool[P]."""
        # Dropping a document may disconnect a position and vice versa; repeat until nothing
        # changes.
        entries = np.flatnonzero(allowed[log.positions - 1])
        while True:
            rows = log.rows[entries]
            impressions = np.bincount(rows)
            clicked = np.bincount(rows, log.clicks[entries])
            # Drop documents that say nothing of positions: shown at one only, or never clicked.
            is_informative = (impressions >= 2) & (clicked > 0)
            remaining = entries[is_informative[rows]]
            # Drop positions that no chain of documents ties to position 1.
            position = log.positions[remaining] - 1
            tied = _tied_to_first(
                log.rows[remaining], position, log.clicks[remaining], allowed.size
            )
            remaining = remaining[tied[position]]
            if remaining.size == entries.size:
                break
            entries = remaining
        if not entries.size:
            raise DataError(
                "no clicked document was shown both at position 1 and elsewhere, and no chain of"
                " documents joins them, so propensities cannot be estimated. Pass a file of"
                " propensities, or log lists that vary"
            )
        # Number the remaining positions and documents from 0.
        at_positions, number = np.unique(log.positions[entries] - 1, return_inverse=True)
        row, document = np.unique(log.rows[entries], return_inverse=True)
        counts = (
            log.impressions[entries].astype(np.float64),
            log.clicks[entries].astype(np.float64),
        )
        return cls(at_positions, row, document, number, *counts)

    @property
    def totals(self) -> Float64Array:
        """The number of clicks on each document, float64[D]."""
        return np.asarray(np.bincount(self.document, self.clicks), np.float64)

    def clusters(self, queries: QueryIndex | None) -> Int64Array:
        """Number the clusters of dependent documents, int64[D], which are the queries or else
        single documents.
        """
        cluster = self.row if queries is None else queries.of_rows()[self.row]
        return np.unique(cluster, return_inverse=True)[1]

    def _shares(self, theta: Float64Array) -> Float64Array:
        """Return the probability that a click on the document falls at the position, float64[m]."""
        weight = self.impressions * np.exp(theta - theta.max())[self.at]
        return np.asarray(weight / np.bincount(self.document, weight)[self.document])

    def _residuals(self, theta: Float64Array) -> Float64Array:
        """Return the clicks minus the expected clicks, float64[m]."""
        return self.clicks - self.totals[self.document] * self._shares(theta)

    def likelihood(self, theta: Float64Array) -> float:
        """Return the log-likelihood in nats, up to a constant, where theta is log e of the known
        positions.
        """
        return float(self.clicks @ np.log(self._shares(theta)))

    def _matrix(self, values: Float64Array) -> Any:
        return sparse.csr_matrix(
            (values, (self.document, self.at)), shape=(self.row.size, self.connected.size)
        )

    def _information(self, theta: Float64Array) -> Float64Array:
        """Return the observed information, float64[K, K]."""
        shares = self._shares(theta)
        expected = np.bincount(self.at, self.totals[self.document] * shares, self.connected.size)
        root = self._matrix(np.sqrt(self.totals[self.document]) * shares)
        return np.asarray(np.diag(expected) - (root.T @ root).toarray())

    def fit(self) -> Float64Array:
        """Maximise the concave likelihood by Newton's method, and return log e of the known
        positions, float64[K].
        """
        theta = np.zeros(self.connected.size)
        value = self.likelihood(theta)
        for _ in range(_MOST_STEPS):
            gradient = np.bincount(self.at, self._residuals(theta), self.connected.size)
            step = np.zeros(self.connected.size)
            step[1:] = np.linalg.lstsq(self._information(theta)[1:, 1:], gradient[1:], rcond=None)[
                0
            ]
            length = 1.0
            while (
                new_value := self.likelihood(theta + length * step)
            ) < value and length > _SHORTEST_STEP:
                length /= 2.0
            theta, value = theta + length * step, max(new_value, value)
            if np.abs(step).max() < _SHORTEST_STEP:
                break
        return theta

    def covariances(
        self, theta: Float64Array, queries: QueryIndex | None
    ) -> tuple[Float64Array, Float64Array]:
        """Return two covariances of log e, float64[K, K]: for independent clicks, and the sandwich
        estimate by cluster.

        The row and the column of position 1, which is the reference, are 0.
        """
        bread = np.linalg.pinv(self._information(theta)[1:, 1:])
        scores = self._matrix(self._residuals(theta))
        number = self.clusters(queries)
        count = int(number.max()) + 1
        scores = (
            sparse.csr_matrix((np.ones(number.size), (number, np.arange(number.size)))) @ scores
        )
        meat = (scores.T @ scores).toarray()[1:, 1:] * (count / max(count - 1, 1))
        independent, clustered = np.zeros((2, self.connected.size, self.connected.size))
        independent[1:, 1:] = bread
        clustered[1:, 1:] = bread @ meat @ bread
        return independent, clustered


def _tied_to_first(
    document: Int64Array, position: Int64Array, clicks: Int64Array, positions: int
) -> BoolArray:
    """Mark the positions that are connected to position 1 in both directions by clicked documents,
    bool[P].

    A document connects a position where it was clicked to those where it was shown. Connections in
    one direction are not enough, since a position without clicks has no finite logarithm.
    """
    shape = (int(document.max(initial=0)) + 1, positions)
    impressions = sparse.csr_matrix((np.ones(position.size), (document, position)), shape=shape)
    clicked = sparse.csr_matrix(((clicks > 0).astype(float), (document, position)), shape=shape)
    graph = clicked.T @ impressions
    graph.eliminate_zeros()
    component = connected_components(graph, connection="strong")[1]
    tied = component == component[:1]
    return np.asarray(tied & (tied.sum() > 1))
