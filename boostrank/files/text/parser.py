"""Compiled parser of libsvm text.

    label qid:ID number:value number:value ... # comment

The text must be followed by newlines (`files.PADDING`), so that loops need no bounds checks.
`formats.libsvm` turns the code of an error and the position of its token into a message. Helpers
take pointers, because passing an array between functions costs two atomic operations, which take as
long as parsing a number.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.files import blocks as slots
from boostrank.files.blocks import B1, I2, N1, S1, Int32Array
from boostrank.files.text.decimal import (
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
    ends_token,
    is_digit,
    scan_number,
    scan_short,
)
from boostrank.kernels.intrinsics import Bytes, pointer_to, word_at
from boostrank.kernels.jit import F1, I1, INT, entry_point, inline

# Codes of errors in a row: in the label or query id, in a feature number, in a value, or elsewhere.
LABEL, NO_QID, UNEXPECTED_QID, QID = range(1, 5)
FEATURE, ZERO_ID, LARGE_ID, DUPLICATE, DESCENDING = range(5, 10)
VALUE, OVERFLOW, INFINITE = range(10, 13)
COMMENT, INCOMPLETE = range(13, 15)

# Slots of `options`: what to accept, what to read, and the sizes of the other arguments.
EXPECT_QID, REFUSE_ZERO_ID, MAX_ID, LIMIT, INF, REPEATED, STRICT, SKIP = range(8)
KEEP_COMMENTS, UNLABELLED, HEADS_ONLY, UNTERMINATED, N_TOKENS, N_DECIDED, N_OPTIONS = range(8, 15)
INF_STOP, INF_KEEP, INF_MISSING = range(3)
REPEATED_STOP, REPEATED_FIRST, REPEATED_LAST = range(3)

# Columns of `bad`: code, line (1-based, in this chunk), start of line and token, feature number.
# After the BAD_KEPT described rows there is one more slot, for all others.
BAD_CODE, BAD_LINE, BAD_LINE_START, BAD_TOKEN, BAD_ID, N_BAD = range(6)

_U0, _U10 = np.uint64(0), np.uint64(10)
_MAX_ID_DIGITS = 18  # fit in int64
# Text before the value of each feature, such as " 12:", as a word of 8 bytes.
_HEADS = np.array([int.from_bytes(b" %d:" % number, "little") for number in range(1000)], np.uint64)
_HEAD_MASKS = np.array([(1 << 8 * size) - 1 for size in range(6)], np.uint64)
_NAN, _INF, _INFINITY = b"nan", b"inf", b"infinity"
_SORT_GAPS = (40965, 9161, 2048, 458, 103, 24, 5, 1)


@inline
def _token_end(text: Bytes, p: int) -> int:
    while not ends_token(text, p):
        p += 1
    return p


@inline
def _is_word(text: Bytes, p: int, q: int, word: bytes) -> bool:
    """Return whether text[p:q] is the lower-case `word`, ignoring case and an optional sign."""
    if text[p] == PLUS or text[p] == MINUS:
        p += 1
    same = q - p == len(word)
    for i in range(len(word)):
        same = same and text[p + i] | 32 == word[i]
    return same


@inline
def _is_missing(
    text: Bytes, p: int, q: int, n_tokens: int, tokens: Bytes, token_ends: Int64Array
) -> bool:
    """Return whether text[p:q] is a token for a missing value."""
    begin = 0
    for t in range(n_tokens):
        end = token_ends[t]
        same = q - p == end - begin
        for i in range(end - begin):
            same = same and text[p + i] == tokens[begin + i]
        if same:
            return True
        begin = end
    return False


@inline
def _resolve(
    p: int, n_decided: int, decided: Float64Array, undecided: Int64Array, state: Int64Array
) -> float:
    """Return Python's value of the undecided number at p. If it is not available yet, record p and
    return 0.
    """
    i = state[slots.RESOLVED]
    while i < n_decided and undecided[i] < p:
        i += 1
    state[slots.RESOLVED] = i
    if i < n_decided and undecided[i] == p:
        return decided[i]
    undecided[state[slots.UNDECIDED]] = p
    state[slots.UNDECIDED] += 1
    return 0.0


@inline
def _is_utf8(text: Bytes, p: int, q: int) -> bool:
    """Return whether text[p:q] is valid UTF-8, without overlong forms, surrogates, or anything
    beyond U+10FFFF.
    """
    while p < q:
        first, second = text[p], text[p + 1]
        more = 0 if first < 0x80 else 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if (
            (0x80 <= first < 0xC2)
            or first > 0xF4
            or p + more >= q
            or (more > 0 and not low <= second <= high)
        ):
            return False
        for i in range(2, more + 1):
            if text[p + i] & 0xC0 != 0x80:
                return False
        p += more + 1
    return True


@inline
def _query(text: Bytes, p: int, q: int, runs: Int64Array, state: Int64Array) -> bool:
    """Record the query id text[p:q] if it differs from that of the previous row. Return False if it
    is invalid.
    """
    before, length = state[slots.QID_START], q - p
    if length == 0 or text[q] == HASH:
        return False
    same = state[slots.ROWS] > 0 and state[slots.QID_END] - before == length
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
    if (
        control
        or not _is_utf8(text, p, q)
        or (dots == 1 and digits > 0 and digits + signs + 1 == length)
    ):
        return False
    # Canonical integers: no plus, no leading zero, within int64. Everything else is text.
    first = p + 1 if text[p] == MINUS else p
    is_integer = (
        digits == q - first
        and digits > 0
        and digits <= MAX_DIGITS
        and (text[first] != 48 or length == 1)
    )
    number = _U0
    if is_integer:
        for i in range(first, q):
            number = number * _U10 + np.uint64(text[i] - 48)
        is_integer = number <= np.uint64((1 << 63) - 1)
    run = state[slots.RUNS] * slots.N_RUN
    runs[run + slots.RUN_ROW], runs[run + slots.RUN_LINE] = state[slots.ROWS], state[slots.LINES]
    runs[run + slots.RUN_START], runs[run + slots.RUN_END] = p, q
    runs[run + slots.RUN_IS_INTEGER] = 1 if is_integer else 0
    runs[run + slots.RUN_ID] = -np.int64(number) if first > p else np.int64(number)
    state[slots.RUNS] += 1
    state[slots.QID_START], state[slots.QID_END] = p, q
    return True


@inline
def _head(
    text: Bytes,
    p: int,
    options: Int64Array,
    decided: Float64Array,
    undecided: Int64Array,
    labels: Float64Array,
    runs: Int64Array,
    state: Int64Array,
    fault: Int64Array,
) -> int:
    """Parse the label at p, if any, and the query id. Return the position after them, or -1 after
    filling in `fault`.
    """
    fault[BAD_CODE], fault[BAD_TOKEN] = LABEL, p
    at, good, label = p, True, 0.0
    if options[UNLABELLED] == 0:
        p, good, label = scan_number(text, p)
    if good and math.isnan(label):
        label = _resolve(at, options[N_DECIDED], decided, undecided, state)
    if not good or math.isinf(label):
        return -1
    labels[state[slots.ROWS]] = label + 0.0  # -0 becomes 0
    while text[p] == BLANK or text[p] == TAB:
        p += 1
    fault[BAD_TOKEN] = p
    if (
        text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == COLON
    ):  # qid:
        fault[BAD_CODE] = QID if options[EXPECT_QID] == 1 else UNEXPECTED_QID
        q = _token_end(text, p)
        return q if options[EXPECT_QID] == 1 and _query(text, p + 4, q, runs, state) else -1
    fault[BAD_CODE] = NO_QID
    return p if options[EXPECT_QID] == 0 else -1


@inline
def _special(
    text: Bytes, p: int, q: int, state: Int64Array, fault: Int64Array
) -> tuple[bool, float]:
    """Return whether text[p:q] is a word for infinity or NaN, and its value."""
    if _is_word(text, p, q, _INF) or _is_word(text, p, q, _INFINITY):
        fault[BAD_CODE] = INFINITE
        return True, -math.inf if text[p] == MINUS else math.inf
    fault[BAD_CODE] = VALUE
    state[slots.MISSING] += 1
    return _is_word(text, p, q, _NAN), math.nan


@inline
def _cells(
    text: Bytes,
    p: int,
    options: Int64Array,
    tokens: Bytes,
    token_ends: Int64Array,
    decided: Float64Array,
    undecided: Int64Array,
    ids: Int32Array,
    values: Float32Array,
    state: Int64Array,
    fault: Int64Array,
) -> int:
    """Parse number:value pairs from p to the end of the row. Return the end, or -1 after filling in
    `fault`.
    """
    begin = cells = state[slots.CELLS]
    previous, top, beyond = -1, 0, 0
    disorder = 0  # 1 for a repeated number, 2 for a smaller one
    max_id, limit, n_tokens = options[MAX_ID], options[LIMIT], options[N_TOKENS]
    quick = min(max_id, _HEADS.size - 1) if n_tokens == 0 and p >= 16 else -1
    while True:
        # Fast path: consecutive numbers separated by one blank, and short values.
        first = number = previous + 1
        while number <= quick:
            size = 3 + (1 if number >= 10 else 0) + (1 if number >= 100 else 0)
            if word_at(text, p) & _HEAD_MASKS[size] != _HEADS[number]:
                break
            behind, good, value = scan_short(text, p + size)
            if not good:
                break
            ids[cells], values[cells] = number, value
            p, cells, number = behind, cells + 1, number + 1
        if number > first:
            previous = number - 1
            top, beyond = max(top, previous), beyond + max(0, previous - max(limit, first - 1))

        while text[p] == BLANK or text[p] == TAB:
            p += 1
        at, number = p, 0
        while is_digit(text[p]):
            number = number * 10 + (np.int64(text[p]) - 48)
            p += 1
        if text[p] != COLON or p == at:
            if p == at and ends_token(text, p):
                break
            fault[BAD_CODE], fault[BAD_TOKEN] = FEATURE, at
            return -1
        fault[BAD_TOKEN], fault[BAD_ID] = at, number
        if number > max_id or p - at > _MAX_ID_DIGITS:
            fault[BAD_CODE] = LARGE_ID
            return -1
        p += 1
        at, good, value = p, False, 0.0
        if quick >= 0:
            p, good, value = scan_short(text, p)
        if (
            not good
            and n_tokens > 0
            and _is_missing(text, p, _token_end(text, p), n_tokens, tokens, token_ends)
        ):
            p, value = _token_end(text, p), math.nan
            state[slots.MISSING] += 1
        elif not good:
            p, good, value = scan_number(text, p)
            fault[BAD_CODE] = OVERFLOW
            if not good:
                p = _token_end(text, at)
                good, value = _special(text, at, p, state, fault)
                if not good:
                    return -1
            elif math.isnan(value):
                value = _resolve(at, options[N_DECIDED], decided, undecided, state)
            if math.isinf(np.float32(value)):
                if options[INF] == INF_STOP:
                    return -1
                state[slots.INFINITIES] += 1
                if options[INF] == INF_MISSING:
                    state[slots.MISSING] += 1
                    value = math.nan
        ids[cells], values[cells] = number, value
        cells += 1
        if number <= previous:
            fault[BAD_CODE] = DUPLICATE if number == previous else DESCENDING
            if options[REPEATED] == REPEATED_STOP if number == previous else options[STRICT] == 1:
                return -1
            disorder = max(disorder, 1 if number == previous else 2)
        previous = number
        top = max(top, number)
        beyond += 1 if number > limit else 0

    if disorder > 0:
        _sort_cells(ids, values, begin, cells, options[REPEATED] != REPEATED_STOP)
        kept = begin
        for i in range(begin + 1, cells):
            if ids[i] > ids[kept]:
                kept += 1
                ids[kept], values[kept] = ids[i], values[i]
                continue
            if options[REPEATED] == REPEATED_STOP:
                fault[BAD_CODE], fault[BAD_ID] = DUPLICATE, ids[i]
                return -1
            beyond -= 1 if ids[i] > limit else 0
            if options[REPEATED] == REPEATED_LAST:
                values[kept] = values[i]
        state[slots.REPEATED_CELLS] += cells - kept - 1
        cells = kept + 1
        state[slots.DESCENDING_ROWS] += disorder - 1
        if state[slots.DESCENDING_LINE] == 0 and disorder == 2:
            state[slots.DESCENDING_LINE] = state[slots.LINES]
    if cells > begin and ids[begin] == 0:
        fault[BAD_CODE] = ZERO_ID
        if options[REFUSE_ZERO_ID] == 1:
            return -1
        if state[slots.ZERO_LINE] == 0:
            state[slots.ZERO_LINE] = state[slots.LINES]
    if top > state[slots.TOP_ID]:
        state[slots.TOP_ID], state[slots.TOP_LINE] = top, state[slots.LINES]
    state[slots.BEYOND] += beyond
    state[slots.CELLS] = cells
    return p


@inline
def _sort_cells(ids: Int32Array, values: Float32Array, begin: int, end: int, stable: bool) -> None:
    """Sort the values in a row by feature number, in place. Unsorted rows are rare, so a simple
    sort suffices.
    """
    for gap in _SORT_GAPS:
        if stable and gap > 1:
            continue
        for i in range(begin + gap, end):
            number, value, j = ids[i], values[i], i
            while j >= begin + gap and ids[j - gap] > number:
                ids[j], values[j] = ids[j - gap], values[j - gap]
                j -= gap
            ids[j], values[j] = number, value


@inline
def _line_end(text: Bytes, p: int) -> int:
    """Return the position of the line end after a comment, or -1 if the comment contains NUL or a
    lone return.
    """
    while text[p] != NEWLINE:
        if text[p] == 0:
            return -1
        if text[p] == RETURN:
            return p if text[p + 1] == NEWLINE else -1
        p += 1
    return p


@inline
def _next_line(text: Bytes, p: int) -> int:
    while text[p] != NEWLINE:
        p += 1
    return p + 1


@entry_point(types.void(B1, INT, I1, B1, I1, F1, I1, F1, I1, I1, N1, S1, I2, I2, I2, I1))
def parse_lines(
    buffer: Bytes,
    end: int,
    options_: Int64Array,
    tokens_: Bytes,
    token_ends_: Int64Array,
    decided_: Float64Array,
    undecided_: Int64Array,
    labels_: Float64Array,
    lines: Int64Array,
    row_ends: Int64Array,
    ids_: Int32Array,
    values_: Float32Array,
    runs_: Int64Array,
    comments: Int64Array,
    bad: Int64Array,
    state_: Int64Array,
) -> None:
    """Parse the lines of buffer[:end], followed by `files.PADDING`.

    Args:
        buffer: uint8 text, of which buffer[:end] consists of whole lines.
        options: int64[N_OPTIONS].
        tokens, token_ends: concatenated tokens for missing values, and the end of each token.
        decided: values of the first N_DECIDED numbers in `undecided`, from an earlier call.
        undecided: positions of numbers that Python must parse. If there are more than N_DECIDED,
            call again with their values. Output.
        labels, lines, row_ends: label, line from 1, and number of cells up to the end of each row.
            Output.
        ids, values: feature number and value of each cell, ascending within a row. Output.
        runs: first row of each query, N_RUN columns. Output.
        comments: start and end of each row's comment, if requested. Output.
        bad: the first BAD_KEPT refused rows, N_BAD columns. Without SKIP, parsing stops at the
            first row. Output.
        state: N_STATE counts. Output.
    """
    text, options, state = pointer_to(buffer), pointer_to(options_), pointer_to(state_)
    tokens, token_ends, labels = pointer_to(tokens_), pointer_to(token_ends_), pointer_to(labels_)
    decided, undecided = pointer_to(decided_), pointer_to(undecided_)
    ids, values, runs = pointer_to(ids_), pointer_to(values_), pointer_to(runs_)
    fault, saved = pointer_to(bad[0]), pointer_to(state_[slots.N_STATE :])
    p = 0
    while p < end:
        state[slots.LINES] += 1
        line_start = p
        while text[p] == BLANK or text[p] == TAB:
            p += 1
        is_row, tail = not ends_token(text, p), p
        if not is_row and text[p] != HASH:
            state[slots.BLANK_LINES] += 1
            p = _next_line(text, p)
            continue
        for i in range(slots.N_STATE):
            saved[i] = state[i]
        if is_row:
            tail = _head(text, p, options, decided, undecided, labels, runs, state, fault)
            if tail >= 0 and options[HEADS_ONLY] == 1:
                tail = _next_line(text, tail) - 1
            elif tail >= 0:
                tail = _cells(
                    text,
                    tail,
                    options,
                    tokens,
                    token_ends,
                    decided,
                    undecided,
                    ids,
                    values,
                    state,
                    fault,
                )
        p = tail
        if tail >= 0 and text[tail] == HASH:
            fault[BAD_CODE], fault[BAD_TOKEN] = COMMENT, tail
            p = _line_end(text, tail)
        if p >= end and p == tail and options[UNTERMINATED] == 1 and text[p - 1] == DOT:
            fault[BAD_CODE] = INCOMPLETE
            p = -1
        if p >= 0:
            if is_row:
                row = state[slots.ROWS]
                lines[row], row_ends[row] = state[slots.LINES], state[slots.CELLS]
                if options[KEEP_COMMENTS] == 1:
                    comments[row, 0], comments[row, 1] = tail, p
                state[slots.ROWS] = row + 1
            p = _next_line(text, p)
            continue
        for i in range(slots.N_STATE):  # undo everything that a refused row changed
            state[i] = saved[i]
        fault[BAD_LINE], fault[BAD_LINE_START] = state[slots.LINES], line_start
        state[slots.BAD_ROWS] += 1
        fault = pointer_to(bad[min(state[slots.BAD_ROWS], slots.BAD_KEPT)])
        if options[SKIP] == 0:
            return
        p = _next_line(text, line_start)
