"""Values of documents by query, such as judgements, qrels and runs, in files of any form, data
frames and mappings.

| form | lines, columns or keys |
|---|---|
| TREC qrels, MS MARCO | `query 0 document grade`, or `query document grade` |
| TREC run | `query Q0 document rank score tag` |
| MS MARCO run | `query document rank` |
| RankLib, Quepid | `4 qid:1 # 7555`, with `# qid:1: red shoe` |
| tables (BEIR, ranx, PyTerrier, Quepid), frames | columns with the names in `NAMES` |
| JSON, JSON lines, mappings | see `boostrank.files.json_judgements` |
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import itemgetter
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, FileFormatError, ParameterError, warn_user
from boostrank.core.files import foreign_kind, path_of
from boostrank.core.text import NUMBER, as_name, count_of, no_number, number_in
from boostrank.core.types import Int64Array
from boostrank.data.roles import DEFAULTS, plain_name, usual_column
from boostrank.files.blocks import Fault
from boostrank.files.chunks import first_line, lines_of, quote_token
from boostrank.files.json_judgements import entries_of, is_json, json_of
from boostrank.files.names import name_in, words_in
from boostrank.files.source import Reading, format_of, size_of
from boostrank.files.tables import Batch, batches, header_of, query_name

NAMES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "qid": (*DEFAULTS["qid"], ("q_id", "topic", "topic_id"), ("query_text", "query_string")),
    "id": (
        ("docno",),
        *DEFAULTS["id"],
        ("corpus_id", "pid", "passage_id", "asin"),
        ("id",),
        ("_id",),
    ),
    "label": (*DEFAULTS["label"], ("rel", "judgement", "judgment", "gain"), ("score",)),
    "score": (("score",), ("_score",), ("prediction", "pred", "y_pred")),
    "rank": (("rank",),),
}
"""Recognised names of columns, as in `boostrank.data.roles.DEFAULTS`."""

_FORMS: Mapping[str, Mapping[int, Callable[[list[str]], Any]]] = {
    "grade": {4: itemgetter(0, 2, 3), 3: itemgetter(0, 1, 2)},
    "score": {6: itemgetter(0, 2, 4), 3: itemgetter(0, 1, 2)},
}
_VALUES = {"grade": ("label",), "score": ("score", "rank"), "feature": ()}
_OF_RANKS = 3  # columns of a run without scores
_WORDS = {
    "grade": (
        "`query 0 document grade` (TREC), `query document grade`, or `grade qid:ID # document`"
    ),
    "score": "`query Q0 document rank score tag` (TREC), or `query document rank` (MS MARCO)",
}
_RANKLIB = re.compile(r"\s*(\S+)\s+qid:(\S*)")
_MISSING = re.compile(r"([+-]?nan|<NA>|None)?", re.IGNORECASE)
_LARGEST = 2**31
_BEGINNING = 1000  # bytes that tell what another file is


Roles = Mapping[str, str]
"""Names of columns by role."""
Problems = dict[str, tuple[int, str]]
"""Numbers of rows and the first place by problem; see `boostrank.files.join.Joined`."""


class Values(dict[str, dict[str, float]]):
    """Score or grade of each document, by query and document."""


@dataclass
class DocumentRows:
    """Rows of documents, which a file, a frame or a mapping lists by query.

    Args:
        value_name: grade, score or feature.
        qids, names, lines: query id, document name and line (or row) of each row.
        values: grades, or scores in a run, with NaN for rows without one.
        table: other columns.
        columns: names of the columns `qid`, `id` and of the values in a table.
        negative: rows of TREC qrels with a negative grade.
        query_texts: query text by query id.
        problems: see `boostrank.files.join.Joined`.
    """

    file: str
    value_name: str = "grade"
    columns: Roles = field(default_factory=dict)
    qids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    values: Any = field(default_factory=lambda: array("d"))
    table: Any = None
    by_row: bool = False
    negative: list[int] = field(default_factory=list)
    query_texts: dict[str, str] = field(default_factory=dict)
    problems: Problems = field(default_factory=dict)

    def add(self, qid: Any, name: Any, line: int) -> None:
        """Append a row without a value."""
        self.qids.append(query_name(as_name(qid)))
        self.names.append(as_name(name))
        self.lines.append(line)

    def add_value(self, cell: Any, *, missing: bool = True) -> None:
        """Append the number in a cell, which may be missing, for the first row without a value."""
        row, text = len(self.values), str(cell).strip()
        text = {"true": "1", "false": "0"}.get(text.lower(), text)
        value = number_in(text)
        if value != value and not (missing and _MISSING.fullmatch(text)):
            reason = no_number(text, "write a number, or leave the row out")
            raise self.refuse(row, f"the {self.value_name} of {self.phrase(row)}, {reason}")
        self.values.append(value)
        if not self.qids[row].strip() or not self.names[row].strip():
            raise self.refuse(row, "the query or the document has no name; write both")

    def add_names(self, batch: Batch) -> None:
        """Append the names in a table, without values."""
        self.by_row = batch.by_row
        for role, names in (("qid", self.qids), ("id", self.names)):
            if role not in self.columns:
                continue
            batch_names = batch.names(self.columns[role]).tolist()
            names += map(query_name, batch_names) if role == "qid" else batch_names
        self.lines += (batch.lines + batch.first).tolist()

    def phrase(self, row: int) -> str:
        """Return the document of a row, for messages."""
        return f"document {self.names[row]!r} of query {self.qids[row]!r}"

    def refuse(self, row: int, reason: str) -> FileFormatError:
        """Return the error about a row, which is counted from 0."""
        return Fault(self.lines[row], reason).error(self.file, 0, by_row=self.by_row)


def place_of(all_rows: Sequence[DocumentRows], row_numbers: Sequence[int] | Int64Array) -> str:
    """Format the first of some rows as `FILE:line: document '7555' of query 'red shoe'`, or as ""
    if there are none."""
    for i in row_numbers[:1]:
        for rows in all_rows:
            if i < len(rows.qids):
                return str(rows.refuse(i, rows.phrase(i)))
            i -= len(rows.qids)
    return ""


def count_rows(
    all_rows: Sequence[DocumentRows], row_numbers: Sequence[int] | Int64Array
) -> tuple[int, str]:
    """Return the number of some rows, and the place of the first; see `place_of`."""
    return len(row_numbers), place_of(all_rows, row_numbers)


def values_by_query(source: Any, roles: Any = None, *, run: bool = False) -> Values:
    """Return the grade (or the score in a run) of each document by query. Documents without a grade
    are left out.

    Args:
        source: a path, a data frame, or a mapping such as {"q1": {"d1": 2}}.
        roles: names of the columns `label`, `qid` and `id` in tables.

    Raises:
        FileFormatError: the source cannot be read, or lists a document twice. The message has the
            line.
    """
    if isinstance(source, Values):
        return source
    rows, values = read_rows(source, Reading(**(roles or {})), run=run), Values()
    for row, (qid, name, value) in enumerate(
        zip(rows.qids, rows.names, rows.values.tolist(), strict=True)
    ):
        of_query = values.setdefault(qid, {})
        if name in of_query:
            raise rows.refuse(row, f"{rows.phrase(row)} is listed twice; keep one of the lines")
        of_query[name] = value
    count, location = rows.problems["unrated"]
    if count:
        warn_user(f"{count_of(count, 'document')} without a grade left out; first: {location}")
    return values


def read_rows(source: Any, reading: Reading | None = None, *, run: bool = False) -> DocumentRows:
    """Read judgements, or a run, in any form. Rows without a grade are left out, and counted in
    `problems`.

    Args:
        source: see `values_by_query`.
        reading: options for tables, of which `label`, `qid`, `id` and `missing_tokens` are used.

    Raises:
        FileFormatError: the source cannot be read, or a score is missing. The message has the line.
    """
    kind_of_rows, value_name = ("run", "score") if run else ("judgements", "grade")
    path = path_of(source)
    rows = DocumentRows(path or f"the {kind_of_rows}", value_name)
    if path is None:
        _add_object(rows, source)
    elif size_of(path) is None:  # a pipe, which can be read only once
        _add_list(rows)
    else:
        spec, first = format_of(source), first_text(path)
        if is_json(first):
            _add_json(rows, json_of(rows.file, first, once=True))
        elif spec.is_table and not _is_list(first, value_name):
            _add_table(rows, reading or Reading())
        elif not _has_values(first, value_name) and (kind := foreign_kind(first[:_BEGINNING])):
            raise FileFormatError(f"the file has no {kind_of_rows}: it is {kind}", file=rows.file)
        else:
            _add_list(rows)
    rows.values = np.array(rows.values, np.float64)
    if "rank" in rows.columns:
        rows.values *= -1.0
    unrated = np.flatnonzero(np.isnan(rows.values))
    if run and unrated.size:
        reason = (
            f"the score of {rows.phrase(unrated[0])} is missing; write it, or leave the row out"
        )
        raise rows.refuse(unrated[0], reason)
    # Leave out the rows without a grade. Lists, which have the rows `negative`, have none.
    rows.problems["unrated"] = count_rows([rows], unrated)
    is_rated = ~np.isnan(rows.values)
    rows.qids = list(compress(rows.qids, is_rated))
    rows.names = list(compress(rows.names, is_rated))
    rows.lines = list(compress(rows.lines, is_rated))
    rows.values = rows.values[is_rated]
    if not rows.qids:
        raise FileFormatError(f"there are no {kind_of_rows}", file=rows.file)
    return rows


# Lists --------------------------------------------------------------------------------------------


def _cells(line: bytes) -> list[str]:
    """Split a line at tabs, or else at blanks."""
    text = line.decode("utf-8", "backslashreplace")
    cells = list(map(str.strip, text.split("\t")))
    return cells if len(cells) > 2 and all(cells) else text.split()


def _is_list(line: bytes, value_name: str) -> bool:
    """Return whether the first line of what could be a table has values instead of names."""
    cells = _cells(line)
    form = _FORMS[value_name].get(len(cells))
    is_numeric = form is not None and bool(NUMBER.fullmatch(form(cells)[2]))
    return is_numeric or bool(re.match(rb"\S+[ \t]+(qid:|[Qq]?0[ \t])", line))


def _has_values(line: bytes, value_name: str) -> bool:
    """Return whether the first line of a text has a query, a document and a value."""
    return len(_cells(line)) in _FORMS[value_name] and _is_list(line, value_name)


def is_list(path: str, value_name: str) -> bool:
    """Return whether a text begins with a line of a run (`value_name` is "score") or of qrels
    ("grade"), without names of columns.
    """
    if path == "-" or not os.path.isfile(path):
        return False
    line = first_text(path)
    return b"qid:" not in line and _has_values(line, value_name)


def _add_list(rows: DocumentRows) -> None:
    """Add the rows of a text, whose first row may name the columns."""
    width, forms, is_ranked = 0, _FORMS[rows.value_name], rows.value_name == "score"
    for line_number, line in lines_of(rows.file):
        if line.startswith(b"#"):
            rows.query_texts |= words_in(line)
            continue
        if not line.strip():
            continue
        # RankLib's rows name their query; the number of cells tells the other forms apart.
        match = _RANKLIB.match(line.decode("utf-8", "backslashreplace"))
        if match and rows.value_name == "grade":
            cell, qid = match.groups()
            document = name_in(line.partition(b"#")[2])
        else:
            cells = _cells(line)
            width = width or len(cells)
            is_first_json = not rows.qids and is_json(line)
            if len(cells) != width or width not in forms or is_first_json:
                forms_of_file = "or a table that names its columns"
                if not os.path.isfile(rows.file):
                    forms_of_file = "as in every pipe; write tables and JSON to a file"
                message = f"{quote_token(line)} must be {_WORDS[rows.value_name]}, {forms_of_file}"
                raise FileFormatError(message, file=rows.file, line=line_number)
            qid, document, cell = forms[width](cells)
            is_first = not rows.qids and not NUMBER.fullmatch(cell)
            if is_first and recognised("qid", [qid]) and recognised("id", [document]):
                is_ranked &= recognised("score", [cell]) is None
                continue
        rows.add(qid, document, line_number)
        rows.add_value(cell, missing=False)
        if is_ranked and width == _OF_RANKS:
            if not rows.values[-1] >= 0.0 or rows.values[-1] % 1.0:
                message = f"the rank {cell!r} is not a whole number; a run has the form"
                raise rows.refuse(-1, f"{message} {_WORDS['score']}")
            rows.values[-1] *= -1.0
        elif width and -_LARGEST <= rows.values[-1] < 0.0:
            rows.negative.append(len(rows.values) - 1)


# JSON, mappings and frames ------------------------------------------------------------------------


def _add_json(rows: DocumentRows, entries: Iterable[tuple[int, Any]]) -> None:
    """Add JSON values with their lines, where 0 is a value whose entries are counted."""
    roles = "qid", "id", _VALUES[rows.value_name][0]
    keys = [list(map(plain_name, chain(*NAMES[role]))) for role in roles]
    for line, value in entries:
        rows.by_row = not line
        try:
            for qid, name, cell in entries_of(value, keys):
                rows.add(qid, name, line or len(rows.qids) + 1)
                rows.add_value(cell)
        except (LookupError, TypeError, AttributeError):
            message = (
                'the JSON has no documents by query: write {"query": {"document": number}}, or rows'
                f" with the keys qid, doc_id, {roles[2]}"
            )
            raise FileFormatError(message, file=rows.file, line=line) from None


def _add_object(rows: DocumentRows, source: Any) -> None:
    """Add the rows of a data frame or a mapping."""
    from boostrank.data.frames import as_frame, ids_of, names_of, values_of

    frame = as_frame(source)
    if frame is None:
        if not isinstance(source, Mapping | list):
            raise ParameterError(
                f"{rows.file}: expected a path, a frame or a mapping, but got"
                f" {type(source).__name__}"
            )
        _add_json(rows, [(0, source)])
        return
    choose(rows, names_of(frame), {})
    rows.by_row = True
    columns = [
        (ids_of if role in ("qid", "id") else values_of)(frame, name).tolist()
        for role, name in rows.columns.items()
    ]
    for row_number, (qid, name, value) in enumerate(zip(*columns, strict=True), 1):
        rows.add(qid, name, row_number)
        rows.add_value(value)


def first_text(path: str) -> bytes:
    """Return the first line of a text (see `first_line`), or b"" for a binary table."""
    return b"" if format_of(path).begins else first_line(path)


# Tables -------------------------------------------------------------------------------------------


def recognised(role: str, header: Sequence[str]) -> str | None:
    """Return the column with a role by its name in `NAMES`, or None if there is none, or
    several."""
    try:
        return usual_column(role, header, defaults=NAMES)
    except DataError:
        return None


def choose(rows: DocumentRows, header: Sequence[str], roles: Roles) -> None:
    """Choose the columns `qid` and `id` of a table, and that of grades or scores.

    Args:
        roles: names of columns that the user gives. Other tables may have them.
    """
    columns: dict[str, str] = {}
    for role in ("qid", "id", *_VALUES[rows.value_name]):
        name = roles.get(role)
        try:
            if name not in header:
                name = usual_column(role, header, roles.values(), NAMES)
        except DataError as error:
            raise FileFormatError(str(error), file=rows.file) from None
        if name is not None:
            columns[role] = name
            if role == "score":
                break
        elif role != "score":
            usual_names = " or ".join(dict.fromkeys(chain(*NAMES[role])))
            if role == "rank":
                usual_names = "score or rank"
            elif role in roles:
                usual_names = repr(roles[role])
            remedy = "name it in the first line"
            if rows.value_name != "score":  # data join reads no runs
                remedy += f", or pass its name to data join, --{role} COLUMN"
            raise FileFormatError(f"no column is called {usual_names}; {remedy}", file=rows.file)
    rows.columns = columns


def _add_table(rows: DocumentRows, reading: Reading) -> None:
    """Add the rows of a table with names of columns."""
    choose(rows, header_of(rows.file), reading.roles)
    columns = tuple(rows.columns.values())
    for batch in batches(rows.file, texts=columns, missing_tokens=reading.missing_tokens):
        rows.add_names(batch)
        for cell in batch.text(columns[-1]).to_pylist():
            rows.add_value(cell)
