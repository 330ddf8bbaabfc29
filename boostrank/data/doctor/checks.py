"""Checks of one data set, in order of execution. Each yields findings."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import RowError
from boostrank.core.gains import MAX_EXPONENTIAL_LABEL, gains_from_labels, label_map_from_zero
from boostrank.core.types import Int64Array
from boostrank.data import blocks as slots
from boostrank.data.assemble import BLANK_SHARE
from boostrank.data.categories import EXACT
from boostrank.data.doctor import column_stats
from boostrank.data.doctor.finding import Finding, Severity, percent, plural
from boostrank.data.doctor.profile import SHOWN_ROWS, Profile

MOST_LEFT_OUT = 0.2  # share of the rows: leaving out more is not a remedy

# Text -----------------------------------------------------------------------------------------------------------------


def broken_files(profile: Profile) -> Iterator[Finding]:
    """Files that cannot be read to the end, have no rows, or contradict their side files."""
    for error in profile.broken:
        yield Finding(
            "unreadable-file",
            Severity.ERROR,
            error.file,
            error.line,
            error.column,
            1,
            error.reason,
            f"train refuses it; this report covers the {profile.n_rows:,} rows before it",
            "",
        )


def refused_rows(profile: Profile) -> Iterator[Finding]:
    """Unreadable rows, one finding per cause, with the reader's message."""
    count = int(profile.counts[slots.BAD_ROWS])
    total = count + profile.n_rows
    allowed = profile.reading.skip and count + profile.stand_in_rows <= profile.reading.max_bad_share * total
    options, fix = "", "mend the rows"
    if count <= MOST_LEFT_OUT * total and not allowed:
        options = f"--on-bad-line skip --max-bad-share {math.ceil(1000 * count / max(total, 1)) / 1000:g}"
        if all("--inf missing" in error.reason for error in profile.causes.values()):
            options = "--inf missing"
        fix += f", or leave them out: {options}" if "skip" in options else f": {options}"
    message = f" ({count:,} of {total:,} rows cannot be read)"
    for error in list(profile.causes.values())[:SHOWN_ROWS]:
        yield Finding(
            "unreadable-row",
            Severity.WARNING if allowed else Severity.ERROR,
            error.file,
            error.line,
            error.column,
            count if message else 1,
            error.reason + message,
            "such rows are left out" if allowed else "train refuses the file",
            fix,
            options,
        )
        message, fix, options = "", "mend the rows", ""


def text_columns(profile: Profile) -> Iterator[Finding]:
    """Text columns among the features of a table."""
    if profile.text:
        words, options = profile.text_words
        yield profile.finding(
            "text-columns",
            Severity.ERROR,
            0,
            len(profile.text),
            words,
            "train refuses the file; for the rest of this report they are read as categories",
            options,
            options,
        )


def stand_ins(profile: Profile) -> Iterator[Finding]:
    """Words that seem to mark missing values."""
    for word, (at, column) in list(profile.stand_ins.items())[:SHOWN_ROWS]:
        file, line = profile.place(at)
        shown = shlex.quote(word)
        yield Finding(
            "missing-token",
            Severity.ERROR,
            file,
            line,
            column,
            profile.stand_in_rows,
            f"'{word}' stands for a missing value; {plural(profile.stand_in_rows, 'row has', 'rows have')} such words",
            "train refuses the file; for the rest of this report they are taken as missing",
            f"--missing-token {shown}",
            f"--missing-token {shown}",
        )


def truncated_text(profile: Profile) -> Iterator[Finding]:
    """A last line without a newline."""
    for name in profile.unterminated:
        yield Finding(
            "no-final-newline",
            Severity.WARNING,
            name,
            0,
            0,
            1,
            "the last line has no newline",
            "the file may have been cut off while it was written",
            "compare its size with the original; if it is whole, add a newline",
        )


