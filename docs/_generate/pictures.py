"""The picture of an objective: its gradient and curvature on made-up lists, as its own kernel
computes them.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import vl_convert

from boostrank.core.queries import QueryIndex
from boostrank.kernels.expsum import SUMS
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.kernels.shared import TRAIN_DISCOUNT
from boostrank.objective.description import Objective

_ROUNDS = 100  # of a training whose schedules are drawn
_DRAWS = 200  # rounds over which a random gradient is averaged
_ROUND = "round"  # how the lines of a schedule begin
_STEP = 0.25  # between scores of neighbours
_LENGTH = 30
_GRADES = np.array([2, 0, 1, 4, 0, 0, 3, 1, 0, 0, 2, 0], dtype=np.float64)
_WIDTH, _HEIGHT = 300, 190


def picture(spec: ObjectiveSpec) -> bytes:
    """Four panels as SVG."""
    lines = _variants(spec)
    pairs, ranks = _pair_rows(lines), _rank_rows(_discounts(spec) or lines)
    title, pair = "score of the relevant document minus the other's", "a pair"
    if not any(row["gradient"] for row in pairs):  # two documents are all among the first k
        pairs, pair = (
            _pair_rows([(name, _cut(objective), rounds) for name, objective, rounds in lines]),
            "a pair, k=1",
        )
    chart = alt.vconcat(
        alt.hconcat(
            _line(
                pairs,
                "difference",
                "gradient",
                f"Gradient of {pair}",
                title,
                "pull of the relevant one",
                cross=True,
            ),
            _line(
                pairs,
                "difference",
                "curvature",
                f"Curvature of {pair}",
                title,
                "Hessian of the relevant one",
            ),
            spacing=30,
        ).resolve_scale(color="independent"),
        alt.hconcat(
            _line(
                ranks,
                "rank",
                "gradient",
                "Weight of a rank",
                "rank of the one relevant document",
                "its pull",
            ),
            _bars(lines),
            spacing=30,
        ).resolve_scale(color="independent"),
        spacing=25,
    ).resolve_scale(color="independent")
    chart = chart.configure_view(stroke=None).configure_axis(
        grid=False, titleFontWeight="normal", titleColor="#444"
    )
    chart = chart.configure_title(anchor="start", fontSize=13).configure_legend(
        labelLimit=240, columnPadding=36
    )
    svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    return svg.encode()


Line = tuple[str, Objective, list[int]]
"""What a line is called, its objective, and the rounds over which it is averaged."""


def _variants(spec: ObjectiveSpec) -> list[Line]:
    """Along the training where a schedule is part of it, else three widths of the ranks, or the
    words of a choice.
    """
    default = Objective(spec, total_rounds=_ROUNDS)
    if spec.random:
        return [("default", default, list(range(_DRAWS)))]
    if spec.default_schedules:
        return [
            (f"{_ROUND} {r + 1} of {_ROUNDS}", default, [r]) for r in (0, _ROUNDS // 2, _ROUNDS - 1)
        ]
    width = next((p for p in spec.params if p.name in ("sigma", "alpha", "sigmoid")), None)
    choice = next((p for p in spec.params if p.kind == "choice" and p != SUMS), None)
    if width is None and choice is not None:
        return [
            (f"{choice.name}={word}", Objective(spec, **{choice.name: word}), [0])
            for word in choice.choices
        ]
    if width is None:
        return [("default", default, [0])]
    values = [float(width.default) * factor for factor in (0.25, 1, 4)]
    return [(f"{width.name}={v:g}", Objective(spec, **{width.name: v}), [0]) for v in values]


def _discounts(spec: ObjectiveSpec) -> list[Line]:
    """The logarithmic and the linear training discount, where there is a choice; else none."""
    if TRAIN_DISCOUNT not in spec.params or spec.default_schedules:
        return []
    rounds = list(range(_DRAWS)) if spec.random else [0]
    return [
        (f"{TRAIN_DISCOUNT.name}={word}", Objective(spec, **{TRAIN_DISCOUNT.name: word}), rounds)
        for word, _ in TRAIN_DISCOUNT.levels
    ]


def _cut(objective: Objective) -> Objective:
    return Objective(objective.spec, total_rounds=_ROUNDS, **(objective.params | {"k": 1}))


def _evaluate(line: Line, labels: Any, scores: Any, sizes: list[int]) -> tuple[Any, Any]:
    """Gradient and curvature of each document, averaged; those of a schedule's rounds in shares of
    the largest.
    """
    _, objective, rounds = line
    bound = objective.bind(labels, QueryIndex.from_sizes(sizes))
    results = [bound.evaluate(scores, round) for round in rounds]
    grad, hess = (np.mean([getattr(r, name) for r in results], axis=0) for name in ("grad", "hess"))
    if not line[0].startswith(_ROUND):
        return grad, hess
    return grad / (np.abs(grad).max() or 1.0), hess / (hess.max() or 1.0)


def _pair_rows(lines: list[Line]) -> list[dict[str, Any]]:
    differences = np.linspace(-5, 5, 161)
    labels = np.tile([1.0, 0.0], differences.size)
    scores = np.column_stack([differences, np.zeros(differences.size)]).ravel()
    rows = []
    for line in lines:
        grad, hess = _evaluate(line, labels, scores, [2] * differences.size)
        for i, difference in enumerate(differences):
            rows.append(
                {
                    "difference": difference,
                    "line": line[0],
                    "gradient": -grad[2 * i],
                    "curvature": hess[2 * i],
                }
            )
    return rows


def _rank_rows(lines: list[Line]) -> list[dict[str, Any]]:
    labels = (3.0 * np.eye(_LENGTH)).ravel()
    scores = np.tile(-_STEP * np.arange(_LENGTH), _LENGTH)
    rows = []
    for line in lines:
        grad, _ = _evaluate(line, labels, scores, [_LENGTH] * _LENGTH)
        own = -grad.reshape(_LENGTH, _LENGTH).diagonal()
        rows += [{"rank": i + 1, "line": line[0], "gradient": pull} for i, pull in enumerate(own)]
    return rows


def _list_rows(lines: list[Line]) -> list[dict[str, Any]]:
    """Of each line; of three widths the default alone."""
    number = isinstance(lines[0][1].params.get(lines[0][0].partition("=")[0]), float)
    chosen = lines[len(lines) // 2 :][:1] if number else lines
    rows = []
    for line in chosen:
        grad, _ = _evaluate(line, _GRADES, -_STEP * np.arange(_GRADES.size), [_GRADES.size])
        for i, grade in enumerate(_GRADES):
            rows.append({"document": f"{i + 1}|{grade:g}", "gradient": -grad[i], "line": line[0]})
    return rows


def _scale(rows: list[dict[str, Any]]) -> alt.Scale:
    names = list(dict.fromkeys(row["line"] for row in rows))
    return alt.Scale(
        domain=names, range=["#c26a00", "#1f5fa8", "#3a8f4d"] if len(names) > 1 else ["#1f5fa8"]
    )


def _line(
    rows: list[dict[str, Any]],
    x: str,
    y: str,
    title: str,
    x_title: str,
    y_title: str,
    *,
    cross: bool = False,
) -> Any:
    several = len({row["line"] for row in rows}) > 1
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal") if several else None
    drawn = alt.Chart(alt.Data(values=rows)).mark_line(
        strokeWidth=1.8, point={"size": 14} if x == "rank" else False
    )
    drawn = drawn.encode(
        x=alt.X(x, type="quantitative", title=x_title, scale=alt.Scale(nice=False, zero=False)),
        y=alt.Y(y, type="quantitative", title=y_title),
        color=alt.Color("line", type="nominal", scale=_scale(rows), legend=legend, sort=None),
    )
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color="#bbb")
    parts = [zero.encode(y=alt.Y("zero", type="quantitative"))]
    if cross:
        parts.append(zero.encode(x=alt.X("zero", type="quantitative")))
    return alt.layer(*parts, drawn).properties(width=_WIDTH, height=_HEIGHT, title=title)


def _bars(lines: list[Line]) -> Any:
    rows = _list_rows(lines)
    several = len({row["line"] for row in rows}) > 1
    labels = alt.Axis(labelAngle=0, labelExpr="split(datum.label, '|')")
    encoding = {
        "x": alt.X(
            "document", type="ordinal", title="rank, and the grade below", axis=labels, sort=None
        ),
        "y": alt.Y("gradient", type="quantitative", title="pull: up or down"),
    }
    bars = alt.Chart(alt.Data(values=rows)).mark_bar()
    if several:
        legend = alt.Legend(title=None, orient="bottom", direction="horizontal")
        bars = bars.encode(
            **encoding,
            xOffset=alt.XOffset("line", type="nominal", sort=None),
            color=alt.Color("line", type="nominal", scale=_scale(rows), legend=legend, sort=None),
        )
    else:
        up = alt.condition("datum.gradient >= 0", alt.value("#1f5fa8"), alt.value("#c26a00"))
        bars = bars.encode(**encoding, color=up)
    zero = (
        alt.Chart(alt.Data(values=[{"zero": 0}]))
        .mark_rule(color="#bbb")
        .encode(y=alt.Y("zero", type="quantitative"))
    )
    return alt.layer(zero, bars).properties(width=_WIDTH, height=_HEIGHT, title="A graded list")
