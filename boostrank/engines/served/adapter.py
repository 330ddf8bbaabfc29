"""Boosters that score as a serving program does, and give leaves and contributions by the engine
that holds a copy of the model.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Array
from boostrank.data.arrays import Features, default_feature_names
from boostrank.data.rows import dense_batches, dense_rows
from boostrank.engines.base import SCORES, Booster, PredictRequest
from boostrank.engines.lightgbm.adapter import LightGBMBooster
from boostrank.engines.linear.adapter import LinearBooster
from boostrank.engines.served import elastic, lightgbm_dump, ranklib, search_plugins, solr
from boostrank.engines.served.linear import LinearFile
from boostrank.engines.served.rules import DAMAGE
from boostrank.engines.served.trees import TreeFile
from boostrank.engines.trees import refuse
from boostrank.records import from_json

_NUMBERED = re.compile(r"f(0|[1-9]\d{0,5})")
FORMATS: tuple[tuple[str, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("a model of Solr", solr.recognises, solr.read),
    (
        "an upload to a learning-to-rank plugin (_createmodel)",
        search_plugins.model_of,
        search_plugins.read_upload,
    ),
    ("a trained model of Elasticsearch", elastic.recognises, elastic.read),
    ("a RankLib model", ranklib.recognises, ranklib.read),
    ("LightGBM's dump (dump_model)", lightgbm_dump.recognises, lightgbm_dump.read),
    ("XGBoost's dump (get_dump)", search_plugins.recognises_dump, search_plugins.read_dump),
)
"""The title of each format, whether a parsed file has it, and its reader. The first that recognises
a file reads it.
"""


class _Scores(Booster):
    """The part of a booster that scores by the program's rules, given its `file`."""

    scores_rows_alone = True
    served = True
    file: TreeFile | LinearFile

    @property
    def index_base(self) -> int | None:
        """The number of the first feature, if the features are numbered."""
        return {"f0": 0, "f1": 1}.get(self.file.names[0])

    def predict(self, features: Features, request: PredictRequest) -> Array:
        """Compute scores by the program's rules, other outputs by the engine."""
        if request.what != SCORES or request.rounds not in (0, self.rounds):
            return super().predict(features, request)
        rows = (dense_rows(features, start, stop) for start, stop in dense_batches(features))
        return np.concatenate([np.zeros(0), *map(self.file.scores, rows)])


class ServedTreeBooster(_Scores, LightGBMBooster):
    """Trees, of which LightGBM has a copy."""


class ServedLinearBooster(_Scores, LinearBooster):
    """A linear model."""


def parse(body: bytes) -> TreeFile | LinearFile | None:
    """Read a model of a serving program, or return None for any other file.

    Raises:
        ModelError: the file is damaged, or has what cannot be read.
    """
    document: Any = None
    body = body.removeprefix(codecs.BOM_UTF8)
    if re.match(rb"\s*[\[{]", body):
        try:
            document = from_json(body, once=True)
        except (json.JSONDecodeError, UnicodeDecodeError):
            return None
        except ValueError as error:
            raise ModelError(f"its JSON cannot be read: {error}") from None
    elif re.match(rb"## *\w|\s*(<\?xml[^>]*>\s*)?<ensemble", body):
        document = body.decode("utf-8", "replace")
    # Read it in the first format that recognises it.
    models = _models_in(document)
    for title, recognises, read in FORMATS:
        if recognises(models[0]):
            try:
                refuse(
                    len(models) > 1,
                    f"the file has {len(models)} models: write one of them to a file",
                )
                file: TreeFile | LinearFile = read(models[0])
                if isinstance(file, TreeFile):
                    refuse(~np.isfinite(file.forest.threshold), "a threshold is not finite")
                return _with_all_numbered(file)
            except DAMAGE as error:
                reason = f"it is damaged: {error}"
                if isinstance(error, KeyError):
                    reason = f"it has no {error}"
                elif isinstance(error, ModelError):
                    reason = str(error)
                raise ModelError(f"it is {title}, but {reason}") from None
    return None


def _with_all_numbered(file: TreeFile | LinearFile) -> TreeFile | LinearFile:
    """Return the model with all features up to the last, if they are numbered, because libsvm text
    has those that the file does not list.
    """
    numbers = [int(name[1:]) for name in file.names if _NUMBERED.fullmatch(name)]
    if len(numbers) < len(file.names):
        return file
    first = min(1, *numbers)
    names = default_feature_names(max(numbers) + 1 - first, first)
    columns = np.array(numbers, np.int32) - first
    if isinstance(file, TreeFile):
        forest = replace(file.forest, feature=columns[file.forest.feature])
        return replace(file, names=names, forest=forest)
    # Features that are not listed have weight 0.
    parts: dict[str, Any] = {
        part: np.bincount(columns, getattr(file.score, part))
        for part in ("weights", "shift", "divisor", "missing")
    }
    return replace(file, names=names, score=replace(file.score, **parts))


def _models_in(document: Any) -> list[Any]:
    """Return the models in an engine's list, or the document alone."""
    models = document
    for name in ("hits", "hits", "models", "managedList", "trained_model_configs"):
        models = models.get(name, models) if isinstance(models, dict) else models
    is_list = isinstance(models, list) and not search_plugins.recognises_dump(models)
    return models if is_list and models else [document]


def load(file: TreeFile | LinearFile) -> Booster:
    """Return a booster with the program's scores."""
    booster: ServedTreeBooster | ServedLinearBooster
    if isinstance(file, TreeFile):
        booster = ServedTreeBooster(lightgbm.Booster(model_str=file.to_text().decode()))
    else:
        booster = ServedLinearBooster(file.to_model())
    booster.file = file
    return booster
