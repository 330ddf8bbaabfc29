"""What each feature is worth to the ranking: `Importance` as a section of a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from boostrank.core.types import Float64Array, Int64Array
from boostrank.report.feature_worth import VERDICTS, Effect, Importance
from boostrank.report.html.charts import COLOURS, Chart
from boostrank.report.html.marks import chip, facts, whisker
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Beside, Fold, Part, Section
from boostrank.report.html.tables import Cell, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_TOP = 20
# Larger heat maps cannot be read; the table of clusters names them all.
_MOST_DRAWN = 60
# A line of a list of features, in pixels.
_LINE = 22
_LOOKS = {"useful": "better", "harmful": "worse", "unused": "faint", "unclear": "faint"}
_VERDICT_COLOURS = {
    "useful": COLOURS["main"], "unclear": COLOURS["faint"], "redundant": "#a873c9", "removable": "#c29a1e",
    "harmful": COLOURS["bad"], "query-level": "#1b9e77",
}  # fmt: skip


def section(found: Importance) -> Section:
    """Tables and charts of what `boostrank.report.importance` found."""
    worth = _Worth(found)
    parts: list[Part] = [
        tag("p", "Each feature in turn is shuffled among the documents of every query, which takes what it says of "
            f"one document against another away. What {found.metric} then loses is what the feature is worth to the "
            "ranking; gain only says how often and how profitably the trees split by it while they were trained."),
        facts(*_facts(found)),
        Beside([_top_losses(worth), _top_gains(worth)]),
        _gain_against_loss(worth),
        tag("h3", "All features"),
        _table(worth),
        *_removable(found),
        *_alike(found),
        *_groups(found),
        Fold("How this was measured, and what the verdicts mean", [_method(found), _verdicts(found)]),
    ]  # fmt: skip
    return Section("importance", "Feature importance", parts)


class _Worth:
    """One number a feature and what the page shows of it; features in the order of their worth."""

    def __init__(self, found: Importance) -> None:
        self.found = found
        self.order: Int64Array = found.order
        exchanged = ~np.isnan(found.between)
        self.loss = np.where(exchanged, found.between, found.loss)
        self.low = np.where(exchanged, found.between_low, found.loss_low)
        self.high = np.where(exchanged, found.between_high, found.loss_high)
        self.gain: Float64Array = found.gain / (found.gain.sum() or 1.0)
        self.rank = np.empty(found.gain.size, np.int64)
        self.rank[np.argsort(-found.gain, kind="stable")] = np.arange(1, found.gain.size + 1)
        self.used = np.array([i for i in self.order.tolist() if found.verdicts[i] != "unused"], np.int64)

    def frame(self, which: Int64Array) -> pd.DataFrame:
        import pandas

        return pandas.DataFrame(
            {
                "feature": [self.found.feature_names[i] for i in which],
                "verdict": [self.found.verdicts[i] for i in which],
                "loss": self.loss[which], "low": self.low[which], "high": self.high[which],
                "gain": self.gain[which], "gain_rank": self.rank[which],
            }
        )  # fmt: skip


def _facts(found: Importance) -> list[tuple[str, Any, str]]:
    count = {verdict: len(found.named(verdict)) for verdict in VERDICTS}
    d = len(found.feature_names)
    told = [("useful features", f"{count['useful']:,}", f"of {d:,}; {d - count['unused']:,} are in the trees")]
    if found.removed is not None:
        told.append(("removable", f"{count['removable']:,}",
                     f"without them {found.metric} is {found.value - found.removed.loss:.4f}"))  # fmt: skip
    if count["harmful"]:
        told.append(("harmful", f"{count['harmful']:,}", "shuffling them makes the ranking better"))
    if found.clusters:
        alike = sum(len(c.features) for c in found.clusters)
        told.append(("rank alike", f"{alike:,}", f"features in {_count(len(found.clusters), 'cluster')}"))
    if count["query-level"]:
        told.append(("query-level", f"{count['query-level']:,}", "the same for all documents of a query"))
    return told


def _colour(frame: pd.DataFrame) -> Any:
    import altair as alt

    here = [verdict for verdict in _VERDICT_COLOURS if (frame["verdict"] == verdict).any()]
    scale = alt.Scale(domain=here, range=[_VERDICT_COLOURS[v] for v in here])
    return alt.Color("verdict:N", title=None, scale=scale)


def _tooltip() -> list[Any]:
    import altair as alt

    return [
        alt.Tooltip("feature:N"), alt.Tooltip("verdict:N"), alt.Tooltip("loss:Q", format="+.4f"),
        alt.Tooltip("low:Q", format="+.4f", title="from"), alt.Tooltip("high:Q", format="+.4f", title="to"),
        alt.Tooltip("gain:Q", format=".2%", title="share of gain"), alt.Tooltip("gain_rank:Q", title="rank by gain"),
    ]  # fmt: skip


def _top_losses(worth: _Worth) -> Chart:
    import altair as alt

    frame = worth.frame(worth.used[:_TOP])
    base = alt.Chart(frame).encode(
        y=alt.Y("feature:N", sort=None, title=None), color=_colour(frame), tooltip=_tooltip()
    )
    drawn = alt.layer(
        base.mark_rule(strokeWidth=3, opacity=0.55).encode(
            x=alt.X("low:Q", title=f"loss of {worth.found.metric}", scale=alt.Scale(zero=True)), x2="high:Q"
        ),
        base.mark_point(size=50).encode(x="loss:Q"),
    ).properties(height=_LINE * len(frame) + 10)
    return Chart(
        "importance-loss", "What the ranking loses without each feature",
        f"Loss of {worth.found.metric} when the feature is shuffled, with its 95% interval, for the "
        f"{_count(len(frame), 'feature')} that are worth most.",
        frame, drawn,
    )  # fmt: skip


def _top_gains(worth: _Worth) -> Chart:
    import altair as alt

    frame = worth.frame(worth.used[:_TOP])
    drawn = (
        alt.Chart(frame)
        .mark_bar(height=11, opacity=0.75)
        .encode(
            y=alt.Y("feature:N", sort=None, title=None),
            color=_colour(frame),
            x=alt.X("gain:Q", title="share of gain", axis=alt.Axis(format="%")),
            tooltip=_tooltip(),
        )
        .properties(height=_LINE * len(frame) + 10)
    )
    return Chart(
        "importance-gain", "What the trees gained by them",
        "Share of the gain of all splits, for the same features in the same order.", frame, drawn,
    )  # fmt: skip


def _gain_against_loss(worth: _Worth) -> Chart:
    import altair as alt

    frame = worth.frame(worth.used)
    small = max(worth.found.negligible, 1e-6)
    ends = float(min(frame["low"].min(), 0.0)), float(max(frame["high"].max(), small))
    marks = [sign * small * a * 10.0**i for sign in (-1, 1) for i in range(8) for a in (1, 3)]
    ticks = sorted([0.0, *(m for m in marks if ends[0] <= m <= ends[1])])
    scale = alt.Scale(type="symlog", constant=small, nice=False, domain=list(ends))
    frame["label"] = _labels(frame, ends, small)
    x = alt.X("gain_rank:Q", title="rank by gain (1: most)", scale=alt.Scale(zero=False, nice=False, padding=12),
              axis=alt.Axis(tickMinStep=1, format="d", grid=False))  # fmt: skip
    y = alt.Y("loss:Q", title=f"loss of {worth.found.metric}, stretched near 0", scale=scale,
              axis=alt.Axis(values=ticks, format="~g"))  # fmt: skip
    base = alt.Chart(frame).encode(x=x, color=_colour(frame), tooltip=_tooltip())
    drawn = alt.layer(
        base.mark_rule(opacity=0.35).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(size=50).encode(y=y),
        alt.Chart(frame).mark_text(align="left", dx=7, dy=-6, fontSize=11).encode(x=x, y=y, text="label:N"),
    ).properties(height=340)
    return Chart(
        "importance-gain-loss", "Gain against worth",
        "Each point is a feature: the further left, the more the trees gained by it; the higher, the more the ranking "
        "loses without it. On the left and near 0 are features that training used and ranking does not need.",
        frame, drawn,
    )  # fmt: skip


def _labels(frame: pd.DataFrame, ends: tuple[float, float], small: float) -> list[str]:
    """Names where they do not cover each other: the largest losses, and features of much gain and no worth."""

    def height(loss: float) -> float:
        low, value, high = (math.copysign(math.log1p(abs(v) / small), v) for v in (ends[0], loss, ends[1]))
        return (value - low) / (high - low)

    wide = float(max(frame["gain_rank"].max() - 1, 1))
    places = [((r - 1) / wide, height(v)) for r, v in zip(frame["gain_rank"], frame["loss"], strict=True)]
    by_loss = list(range(len(frame)))
    idle = [i for i in frame["gain_rank"].argsort().tolist() if frame["verdict"].iloc[i] in ("removable", "harmful")]
    labels = [""] * len(frame)
    taken: list[tuple[float, float, float]] = []
    for i in [*by_loss[:12], *idle[:8]]:
        x, y = places[i]
        name = str(frame["feature"].iloc[i])
        width = 0.0075 * min(len(name), 24) + 0.015
        if x + width > 1.04 or any(x < b and a < x + width and abs(y - h) < 0.05 for a, b, h in taken):
            continue
        taken.append((x, x + width, y))
        labels[i] = name if len(name) <= 24 else name[:23] + "…"
    return labels


def _table(worth: _Worth) -> Table:
    found = worth.found
    left, right = min(0.0, float(worth.low.min(initial=0.0))), float(worth.high.max(initial=0.0)) or 1.0
    alike = {name: [f for f in c.features if f != name] for c in found.clusters for name in c.features}
    rows, details = [], []
    for i in worth.order.tolist():
        name, verdict = found.feature_names[i], found.verdicts[i]
        used = verdict != "unused"
        look = "better" if worth.low[i] > 0.0 else "worse" if worth.high[i] < 0.0 else ""
        interval = (worth.loss[i], worth.low[i], worth.high[i])
        rows.append(
            [
                name, Cell(verdict, chip(verdict, _LOOKS.get(verdict, ""))),
                Cell(worth.loss[i] if used else None, look=look),
                *(Cell(v if used else None, look="faint") for v in interval[1:]),
                Cell(worth.loss[i], whisker(*interval, right, look or "faint", left=left)) if used else None,
                Cell(worth.gain[i] * 100.0, f"{worth.gain[i]:.1%}"), found.splits[i],
                found.shap[i] if used else None,
            ]
        )  # fmt: skip
        details.append(_detail(worth, i, alike.get(name, [])))
    columns = [
        Column("feature", "feature"),
        Column("verdict", "verdict", help="See below the table what each verdict means."),
        Column("loss", "loss", "number", "+.4f", f"of {found.metric}, when the feature is shuffled"),
        Column("low", "from", "number", "+.4f", "lower end of the loss's 95% interval"),
        Column("high", "to", "number", "+.4f", "upper end of the loss's 95% interval"),
        Column("", "95% interval", "number"),
        Column("gain", "gain", "number", ".1f", "share of the gain of all splits, in percent"),
        Column("splits", "splits", "number", help="how often the trees split by it"),
        Column("shap", "SHAP", "number", ".3g", "mean absolute contribution to the score, centred within the query"),
    ]
    return Table("features", columns, rows, search=True, details=details, order="-loss",
                 caption="All features, most worth first")  # fmt: skip


def _detail(worth: _Worth, i: int, alike: Sequence[str]) -> Markup:
    found = worth.found
    verdict = found.verdicts[i]
    told = [join(tag("b", verdict), f": {VERDICTS[verdict]}.")]
    if verdict != "unused":
        way = "Exchanged between queries" if verdict == "query-level" else "Shuffled within queries"
        error = found.permutation_error[i]
        of = "" if verdict == "query-level" or math.isnan(error) else f"; of this ±{error:.4f} is due to the shuffling"
        told.append(join(f"{way}: {found.metric} loses {worth.loss[i]:+.4f}, {worth.low[i]:+.4f} to "
                         f"{worth.high[i]:+.4f} (95%){of}."))  # fmt: skip
        told.append(join(f"Gain: {worth.gain[i]:.2%} of all, rank {worth.rank[i]} of {worth.rank.size:,}, in "
                         f"{_count(int(found.splits[i]), 'split')}."))  # fmt: skip
    if math.isfinite(found.shap[i]) and verdict != "unused":
        told.append(join(f"SHAP: moves the score by {found.shap[i]:.3g} ± {found.shap_error[i]:.1g} on average, "
                         "centred within the query."))  # fmt: skip
    if alike:
        told.append(join("Ranks documents like ", _names(alike), "."))
    return join(*(tag("p", line) for line in told))


def _removable(found: Importance) -> list[Part]:
    removed = found.removed
    if removed is None:
        return []
    left = found.value - removed.loss
    parts: list[Part] = [
        tag("h3", "Removable features"),
        tag("p", f"{_count(len(removed.features), 'feature')} in the trees order nothing that matters: ",
            _names(removed.features), f". With all of them neutralised at once, {found.metric} is ",
            tag("b", f"{left:.4f}"), f" instead of {found.value:.4f}: a loss of {removed.loss:+.4f}, "
            f"{removed.low:+.4f} to {removed.high:+.4f} (95%)."),
    ]  # fmt: skip
    if removed.high > found.negligible:
        parts.append(tag("p", f"Together they may matter: the interval reaches above {found.negligible:g}. Take them "
                         "out step by step, and train again.", class_="note worse"))  # fmt: skip
    return parts


def _alike(found: Importance) -> list[Part]:
    if not found.clusters:
        return []
    where = {name: i for i, name in enumerate(found.correlated)}
    rows = []
    for cluster in found.clusters:
        members = [where[name] for name in cluster.features]
        least = np.abs(found.correlation[np.ix_(members, members)]).min()
        rows.append([Cell(", ".join(cluster.features), _names(cluster.features)), len(members), least,
                     *_numbers(cluster)])  # fmt: skip
    columns = [
        Column("features", "features that rank alike"), Column("size", "features", "number"),
        Column("correlation", "correlation", "number", ".2f", "least rank correlation of two of them, either sign"),
        *_EFFECT,
    ]  # fmt: skip
    return [
        tag("h3", "Features that rank alike"),
        tag("p", f"Within queries their ranks are correlated by {found.redundant:g} or more. The loss is that of all "
            "of a cluster shuffled together; of a cluster it is enough to keep one."),
        Table("alike", columns, rows, caption="Clusters of features that rank documents alike"),
        _heat_map(found, where),
    ]  # fmt: skip


def _heat_map(found: Importance, where: dict[str, int]) -> Chart:
    import altair as alt
    import pandas

    names = [name for cluster in found.clusters for name in cluster.features][:_MOST_DRAWN]
    at = [where[name] for name in names]
    matrix = found.correlation[np.ix_(at, at)]
    frame = pandas.DataFrame(
        {"feature": np.repeat(names, len(names)), "other": np.tile(names, len(names)), "correlation": matrix.ravel()}
    )
    side = max(14, min(28, 560 // len(names)))
    base = alt.Chart(frame).encode(
        x=alt.X("other:N", sort=names, title=None, axis=alt.Axis(labelAngle=-60, labelLimit=120)),
        y=alt.Y("feature:N", sort=names, title=None),
    )
    drawn = base.mark_rect().encode(
        color=alt.Color("correlation:Q", scale=alt.Scale(domain=[-1, 1], range="diverging"),
                        legend=alt.Legend(title="rank correlation within queries", gradientLength=160)),
        tooltip=["feature:N", "other:N", alt.Tooltip("correlation:Q", format=".3f")],
    )  # fmt: skip
    if side >= 24:
        strong = "abs(datum.correlation) > 0.5 ? 'white' : '#8b929a'"
        drawn += base.mark_text(fontSize=10).encode(
            text=alt.Text("correlation:Q", format=".2f"), color=alt.value(alt.ExprRef(strong))
        )
    more = sum(len(c.features) for c in found.clusters) - len(names)
    return Chart(
        "alike-map", "Correlation of features that rank alike",
        "Rank correlation within queries; squares along the diagonal are clusters"
        + (f". The {more} features of the smallest ones are not drawn." if more else "."),
        frame, drawn.properties(width=side * len(names), height=side * len(names)),
    )  # fmt: skip


def _groups(found: Importance) -> list[Part]:
    if not found.groups:
        return []
    columns = [Column("group", "group"), Column("size", "features", "number"), *_EFFECT]
    rows = [[effect.name, len(effect.features), *_numbers(effect)] for effect in found.groups]
    members = [tag("p", _names(effect.features)) for effect in found.groups]
    return [
        tag("h3", "Groups of features"),
        tag("p", "The features of each group shuffled together."),
        Table("groups", columns, rows, details=members, caption="What groups of features are worth"),
    ]


_EFFECT = (
    Column("loss", "loss", "number", "+.4f", "when they are shuffled together"),
    Column("low", "from", "number", "+.4f", "lower end of the 95% interval"),
    Column("high", "to", "number", "+.4f", "upper end of the 95% interval"),
)


def _numbers(effect: Effect) -> list[Cell]:
    look = "better" if effect.low > 0.0 else "worse" if effect.high < 0.0 else ""
    return [Cell(effect.loss, look=look), Cell(effect.low, look="faint"), Cell(effect.high, look="faint")]


def _method(found: Importance) -> Markup:
    of = f"{found.documents:,} documents of {found.queries:,} queries that count"
    if found.documents < found.all_documents:
        of += f", a sample of whole queries out of {found.all_documents:,} documents"
    walked = "" if found.by == "walk" else f" The engine scored the shuffled documents ({found.by})."
    shap = f" SHAP is of {found.shap_documents:,} documents." if found.shap_documents else " There is no SHAP."
    return tag(
        "p", f"Measured on {of}, each query shuffled {_count(found.repeats, 'time')} by draws of its own. Intervals "
        "are 95%, by bootstrap over queries; they hold what the choice of queries and what the shuffling make "
        "uncertain, and each is of one feature: among 100 features without effect about five miss 0. "
        f"A loss below {found.negligible:g} is taken not to matter.{shap}{walked}",
    )  # fmt: skip


def _verdicts(found: Importance) -> Markup:
    told = [verdict for verdict in VERDICTS if found.named(verdict)]
    return tag("ul", *(tag("li", tag("b", v), f": {VERDICTS[v]} ({len(found.named(v)):,}).") for v in told))


def _names(names: Sequence[str], most: int = 12) -> Markup:
    """The first names, and the others to open."""
    shown = [join(bdi(name), ", " if i + 1 < len(names[:most]) else "") for i, name in enumerate(names[:most])]
    more = f" and {len(names) - most:,} more" if len(names) > most else None
    return join(*shown, more)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
