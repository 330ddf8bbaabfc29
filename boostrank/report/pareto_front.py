"""Pareto front of two goals: the cost in relevance of a second goal, such as margin, over a range of mixes.

The gain of a mix w is (1 - w) g + w c h, with g the gain of the label and h the second goal. c equalises the mean ideal
DCG of both over the training queries. All mixes train with the same parameters and rounds, and are measured on held-out
queries by the label alone and by the goal alone. Differences are to the mix 0, query by query.

    front = pareto({"verbosity": -1}, train_set, "margin", 200, valid_set)
    front.mixes[3].gain                                        # an argument of `boostrank train --gain`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import LABEL, Gain, GainExpression, gains_from_labels
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.resampling import PairedDifference, paired_difference
from boostrank.core.types import Float64Array, takes
from boostrank.data.dataset import RankingDataset
from boostrank.fit.folds import Deal, Variant, each
from boostrank.fit.params import AUTO_START, GAIN_NAMES
from boostrank.fit.run import run
from boostrank.fit.train import resolve
from boostrank.metric import BoundMetrics, Conventions, MetricResult
from boostrank.options import TrainOptions
from boostrank.report.charts import COLOURS, Chart, alt, need_report_extra, tooltips
from boostrank.report.html import Cell, fixed, look_of
from boostrank.report.result import Columns, Result, columns_of
from boostrank.report.section import page_of

MIXES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FOLDS = 5
_DIGITS = 4
_DOMINATED = "dominated (by the means)"

Progress = Callable[[int, int, "Mix"], None]
"""Called after each mix with the number done, the total, and the mix."""


@dataclass(frozen=True, eq=False)
class Mix:
    """One mix and its metrics.

    Args:
        share: w, from 0 (label only) to 1 (goal only).
        gain: gain expression of the training.
        metrics: name -> result on held-out queries: NDCG by the label; NDCG and DCG by the goal.
        differences: name -> difference to the mix 0, query by query.
        on_front: whether no other mix dominates it in the mean NDCGs.
    """

    share: float
    gain: str
    metrics: Mapping[str, MetricResult]
    differences: Mapping[str, PairedDifference]
    on_front: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class ParetoFront(Result):
    """Result of `pareto`.

    Args:
        names: metrics: NDCG by the label, NDCG by the goal, DCG by the goal.
        mixes: mixes by ascending share; the first is the mix 0.
        folds: folds of the training queries; 0 with a validation set.
    """

    goal: str
    names: tuple[str, str, str]
    mixes: tuple[Mix, ...]
    scale: float
    folds: int
    rounds: int
    conventions: Conventions
    seconds: float

    @property
    def free(self) -> Mix | None:
        """The mix with the largest share among those that gain the goal for sure and lose no label NDCG for sure.

        If the interval of the label reaches below 0, a loss of that size remains possible.
        """
        label, goal, _ = self.names
        found = [m for m in self.mixes[1:] if m.differences[label].high >= 0.0 and m.differences[goal].low > 0.0]
        return max(found, key=lambda mix: mix.metrics[goal].mean, default=None)

    TABLES: ClassVar = {"mixes": lambda self: self._columns()}

    def _columns(self) -> Columns:
        """Return a row per mix: each metric with its difference and interval."""
        columns: Columns = {"mix": [mix.share for mix in self.mixes], **columns_of(self.mixes, "gain", "on_front")}
        for name in self.names:
            columns[name] = [mix.metrics[name].mean for mix in self.mixes]
            differences = columns_of((mix.differences[name] for mix in self.mixes), "mean", "low", "high", "p")
            columns |= {f"{name} {key.replace('mean', 'difference')}": one for key, one in differences.items()}
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return super().to_dict() | {"free": self.free and self.free.share}

    def verdict(self) -> str:
        """Summarise the front in a sentence or two."""
        label, goal, _ = self.names
        free = self.free
        if free is None:
            return f"No mix surely gains {goal} without surely losing {label}: the chart shows the cost of each."
        one, other = free.differences[label], free.differences[goal]
        text = f"Mix {free.share:g} wins {_signed(other)} of {goal} and "
        if one.low > 0.0:
            text += f"{_signed(one)} of {label}: better by both."
        else:
            text += f"changes {label} by {_signed(one)}: a loss of up to {-one.low:.4f} remains possible."
        return f"{text} It has the largest share of the goal without a sure loss: measure it on other queries."

    def to_html(self, data: str = "") -> str:
        """Return a self-contained HTML page, with the name of the data. Needs the extra `report`."""
        need_report_extra()
        sections = {
            "front": ("One goal against the other", "Front"),
            "mixes": ("The mixes", "Mixes"),
        }
        digits = fixed(mix.differences[self.names[2]].mean for mix in self.mixes)
        parts = {"chart": _chart(self), "rows": [_row(mix, self.names) for mix in self.mixes], "digits": digits}
        return page_of("pareto.html", f"The label and {self.goal}", sections, found=self, data=data, **parts)


@takes(
    params=Mapping | None,
    train_set=RankingDataset,
    num_boost_round=int,
    valid_set=RankingDataset | None,
    name=str | None,
    k=int,
    folds=int,
    backend=str,
    progress=Callable | None,
)
def pareto(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    goal: str | npt.ArrayLike,
    num_boost_round: int = 100,
    valid_set: RankingDataset | None = None,
    *,
    valid_goal: npt.ArrayLike | None = None,
    name: str | None = None,
    mixes: Sequence[float] = MIXES,
    k: int = 10,
    folds: int = FOLDS,
    backend: str = "lightgbm",
    conventions: Conventions | str | None = None,
    start: Any = AUTO_START,
    progress: Progress | None = None,
) -> ParetoFront:
    """Train mixes of the label's gain and a second goal, and measure both.

    Args:
        params: as for `boostrank.train`, without early stopping; `gain` is the gain of the label.
        train_set: features in memory.
        goal: an expression over features, such as "margin", or non-negative values, float[N], one per row of
            `train_set`.
        num_boost_round: rounds of each training.
        valid_set: data for the metrics; None cross-validates on the training queries.
        valid_goal: goal of the rows of `valid_set`, if `goal` is an array.
        name: name of the goal, also in gain expressions; None means its expression, or "goal".
        mixes: shares of the goal, from 0 to 1; 0 is always added.
        k: cut-off of all metrics.
        folds: at least 2; ignored with `valid_set`.
        backend, start: as for `boostrank.train`.
        conventions: conventions of the metric by the label. The metric by the goal uses them with a linear gain.

    Raises:
        InputError: as `boostrank.train`; also a goal that is all 0, negative or not finite, or labels without gain.
    """
    started = time.perf_counter()
    shares = sorted({0.0, *(float(share) for share in mixes)})
    if not all(0.0 <= share <= 1.0 for share in shares) or len(shares) < 2:
        raise ParameterError(f"mixes={list(mixes)}: shares of the goal must be above 0 and at most 1")
    called = name or (goal if isinstance(goal, str) else "goal")
    goals = _values(train_set, goal)
    held_out_goals = None if valid_set is None else _values(valid_set, goal if isinstance(goal, str) else valid_goal)
    if train_set.on_disk:
        raise DataError("mixes need rows in memory; these are on disk")
    options = TrainOptions(
        params=dict(params or {}), rounds=num_boost_round, backend=backend, conventions=conventions, start=start
    )
    valid = [] if valid_set is None else [("valid_0", valid_set.like(train_set))]
    plan = resolve(options, train_set, valid)
    checked, rules, train_set = plan.settings, plan.rules, plan.train_set
    if checked.stopping_rounds:
        raise ParameterError("early stopping is not available: all mixes must have the same number of rounds")
    with train_set.queries.naming_rows():
        gains = gains_from_labels(train_set.labels, checked.gain)
    scale = _scale(gains, goals, train_set, k)
    measured = plan.others[0] if plan.others else train_set
    at = goals if held_out_goals is None else held_out_goals
    names = (f"ndcg@{k}", f"ndcg@{k} of {called}", f"dcg@{k} of {called}")
    linear = replace(rules, gain="linear", empty="exclude")
    by_label = BoundMetrics(f"ndcg@{k}", measured.labels, measured.queries, rules, checked.threads)
    by_goal = BoundMetrics([f"ndcg@{k}", f"dcg@{k}"], at, measured.queries, linear, checked.threads)
    found: list[Mix] = []
    first: Mapping[str, MetricResult] = {}
    for share in shares:
        labels, gain = mixed(share, gains, goals, scale, gain_text(checked.gain, train_set.gain), called)
        reader = {**train_set.provenance.options, "gain": gain}
        data = replace(train_set, labels=labels, provenance=replace(train_set.provenance, options=reader))
        own = {name: value for name, value in plan.params.items() if name not in GAIN_NAMES}  # the mix is the gain
        mix = resolve(replace(options, params=own), data).seeded(plan.seed)
        if valid:
            scores = measured.in_row_order(run(mix).predict(measured, threads=checked.threads))
        else:
            deal, scores = Deal(mix, folds), np.full(data.n_documents, np.nan)
            for fitted in each(mix, deal, lambda of_fold, _: [Variant("mix", of_fold)], watched=False):
                scores[deal.rows(fitted.fold)] = fitted.scores
        results = dict(zip(names, (*by_label.results(scores).values(), *by_goal.results(scores).values()), strict=True))
        first = first or results
        weights = measured.queries.weights
        differences = {
            name: paired_difference(results[name].per_query, first[name].per_query, weights=weights) for name in names
        }
        found.append(Mix(share, gain, results, differences))
        if progress is not None:
            progress(len(found), len(shares), found[-1])
    return ParetoFront(
        called,
        names,
        tuple(replace(mix, on_front=not _dominated(mix, found, names)) for mix in found),
        scale,
        folds if valid_set is None else 0,
        checked.rounds,
        rules,
        time.perf_counter() - started,
    )


def gain_text(rule: Gain, expression: str | None) -> str:
    """Return the gain of a label as an expression over `label`.

    Args:
        rule: result of `boostrank.core.conventions.parse_gain`.
    """
    if expression is not None:
        return expression
    if isinstance(rule, str):
        return LABEL if rule == "linear" else f"exp2({LABEL}) - 1"
    return " + ".join(f"{float(gain)!r}*({LABEL} == {i})" for i, gain in enumerate(rule) if gain) or f"0*{LABEL}"


def mixed(
    share: float, gains: Float64Array, goals: Float64Array, scale: float, label_gain: str, goal: str
) -> tuple[Float64Array, str]:
    """Return the gains of a mix, float64[N], and the expression that computes them, with other names in backquotes."""
    if not share:
        return gains.copy(), label_gain
    own, other = round(1.0 - share, 10), float(f"{share * scale:.{_DIGITS}g}")
    try:
        GainExpression.parse(goal)
    except ParameterError:
        goal = f"`{goal}`"
    if not own:
        return other * goals, f"{other!r}*({goal})"
    return own * gains + other * goals, f"{own!r}*({label_gain}) + {other!r}*({goal})"


def _values(data: RankingDataset, goal: Any) -> Float64Array:
    """Return the values of a goal, float64[N], in row order."""
    if isinstance(goal, str):
        return data.with_gain(goal).labels
    if goal is None:
        raise ParameterError("an array as goal also needs valid_goal=, the goal of the rows of valid_set")
    values = np.asarray(goal, np.float64).reshape(-1)
    if values.size != data.n_documents:
        raise DataError(f"{values.size} values of the goal for {data.n_documents} rows")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0.0)))
    if bad.size:
        raise DataError(f"row {bad[0]}: the goal is {values[bad[0]]:g}; goals must be finite and at least 0")
    return data.in_row_order(values)


def _scale(gains: Float64Array, goals: Float64Array, data: RankingDataset, k: int) -> float:
    """Return c: mean ideal DCG@k of the label's gain over that of the goal, on the training queries."""
    ideal = []
    for what, values in (("the label", gains), ("the goal", goals)):
        if not values.any():
            raise DataError(f"{what} has no gain in any training query, so it cannot be mixed")
        bound = BoundMetrics(f"dcg@{k}", values, data.queries, Conventions(gain="linear"))
        per_query = np.nan_to_num(bound.per_query(values)[f"dcg@{k}"])
        ideal.append(float(np.average(per_query, weights=data.queries.each_weight)))
    return ideal[0] / ideal[1]


