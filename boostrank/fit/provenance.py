"""Provenance of a model, for its sidecar file and to distinguish trainings."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from boostrank.core import __version__
from boostrank.data.categories import to_record
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.fit.params import TrainingParameters
from boostrank.metric import Conventions
from boostrank.model.files import content_sha256
from boostrank.objective.description import TrainingObjective
from boostrank.records import DataRecord, ModelInfo, jsonable


def describe_training(
    engine: Backend,
    given: TrainingParameters,
    objective: TrainingObjective | None,
    conventions: Conventions,
    data: DataRecord,
    rounds_before: int,
    params: Mapping[str, Any],
) -> ModelInfo:
    """Create the record for the sidecar, without values that change between runs: equal trainings give equal bytes."""
    return ModelInfo(
        backend=engine.name,
        objective=_objective(engine, given, objective),
        metrics=list(given.metrics),
        conventions=dataclasses.asdict(conventions),
        parameters={k: v for k, v in params.items() if isinstance(v, str | int | float | bool | list | tuple | dict)},
        training={"rounds": given.rounds, "rounds_before": rounds_before},
        data=data,
        versions=_versions(engine),
    )


def describe_data(train_set: RankingDataset) -> DataRecord:
    """Create the record of the training set for the sidecar."""
    options = dict(train_set.provenance.options)
    data: DataRecord = {
        "rows": train_set.n_documents,
        "queries": len(train_set.queries),
        "absent": options.pop("absent", "zero"),
        "files": list(train_set.provenance.files),
        "index_base": train_set.provenance.index_base,
        "reader": options,
        "features": train_set.n_features,
        "feature_names": list(train_set.feature_names),
        "fingerprint": train_set.fingerprint,
    }
    if train_set.categories:
        data["categories"] = to_record(train_set.categories)
    return data


def _objective(engine: Backend, given: TrainingParameters, objective: TrainingObjective | None) -> dict[str, Any]:
    if objective is not None:
        return objective.to_dict()
    if given.native_objective is not None:
        return {"name": f"{engine.name}:{given.native_objective}"}
    return {"name": "custom", "function": getattr(given.function, "__qualname__", type(given.function).__name__)}


# Parameters that do not affect the model.
_INDIFFERENT = {"num_threads", "nthread", "verbosity", "verbose"}


def describe_identity(
    engine: Backend,
    given: TrainingParameters,
    objective: TrainingObjective | None,
    conventions: Conventions,
    init_booster: Any,
    valid: Mapping[str, Any],
    train_set: Any,
) -> dict[str, Any]:
    """Return everything that the bytes of a model depend on, as plain data."""
    continued = None if init_booster is None else content_sha256(init_booster.to_bytes())
    identity = {
        "versions": {name: v for name, v in _versions(engine).items() if name != "python"},
        "objective": _objective(engine, given, objective),
        "rounds": given.rounds,
        "parameters": {name: value for name, value in given.engine.items() if name not in _INDIFFERENT},
        "metrics": list(given.metrics),
        "conventions": dataclasses.asdict(conventions),
        "init_model": continued,
        "train": _fingerprints(train_set),
        "valid": {name: "the training set" if d is train_set else _fingerprints(d) for name, d in valid.items()},
    }
    plain: dict[str, Any] = jsonable(identity)
    return plain


def _fingerprints(data: RankingDataset) -> dict[str, Any]:
    """Return hashes that identify a data set."""
    known: dict[str, Any] = {"categories": to_record(data.categories)} if data.categories else {}
    if data.document_weights is not None:
        known["document_weights"] = _digest(data.document_weights)
    return {
        "data": data.fingerprint,
        "features": _digest("\n".join(data.feature_names)),
        "weights": _digest(data.queries.weights),
        "k": _digest(data.queries.k),
        **known,
    }


def _digest(values: Any) -> str | None:
    if values is None:
        return None
    if isinstance(values, str):
        return content_sha256(values.encode())[:32]
    return content_sha256(np.asarray(values, dtype=np.float64).tobytes())[:32]


def _versions(engine: Backend) -> dict[str, str]:
    # Use our own version from the code: package metadata of a checkout may be outdated.
    versions = {"python": platform.python_version(), engine.name: engine.version, "boostrank": __version__}
    for package in ("numpy", "numba"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions
