"""The compiled part of the libsvm reader: bytes in, labels, feature numbers, values and query runs out.

    label qid:ID number:value number:value ... # comment

A call parses whole lines. The two bytes behind the text must be newlines, so that no loop has to look for the end.
What is wrong is reported as a code and the place of the token; `_reasons` turns that into words.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.decimal import (
    BLANK,
    COLON,
    DOT,
    HASH,
    MAX_DIGITS,
    MINUS,
    NEWLINE,
    PLUS,
    RETURN,
    TAB,
    Bytes,
    Powers,
    ends_token,
    is_digit,
    scan_number,
)
from boostrank.kernels.jit import entry_point, inline

Int32Array = npt.NDArray[np.int32]

# What can be wrong with a row.
(OK, LABEL, NO_QID, UNEXPECTED_QID, QID, FEATURE, ZERO_ID, LARGE_ID, VALUE, OVERFLOW, INFINITE, DUPLICATE, DESCENDING,
 COMMENT, INCOMPLETE) = range(15)  # fmt: skip

# Slots of `options`.
(EXPECT_QID, REFUSE_ZERO_ID, MAX_ID, LIMIT, INF, STRICT, SKIP, KEEP_COMMENTS, UNTERMINATED,
 N_OPTIONS) = range(10)  # fmt: skip
INF_STOP, INF_KEEP, INF_MISSING = range(3)

# Slots of `state`: what the call found, all 0 at its start.
(ROWS, CELLS, BEYOND, RUNS, LINES, BLANK_LINES, UNDECIDED, RESOLVED, DESCENDING_ROWS, DESCENDING_LINE, MISSING,
 INFINITIES, TOP_ID, TOP_LINE, ZERO_LINE, QID_START, QID_END, BAD_ROWS, N_STATE) = range(19)  # fmt: skip

# Columns of `bad`: the code, the line (1-based, in this chunk), where line and token start, a feature number.
BAD_CODE, BAD_LINE, BAD_LINE_START, BAD_TOKEN, BAD_ID, N_BAD = range(6)
BAD_KEPT = 16

# Columns of `runs`: first row and line of a query, its id's place in the text, the id when it is a canonical integer.
RUN_ROW, RUN_LINE, RUN_START, RUN_END, RUN_IS_INTEGER, RUN_ID, N_RUN = range(7)

_U0, _U10 = np.uint64(0), np.uint64(10)


@inline
def _token_end(text: Bytes, p: int) -> int:
    while not ends_token(text, p):
        p += 1
    return p


@inline
def _is_word(text: Bytes, p: int, q: int, word: bytes) -> bool:
    """Whether text[p:q], after an optional sign and in any case, is the (lower-case) word."""
    if text[p] == PLUS or text[p] == MINUS:
        p += 1
    if q - p != len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110 - compiled
        if text[p + i] | 32 != word[i]:
            return False
    return True


_NAN, _INF, _INFINITY = b"nan", b"inf", b"infinity"


@inline
def _is_missing(text: Bytes, p: int, q: int, tokens: Bytes, token_ends: Int64Array) -> bool:
    """Whether text[p:q] is one of the stand-ins for a missing value."""
    begin = 0
    for end in token_ends:
        if q - p == end - begin:
            same = True
            for i in range(q - p):
                same = same and text[p + i] == tokens[begin + i]
            if same:
                return True
        begin = end
    return False


@inline
def _resolve(p: int, state: Int64Array, known_at: Int64Array, known: Float64Array, undecided: Int64Array) -> float:
    """The value that Python gave to the undecided number at p; before it was asked, note the place and say 0."""
    i = state[RESOLVED]
    while i < known_at.shape[0] and known_at[i] < p:
        i += 1
    state[RESOLVED] = i
    if i < known_at.shape[0] and known_at[i] == p:
        return known[i]
    undecided[state[UNDECIDED]] = p
    state[UNDECIDED] += 1
    return 0.0


@inline
def _query(text: Bytes, p: int, q: int, row: int, line: int, runs: Int64Array, state: Int64Array) -> bool:
    """Note the query id text[p:q] if it is another one than that of the row before; False if it cannot be one."""
    before, length = state[QID_START], q - p
    same = row > 0 and state[QID_END] - before == length
    if same:
        for i in range(length):
            same = same and text[p + i] == text[before + i]
    if same:
        return True
    digits, dots, control = 0, 0, False
    for i in range(p, q):
        c = text[i]
        digits += 1 if is_digit(c) else 0
        dots += 1 if c == DOT else 0
        control = control or c < BLANK or c == 127
    signs = 1 if text[p] == MINUS or text[p] == PLUS else 0
    if length == 0 or control or text[q] == HASH or (dots == 1 and digits + signs + 1 == length):
        return False
    # Canonical: digits without a leading zero or plus, within int64 (text from 10^18 on, compared in Python).
    first = p + 1 if text[p] == MINUS else p
    is_integer = digits == q - first and digits > 0 and digits <= MAX_DIGITS
    if is_integer and text[first] == 48 and q - p > 1:
        is_integer = False
    number = _U0
    if is_integer:
        for i in range(first, q):
            number = number * _U10 + np.uint64(text[i] - 48)
        limit = np.uint64(1 << 63) if first > p else np.uint64((1 << 63) - 1)
        is_integer = number <= limit
    run = state[RUNS]
    runs[run, RUN_ROW] = row
    runs[run, RUN_LINE] = line
    runs[run, RUN_START] = p
    runs[run, RUN_END] = q
    runs[run, RUN_IS_INTEGER] = 1 if is_integer else 0
    value = np.int64(number)
    runs[run, RUN_ID] = -value if first > p else value
    state[RUNS] = run + 1
    state[QID_START], state[QID_END] = p, q
    return True


@inline
def _is_qid(text: Bytes, p: int) -> bool:
    return text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == COLON


@inline
def _row(
    text: Bytes,
    p: int,
    end: int,
    options: Int64Array,
    tokens: Bytes,
    token_ends: Int64Array,
    exact: Float64Array,
    five: Powers,
    known_at: Int64Array,
    known: Float64Array,
    labels: Float64Array,
    row_ends: Int64Array,
    ids: Int32Array,
    values: Float32Array,
    runs: Int64Array,
    undecided: Int64Array,
    comments: Int64Array,
    state: Int64Array,
    fault: Int64Array,
) -> int:
    """Parse the row whose label starts at p. Returns the place of its newline, or -1 with `fault` filled in."""
    row = state[ROWS]
    fault[BAD_TOKEN] = p
    at = p
    p, good, label = scan_number(text, p, exact, five)
    if good and math.isnan(label):
        label = _resolve(at, state, known_at, known, undecided)
    if not good or math.isinf(label):
        fault[BAD_CODE] = LABEL
        return -1
    labels[row] = label + 0.0  # -0 becomes 0

    while text[p] == BLANK or text[p] == TAB:
        p += 1
    fault[BAD_TOKEN] = p
    if _is_qid(text, p):
        if options[EXPECT_QID] == 0:
            fault[BAD_CODE] = UNEXPECTED_QID
            return -1
        q = _token_end(text, p)
        if not _query(text, p + 4, q, row, state[LINES], runs, state):
            fault[BAD_CODE] = QID
            return -1
        p = q
    elif options[EXPECT_QID] == 1:
        fault[BAD_CODE] = NO_QID
        return -1

    cells = state[CELLS]
    begin, previous, top, beyond, has_zero, descending, missing, infinities = cells, -1, 0, 0, False, False, 0, 0
    max_id, limit = options[MAX_ID], options[LIMIT]
    while True:
        while text[p] == BLANK or text[p] == TAB:
            p += 1
        fault[BAD_TOKEN] = p
        at, number = p, 0
        while is_digit(text[p]):
            number = number * 10 + (np.int64(text[p]) - 48)
            p += 1
        if text[p] != COLON or p == at:
            if p == at and ends_token(text, p):
                break
            fault[BAD_CODE] = FEATURE
            return -1
        if number > max_id or p - at > 18:
            fault[BAD_CODE] = LARGE_ID
            return -1
        fault[BAD_ID] = number
        p += 1
        at = p
        if token_ends.shape[0] > 0 and _is_missing(text, p, _token_end(text, p), tokens, token_ends):
            p, value = _token_end(text, p), math.nan
            missing += 1
        else:
            p, good, value = scan_number(text, p, exact, five)
            if not good:
                p = _token_end(text, at)
                fault[BAD_CODE] = VALUE
                if _is_word(text, at, p, _NAN):
                    value = math.nan
                    missing += 1
                elif _is_word(text, at, p, _INF) or _is_word(text, at, p, _INFINITY):
                    fault[BAD_CODE] = INFINITE
                    if options[INF] == INF_STOP:
                        return -1
                    value = -math.inf if text[at] == MINUS else math.inf
                    infinities += 1
                    if options[INF] == INF_MISSING:
                        value = math.nan
                        missing += 1
                else:
                    return -1
            else:
                if math.isnan(value):
                    value = _resolve(at, state, known_at, known, undecided)
                if math.isinf(np.float32(value)):
                    fault[BAD_CODE] = OVERFLOW
                    return -1
        ids[cells] = number
        values[cells] = value
        cells += 1
        if number <= previous:
            if number == previous:
                fault[BAD_CODE] = DUPLICATE
                return -1
            if options[STRICT] == 1:
                fault[BAD_CODE] = DESCENDING
                return -1
            descending = True
        previous = number
        top = max(top, number)
        beyond += 1 if number > limit else 0
        has_zero = has_zero or number == 0

    if has_zero and options[REFUSE_ZERO_ID] == 1:
        fault[BAD_CODE] = ZERO_ID
        return -1
    if descending:
        order = np.argsort(ids[begin:cells])
        ids[begin:cells] = ids[begin:cells][order]
        values[begin:cells] = values[begin:cells][order]
        for i in range(begin + 1, cells):
            if ids[i] == ids[i - 1]:
                fault[BAD_CODE], fault[BAD_ID] = DUPLICATE, ids[i]
                return -1

    tail = p
    if text[p] == HASH:
        p = _comment_end(text, p)
        if p < 0:
            fault[BAD_CODE] = COMMENT
            return -1
    if options[UNTERMINATED] == 1 and tail >= end and text[end - 1] == DOT:
        fault[BAD_CODE] = INCOMPLETE
        return -1
    if options[KEEP_COMMENTS] == 1:
        comments[row, 0], comments[row, 1] = tail, p

    state[ROWS], state[CELLS] = row + 1, cells
    row_ends[row] = cells
    state[BEYOND] += beyond
    if top > state[TOP_ID]:
        state[TOP_ID], state[TOP_LINE] = top, state[LINES]
    state[MISSING] += missing
    state[INFINITIES] += infinities
    if has_zero and state[ZERO_LINE] == 0:
        state[ZERO_LINE] = state[LINES]
    if descending:
        state[DESCENDING_ROWS] += 1
        if state[DESCENDING_LINE] == 0:
            state[DESCENDING_LINE] = state[LINES]
    return p + 1 if text[p] == RETURN else p


@inline
def _comment_end(text: Bytes, p: int) -> int:
    """Where the comment's line ends (its newline, or the carriage return before it); -1 for NUL or a lone return."""
    while text[p] != NEWLINE:
        if text[p] == 0:
            return -1
        if text[p] == RETURN:
            return p if text[p + 1] == NEWLINE else -1
        p += 1
    return p


