"""vespa: Vespa 8, as XGBoost's JSON dump, or as a ranking expression for linear models."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from boostrank.engines.served.linear import LinearScore
from boostrank.engines.served.rules import Rules
from boostrank.engines.served.search_plugins import read_roots
from boostrank.export.target import Score, ServedModel, TargetSpec
from boostrank.export.targets.search_plugins import dump

# Rank features in a ranking expression: `attribute(price)`, `fieldMatch(title).completeness`, `f1`.
_FEATURE = re.compile(
    r"[A-Za-z_@][A-Za-z0-9_@$]*(\([A-Za-z0-9_@$.]+(,[A-Za-z0-9_@$.]+)*\)(\.[A-Za-z0-9_@$.]+)?)?"
)
# Names that Vespa always parses as functions of ranking expressions.
_FUNCTIONS = """
argmax argmin atan2 avg bit ceil cell_cast concat cosine_similarity count diag elu erf
euclidean_distance exp expand fabs filter_subspaces floor fmod hamming if isNan join l1_normalize
l2_normalize ldexp log log10 map map_subspaces matmul max median merge min pow prod range reduce
relu rename sigmoid softmax sqrt sum switch tensor unpack_bits xw_plus_b
"""
_FUNCTION = re.compile(rf"({'|'.join(_FUNCTIONS.split())}|a?(cos|sin|tan)|(cos|sin|tan)h)\(.*")


def _name_fault(names: Sequence[str]) -> str | None:
    fault = "is not a rank feature of Vespa, such as attribute(price) or bm25(title)"
    for name in names:
        if not _FEATURE.fullmatch(name) or _FUNCTION.fullmatch(name):
            return f"{name!r} {fault}"
    return None


def _write(model: ServedModel) -> bytes:
    """Write XGBoost's dump in float32 numbers, because Vespa reads float64 numbers, or float32 in
    large models.
    """
    return (json.dumps(dump(model, exact_text=True), indent=0) + "\n").encode()


def _write_linear(model: ServedModel) -> bytes:
    """Write one term a line, with its value for missing attributes."""
    linear = model.linear.folded()
    lines = [repr(linear.bias)]
    weights, fill_values = linear.weights.tolist(), linear.missing.tolist()
    for column in linear.used:
        name = model.feature_names[column]
        lines.append(f"+ {weights[column]!r} * if(isNan({name}), {fill_values[column]!r}, {name})")
    return "\n".join([*lines, ""]).encode()


def _read_linear(body: bytes, names: Sequence[str]) -> Score:
    bias, *terms = body.decode().splitlines()
    weights, fill_values = np.zeros((2, len(names)))
    pattern = r"\+ (\S+) \* if\(isNan\(.*\), (\S+), (.*)\)"
    for term in terms:
        weight, fill_value, name = re.findall(pattern, term)[0]
        column = names.index(name)
        weights[column], fill_values[column] = weight, fill_value
    linear = LinearScore.of_weights(weights, fill_values, float(bias))
    return lambda rows: linear.score(rows, Rules())


SPEC = TargetSpec(
    name="vespa",
    title="Vespa 8, as XGBoost's JSON",
    write=_write,
    parse=read_roots,
    rules=Rules(strict=True, leaves=np.float32),
    proved_by="reading the file by the rules of Vespa's XGBoostParser",
    how="""\
file:     {file}, whose name must end in .json, into models/ of the application package; then \
`vespa deploy`
profile:  first-phase {{ expression: xgboost({quoted}) }}, or in second-phase or a function
features: named as in the rank profile; absent values are missing for attribute() and 0 for \
query()
""",
    finite=True,
    categories=False,
    name_fault=_name_fault,
    linear={
        "title": "Vespa 8, as a ranking expression",
        "write": _write_linear,
        "read": _read_linear,
        "rules": Rules(),
        "proved_by": "reading the file by the rules of Vespa's ranking expressions",
        "how": """\
file:     {file}, whose name must end in .expression, into the folder of the schema; then \
`vespa deploy`
profile:  first-phase {{ expression: file:{file} }}, or in second-phase or a function
features: named as in the rank profile; absent values are missing for attribute() and 0 for query()
""",
    },
)
