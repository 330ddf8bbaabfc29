"""Join of judgements and logged features to a training table."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boostrank.core.errors import DataError, FileFormatError, ParameterError, warn_user
from boostrank.core.files import check_writable, replacing
from boostrank.core.text import PLAIN_DIGITS, WRITTEN, as_name, count_of, no_number, number_in
from boostrank.core.types import Float64Array, Int64Array, first_true
from boostrank.data.roles import DEFAULTS
from boostrank.files.chunks import STAND_INS
from boostrank.files.columns import choose_columns
from boostrank.files.json_judgements import is_json, json_of
from boostrank.files.judgements import (
    DocumentRows,
    Problems,
    choose,
    count_rows,
    first_text,
    place_of,
    read_rows,
)
from boostrank.files.source import Reading, expand, size_of
from boostrank.files.tables import arrow, batches, header_of

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset

UNJUDGED = ("drop", "zero", "stop")
"""Treatments of logged documents that have no judgement although their queries are judged."""

MACHINE, CHANCE = "machine", "chance"
"""Columns with a machine's grades, and with the chance with which `data choose` chose a document.
"""
ADDED = ("gain", "weight")
"""Columns that `reporting.judges` adds to a machine's grades."""

_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
# A blank name, or characters that CSV and UTF-8 cannot represent.
_UNFIT = re.compile("^\\s*$|[\0-\x1f\x7f\ud800-\udfff]")
_LARGEST = 2**31
_FLOAT32 = float(np.finfo(np.float32).max)
_QUERY_KEYS = tuple(chain(*DEFAULTS["qid"]))
_DOCUMENT_KEYS = ("_id", *chain(*DEFAULTS["id"]), "id")


class Joined(NamedTuple):
    """Counts of written documents and queries, and problems with a number of documents and the
    first location (or "").

    `problems` has the keys "unlogged" (judged, but not logged), "unjudged" (logged without a
    judgement), "disagreeing" (several grades, which are averaged), "repeated" (logged again; the
    first row is used), "unrated" (judged without a grade, and ignored) and "negative" (negative
    grades of qrels, which count as 0, as in trec_eval).
    """

    documents: int
    queries: int
    problems: Problems


def join(
    judgements: str,
    features: str | Sequence[str],
    output: str,
    *,
    unjudged: str = "drop",
    label: str | None = None,
    qid: str | None = None,
    id: str | None = None,
    missing_tokens: Sequence[str] = (),
    machine: str | None = None,
    chances: str | None = None,
    adding: Callable[[Any], Any] | None = None,
) -> Joined:
    """Join judgements with logged features by query and document, and write CSV or Parquet,
    depending on the extension.

    The table has the columns `qid`, `doc_id`, `label` and the features, and is sorted by query and
    document, so that it does not depend on the order of the files, and ties are not in the order of
    grades.

    Args:
        judgements: a file in a form of `boostrank.files.judgements`, such as a table, a RankLib or
            Quepid list (`4 qid:1 # 7555` with `# qid:1: red shoe`), TREC qrels or JSON. Several
            grades for a document are averaged.
        features: tables, or JSON lines as the plugins of Solr, Elasticsearch and OpenSearch log
            them. Features that a document lacks are missing.
        unjudged: "drop" documents without a judgement, give them the grade "zero" if their query is
            judged, or "stop".
        label, qid, id: columns in tables; None finds them by their names.
        missing_tokens: words in tables that stand for a missing value.
        machine: grades by a machine, in the same forms, for the column `machine` after `label`.
            Grades are missing where only the other judged.
        chances: table with the column `chance`, from `data choose`; None for that of `judgements`,
            if it has one. The table then has the chance of each document that people judged: that
            of its query where it has no chance of its own, or else 1.
        adding: function that adds columns to the table (Arrow) with a machine's grades.

    Raises:
        FileFormatError: the content cannot be read. The message names the file and line.
        DataError: no document occurs in both, or a grade, a name or a document without a judgement
            is refused.
    """
    reading = Reading(label=label, qid=qid, id=id, missing_tokens=missing_tokens)
    paths, output = list(map(str, expand(features))), str(output)
    _check_arguments(output, unjudged, [judgements, machine, *paths])
    # Read the judgements, the chances of documents, and the logs.
    rows_by_column = {"label": _judgements(judgements, reading)}
    if machine is not None:
        rows_by_column[MACHINE] = _judgements(machine, reading)
    if chances is None and rows_by_column["label"].columns and CHANCE in header_of(judgements):
        chances = judgements
    if chances is not None:
        rows = rows_by_column[CHANCE] = _judgements(chances, replace(reading, label=CHANCE))
        bad_row = first_true(~((rows.values > 0.0) & (rows.values <= 1.0)))
        if bad_row is not None:
            raise rows.refuse(bad_row, f"the chance of {rows.phrase(bad_row)} is not in (0, 1]")
    logs = [_read_features(path, reading) for path in paths]
    all_rows = [*rows_by_column.values(), *logs]
    used_columns = {column for rows in all_rows for column in rows.columns.values()}
    for role, name in reading.roles.items():
        if name not in used_columns:
            raise FileFormatError(f"no column is called {name!r} (--{role})", file=judgements)
    _name_queries(all_rows[0], all_rows[1:])
    _check_names(all_rows)
    # Match them, and write the table.
    try:
        table, problems = _match(rows_by_column, logs, unjudged)
        if machine is not None and adding is not None:
            table = adding(table)
        choose_columns(table.column_names, Reading(), output)  # as train does
        with replacing(output) as descriptor, open(descriptor, "wb", closefd=False) as file:
            if output.lower().endswith(".csv"):
                arrow(".csv").write_csv(table, file)
            else:
                arrow(".parquet").write_table(table, file)
    except arrow().ArrowException as error:  # types that cannot be merged, or written
        raise FileFormatError(f"no table can be written: {error}", file=output) from None
    return Joined(table.num_rows, len(table["qid"].unique()), problems)


