"""Checks on data sets and on pairs of data sets."""

from __future__ import annotations

import enum
import itertools
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from boostrank.core.conventions import MAX_EXPONENTIAL_LABEL, gains_from_labels, label_map_from_zero
from boostrank.core.errors import RowError
from boostrank.core.text import count_of, small_table
from boostrank.core.types import Int64Array
from boostrank.data.categories import EXACT
from boostrank.diagnosis.profile import Profile, UInt64Array, mixed
from boostrank.files import blocks as slots


class Severity(enum.Enum):
    """The severity of a finding."""

    ERROR = "error"  # `boostrank train` refuses the data
    WARNING = "warning"  # it costs quality, or makes metrics look better than they are
    NOTE = "note"  # worth knowing


@dataclass(frozen=True)
class Finding:
    """One problem in the data.

    Args:
        check: name of the check, which is stable between versions.
        file: first file with the problem; "" if the problem has no location.
        line, column: line and byte, both starting at 1; 0 means the whole file or line.
        count: number of affected rows, queries or features.
        message, cost: the observation, and its consequence.
        fix: command, option or question that leads to a remedy; "" if none is needed.
        options: options of `train` that accept the data; "" if there are none.
    """

    check: str
    severity: Severity
    file: str
    line: int
    column: int
    count: int
    message: str
    cost: str
    fix: str = ""
    options: str = ""

    @property
    def where(self) -> str:
        """Location as `file:line:column`, with the parts that are available."""
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self) | {"severity": self.severity.value}


class Findings(list[Finding]):
    """A list of findings, with the most severe first, which notebooks display as a table."""

    def __init__(self, found: Iterable[Finding] = ()) -> None:
        super().__init__(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))

    def _repr_html_(self) -> str:
        rows = [(f.severity.value, f.where, f.message, f.cost, f.fix) for f in self]
        columns = ("severity", "where", "what", "cost", "fix")
        return small_table(f"{len(self):,} findings" if self else "nothing found", rows, columns if self else ())


def percent(count: float, total: float) -> str:
    """Format a share as in `4.0%`, without rounding it to 0% or 100%."""
    share = 100.0 * count / max(total, 1)
    if 0 < share < 0.05:
        return "under 0.1%"
    if 99.5 <= share < 100:
        return f"{share:.1f}%" if share < 99.95 else "over 99.9%"
    return f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def share_of(count: int, total: int, noun: str) -> str:
    """Format a count and its share, as in `12 of 300 queries (4.0%)`."""
    return f"{count:,} of {total:,} {noun} ({percent(count, total)})"


ERROR, WARNING, NOTE = Severity

MOST_LEFT_OUT = 0.2  # share of the rows: leaving out more is not a remedy
MANY_DEAD = 0.2  # share of the queries that affects quality
USUAL_TOP = 5.0  # the largest grade of the public collections is 4
MANY_GRADES = 32
MANY_ALIKE = 0.05  # share of the documents
# A useless feature sorts n documents by label with a probability of at most 1/n. It counts as a copy if the
# probability over all queries is below e^-EVIDENCE.
EVIDENCE = 30.0
SHARE = 0.02  # share of queries that a copy of the label may order wrongly
SHOWN_ROWS = 5  # refused rows listed individually
HALF = 0.5  # share of a query's documents that identifies it with a query of the other set
_USUAL = 0.5  # share of rows with a feature above which its absence in the other set is suspicious
_SHOWN = 12
_ENOUGH_ROWS = 200  # rows among which a feature present in 10% of rows almost surely occurs
_OFTEN = 0.1
_LOST = "did a join fail?"
_SHIFTED = "every feature is shifted by one"
_NUMBER_ALIKE = "use the same numbering in all files; if they count from 0: --zero-based true"
_REFUSED = "train refuses the file; for the rest of this report they are "
# Text -----------------------------------------------------------------------------------------------------------------


def broken_files(p: Profile) -> Iterator[Finding]:
    """Find files that cannot be read to the end, have no rows, or contradict their side files."""
    for error in p.broken:
        cost = f"train refuses it; this report covers the {p.n_rows:,} rows before it"
        yield Finding("unreadable-file", ERROR, error.file, error.line, error.column, 1, error.reason, cost)


