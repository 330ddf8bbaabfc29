"""The slow, obvious twin of the libsvm reader: one line at a time, regular expressions, Python's
float.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
NAN = re.compile(rb"[+-]?nan\Z", re.IGNORECASE)
INF = re.compile(rb"[+-]?(inf|infinity)\Z", re.IGNORECASE)
CANONICAL = re.compile(rb"(0|-?[1-9]\d*)\Z")


class Refused(Exception):
    """The file cannot be read; `line` is the 1-based line, 0 for the whole file."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@dataclass
class Row:
    """One document as it stands in the file."""

    line: int
    label: float
    qid: str
    cells: dict[int, np.float32]
    name: str


@dataclass
class Parsed:
    """All documents; `bad` are the lines of the rows that were skipped."""

    rows: list[Row] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)

    @property
    def base(self) -> int:
        return 0 if any(0 in row.cells for row in self.rows) else 1

    def dense(self) -> np.ndarray:
        width = (
            max((number for row in self.rows for number in row.cells), default=self.base - 1)
            + 1
            - self.base
        )
        out = np.zeros((len(self.rows), width), np.float32)
        for i, row in enumerate(self.rows):
            for number, value in row.cells.items():
                out[i, number - self.base] = value
        return out

    def labels(self) -> np.ndarray:
        return np.array([row.label for row in self.rows])

    def qids(self) -> list:
        """One id a row: integers when all of them are canonical and fit in int64, else text."""
        names = [row.qid for row in self.rows]
        canonical = all(CANONICAL.match(n.encode()) and abs(int(n)) < 2**63 for n in names)
        return [int(n) for n in names] if canonical else names


def parse(
    text: bytes,
    *,
    missing_tokens: tuple[str, ...] = (),
    inf: str = "stop",
    max_feature: int = 2**24,
    skip: bool = False,
) -> Parsed:
    """Read a whole file with query ids.

    Raises:
        Refused: at the first line that the reader must refuse.
    """
    text = text.removeprefix(b"\xef\xbb\xbf")
    lines = text.split(b"\n")
    unterminated = lines[-1] != b""
    if not unterminated:
        lines.pop()
    parsed, seen, previous = Parsed(), {}, None
    for number, line in enumerate(lines, start=1):
        try:
            # A last line without its end may be cut within a number.
            row = parse_row(number, line, missing_tokens, inf, max_feature)
            if (
                row is not None
                and unterminated
                and number == len(lines)
                and line.endswith(b".")
                and b"#" not in line
            ):
                raise Refused(number)
        except Refused:
            if not skip:
                raise
            parsed.bad.append(number)
            continue
        if row is None:
            continue
        # A query is in one piece.
        if row.qid != previous and row.qid in seen:
            raise Refused(number)
        previous = row.qid
        seen[row.qid] = number
        parsed.rows.append(row)
    if not parsed.rows:
        raise Refused(0)
    return parsed


def parse_row(
    number: int, line: bytes, missing: tuple[str, ...], inf: str, max_feature: int
) -> Row | None:
    """The row on a line, None for a blank or comment line."""
    line = line.removesuffix(b"\r")
    if b"\r" in line or b"\0" in line:
        raise Refused(number)
    # A label, a query id and cells, then a comment.
    content, hash_, comment = line.partition(b"#")
    tokens = [token for token in re.split(rb"[ \t]+", content) if token]
    if not tokens:
        return None
    if not NUMBER.match(tokens[0]) or not np.isfinite(float(tokens[0])):
        raise Refused(number)
    if len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
        raise Refused(number)
    # Query ids are no floats, have no control characters, and are apart from comments.
    name = tokens[1][4:]
    glued = hash_ and len(tokens) == 2 and not content.endswith((b" ", b"\t"))
    if (
        not name
        or glued
        or any(c < 32 or c == 127 for c in name)
        or re.match(rb"[+-]?(\d+\.\d*|\.\d+)\Z", name)
    ):
        raise Refused(number)
    try:
        qid = name.decode()
    except UnicodeDecodeError:
        raise Refused(number) from None
    # No feature is there twice.
    cells: dict[int, np.float32] = {}
    for token in tokens[2:]:
        match = re.match(rb"(\d{1,18}):(.*)\Z", token, re.DOTALL)
        if not match or int(match[1]) > max_feature or int(match[1]) in cells:
            raise Refused(number)
        cells[int(match[1])] = parse_value(number, match[2], missing, inf)
    return Row(
        number,
        float(tokens[0]) + 0.0,
        qid,
        cells,
        name_in(comment.decode("utf-8", "backslashreplace")),
    )


def name_in(comment: str) -> str:
    """The name of a document in the comment of its row."""
    if "docid" in comment:
        after = re.split(r"docid[ \t]*=[ \t]*(?=[^ \t])", comment, maxsplit=1)
        if len(after) == 2:
            return re.split(r"[ \t]", after[1])[0]
    return next(iter(comment.lstrip("#").split()), "")


def parse_value(number: int, token: bytes, missing: tuple[str, ...], inf: str) -> np.float32:
    if token in {m.encode() for m in missing} or NAN.match(token):
        return np.float32(np.nan)
    if not (INF.match(token) or NUMBER.match(token)):
        raise Refused(number)
    with np.errstate(over="ignore"):
        value = np.float32(float(token))  # infinite also beyond float32
    if not np.isinf(value):
        return value
    if inf == "stop":
        raise Refused(number)
    return np.float32(np.nan) if inf == "missing" else value
