"""NumPy parser for small, regular text. Compiling `parser.parse_lines` takes longer than reading a few megabytes.

It gives the result of the compiled parser, or none: irregular text is left to that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from boostrank.core.types import Int64Array
from boostrank.data import blocks as slots
from boostrank.data.text import parser as parse

if TYPE_CHECKING:
    from boostrank.data.text.files import Text

BUDGET = 12 << 20
"""Bytes that a process parses this way before it compiles the parser."""

_NUMBER = rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?"
_ROW = re.compile(rb"%b qid:(0|[1-9][0-9]{0,17})(?: [0-9]{1,9}:%b)* *" % (_NUMBER, _NUMBER))
_COMMENT = re.compile(rb" *#[^\n\r\0]*")

_spent = 0


def parse_plain(source: Text, options: Int64Array, out: Any) -> bool:
    """Write the output of `parse_lines` to `Scratch`, but no positions of query ids; return False for irregular text."""
    global _spent
    if _spent + source.size > BUDGET or parse.parse_lines.at_hand:
        return False
    text = bytes(source.buffer[source.start : source.end]).replace(b"\r\n", b"\n")
    comments = b"#" in text
    if options[parse.EXPECT_QID] == 0 or options[parse.N_TOKENS] > 0 or (comments and options[parse.KEEP_COMMENTS]):
        return False
    _spent += source.size
    if comments:
        text = _COMMENT.sub(b"", text)
    lines = text.removesuffix(b"\n").split(b"\n")
    found = [match[1] for line in lines if (match := _ROW.fullmatch(line))]
    if len(found) < len(lines):
        return False
    sizes = np.array([line.count(b":") - 1 for line in lines])
    ends = np.cumsum(sizes)
    numbers = np.fromstring(text.replace(b" qid:", b" ").replace(b":", b" "), sep=" ")
    heads = 2 * (ends - sizes + np.arange(sizes.size))
    is_cell = np.ones(numbers.size, bool)
    is_cell[heads] = is_cell[heads + 1] = False
    labels, pairs = numbers[heads], numbers[is_cell].reshape(-1, 2)
    ids = pairs[:, 0].astype(np.int32)
    with np.errstate(over="ignore"):
        values = pairs[:, 1].astype(np.float32)
    steps = np.diff(ids, prepend=-1)
    steps[(ends - sizes)[sizes > 0]] = 1
    top = int(ids.max(initial=0))
    zero = np.flatnonzero(ids == 0)[:1]
    if (
        not (np.isfinite(labels).all() and np.isfinite(values).all() and (steps > 0).all())
        or not 0 < top <= options[parse.MAX_ID]
        or (zero.size and options[parse.REFUSE_ZERO_ID] == 1)
    ):
        return False
    queries = np.array(found, np.int64)
    first = np.flatnonzero(np.diff(queries, prepend=queries[0] - 1))
    rows, cells, state = len(lines), ids.size, out.state
    out.labels[:rows], out.row_ends[:rows] = labels + 0.0, ends
    out.lines[:rows] = np.arange(1, rows + 1)
    out.ids[:cells], out.values[:cells] = ids, values
    out.runs[: first.size] = 0
    out.runs[: first.size, slots.RUN_ROW], out.runs[: first.size, slots.RUN_LINE] = first, first + 1
    out.runs[: first.size, slots.RUN_IS_INTEGER], out.runs[: first.size, slots.RUN_ID] = 1, queries[first]
    state[slots.ROWS], state[slots.LINES], state[slots.CELLS], state[slots.RUNS] = rows, rows, cells, first.size
    state[slots.BEYOND] = np.count_nonzero(ids > options[parse.LIMIT])
    state[slots.TOP_ID], state[slots.TOP_LINE] = top, np.searchsorted(ends, ids.argmax(), "right") + 1
    state[slots.ZERO_LINE] = np.searchsorted(ends, zero[0], "right") + 1 if zero.size else 0
    return True
