"""Usual names of table columns: labels, query ids, documents, and the index of pandas frames."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any

from boostrank.core.errors import DataError, DataWarning, warn_user
from boostrank.records import from_json

# Default column names by role, in order of preference. If there is a label, a rating column is a feature.
DEFAULTS = {
    "label": (("label", "relevance"), ("grade",), ("rating",)),
    "qid": (("qid", "query_id"), ("query",)),
    "weight": (),
    "id": (("doc_id", "docid", "document_id", "docno", "doc", "document"), ("product_id", "sku", "item_id")),
}
INDEX_OF_CSV = "Unnamed: 0"  # pandas' name for a nameless first column of a CSV file, the index of the written frame
_INDEX = re.compile(rf"__index_level_\d+__|{INDEX_OF_CSV}(\.\d+)?")
# Index columns, including those that pandas' `reset_index` inserts first; in other positions they are features.
_RESET_INDEX = re.compile(rf"{_INDEX.pattern}|index|level_\d+")


def usual_column(role: str, names: Sequence[str], taken: Collection[str] = ()) -> str | None:
    """Return the column with a usual name for a role, or None. Raise `DataError` for several, except documents."""
    tiers: tuple[tuple[str, ...], ...] = DEFAULTS[role]
    known = ([name for name in names if _plain(name) in tier and name not in taken] for tier in tiers)
    found = next(filter(None, known), [])
    if len(found) > 1 and role != "id":
        raise DataError(
            f"the columns {' and '.join(map(repr, found))} are candidates; choose one with --{role}, or drop the other"
        )
    return found[0] if found else None


def say_query_columns(features: Sequence[str]) -> None:
    """Warn about features whose names are usual for query ids."""
    for name in features:
        if _plain(name) in chain(*DEFAULTS["qid"]):
            warn_user(f"{name!r} is used as a feature; drop the column if it contains query ids", DataWarning)


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.lower())  # `Query ID` is `query_id`


def index_columns(names: Sequence[str], metadata: Mapping[bytes, bytes] | None = None) -> list[str]:
    """Return the columns with the index of a pandas frame, by their names or the metadata of an Arrow schema."""
    first = set(takewhile(_RESET_INDEX.fullmatch, names))
    first |= {name for name in of_pandas(metadata).get("index_columns", ()) if isinstance(name, str)}
    return [name for name in names if name in first or _INDEX.fullmatch(name)]


def of_pandas(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return what pandas noted in the metadata of an Arrow schema, or {} if there is nothing that can be read."""
    try:
        found = from_json((metadata or {}).get(b"pandas", b"{}"))
    except ValueError:
        return {}
    usable = isinstance(found, dict) and all(
        isinstance(found.get(key, []), list) for key in ("columns", "index_columns")
    )
    return found if usable else {}
