"""Clicks on the data: propensities of positions, and the comparison with another ranker by clicks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from boostrank.clicks.estimation import NONSENSE, CurveCheck, check_propensities, estimate_propensities
from boostrank.clicks.gate import ClickGate, Judged, gate, moved_share, shown_at_the_top
from boostrank.clicks.log import PRIOR, ClickLog, Propensities
from boostrank.core.errors import BoostrankError, DataError, DataWarning, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.model.ranking_model import RankingModel
from boostrank.report.charts import CATEGORY, COLOURS, Chart, alt, tooltips
from boostrank.report.html import look_of
from boostrank.report.result import Columns, Result, pandas, plain
from boostrank.report.scoring import START
from boostrank.report.section import Context, Section

TOP = 10
"""Number of top ranks at which rankers are compared."""
_MOST_PRIOR = 2**53
_LEARNT = "learnt with"
_ORIGINS = {"log": "of this log", "given": "given", "model": _LEARNT}
_RATES = "clicks an impression"
# Offset between curves at the same position.
_APART = 0.12


@dataclass(frozen=True)
class Against:
    """Comparison of the model with another ranker, by clicks.

    Args:
        gate: result of the comparison; None if clicks cannot compare them.
        reason: why there is no result.
    """

    name: str
    gate: ClickGate | None
    reason: str

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "unclear"; "" without a result."""
        return "" if self.gate is None else look_of(self.gate.difference.low, self.gate.difference.high) or "unclear"


@dataclass(frozen=True, eq=False, repr=False)
class ClickData(Result):
    """Result of `click_data`.

    Args:
        documents, shown, clicked: numbers of all, shown and clicked documents.
        impressions, clicks: totals.
        moved: share of clicked documents shown at several positions.
        propensities: propensities of positions.
        origin: source of the propensities: "log", "given" or "model" (from the model's training).
        check: test of propensities from another source than this log; None if the log cannot test them.
        learnt: propensities of the model's training, if different.
        positions: columns of the positions with impressions; `propensity` with its 95% interval.
        prior: exposure added to each document.
        top_shown: share of the documents at the model's top ranks that were ever shown.
        against: comparison with another ranker; None without one.
    """

    documents: int
    shown: int
    clicked: int
    impressions: int
    clicks: int
    moved: float
    propensities: Propensities
    origin: str
    check: CurveCheck | None
    learnt: Propensities | None
    positions: Columns
    prior: float
    top_shown: float
    against: Against | None
    notes: tuple[str, ...] = ()

    TABLES: ClassVar = {"click positions": attrgetter("positions")}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        found = vars(self) | {"positions": self.rows(), "propensities": self.propensities.to_dict()}
        del found["learnt"]
        if self.against:
            found["against"] = vars(self.against) | {"verdict": self.against.verdict}
        return dict(plain(found))


def click_data(c: Context) -> ClickData:
    """Analyse clicks on the documents that a model ranks."""
    data, log, scores = c.data, c.clicks, c.scores
    if log is None:
        raise DataError("no click log given (--clicks reads FILE.clicks, next to the data)")
    if data.n_documents != log.n_documents:
        raise DataError(f"the click log has {log.n_documents:,} documents, but the data have {data.n_documents:,}")
    if not log.clicks.any():
        raise DataError("the click log has no clicks")
    previous = c.previous or (None if c.start is None else (START, c.start))
    learnt, prior = learnt_from(c.model)
    # The log with rows in the order of the data set.
    rows = log.renumbered(data.in_input_order(np.arange(data.n_documents)))
    curve, origin, check = _curve(rows, data.queries, c.propensities, learnt)
    with warnings.catch_warnings():  # a note reports positions without a propensity
        warnings.simplefilter("ignore", DataWarning)
        used = rows.up_to(curve)
        against = None if previous is None else _against(c, log, curve, previous)
    if not used.clicks.any():
        raise DataError("all clicks of the log are at positions without a propensity")
    return ClickData(
        documents=data.n_documents,
        shown=int(log.shown.sum()),
        clicked=int((log.total_clicks() > 0).sum()),
        impressions=int(log.impressions.sum()),
        clicks=int(log.clicks.sum()),
        moved=moved_share(log),
        propensities=curve,
        origin=origin,
        check=check,
        learnt=None if origin == "model" else learnt,
        positions=_positions(log, curve),
        prior=prior,
        top_shown=float(shown_at_the_top(data, log, scores, TOP).mean()),
        against=against,
        notes=tuple(_notes(log, used, curve)),
    )