def refused_rows(p: Profile) -> Iterator[Finding]:
    """Find unreadable rows. Each cause gives one finding, with the reader's message."""
    count = int(p.counts[slots.BAD_ROWS])
    total = count + p.n_rows
    allowed = p.reading.skip and count + p.stand_in_rows <= p.reading.max_bad_share * total
    cost = "train skips these rows" if allowed else "train refuses the file"
    command = re.search("`([^`]+)`", " ".join(error.reason for error in p.causes.values()))
    options, fix = "", command[1] if command else "mend the rows"
    if count <= MOST_LEFT_OUT * total and not allowed:
        options = f"--on-bad-line skip --max-bad-share {math.ceil(1000 * count / max(total, 1)) / 1000:g}"
        if all("--inf missing" in error.reason for error in p.causes.values()):
            options = "--inf missing"
        fix += f", or leave them out: {options}" if "skip" in options else f": {options}"
    more = f" ({count:,} of {total:,} rows cannot be read)"
    for error in list(p.causes.values())[:SHOWN_ROWS]:
        place, severity = (error.file, error.line, error.column), WARNING if allowed else ERROR
        yield Finding("unreadable-row", severity, *place, count, error.reason + more, cost, fix, options)
        count, more, fix, options = 1, "", "mend the rows", ""


def refused_words(p: Profile) -> Iterator[Finding]:
    """Find text columns among a table's features, and words that seem to mark missing values."""
    if p.text:
        why, options = p.text_words
        cost = _REFUSED + "read as categories"
        yield Finding("text-columns", ERROR, *p.where(), len(p.text), why, cost, options, options)
    for word, (at, column) in list(p.stand_ins.items())[:SHOWN_ROWS]:
        rows = count_of(p.stand_in_rows, "row contains", "rows contain")
        message = f"'{word}' seems to mark a missing value, and {rows} such words"
        fix, cost = f"--missing-token {shlex.quote(word)}", _REFUSED + "taken as missing"
        place = (*p.where(at)[:2], column)
        yield Finding("missing-token", ERROR, *place, p.stand_in_rows, message, cost, fix, fix)


def truncated_text(p: Profile) -> Iterator[Finding]:
    """Find files whose last line has no newline."""
    for name in p.unterminated:
        message, cost = "the last line has no newline", "the file may have been cut off while it was written"
        fix = "compare its size with the original; if it is whole, add a newline"
        yield Finding("no-final-newline", WARNING, name, 0, 0, 1, message, cost, fix)


# Queries --------------------------------------------------------------------------------------------------------------


def split_queries(p: Profile) -> Iterator[Finding]:
    """Find query ids that reappear after another query, or in the next file."""
    order = np.argsort(p.ids, kind="stable")
    again = np.sort(order[1:][p.ids[order[1:]] == p.ids[order[:-1]]])
    if not again.size or p.grouped_by_file or p.reading.regroup:
        return
    i, queries = int(again[0]), np.unique(p.ids[again]).size
    first = int(np.flatnonzero(p.ids == p.ids[i])[0])
    seen = p.at(int(p.line[first]))
    pieces = f"{count_of(queries, 'query is', 'queries are')} in pieces"
    message = f"qid {p.qid(i)} reappears after another query; it was first seen on {seen}; {pieces}"
    files = " ".join(part.name for part in p.parts[:3]) + (" ..." if len(p.parts) > 3 else "")
    qid = f" --qid {shlex.quote(p.reading.qid)}" if p.reading.qid else ""
    fix = f"boostrank data sort {files} -o SORTED{qid}, or --regroup"
    if first == i - 1:
        message = f"qid {p.qid(i)} continues from the previous file ({seen})"
        fix = "--regroup joins the rows; if ids restart in each file: boostrank data merge --rename"
    cost = "train refuses it: each piece would be ranked as a separate query"
    yield Finding("split-queries", ERROR, *p.where(p.line[i]), queries, message, cost, fix, "--regroup")


