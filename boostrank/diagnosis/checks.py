"""Checks on data sets and on pairs of data sets, and the table that says which of them run."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from boostrank.core.conventions import MAX_EXPONENTIAL_LABEL, gains_from_labels, label_map_from_zero
from boostrank.core.errors import RowError
from boostrank.core.text import count_of
from boostrank.core.types import Int64Array
from boostrank.diagnosis.profile import Profile, UInt64Array, mixed
from boostrank.diagnosis.rules import (
    ERROR,
    NOTE,
    WARNING,
    Finding,
    Findings,
    find,
    percent,
    share_of,
)
from boostrank.files import blocks as slots
from boostrank.files.tables import text_words

MOST_LEFT_OUT = 0.2  # share of the rows: leaving out more is not a remedy
USUAL_TOP = 5.0  # the largest grade of the public collections is 4
MANY_GRADES = 32
MANY = 0.2  # share of the queries from which a note becomes a warning
MANY_ALIKE = 0.05  # share of the documents
# A useless feature sorts n documents by label with a probability of at most 1/n. It counts as a
# copy if the probability over all queries is below e^-EVIDENCE.
EVIDENCE = 30.0
SHARE = 0.02  # share of queries that a copy of the label may order wrongly
LISTED_ROWS = 5  # refused rows listed individually
HALF = 0.5  # share of a query's documents that identifies it with a query of the other set
_USUAL = 0.5  # share of rows with a feature above which its absence in the other set is suspicious
_LISTED = 12

# Text ---------------------------------------------------------------------------------------------


def broken_files(p: Profile) -> Iterator[Finding]:
    """Find files that cannot be read to the end, have no rows, or contradict their side files."""
    cost = f"train refuses it; this report covers the {p.n_rows:,} rows before it"
    for error in p.broken:
        yield find(
            "unreadable-file", (error.file, error.line, error.column), 1, error.reason, cost=cost
        )


def refused_rows(p: Profile) -> Iterator[Finding]:
    """Find unreadable rows. Each cause gives one finding, with the reader's message."""
    count = int(p.counts[slots.BAD_ROWS])
    total = count + p.n_rows
    changes = {}
    if p.reading.skip and count <= p.reading.max_bad_share * total:
        changes = {"severity": WARNING, "cost": "train skips these rows"}
    # The first finding has the remedy for all rows.
    reasons = [error.reason for error in p.causes.values()]
    command = re.search("`([^`]+)`", " ".join(reasons))
    fix = command[1] if command else "mend the rows"
    remedies = [re.findall(r"--inf missing|--missing-token \S+", reason) for reason in reasons]
    options = ""
    if not changes:
        options = " ".join(dict.fromkeys(itertools.chain.from_iterable(remedies)))
        if not all(remedies) and count <= MOST_LEFT_OUT * total:
            share = math.ceil(1000 * count / total) / 1000
            options = f"{options} --on-bad-line skip --max-bad-share {share:g}".lstrip()
            fix += ", or leave them out"
        fix += f": {options}" * bool(options)
    changes_of_all = {"fix": fix, "options": options}
    reason = f" ({count:,} of {total:,} rows cannot be read)"
    for error in list(p.causes.values())[:LISTED_ROWS]:
        position = error.file, error.line, error.column
        yield find(
            "unreadable-row", position, count, error.reason + reason, **changes, **changes_of_all
        )
        count = 1
        reason = ""
        changes_of_all = {}


def text_columns(p: Profile) -> Iterator[Finding]:
    """Find text columns among a table's features."""
    if p.text:
        message, options = text_words(p.text, p.reading)
        yield find("text-columns", p.where(), len(p.text), message, fix=options, options=options)


def truncated_text(p: Profile) -> Iterator[Finding]:
    """Find files whose last line has no newline."""
    for name in p.unterminated:
        yield find("no-final-newline", (name, 0, 0), 1, "the last line has no newline")


# Queries ------------------------------------------------------------------------------------------


def split_queries(p: Profile) -> Iterator[Finding]:
    """Find query ids that reappear after another query, or in the next file."""
    _, first_of_query, query = np.unique(p.ids, return_index=True, return_inverse=True)
    first_piece = first_of_query[query]
    again = np.flatnonzero(first_piece != np.arange(first_piece.size))
    if not again.size or p.grouped_by_file or p.reading.regroup:
        return
    piece = again[0]
    queries = np.unique(first_piece[again]).size
    first = first_piece[piece]
    first_place, changes = p.at(p.line[first]), {}
    if first == piece - 1:
        message = f"qid {p.qid(piece)} continues from the previous file ({first_place})"
    else:
        split_count = f"{count_of(queries, 'query is', 'queries are')} in pieces"
        message = (
            f"qid {p.qid(piece)} reappears after another query; it was first seen on {first_place};"
            f" {split_count}"
        )
        if p.parts[0].path:
            files = shlex.join(part.name for part in p.parts[:3]) + " ..." * (len(p.parts) > 3)
            qid = f" --qid {shlex.quote(p.reading.qid)}" if p.reading.qid else ""
            changes = {"fix": f"boostrank data sort {files} -o SORTED{qid}, or --regroup"}
    yield find("split-queries", p.where(p.line[piece]), queries, message, **changes)


