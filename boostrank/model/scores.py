"""Scoring of files, and score files, which are one number per line or tables with query ids and names.

Files of any size are scored in constant memory. A compiled scorer evaluates trees several times as fast as LightGBM.
It is first compared with the engine on rows at and next to every threshold. If a score differs, the engine is used.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from boostrank.core.errors import FileFormatError, ModelError
from boostrank.core.files import foreign_kind, read_text, replacing
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.assemble import Named, pieces_of_files
from boostrank.data.dataset import RankingDataset
from boostrank.data.tables import arrow, batches, header_of, is_table
from boostrank.data.text.writer import score_text
from boostrank.engines import formats
from boostrank.kernels.forest import Forest, Scorer
from boostrank.model.ranking_model import RankingModel, check_finite
from boostrank.records import from_json

_PROOF_ROWS = 512
_ODD = np.array([np.nan, 0.0, -0.0, 1e-36, -1e-36, 2e-35, 1e-40, -3.4e38, 3.4e38, np.inf, -np.inf], np.float32)
_HEAD = 1024
_COLUMNS = ("qid", "doc_id", "score")
# Stricter than `float`, which accepts 1_000 and digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def scores_of_files(
    model: RankingModel, source: Any, *, num_iteration: int | None = None, threads: int | None = None, **options: Any
) -> Iterator[Any] | None:
    """Score the rows in files in order, one block at a time, or return None if all rows must be in memory.

    All rows must be in memory if scores depend on other rows (columns within queries, or the last bit of linear
    models), or if absent entries in sparse rows are missing, because whether rows are sparse depends on all rows.

    Yields:
        float64[n], or `Named` scores with the reader option `keep_names`. Scores that are not finite raise ModelError.
    """
    if not model.scores_rows_alone or model.absent_is_missing:
        return None
    scorer = compiled_scorer(model, num_iteration)
    if scorer is None:
        columns, work = None, lambda rows: model.predict(rows, num_iteration=num_iteration, threads=threads)
    else:
        columns, work = scorer.columns, scorer.scores
    return _finite(pieces_of_files(source, work, columns=columns, threads=threads, **options))


def _finite(pieces: Iterator[Any]) -> Iterator[Any]:
    first = 0
    for piece in pieces:
        scores = piece.values if isinstance(piece, Named) else piece
        check_finite(scores, first)
        first += scores.size
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
    same = np.array_equal(scorer.scores(np.ascontiguousarray(rows[:, scorer.columns])), expected)
    return scorer if same else None


def _rows_at_thresholds(forest: Forest, columns: Int64Array, n_features: int) -> Float32Array:
    """Create rows, float32[n, d], with values at and next to the thresholds, zeros and missing values."""
    rng, start = np.random.default_rng(0), forest.start
    rows = np.zeros((_PROOF_ROWS, n_features), np.float32)
    for column in columns.tolist():
        ends = [forest.threshold[forest.feature == column], np.zeros(1)]
        if start is not None:
            ends.append(start.bounds[np.repeat(start.feature == column, np.diff(start.ptr))])
        with np.errstate(over="ignore"):
            near = np.concatenate(ends).astype(np.float32)
        near = rng.choice(near[np.isfinite(near)], _PROOF_ROWS)
        around = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
        # Mix in zeros, subnormals, infinities and missing values.
        near = np.choose(rng.integers(0, 3, _PROOF_ROWS), around)
        rows[:, column] = np.where(rng.random(_PROOF_ROWS) < 0.1, rng.choice(_ODD, _PROOF_ROWS), near)
    return rows


def has_names(path: str) -> bool:
    """Return True if the output's extension is that of a table."""
    return os.path.splitext(path)[1].lower() in (".csv", ".jsonl", ".parquet")


