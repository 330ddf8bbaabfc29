"""Choice among candidates: what a preset tried, what it made the model of, and what its numbers are worth.

A record comes with a model's file, so that nothing in it is taken for granted: what is not of its type is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from boostrank.backends import get_backend
from boostrank.core.errors import ModelError
from boostrank.core.formatting import count_of
from boostrank.core.jsonable import is_number, is_whole, jsonable
from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.marks import look_of
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Part
from boostrank.report.html.tables import Cell, Column, Table, fixed, interval_cells, interval_columns
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.section import Context, Section
from boostrank.training.model import RankingModel
from boostrank.training.price import count_trees, microseconds

UNKNOWN = "unknown"
_AVERAGE, _TAKEN, _LEFT_OUT = "the average", "in the average", "left out"
# A line of the chart, and a chart, in pixels.
_LINE, _HEIGHT = 30, 240


@dataclass(frozen=True)
class Interval:
    """A mean over queries and its 95% interval; NaN where it is unknown.

    Args:
        value, low, high: of the mean.
        queries: that count; None: unknown.
    """

    value: float
    low: float
    high: float
    queries: int | None = None


@dataclass(frozen=True)
class Tried:
    """A candidate.

    Args:
        name: of it.
        parameters: beside those of all candidates.
        start: that its trees began with.
        rounds: of each of its trainings.
        weight: in the average.
        held_out: the metric of queries that each of its trainings left out.
        difference: to the best candidate, query by query; NaN for the best one itself.
    """

    name: str
    parameters: Mapping[str, Any]
    start: str
    rounds: tuple[int, ...]
    weight: float
    held_out: Interval
    difference: Interval


@dataclass(frozen=True)
class CurvePoint:
    """What comes of the model with fewer trees.

    Args:
        trees: in all.
        value: of the metric, over held-out queries.
        rounds: of each member, at most; None: unknown.
        of: names of candidates.
        single: whether it is one training alone.
        microseconds: of a document on one thread of this machine; NaN where it was not measured.
    """

    trees: int
    value: float
    rounds: int | None
    of: tuple[str, ...]
    single: bool
    microseconds: float = math.nan


@dataclass(frozen=True)
class Choice:
    """What a preset tried, and what it took.

    Args:
        preset: its name.
        metric: it chose by.
        folds: how many; None: unknown.
        patience: rounds without gain after which a training stopped; None: unknown.
        trees: parameters that suited the data.
        candidates: the best first.
        left: names of those that were not tried for want of time.
        held_out: metric -> of the average, over queries that its models had not seen.
        valid: the same of each validation set, which was dealt into the folds.
        models: in the average; 0: unknown.
        rounds: of the whole model.
        max_trees: that were asked for; None: no limit.
        cut: what came of such a limit.
        curve: fewest trees first; empty where the record has none.
    """

    preset: str
    metric: str
    folds: int | None
    patience: int | None
    trees: Mapping[str, Any]
    candidates: tuple[Tried, ...]
    left: tuple[str, ...]
    held_out: Mapping[str, Interval]
    valid: tuple[Interval, ...]
    models: int
    rounds: int
    max_trees: int | None = None
    cut: CurvePoint | None = None
    curve: tuple[CurvePoint, ...] = ()

    @property
    def raced(self) -> bool:
        """Whether candidates were measured on fewer queries than the average: others had proved better."""
        whole = self.held_out.get(self.metric, _NOTHING).queries or 0
        return any((one.held_out.queries or whole) < whole for one in self.candidates)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: what is not a number is None."""
        return dict(jsonable(asdict(self) | {"raced": self.raced}))

    def to_frame(self) -> Any:
        """A pandas data frame, a row a candidate.

        Raises:
            MissingDependency: there is no pandas.
        """
        rows = [
            {
                "candidate": one.name, "weight": one.weight, **asdict(one.held_out),
                "difference": one.difference.value, "difference_low": one.difference.low,
                "difference_high": one.difference.high, "rounds_least": min(one.rounds, default=None),
                "rounds_most": max(one.rounds, default=None), "start": one.start,
                "parameters": _parameters(one.parameters),
            }
            for one in self.candidates
        ]  # fmt: skip
        return pandas().DataFrame(rows)

    def curve_frame(self) -> Any:
        """A pandas data frame, a row a number of trees."""
        return pandas().DataFrame([asdict(point) | {"of": "; ".join(point.of)} for point in self.curve])