@entry_point(
    nb.void(
        nb.uint8[::1], nb.int64, nb.int64, nb.int64[::1], nb.uint8[::1], nb.int64[::1],
        nb.float64[::1], nb.uint64[:, ::1], nb.int64[::1], nb.float64[::1],
        nb.float64[::1], nb.int64[::1], nb.int32[::1], nb.float32[::1], nb.int64[:, ::1], nb.int64[::1],
        nb.int64[:, ::1], nb.int64[:, ::1], nb.int64[::1],
    )
)  # fmt: skip
def parse_lines(
    text: Bytes,
    start: int,
    end: int,
    options: Int64Array,
    tokens: Bytes,
    token_ends: Int64Array,
    exact: Float64Array,
    five: Powers,
    known_at: Int64Array,
    known: Float64Array,
    labels: Float64Array,
    row_ends: Int64Array,
    ids: Int32Array,
    values: Float32Array,
    runs: Int64Array,
    undecided: Int64Array,
    comments: Int64Array,
    bad: Int64Array,
    state: Int64Array,
) -> None:
    """Parse the lines of text[start:end]; `text[end]` and `text[end + 1]` are newlines.

    Args:
        text: uint8; start, end: whole lines.
        options: int64[N_OPTIONS].
        tokens, token_ends: the stand-ins for missing values, one behind the other, and where each ends.
        exact, five: `EXACT_POWERS`, `POWERS_OF_FIVE`.
        known_at, known: places and values of numbers that an earlier call on this text left undecided.
        labels, row_ends: a number a row; row_ends counts the cells up to its end. Out.
        ids, values: a feature number and a value a cell, ascending within a row. Out.
        runs: the first row of each query, N_RUN columns. Out.
        undecided: places of numbers that Python must read; when there are any, call again with `known`. Out.
        comments: start and end of each row's comment, if asked for. Out.
        bad: the first BAD_KEPT refused rows, N_BAD columns; without SKIP parsing stops at the first. Out.
        state: counts, N_STATE of them. Out.
    """
    fault = np.zeros(N_BAD, np.int64)
    p = start
    while p < end:
        state[LINES] += 1
        line_start = p
        while text[p] == BLANK or text[p] == TAB:
            p += 1
        fault[BAD_TOKEN] = p
        if text[p] == NEWLINE or (text[p] == RETURN and text[p + 1] == NEWLINE):
            state[BLANK_LINES] += 1
            p += 1 if text[p] == NEWLINE else 2
            continue
        runs_before, qid_start, qid_end = state[RUNS], state[QID_START], state[QID_END]
        if text[p] == HASH:
            p = _comment_end(text, p)
            if p >= 0:
                p += 1 if text[p] == NEWLINE else 2
                continue
            fault[BAD_CODE] = COMMENT
        else:
            p = _row(
                text, p, end, options, tokens, token_ends, exact, five, known_at, known,
                labels, row_ends, ids, values, runs, undecided, comments, state, fault,
            )  # fmt: skip
            if p >= 0:
                p += 1
                continue
        # A refused row leaves no trace.
        state[RUNS], state[QID_START], state[QID_END] = runs_before, qid_start, qid_end
        fault[BAD_LINE], fault[BAD_LINE_START] = state[LINES], line_start
        if state[BAD_ROWS] < BAD_KEPT:
            bad[state[BAD_ROWS]] = fault
        state[BAD_ROWS] += 1
        if options[SKIP] == 0:
            return
        p = line_start
        while text[p] != NEWLINE:
            p += 1
        p += 1