def untidy_text(profile: Profile) -> Iterator[Finding]:
    """Blank lines, unsorted feature numbers, accepted infinities."""
    blank, disordered, infinite = (
        int(profile.counts[slot]) for slot in (slots.BLANK_LINES, slots.DESCENDING_ROWS, slots.INFINITIES)
    )
    if blank > BLANK_SHARE * profile.n_lines:
        yield profile.finding(
            "blank-lines",
            Severity.NOTE,
            0,
            blank,
            f"{blank:,} of {profile.n_lines:,} lines are blank",
            "nothing: they are passed over",
            "",
        )
    if disordered:
        yield profile.finding(
            "feature-order",
            Severity.NOTE,
            profile.descending_line,
            disordered,
            f"{plural(disordered, 'row has', 'rows have')} feature numbers out of order",
            "nothing: they are sorted as they are read (train --strict refuses them); other readers differ",
            "write feature numbers in ascending order",
        )
    if infinite:
        as_what = "kept" if profile.reading.inf == "keep" else "read as missing"
        message = f"{plural(infinite, 'value is', 'values are')} infinite"
        yield profile.finding(
            "infinite-values", Severity.NOTE, 0, infinite, message, f"they are {as_what}, as --inf says", ""
        )


# Queries --------------------------------------------------------------------------------------------------------------

MANY_DEAD = 0.2  # share of the queries that affects quality
HEAVY = 0.25  # share of the documents in 1% of the queries
_ENOUGH = 20  # queries needed for an order of rows to be significant


def split_queries(profile: Profile) -> Iterator[Finding]:
    """Query ids that reappear after another query, or in the next file."""
    queries, line = profile.scattered
    if queries:
        yield profile.finding(
            "split-queries",
            Severity.NOTE,
            line,
            queries,
            f"{plural(queries, 'query', 'queries')} in pieces",
            "nothing: --regroup brings the rows together",
            "",
        )
    if profile.grouped_by_file or profile.reading.regroup:
        return
    order = np.argsort(profile.ids, kind="stable")
    again = np.sort(order[1:][profile.ids[order[1:]] == profile.ids[order[:-1]]])
    if not again.size:
        return
    i = int(again[0])
    first = int(np.flatnonzero(profile.ids == profile.ids[i])[0])
    queries = np.unique(profile.ids[again]).size
    message = (
        f"qid {profile.qid(i)} reappears after another query; it was first seen on "
        f"{profile.at(int(profile.line[first]))}; {plural(queries, 'query', 'queries')} in pieces"
    )
    files = " ".join(part.name for part in profile.parts[:3]) + (" ..." if len(profile.parts) > 3 else "")
    qid = f" --qid {shlex.quote(profile.reading.qid)}" if profile.reading.qid else ""
    fix = f"boostrank data sort {files} -o SORTED{qid}, or --regroup"
    if first == i - 1:
        message = f"qid {profile.qid(i)} continues from the previous file ({profile.at(int(profile.line[first]))})"
        fix = "--regroup joins the rows; if ids restart in each file: boostrank data merge --rename"
    cost = "train refuses it: the pieces would be ranked as queries of their own"
    yield profile.finding(
        "split-queries", Severity.ERROR, int(profile.line[i]), queries, message, cost, fix, "--regroup"
    )


def dead_queries(profile: Profile) -> Iterator[Finding]:
    """Queries with a single label; queries of one document are counted separately."""
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
            "nothing-to-learn",
            severity,
            0,
            profile.n_queries,
            what,
            cost,
            "is the first number of each row the label, and qid the query?",
        )
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
            "dead-queries",
            severity,
            int(profile.line[dead[0]]),
            dead.size,
            f"{profile.of_queries(dead.size)} have documents with one label only",
            cost,
            "judge more documents of these queries",
        )
    single = np.flatnonzero(~several)
    if single.size:
        severity = Severity.WARNING if single.size > MANY_DEAD * profile.n_queries else Severity.NOTE
        yield profile.finding(
            "single-document-queries",
            severity,
            int(profile.line[single[0]]),
            single.size,
            f"{profile.of_queries(single.size)} have one document",
            "there is nothing to rank: they teach nothing, and raise NDCG alike for all models",
            "if queries should be longer: is qid the id of the query, and not of the row?",
        )


def uneven_lists(profile: Profile) -> Iterator[Finding]:
    """A few queries with a large share of the documents."""
    few = profile.n_queries // 100
    share = float(np.sort(profile.sizes)[profile.n_queries - few :].sum()) / max(profile.n_rows, 1)
    if few and share > HEAVY:
        q = int(np.argmax(profile.sizes))
        yield profile.finding(
            "uneven-queries",
            Severity.NOTE,
            int(profile.line[q]),
            few,
            f"the longest 1% of the queries hold {percent(share, 1)} of the documents; qid {profile.qid(q)} has "
            f"{int(profile.sizes[q]):,}, the median query {int(np.median(profile.sizes)):,}",
            "objectives that add up over documents or pairs (regression, ranknet, lambdarank) are dominated by "
            "these queries",
            "--set normalize_query=l1 gives every query the same weight",
        )