def learnt_from(model: RankingModel) -> tuple[Propensities | None, float]:
    """Return (propensities of a model's training, prior); (None, default prior) without a valid record."""
    found: Any = model.info.get("data")
    for key in ("reader", "clicks"):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return None, PRIOR
    given: Any = found.get("prior")
    prior = float(given) if isinstance(given, int | float) and 0 <= given < _MOST_PRIOR else PRIOR
    try:
        return Propensities.from_dict(found.get("propensities")), prior
    except (ValueError, RecursionError):
        return None, prior


def _curve(
    rows: ClickLog, queries: QueryIndex, given: Propensities | None, learnt: Propensities | None
) -> tuple[Propensities, str, CurveCheck | None]:
    """Return the propensities to use, their origin, and whether clicks contradict them."""
    if given is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # a note reports wide intervals
                return estimate_propensities(rows, queries), "log", None
        except DataError:
            if learnt is None:
                raise
    curve = given or learnt
    assert curve is not None
    try:
        check = check_propensities(rows, curve, queries)
    except (DataError, ParameterError):  # no document moved, or clicks at all positions were excluded
        check = None
    return curve, "model" if given is None else "given", check


def _interval(curve: Propensities) -> tuple[Float64Array, Float64Array]:
    """Return the ends of the 95% intervals, float64[P] each; NaN without standard errors."""
    width = np.exp(1.96 * (np.full(curve.examination.size, np.nan) if curve.errors is None else curve.errors))
    return curve.examination / width, curve.examination * width


def _positions(log: ClickLog, curve: Propensities) -> Columns:
    shown, clicked = (np.bincount(log.positions - 1, counts, log.depth) for counts in (log.impressions, log.clicks))
    known = np.flatnonzero(shown)
    columns = {"position": known + 1, "impressions": shown[known].astype(int), "clicks": clicked[known].astype(int)}
    columns["rate"] = clicked[known] / shown[known]
    for name, values in zip(("propensity", "low", "high"), (curve.examination, *_interval(curve)), strict=True):
        columns[name] = np.append(values, np.full(log.depth, np.nan))[known]
    return columns


def _notes(log: ClickLog, used: ClickLog, curve: Propensities) -> list[str]:
    notes, all_of_them = [], int(log.impressions.sum())
    lost = all_of_them - int(used.impressions.sum())
    if lost:
        notes.append(f"{lost:,} of {all_of_them:,} impressions are ignored: their positions have no propensity.")
    vague = 0 if curve.errors is None else int((curve.errors > NONSENSE).sum())
    if vague:
        notes.append(
            f"The propensities of {vague:,} positions are unreliable: they are uncertain by a factor of 2.7 or more."
        )
    return notes


def _against(c: Context, log: ClickLog, curve: Propensities, previous: tuple[str, npt.ArrayLike]) -> Against:
    name, old = previous[0], np.asarray(previous[1], np.float64)
    scores = (c.data.in_input_order(one) for one in (old, c.scores))
    try:
        return Against(name, gate(Judged(c.data, log, curve, *scores), k=TOP, seed=c.seed), "")
    except BoostrankError as error:
        return Against(name, None, str(error))


def _parts(found: ClickData) -> dict[str, Any]:
    return {
        "top": TOP,
        "depths": len(found.positions["position"]),
        "curve": _curve_chart(found),
    }


