"""Messages about refused rows: the token and a remedy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from boostrank.core.errors import FileFormatError
from boostrank.data.blocks import BEYOND_FLOAT32, Fault
from boostrank.data.text import parser as parse
from boostrank.data.text.files import Text

# What people and tools write where a value is missing.
STAND_INS = frozenset(
    b"null na n/a ? none - nil missing \\n #n/a <na> nat . #div/0! #value! #num! #ref! #name? 1.#qnan 1.#ind".split()
)

NO_ROWS = "no rows: the file is empty or contains only comments"

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_NAMED = re.compile(rb"[^\W\d][^\s:]*:[-+.\d]\S*")
_TO_TABLE = (
    'import sys, pandas; rows = [line.split("#")[0].split() for line in open(sys.argv[1])]; '
    'pandas.DataFrame([dict([("label", row[0])] + [cell.rsplit(":", 1) for cell in row[1:]]) for row in rows if row])'
    ".fillna(0).to_csv(sys.argv[2], index=False)"
)
_CELL = re.compile(rb"(^|[ \t])(qid|\d+):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 40


_RULES = (
    (parse.LABEL, rb"(?i)[+-]*(nan|inf|infinity)\Z", "label {token} is not finite"),
    (parse.LABEL, _NUMBER.pattern, "label {token} exceeds the range of float64"),
    (parse.LABEL, rb"qid:|\d+:", "the row starts with {token}: its label is missing"),
    (parse.LABEL, rb".*,", "label {token} is not a single number; several labels per row are not supported"),
    (parse.LABEL, rb"", "label {token} is not a number"),
    (
        parse.NO_QID,
        rb"",
        "the row has no qid: write qid:ID after the label (or, for all rows, group sizes in FILE.query)",
    ),
    (
        parse.UNEXPECTED_QID,
        rb"",
        "{token}: the first rows of the file have no qid; either all rows must have one, or none",
    ),
    (parse.QID, rb"qid:\Z", "qid: has no id after the colon"),
    (parse.QID, rb".*#", "qid {value}: put a blank before the comment, or take '#' out of the id"),
    (parse.QID, rb"qid:" + _NUMBER.pattern, "qid {value} is not an integer; ids must be integers or text"),
    (parse.QID, rb"", "qid {value} contains control characters, or is not UTF-8"),
    (parse.FEATURE, rb"qid:", "{token}: a second qid in the row, or not directly after the label"),
    (parse.FEATURE, rb"[^:]*\Z", "{token} is not number:value (no colon)"),
    (parse.FEATURE, rb":", "{token}: no feature number before the colon"),
    (parse.FEATURE, rb"-\d+:", "feature number {number} is negative"),
    (parse.FEATURE, rb"", "feature number {number} is not a whole number"),
    (parse.ZERO_ID, rb"", "feature 0 in a 1-based file; use --zero-based true if it is 0-based"),
    (parse.LARGE_ID, rb"", "feature number {number} is above {most:,}; raise --max-feature if it is correct"),
    (parse.DUPLICATE, rb"", "feature {feature} occurs twice in the row; --repeated first (or last) keeps one"),
    (parse.DESCENDING, rb"", "feature {feature} follows a larger number; --strict needs ascending ones"),
    (parse.INCOMPLETE, rb"", "{token}: the last line ends inside a number, without a newline: the file is truncated"),
    (parse.INFINITE, rb"", "value {value} of feature {feature} is infinite; use --inf keep or --inf missing"),
    (parse.OVERFLOW, rb"", "value {value} of feature {feature} " + BEYOND_FLOAT32),
    (parse.VALUE, rb"[^:]*:\Z", "feature {feature} has no value after the colon"),
    (
        parse.VALUE,
        rb".*:[+-]?\d+,\d+\Z",
        "value {value} of feature {feature} is not a number: write a decimal point, not a comma",
    ),
    (parse.VALUE, rb"", "value {value} of feature {feature} is not a number"),
)
"""Code of the parser, pattern of the token, words: the first that fits."""


def shown(token: bytes) -> str:
    """Format a token for messages: printable, quoted, shortened."""
    text = token if len(token) <= _LONGEST else token[:_LONGEST] + b"..."
    return "'" + _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.decode("ascii", "backslashreplace")) + "'"


def fault_of(
    bad: Sequence[int],
    text: Text,
    *,
    max_feature: int = 0,
    like_training: bool = False,
    of_model: tuple[int, int] | None = None,
) -> Fault:
    """Return the reason why a row is refused, with its byte position.

    Args:
        bad: N_BAD numbers of the parser.
        like_training: whether the training data define the first feature number.
        of_model: numbers of the model's first and last feature, for scoring.
    """
    begin, code, feature = bad[parse.BAD_LINE_START], bad[parse.BAD_CODE], bad[parse.BAD_ID]
    end = text.buffer.index(b"\n", begin)
    line, at = bytes(text.buffer[begin:end]), bad[parse.BAD_TOKEN] - begin
    token = re.split(rb"[ \t\n]", line[at:], maxsplit=1)[0]
    general = _general(line[at:] if code == parse.COMMENT else token, code)
    if general is not None:
        return Fault(bad[parse.BAD_LINE], general[0], at + general[1] + 1)
    token = token.split(b"#", 1)[0].removesuffix(b"\r") if code != parse.QID else token.removesuffix(b"\r")
    number, _, value = token.partition(b":")
    parts = {"token": shown(token), "number": shown(number), "value": shown(value), "feature": feature}
    words = next(words for of, like, words in _RULES if of == code and re.match(like, token))
    words = words.format(**parts, most=max_feature)
    stand_in = None
    if code == parse.VALUE and value.lower() in STAND_INS:
        stand_in = value.decode(), at + len(number) + 2
        words += f": if it stands for a missing value, --missing-token {shlex.quote(stand_in[0])} reads it as one"
    if code != parse.INCOMPLETE and end >= text.end and at + len(token) >= len(line.rstrip()):
        words += "; the last line has no newline: the file may be truncated"
    if code == parse.DUPLICATE:
        places = [m.start(1) for m in re.finditer(rb"[ \t](0*%d):" % feature, line)]
        at = places[1] if len(places) > 1 else at
    if code == parse.LARGE_ID and of_model is not None:
        words = f"feature {feature}, but the model has the features {of_model[0]} to {of_model[1]}"
        if feature == of_model[1] + 1 and of_model[0] == 0:
            words += ": does the file count from 1? It must count from 0, like the model's files"
        else:
            words += ": do the data match its training data?"
    if code == parse.ZERO_ID:
        zero = re.search(rb"[ \t](0+):", line)
        at = zero.start(1) if zero else at
        if like_training:
            words = (
                "feature 0: the file counts from 0, but the training data from 1 (the default of arrays); "
                "use --zero-based true if the training data was an array"
            )
    return Fault(bad[parse.BAD_LINE], words, at + 1, stand_in)


def _general(rest: bytes, code: int) -> tuple[str, int] | None:
    """Return errors of bytes that are invalid anywhere, with their place."""
    if b"\0" in rest:
        return "NUL byte: the file is damaged, or not text", rest.index(b"\0")
    if rest.startswith(b"\xef\xbb\xbf"):
        return "byte order mark inside the file, perhaps from concatenated files; remove it", 0
    lone = re.search(rb"\r(?!\Z)", rest)
    if lone:
        words = (
            "carriage return without a line feed: the lines end in CR alone (convert: tr '\\r' '\\n') or the file is "
        )
        return words + "damaged", lone.start()
    if code not in (parse.QID, parse.COMMENT) and not rest.isascii():
        return f"{shown(rest)} has characters outside ASCII: numbers are written with 0-9", 0
    return None


def separator_in(head: bytes) -> bytes:
    """Return the separator if a text with this beginning has a header of column names; else b""."""
    line = head.partition(b"\n")[0].removesuffix(b"\r")
    if line.lstrip().startswith(b"#") or _CELL.search(line):
        return b""
    for separator in (b"\t", b","):
        cells = [cell.strip().strip(b'"') for cell in line.split(separator)]
        if len(cells) > 1 and all(cells) and not any(map(_NUMBER.match, cells)):
            return separator
    return b""


def check_no_names(head: bytes, file: str) -> None:
    """Refuse feature names in place of numbers, `bm25:0.3`, with a command that makes a table."""
    lines = enumerate(head.split(b"\n"), 1)
    number, line = next(
        ((i, line) for i, line in lines if line.strip() and not line.lstrip().startswith(b"#")), (0, b"")
    )
    cells = [cell for cell in line.split(b"#")[0].split()[1:] if not cell.startswith(b"qid:")]
    if cells and all(map(_NAMED.fullmatch, cells)):
        source, target = (shlex.quote(name) for name in (file, f"{file}.csv"))
        words = f"{shown(cells[0])}: libsvm text needs feature numbers, but tables have names: python -c '{_TO_TABLE}' "
        raise FileFormatError(f"{words}{source} {target} writes one", file=file, line=number)


def check_no_table(head: bytes, file: str) -> None:
    """Refuse a table that was passed as libsvm text."""
    found, line = separator_in(head), head.partition(b"\n")[0]
    if not found and b"," in line and not _CELL.search(line) and not line.lstrip().startswith(b"#"):
        is_csv = len(line.strip().split(b",")) > 2 and b" " not in line.strip()
        found = b"," if is_csv else b""
    if found:
        kind = "csv" if found == b"," else "tsv"
        words = f"this looks like {kind.upper()}: {shown(line)}; use --format {kind}"
        raise FileFormatError(words, file=file, line=1)