def rows_by_label(profile: Profile) -> Iterator[Finding]:
    """Documents in order of their labels in (nearly) every query."""
    live = profile.low < profile.high
    sorted_ = np.flatnonzero(live & profile.falling)
    total = int(np.count_nonzero(live))
    if total >= _ENOUGH and sorted_.size > 0.9 * total:
        yield profile.finding(
            "rows-by-label",
            Severity.NOTE,
            int(profile.line[sorted_[0]]),
            sorted_.size,
            f"in {percent(sorted_.size, total)} of the queries documents stand in order of falling labels",
            "LightGBM's and XGBoost's own metrics break ties by the order of rows: a model that scores all documents "
            "alike gets an NDCG of 1 there; boostrank's do not",
            "shuffle the rows within queries before you compare with other tools",
        )


def repeated_queries(profile: Profile) -> Iterator[Finding]:
    """Queries with exactly the documents of another query."""
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
            "repeated-queries",
            Severity.NOTE,
            int(profile.line[i]),
            again.size,
            f"{profile.of_queries(again.size)} hold the documents of an earlier one: qid {profile.qid(i)} those of qid "
            f"{profile.qid(first)}, {profile.at(int(profile.line[first]))}",
            "they count twice; split at random, one copy leaks into the other set",
            "keep one of each",
        )


# Labels ---------------------------------------------------------------------------------------------------------------

USUAL_TOP = 5.0  # the largest grade of the public collections is 4
MANY_GRADES = 32
ONE_SIDED = 0.97


def labels_without_gain(profile: Profile) -> Iterator[Finding]:
    """Labels outside the domain of the gain, with the gain's message."""
    known = (
        np.array(sorted({*profile.labels, profile.low_label, profile.high_label})) if profile.n_rows else np.zeros(0)
    )
    for some in (known if np.any(known < 0) else known[:0], known[known >= 0]):
        try:
            gains_from_labels(some, profile.gain)
        except RowError as error:
            label = float(some[error.row])
            found = profile.negative if label < 0 else profile.labels.get(label, profile.largest)
            pairs = label_map_from_zero(some) if label < 0 else ""
            options = f"--label-map={pairs}" if pairs else "" if label < 0 else "--gain linear"
            yield profile.finding(
                "refused-labels",
                Severity.ERROR,
                found.line,
                found.count,
                f"{error.reason.partition('; label_map=')[0]}; {profile.of_rows(found.count)}",
                "train refuses them",
                options,
                options,
            )


def steep_gains(profile: Profile) -> Iterator[Finding]:
    """Labels whose exponential gain dominates all others."""
    top = profile.high_label
    if profile.gain != "exponential" or not USUAL_TOP < top <= MAX_EXPONENTIAL_LABEL:
        return
    yield profile.finding(
        "steep-gains",
        Severity.WARNING,
        profile.largest.line,
        profile.largest.count,
        f"the largest label is {top:g}: its gain 2^label - 1 is {2.0**top - 1.0:,.0f} times that of label 1",
        "the documents with the largest labels dominate NDCG and the gradient",
        "--gain linear, or a table such as --gain 0,1,3,7,15",
    )


def many_grades(profile: Profile) -> Iterator[Finding]:
    """Too many distinct labels for grades."""
    if profile.many_labels or len(profile.labels) > MANY_GRADES:
        many = "over 1,000" if profile.many_labels else f"{len(profile.labels):,}"
        yield profile.finding(
            "many-labels",
            Severity.NOTE,
            0,
            len(profile.labels),
            f"there are {many} different labels, from {profile.low_label:g} to {profile.high_label:g}: clicks, amounts "
            "or scores rather than grades?",
            "with exponential gain a difference of 1 means twice the gain, everywhere",
            "--gain linear",
        )


