"""Section on the importance of features: `Importance` drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from boostrank.core.text import count_of
from boostrank.report.html.marks import chip, key_numbers, look_of, whisker
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Beside, Fold, Part
from boostrank.report.html.tables import Cell, Column, Table, interval_cells, interval_columns
from boostrank.report.section import Section
from boostrank.report.sections.importance.analysis import importance
from boostrank.report.sections.importance.charts import Worth, gain_against_loss, heat_map, top_gains, top_losses
from boostrank.report.sections.importance.result import VERDICTS, Effect, Importance
from boostrank.report.start import START

# So many features make a heat map that leaves room for its table beside it.
_FEW = 14
_LOOKS = {"useful": "better", "harmful": "worse", "unused": "faint", "unclear": "faint"}


def draw(found: Importance) -> list[Part]:
    """Tables and charts of what `boostrank.report.importance` found."""
    worth = Worth(found)
    verdicts = (
        tag("li", tag("b", verdict), f": {meaning} ({len(found.named(verdict)):,}).")
        for verdict, meaning in VERDICTS.items()
        if found.named(verdict)
    )
    charts: list[Part] = []
    if worth.used.size:
        charts = [Beside([top_losses(worth), top_gains(worth)]), gain_against_loss(worth)]
    return [
        tag("p", "Each feature in turn is shuffled among the documents of every query, which takes what it says of "
            f"one document against another away. What {found.metric} then loses is what the feature is worth to the "
            "ranking; gain only says how often and how profitably the trees split by it while they were trained."),
        key_numbers(*_key_numbers(found)),
        *charts,
        tag("h3", "All features"),
        _table(worth),
        *_removable(found),
        *_alike(found),
        *_groups(found),
        Fold("How this was measured, and what the verdicts mean", [_method(found), tag("ul", *verdicts)]),
    ]  # fmt: skip


def _brief(found: Importance) -> Markup:
    worth = Worth(found)
    if not worth.used.size:
        return join("The trees use no feature.")
    first, useful = int(worth.used[0]), len(found.named("useful"))
    sentences = ["Most is lost without ", bdi(found.feature_names[first]), f" ({worth.loss[first]:.4f}). {useful:,} of "
            f"{len(found.feature_names):,} features are significant (Holm)."]  # fmt: skip
    if found.removed is not None and len(found.removed.features) > 1:
        removed = found.removed
        doubt = "but not" if removed.low > found.negligible else "perhaps not"
        all_at_once = f"{'and' if removed.high <= found.negligible else doubt} all at once"
        sentences.append(f" {len(removed.features):,} could each go by itself, {all_at_once}: without all of them "
                    f"{found.metric} is {found.value - removed.loss:.4f}, not {found.value:.4f}.")  # fmt: skip
    if found.clusters:
        sentences.append(f" {_clustered(found):,} are redundant (rank correlation {found.redundant:g} or more).")
    return join(*sentences)


def _key_numbers(found: Importance) -> list[tuple[str, Any, str]]:
    count = {verdict: len(found.named(verdict)) for verdict in VERDICTS}
    d = len(found.feature_names)
    in_model = f"significant, of {d:,}; {d - count['unused']:,} are in the model"
    numbers = [("useful features", f"{count['useful']:,}", in_model)]
    if found.removed is not None:
        left = f"without {'all of them' if count['removable'] > 1 else 'it'} {found.metric} is "
        numbers.append(("removable", f"{count['removable']:,}", f"{left}{found.value - found.removed.loss:.4f}"))
    if count["harmful"]:
        numbers.append(("harmful", f"{count['harmful']:,}", "shuffling them makes the ranking better"))
    if found.clusters:
        clusters = f"in {count_of(len(found.clusters), 'cluster')} of rank correlation {found.redundant:g} or more"
        numbers.append(("redundant", f"{_clustered(found):,}", clusters))
    if count["query-level"]:
        numbers.append(("query-level", f"{count['query-level']:,}", "the same for all documents of a query"))
    return numbers


def _table(worth: Worth) -> Table:
    found = worth.found
    left, right = min(0.0, float(worth.low.min(initial=0.0))), float(worth.high.max(initial=0.0)) or 1.0
    alike = {name: [f for f in c.features if f != name] for c in found.clusters for name in c.features}
    rows, details = [], []
    if start := found.start:
        left, right = min(left, start.low), max(right, start.high)
        interval, look = (start.loss, start.low, start.high), look_of(start.low, start.high)
        mark = whisker(*interval, right, look or "faint", left=left)
        numbers = [*interval_cells(*interval, look), Cell(start.loss, mark), None, None, start.shap]
        rows.append([START, Cell("start", chip("start")), *numbers])
        details.append(join(*(tag("p", line) for line in _START)))
    for i in worth.order.tolist():
        name, verdict = found.feature_names[i], found.verdicts[i]
        used = verdict != "unused"
        look, interval = _look(verdict, worth.low[i], worth.high[i]), (worth.loss[i], worth.low[i], worth.high[i])
        rows.append(
            [
                name, Cell(verdict, chip(verdict, _LOOKS.get(verdict, ""))),
                *(interval_cells(*interval, look) if used else [None] * 3),
                Cell(worth.loss[i], whisker(*interval, right, look or "faint", left=left)) if used else None,
                Cell(worth.gain[i] * 100.0, f"{worth.gain[i]:.1%}"), found.splits[i],
                found.shap[i] if used else None,
            ]
        )  # fmt: skip
        details.append(_detail(worth, i, alike.get(name, [])))
    columns = [
        Column("feature", "feature"),
        Column("verdict", "verdict", help="See below the table what each verdict means."),
        *interval_columns("loss", "loss", "+.4f", f"of {found.metric}, when the feature is shuffled"),
        Column("", "95% interval", "number"),
        Column("gain", "gain", "number", ".1f", "share of the gain of all splits, in percent"),
        Column("splits", "splits", "number", help="how often the trees split by it"),
        Column("shap", "SHAP", "number", ".3f", "mean absolute contribution to the score, centred within the query"),
    ]
    return Table("features", columns, rows, search=True, details=details, order="-loss",
                 caption="All features, most worth first")  # fmt: skip


_START = (
    "The linear ranker that the trees begin with. Its loss is that of leaving it out, so that the trees rank alone; of "
    "a feature, it is that of shuffling it, in the start and in the trees.",
    "It has no gain and no splits: it was fitted before the first tree. SHAP: the mean size of what it says of a "
    "document, centred within the query.",
)


def _look(verdict: str, low: float, high: float) -> str:
    """Colour where there is significance: of what is shuffled within queries, by Holm's method."""
    return look_of(low, high) if verdict in ("useful", "harmful", "query-level") else ""