def dead_queries(p: Profile) -> Iterator[Finding]:
    """Find queries with a single label. Queries with only one document are counted separately."""
    several = p.sizes > 1
    # Report only this if no query has two labels, since no other finding matters then.
    if p.n_queries and not np.any(p.low < p.high):
        message = "every query has one document"
        if several.any():
            message = "all documents of each query have the same label"
        changes = {"severity": ERROR, "cost": "objectives refuse it"} if p.role == "train" else {}
        yield find("nothing-to-learn", p.where(), p.n_queries, message, **changes)
        return
    # Count apart the queries whose one label tells nothing, and those of one document.
    for check, queries, message in (
        ("dead-queries", several & (p.low == p.high), "have documents with only one label"),
        ("single-document-queries", ~several, "have one document"),
    ):
        severity = WARNING if queries.sum() > MANY * p.n_queries else NOTE
        yield from _find_queries(p, check, np.flatnonzero(queries), message, severity=severity)


def _find_queries(
    p: Profile, check: str, queries: Int64Array, message: str, **changes: object
) -> Iterator[Finding]:
    """Yield a finding about these queries if there are any."""
    if queries.size:
        first = p.qid(queries[0])
        message = (
            f"{share_of(queries.size, p.n_queries, 'queries')} {message}; the first is qid {first}"
        )
        yield find(check, p.where(p.line[queries[0]]), queries.size, message, **changes)


# Labels -------------------------------------------------------------------------------------------


def labels_without_gain(p: Profile) -> Iterator[Finding]:
    """Find labels outside the domain of the gain."""
    negative = p.labels < 0
    for rows in (np.flatnonzero(negative | negative.any()), np.flatnonzero(~negative)):
        try:
            gains_from_labels(p.labels[rows], p.gain)
        except RowError as error:
            label = p.labels[rows[error.row]]
            if label < 0:
                same = np.flatnonzero(negative)
                pairs = label_map_from_zero(p.labels)
                options = f"--label-map={pairs}" if pairs else ""
            else:
                same = np.flatnonzero(p.labels == label)
                options = "--gain linear"
            reason, _, merges = error.reason.partition("; label_map=")
            message = f"{reason}; {share_of(same.size, p.n_rows, 'documents')}"
            fix = options + merges.partition(" where files are read")[2]
            position = p.where(p.lines[same].min())
            yield find("refused-labels", position, same.size, message, fix=fix, options=options)


def odd_labels(p: Profile) -> Iterator[Finding]:
    """Find labels whose exponential gain dominates all others, and data without an irrelevant
    document."""
    grades = np.unique(p.labels)
    broken = np.flatnonzero(p.labels != np.floor(p.labels))
    low = grades[0]
    top = grades[-1]
    if p.gain == "exponential" and broken.size:
        message = f"label {p.labels[broken[0]]:g} is no whole number"
        yield find("broken-labels", p.where(p.lines[broken].min()), broken.size, message)
    if p.gain == "exponential" and USUAL_TOP < top <= MAX_EXPONENTIAL_LABEL:
        largest = np.flatnonzero(p.labels == top)
        message = (
            f"the largest label is {top:g}: its gain 2^label - 1 is {2.0**top - 1.0:,.0f} times"
            " that of label 1"
        )
        yield find("steep-gains", p.where(p.lines[largest].min()), largest.size, message)
    if low > 0 and np.any(p.low < p.high) and grades.size <= MANY_GRADES:
        message = f"the smallest label is {low:g}: every document counts as relevant"
        fix = f"--label-map={label_map_from_zero(grades)}"
        yield find("no-label-zero", p.where(), p.n_rows, message, fix=fix)


# Documents ----------------------------------------------------------------------------------------