def labels_from_above_zero(profile: Profile) -> Iterator[Finding]:
    """No irrelevant documents."""
    grades = sorted(profile.labels)
    if profile.live and profile.low_label > 0 and not profile.many_labels and len(grades) <= MANY_GRADES:
        yield profile.finding(
            "no-label-zero",
            Severity.WARNING,
            0,
            profile.n_rows,
            f"the smallest label is {profile.low_label:g}: every document counts as relevant",
            "MAP, MRR, recall and precision are meaningless, and the lowest grade has a gain",
            f"--label-map={label_map_from_zero(grades)}",
        )


def one_sided_labels(profile: Profile) -> Iterator[Finding]:
    """One label on nearly all documents."""
    if profile.many_labels or len(profile.labels) < 2:
        return
    label, most = max(profile.labels.items(), key=lambda item: item[1].count)
    if most.count > ONE_SIDED * profile.n_rows:
        rest = profile.n_rows - most.count
        yield profile.finding(
            "one-sided-labels",
            Severity.NOTE,
            0,
            most.count,
            f"{percent(most.count, profile.n_rows)} of the documents have label {label:g}",
            f"what there is to learn lies in the other {rest:,} documents",
            "usual for clicks and purchases; for judgements, is the label the right column?",
        )


# Documents ------------------------------------------------------------------------------------------------------------

MANY_ALIKE = 0.05  # share of the documents
MANY_EMPTY = 0.01


def contradictions(profile: Profile) -> Iterator[Finding]:
    """Documents of a query with the same features and different labels."""
    alike = profile.contradicting
    if alike.rows:
        yield profile.finding(
            "contradicting-duplicates",
            Severity.WARNING,
            alike.line,
            alike.rows,
            f"{profile.of_rows(alike.rows)} in {plural(alike.queries, 'query', 'queries')} have the features of "
            f"another document of their query, and another label: the first{profile.document(alike.line)} is like "
            f"{profile.at(alike.twin)}{profile.document(alike.twin)}",
            "no model can put them in order: the best NDCG is below 1",
            "keep one of each, if they are one document; otherwise add a feature that tells them apart",
        )


def duplicates(profile: Profile) -> Iterator[Finding]:
    """Documents of a query with the same features and label."""
    alike = profile.same
    if alike.rows:
        many = alike.rows > MANY_ALIKE * profile.n_rows
        yield profile.finding(
            "duplicates",
            Severity.WARNING if many else Severity.NOTE,
            alike.line,
            alike.rows,
            f"{profile.of_rows(alike.rows)} in {plural(alike.queries, 'query', 'queries')} have features and label of "
            f"another document of their query: the first{profile.document(alike.line)} is like "
            f"{profile.at(alike.twin)}{profile.document(alike.twin)}",
            "they get one score, and take ranks from other documents in the metric",
            "keep one of each",
        )


def empty_rows(profile: Profile) -> Iterator[Finding]:
    """Documents without nonzero features."""
    empty = profile.empty_rows
    if empty.count:
        many = empty.count > MANY_EMPTY * profile.n_rows
        yield profile.finding(
            "empty-documents",
            Severity.WARNING if many else Severity.NOTE,
            empty.line,
            empty.count,
            f"{profile.of_rows(empty.count)} have no feature that is not 0",
            f"nothing tells them apart: {percent(empty.count, profile.n_rows)} of the documents share one score",
            "were their features lost?",
        )


# Features -------------------------------------------------------------------------------------------------------------

# A useless feature sorts n documents by label with a probability of at most 1/n. It counts as a copy if the
# probability over all queries is below e^-EVIDENCE.
EVIDENCE = 30.0
MOSTLY_MISSING = 0.95
_SHOWN = 12
# Common codes for "unknown", including -1 in columns of counts and shares.
_SENTINELS = frozenset(
    {-1.0, -2.0, -9.0, -99.0, -100.0, -999.0, -1000.0, -9999.0, -99999.0, -999999.0, -1e9, -(2.0**31)}
)


def label_copies(profile: Profile) -> Iterator[Finding]:
    """Features that order the documents of (nearly) every query exactly by label."""
    live = profile.low < profile.high
    if profile.live < 2 or np.log(np.maximum(profile.sizes[live], 2)).sum() < EVIDENCE + np.log(len(profile.columns)):
        return
    up, down = profile.columns[:, column_stats.UP], profile.columns[:, column_stats.DOWN]
    exact = np.maximum(up, down)
    labelled = profile.n_rows - (profile.labels[0.0].count if 0.0 in profile.labels else 0)
    for j in np.flatnonzero(profile.live - exact <= column_stats.SHARE * profile.live).tolist():
        same = profile.columns[j, column_stats.LIKE_LABEL] == profile.columns[j, column_stats.STORED] == labelled
        order = "falling" if down[j] > up[j] else "rising"
        message = (
            f"{profile.feature(j)} equals the label in every row"
            if same and not profile.many_labels
            else (
                f"{profile.feature(j)} ranks the documents of {percent(int(exact[j]), profile.live)} of the queries "
                f"without a mistake ({order} with the label)"
            )
        )
        yield profile.finding(
            "label-copy",
            Severity.WARNING,
            0,
            int(exact[j]),
            message,
            "a model will look perfect here and fail where the label is not known yet",
            f"leave {profile.feature(j)} out, if it is made from the label or from what happened after the ranking",
        )


def no_features(profile: Profile) -> Iterator[Finding]:
    """No feature with two values."""
    used = _numbers(profile)
    message = "no feature varies: each has one value in every row"
    if not profile.counts[slots.CELLS]:
        message = "no features: no row holds a number:value pair"
    elif not used.size or profile.top.top_id >= len(profile.columns) or not _constant(profile, used).all():
        return
    cost = "train refuses it: nothing distinguishes the documents"
    fix = "join the features to the judgements; a row is LABEL qid:ID 1:VALUE 2:VALUE ..."
    yield profile.finding("no-features", Severity.ERROR, 0, profile.n_rows, message, cost, fix)


def constant_features(profile: Profile) -> Iterator[Finding]:
    """Features that are constant, or always missing."""
    used = _numbers(profile)
    missing = used[profile.columns[used, column_stats.MISSING] == profile.n_rows]
    high = ranges(profile)[1]
    constant = np.setdiff1d(used[_constant(profile, used)], missing)
    if missing.size:
        yield profile.finding(
            "missing-features",
            Severity.WARNING,
            0,
            missing.size,
            f"{listed(profile, missing)} missing in every row",
            "they take time and teach nothing",
            "was a join lost?",
        )
    if constant.size:
        zeros = constant[high[constant] == 0]
        more = f" ({zeros.size:,} of them 0 or not in the file)" if zeros.size else ""
        yield profile.finding(
            "constant-features",
            Severity.NOTE,
            0,
            constant.size,
            f"{listed(profile, constant)} the same in every row{more}",
            "they take time and teach nothing",
            "leave them out, if that is so in all of your data",
        )


def mostly_missing(profile: Profile) -> Iterator[Finding]:
    """Features that are missing in nearly all rows."""
    missing = profile.columns[:, column_stats.MISSING]
    rare = np.flatnonzero((missing > MOSTLY_MISSING * profile.n_rows) & (missing < profile.n_rows))
    if rare.size:
        yield profile.finding(
            "rare-features",
            Severity.NOTE,
            0,
            rare.size,
            f"{listed(profile, rare)} missing in more than {percent(MOSTLY_MISSING, 1)} of the rows",
            "they carry little information, unless their presence does",
            "",
        )


def query_features(profile: Profile) -> Iterator[Finding]:
    """Features that are constant within every query."""
    if not np.any(profile.sizes > 1):
        return
    used = _numbers(profile)
    alike = (profile.columns[used, column_stats.VARIES] == 0) & ~_constant(profile, used)
    if alike.any():
        yield profile.finding(
            "query-features",
            Severity.NOTE,
            0,
            int(alike.sum()),
            f"{listed(profile, used[alike])} the same for all documents of a query",
            "alone they rank nothing; together with others they can (which query is it?)",
            "",
        )


def stand_in_numbers(profile: Profile) -> Iterator[Finding]:
    """Features whose only negative value is a code such as -1 or -999."""
    counts, extremes = profile.columns, profile.extremes
    low, largest = extremes[:, column_stats.LOW], extremes[:, column_stats.HIGH_NEGATIVE]
    # In columns of values up to 1, -1 may be a sign or a cosine.
    one = (counts[:, column_stats.NEGATIVE] > 0) & (low == largest) & (extremes[:, column_stats.HIGH] > 1)
    for value in np.unique(low[one]).tolist():
        if value not in _SENTINELS:
            continue
        which = np.flatnonzero(one & (low == value))
        cells = int(counts[which, column_stats.NEGATIVE].sum())
        yield profile.finding(
            "stand-in-numbers",
            Severity.NOTE,
            0,
            which.size,
            f"{value:g} is the only negative value of {listed(profile, which, verb=False)} ({cells:,} times): does it "
            "mean missing?",
            "trees can split it off; as missing it goes to whichever side suits, and means carry no false number",
            f"--missing-token={value:g} reads it as missing, in every feature",
        )