def dead_queries(p: Profile) -> Iterator[Finding]:
    """Find queries with a single label. Queries with only one document are counted separately."""
    several, training = p.sizes > 1, p.role == "train"
    if p.n_queries and not np.any(p.low < p.high):
        what = "all documents of each query have the same label" if several.any() else "every query has one document"
        cost = "no metric can be measured"
        if training:
            cost = "there is nothing to learn: objectives refuse it (those that start as regression learn a constant)"
        fix = "is the first number of each row the label, and qid the query id?"
        yield Finding("nothing-to-learn", ERROR if training else WARNING, *p.where(), p.n_queries, what, cost, fix)
        return
    dead, single = np.flatnonzero(several & (p.low == p.high)), np.flatnonzero(~several)
    share, zero = percent(int(p.sizes[dead].sum()), p.n_rows), int((p.high[dead] == 0).sum())
    worth = f"they {'do not train the model' if training else 'do not distinguish models'} ({share} of the documents); "
    cost = f"{worth}metrics ignore the {count_of(zero, 'query', 'queries')} without a relevant document"
    fix = "judge more documents of these queries"
    yield from _of_queries(p, "dead-queries", dead, "have documents with only one label", cost, fix)
    cost = "there is nothing to rank: they do not train the model, and raise the NDCG of all models equally"
    fix = "if queries should be longer: is qid the id of the query, or that of the row?"
    yield from _of_queries(p, "single-document-queries", single, "have one document", cost, fix)


def _of_queries(
    p: Profile, check: str, queries: Int64Array, message: str, cost: str, fix: str, most: float = MANY_DEAD
) -> Iterator[Finding]:
    """Yield a finding about these queries if there are any. It is a note if their share is at most `most`."""
    if queries.size:
        severity = WARNING if queries.size > most * p.n_queries else NOTE
        first = p.qid(int(queries[0]))
        message = f"{share_of(queries.size, p.n_queries, 'queries')} {message}; the first is qid {first}"
        yield Finding(check, severity, *p.where(p.line[queries[0]]), queries.size, message, cost, fix)


# Labels ---------------------------------------------------------------------------------------------------------------


def labels_without_gain(p: Profile) -> Iterator[Finding]:
    """Find labels outside the domain of the gain."""
    negative = p.labels < 0
    for rows in (np.flatnonzero(negative | negative.any()), np.flatnonzero(~negative)):
        try:
            gains_from_labels(p.labels[rows], p.gain)
        except RowError as error:
            label = p.labels[rows[error.row]]
            same = np.flatnonzero(negative if label < 0 else p.labels == label)
            pairs = label_map_from_zero(p.labels) if label < 0 else ""
            options = f"--label-map={pairs}" if pairs else "" if label < 0 else "--gain linear"
            reason, _, merges = error.reason.partition("; label_map=")
            why, place = f"{reason}; {share_of(same.size, p.n_rows, 'documents')}", p.where(p.lines[same].min())
            fix = options + merges.partition(" where files are read")[2]
            yield Finding("refused-labels", ERROR, *place, same.size, why, "train refuses them", fix, options)


def odd_labels(p: Profile) -> Iterator[Finding]:
    """Find labels whose exponential gain dominates all others, and data without an irrelevant document."""
    grades, broken = np.unique(p.labels), np.flatnonzero(p.labels != np.floor(p.labels))
    if p.gain == "exponential" and broken.size:
        message = f"label {p.labels[broken[0]]:g} is no whole number"
        cost, fix = "its gain is 2^label - 1", "--gain linear, if labels are gains"
        where = p.where(p.lines[broken].min())
        yield Finding("broken-labels", WARNING, *where, broken.size, message, cost, fix)
    top, low = (float(grade) for grade in grades[[-1, 0]])
    if p.gain == "exponential" and USUAL_TOP < top <= MAX_EXPONENTIAL_LABEL:
        largest = np.flatnonzero(p.labels == top)
        message = f"the largest label is {top:g}: its gain 2^label - 1 is {2.0**top - 1.0:,.0f} times that of label 1"
        cost = "the documents with the largest labels dominate NDCG and the gradient"
        fix, place = "--gain linear, or a table such as --gain 0,1,3,7,15", p.where(p.lines[largest].min())
        yield Finding("steep-gains", WARNING, *place, largest.size, message, cost, fix)
    if low > 0 and np.any(p.low < p.high) and grades.size <= MANY_GRADES:
        message = f"the smallest label is {low:g}: every document counts as relevant"
        cost = "MAP, MRR, recall and precision are meaningless, and the lowest grade has a gain"
        fix = f"--label-map={label_map_from_zero(grades)}"
        yield Finding("no-label-zero", WARNING, *p.where(), p.n_rows, message, cost, fix)


# Documents ------------------------------------------------------------------------------------------------------------


