"""Reasons why a row is refused, in words: the token, and what mends it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from boostrank.core.errors import FileFormatError
from boostrank.data.libsvm import parser as parse
from boostrank.data.libsvm.chunks import Text

# What people and tools write where a value is missing.
STAND_INS = frozenset({b"null", b"na", b"n/a", b"?", b"none", b"-", b"nil", b"missing", b"\\n", b"#n/a"})

NO_ROWS = "no rows: the file is empty or holds nothing but comments"

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_CELL = re.compile(rb"(^|[ \t])(qid|\d+):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 40


def shown(token: bytes) -> str:
    """The token as a message shows it: printable, quoted, shortened."""
    text = token if len(token) <= _LONGEST else token[:_LONGEST] + b"..."
    return "'" + _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.decode("ascii", "backslashreplace")) + "'"


@dataclass
class BadRow:
    """A refused row: its code and 1-based line in the chunk, that line, the token's place in it, a feature number for
    codes that have one, whether the line ended in a newline."""

    code: int
    line: int
    text: bytes
    at: int
    feature: int
    terminated: bool

    @classmethod
    def of(cls, fault: Sequence[int], text: Text) -> BadRow:
        """From the N_BAD numbers that the parser notes of it."""
        begin = fault[parse.BAD_LINE_START]
        end = text.buffer.index(b"\n", begin)
        return cls(fault[parse.BAD_CODE], fault[parse.BAD_LINE], bytes(text.buffer[begin:end]),
                   fault[parse.BAD_TOKEN] - begin, fault[parse.BAD_ID], terminated=end < text.end)  # fmt: skip

    def error(self, file: str, lines: int, *, max_feature: int = 0, like_training: bool = False) -> FileFormatError:
        """Why the row is refused, in words, and the byte that they are about.

        Args:
            file, lines: the file's name, and how many of its lines come before the chunk.
            max_feature: the limit that was in force.
            like_training: whether the counting of features comes from the training data.
        """
        line, at, code = self.text, self.at, self.code
        token = re.split(rb"[ \t\n]", line[at:], maxsplit=1)[0]
        general = _general(line, at, token, code)
        if general is not None:
            return FileFormatError(general[0], file=file, line=lines + self.line, column=general[1] + 1)
        token = token.split(b"#", 1)[0].removesuffix(b"\r") if code != parse.QID else token.removesuffix(b"\r")
        words = _specific(code, line, at, token, self.feature, max_feature)
        if code != parse.INCOMPLETE and not self.terminated and at + len(token) >= len(line.rstrip()):
            words += "; the last line has no newline: the file may be truncated"
        if code == parse.DUPLICATE:
            places = [m.start(1) for m in re.finditer(rb"[ \t](0*%d):" % self.feature, line)]
            at = places[1] if len(places) > 1 else at
        if code == parse.ZERO_ID:
            zero = re.search(rb"[ \t](0+):", line)
            at = zero.start(1) if zero else at
            if like_training:
                words = "feature 0, but the training data is 1-based: both files must count their features alike"
        return FileFormatError(words, file=file, line=lines + self.line, column=at + 1)


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
        parse.DUPLICATE: f"feature {feature} stands twice in the row",
        parse.DESCENDING: f"feature {feature} stands behind a larger number: --strict wants ascending ones",
        parse.INCOMPLETE: f"{word}: the last line ends inside a number, without a newline: the file is truncated",
        parse.INFINITE: f"{cell} is infinite: --inf keep or --inf missing reads it",
        parse.OVERFLOW: f"{cell} does not fit in float32 (largest 3.4028235e38): rescale it",
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


def table_in(head: bytes) -> str | None:
    """csv or tsv, if the text that begins so has a line with names of columns in front; None if it has not."""
    line = head.partition(b"\n")[0].removesuffix(b"\r")
    if line.lstrip().startswith(b"#") or _CELL.search(line):
        return None
    for name, separator in (("tsv", b"\t"), ("csv", b",")):
        cells = [cell.strip().strip(b'"') for cell in line.split(separator)]
        if len(cells) > 1 and all(cells) and not any(map(_NUMBER.match, cells)):
            return name
    return None


def check_no_table(head: bytes, file: str) -> None:
    """Refuse a table that is given as libsvm text.

    Raises:
        FileFormatError: it looks so.
    """
    kind = table_in(head)
    line = head.partition(b"\n")[0]
    if kind is None and b"," in line and not _CELL.search(line) and not line.lstrip().startswith(b"#"):
        cells = line.strip().split(b",")
        kind = "csv" if len(cells) > 2 and b" " not in line.strip() else None
    if kind is not None:
        words = (
            f"this looks like {kind.upper()}: {shown(line)}, give --format {kind} (tools, as sort, take libsvm alone)"
        )
        raise FileFormatError(words, file=file, line=1)