def _dominated(mix: Mix, all_mixes: Sequence[Mix], names: Sequence[str]) -> bool:
    """Return whether another mix is at least as good by both mean NDCGs, and better by one."""
    own = [mix.metrics[name].mean for name in names[:2]]
    others = ([other.metrics[name].mean for name in names[:2]] for other in all_mixes if other is not mix)
    return any(a >= own[0] and b >= own[1] and (a, b) != (own[0], own[1]) for a, b in others)


def _signed(d: PairedDifference) -> str:
    return f"{d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]"


def _chart(found: ParetoFront) -> Chart:
    label, goal, _ = found.names
    rows = found.to_frame()
    first = rows.iloc[0]
    frame = rows[["mix"]].assign(front=np.where(rows["on_front"], "on the front", _DOMINATED))
    for axis, name in (("x", label), ("y", goal)):
        frame[axis] = rows[name]
        for end in ("low", "high"):
            frame[f"{axis}_{end}"] = first[name] + rows[f"{name} {end}"]
    near = alt.Scale(zero=False, nice=False, padding=16)
    x, y = alt.X("x:Q", title=label, scale=near), alt.Y("y:Q", title=goal, scale=near)
    colours = alt.Scale(domain=["on the front", _DOMINATED], range=[COLOURS["main"], COLOURS["faint"]])
    of_x = (f"x:Q .4f {label}", "x_low:Q .4f from", "x_high:Q .4f to")
    of_y = (f"y:Q .4f {goal}", "y_low:Q .4f from", "y_high:Q .4f to")
    base = alt.Chart(frame).encode(tooltip=tooltips("mix:Q g", *of_x, *of_y))
    marks = base.encode(color=alt.Color("front:N", title=None, scale=colours))
    drawn = alt.layer(
        base.mark_line(strokeWidth=1.5, opacity=0.5).encode(x=x, y=y, order="mix:Q"),
        marks.mark_rule(opacity=0.75).encode(x="x_low:Q", x2="x_high:Q", y=y),
        marks.mark_rule(opacity=0.75).encode(x=x, y="y_low:Q", y2="y_high:Q"),
        marks.mark_point(size=60).encode(x=x, y=y),
        base.mark_text(align="left", dx=8, dy=-9).encode(x=x, y=y, text="mix:Q"),
    )
    return Chart("pareto", frame, drawn.properties(height=380))


def _row(mix: Mix, names: Sequence[str]) -> list[Any]:
    """Return a table row: each metric and its difference, with an interval except for the last; and the gain."""
    row: list[Any] = [mix.share]
    for name in names:
        d = mix.differences[name]
        row += [mix.metrics[name].mean, Cell(d.mean, look=look_of(d.low, d.high)), d.low, d.high]
    return [*row[:-2], mix.gain]
