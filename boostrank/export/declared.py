"""Features as a program declares them: their names, and the values that they have where a document
lacks one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from boostrank.data.feature_space import quoted
from boostrank.files.names import name_of

Declared = Sequence[str | Mapping[str, Any]]
"""Names of features, or the objects of a feature store, of a feature set or of feature extractors.
"""


def default_of(feature: str | Mapping[str, Any], unset: float) -> float:
    """Return the value of a feature in documents that lack it, NaN for a missing value, or `unset`
    if none is set.
    """
    if isinstance(feature, str):
        return unset
    extractor, params = feature.get("query_extractor") or {}, feature.get("params")
    default = (
        params.get("defaultValue")
        if isinstance(params, Mapping)
        else extractor.get("default_score")
    )
    if default is None:
        default = next(_stand_ins([feature.get("template"), extractor.get("query")]), unset)
    try:
        return float(default)
    except (TypeError, ValueError):
        return math.nan


def _stand_ins(query: Any) -> Iterator[Any]:
    """Yield the value of each `field_value_factor` of an Elasticsearch query for documents without
    its field.
    """
    parts: Iterable[Any] = query if isinstance(query, list) else ()
    if isinstance(query, Mapping):
        parts, factor = query.values(), query.get("field_value_factor")
        if isinstance(factor, Mapping) and "missing" in factor:
            yield factor["missing"]
    for part in parts:
        yield from _stand_ins(part)


def name_fault(declared: Declared, names: Sequence[str]) -> str | None:
    """Return why features cannot be those called `names` in the model, or None."""
    listed = list(map(name_of, declared))
    in_model = set(names)
    shared = in_model & set(listed)
    repeated = next((name for name, count in Counter(listed).items() if count > 1), None)
    if repeated is not None:
        return f"two features have the name {repeated!r}"
    typed = ", ".join(names[:20]) + ", ..." * (len(names) > 20)
    moved = [
        name
        for name, expected in zip(listed, names, strict=False)
        if name in in_model and name != expected
    ]
    if shared == in_model == set(listed):
        return None
    plain = not shared or all(isinstance(feature, str) for feature in declared)
    if len(listed) == len(names) and not moved and plain:
        return None  # other names for the model's features
    # What differs, by name.
    lacking = [name for name in names if name not in shared]
    extra = [name for name in listed if name not in in_model]
    words = [f"lacks {quoted(lacking)}"] if lacking else []
    words += [f"has {quoted(extra)}, which the model lacks"] if extra else []
    words = words or [f"has {moved[0]!r} as number {listed.index(moved[0]) + 1}"]
    count = f"there are {len(listed)} feature names for a model with {len(names)} features: "
    count *= len(listed) != len(names)
    return f"{count}the file {' and '.join(words)}; list the model's features: {typed}"
