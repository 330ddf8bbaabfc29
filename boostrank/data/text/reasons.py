"""Reasons why a row is refused, in words: the token, and what mends it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from boostrank.core.errors import FileFormatError
from boostrank.data.blocks import BEYOND_FLOAT32, Fault
from boostrank.data.text import parser as parse
from boostrank.data.text.files import Text

# What people and tools write where a value is missing.
STAND_INS = frozenset({b"null", b"na", b"n/a", b"?", b"none", b"-", b"nil", b"missing", b"\\n", b"#n/a"})

NO_ROWS = "no rows: the file is empty or holds nothing but comments"

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


def shown(token: bytes) -> str:
    """The token as a message shows it: printable, quoted, shortened."""
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
    """Say why a row is refused, in words, and at which byte.

    Args:
        bad: the N_BAD numbers that the parser notes about it.
        text: the chunk.
        max_feature: the limit in force.
        like_training: whether the training data decide from which number features count.
        of_model: numbers of the first and the last feature of the model that will score the row.
    """
    begin, code, feature = bad[parse.BAD_LINE_START], bad[parse.BAD_CODE], bad[parse.BAD_ID]
    end = text.buffer.index(b"\n", begin)
    line, at = bytes(text.buffer[begin:end]), bad[parse.BAD_TOKEN] - begin
    token = re.split(rb"[ \t\n]", line[at:], maxsplit=1)[0]
    general = _general(line, at, token, code)
    if general is not None:
        return Fault(bad[parse.BAD_LINE], general[0], general[1] + 1)
    token = token.split(b"#", 1)[0].removesuffix(b"\r") if code != parse.QID else token.removesuffix(b"\r")
    words = _specific(code, line, at, token, feature, max_feature)
    if code != parse.INCOMPLETE and end >= text.end and at + len(token) >= len(line.rstrip()):
        words += "; the last line has no newline: the file may be truncated"
    if code == parse.DUPLICATE:
        places = [m.start(1) for m in re.finditer(rb"[ \t](0*%d):" % feature, line)]
        at = places[1] if len(places) > 1 else at
    if code == parse.LARGE_ID and of_model is not None:
        words = f"feature {feature}, but the model has the features {of_model[0]} to {of_model[1]}"
        if feature == of_model[1] + 1 and of_model[0] == 0:
            words += ": does the file count from 1? It must count from 0, as the model's own files do"
        else:
            words += ": is this data what it was trained on?"
    if code == parse.ZERO_ID:
        zero = re.search(rb"[ \t](0+):", line)
        at = zero.start(1) if zero else at
        if like_training:
            words = (
                "feature 0: the file counts from 0, the training data from 1; if that was an array, where 1 is taken "
                "when nothing is said, --zero-based true reads the file"
            )
    word = token.partition(b":")[2] if code == parse.VALUE else b""
    stand_in = (word.decode(), at + token.index(b":") + 2) if word.lower() in STAND_INS else None
    return Fault(bad[parse.BAD_LINE], words, at + 1, stand_in)


def _general(line: bytes, at: int, token: bytes, code: int) -> tuple[str, int] | None:
    """What is wrong with the bytes themselves, wherever they stand."""
    rest = line[at:] if code == parse.COMMENT else token
    if b"\0" in rest:
        return "NUL byte: the file is damaged, or not text", at + rest.index(b"\0")
    if token.startswith(b"\xef\xbb\xbf"):
        return "byte order mark inside the file: were files with marks concatenated? Remove it", at
    lone = re.search(rb"\r(?!\Z)", rest)
    if lone:
        return (
            "carriage return without a line feed: the lines end in CR alone (convert: tr '\\r' '\\n') or the file is "
            "damaged",
            at + lone.start(),
        )
    if code not in (parse.QID, parse.COMMENT) and any(byte > 127 for byte in token):
        return f"{shown(token)} has characters outside ASCII: numbers are written with 0-9", at
    return None


def _specific(code: int, line: bytes, at: int, token: bytes, feature: int, max_feature: int) -> str:
    number, value, word = shown(token.split(b":")[0]), token.split(b":", 1)[-1], shown(token)
    cell = f"value {shown(value)} of feature {feature}"
    words = {
        parse.LABEL: _label(token),
        parse.NO_QID: "the row has no qid: write qid:ID behind the label (or, for all rows, group sizes into "
        "FILE.query)",
        parse.UNEXPECTED_QID: f"{word}: the first rows of the file have no qid; every row needs one, or none",
        parse.QID: _qid(token[4:]),
        parse.FEATURE: _feature(line, at, token),
        parse.ZERO_ID: "feature 0 in a file that is read as 1-based: --zero-based true reads it as 0-based",
        parse.LARGE_ID: f"feature number {number} is above {max_feature:,}: raise --max-feature if it is right",
        parse.DUPLICATE: f"feature {feature} stands twice in the row: --repeated first (or last) keeps one",
        parse.DESCENDING: f"feature {feature} stands behind a larger number: --strict wants ascending ones",
        parse.INCOMPLETE: f"{word}: the last line ends inside a number, without a newline: the file is truncated",
        parse.INFINITE: f"{cell} is infinite: --inf keep or --inf missing reads it",
        parse.OVERFLOW: f"{cell} {BEYOND_FLOAT32}",
    }
    return words.get(code) or _value(value, feature)


def _label(token: bytes) -> str:
    word = token.lstrip(b"+-").lower()
    if word in (b"nan", b"inf", b"infinity"):
        return f"label {shown(token)} is not a finite number"
    if _NUMBER.match(token):
        return f"label {shown(token)} does not fit in float64"
    if token.startswith(b"qid:") or re.match(rb"\d+:", token):
        return f"the row starts with {shown(token)}: its label is missing"
    if b"," in token:
        return f"label {shown(token)} is not one number: a row has one label (several labels are not read)"
    return f"label {shown(token)} is not a number"


def _qid(name: bytes) -> str:
    if not name:
        return "qid: has no id behind the colon"
    if b"#" in name:
        return f"qid {shown(name)}: put a blank before the comment, or take '#' out of the id"
    if _NUMBER.match(name):
        return f"qid {shown(name)} is not a whole number: ids are whole numbers or text"
    return f"qid {shown(name)} holds control characters, or is not UTF-8"


def _feature(line: bytes, at: int, token: bytes) -> str:
    if token.startswith(b"qid:"):
        second = re.search(rb"[ \t]qid:", line[:at])
        return f"{shown(token)}: " + ("a second qid in the row" if second else "the qid belongs right behind the label")
    number, colon, _ = token.partition(b":")
    if not colon:
        return f"{shown(token)} is not number:value (no colon)"
    if not number:
        return f"{shown(token)}: no feature number before the colon"
    if re.match(rb"-\d+\Z", number):
        return f"feature number {shown(number)} is negative"
    return f"feature number {shown(number)} is not a whole number"


def _value(value: bytes, feature: int) -> str:
    if not value:
        return f"feature {feature} has no value behind the colon"
    if value.lower() in STAND_INS:
        word = value.decode("ascii")
        return (
            f"value {shown(value)} of feature {feature} is not a number: if it stands for a missing value, "
            f"--missing-token {word if word.isalpha() else repr(word)} reads it as one"
        )
    hint = ""
    if re.match(rb"[+-]?\d+,\d+\Z", value):
        hint = ": write a decimal point, not a comma"
    return f"value {shown(value)} of feature {feature} is not a number{hint}"


def separator_in(head: bytes) -> bytes:
    """Return the separator if text that begins like this has a first line of column names, else nothing."""
    line = head.partition(b"\n")[0].removesuffix(b"\r")
    if line.lstrip().startswith(b"#") or _CELL.search(line):
        return b""
    for separator in (b"\t", b","):
        cells = [cell.strip().strip(b'"') for cell in line.split(separator)]
        if len(cells) > 1 and all(cells) and not any(map(_NUMBER.match, cells)):
            return separator
    return b""


def check_no_names(head: bytes, file: str) -> None:
    """Refuse rows whose features have names in place of numbers, `bm25:0.3`, with the way to a table.

    Raises:
        FileFormatError: the first row is such a one.
    """
    lines = enumerate(head.split(b"\n"), 1)
    number, line = next(
        ((i, line) for i, line in lines if line.strip() and not line.lstrip().startswith(b"#")), (0, b"")
    )
    cells = [cell for cell in line.split(b"#")[0].split()[1:] if not cell.startswith(b"qid:")]
    if cells and all(map(_NAMED.fullmatch, cells)):
        source, target = (shlex.quote(name) for name in (file, f"{file}.csv"))
        words = f"{shown(cells[0])}: libsvm text numbers its features, a table names them: python -c '{_TO_TABLE}' "
        raise FileFormatError(f"{words}{source} {target} writes one", file=file, line=number)


def check_no_table(head: bytes, file: str) -> None:
    """Refuse a table that is given as libsvm text.

    Raises:
        FileFormatError: it looks so.
    """
    found, line = separator_in(head), head.partition(b"\n")[0]
    if not found and b"," in line and not _CELL.search(line) and not line.lstrip().startswith(b"#"):
        is_csv = len(line.strip().split(b",")) > 2 and b" " not in line.strip()
        found = b"," if is_csv else b""
    if found:
        kind = "csv" if found == b"," else "tsv"
        words = f"this looks like {kind.upper()}: {shown(line)}, give --format {kind}; tools take libsvm alone"
        raise FileFormatError(words, file=file, line=1)