def _curve_chart(found: ClickData) -> Chart:
    shown, clicked = (
        np.bincount(found.positions["position"] - 1, found.positions[w]) for w in ("impressions", "clicks")
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # positions without impressions
        rates = clicked / shown / (clicked[0] / shown[0])
    curves = {_ORIGINS[found.origin]: found.propensities}
    if found.learnt is not None:
        curves[_LEARNT] = found.learnt
    return curve_chart(curves, rates if np.isfinite(rates).any() else None)


def curve_chart(curves: Mapping[str, Propensities], rates: Float64Array | None = None) -> Chart:
    """Draw curves with intervals over positions, on a logarithmic scale.

    Args:
        rates: float64[P], click rate at each position relative to the first; NaN where nothing was shown.
    """
    rows: list[tuple[Any, ...]] = []
    for at, (name, curve) in enumerate(curves.items()):
        low, high = _interval(curve)
        for i in np.flatnonzero(np.isfinite(curve.examination)).tolist():
            ends = (low[i], high[i]) if i else (math.nan, math.nan)
            rows.append((name, i + 1, i + 1 + _APART * at, curve.examination[i], *ends))
    if rates is not None:
        shown = np.flatnonzero(rates > 0.0).tolist()
        rows += [(_RATES, i + 1, i + 1.0, rates[i], math.nan, math.nan) for i in shown]
    frame = pandas().DataFrame(rows, columns=["curve", "position", "x", "propensity", "low", "high"])
    names = [*curves, *([] if rates is None else [_RATES])]
    colours = CATEGORY[: len(curves)] + [COLOURS["faint"]] * (rates is not None)
    # Clip very wide intervals, which would squeeze the others.
    smallest, largest = frame["propensity"].min(), max(frame["propensity"].max(), 1.0)
    ends = max(frame["low"].min(), smallest / 3.0), min(frame["high"].max(), largest * 3.0)
    domain = [float(np.nanmin([ends[0], smallest]) / 1.1), float(np.nanmax([ends[1], largest]) * 1.1)]
    scale = alt.Scale(type="log", domain=domain, clamp=True, nice=False)
    low, value = (
        alt.Y(
            f"{name}:Q", title="looked at, relative to position 1", scale=scale, axis=alt.Axis(format="~g", tickCount=6)
        )
        for name in ("low", "propensity")
    )
    across = alt.Scale(nice=False, zero=False, padding=12)
    base = alt.Chart(frame).encode(
        x=alt.X("x:Q", title="position", axis=alt.Axis(format="d", tickMinStep=1), scale=across),
        color=alt.Color("curve:N", title=None, sort=None, scale=alt.Scale(domain=names, range=colours)),
        tooltip=tooltips("curve:N", "position:Q d", "propensity:Q .3f", "low:Q .3f from", "high:Q .3f to"),
    )
    known = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    drawn = alt.layer(
        known.mark_rule(strokeWidth=4, opacity=0.4).encode(y=low, y2="high:Q"),
        base.mark_line(strokeWidth=1.5, opacity=0.8, point=alt.OverlayMarkDef(size=40)).encode(y=value),
    )
    words = "; ".join(_in_words(name, curve) for name, curve in curves.items())
    about = f"The propensities of the positions relative to position 1, {words}."
    if any(one.errors is not None for one in curves.values()):
        about += " Lines are 95% intervals."
    if rates is not None:
        about += (
            f" {_RATES.capitalize()} fall for two reasons: lower positions are examined less (the propensity), and "
        )
        about += "they show worse documents."
    title = "How likely each position is looked at"
    return Chart("clicks-propensities", frame, drawn.properties(height=280), title, about)


def _in_words(name: str, curve: Propensities) -> str:
    low, high = _interval(curve)
    known = np.flatnonzero(np.isfinite(curve.examination))
    chosen = sorted({int(known[i]) for i in (1, known.size // 2, known.size - 1) if 0 < i < known.size})
    ends = {i: f" [{low[i]:.2f}, {high[i]:.2f}]" if np.isfinite(low[i]) else "" for i in chosen}
    return f"{name}{':' * bool(chosen)}" + ",".join(
        f" position {i + 1} {curve.examination[i]:.2f}{ends[i]}" for i in chosen
    )


SPEC = Section("clicks", "Clicks", click_data, _parts, place=60, after=("learning",), needs_clicks=True)
