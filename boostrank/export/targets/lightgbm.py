"""lightgbm: LightGBM's model text, with a header that loaders accept and the program's feature
names.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from boostrank.core.errors import InputError
from boostrank.core.types import Array
from boostrank.engines.lightgbm.format import LIGHTGBM, stamped, with_line
from boostrank.engines.served.rules import Rules
from boostrank.engines.trees import engine_names
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec, with_version
from boostrank.model.ranking_model import RankingModel

# Objectives whose scores programs do not transform; half of the loaders refuse a file without an
# objective.
_PLAIN = (b"lambdarank", b"rank_xendcg")


def _write(model: ServedModel) -> bytes:
    objective = re.search(rb"^objective=(\S*)", model.body.partition(b"\n\n")[0], re.MULTILINE)
    body = model.body if objective and objective[1] in _PLAIN else stamped(model.body)
    model_text, names = LIGHTGBM.parse(body), engine_names(model.feature_names)
    (line,) = re.findall(rb"^feature_names=(.*)$", model_text.head, re.MULTILINE)
    new_names: dict[bytes, bytes] = dict(
        zip(line.split(b" "), [name.encode() for name in names], strict=True)
    )

    def rename(importance: re.Match[bytes]) -> bytes:
        return new_names.get(importance[1], importance[1]) + importance[2]

    importances, separator, parameters = model_text.tail.partition(b"\nparameters:\n")
    importances = re.sub(rb"^(.+)(=\d+)$", rename, importances, flags=re.MULTILINE)
    head = with_line(model_text.head, "feature_names", " ".join(names))
    return replace(model_text, head=head, tail=importances + separator + parameters).to_bytes()


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    booster = load_exported(body, "model.txt", feature_names)

    def score(rows: Array) -> Array:
        return np.asarray(booster.predict(rows, raw_score=True, num_threads=1))

    return score


def load_exported(body: bytes, file_name: str, feature_names: Sequence[str]) -> Any:
    """Read an exported model as a user would, from a temporary file, and return its booster.

    Raises:
        ExportError: the file is not a model that boostrank reads, or has other features.
    """
    with tempfile.TemporaryDirectory(prefix="boostrank-") as folder:
        path = Path(folder, file_name)
        path.write_bytes(body)
        try:
            model = RankingModel.load(path)
        except InputError as error:
            raise ExportError(str(error).replace(str(path), "the exported file")) from error
    if model.column_names != engine_names(feature_names):
        raise ExportError("the file has different feature names")
    return model.booster


SPEC = TargetSpec(
    name="lightgbm",
    title="LightGBM and what reads its text",
    write=_write,
    read=_read,
    proved_by=with_version("LightGBM", "lightgbm"),
    how="""\
LightGBM opens {file} by itself: lightgbm.Booster(model_file={literal}).predict(rows, \
raw_score=True).
So do its C API (LGBM_BoosterCreateFromModelfile), Metarank and, without zero_as_missing, \
treelite.
Pass values in the order of the model's features, as float64 or float32; NaN is missing.
""",
    rules=Rules(),
    exact=("lightgbm",),
    engine="lightgbm",
    zeros=True,
)