def coarse_values(profile: Profile) -> Iterator[Finding]:
    """Integers so large that float32 merges neighbours."""
    low, high = ranges(profile)
    largest = np.maximum(np.abs(low), np.abs(high))
    stored = profile.columns[:, column_stats.STORED] > 0
    coarse = np.flatnonzero(
        (profile.columns[:, column_stats.FRACTIONS] == 0) & stored & (largest > EXACT) & np.isfinite(largest)
    )
    if coarse.size:
        j = int(coarse[np.argmax(largest[coarse])])
        step = float(np.spacing(np.float32(largest[j])))
        yield profile.finding(
            "coarse-values",
            Severity.NOTE,
            0,
            coarse.size,
            f"{listed(profile, coarse, verb=False)} hold{'s' * (coarse.size == 1)} whole numbers above "
            f"{EXACT:,.0f}, up to {largest[j]:.6g}",
            f"features are float32: around the largest, values less than {step:g} apart are one",
            "of times and ids subtract a start; hashes are no features",
        )


def _numbers(profile: Profile) -> Int64Array:
    """Return the numbers of the examined features, whether they occur or not."""
    if not profile.n_rows:
        return np.zeros(0, np.int64)
    return np.arange(profile.base, min(profile.top.top_id + 1, len(profile.columns)))


def _constant(profile: Profile, used: Int64Array) -> npt.NDArray[np.bool_]:
    """Return which features are constant or always missing."""
    low, high = ranges(profile)
    missing = profile.columns[used, column_stats.MISSING]
    return np.asarray((missing == profile.n_rows) | ((low[used] == high[used]) & (missing == 0)))


def ranges(profile: Profile) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the (smallest, largest) value of each feature; absent entries count as 0."""
    low, high = profile.extremes[:, column_stats.LOW], profile.extremes[:, column_stats.HIGH]
    everywhere = profile.columns[:, column_stats.STORED] + profile.columns[:, column_stats.MISSING] == profile.n_rows
    zero = np.float32(0.0)
    return np.where(everywhere, low, np.minimum(low, zero)), np.where(everywhere, high, np.maximum(high, zero))


def listed(profile: Profile, numbers: Int64Array, *, verb: bool = True) -> str:
    """Format `features 3, 5 and 9 are`, shortened for many features."""
    shown = [profile.feature(number).removeprefix("feature ") for number in numbers[:_SHOWN].tolist()]
    if numbers.size == 1:
        return f"feature {shown[0]}" + " is" * verb
    rest = f" and {numbers.size - _SHOWN:,} more" if numbers.size > _SHOWN else f" and {shown.pop()}"
    return f"features {', '.join(shown)}{rest}" + " are" * verb


Check = Callable[[Profile], Iterator[Finding]]

OF_TEXT: tuple[Check, ...] = (broken_files, refused_rows, text_columns, stand_ins, truncated_text, untidy_text)
OF_ROWS: tuple[Check, ...] = (
    split_queries,
    no_features,
    dead_queries,
    uneven_lists,
    rows_by_label,
    repeated_queries,
    labels_without_gain,
    steep_gains,
    many_grades,
    labels_from_above_zero,
    one_sided_labels,
    contradictions,
    duplicates,
    empty_rows,
)
OF_TRAINING_DATA: tuple[Check, ...] = (
    label_copies,
    constant_features,
    mostly_missing,
    query_features,
    stand_in_numbers,
    coarse_values,
)  # later sets would only repeat them
HIDES: dict[str, tuple[Check, ...]] = {
    "split-queries": (
        dead_queries,
        uneven_lists,
        rows_by_label,
        repeated_queries,
        contradictions,
        duplicates,
        label_copies,
        query_features,
    ),
    "refused-labels": (steep_gains, many_grades, labels_from_above_zero),
    "no-features": (repeated_queries, contradictions, duplicates, empty_rows, *OF_TRAINING_DATA),
}
"""Error -> checks that would only find its consequences."""