def duplicates(p: Profile) -> Iterator[Finding]:
    """Find documents in the same query that have equal features, and equal or different labels."""
    _, group, size = np.unique(_of_query(p, np.arange(p.n_queries)), return_inverse=True, return_counts=True)
    low, high = np.full(size.size, np.inf), np.full(size.size, -np.inf)
    np.minimum.at(low, group, p.labels)
    np.maximum.at(high, group, p.labels)
    for check, which, what, cost, fix in (
        (
            "contradicting-duplicates",
            low < high,
            "the features of another document, but a different label",
            "no model can put them in order: the best NDCG is below 1",
            "keep one of them if they are the same document; otherwise add a feature that distinguishes them",
        ),
        (
            "duplicates",
            low == high,
            "the features and the label of another document",
            "they get the same score, and take ranks from other documents in the metric",
            "keep one of them",
        ),
    ):
        rows = np.flatnonzero(((size > 1) & which)[group])
        if rows.size:
            first, twin = p.lines[np.flatnonzero(group == group[rows[0]])[:2]].tolist()
            few = check == "duplicates" and rows.size <= MANY_ALIKE * p.n_rows
            lists = count_of(np.unique(p.query[rows]).size, "query", "queries")
            message = f"{share_of(rows.size, p.n_rows, 'documents')} in {lists} have {what}: the first"
            message += f"{p.document(first)} is like {p.at(twin)}{p.document(twin)}"
            yield Finding(check, NOTE if few else WARNING, *p.where(first), rows.size, message, cost, fix)


# Features -------------------------------------------------------------------------------------------------------------


def label_copies(p: Profile) -> Iterator[Finding]:
    """Find features that sort the documents of nearly every query in the first rows exactly by label."""
    labels, query, width = p.labels[p.rows_of_cells], p.query[p.rows_of_cells], p.stored.size
    order = np.lexsort((labels, query))
    _, starts, sizes = np.unique(query[order], return_index=True, return_counts=True)
    low, high = order[starts], order[starts + sizes - 1]
    live = labels[low] < labels[high]
    n_live = int(np.count_nonzero(live))
    if n_live < 2 or np.log(np.maximum(sizes[live], 2)).sum() < EVIDENCE + np.log(width):
        return
    # Only a feature that orders the ends of these queries can order all of their documents.
    cells = p.cells[:, :width].astype(np.float64)
    cells.data = np.nan_to_num(cells.data, nan=-1e300)  # missing values are below all numbers
    ends = cells[high[live]] - cells[low[live]]
    up, down = (np.bincount(ends.indices[some], minlength=width) for some in (ends.data > 0, ends.data < 0))
    cells, most = cells.tocsc(), SHARE * n_live
    for j in np.flatnonzero(n_live - np.maximum(up, down) <= most).tolist():
        values = np.sign(up[j] - down[j]) * cells[:, [j]].toarray().ravel()
        order = np.lexsort((values, labels, query))
        before, after = order[:-1], order[1:]
        wrong = (labels[before] != labels[after]) & (values[before] >= values[after])
        exact = n_live - np.unique(query[after][wrong & (query[before] == query[after])]).size
        if n_live - exact <= most:
            what = f"ranks the documents of {percent(exact, n_live)} of the queries without a mistake "
            what += f"({'falling' if down[j] > up[j] else 'rising'} with the label)"
            same = p.equal[j] == p.stored[j] == np.count_nonzero(p.labels)
            what = "equals the label in every row" if same else what
            name, cost = p.feature(j), "a model will look perfect here and fail where the label is not yet known"
            fix = f"leave {name} out if it is computed from the label or from events after the ranking"
            yield Finding("label-copy", WARNING, *p.where(), exact, f"{name} {what}", cost, fix)


def no_features(p: Profile) -> Iterator[Finding]:
    """Find data sets in which no feature has two different values."""
    what = "no feature varies: each has one value in every row"
    if not p.counts[slots.CELLS]:
        what = "there are no features: no row has a number:value pair"
    elif not p.examined.size or p.top.top_id >= p.stored.size or p.varying.any():
        return
    cost = "train refuses it: nothing distinguishes the documents"
    fix = "join the features to the judgements; a row is LABEL qid:ID 1:VALUE 2:VALUE ..."
    yield Finding("no-features", ERROR, *p.where(), p.n_rows, what, cost, fix)


def constant_features(p: Profile) -> Iterator[Finding]:
    """Find features that are constant or always missing."""
    missing = p.missing[p.examined] == p.n_rows
    never, constant = p.examined[missing], p.examined[~missing & ~p.varying]
    cost = "they take time and cannot improve the model"
    if never.size:
        message = f"{_listed(p, never)} missing in every row"
        yield Finding("missing-features", WARNING, *p.where(), never.size, message, cost, _LOST)
    if constant.size:
        zeros = np.count_nonzero(p.stored[constant] == 0)
        message = f"{_listed(p, constant)} the same in every row ({zeros:,} of them 0 or not in the file)"
        fix = "leave them out if they are constant in all of your data"
        yield Finding("constant-features", NOTE, *p.where(), constant.size, message, cost, fix)


