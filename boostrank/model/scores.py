"""Scoring of files, and score files, which are one number per line or tables with query ids and
names.

Files of any size are scored in constant memory. A compiled scorer evaluates trees several times as
fast as LightGBM. It is first compared with the engine on rows at and next to every threshold. If a
score differs, the engine is used.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from boostrank.core.errors import DataWarning, FileFormatError, InputError, ModelError, warn_user
from boostrank.core.files import foreign_kind, replacing
from boostrank.core.text import (
    NUMBER,
    NUMERIC,
    PLAIN_DIGITS,
    WRITTEN,
    count_of,
    no_number,
    number_in,
)
from boostrank.core.types import Float32Array, Float64Array, Int64Array, as_numbers
from boostrank.data.dataset import RankingDataset
from boostrank.engines import formats
from boostrank.files.assemble import Named, pieces_of_files
from boostrank.files.chunks import lines_of
from boostrank.files.json_judgements import json_of
from boostrank.files.judgements import DocumentRows, read_rows, recognised
from boostrank.files.source import format_by_name
from boostrank.files.tables import TableSource, arrow, batches, header_of, query_name
from boostrank.files.writer import score_text
from boostrank.kernels.forest import Forest, Scorer
from boostrank.model.ranking_model import RankingModel, check_finite
from boostrank.records import from_json

_PROOF_ROWS = 512
_ODD = np.array(
    [np.nan, 0.0, -0.0, 1e-36, -1e-36, 2e-35, 1e-40, -3.4e38, 3.4e38, np.inf, -np.inf], np.float32
)
_HEAD = 1024
_COLUMNS = ("qid", "doc_id", "score")
_JSON = (".json", ".jsonl", ".ndjson")
_RUN = re.compile(r"\S+\s+[Qq]0\s+\S+\s+\d+\s+\S+\s+\S+\s*")  # the first line of a TREC run
_UNWRITTEN = ".json .jsonl .ndjson .tsv .tab .feather .arrow .xlsx .npy .gz .bz2 .xz .zst".split()


def scores_of_files(
    model: RankingModel,
    source: Any,
    *,
    num_iteration: int | None = None,
    threads: int | None = None,
    **options: Any,
) -> Iterator[Any] | None:
    """Score the rows in files in order, one block at a time, or return None if all rows must be in
    memory.

    All rows must be in memory if scores depend on other rows (columns within queries, or the last
    bit of linear models), or if absent entries in sparse rows are missing, because whether rows are
    sparse depends on all rows.

    Yields:
        float64[n], or `Named` scores with the reader option `keep_names`. Scores that are not
        finite raise ModelError.
    """
    if not model.scores_rows_alone or model.absent_is_missing:
        return None
    scorer = compiled_scorer(model, num_iteration)
    columns = None
    work: Any = partial(model.predict, num_iteration=num_iteration, threads=threads)
    if scorer is not None:
        work, columns = scorer.scores, scorer.columns
    return _finite(pieces_of_files(source, work, columns=columns, threads=threads, **options))


def _finite(pieces: Iterator[Any]) -> Iterator[Any]:
    first_row = 0
    for piece in pieces:
        scores = piece.values if isinstance(piece, Named) else piece
        check_finite(scores, first_row)
        first_row += scores.size
        yield piece


def compiled_scorer(model: RankingModel, num_iteration: int | None = None) -> Scorer | None:
    """Return a scorer whose scores are bit-identical to `RankingModel.predict`, or None."""
    trees = model.trees(num_iteration)
    if trees.forest is None:
        return None
    try:
        scorer = Scorer(trees.forest, double=trees.double)
    except ValueError:
        return None
    rows = _rows_at_thresholds(trees.forest, scorer.columns, model.n_features)
    try:
        expected = model.predict(rows, num_iteration=num_iteration, threads=1)
    except ModelError:  # artificial rows may overflow where real ones do not
        return None
    is_same = np.array_equal(scorer.scores(np.ascontiguousarray(rows[:, scorer.columns])), expected)
    return scorer if is_same else None


def _rows_at_thresholds(forest: Forest, columns: Int64Array, n_features: int) -> Float32Array:
    """Create rows, float32[n, d], with values at and next to the thresholds, zeros and missing
    values.
    """
    rng = np.random.default_rng(0)
    start_bounds = {feature: curve.bounds for feature, curve in forest.start or ()}
    rows = np.zeros((_PROOF_ROWS, n_features), np.float32)
    for column in columns.tolist():
        thresholds = forest.threshold[forest.feature == column]
        with np.errstate(over="ignore"):
            values = np.append(thresholds, [0.0, *start_bounds.get(column, ())]).astype(np.float32)
        values = values[np.isfinite(values)]
        neighbours = [values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)]
        values = rng.choice(np.concatenate(neighbours), _PROOF_ROWS)
        # Mix in zeros, subnormals, infinities and missing values.
        is_odd = rng.random(_PROOF_ROWS) < 0.1
        rows[:, column] = np.where(is_odd, rng.choice(_ODD, _PROOF_ROWS), values)
    return rows


def has_names(path: str) -> bool:
    """Return True if the output's extension is that of a table, or raise InputError if it is that
    of a form that is not written.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending in _UNWRITTEN:
        raise InputError(
            f"{path}: scores are not written as {ending}; end the name in .csv or .parquet, or in"
            " .txt for one score per line"
        )
    return ending in (".csv", ".parquet")