def write_scores(path: str, pieces: Iterable[Any]) -> None:
    """Write scores atomically, one per line, or as CSV, JSON lines or Parquet depending on the file extension.

    Tables have a column `score`, and the columns `qid` and `doc_id` if the data have them.

    Args:
        pieces: float64[n] or text, or `boostrank.data.assemble.Named` for tables.
    """
    ending, writer = os.path.splitext(path)[1].lower(), None
    with replacing(path, streams=True) as descriptor, open(descriptor, "wb", closefd=False) as file:
        for piece in pieces:
            if isinstance(piece, bytes) or not has_names(path):
                file.write(piece if isinstance(piece, bytes) else score_text(piece))
                continue
            qids, names = (None if one is None else one.tolist() for one in piece[1:])
            given = dict(zip(_COLUMNS, (qids, names, piece.values.tolist()), strict=True))
            columns = {name: values for name, values in given.items() if values is not None}
            if ending == ".parquet":
                if qids is not None:
                    columns["qid"] = list(map(str, qids))
                table = arrow().table(columns)
                writer = writer or arrow(".parquet").ParquetWriter(file, table.schema)
                writer.write_table(table)
                continue
            rows, text = zip(*columns.values(), strict=True), io.StringIO()
            if ending == ".csv":
                lines = csv.writer(text, lineterminator="\n")
                lines.writerows([] if writer else [list(columns)])
                lines.writerows(rows)
                writer = lines
            else:
                text.writelines(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
            file.write(text.getvalue().encode())
        if ending == ".parquet" and writer is not None:
            writer.close()


def _beginning(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEAD).removeprefix(codecs.BOM_UTF8).lstrip()


def load_ranker(path: str) -> RankingModel | None:
    """Load a model file, or return None if the first bytes are those of a score file."""
    head = _beginning(path)
    if not head:
        raise FileFormatError("the file is empty: expected a model or scores", file=path)
    if head[:1].isdigit() or head[:1] in (b"+", b"-", b".") or head[:3].lower() in (b"nan", b"inf"):
        return None
    return None if columns_of(path) else RankingModel.load(path)


def holds_ranker(path: str) -> bool:
    """Return True if a file is empty or looks like a model or scores, and False if it may be data."""
    if not os.path.isfile(path):
        return False
    head = _beginning(path)
    first, _, more = head.partition(b"\n")
    word = first.strip().decode("latin-1")
    scores = bool(_NUMBER.fullmatch(word) or word.lower() in ("nan", "inf", "-inf"))
    plain = scores and (bool(more) or len(head) < _HEAD)
    return not head or plain or any(one.recognises(head) for one in formats()) or bool(columns_of(path))


def scores_of(path: str, model: RankingModel | None, data: RankingDataset, threads: int | None) -> Any:
    """Return the scores by a model, or else from a file, float64[N], in the row order of `data`."""
    if model is not None:
        return data.in_row_order(model.predict(data, threads=threads))
    scores = data.in_row_order(read_scores(path, data.n_documents))
    check_names(path, data)
    return scores


def check_names(path: str, data: RankingDataset) -> None:
    """Check that a score table has the same queries and document names as the rows of `data`."""
    queries, documents = data.queries.row_ids(), data.document_names
    for column, what, of_data in (("qid", "query", queries), ("doc_id", "document", documents)):
        if of_data is None or column not in columns_of(path):
            continue
        found = data.in_row_order(np.array(_column(path, column), object))
        for row, (own, known) in enumerate(zip(found, of_data, strict=True)):
            if own != str(known):
                place = row if data.input_rows is None else int(data.input_rows[row])
                words = f"score {place + 1:,} is for {what} {own!r}, but data row {place + 1:,} is for {str(known)!r}"
                raise FileFormatError(f"{words}: write the scores in the order of the data", file=path)


def columns_of(path: str) -> tuple[str, ...]:
    """Return the columns of a score table, which are empty for other files."""
    if not has_names(path):
        return ()
    names: tuple[str, ...] = ()
    if is_table(path):
        names = header_of(path)
    else:
        with open(path, "rb") as file, contextlib.suppress(ValueError, TypeError):
            names = tuple(from_json(file.readline(_HEAD)))
    return names if {"score"} <= set(names) <= set(_COLUMNS) else ()


def _column(path: str, name: str) -> list[str]:
    if is_table(path):
        return [word or "" for batch in batches(path, texts=(name,)) for word in batch.text(name).to_pylist()]
    return [str(from_json(line).get(name, "")) for line in read_text(path).splitlines()]


def read_scores(path: str, rows: int) -> Float64Array:
    """Read a score file, float64[N], or raise FileFormatError with the line.

    Args:
        path: file with one finite score per line, blank lines only at the end, or a table that `write_scores` wrote.
        rows: N, the number of rows of the data.
    """
    if columns_of(path):
        return read_logged(path, rows)[0]
    lines = _lines_of(path)
    kind = foreign_kind("\n".join(lines[:9]).encode("utf-8", "replace"))
    if kind is not None:
        raise FileFormatError(f"not one score per line: {kind}", file=path, line=1)
    words = [line.strip() for line in lines]
    for number, word in enumerate(words, 1):
        if not _is_finite(word):
            what = f"{word[:40]!r} is not a finite score" if word else "the line is blank, but must be a score"
            raise FileFormatError(what, file=path, line=number)
    _check_count(words, rows, path)
    return np.array(words, np.float64)


def read_logged(path: str, rows: int) -> tuple[Float64Array, Float64Array]:
    """Read scores another program logged, float64[N], and half a unit of each last digit, or raise FileFormatError.

    Numbers that all have the same number of decimals were rounded to that number. Otherwise, the longest number gives
    the number of significant digits.

    Args:
        path: file with one score per line, JSON lines with a "score", or lines with several columns, of which "score",
            or else the last column, is used.
        rows: N, the number of rows of the data.
    """
    if columns_of(path) and is_table(path):
        return read_logged_column([path], "score", rows)
    lines = _lines_of(path)
    column, begin = -1, 0
    cut = re.compile(r"[,;\t]\s*" if re.search(r"[,;\t]", lines[0]) else r"\s+")
    heading = [name.strip('" _').lower() for name in cut.split(lines[0].strip())]
    if not lines[0].lstrip().startswith("{") and not any(map(_NUMBER.fullmatch, heading)):
        column, begin = (heading.index("score") if "score" in heading else -1), 1
    words = []
    for number, line in enumerate(lines[begin:], begin + 1):
        word = _logged_word(line.strip(), cut, column)
        if not _is_finite(word):
            raise FileFormatError(f"{line.strip()[:40]!r} has no finite score", file=path, line=number)
        words.append(word)
    _check_count(words, rows, path)
    return _with_precision(words)


def read_logged_column(paths: Sequence[str], column: str, rows: int) -> tuple[Float64Array, Float64Array]:
    """Read logged scores from a table column, like `read_logged`."""
    words: list[str] = []
    for path in paths:
        for batch in batches(path, texts=(column,)):
            some = [(word or "").strip() for word in batch.text(column).to_pylist()]
            bad = next((i for i, word in enumerate(some) if not _is_finite(word)), None)
            if bad is not None:
                raise batch.refuse(bad, f"{some[bad][:40]!r} in column {column!r} is not a finite score")
            words += some
    _check_count(words, rows, paths[0])
    return _with_precision(words)


def _is_finite(word: str) -> bool:
    return bool(_NUMBER.fullmatch(word)) and math.isfinite(float(word))


def _with_precision(words: Sequence[str]) -> tuple[Float64Array, Float64Array]:
    scores = np.array(words, np.float64)
    # Use the common number of decimals, or else the largest number of significant digits.
    parts = [re.split("[eE]", word.lstrip("+-"))[0].partition(".") for word in words]
    decimals = {len(after) for _, _, after in parts}
    if len(decimals) == 1 and len(words) > 1 and not any("e" in word.lower() for word in words):
        return scores, np.full(scores.size, 0.5 * 10.0 ** -min(decimals) if min(decimals) else 0.0)
    digits = max(len((before + after).lstrip("0")) for before, _, after in parts)
    size = np.floor(np.log10(np.abs(scores), out=np.zeros(scores.size), where=scores != 0.0))
    return scores, np.where(scores == 0.0, 0.0, 0.5 * 10.0 ** (size + 1.0 - digits))


def _lines_of(path: str) -> list[str]:
    return read_text(path, errors="backslashreplace").rstrip().split("\n")


def _check_count(words: Sequence[str], rows: int, path: str) -> None:
    if len(words) != rows:
        raise FileFormatError(f"{len(words):,} scores, but the data has {rows:,} rows", file=path)


def _logged_word(line: str, cut: re.Pattern[str], column: int) -> str:
    if line.startswith("{"):
        try:
            found = from_json(line)
            value = found.get("score", found.get("_score"))
            return repr(float(value)) if type(value) in (int, float) else ""
        except (ValueError, OverflowError):
            return ""
    cells = next(csv.reader([line])) if '"' in line and "," in line else cut.split(line)
    return cells[column].strip(' "') if len(cells) > column else ""
