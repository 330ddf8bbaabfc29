"""Documents of queries in JSON, or in mappings of the same form:

* `{"q1": {"d1": 2}}` (ranx, pytrec_eval);
* rows `{"qid": "q1", "doc_id": "d1", "label": 2}`;
* `{"query": "q1", "ratings": [{"docId": "d1", "rating": "2"}]}` (OpenSearch's search relevance
  workbench);
* `{"id": "q1", "ratings": [{"_id": "d1", "rating": 2}]}` (`_rank_eval` of Elasticsearch and
  OpenSearch);
* `{"queries": [{"placeholders": {"$query": "q1"}}], "relevant_documents": {"d1": {"gain": 2}}}`
  (Rated Ranking Evaluator).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from boostrank.core.errors import FileFormatError
from boostrank.core.files import read_whole
from boostrank.data.roles import plain_name
from boostrank.files.chunks import lines_of
from boostrank.records import from_json

_LISTS = tuple(
    "judgmentRatings judgmentScores ratings requests topics query_groups queries qrels hits"
    " _source".split()
)
Entry = tuple[Any, Any, Any]
"""Query, document, and grade or score."""


def is_json(line: bytes) -> bool:
    """Return whether the first line of a text begins a JSON value."""
    return line.lstrip()[:1] in (b"{", b"[")


def json_of(path: str, head: bytes, *, once: bool = False) -> Iterator[tuple[int, Any]]:
    """Yield the line number and value of each line in JSON lines, or 0 and a single value that
    spans several lines.

    Args:
        head: the first line.
        once: whether to refuse repeated keys in an object.
    """
    try:
        from_json(head)
    except ValueError:
        try:
            yield 0, from_json(read_whole(path), once=once)
            return
        except ValueError as error:
            message = f"the file is neither JSON nor JSON lines: {error}"
            raise FileFormatError(message, file=path) from None
    for line_number, line in lines_of(path):
        if line.strip():
            try:
                yield line_number, from_json(line, once=once)
            except ValueError as error:
                raise FileFormatError(
                    f"the line is not JSON: {error}", file=path, line=line_number
                ) from None


def entries_of(
    value: Any, role_keys: Sequence[Sequence[str]], query: Any = None
) -> Iterator[Entry]:
    """Yield the entries in a JSON value, or raise LookupError, TypeError or AttributeError for
    other forms.

    Args:
        role_keys: recognised keys (see `plain_name`) of queries, documents and numbers, in order of
            preference.
        query: query of the enclosing object.
    """
    if isinstance(value, list):
        for element in value:
            yield from entries_of(element, role_keys, query)
        return
    if "relevant_documents" in value:
        yield from _of_evaluator(value)
        return
    nested_lists = [value[key] for key in _LISTS if isinstance(value.get(key), list | dict)]
    plain = {plain_name(str(key)): element for key, element in value.items()}
    plain_values = {
        key: element for key, element in plain.items() if isinstance(element, str | Real)
    }
    queries, documents, numbers = role_keys
    names_of_query = (*queries, "id") if nested_lists else queries
    query = next((plain_values[key] for key in names_of_query if key in plain_values), query)
    document_names = [plain_values[key] for key in documents if key in plain_values]
    if nested_lists:
        for element in nested_lists:
            yield from entries_of(element, role_keys, query)
    elif document_names and query is not None:
        number = next((key for key in numbers if key in plain), numbers[0])
        yield query, document_names[0], plain[number]
    elif any(key in plain for key in queries):
        raise LookupError  # a row without a document, or columns instead of rows
    else:
        yield from _by_query(value, role_keys, query)


def _by_query(
    value: Mapping[Any, Any], role_keys: Sequence[Sequence[str]], query: Any
) -> Iterator[Entry]:
    """Yield the entries of a mapping from queries to documents, or from documents to numbers."""
    for name, element in value.items():
        if isinstance(element, list) and query is None:
            yield from entries_of(element, role_keys, name)
        elif isinstance(element, Mapping) and query is None:
            yield from _by_query(element, role_keys, name)
        elif query is not None and (element is None or isinstance(element, str | Real)):
            yield query, name, element
        else:
            raise TypeError(name)


def _of_evaluator(group: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the entries of a query group of RRE (Rated Ranking Evaluator), whose queries have the
    same documents."""
    rated = group["relevant_documents"]
    for query in group["queries"]:
        for documents in rated if isinstance(rated, list) else [rated]:
            for name, document in documents.items():
                yield query["placeholders"]["$query"], name, document["gain"]
