"""Checks of pairs of data sets, and of the files of one set: shared queries and mismatched features."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from boostrank.core.types import Int64Array
from boostrank.data.doctor import checks, column_stats
from boostrank.data.doctor.checks import listed, ranges
from boostrank.data.doctor.finding import Finding, Severity, percent, plural
from boostrank.data.doctor.profile import Profile

HALF = 0.5  # share of its documents that identifies a query with one of the other set
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ENOUGH_ROWS = 200  # rows among which a feature present in 10% of rows almost surely occurs
_OFTEN = 0.1
_USUAL = 0.5  # share of rows with a feature above which its absence in the other set is suspicious


def leaked_queries(one: Profile, other: Profile) -> Iterator[Finding]:
    """Queries of the second set that occur in the first, by id or by content."""
    grouped_by_file = one.grouped_by_file or other.grouped_by_file  # ids only count the queries
    by_id = np.flatnonzero(np.isin(other.ids, one.ids) & (not grouped_by_file))
    by_content, origin = _with_documents_of(one, other)
    # Hash of query id and features, per row.
    theirs, ours = (each.hashes ^ (each.ids[_query_of_rows(each)].astype(np.uint64) * _ODD) for each in (other, one))
    same = np.bincount(_query_of_rows(other)[np.isin(theirs, ours)], minlength=other.n_queries)
    both = by_id[same[by_id] > HALF * other.sizes[by_id]]
    new = np.setdiff1d(by_content, by_id)
    cost = f"{other.role} does not measure performance on unseen queries: metrics are too high"
    sets = f"{one.role} and {other.role}"
    fix = f"remove them from one of the sets; boostrank data split makes {sets} from one file by query id"
    if both.size:
        q = int(both[0])
        yield other.finding(
            "leaked-queries",
            Severity.WARNING,
            int(other.line[q]),
            both.size,
            f"{other.of_queries(both.size)} are also in {one.role}, with the same id and documents; the first "
            f"is qid {other.qid(q)}",
            cost,
            fix,
        )
    if new.size:
        q = int(new[0])
        twin = origin[q]
        yield other.finding(
            "leaked-documents",
            Severity.WARNING,
            int(other.line[q]),
            new.size,
            f"{other.of_queries(new.size)} have documents of a {one.role} query with another id: qid {other.qid(q)} "
            f"those of qid {one.qid(twin)}, {':'.join(map(str, one.place(int(one.line[twin]))))}",
            cost,
            fix,
        )
    only_id = np.setdiff1d(by_id, both)
    if only_id.size:
        q = int(only_id[0])
        yield other.finding(
            "shared-ids",
            Severity.WARNING,
            int(other.line[q]),
            only_id.size,
            f"{other.of_queries(only_id.size)} have the id of a {one.role} query, but other documents: qid "
            f"{other.qid(q)}",
            "if it is the same query, it leaks; train warns about it, and refuses it with --strict",
            "nothing if ids restart in each file; otherwise boostrank data split, which keeps queries whole",
        )


def _with_documents_of(one: Profile, other: Profile) -> tuple[Int64Array, Int64Array]:
    """Return (queries of the second set with most of their documents in one query of the first, that query)."""
    origin = np.full(other.n_queries, -1, np.int64)
    query = _query_of_rows(one)
    order = np.lexsort((query, one.hashes))
    hashes, owner = one.hashes[order], query[order]
    if not hashes.size:
        return np.zeros(0, np.int64), origin
    hashes, starts, counts = np.unique(hashes, return_index=True, return_counts=True)
    telling, owner = owner[starts] == owner[starts + counts - 1], owner[starts]
    at = np.minimum(np.searchsorted(hashes, other.hashes), hashes.size - 1)
    hit = np.flatnonzero((hashes[at] == other.hashes) & telling[at])
    pairs, counts = np.unique(np.column_stack([_query_of_rows(other)[hit], owner[at[hit]]]), axis=0, return_counts=True)
    leaked = (counts >= 2) & (counts > HALF * other.sizes[pairs[:, 0]])
    origin[pairs[leaked, 0]] = pairs[leaked, 1]
    return np.flatnonzero(origin >= 0), origin


def _query_of_rows(profile: Profile) -> Int64Array:
    return np.repeat(np.arange(profile.sizes.size), profile.sizes)


def numbering(one: Profile, other: Profile) -> Iterator[Finding]:
    """Feature numbers from 0 in one set and from 1 in the other."""
    if not (one.n_rows and other.n_rows) or one.set_base is not None:
        return
    fix = "write both alike; if both count from 0: --zero-based true"
    if other.has_zero and not one.has_zero:
        line = next(part.zero_line for part in other.parts if part.zero_line)
        yield other.finding(
            "numbering",
            Severity.ERROR,
            line,
            1,
            f"feature 0 occurs, which {one.role} does not have",
            "one counts from 0 and the other from 1, so every feature is shifted by one; train refuses it",
            fix,
        )
    elif one.has_zero and not other.has_zero:
        beyond = other.top.top_id == one.top.top_id + 1
        usual = one.columns[0, column_stats.STORED] + one.columns[0, column_stats.MISSING]
        if beyond or usual > _USUAL * one.n_rows:
            message = f"no row has feature 0, which {percent(int(usual), one.n_rows)} of the rows of {one.role} have"
            if beyond:
                message += f", but there is feature {other.top.top_id}, one past its last"
            yield other.finding(
                "numbering",
                Severity.ERROR if beyond else Severity.WARNING,
                other.top.top_line,
                1,
                f"{message}: does the file count from 1?",
                "every feature is shifted by one" + ("; train refuses it" if beyond else ""),
                fix,
            )


def numbering_of_files(profile: Profile) -> Iterator[Finding]:
    """Feature numbers from 0 in some files of a set and from 1 in others."""
    if profile.set_base is not None or not profile.has_zero:
        return
    top = max(part.top_id for part in profile.parts if part.zero_line)
    odd = [part for part in profile.parts if not part.zero_line and part.top_id == top + 1]
    if odd:
        yield profile.finding(
            "numbering",
            Severity.WARNING,
            odd[0].top_line,
            len(odd),
            f"no row of {plural(len(odd), 'file', 'files')} has feature 0, which other files have, but there is "
            f"feature {top + 1}, one past their last: do some count from 1?",
            "every feature of these files is shifted by one",
            "use the same numbering in all files",
        )


def widths(one: Profile, other: Profile) -> Iterator[Finding]:
    """Features in only one of the sets."""
    if not (one.n_rows and other.n_rows) or one.has_zero != other.has_zero:
        return
    ours, theirs = one.top, other.top
    if theirs.top_id > ours.top_id:
        yield other.finding(
            "widths",
            Severity.WARNING,
            theirs.top_line,
            theirs.top_id - ours.top_id,
            f"features up to {theirs.top_id} occur, in {one.role} up to {ours.top_id}",
            "further features are ignored, because the trees do not use them",
            "are the sets from one extraction?",
        )
    elif theirs.top_id < ours.top_id:
        yield other.finding(
            "widths",
            Severity.NOTE,
            0,
            ours.top_id - theirs.top_id,
            f"features occur up to {theirs.top_id}, in {one.role} up to {ours.top_id}",
            "features that are not in the file count as 0",
            "",
        )


def lost_features(one: Profile, other: Profile) -> Iterator[Finding]:
    """Features that vary in the first set, but not in the second."""
    if min(one.n_rows, other.n_rows) < _ENOUGH_ROWS or one.base != other.base:
        return
    width = min(len(one.columns), len(other.columns))
    low, high = ranges(other)
    counts, there = one.columns[:width], other.columns[:width]
    varied = (counts[:, column_stats.VARIES] > 0) & (counts[:, column_stats.STORED] > _OFTEN * one.n_rows)
    lost = varied & ((low == high)[:width] | (there[:, column_stats.MISSING] == other.n_rows))
    if lost.any():
        yield other.finding(
            "lost-features",
            Severity.WARNING,
            0,
            int(lost.sum()),
            f"{listed(one, np.flatnonzero(lost))} the same, or missing, in every row of {other.role}, and not in "
            f"{one.role}",
            "splits on them are useless here",
            "was a join lost?",
        )


def other_labels(one: Profile, other: Profile) -> Iterator[Finding]:
    """Labels larger than in training."""
    if one.n_rows and other.n_rows and other.high_label > one.high_label:
        yield other.finding(
            "other-labels",
            Severity.NOTE,
            other.largest.line,
            other.largest.count,
            f"label {other.high_label:g} occurs; the largest in {one.role} is {one.high_label:g}",
            "the model has not seen documents with the best labels",
            "do both sets have the same scale of labels?",
        )


OF_ROWS = (*checks.OF_ROWS, numbering_of_files)
"""Checks of one data set."""

BETWEEN_SETS: tuple[Callable[[Profile, Profile], Iterator[Finding]], ...] = (leaked_queries,)
"""Checks of pairs with different roles: training and validation, training and test, validation and test."""

AGAINST_TRAINING: tuple[Callable[[Profile, Profile], Iterator[Finding]], ...] = (
    numbering,
    widths,
    lost_features,
    other_labels,
)
"""Checks of the training data and a later set."""