def coarse_values(p: Profile) -> Iterator[Finding]:
    """Find whole numbers that are so large that float32 merges neighbouring numbers."""
    largest = np.maximum(-p.smallest, p.largest)
    coarse = np.flatnonzero(~p.fractional & (largest > EXACT) & (largest < np.inf))
    if coarse.size:
        top = largest[coarse].max()
        message = f"{_listed(p, coarse)} whole and above {EXACT:,}, up to {top:.6g}"
        cost = f"features are float32: near the largest, values less than {np.spacing(top):g} apart are merged"
        fix = "subtract a constant from times and ids; do not use hashes as features"
        yield Finding("coarse-values", NOTE, *p.where(), coarse.size, message, cost, fix)


def _listed(p: Profile, numbers: Int64Array) -> str:
    """Format feature numbers, as in `features 3, 5 and 9 are`, and shorten long lists."""
    shown = [p.feature(number).removeprefix("feature ") for number in numbers[:_SHOWN].tolist()]
    if numbers.size == 1:
        return f"feature {shown[0]} is"
    rest = f" and {numbers.size - _SHOWN:,} more" if numbers.size > _SHOWN else f" and {shown.pop()}"
    return f"features {', '.join(shown)}{rest} are"


# Between sets ---------------------------------------------------------------------------------------------------------


def leaked_queries(one: Profile, other: Profile) -> Iterator[Finding]:
    """Find queries of the second set that also occur in the first set, by id or by content."""
    grouped_by_file = one.grouped_by_file or other.grouped_by_file  # ids only count the queries
    by_id = np.flatnonzero(np.isin(other.ids, one.ids) & (not grouped_by_file))
    by_content, origin = _with_documents_of(one, other)
    # Hash of query id and features, per row.
    theirs, ours = (_of_query(each, each.ids) for each in (other, one))
    same = np.bincount(other.query[np.isin(theirs, ours)], minlength=other.n_queries)
    both = by_id[same[by_id] > HALF * other.sizes[by_id]]
    high = f"{other.role} does not measure performance on unseen queries: metrics are too high"
    split = "remove them from one of the sets; "
    split += f"boostrank data split makes {one.role} and {other.role} from one file by query id"
    message = f"are also in {one.role}, with the same id and documents"
    yield from _of_queries(other, "leaked-queries", both, message, high, split, 0.0)
    copies, message = np.setdiff1d(by_content, by_id), f"have documents of a {one.role} query with another id"
    if copies.size:
        twin = int(origin[copies[0]])
        place = ":".join(str(part) for part in one.where(one.line[twin]) if part)
        message += f" (qid {one.qid(twin)}, {place})"
    yield from _of_queries(other, "leaked-documents", copies, message, high, split, 0.0)
    message = f"have the id of a {one.role} query, but other documents"
    cost = "if it is the same query, it leaks; train warns, or refuses the data with --strict"
    fix = "nothing if ids restart in each file; otherwise use boostrank data split, which keeps queries whole"
    yield from _of_queries(other, "shared-ids", np.setdiff1d(by_id, both), message, cost, fix, 0.0)


def _with_documents_of(one: Profile, other: Profile) -> tuple[Int64Array, Int64Array]:
    """Return the queries of the second set that share most documents with a query of the first set, and that query."""
    origin = np.full(other.n_queries, -1, np.int64)
    query = one.query
    order = np.lexsort((query, one.hashes))
    hashes, of_hash = one.hashes[order], query[order]
    if not hashes.size:
        return np.zeros(0, np.int64), origin
    hashes, starts, counts = np.unique(hashes, return_index=True, return_counts=True)
    telling, of_hash = of_hash[starts] == of_hash[starts + counts - 1], of_hash[starts]
    at = np.minimum(np.searchsorted(hashes, other.hashes), hashes.size - 1)
    hit = np.flatnonzero((hashes[at] == other.hashes) & telling[at])
    pairs, counts = np.unique(np.column_stack([other.query[hit], of_hash[at[hit]]]), axis=0, return_counts=True)
    leaked = (counts >= 2) & (counts > HALF * other.sizes[pairs[:, 0]])
    origin[pairs[leaked, 0]] = pairs[leaked, 1]
    return np.flatnonzero(origin >= 0), origin