def write_scores(path: str, pieces: Iterable[Any]) -> None:
    """Write scores atomically, one per line, or as CSV or Parquet depending on the file extension.

    Tables have a column `score`, and the columns `qid` and `doc_id` if the data have them.

    Args:
        pieces: float64[n] or text, or `boostrank.files.assemble.Named` for tables.
    """
    is_parquet, writer = path.lower().endswith(".parquet"), None
    with replacing(path) as descriptor, open(descriptor, "wb", closefd=False) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        for piece in pieces:
            if isinstance(piece, bytes):
                file.write(piece)
                continue
            if not has_names(path):
                file.write(score_text(piece))
                continue
            # A table has the columns that the data name.
            arrays = zip(_COLUMNS, (piece.qids, piece.document_names, piece.values), strict=True)
            columns = {name: array.tolist() for name, array in arrays if array is not None}
            if is_parquet:
                if "qid" in columns:
                    columns["qid"] = list(map(str, columns["qid"]))
                table = arrow().table(columns)
                writer = writer or arrow(".parquet").ParquetWriter(file, table.schema)
                writer.write_table(table)
                continue
            if writer is None:
                writer = csv.writer(text, lineterminator="\n")
                writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        text.flush()
        if is_parquet and writer is not None:
            writer.close()


def _beginning(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEAD).removeprefix(codecs.BOM_UTF8).lstrip()


def load_ranker(path: str) -> RankingModel | None:
    """Load a model file, or return None if the first bytes are those of a score file."""
    head = _beginning(path)
    if not head:
        raise FileFormatError("the file is empty: expected a model or scores", file=path)
    if re.match(rb"[\d+.]|-(?!-)|nan|inf", head, re.IGNORECASE):
        return None
    return None if columns_of(path, alone=False) else RankingModel.load(path)


def holds_ranker(path: str) -> bool:
    """Return True if a file is empty or looks like a model or scores, and False if it may be
    data.
    """
    if not os.path.isfile(path):
        return False
    head = _beginning(path)
    first_text = head.partition(b"\n")[0].strip().decode("latin-1")
    is_number = NUMERIC.fullmatch(first_text) is not None
    is_model = any(model_format.recognises(head) for model_format in formats())
    return not head or is_number or is_model or bool(columns_of(path))


def scores_of(
    path: str, model: RankingModel | None, data: RankingDataset, threads: int | None
) -> Any:
    """Return the scores by a model, or else from a file, float64[N], in the row order of `data`."""
    if model is None:
        scores = read_scores(path, data)
    else:
        scores = model.predict(data, threads=threads)
    return data.in_row_order(scores)


def columns_of(path: str, *, alone: bool = True) -> Mapping[str, str]:
    """Return the columns `qid`, `id` and `score` of a score table, as far as it has them. Other
    files have none.

    Args:
        alone: whether other columns make the table one of data.
    """
    names: Sequence[str] = ()
    spec = format_by_name(path)
    if path.lower().endswith(_JSON):
        with open(path, "rb") as file, contextlib.suppress(ValueError, TypeError, AttributeError):
            names = tuple(from_json(file.readline(_HEAD)).keys())
    elif spec is not None and issubclass(spec.source, TableSource):
        names = header_of(path)
    roles = _roles_in(names)
    other_names = {*names} - {*roles.values(), "rank", "__index_level_0__"}  # pandas' index
    return roles if "score" in roles and not (other_names and alone) else {}


def _roles_in(names: Sequence[str]) -> dict[str, str]:
    """Return the names of the columns with a query, a document and a score."""
    return {role: name for role in ("qid", "id", "score") if (name := recognised(role, names))}


def read_scores(path: str, data: RankingDataset) -> Float64Array:
    """Read a score file, float64[N] in the input order of `data`, or raise FileFormatError with the
    line.

    Args:
        path: a table, such as `write_scores` writes, or a file with one finite score per line, and
            blank lines only at the end. Rows that name a query and a document may have any order.
    """
    if columns_of(path, alone=False):
        return read_logged(path, data)
    lines = _lines_of(path)
    kind = foreign_kind("\n".join(lines[:9]).encode("utf-8", "replace"))
    if kind is not None:
        raise FileFormatError(f"not one score per line: {kind}", file=path, line=1)
    rows = DocumentRows(path, lines=list(range(1, len(lines) + 1)))
    return np.array(_match_rows(rows, [line.strip() for line in lines], data), np.float64)