def choice(model: RankingModel) -> Choice:
    """The record of a choice among candidates.

    Args:
        model: trained by a preset.

    Raises:
        ModelError: there is no record, or no candidate in it.
    """
    record = model.info.quality
    if record is None:
        raise ModelError("the model's file has no record of candidates, as quality='good' and 'best' write it")
    tried = [_tried(one) for one in _list(record.get("candidates")) if isinstance(one, Mapping)]
    if not tried:
        raise ModelError("the record of candidates in the model's file names none")
    price = _mapping(model.info.get("price"))
    points = [_point(one) for one in _list(price.get("curve")) if isinstance(one, Mapping)]
    limit = _count(price.get("max_trees"))
    return Choice(
        preset=_text(record.get("preset")), metric=_text(record.get("metric")), folds=_count(record.get("folds")),
        patience=_count(record.get("patience")), trees=_scalars(record.get("trees")),
        candidates=tuple(sorted(tried, key=lambda one: _down(one.held_out.value))),
        left=tuple(map(_text, _list(record.get("left")))),
        held_out={str(name): _interval(one) for name, one in _mapping(record.get("held_out")).items()},
        valid=tuple(map(_interval, _list(record.get("valid")))),
        models=len(model.info.averaged or ()), rounds=model.best_iteration, max_trees=limit,
        cut=None if limit is None else _point(price),
        curve=tuple(sorted((one for one in points if one is not None), key=lambda one: one.trees)),
    )  # fmt: skip


def _tried(one: Mapping[str, Any]) -> Tried:
    difference = replace(_interval(one.get("difference"), "mean"), queries=None)
    rounds = tuple(found for found in map(_count, _list(one.get("rounds"))) if found is not None)
    return Tried(
        _text(one.get("name")), _scalars(one.get("parameters")), _text(one.get("start")), rounds,
        _number(one.get("weight")), _interval(one), difference,
    )  # fmt: skip


def _point(one: Mapping[str, Any]) -> CurvePoint | None:
    trees = _count(one.get("trees"))
    if not trees:
        return None
    names = tuple(map(_text, _list(one.get("of"))))
    return CurvePoint(trees, _number(one.get("value")), _count(one.get("rounds")), names, one.get("single") is True)


def _interval(one: Any, value: str = "value") -> Interval:
    of = _mapping(one)
    return Interval(
        _number(of.get(value)), _number(of.get("low")), _number(of.get("high")), _count(of.get("queries"))
    )  # fmt: skip


_NOTHING = Interval(math.nan, math.nan, math.nan)


def _number(value: Any) -> float:
    """A finite number, or NaN."""
    try:
        found = float(value) if is_number(value) else math.nan
    except OverflowError:  # JSON's whole numbers have no end
        return math.nan
    return found if math.isfinite(found) else math.nan


def _count(value: Any) -> int | None:
    """A whole number from 0 on, of a size that anything can be counted to."""
    return value if is_whole(value) and 0 <= value < 2**53 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else UNKNOWN


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _scalars(value: Any) -> dict[str, Any]:
    """Parameters by name, those that are text, truth or a number."""
    return {str(name): one for name, one in _mapping(value).items() if isinstance(one, str | bool | int | float)}


def _down(value: float) -> tuple[bool, float]:
    """Sorts large ones first, NaN last."""
    return math.isnan(value), -value


def draw(found: Choice) -> list[Part]:
    """Sentences, charts and tables of a `Choice`."""
    values = _chart(found)
    parts: list[Part] = [tag("p", _made(found)), tag("p", _worth(found))]
    parts += [values] if values is not None else []
    parts += [_table(found), tag("p", _how(found))]
    if found.left:
        parts.append(tag("p", "Not tried for want of time: ", *_listed(map(bdi, found.left)), "."))
    if found.trees:
        parts.append(tag("p", "Trees that suited the data: ", bdi(_parameters(found.trees)), "."))
    if found.curve:
        parts += _price(found)
    return parts


def _made(found: Choice) -> Markup:
    taken = [one for one in found.candidates if one.weight > 0.0]
    what = f"{found.models:,} models" if found.models else "several models"
    head = "one training" if found.models == 1 else f"the average of {what}"
    made: list[Any] = _listed(join(bdi(one.name), f" ({one.weight:.2f})") for one in taken)
    made = [", by weight: ", *made, "."] if made else ["."]
    if found.cut is not None:
        rounds = "" if found.cut.rounds is None else f", at most {count_of(found.cut.rounds, 'round')} each"
        cut = f": {count_of(found.cut.trees, 'tree')}, where at most {found.max_trees:,} were asked for."
        made = [", of ", *_listed(map(bdi, found.cut.of or (UNKNOWN,))), rounds, cut]
    return join(tag("b", f"The model is {head}"), f", {count_of(found.rounds, 'round')} in all", *made)