def _detail(worth: Worth, i: int, alike: Sequence[str]) -> Markup:
    found = worth.found
    verdict = found.verdicts[i]
    lines = [join(tag("b", verdict), f": {VERDICTS[verdict]}.")]
    if verdict != "unused":
        change = "Exchanged between queries" if verdict == "query-level" else "Shuffled within queries"
        error = found.permutation_error[i]
        of = "" if verdict == "query-level" or math.isnan(error) else f"; of this ±{error:.4f} is due to the shuffling"
        lines.append(join(f"{change}: {found.metric} loses {worth.loss[i]:+.4f}, {worth.low[i]:+.4f} to "
                         f"{worth.high[i]:+.4f} (95%){of}.{_p(found.p_holm[i])}"))  # fmt: skip
        lines.append(join(f"Gain: {worth.gain[i]:.2%} of all, rank {worth.rank[i]} of {worth.rank.size:,}, in "
                         f"{count_of(int(found.splits[i]), 'split')}."))  # fmt: skip
    if math.isfinite(found.shap[i]) and verdict != "unused":
        lines.append(join(f"SHAP: moves the score by {found.shap[i]:.4f} ± {found.shap_error[i]:.4f} on average, "
                         "centred within the query."))  # fmt: skip
    if alike:
        lines.append(join("Redundant with ", _names(alike), "."))
    return join(*(tag("p", line) for line in lines))


def _p(p_holm: float) -> str:
    if math.isnan(p_holm):
        return ""
    return " Holm's p is below 0.0001." if p_holm < 0.0001 else f" Holm's p is {p_holm:.4f}."


def _removable(found: Importance) -> list[Part]:
    removed = found.removed
    if removed is None:
        return []
    left = found.value - removed.loss
    parts: list[Part] = [
        tag("h3", "Removable features"),
        tag("p", f"{count_of(len(removed.features), 'feature')} in the trees, each by itself, order nothing that "
            "matters: ", _names(removed.features), f". With all of them neutralised at once, {found.metric} is ",
            tag("b", f"{left:.4f}"), f" instead of {found.value:.4f}: a loss of {removed.loss:+.4f}, "
            f"{removed.low:+.4f} to {removed.high:+.4f} (95%)."),
    ]  # fmt: skip
    if removed.high > found.negligible:
        sure = "matter" if removed.low > found.negligible else "may matter"
        parts.append(tag("p", f"Together they {sure}: the interval reaches above {found.negligible:g}. Take them out "
                         "step by step, and train again.", class_="note worse"))  # fmt: skip
    return parts


def _alike(found: Importance) -> list[Part]:
    if not found.clusters:
        return []
    where = {name: i for i, name in enumerate(found.correlated)}
    rows = []
    for cluster in found.clusters:
        members = [where[name] for name in cluster.features]
        least = np.abs(found.correlation[np.ix_(members, members)]).min()
        rows.append([Cell(", ".join(cluster.features), _names(cluster.features)), least, *_numbers(cluster)])
    columns = [
        Column("features", "features"),
        Column("correlation", "correlation", "number", ".2f", "least rank correlation of two of them, either sign"),
        *_EFFECT,
    ]  # fmt: skip
    table = Table("alike", columns, rows, caption="Clusters of redundant features")
    drawn = heat_map(found, where)
    few = sum(len(cluster.features) for cluster in found.clusters) <= _FEW
    return [
        tag("h3", "Redundant features"),
        tag("p", f"Within queries their ranks are correlated by {found.redundant:g} or more. The loss is that of all "
            "of a cluster shuffled together; of a cluster it is enough to keep one."),
        *([Beside([table, drawn])] if few else [table, drawn]),
    ]  # fmt: skip


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


_EFFECT = interval_columns("loss", "loss", "+.4f", "when they are shuffled together")


def _numbers(effect: Effect) -> list[Cell]:
    return interval_cells(effect.loss, effect.low, effect.high, look_of(effect.low, effect.high))


def _method(found: Importance) -> Markup:
    of = f"{found.documents:,} documents of {found.queries:,} queries that count"
    if found.documents < found.all_documents:
        of += f", a sample of whole queries out of {found.all_documents:,} documents"
    walked = "" if found.by == "walk" else f" The engine scored the shuffled documents ({found.by})."
    shap = f" SHAP is of {found.shap_documents:,} documents." if found.shap_documents else " There is no SHAP."
    return tag(
        "p", f"Measured on {of}, each query shuffled {count_of(found.repeats, 'time')} by draws of its own. Intervals "
        "are 95%, by bootstrap over queries; they hold what the choice of queries and what the shuffling make "
        "uncertain, and each is of one feature: among 100 features without effect about five miss 0. So features are "
        "called useful or harmful by their p-values (Student's t over queries), which Holm's method adjusts over all "
        "features that were shuffled within queries: the chance of a single false one is below 5%. "
        f"A loss below {found.negligible:g} is taken not to matter.{shap}{walked}",
    )  # fmt: skip


def _clustered(found: Importance) -> int:
    return sum(len(cluster.features) for cluster in found.clusters)


def _names(names: Sequence[str], most: int = 12) -> Markup:
    """The first names, and the others to open."""
    shown = [part for name in names[:most] for part in (", ", bdi(name))]
    return join(*shown[1:], f" and {len(names) - most:,} more" if len(names) > most else None)


SPEC = Section(
    "importance", "Feature importance",
    lambda c: importance(
        c.model, c.data, metric=c.metric, conventions=c.conventions, groups=c.groups,
        documents=c.documents, seed=c.seed, threads=c.threads, progress=c.progress,
    ),
    draw, lambda found: {"importance": found.to_frame()}, _brief, place=20, short="Features",
)  # fmt: skip