def duplicates(p: Profile) -> Iterator[Finding]:
    """Find documents in the same query that have equal features, and equal or different labels."""
    # Group the equal documents of each query by a hash of their features.
    hashes = _hash_in_query(p, np.arange(p.n_queries))
    _, first_row, group, size = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    # A contradiction has another label than the first document of its group.
    differ = np.bincount(group, p.labels != p.labels[first_row[group]]) > 0
    for check, groups, shared_values in (
        (
            "contradicting-duplicates",
            differ,
            "the features of another document, but a different label",
        ),
        ("duplicates", ~differ, "the features and the label of another document"),
    ):
        rows = np.flatnonzero(((size > 1) & groups)[group])
        if rows.size:
            # Show the first document with its copy.
            first, twin = p.lines[np.flatnonzero(group == group[rows[0]])[:2]].tolist()
            lists = count_of(np.unique(p.query[rows]).size, "query", "queries")
            share = share_of(rows.size, p.n_rows, "documents")
            message = f"{share} in {lists} have {shared_values}: the first is like {p.at(twin)}"
            is_note = check == "duplicates" and rows.size <= MANY_ALIKE * p.n_rows
            severity = NOTE if is_note else WARNING
            yield find(check, p.where(first), rows.size, message, severity=severity)


# Features -----------------------------------------------------------------------------------------


def label_copies(p: Profile) -> Iterator[Finding]:
    """Find features that sort the documents of nearly every query in the first rows exactly by
    label."""
    labels = p.labels[p.rows_of_cells]
    query = p.query[p.rows_of_cells]
    width = p.stored.size
    order = np.lexsort((labels, query))
    _, starts, sizes = np.unique(query[order], return_index=True, return_counts=True)
    low = order[starts]
    high = order[starts + sizes - 1]
    live = labels[low] < labels[high]
    n_live = int(np.count_nonzero(live))
    if n_live < 2 or np.log(sizes[live]).sum() < EVIDENCE + np.log(width):
        return
    # Only a feature that orders the ends of these queries can order all of their documents.
    cells = p.cells[:, :width].astype(np.float64)
    cells.data = np.nan_to_num(cells.data, nan=-1e300)  # missing values are below all numbers
    ends = cells[high[live]] - cells[low[live]]
    n_rising = np.bincount(ends.indices[ends.data > 0], minlength=width)
    n_falling = np.bincount(ends.indices[ends.data < 0], minlength=width)
    cells, max_wrong_queries = cells.tocsc(), SHARE * n_live
    for j in np.flatnonzero(n_live - np.maximum(n_rising, n_falling) <= max_wrong_queries).tolist():
        values = np.sign(n_rising[j] - n_falling[j]) * cells[:, [j]].toarray().ravel()
        order = np.lexsort((values, labels, query))
        lower = order[:-1]
        upper = order[1:]
        wrong = (labels[lower] != labels[upper]) & (values[lower] >= values[upper])
        exact = n_live - np.unique(query[upper][wrong & (query[lower] == query[upper])]).size
        if n_live - exact <= max_wrong_queries:
            direction = "falling" if n_falling[j] > n_rising[j] else "rising"
            name = p.feature(j)
            share = percent(exact, n_live)
            message = (
                f"{name} ranks the documents of {share} of the queries without a mistake"
                f" ({direction} with the label)"
            )
            fix = f"leave {name} out if it is made from the label or from events after the ranking"
            yield find("label-copy", p.where(), exact, message, fix=fix)


def no_features(p: Profile) -> Iterator[Finding]:
    """Find data sets without features."""
    if not p.counts[slots.CELLS]:
        message = "there are no features: no row has a number:value pair"
        yield find("no-features", p.where(), p.n_rows, message)


def missing_features(p: Profile) -> Iterator[Finding]:
    """Find features that are missing in every row."""
    features = p.examined[p.missing[p.examined] == p.n_rows]
    if features.size:
        names = ", ".join(map(p.feature, features[:_LISTED].tolist()))
        count = count_of(features.size, "feature is", "features are")
        message = f"{count} missing in every row: {names}"
        yield find("missing-features", p.where(), features.size, message)


# Between sets -------------------------------------------------------------------------------------


def leaked_queries(first: Profile, second: Profile) -> Iterator[Finding]:
    """Find queries of the second set that also occur in the first set, by id or by content."""
    grouped_by_file = first.grouped_by_file or second.grouped_by_file  # ids only count the queries
    by_id = np.flatnonzero(np.isin(second.ids, first.ids) & (not grouped_by_file))
    origin = _match_documents(first, second)
    # Rows that are equal in query id and features.
    equal = np.isin(_hash_in_query(second, second.ids), _hash_in_query(first, first.ids))
    same = np.bincount(second.query[equal], minlength=second.n_queries)
    leaked = by_id[same[by_id] > HALF * second.sizes[by_id]]
    message = f"are also in {first.role}, with the same id and documents"
    yield from _find_queries(second, "leaked-queries", leaked, message)
    copies = np.setdiff1d(np.flatnonzero(origin >= 0), by_id)
    if copies.size:
        twin = origin[copies[0]]
        twin_place = ":".join(str(part) for part in first.where(first.line[twin]) if part)
        message = (
            f"have documents of a {first.role} query with another id (qid {first.qid(twin)},"
            f" {twin_place})"
        )
        yield from _find_queries(second, "leaked-documents", copies, message)
    message = f"have the id of a {first.role} query, but other documents"
    yield from _find_queries(second, "shared-ids", np.setdiff1d(by_id, leaked), message)


