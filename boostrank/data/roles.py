"""Usual names of table columns: labels, query ids, documents, and the index of pandas frames."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any

from boostrank.core.errors import DataError, warn_user
from boostrank.records import from_json

# Default column names by role, in order of preference. If there is a label, a rating column is a
# feature.
DEFAULTS = {
    "label": (("label", "relevance"), ("grade",), ("rating",)),
    "qid": (("qid", "query_id"), ("query",)),
    "weight": (),
    "id": (
        ("doc_id", "docid", "document_id", "docno", "doc", "document"),
        ("product_id", "sku", "item_id"),
    ),
}
INDEX_OF_CSV = "Unnamed: 0"  # pandas' name for a nameless first column of a CSV file, an index
_INDEX = re.compile(rf"__index_level_\d+__|{INDEX_OF_CSV}(\.\d+)?")
# Index columns, including those that pandas' `reset_index` and polars' `from_pandas` insert first;
# elsewhere they are features.
_RESET_INDEX = re.compile(rf"{_INDEX.pattern}|index|level_\d+|None")


def usual_column(
    role: str,
    names: Sequence[str],
    taken: Collection[str] = (),
    defaults: Mapping[str, tuple[tuple[str, ...], ...]] = DEFAULTS,
) -> str | None:
    """Return the column with a usual name for a role, or None. Several labels or ids raise
    `DataError`."""
    candidates = [name for name in names if name not in taken]
    tiers = [[name for name in candidates if is_among(name, tier)] for tier in defaults[role]]
    columns = next(filter(None, tiers), [])
    if len(columns) > 1 and role != "id":
        raise DataError(
            f"the columns {' and '.join(map(repr, columns))} are candidates; choose one "
            f"(--{role}, or {role}= in Python), or drop the other"
        )
    return columns[0] if columns else None


def say_role_columns(features: Sequence[str]) -> None:
    """Warn about features whose names are usual for query ids, labels or documents."""
    names_by_content = {
        "query ids": [*chain(*DEFAULTS["qid"])],
        "the labels": DEFAULTS["label"][0],
        "names of documents": DEFAULTS["id"][0],
    }
    for name in features:
        for content, names in names_by_content.items():
            if is_among(name, names):
                warn_user(
                    f"{name!r} is used as a feature; drop the column if it contains {content}"
                )


def is_among(name: str, usual_names: Iterable[str]) -> bool:
    """Return whether a column has one of the usual names in any spelling: `Query ID` and `queryId`
    are `query_id`."""
    return plain_name(name) in map(plain_name, usual_names)


def plain_name(name: str) -> str:
    """Return the name of a column in lower case, without blanks, hyphens and inner underscores."""
    return re.sub(r"(?<=.)[\s_-]+", "", name.strip().lower())


def index_columns(names: Sequence[str], metadata: Mapping[bytes, bytes] | None = None) -> list[str]:
    """Return the columns with the index of a pandas frame, by name or by an Arrow schema's
    metadata."""
    recorded = map(str, pandas_metadata(metadata).get("index_columns", ()))
    index_names = {*takewhile(_RESET_INDEX.fullmatch, names), *recorded}
    return [name for name in names if name in index_names or _INDEX.fullmatch(name)]


def pandas_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return what pandas noted in the metadata of an Arrow schema, or {} if it cannot be read."""
    try:
        recorded = from_json((metadata or {}).get(b"pandas", b"{}"))
    except ValueError:
        return {}
    if isinstance(recorded, dict) and all(
        isinstance(recorded.get(key, []), list) for key in ("columns", "index_columns")
    ):
        return recorded
    return {}
