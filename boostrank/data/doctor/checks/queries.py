"""Checks of the queries: how rows make them, and what they can teach."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from boostrank.data.doctor.finding import Finding, Severity, percent, plural
from boostrank.data.doctor.profile import Profile

MANY_DEAD = 0.2  # of the queries: more than this is a matter of quality
LONG_LIST = 10_000  # LightGBM takes no longer ones
HEAVY = 0.25  # of the documents in a hundredth of the queries
_ENOUGH = 20  # queries, before an order of their rows means something


def split_queries(profile: Profile) -> Iterator[Finding]:
    """A query id that comes back after another query, or in the next file."""
    if profile.grouped_by_file:
        return
    order = np.argsort(profile.ids, kind="stable")
    again = np.sort(order[1:][profile.ids[order[1:]] == profile.ids[order[:-1]]])
    if not again.size:
        return
    i = int(again[0])
    first = int(np.flatnonzero(profile.ids == profile.ids[i])[0])
    queries = np.unique(profile.ids[again]).size
    message = (
        f"qid {profile.qid(i)} comes back after another query; it was first seen on "
        f"{profile.at(int(profile.line[first]))}; {plural(queries, 'query', 'queries')} in pieces"
    )
    files = " ".join(part.name for part in profile.parts[:3]) + (" ..." if len(profile.parts) > 3 else "")
    severity, cost = Severity.ERROR, "train refuses it: the pieces would be ranked as queries of their own"
    sort = f"boostrank data sort {files} -o SORTED" if profile.space is None else profile.sorted_by
    fix = f"{sort}, or --regroup"
    if first == i - 1:
        message = f"qid {profile.qid(i)} goes on from the file before ({profile.at(int(profile.line[first]))})"
        fix = "--regroup joins the rows; if ids restart in each file: boostrank data merge --rename"
    if profile.reading.regroup:
        severity, cost = Severity.NOTE, "nothing: --regroup brings the rows together; below, each piece counts alone"
    yield profile.finding("split-queries", severity, int(profile.line[i]), queries, message, cost, fix)


def unsorted_ids(profile: Profile) -> Iterator[Finding]:
    """Whole-number ids that do not ascend."""
    if profile.names or profile.grouped_by_file or np.unique(profile.ids).size < profile.ids.size:
        return
    falls = np.flatnonzero(np.diff(profile.ids) < 0)
    if falls.size:
        yield profile.finding(
            "unsorted-ids", Severity.NOTE, int(profile.line[falls[0] + 1]), falls.size,
            f"query ids do not ascend: {profile.qid(int(falls[0]) + 1)} follows {profile.qid(int(falls[0]))}",
            "nothing here; XGBoost's own functions refuse such ids", "",
        )  # fmt: skip


def dead_queries(profile: Profile) -> Iterator[Finding]:
    """Queries whose documents all have one label; those of one document are counted apart."""
    several = profile.sizes > 1
    training = profile.role == "train"
    dead = np.flatnonzero(several & (profile.low == profile.high))
    if profile.n_queries and not profile.live:
        what = "in every query all documents have the same label" if several.any() else "every query has one document"
        severity, cost = Severity.WARNING, "no metric can be measured"
        if training:
            severity = Severity.ERROR
            cost = "there is nothing to learn: objectives refuse it (those that begin as regression learn a constant)"
        yield profile.finding(
            "nothing-to-learn", severity, 0, profile.n_queries, what, cost,
            "is the first number of each row the label, and qid the query?")  # fmt: skip
        return
    if dead.size:
        zero = int(np.count_nonzero(profile.high[dead] == 0))
        severity = Severity.WARNING if dead.size > MANY_DEAD * profile.n_queries else Severity.NOTE
        rows = int(profile.sizes[dead].sum())
        cost = "they teach nothing" if training else "they tell no model from another"
        cost += f" ({percent(rows, profile.n_rows)} of the documents)"
        if zero:
            cost += f"; metrics leave out those without a relevant document, {zero:,}"
        yield profile.finding(
            "dead-queries", severity, int(profile.line[dead[0]]), dead.size,
            f"{profile.of_queries(dead.size)} have documents with one label only", cost,
            "judge more documents of these queries",
        )  # fmt: skip
    single = np.flatnonzero(~several)
    if single.size:
        severity = Severity.WARNING if single.size > MANY_DEAD * profile.n_queries else Severity.NOTE
        yield profile.finding(
            "single-document-queries", severity, int(profile.line[single[0]]), single.size,
            f"{profile.of_queries(single.size)} have one document",
            "there is nothing to rank: they teach nothing, and raise NDCG alike for all models",
            "if queries should be longer: is qid the id of the query, and not of the row?",
        )  # fmt: skip


def long_lists(profile: Profile) -> Iterator[Finding]:
    """Queries that the engines' own objectives refuse."""
    long = np.flatnonzero(profile.sizes > LONG_LIST)
    if long.size:
        q = int(np.argmax(profile.sizes))
        yield profile.finding(
            "long-queries", Severity.NOTE, int(profile.line[long[0]]), long.size,
            f"{plural(long.size, 'query', 'queries')} of more than {LONG_LIST:,} documents; qid {profile.qid(q)} has "
            f"{int(profile.sizes[q]):,}",
            "nothing here; LightGBM's own objectives and its ndcg metric refuse them",
            "is the qid right? Otherwise keep to boostrank's objectives and metrics",
        )  # fmt: skip


