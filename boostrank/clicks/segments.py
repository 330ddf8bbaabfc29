"""Propensities by segment: one curve each for phones and desktops, say, whose logs are one."""

from __future__ import annotations

import warnings
from dataclasses import replace

from boostrank.clicks.estimation import CurveCheck, check_curve, estimate_propensities
from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import AnyPropensities, Propensities, SegmentPropensities
from boostrank.core.errors import DataError, DataWarning, ParameterError, warn_user
from boostrank.core.queries import QueryIndex


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
