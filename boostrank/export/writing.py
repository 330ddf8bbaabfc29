"""Model export, which writes a file only after proving that its scores are correct."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError, warn_user
from boostrank.core.files import (
    check_not_read,
    check_writable,
    path_of,
    read_text,
    write_atomically,
)
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.data.feature_space import quoted
from boostrank.data.rows import missing_in
from boostrank.engines import format_of
from boostrank.engines.linear.format import LinearModel
from boostrank.engines.served.linear import NO_WEIGHTS, LinearScore
from boostrank.engines.trees import NO_TREES
from boostrank.export import TARGETS
from boostrank.export.declared import Declared, default_of, name_fault
from boostrank.export.proof import KINDS, MOVED, Proof, prove
from boostrank.export.target import ExportError, ServedModel, TargetSpec
from boostrank.files.names import features_in_json, name_of, names_in
from boostrank.files.tables import is_table
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.options import FileOptions

_ENDINGS = re.compile(
    r"(\.(json|txt|model|xml|onnx|ubj|c|go|java|m?js|py|sql|gz))+$", re.IGNORECASE
)
# Control characters, line ends and lone surrogates.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def export_model(
    model: Any,
    path: str | os.PathLike[str],
    to: str,
    *,
    feature_names: Sequence[str | Mapping[str, Any]] | None = None,
    name: str | None = None,
    data: RankingDataset | None = None,
    allow: Collection[str] = (),
) -> Proof:
    """Write a model in a serving program's format, after checking that its scores are the same
    there.

    The check scores rows on both sides of every split, with zeros, missing values, infinities and
    unseen categories. The program itself scores them if it can run here. Otherwise, the file is
    read and scored by the program's rules.

    Args:
        model: LightGBM, XGBoost or linear ranker, as a `RankingModel`, its path, or a booster or
            ranker from these libraries.
        path: path of the file to write.
        to: name of a target in `boostrank.export.TARGETS`, such as "solr", "onnx" or "c".
        feature_names: d feature names in the serving program, or the objects of its feature store,
            feature set or feature extractors, which must give missing values as the model expects;
            None for the names in the model.
        name: name of the model in the serving program; None for the file name without its ending.
        data: rows of your own with queries, in which no document may change its rank, except by
            rounding.
        allow: kinds of rows whose scores may differ (`boostrank.export.proof.KINDS`); "moved"
            allows documents of `data` to change their ranks.

    Returns:
        The numbers of tested rows and splits, and the differences found.

    Raises:
        ExportError: if the target does not support the model or gives other scores, or the model
            has columns within queries.
        ParameterError: if the target is unknown, or names do not fit.
        ModelError: if the scores are neither a sum of trees with constant leaves nor linear.
        TrainingError: if the file cannot be written.

    Example:
        >>> import pathlib, tempfile
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> model = boostrank.train(params, data, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     proof = boostrank.export_model(model, pathlib.Path(folder, "model.json"), "solr")
        >>> proof.target, proof.nodes == proof.of_nodes
        ('solr', True)
    """
    # Refuse unknown arguments and paths before the slow proof.
    if path_of(model):
        check_not_read(path, [model])
    model = as_model(model)
    if data is not None:
        data = as_dataset(data)
    target = TARGETS.get(to).serving(model.backend)
    unknown = sorted(set(allow) - {*KINDS, MOVED})
    if unknown:
        raise ParameterError(
            f"allow must be from {', '.join((*KINDS, MOVED))}, but got {unknown[0]!r}"
        )
    if MOVED in allow and data is None:
        raise ParameterError(
            f"allow={MOVED!r} needs data; pass your own rows (DATA on the command line)"
        )
    check_writable(path)
    # Convert the model, and prove that its scores stay the same.
    if target.normalises:
        model, data = model.over_columns(data)
    served = _prepare_model(
        model,
        target,
        features=feature_names,
        name=name or _name_of(path),
        may_be_missing=_find_missing(model, data),
    )
    try:
        body = target.write(served)
        proof = prove(model, served, target, body, data=data, allow=allow)
    except ImportError as error:
        raise ExportError(
            f"export to {target.name} needs {error.name or target.extra}: pip install"
            f" 'boostrank[{target.extra}]'"
        ) from error
    # Write only a proven file, and name the omitted parts.
    write_atomically(path, body)
    if model.info.calibration is not None:
        warn_user(f"{os.fspath(path)}: has raw scores; the calibration stays in the model's record")
    return proof


def how_to(target: TargetSpec, path: str | os.PathLike[str], name: str | None = None) -> list[str]:
    """Return three lines of instructions for using the file."""
    model_name = json.dumps(name or _name_of(path), ensure_ascii=False)[1:-1].replace("'", "'\\''")
    return target.how.format(
        file=Path(path).name,
        quoted=json.dumps(Path(path).name, ensure_ascii=False),
        path=shlex.quote(os.fspath(path)),
        literal=repr(os.fspath(path)),
        model=model_name,
    ).splitlines()


def _prepare_model(
    model: RankingModel,
    target: TargetSpec,
    *,
    features: Declared | None,
    name: str,
    may_be_missing: Container[str],
) -> ServedModel:
    """Prepare a model. Features that are not `may_be_missing` keep missing values, as these do not
    occur.
    """
    columns = model.feature_names
    features = columns if features is None else features
    names = _name_features(features, columns, one_store=target.one_store)
    _check_names([name], "model", "--name")
    body, linear, trees = model.to_bytes(), NO_WEIGHTS, NO_TREES
    format = format_of(body)
    parsed = format.parse(body)
    if isinstance(parsed, LinearModel):
        linear = LinearScore.of_model(parsed)
        if model.is_served:  # missing values are 0 there
            linear = replace(linear, missing=np.zeros(linear.missing.size))
    else:
        trees = format.served(parsed)
    forest = trees.forest
    categorical = [names[i] for i in np.unique(forest.feature[forest.categorical])]
    for objection in target.objections(
        engine=model.backend,
        names=names,
        categorical=categorical,
        within=model.columns.words(),
        trees=forest.roots.size,
    ):
        raise ExportError(f"{objection.words}; {objection.fix}")
    if target.rules.sums is np.float32 and not trees.single and model.backend not in target.exact:
        trees = trees.small_first()
    # Values of documents without a feature: the declared ones, or the fill values if the program
    # has no missing ones.
    declared = {name_of(feature): feature for feature in features if not isinstance(feature, str)}
    used_columns = np.union1d(forest.used, linear.used)
    fill = {}
    if target.rules.missing is not None:
        fill = dict(model.info.fill or {})
        replaced = linear.missing != target.rules.missing
        fill |= {columns[i]: float(linear.missing[i]) for i in np.flatnonzero(replaced)}
    defaults = np.array([fill.get(column, math.nan) for column in columns])
    never_missing = []
    for i in map(names.index, declared):
        default = default_of(declared[names[i]], target.unset)
        if columns[i] in may_be_missing:
            is_unset = math.isnan(default) and target.rules.missing is not None
            defaults[i] = math.inf if is_unset else default  # NaN goes right, as infinity does
        elif not math.isnan(default) and i in used_columns:
            never_missing.append(names[i])
    if never_missing:
        warn_user(
            f"{quoted(never_missing)}: had no missing values in training; documents without a"
            " value will get the declared default"
        )
    return ServedModel(
        name=name,
        engine=model.backend,
        body=format.stamp(body),
        trees=trees,
        feature_names=names,
        declared=declared,
        defaults=defaults,
        fill={columns[i]: fill[columns[i]] for i in used_columns if columns[i] in fill},
        linear=linear,
    )


def _name_features(
    features: Declared, columns: tuple[str, ...], *, one_store: bool
) -> tuple[str, ...]:
    """Return the names in the order of the model's columns, for those of a feature store too."""
    if fault := name_fault(features, columns, one_store=one_store):
        raise ParameterError(f"--feature-names: {fault}")
    names = tuple(map(name_of, features))
    names = columns if set(names) == set(columns) else names
    _check_names(names, "feature", "--feature-names")
    return names


def _find_missing(model: RankingModel, data: RankingDataset | None) -> Container[str]:
    """Return the features that may be missing: those in training or in `data`, or all if that was
    not recorded.
    """
    recorded_missing = (model.info.data or {}).get("missing")
    if recorded_missing is None:
        return model.feature_names
    may_be_missing = {*recorded_missing, *(model.info.fill or {})}
    if data is not None:
        rows = model.check_features(data)
        may_be_missing |= {rows.feature_names[i] for i in np.flatnonzero(missing_in(rows.features))}
    return may_be_missing


def _check_names(names: Iterable[str], name_kind: str, option: str) -> None:
    for name in names:
        if not name or _UNFIT.search(name):
            raise ParameterError(
                f"{name[:80]!r} is not a valid {name_kind} name: it is empty or has control"
                f" characters; pass another name with {option}"
            )


def _name_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a model in the program: that of its file, without a known ending."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", _ENDINGS.sub("", Path(path).name)) or "model"


def read_feature_names(path: str) -> tuple[str | Mapping[str, Any], ...]:
    """Read feature names in column order from a text, or from JSON for a feature store or feature
    extractors.
    """
    text = read_text(path)
    if text.lstrip().startswith(("[", "{")):
        return features_in_json(text, path)
    names = names_in(text, path, skip_blank=True)
    return tuple(names[number] for number in sorted(names)) if isinstance(names, Mapping) else names


def split_declared_features(
    target: str | None, reading: FileOptions, files: Sequence[str]
) -> tuple[tuple[Any, ...], FileOptions]:
    """Return the features that the option `feature_names` declares for a target, and the options
    for reading.
    """
    if not target or not reading.feature_names:
        return (), reading
    declared = tuple(read_feature_names(reading.feature_names))
    if all(map(is_table, files)):
        return declared, replace(reading, feature_names=None)
    # Names in plain text are those of the data.
    return () if all(isinstance(name, str) for name in declared) else declared, reading