def _check_arguments(output: str, unjudged: str, paths: Sequence[str | None]) -> None:
    """Check the arguments of `join`. The second path is that of a machine's grades."""
    if unjudged not in UNJUDGED:
        raise ParameterError(f"unjudged={unjudged!r} must be one of {', '.join(UNJUDGED)}")
    if paths[1] is not None and unjudged == "zero":
        raise ParameterError(
            "unjudged='zero' cannot be used with a machine's judgements: grade the documents in"
            " either file, or use 'drop'"
        )
    if not output.lower().endswith((".csv", ".parquet")):
        raise ParameterError(f"{output}: the name of the table must end in .csv or .parquet")
    check_writable(output)
    for path in filter(None, paths):
        if size_of(path) is None:
            raise ParameterError(
                f"{path}: a pipe can be read only once, but join reads files twice; pass a file"
            )


def _match(
    rows_by_column: Mapping[str, DocumentRows], logs: Sequence[DocumentRows], unjudged: str
) -> tuple[Any, Problems]:
    """Return the table of query, document, values of `rows_by_column` and features, and the
    problems; see `Joined`."""
    all_rows = [*rows_by_column.values(), *logs]
    qids, names, keys = _number_documents(all_rows)
    judges = [rows for column, rows in rows_by_column.items() if column != CHANCE]
    judged_keys = np.concatenate(keys[: len(judges)])
    logged_keys = np.concatenate(keys[len(rows_by_column) :])
    judged, first_judged = np.unique(judged_keys, return_index=True)
    logged, first_logged = np.unique(logged_keys, return_index=True)
    is_kept = np.isin(logged, judged)
    # Count the problems, with the first place of each.
    unlogged_rows = np.sort(first_judged[~np.isin(judged, logged)])
    unjudged_rows = np.sort(first_logged[~is_kept])
    repeated_rows = np.setdiff1d(np.arange(logged_keys.size), first_logged)
    problems = {
        "unlogged": count_rows(judges, unlogged_rows),
        "unjudged": count_rows(logs, unjudged_rows),
        "repeated": count_rows(logs, repeated_rows),
    }
    if not is_kept.any():
        raise DataError(
            f"no judged document was logged: {place_of(judges, [0])} is judged, and"
            f" {place_of(logs, [0])} is logged; queries and documents must have the same names in"
            " both"
        )
    if unjudged == "stop" and unjudged_rows.size:
        raise DataError(f"{problems['unjudged'][1]} has no judgement; use --unjudged drop or zero")
    # Find the values of logged documents, in the order of their keys.
    values = {}
    for (column, rows), row_keys in zip(rows_by_column.items(), keys, strict=False):
        values[column], disagreeing_rows = _find_grades(row_keys, rows.values, logged)
        if column != CHANCE:
            rows.problems["disagreeing"] = count_rows([rows], disagreeing_rows)
            for problem, (count, location) in rows.problems.items():
                earlier_count, earlier_location = problems.get(problem, (0, ""))
                problems[problem] = earlier_count + count, earlier_location or location
    if unjudged == "zero":
        is_kept |= np.isin(logged // len(names), judged // len(names))
        values["label"] = np.nan_to_num(values["label"])
    if CHANCE in values:  # what people judged before was not left to chance
        chance = np.nan_to_num(values[CHANCE], nan=1.0)
        values[CHANCE] = np.where(np.isnan(values["label"]), np.nan, chance)
    pa, key = arrow(), logged[is_kept]
    columns = {
        "qid": pa.array(qids).take(key // len(names)),
        "doc_id": pa.array(names).take(key % len(names)),
        **{column: _as_grades(values[column][is_kept]) for column in rows_by_column},
    }
    return _with_features(columns, logs, first_logged[is_kept]), problems


def _with_features(columns: dict[str, Any], logs: Sequence[DocumentRows], rows: Int64Array) -> Any:
    """Return a table with the columns and the features in some rows of the logs."""
    pa = arrow()
    table = pa.concat_tables([log.table for log in logs], promote_options="permissive")
    for name in (*columns, *(ADDED if MACHINE in columns else ())):
        if name in table.column_names:
            reason = f"the feature {name!r} has the name of a result column; rename it"
            raise FileFormatError(reason, file=logs[0].file)
    table = table.take(rows)
    return pa.table(columns | dict(zip(table.column_names, table.columns, strict=True)))


def _as_grades(values: Float64Array) -> Any:
    """Return an Arrow column, of integers if all values are, where NaN is missing."""
    column = arrow().array(values, from_pandas=True)
    is_whole = bool((np.isnan(values) | (values == np.floor(values))).all())
    return column.cast("int64") if is_whole else column


def _name_queries(judged_rows: DocumentRows, other_rows: Iterable[DocumentRows]) -> None:
    """Rename queries to their texts if the texts are unique, also in other files that use the
    ids."""
    query_texts, qids = judged_rows.query_texts, set(judged_rows.qids)
    if not qids <= query_texts.keys() or len({query_texts[qid] for qid in qids}) < len(qids):
        return
    for rows in (judged_rows, *other_rows):
        ids = qids.intersection(rows.qids)
        if rows is judged_rows or len(ids) > len(set(rows.qids).intersection(query_texts.values())):
            rows.qids = [query_texts.get(qid, qid) for qid in rows.qids]


def grades_by_name(
    source: Any, data: RankingDataset, reading: Reading | None = None
) -> Float64Array:
    """Return the grade of each document in judgements, by the names of its query and document.

    Args:
        source: judgements in a form of `boostrank.files.judgements`. As in `join`, several grades
            are averaged, and negative grades of qrels are 0.
        reading: see `boostrank.files.judgements.read_rows`.

    Returns:
        float64[N] in input order, NaN without a grade.

    Raises:
        DataError: the data name no documents, or none of them has a grade.
    """
    if data.document_names is None or not any(data.document_names):
        raise DataError(
            "the data name no documents, which judgements belong to: pass --id COLUMN (in Python,"
            " id= or keep_names=True)"
        )
    judged_rows = _judgements(source, reading)
    columns = data.queries.row_ids(), data.document_names
    arrays = [data.in_input_order(np.asarray(column, object)) for column in columns]
    qids, names = [list(map(str, column)) for column in arrays]
    documents = DocumentRows(
        "the data", qids=qids, names=names, lines=list(range(1, 1 + len(qids)))
    )
    _name_queries(judged_rows, [documents])
    # Look for the documents of the data among the graded ones.
    judged_keys, keys = _number_documents([judged_rows, documents])[2]
    unmatched_keys = np.setdiff1d(judged_keys, keys)
    if unmatched_keys.size == np.unique(judged_keys).size:
        raise DataError(
            f"no document of the data has a grade: {place_of([judged_rows], [0])} is graded, and"
            f" the data begin with {documents.phrase(0)}; queries and documents must have the same"
            " names in both, and in the same columns"
        )
    values, disagreeing_rows = _find_grades(judged_keys, judged_rows.values, keys)
    for count, noun, problem in (
        (unmatched_keys.size, "grade", "of documents that the data lack left out"),
        (disagreeing_rows.size, "document", "with different grades: the mean is used"),
    ):
        if count:
            warn_user(f"{judged_rows.file}: {count_of(count, noun)} {problem}")
    return values


def _check_names(all_rows: Sequence[DocumentRows]) -> None:
    for rows in all_rows:
        for row, pair in enumerate(zip(rows.qids, rows.names, strict=True)):
            if any(map(_UNFIT.search, pair)):
                raise DataError(
                    f"{place_of([rows], [row])}: names of queries ('qid') and documents ('doc_id')"
                    " cannot be blank, or contain control characters or lone surrogates"
                )
        for name in () if rows.table is None else rows.table.column_names:
            if _UNFIT.search(name):
                raise FileFormatError(
                    f"the feature name {name!r} is blank, or contains control characters or lone"
                    " surrogates; rename it",
                    file=rows.file,
                )


def _number_documents(
    all_rows: Sequence[DocumentRows],
) -> tuple[list[Any], list[Any], list[Int64Array]]:
    """Return the sorted queries and documents of some rows, and the keys of each rows' documents.

    The key of a document is the number of its query, times the number of documents, plus its own.
    """
    qids, query_numbers = _number_names([rows.qids for rows in all_rows])
    names, document_numbers = _number_names([rows.names for rows in all_rows])
    ends = np.cumsum([len(rows.qids) for rows in all_rows])
    return qids, names, np.split(query_numbers * len(names) + document_numbers, ends[:-1])


def _number_names(name_lists: Sequence[Sequence[str]]) -> tuple[list[Any], Int64Array]:
    """Return the sorted distinct names, as integers if all are integers, and the position of each
    name in this list."""
    all_names = list(chain.from_iterable(name_lists))
    distinct: Any = set(all_names)
    if all(map(_INTEGER.fullmatch, distinct)):
        distinct = map(int, distinct)
    names = sorted(distinct)
    position = {str(name): i for i, name in enumerate(names)}
    return names, np.array([position[text] for text in all_names])


def _find_grades(
    keys: Int64Array, grades: Float64Array, documents: Int64Array
) -> tuple[Float64Array, Int64Array]:
    """Return the mean grade of each of some documents, NaN without one, and the first row of each
    key that has several grades."""
    order = np.lexsort((grades, keys))
    grades = grades[order]
    distinct, start, count = np.unique(keys[order], return_index=True, return_counts=True)
    low, high = grades[start], grades[start + count - 1]
    mean = np.where(low == high, low, np.add.reduceat(grades, start) / count)
    first = np.minimum.reduceat(order, start)
    positions = np.minimum(np.searchsorted(distinct, documents), distinct.size - 1)
    values = np.where(distinct[positions] == documents, mean[positions], np.nan)
    return values, np.sort(first[low != high])


def _judgements(source: Any, reading: Reading | None) -> DocumentRows:
    """Read judgements with moderate grades, where negative grades of qrels are 0."""
    rows = read_rows(source, reading)
    rows.problems["negative"] = count_rows([rows], rows.negative)
    rows.values[rows.negative] = 0.0
    large_row = first_true(np.abs(rows.values) > _LARGEST)
    if large_row is not None:
        raise DataError(
            f"{place_of([rows], [large_row])}: the grade {rows.values[large_row]:g} is beyond 2^31;"
            " use numbers such as 0 to 4"
        )
    return rows


def _of_table(path: str, reading: Reading) -> DocumentRows:
    """Read all columns from a table with features."""
    rows, header = DocumentRows(path, "feature"), header_of(path)
    choose(rows, header, reading.roles)
    pa, role_columns, tables = arrow(), rows.columns.values(), []
    for batch in batches(path, texts=header, missing_tokens=reading.missing_tokens):
        rows.add_names(batch)
        columns = {name: batch.sound(name) for name in header if name not in role_columns}
        tables.append(pa.table(columns))
    if not tables:
        raise FileFormatError("no rows", file=path)
    rows.table = pa.concat_tables(tables)
    if not rows.by_row:  # text
        rows.table = pa.table({name: _typed(rows, name) for name in rows.table.column_names})
    return rows


def _typed(rows: DocumentRows, name: str) -> Any:
    """Convert text to integers or floats where possible, and refuse text with numbers as people
    write them and words for missing values."""
    column = rows.table[name]
    for kind in ("int64", "float64"):
        with suppress(arrow().ArrowInvalid):
            return column.cast(kind)
    texts = column.to_pylist()
    words = [word for word in dict.fromkeys(filter(None, texts)) if np.isnan(number_in(word))]
    if words and all(
        WRITTEN.fullmatch(word) or word.encode().lower() in STAND_INS for word in words
    ):
        message = (
            f"value {words[0]!r} of column {name!r} is not a number: {PLAIN_DIGITS}, or read a word"
            " for missing values with --missing-token"
        )
        raise rows.refuse(texts.index(words[0]), message)
    return column


def _read_features(path: str, reading: Reading) -> DocumentRows:
    """Read logged features."""
    head = first_text(path)
    if not is_json(head):
        return _of_table(path, reading)
    # Columns grow as features turn up; documents without them have missing values.
    rows = DocumentRows(path)
    columns: dict[str, array[float]] = {}
    for line, value in json_of(path, head):
        try:
            for query, name, features in documents_in_log(value):
                for feature, number in features:
                    phrase = f"document {name!r}: feature {feature!r}"
                    column = columns.setdefault(str(feature), array("d"))
                    if len(column) > len(rows.qids):
                        raise DataError(f"{phrase} occurs twice; log it once")
                    column.extend([np.nan] * (len(rows.qids) - len(column)))
                    column.append(feature_in_log(number, phrase))
                rows.add(query, name, line)
        except DataError as error:
            raise FileFormatError(str(error), file=path, line=line) from None
        except (LookupError, TypeError, AttributeError, ValueError):
            raise FileFormatError(
                "the line does not log features: expected a response or hit of Solr or"
                " Elasticsearch, or a row",
                file=path,
                line=line,
            ) from None
    if not columns:
        raise FileFormatError("the file has no features", file=path)
    for column in columns.values():
        column.extend([np.nan] * (len(rows.qids) - len(column)))
    feature_arrays = {
        name: arrow().array(np.array(column), from_pandas=True) for name, column in columns.items()
    }
    rows.table = arrow().table(feature_arrays)
    return rows


def feature_in_log(value: Any, phrase: str) -> float:
    """Convert a feature value in JSON to a number, where null is missing."""
    try:
        number = np.nan if value is None else float(value)
    except (TypeError, ValueError):
        reason = no_number(str(value), "leave the feature out, or log features as a table")
        raise DataError(f"{phrase}, {reason}") from None
    except OverflowError:  # a long integer
        number = np.inf
    if abs(number) > _FLOAT32:
        raise DataError(
            f"{phrase} is infinite or does not fit in float32; rescale the feature, or log null"
            " where it is missing"
        )
    return number


def documents_in_log(
    value: Any, query: str = ""
) -> Iterator[tuple[str, str, Iterable[tuple[str, Any]]]]:
    """Yield the query, document and features in a Solr or Elasticsearch response, in a hit, or in a
    plain row."""
    if isinstance(value, list):
        for element in value:
            yield from documents_in_log(element, query)
        return
    params = value.get("responseHeader", {}).get("params", {})
    ids = [container.get(key) for container in (value, params) for key in _QUERY_KEYS]
    ids = [qid for qid in ids if isinstance(qid, str | int | float)]
    query = as_name([*ids, query or params.get("q", "")][0])
    response = value.get("hits", value.get("response"))
    if response is not None:
        key = "hits" if "hits" in response else "docs"
        yield from documents_in_log(response[key], query)
        return
    name = as_name(next((value[key] for key in _DOCUMENT_KEYS if value.get(key) is not None), ""))
    if "[features]" in value:  # Solr
        pairs = (text.rsplit("=", 1) for text in value["[features]"].split(",") if text)
        yield query, name, [(feature, number) for feature, number in pairs]
    elif "_ltrlog" in value.get("fields", {}):
        feature_lists = chain.from_iterable(log.values() for log in value["fields"]["_ltrlog"])
        features = chain.from_iterable(feature_lists)
        yield query, name, [(feature["name"], feature.get("value")) for feature in features]
    else:
        keys = *_QUERY_KEYS, *_DOCUMENT_KEYS
        yield query, name, [(key, number) for key, number in value.items() if key not in keys]