def uneven_lists(profile: Profile) -> Iterator[Finding]:
    """A few queries hold many of the documents."""
    few = profile.n_queries // 100
    share = float(np.sort(profile.sizes)[profile.n_queries - few :].sum()) / max(profile.n_rows, 1)
    if few and share > HEAVY:
        q = int(np.argmax(profile.sizes))
        yield profile.finding(
            "uneven-queries", Severity.NOTE, int(profile.line[q]), few,
            f"the longest 1% of the queries hold {percent(share, 1)} of the documents; qid {profile.qid(q)} has "
            f"{int(profile.sizes[q]):,}, the median query {int(np.median(profile.sizes)):,}",
            "objectives that add up over documents or pairs (regression, ranknet, lambdarank) listen to these queries "
            "most",
            "--set normalize_query=l1 gives every query the same say",
        )  # fmt: skip


def rows_by_label(profile: Profile) -> Iterator[Finding]:
    """Documents that stand in the order of their labels in (nearly) every query."""
    live = profile.low < profile.high
    sorted_ = np.flatnonzero(live & profile.falling)
    total = int(np.count_nonzero(live))
    if total >= _ENOUGH and sorted_.size > 0.9 * total:
        yield profile.finding(
            "rows-by-label", Severity.NOTE, int(profile.line[sorted_[0]]), sorted_.size,
            f"in {percent(sorted_.size, total)} of the queries documents stand in order of falling labels",
            "LightGBM's and XGBoost's own metrics break ties by the order of rows: a model that scores all documents "
            "alike gets an NDCG of 1 there; boostrank's do not",
            "shuffle the rows within queries before you compare with other tools",
        )  # fmt: skip


def repeated_queries(profile: Profile) -> Iterator[Finding]:
    """Queries with the documents of another query, all of them."""
    if profile.n_queries < 2:
        return
    starts = np.concatenate([[0], np.cumsum(profile.sizes)[:-1]])
    # A sum does not depend on the order of the documents.
    content = np.add.reduceat(profile.hashes, starts)
    big = np.flatnonzero(profile.sizes > 1)
    order = big[np.lexsort((big, content[big]))]
    again = np.sort(order[1:][content[order[1:]] == content[order[:-1]]])
    if again.size:
        i = int(again[0])
        first = int(big[np.flatnonzero(content[big] == content[i])[0]])
        yield profile.finding(
            "repeated-queries", Severity.NOTE, int(profile.line[i]), again.size,
            f"{profile.of_queries(again.size)} hold the documents of an earlier one: qid {profile.qid(i)} those of qid "
            f"{profile.qid(first)}, {profile.at(int(profile.line[first]))}",
            "they count twice; split at random, one copy leaks into the other set", "keep one of each",
        )  # fmt: skip
