"""Vespa: XGBoost's dump, which keeps the ways of missing values."""

from __future__ import annotations

import json
import re

from boostrank.export.consumers.vespa import read
from boostrank.export.search_plugins import dump
from boostrank.export.target import ExportError, ServedModel, TargetSpec

# `attribute(price)`, `fieldMatch(title).completeness`, `f1`: what a ranking expression takes for a feature.
_FEATURE = re.compile(r"[A-Za-z_@][A-Za-z0-9_@$]*(\([A-Za-z0-9_@$.]+(,[A-Za-z0-9_@$.]+)*\)(\.[A-Za-z0-9_@$.]+)?)?")
# With arguments these are functions of ranking expressions, whatever the rank profile says.
_FUNCTION = re.compile(
    r"(argmax|argmin|atan2|avg|bit|ceil|cell_cast|concat|cosine_similarity|count|diag|elu|erf|euclidean_distance|exp"
    r"|expand|fabs|filter_subspaces|floor|fmod|hamming|if|isNan|join|l1_normalize|l2_normalize|ldexp|log|log10|map"
    r"|map_subspaces|matmul|max|median|merge|min|pow|prod|range|reduce|relu|rename|sigmoid|softmax|sqrt|sum|switch"
    r"|tensor|unpack_bits|xw_plus_b|a?(cos|sin|tan)|(cos|sin|tan)h)\(.*"
)


def check_names(model: ServedModel) -> None:
    """Refuse names that a ranking expression would take for something else.

    Raises:
        ExportError: there is one.
    """
    wrong = [name for name in model.feature_names if not _FEATURE.fullmatch(name) or _FUNCTION.fullmatch(name)]
    if wrong:
        raise ExportError(
            f"{wrong[0]!r} is no rank feature of Vespa ({len(wrong)} such names): --feature-names gives it those of "
            "your rank profile, as attribute(price) or bm25(title)"
        )


def write(model: ServedModel) -> bytes:
    """As XGBoost dumps it. Vespa reads numbers as float64, or float32 in large models: they are float32 numbers."""
    check_names(model)
    return (json.dumps(dump(model, "Vespa", exact_text=True), indent=0) + "\n").encode()


SPEC = TargetSpec(
    name="vespa",
    title="Vespa 8, as XGBoost's JSON",
    write=write,
    read=read,
    proved_by="an emulator of Vespa's XGBoostParser",
    how=(
        "file:     {file}, whose name must end in .json, into models/ of the application package; then `vespa deploy`",
        'profile:  first-phase {{ expression: xgboost("{file}") }}, or in second-phase or a function',
        "features: named as in the rank profile; what attribute() does not hold is missing, what query() has not is 0",
    ),
    adds="float64",
    gives="float64",
    finite=True,
)
