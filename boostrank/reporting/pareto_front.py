"""Pareto front that shows how much relevance a second goal, such as margin, costs over a range of mixes.

The gain of a mix w is (1 - w) g + w c h, where g is the label gain and h is the second goal. The factor c equalises the
mean ideal DCG of both over the training queries. All mixes train with the same parameters and rounds, and are measured
on held-out queries by the label alone and by the goal alone, and compared with mix 0 query by query.
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
from boostrank.fit.params import GAIN_NAMES
from boostrank.fit.run import run
from boostrank.fit.train import resolve
from boostrank.metric import BoundMetrics, Conventions, MetricResult
from boostrank.options import KEYWORDS, TrainOptions, takes_options
from boostrank.reporting.charts import COLOURS, Chart, alt, need_report_extra, tooltips
from boostrank.reporting.html import fixed
from boostrank.reporting.result import Columns, Result, columns_of
from boostrank.reporting.section import page_of

MIXES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FOLDS = 5
_DIGITS = 4
_DOMINATED = "dominated (by the means)"

Progress = Callable[[int, int, "Mix"], None]
"""A function of the number of finished mixes, the number of all mixes, and the last mix."""


@dataclass(frozen=True, eq=False)
class Mix:
    """One mix and its metrics.

    Args:
        share: share of the goal, from 0 (only the label) to 1 (only the goal).
        gain: gain expression used in the training.
        metrics: results on held-out queries by name: NDCG by the label, and NDCG and DCG by the goal.
        differences: paired differences from mix 0 by name.
        on_front: whether no other mix dominates this one in both mean NDCGs.
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
        names: metric names, which are NDCG by the label, NDCG by the goal and DCG by the goal.
        mixes: mixes by ascending share. The first one is mix 0.
        scale: factor c that multiplies the goal.
        folds: number of folds of the training queries, or 0 with a validation set.
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
        """The best mix by the goal, among mixes that surely gain by the goal and do not surely lose by the label."""
        label, goal, _ = self.names
        found = [m for m in self.mixes[1:] if m.differences[label].high >= 0.0 and m.differences[goal].low > 0.0]
        return max(found, key=lambda mix: mix.metrics[goal].mean, default=None)

    TABLES: ClassVar = {"mixes": lambda self: self._columns()}

    def _columns(self) -> Columns:
        """Return one row per mix, with the value, the difference and the interval of each metric."""
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
            return f"No mix surely gains {goal} without surely losing {label}. The chart shows the cost of each mix."
        one, other = free.differences[label], free.differences[goal]
        text = f"Mix {free.share:g} improves {goal} by {_signed(other)} and "
        if one.low > 0.0:
            text += f"{label} by {_signed(one)}, so it is better by both."
        else:
            text += f"changes {label} by {_signed(one)}, so a loss of up to {-one.low:.4f} remains possible."
        return f"{text} It has the highest {goal} of the mixes without a sure loss. Measure it on other queries."

    def to_html(self, data: str = "") -> str:
        """Return a self-contained HTML page that names the data. This needs the extra `report`."""
        need_report_extra()
        sections = {"front": ("One goal against the other", "Front"), "mixes": ("The mixes", "Mixes")}
        digits = fixed(mix.differences[self.names[2]].mean for mix in self.mixes)
        parts = {"found": self, "data": data, "chart": _chart(self), "digits": digits}
        return page_of("pareto.html", f"The label and {self.goal}", sections, **parts)


@takes_options(KEYWORDS[name] for name in ("backend", "conventions", "start", "folds"))
@takes(
    params=Mapping | None,
    train_set=RankingDataset,
    num_boost_round=int,
    valid_set=RankingDataset | None,
    k=int,
    folds=int,
    backend=str,
    progress=Callable | None,
)
def pareto(
    params: Mapping[str, Any] | None,
    train_set: RankingDataset,
    goal: str | npt.ArrayLike | Mapping[str, npt.ArrayLike],
    num_boost_round: int = 100,
    valid_set: RankingDataset | None = None,
    *,
    valid_goal: npt.ArrayLike | None = None,
    mixes: Sequence[float] = MIXES,
    k: int = 10,
    progress: Progress | None = None,
    **options: Any,
) -> ParetoFront:
    """Train a ranker for each mix of the label gain and a second goal, and measure it by both.

    Args:
        params: parameters as for `boostrank.train`, without early stopping. `gain` is the label gain.
        train_set: data set with features in memory.
        goal: an expression over features, such as "margin", or non-negative values, float[N], one per row of
            `train_set`. A mapping {name: values} names the goal in gain expressions and results.
        num_boost_round: number of rounds in each training.
        valid_set: data for the metrics, or None for cross-validation on the training queries.
        valid_goal: goal for the rows of `valid_set`, if `goal` is not an expression.
        mixes: shares of the goal, between 0 and 1. The share 0 is always added.
        k: cut-off for all metrics.
        progress: function called after each mix.
        options: backend and start as for `boostrank.train`, conventions for the metric by the label, which the metric
            by the goal uses with a linear gain, and folds without `valid_set`, 5 by default.

    Raises:
        InputError: as for `boostrank.train`, or a goal that is all 0, negative or not finite, or labels without gain.
    """
    started = time.perf_counter()
    shares = sorted({0.0, *(float(share) for share in mixes)})
    if not all(0.0 <= share <= 1.0 for share in shares) or len(shares) < 2:
        raise ParameterError(f"mixes must be shares of the goal above 0 and at most 1, but got {list(mixes)}")
    called = goal if isinstance(goal, str) else "goal"
    if isinstance(goal, Mapping):
        if len(goal) != 1:
            raise ParameterError(f"goal must be one name with its values, but got {len(goal)} names")
        ((called, goal),) = goal.items()
    goals = _values(train_set, goal)
    held_out_goals = None if valid_set is None else _values(valid_set, goal if isinstance(goal, str) else valid_goal)
    if train_set.on_disk:
        raise DataError("pareto needs rows in memory, but the rows of train_set are on disk")
    folds = options.pop("folds", FOLDS)
    training = TrainOptions(params=dict(params or {}), rounds=num_boost_round, **options)
    valid = [] if valid_set is None else [("valid_0", valid_set.like(train_set))]
    plan = resolve(training, train_set, valid)
    checked, rules, train_set = plan.settings, plan.rules, plan.train_set
    if checked.stopping_rounds:
        raise ParameterError("early stopping is not available, because all mixes must have the same number of rounds")
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
        mix = resolve(replace(training, params=own), data).seeded(plan.seed)
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
    """Return the label gain, which is given by a rule or an expression, as an expression over `label`."""
    if expression is not None:
        return expression
    if isinstance(rule, str):
        return LABEL if rule == "linear" else f"exp2({LABEL}) - 1"
    return " + ".join(f"{float(gain)!r}*({LABEL} == {i})" for i, gain in enumerate(rule) if gain) or f"0*{LABEL}"


def mixed(
    share: float, gains: Float64Array, goals: Float64Array, scale: float, label_gain: str, goal: str
) -> tuple[Float64Array, str]:
    """Return the gains for a mix, float64[N], and the expression that computes them, with other names in backquotes."""
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
    """Return the goal's values, float64[N], in row order."""
    if isinstance(goal, str):
        return data.with_gain(goal).labels
    if goal is None:
        raise ParameterError("goal is an array; also pass valid_goal, an array with the goal for each row of valid_set")
    values = np.asarray(goal, np.float64).reshape(-1)
    if values.size != data.n_documents:
        raise DataError(f"the goal has {values.size} values, but the data has {data.n_documents} rows")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0.0)))
    if bad.size:
        raise DataError(f"row {bad[0]}: the goal is {values[bad[0]]:g}, but it must be finite and at least 0")
    return data.in_row_order(values)


def _scale(gains: Float64Array, goals: Float64Array, data: RankingDataset, k: int) -> float:
    """Return the mean ideal DCG@k by the label gain divided by the mean ideal DCG@k by the goal."""
    ideal = []
    for what, values in (("the label", gains), ("the goal", goals)):
        if not values.any():
            raise DataError(f"{what} has no gain in any training query")
        bound = BoundMetrics(f"dcg@{k}", values, data.queries, Conventions(gain="linear"))
        per_query = np.nan_to_num(bound.per_query(values)[f"dcg@{k}"])
        ideal.append(float(np.average(per_query, weights=data.queries.each_weight)))
    return ideal[0] / ideal[1]


def _dominated(mix: Mix, all_mixes: Sequence[Mix], names: Sequence[str]) -> bool:
    """Return whether another mix has mean NDCGs that are both at least as high, and one of them higher."""
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
