"""Model formats: what the files of each engine hold, one format a file, and the sidecar beside them."""

from __future__ import annotations

from typing import Any

from boostrank.core.errors import ModelError
from boostrank.engines.lightgbm.format import LIGHTGBM
from boostrank.engines.linear.format import LINEAR
from boostrank.engines.model_format import ModelFormat
from boostrank.engines.xgboost.format import XGBOOST

FORMATS: list[ModelFormat] = [LIGHTGBM, XGBOOST, LINEAR]
"""Every format; of those that recognise a file, the last one has it."""


def format_of(body: bytes) -> ModelFormat:
    """The format of a model file, by how it begins.

    Raises:
        ModelError: none's.
    """
    for one in reversed(FORMATS):
        if one.recognises(body):
            return one
    first, *others = (one.title for one in FORMATS)
    empty = "" if body else ": the file is empty"
    raise ModelError(f"neither {first} nor {' nor '.join(others)}{empty}")


def parse_model(body: bytes) -> Any:
    """A model file, taken apart and checked.

    Raises:
        ModelError: no engine's, damaged or hostile.
    """
    return format_of(body).parse(body)