def _match_documents(first: Profile, second: Profile) -> Int64Array:
    """Return the query of the first set, int64[Q], that shares most documents of each query of the
    second set, or -1."""
    # Documents that are in several queries tell nothing.
    hashes, rows, group = np.unique(first.hashes, return_index=True, return_inverse=True)
    shared = group[first.query != first.query[rows[group]]]
    hashes, query = np.delete(hashes, shared), np.delete(first.query[rows], shared)
    # Count the documents that each pair of queries has in common.
    equal = np.isin(second.hashes, hashes)
    twins = query[np.searchsorted(hashes, second.hashes[equal])]
    pairs = np.column_stack([second.query[equal], twins])
    pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    leaked = pairs[(counts >= 2) & (counts > HALF * second.sizes[pairs[:, 0]])]
    origin = np.full(second.n_queries, -1)
    origin[leaked[:, 0]] = leaked[:, 1]
    return origin


def _hash_in_query(p: Profile, ids: Int64Array) -> UInt64Array:
    """Return a hash of each row's features and query, where `ids` contains an integer per query."""
    return p.hashes ^ mixed(ids[p.query].astype(np.uint64))


def numbering(first: Profile, second: Profile) -> Iterator[Finding]:
    """Find pairs of data sets of which one numbers features from 0 and the other from 1."""
    if (
        not (first.n_rows and second.n_rows)
        or first.source.base is not None
        or first.has_zero == second.has_zero
    ):
        return
    # A feature 0 that is new, or one that is gone although it was common.
    top = second.top.top_id
    n_usual = first.stored[0] + first.missing[0]
    if second.has_zero:
        line = next(part.zero_line for part in second.parts if part.zero_line)
        severity = ERROR
        message = f"feature 0 occurs, which {first.role} does not have"
    else:
        line = second.top.top_line
        severity = WARNING
        message = (
            f"no row has feature 0, which {percent(n_usual, first.n_rows)} of the rows of"
            f" {first.role} have"
        )
        if top == first.top.top_id + 1:
            severity = ERROR
            message += f", but there is feature {top}, one past the last of {first.role}"
        elif n_usual <= _USUAL * first.n_rows:
            return
    message += ": does one count from 0 and the other from 1?"
    yield find("numbering", second.where(line), 1, message, severity=severity)


def numbering_of_files(p: Profile) -> Iterator[Finding]:
    """Find data sets in which some files number features from 0 and others from 1."""
    if odd := p.from_one:
        yield find("numbering", p.where(odd[0].top_line), len(odd), p.from_one_words())


# The table of checks ------------------------------------------------------------------------------

Check = Callable[[Profile], Iterator[Finding]]
_OF_TEXT: tuple[Check, ...] = (broken_files, refused_rows, text_columns, truncated_text)
_OF_ROWS: tuple[Check, ...] = (
    split_queries,
    no_features,
    dead_queries,
    labels_without_gain,
    odd_labels,
    duplicates,
    numbering_of_files,
)
_OF_TRAINING_DATA: tuple[Check, ...] = (
    label_copies,
    missing_features,
)  # later sets would repeat them
_HIDES: dict[str, tuple[Check, ...]] = {
    "split-queries": (dead_queries, duplicates, label_copies),
    "refused-labels": (odd_labels,),
    "no-features": (duplicates, *_OF_TRAINING_DATA),
}
"""Mapping from an error to the checks that would only find its consequences."""


def examine(sets: Sequence[Profile]) -> Findings:
    """Run all checks on the data sets, of which the first is the training data, and sort the
    findings by severity."""
    findings = [finding for profile in sets for finding in _examine_set(profile)]
    for first, second in itertools.combinations(sets, 2):
        if first.role != second.role:
            findings += leaked_queries(first, second)
            if first.role == "train":
                findings += numbering(first, second)
    return Findings(findings)


def _examine_set(profile: Profile) -> list[Finding]:
    """Return the findings about one data set, leaving out consequences of other findings."""
    findings = [finding for check in _OF_TEXT for finding in check(profile)]
    hidden: list[Check] = []
    # Without rows, or with few readable ones, the rest represents too little.
    if profile.n_rows < max(1, profile.counts[slots.BAD_ROWS]):
        return findings
    for check in _OF_ROWS + (_OF_TRAINING_DATA if profile.role == "train" else ()):
        for finding in check(profile) if check not in hidden else ():
            findings.append(finding)
            if finding.severity is ERROR:
                hidden += _HIDES.get(finding.check, ())
    return findings