def read_logged(
    path: str, data: RankingDataset, column: str | None = None, more_files: Sequence[str] = ()
) -> Float64Array:
    """Read scores another program logged, float64[N], in input order.

    Args:
        path: a table, JSON lines or a TREC run with a score, or lines with one score or several
            columns, of which "score", or else the last column, is used. Rows that name a query and
            a document may have any order.
        column: column with the scores if `path` and `more_files` are the files of `data`.

    Raises:
        FileFormatError: a row has no finite score, or the rows are not those of the data. The
            message has the line.
    """
    rows = DocumentRows(path)
    texts = list[str]()
    rows.columns = columns_of(path, alone=False) if column is None else {"score": column}
    if rows.columns and not path.lower().endswith(_JSON):
        for file in (path, *more_files):
            for batch in batches(file, texts=tuple(rows.columns.values())):
                rows.add_names(batch)
                batch_texts = [text or "" for text in batch.text(rows.columns["score"]).to_pylist()]
                _check_numbers(batch_texts, batch.refuse)
                texts += batch_texts
    else:
        for number, cells in _records(rows):
            rows.lines.append(number)
            texts.append(cells.get("score", ""))
            rows.qids += [query_name(cells["qid"])] if "qid" in cells else []
            rows.names += [cells["id"]] if "id" in cells else []
    return np.array(_match_rows(rows, texts, data), np.float64)


def as_scores(scores: Any, data: RankingDataset, description: str) -> Float64Array:
    """Return scores, float64[N], in input order, from an array, or from a frame that names queries
    and documents.
    """
    from boostrank.data.frames import as_frame, names_of

    frame = as_frame(scores) if hasattr(type(scores), "columns") else None
    if frame is None or len(_roles_in(names_of(frame))) < len(_COLUMNS):
        return as_numbers(scores, description)
    rows = read_rows(scores, run=True)
    rows.file = description
    return np.array(_match_rows(rows, list(map(repr, rows.values.tolist())), data), np.float64)


def _check_numbers(texts: Sequence[str], refuse: Callable[[int, str], Exception]) -> None:
    for row, text in enumerate(texts):
        if not text:
            raise refuse(row, "the row has no score; write one in each line")
        if math.isnan(number_in(text)):
            raise refuse(row, no_number(text))


def _match_rows(rows: DocumentRows, texts: Sequence[str], data: RankingDataset) -> list[str]:
    """Return the text of the score of each row of the data, in input order.

    Rows that name documents are matched by name if no two rows of the data have the same names.
    Otherwise, row i is that of the data, and must have the same names.
    """
    _check_numbers(texts, rows.refuse)
    # Describe the rows of both by the names that both have, as in "document 'D7' of query '3'".
    row_phrases = list[list[str]]()
    data_phrases = list[list[str]]()
    documents = False
    for kind, role, names, ids in (
        ("document", "id", rows.names, data.document_names),
        ("query", "qid", rows.qids, data.queries.row_ids()),
    ):
        if ids is None or not names or len(names) != len(rows.lines):
            continue
        data_names = list(map(str, data.in_input_order(np.asarray(ids, object)).tolist()))
        # A column `id` may number the rows, and `query` may have the words.
        are_ids = rows.columns.get(role) not in ("id", "query") or {*data_names} & {*names}
        if any(data_names) and are_ids:
            row_phrases.append([f"{kind} {name!r}" for name in names])
            data_phrases.append([f"{kind} {name!r}" for name in data_names])
            documents = documents or role == "id"
    of_rows = list(map(" of ".join, zip(*row_phrases, strict=True)))
    of_data = list(map(" of ".join, zip(*data_phrases, strict=True)))
    order: Sequence[int] = range(len(texts))
    if documents and len(set(of_data)) == len(of_data):
        order = _order(rows, of_rows, of_data)
    elif len(texts) != data.n_documents:
        raise FileFormatError(
            f"{len(texts):,} scores, but the data has {data.n_documents:,} rows", file=rows.file
        )
    else:
        if not documents and any(rows.names) and rows.columns.get("id") != "id":
            warn_user(
                f"{rows.file}: the data name no documents, so the scores are taken in the order"
                " of the rows; --id COLUMN, or comments in libsvm text, name them (in Python,"
                " keep_names=True reads them)",
                DataWarning,
            )
        for row, (row_name, data_name) in enumerate(zip(of_rows, of_data, strict=True)):
            if row_name != data_name:
                raise rows.refuse(
                    row,
                    f"the score is for {row_name}, but data row {row + 1:,} is for {data_name}:"
                    " write the scores in the order of the data",
                )
    return [texts[i] for i in order]