def _worth(found: Choice) -> Markup:
    whole, many = found.held_out.get(found.metric, _NOTHING), len(found.candidates)
    amount = UNKNOWN if math.isnan(whole.value) else _amount(whole)
    chosen = [*(["early stopping"] if found.patience else []),
              *([f"the choice among {many:,} candidates"] if many > 1 else [])]  # fmt: skip
    by = " and ".join(chosen)
    flattering = (
        f" {by[0].upper()}{by[1:]} went by the same queries, so that this number is a little flattering." if by else ""
    )
    valid = "; ".join(_amount(one) for one in found.valid if math.isfinite(one.value))
    sets = (
        f" Validation sets were dealt into the folds with the training set, and other models of the average have "
        f"learnt from them (by themselves {valid})." if valid else ""
    )  # fmt: skip
    return join(
        bdi(found.metric), f" of held-out queries is {amount}: each was scored by models that had not seen it.",
        flattering, sets, " The honest number is the ", tag("a", "verdict", href="#verdict"),
        "'s, on this report's data, if they were neither training nor validation data.",
    )  # fmt: skip


def _listed(parts: Iterable[Markup]) -> list[Any]:
    """Semicolons between them: names of candidates have commas."""
    return [piece for part in parts for piece in ("; ", part)][1:]


def _amount(one: Interval) -> str:
    ends = f" [{one.low:.4f}, {one.high:.4f}]" if math.isfinite(one.low + one.high) else ""
    queries = "" if one.queries is None else f" over {one.queries:,} queries"
    return f"{one.value:.4f}{ends}{queries}"


def _how(found: Choice) -> Markup:
    folds = "folds" if found.folds is None else count_of(found.folds, "fold")
    stopped = f", and stops after {found.patience:,} rounds without gain on them" if found.patience else ""
    trained = f"training leaves out the queries of one of {folds}{stopped}."
    each = "Each candidate leaves out each of them once"
    fewer = (
        ", unless those before have shown that another is better, beyond noise, or the data are too large for so many "
        "trainings"
    )
    greedy = "Weights are by greedy selection: time and again the candidate that makes the average best is added."
    return join("Preset ", bdi(found.preset), f": a {trained} {each}{fewer if found.raced else ''}. {greedy}")


def _chart(found: Choice) -> Chart | None:
    rows = [
        {"candidate": one.name, "kind": _TAKEN if one.weight > 0.0 else _LEFT_OUT, **asdict(one.held_out)}
        for one in found.candidates
    ]
    whole = found.held_out.get(found.metric, _NOTHING)
    if not found.raced:  # of other queries otherwise
        rows.insert(0, {"candidate": _AVERAGE, "kind": _AVERAGE, **asdict(whole)})
    rows = [row for row in rows if math.isfinite(row["value"])]
    if not rows:
        return None
    frame = pandas().DataFrame(rows)
    kinds = [_AVERAGE, _TAKEN, _LEFT_OUT]
    scale = alt.Scale(domain=kinds, range=[COLOURS["good"], COLOURS["main"], COLOURS["faint"]])
    base = alt.Chart(frame).encode(
        y=alt.Y("candidate:N", sort=None, title=None),
        color=alt.Color("kind:N", title=None, scale=scale),
        tooltip=tooltips("candidate:N", "value:Q .4f", "low:Q .4f from", "high:Q .4f to", "queries:Q ,"),
    )  # fmt: skip
    x = alt.X("low:Q", title=found.metric, scale=alt.Scale(zero=False, nice=True))
    drawn = alt.layer(
        base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(strokeWidth=4, opacity=0.5).encode(x=x, x2="high:Q"),
        base.mark_point(size=80).encode(x="value:Q"),
    ).properties(height=_LINE * len(rows) + 10)  # fmt: skip
    return Chart(
        "choice-candidates", f"{found.metric} of the candidates",
        "Means over held-out queries with their 95% intervals. They overlap more than the candidates do, since all are "
        "measured on the same queries: the differences in the table are of pairs.",
        frame, drawn,
    )  # fmt: skip


def _table(found: Choice) -> Table:
    several = len({one.held_out.queries for one in found.candidates}) > 1
    columns = [
        Column("candidate", "candidate"),
        *interval_columns("value", found.metric, ".4f", "mean over held-out queries"),
        *interval_columns(
            "difference", "minus the best", "+.4f", "query by query, where both were measured",
            ("difference_low", "difference_high"),
        ),
        Column("rounds", "rounds", "number", ",", "of the trainings; the mean of them in CSV"),
        Column("weight", "weight", "number", ".2f", "in the average"),
        *([Column("queries", "queries", "number", ",", "held out, that count")] if several else []),
    ]  # fmt: skip
    rows, details = [], []
    for one in found.candidates:
        own, apart = one.held_out, one.difference
        fewest, most = min(one.rounds, default=0), max(one.rounds, default=0)
        shown = None if not one.rounds else f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
        rounds = Cell(float(np.mean(one.rounds)) if one.rounds else None, shown)
        rows.append(
            [one.name, *interval_cells(own.value, own.low, own.high),
             *interval_cells(apart.value, apart.low, apart.high, look_of(apart.low, apart.high)), rounds,
             Cell(one.weight, look="strong" if one.weight > 0.0 else "faint"), *([own.queries] if several else [])]
        )  # fmt: skip
        details.append(tag("p", "start: ", bdi(one.start), "; ", bdi(_parameters(one.parameters) or "no parameters")))
    caption = "Each candidate on held-out queries, with 95% intervals"
    return Table("candidates", columns, rows, details=details, order="-value", caption=caption)


def _price(found: Choice) -> list[Part]:
    frame = found.curve_frame()
    timed = any(math.isfinite(point.microseconds) for point in found.curve)
    tips = tooltips("trees:Q ,", "value:Q .4f", *(["microseconds:Q .3g"] if timed else []), "rounds:Q ,", "of:N")
    x = alt.X("trees:Q", title="trees", scale=alt.Scale(type="log", nice=False))
    drawn = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=50)).encode(
        x=x, y=alt.Y("value:Q", title=found.metric, scale=alt.Scale(zero=False)), tooltip=tips,
    ).properties(height=_HEIGHT)  # fmt: skip
    about = (
        "The average with all its trees, and what comes of a half, a quarter and so on: held-out queries, each scored "
        "by the models that had not seen it, which are one fold's: what averaging over folds adds is not in it."
    )
    columns = [
        Column("trees", "trees", "number", ","),
        *([Column("microseconds", "microseconds", "number",
                  fixed(point.microseconds for point in found.curve), "of a document, on one thread of this machine")]
          if timed else []),
        Column("value", found.metric, "number", ".4f", "over held-out queries"),
        Column("rounds", "rounds", "number", ",", "of each model, at most"),
        Column("of", "made of"),
    ]  # fmt: skip
    rows = [
        [point.trees, *([point.microseconds] if timed else []), point.value, point.rounds,
         ("one model of " if point.single else "") + ("; ".join(point.of) or UNKNOWN)]
        for point in found.curve
    ]  # fmt: skip
    table = Table("price", columns, rows, order="trees", caption="The metric against the number of trees")
    return [
        tag("h3", "What fewer trees are worth"),
        *([Chart("choice-price", f"{found.metric} against trees", about, frame, drawn)] if len(rows) > 1 else []),
        table,
    ]


def _parameters(parameters: Mapping[str, Any]) -> str:
    """`objective=auto, learning_rate=0.05`."""
    shown = {name: f"{one:g}" if isinstance(one, float) else str(one) for name, one in parameters.items()}
    return ", ".join(f"{name}={one}" for name, one in shown.items())


def _frames(found: Choice) -> dict[str, Any]:
    return {"candidates": found.to_frame()} | ({"price": found.curve_frame()} if found.curve else {})


def _brief(found: Choice) -> Markup:
    taken = sum(one.weight > 0.0 for one in found.candidates) if found.cut is None else len(found.cut.of)
    many = count_of(len(found.candidates), "candidate")
    return join(f"Made of {taken} of {many}, chosen by ", bdi(found.metric), " of held-out queries.")


def _run(context: Context) -> Choice:
    """The choice, and what the points of its curve take on this machine: as much a tree as the model's own."""
    found = choice(context.model)
    if not found.curve or context.data.on_disk or not get_backend(context.model.backend).grows_trees:
        return found
    each = microseconds(context.model, context.data) / count_trees(context.model)
    return replace(found, curve=tuple(replace(point, microseconds=each * point.trees) for point in found.curve))


SPEC = Section(
    "choice", "Choice among candidates", _run, draw, _frames, _brief, place=45, short="Choice",
    applies=lambda model: model.info.quality is not None,
)  # fmt: skip
