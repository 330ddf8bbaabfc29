"""Categories in XGBoost's JSON: what the codes of each column stand for, by which XGBoost codes a data frame by itself.

It does so since 3.1, and orders text otherwise than by its bytes where these are above 127: such names stay out of the
file, and in boostrank's own record.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_INT64 = 15  # Value::ValueKind of int64
_NONE: dict[str, Any] = {"enc": [], "feature_segments": [], "sorted_idx": []}


def with_names(body: bytes, names: Mapping[int, Sequence[Any] | None]) -> bytes | None:
    """A file of XGBoost's own making with the names of categories; None where it cannot hold them.

    Args:
        body: of trees, unchecked.
        names: column -> what its codes stand for, of all columns that have categories; none: the file without.
    """
    document = json.loads(body)
    forest = document["learner"]["gradient_booster"].get("model")
    if forest is None or not all(one is not None and (_is_text(one) or _is_whole(one)) for one in names.values()):
        return None
    columns = int(document["learner"]["learner_model_param"]["num_feature"])
    listed = [names.get(i, ()) or () for i in range(columns)] if names else []
    forest["cats"] = {
        "enc": [_encoded(one) for one in listed],
        "feature_segments": np.cumsum([0, *map(len, listed)]).tolist() if names else [],
        "sorted_idx": [i for one in listed for i in sorted(range(len(one)), key=one.__getitem__)],
    }
    return json.dumps(document).encode()


def names_in(body: bytes) -> dict[int, tuple[Any, ...]]:
    """Column -> what its codes stand for, of a file that has been checked."""
    forest = json.loads(body)["learner"]["gradient_booster"].get("model") or {}
    found = {i: _decoded(one) for i, one in enumerate((forest.get("cats") or _NONE)["enc"])}
    return {i: names for i, names in found.items() if names}


def _is_text(names: Sequence[Any]) -> bool:
    return all(isinstance(name, str) and name.isascii() for name in names)


def _is_whole(names: Sequence[Any]) -> bool:
    return all(isinstance(name, int) and not isinstance(name, bool) and abs(name) < 2**63 for name in names)


def _encoded(names: Sequence[Any]) -> dict[str, Any]:
    if not _is_text(names):
        return {"type": _INT64, "values": list(names)}
    ends = np.cumsum([0, *map(len, names)]).tolist() if names else []
    return {"offsets": ends, "values": list("".join(names).encode())}


def _decoded(column: Mapping[str, Any]) -> tuple[Any, ...]:
    if "offsets" not in column:
        return tuple(column["values"])
    text, ends = bytes(value % 256 for value in column["values"]), column["offsets"]
    return tuple(text[a:b].decode(errors="replace") for a, b in itertools.pairwise(ends))
