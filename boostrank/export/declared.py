"""Features as a program declares them: their names, and the values that they have where a document
lacks one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.core.text import NUMBER, list_names
from boostrank.data.feature_space import quoted
from boostrank.files.names import name_of

Declared = Sequence[str | Mapping[str, Any]]
"""Names of features, or the objects of a feature store, of a feature set or of feature extractors.
"""


_MISSING_VALUE = re.compile(
    r'"field_value_factor"\s*:\s*{(?:[^{}]|{{[^{}]*}})*?"missing"\s*:\s*(?!null)'
    r'("[^"{}]*"|[^",{}\s]+)'
)
"""The value of an Elasticsearch query for documents without its field; a query may be a Mustache
template, which need not be JSON.
"""


def default_of(feature: str | Mapping[str, Any], unset: float) -> float:
    """Return the value of a feature in documents that lack it, NaN for a missing value, or `unset`
    if none is set.

    Raises:
        ParameterError: the value is not a number.
    """
    if isinstance(feature, str):
        return unset
    extractor, params = feature.get("query_extractor") or {}, feature.get("params")
    default: Any = (
        params.get("defaultValue")
        if isinstance(params, Mapping)
        else extractor.get("default_score")
    )
    if default is None:
        query = feature.get("template") or extractor.get("query")
        text = query if isinstance(query, str) else json.dumps(query)
        stand_in = _MISSING_VALUE.search(text)
        if stand_in is None:
            return unset
        default = stand_in[1].strip('"')
    default_text = str(default)
    is_missing = default_text == "NaN" or default != default
    if not is_missing and (isinstance(default, bool) or not NUMBER.fullmatch(default_text)):
        raise ParameterError(
            f"{name_of(feature)!r} has the default value {default!r}, which is not a number:"
            ' write digits, or "NaN" for a missing value'
        )
    return float(default)


def name_fault(declared: Declared, names: Sequence[str], *, one_store: bool = False) -> str | None:
    """Return why features cannot be those called `names` in the model, or None.

    Args:
        one_store: whether all features must be in one feature store.
    """
    listed_names, model_names = list(map(name_of, declared)), set(names)
    objects = [feature for feature in declared if isinstance(feature, Mapping)]
    stores = sorted({str(feature.get("store", "_DEFAULT_")) for feature in objects})
    if one_store and len(stores) > 1:
        return f"a model reads one feature store, but its features are in {', '.join(stores)}"
    repeated = [name for name, count in Counter(listed_names).items() if count > 1]
    if repeated:
        return f"two features have the name {repeated[0]!r}"
    missing_names = [name for name in names if name not in listed_names]
    extra_names = [name for name in listed_names if name not in model_names]
    if not missing_names and not extra_names:
        return None
    # Plain names may be others than the model's, in its order, but must not change places.
    is_moved = any(
        name in model_names and name != expected
        for name, expected in zip(listed_names, names, strict=False)
    )
    are_plain = not objects or len(extra_names) == len(listed_names)
    if len(listed_names) == len(names) and are_plain and not is_moved:
        return None
    faults = [f"lacks {quoted(missing_names)}"] if missing_names else []
    faults += [f"has {quoted(extra_names)}, which the model lacks"] if extra_names else []
    return (
        f"{len(listed_names)} feature names for {len(names)} features: the file"
        f" {' and '.join(faults)}; list the model's features: {list_names(names, 20)}"
    )
