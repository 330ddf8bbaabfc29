"""Categories in XGBoost's JSON: what the codes of each column stand for, by which XGBoost codes a data frame by itself.

It does so since 3.1, and orders text otherwise than by its bytes where these are above 127: such names stay out of the
file, and in boostrank's own record. Where XGBoost 3.1 to 3.3 wrote such names itself, it took the number of letters for
that of bytes: the names run into each other, and the last ones are cut.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.core.jsonable import is_whole
from boostrank.engines.model_format import write_json

_INT64 = 15  # Value::ValueKind of int64
_NONE: dict[str, Any] = {"enc": [], "feature_segments": [], "sorted_idx": []}
_COUNTS_BYTES = [3, 4]
"""The first version that does."""


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
    return write_json(document)


def names_in(body: bytes) -> dict[int, tuple[Any, ...]]:
    """Column -> what its codes stand for, of a file that has been checked; not where its own version garbled them."""
    document = json.loads(body)
    found = {} if _is_garbled(document) else {i: _decoded(one) for i, one in enumerate(_columns(document))}
    return {i: names for i, names in found.items() if names}


def readable(body: bytes) -> bytes:
    """The file as XGBoost's own reader takes it: escaped letters written out, and no names of categories where the
    version that wrote it garbled some. A later one that loads and saves the file would put its own number on them."""
    if b'"offsets"' not in body and b"\\u" not in body:
        return body
    document = json.loads(body)
    if _is_garbled(document):
        document["learner"]["gradient_booster"]["model"]["cats"] = _NONE
    return write_json(document)


def _is_garbled(document: Mapping[str, Any]) -> bool:
    texts = (one["values"] for one in _columns(document) if "offsets" in one)
    return document["version"][:2] < _COUNTS_BYTES and any(not 0 <= byte < 128 for text in texts for byte in text)


def _columns(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    forest = document["learner"]["gradient_booster"].get("model") or {}
    return list((forest.get("cats") or _NONE)["enc"])


def _is_text(names: Sequence[Any]) -> bool:
    return all(isinstance(name, str) and name.isascii() for name in names)


def _is_whole(names: Sequence[Any]) -> bool:
    return all(is_whole(name) and abs(name) < 2**63 for name in names)


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