def _order(rows: DocumentRows, of_rows: Sequence[str], of_data: Sequence[str]) -> Sequence[int]:
    """Return the row of each of the `of_data` documents, and warn about rows of others."""
    row_of_name: dict[str, int] = {}
    for row, name in enumerate(of_rows):
        if row_of_name.setdefault(name, row) != row:
            raise rows.refuse(row, f"{name} has two scores; keep one of the lines")
    missing_documents = [name for name in of_data if name not in row_of_name]
    if missing_documents:
        raise FileFormatError(
            f"{len(missing_documents):,} of {count_of(len(of_data), 'document')} of the data have"
            f" no score; first: {missing_documents[0]}; the scores begin with {of_rows[0]}",
            file=rows.file,
        )
    documents = set(of_data)
    other_rows = [row for name, row in row_of_name.items() if name not in documents]
    if other_rows:
        warn_user(
            f"{count_of(len(other_rows), 'score')} of documents that the data lack left out; first:"
            f" {rows.refuse(other_rows[0], of_rows[other_rows[0]])}",
            DataWarning,
        )
    return [row_of_name[name] for name in of_data]


def _lines_of(path: str) -> list[str]:
    lines = [line for _, line in lines_of(path)]
    if any(b"\0" in line for line in lines[:9]):
        kind = foreign_kind(lines[0]) or "not text"
        raise FileFormatError(f"the file has no scores: it is {kind}", file=path)
    return b"\n".join(lines).decode("utf-8", "backslashreplace").rstrip().split("\n")


def _records(rows: DocumentRows) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the score of each line, with its query and document if JSON or the first
    line names them.
    """
    path = rows.file
    lines = _lines_of(rows.file)
    if lines[0].lstrip().startswith(("{", "[")):
        for line_number, value in json_of(path, lines[0].encode()):
            records = value if isinstance(value, list) else [value]
            for index, record in enumerate(records, 1):
                values = {"score": record}
                if isinstance(record, dict):
                    rows.columns = _roles_in(list(record))
                    values = {role: record[name] for role, name in rows.columns.items()}
                cells_of_entry = {
                    role: str(cell)
                    for role, cell in values.items()
                    if type(cell) in (str, int, float)
                }
                yield line_number or index, cells_of_entry
        return
    # Commas separate columns if no other mark does, unless they are the decimal marks of all
    # numbers.
    is_run = _RUN.fullmatch(lines[0]) is not None
    delimiter = next((mark for mark in "\t;," if mark in lines[0] and not is_run), "")
    last_cells = [(line.split() or [""])[-1] for line in lines]
    if (
        delimiter == ","
        and all(map(WRITTEN.fullmatch, last_cells))
        and not all(map(NUMBER.fullmatch, last_cells))
    ):
        row = next(i for i, cell in enumerate(last_cells) if not NUMBER.fullmatch(cell))
        raise FileFormatError(
            f"{no_number(last_cells[row])}; if commas separate columns, name them in the first"
            " line",
            file=path,
            line=row + 1,
        )
    header = _split(lines[0], delimiter)
    has_names = not any(map(NUMERIC.fullmatch, header))
    rows.columns = _roles_in(header) if has_names else {}
    roles = {role: header.index(name) for role, name in rows.columns.items()}
    if is_run:
        roles = {"qid": 0, "id": 2, "score": 4}
        rows.columns = {"qid": "qid", "id": "docno", "score": "score"}
    roles.setdefault("score", -1)
    for line_number, line in enumerate(lines[has_names:], 1 + has_names):
        cells = _split(line, delimiter)
        # Numbers with decimal commas are two columns.
        has_decimal_commas = delimiter == "," and any(
            re.fullmatch(r"[+-]?0\d+", cell) for cell in cells[roles["score"] :][:1]
        )
        if has_decimal_commas or (len(cells) != len(header) and (delimiter or len(roles) > 1)):
            raise FileFormatError(
                f"{line[:40]!r} has {len(cells)} columns, and the first line {len(header)}:"
                f" {PLAIN_DIGITS}",
                file=path,
                line=line_number,
            )
        present = [(role, column) for role, column in roles.items() if cells[column:][:1]]
        yield line_number, {role: cells[column] for role, column in present}


def _split(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, which may be quoted, separated by a mark or by blanks."""
    if not delimiter:
        return [cell.strip('"') for cell in line.split()]
    with contextlib.suppress(csv.Error):
        return [
            cell.strip()
            for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
        ]
    return []