def _of_query(p: Profile, ids: Int64Array) -> UInt64Array:
    """Return a hash of each row's features and query, where `ids` contains an integer per query."""
    return p.hashes ^ mixed(ids[p.query].astype(np.uint64))


def numbering(one: Profile, other: Profile) -> Iterator[Finding]:
    """Find pairs of data sets of which one numbers features from 0 and the other from 1."""
    if not (one.n_rows and other.n_rows) or one.source.base is not None or one.has_zero == other.has_zero:
        return
    beyond, usual = other.top.top_id == one.top.top_id + 1, int(one.stored[0] + one.missing[0])
    line, severity = other.top.top_line, ERROR if beyond else WARNING
    what = f"no row has feature 0, which {percent(usual, one.n_rows)} of the rows of {one.role} have"
    what += f", but there is feature {other.top.top_id}, one past the last of {one.role}" * beyond
    if other.has_zero:
        line, severity = next(part.zero_line for part in other.parts if part.zero_line), ERROR
        what = f"feature 0 occurs, which {one.role} does not have"
    elif not beyond and usual <= _USUAL * one.n_rows:
        return
    what += ": does one count from 0 and the other from 1?"
    yield Finding("numbering", severity, *other.where(line), 1, what, _SHIFTED, _NUMBER_ALIKE)


def numbering_of_files(p: Profile) -> Iterator[Finding]:
    """Find data sets in which some files number features from 0 and others from 1."""
    if odd := p.from_one:
        place, what = p.where(odd[0].top_line), p.from_one_words()
        yield Finding("numbering", WARNING, *place, len(odd), what, _SHIFTED, _NUMBER_ALIKE)


def lost_features(one: Profile, other: Profile) -> Iterator[Finding]:
    """Find features that are common and vary in the first set, but do not vary in the second set."""
    if min(one.n_rows, other.n_rows) < _ENOUGH_ROWS or one.base != other.base:
        return
    varying = one.examined[one.varying]
    often = varying[one.stored[varying] > _OFTEN * one.n_rows]
    lost = np.setdiff1d(often, other.examined[other.varying])
    if lost.size:
        what = f"{_listed(other, lost)} constant or missing in {other.role}, but not in {one.role}"
        yield Finding(
            "lost-features", WARNING, *other.where(), lost.size, what, "splits on them are useless here", _LOST
        )


def examine(sets: Sequence[Profile]) -> Findings:
    """Run all checks on the data sets, of which the first is the training data, and sort the findings by severity."""
    found: list[Finding] = []
    for profile in sets:
        found += _of_a_set(profile)
    for one, other in itertools.combinations(sets, 2):
        if one.role != other.role:
            found += leaked_queries(one, other)
            if one.role == "train":
                found += itertools.chain(numbering(one, other), lost_features(one, other))
    return Findings(found)


Check = Callable[[Profile], Iterator[Finding]]
_OF_TEXT: tuple[Check, ...] = (broken_files, refused_rows, refused_words, truncated_text)
_OF_ROWS: tuple[Check, ...] = (
    split_queries,
    no_features,
    dead_queries,
    labels_without_gain,
    odd_labels,
    duplicates,
    numbering_of_files,
)
_OF_TRAINING_DATA: tuple[Check, ...] = (label_copies, constant_features, coarse_values)  # later sets would repeat them
_HIDES: dict[str, tuple[Check, ...]] = {
    "split-queries": (dead_queries, duplicates, label_copies),
    "refused-labels": (odd_labels,),
    "no-features": (duplicates, *_OF_TRAINING_DATA),
}
"""Mapping from an error to the checks that would only find its consequences."""


def _of_a_set(profile: Profile) -> list[Finding]:
    """Return the findings about one data set, leaving out consequences of other findings."""
    found, hidden = [finding for check in _OF_TEXT for finding in check(profile)], set[Check]()
    if profile.n_rows < max(1, int(profile.counts[slots.BAD_ROWS])):  # the readable rows represent too little
        return found
    for check in _OF_ROWS + (_OF_TRAINING_DATA if profile.role == "train" else ()):
        if check not in hidden:
            for finding in check(profile):
                found.append(finding)
                hidden |= set(_HIDES.get(finding.check, ()) if finding.severity is Severity.ERROR else ())
    return found
