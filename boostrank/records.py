"""Structs for the JSON files that boostrank writes.

| struct | file |
|---|---|
| `ModelInfo`, `Seal` | `MODEL.meta.json`, provenance of a model |
| `CheckpointHeader` | first line of a checkpoint |
| `PropensityRecord` | propensities of click positions |
| `NoiseRecord` | output of `boostrank study noise --json` |

Unknown fields and wrong types raise errors that name the file and the field.
"""

from __future__ import annotations

import json
import math
from abc import ABCMeta
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from boostrank.core.errors import FileFormatError

T = TypeVar("T")
Count = Annotated[int, Meta(ge=0)]
History = dict[str, dict[str, list[float | None]]]
"""Data set -> metric -> value in each round, with null for NaN and infinity."""

Record = dict[str, Any]
"""JSON data by name."""

SCHEMA_VERSION = 2
READABLE_SINCE = "0.2.0"
"""The first boostrank version that reads `SCHEMA_VERSION`, which older versions name in an error.
"""
MAX_NESTING = 100
"""The maximum nesting of lists and objects, which limits recursion."""
_TOO_DEEP = f"the JSON is nested deeper than {MAX_NESTING} lists and objects"
_PLAIN = frozenset({str, int, float, bool, type(None)})


class CategoryRecord(TypedDict, total=False):
    """The categories of a column. `values` is null if only the codes are known."""

    values: list[str | int | float] | None
    ordered: bool


class DataRecord(TypedDict, total=False):
    """The training data of a model: size, files, reading options, features and categories."""

    rows: Count
    queries: Count
    absent: str | None
    files: list[str]
    index_base: int | None
    reader: Record
    features: Count
    feature_names: list[str]
    fingerprint: str | None
    missing: list[str]
    categories: dict[str, CategoryRecord]


class TrainingRecord(TypedDict, total=False):
    """The number of requested rounds, of the continued model's rounds, and of workers.

    `mixed_steps` is true if the objective, learning rate or penalty changed between rounds.
    """

    rounds: Count | None
    rounds_before: Count | None
    workers: Count
    mixed_steps: bool


class RenewalRecord(TypedDict):
    """The data from which all leaves were computed again after the training."""

    queries: Count
    fingerprint: str
    files: list[str]


class FoldsRecord(TypedDict, total=False):
    """The members of an average over folds, with held-out metrics."""

    folds: Count
    metric: str | None
    rounds: list[Count]
    members: list[str]
    held_out: dict[str, Record]
    valid: list[Record]


class WithinRecord(TypedDict):
    """The columns within queries of a model: their kinds, and the features they follow."""

    kinds: list[str]
    of: NotRequired[list[str]]


class PriceRecord(TypedDict, total=False):
    """The number of trees that predictions use, and the limit on it."""

    trees: Count
    max_trees: Count


class CalibrationRecord(TypedDict, total=False):
    """The map from scores to expected grades, with errors and explained variance for queries left
    out of the fit.
    """

    scores: list[float]
    values: list[float]
    ends: list[float]
    queries: Count
    rows: Count
    fingerprint: str
    error: list[float]
    uncalibrated_error: float
    explained: float
    explained_by_query: float  # in files of 0.3.0


class _MappingStruct(type(Struct), ABCMeta):  # type: ignore[misc]
    """Metaclass for structs that are also mappings."""


class ModelInfo(
    Struct,
    Mapping[str, Any],
    metaclass=_MappingStruct,
    frozen=True,
    eq=False,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The provenance of a model, and a mapping of its fields that are not None.

    Args:
        objective: name, parameters and options, as for `objective_from_dict`.
        parameters: parameters as given, with the seed.
        training: number of requested rounds, and of the continued model's rounds.
        data: size, files, features, fingerprint and categories of the training data.
        versions: version of each program.
        averaged: rounds and parameters of each model of an average.
        folds: members of an average over folds, with rounds and held-out metrics.
        renewed: data from which all leaves were computed again after the training.
        price: number of trees and the limit on it.
        calibration: map from scores to expected grades.
        fill: numbers that replace missing values, by feature.
    """

    backend: str | None = None
    objective: Record | None = None
    metrics: list[Any] | None = None
    conventions: Record | None = None
    parameters: Record | None = None
    training: TrainingRecord | None = None
    data: DataRecord | None = None
    versions: Record | None = None
    start: Record | None = None
    averaged: list[Record] | None = None
    folds: FoldsRecord | None = None
    within_query: WithinRecord | None = None
    renewed: RenewalRecord | None = None
    price: PriceRecord | None = None
    calibration: CalibrationRecord | None = None
    fill: dict[str, float] | None = None

    def __post_init__(self) -> None:
        for path, value in (
            ("objective.name", self.objective_name),
            ("data.reader.gain", self.gain),
        ):
            if value is not None and not isinstance(value, str):
                raise ValueError(f"Expected `str` - at `$.{path}`")

    def __repr__(self) -> str:
        name = self.objective_name or "unknown objective"
        return f"ModelInfo({self.backend}, {name}; fields: {', '.join(self)})"

    __eq__ = Mapping.__eq__

    def __getitem__(self, key: str) -> Any:
        value = getattr(self, key) if key in self.__struct_fields__ else None
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return (key for key in self.__struct_fields__ if getattr(self, key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __or__(self, other: Mapping[str, Any]) -> ModelInfo:
        """Return a copy with updated values."""
        return ModelInfo(**{**self, **other})

    @property
    def objective_name(self) -> str | None:
        """The objective's name, which is "engine:name" for an engine's objective."""
        return (self.objective or {}).get("name")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The feature names, or none if unknown."""
        return tuple((self.data or {}).get("feature_names") or ())

    @property
    def index_base(self) -> int | None:
        """The number of the first feature in the data file, or None for arrays or if unknown."""
        return (self.data or {}).get("index_base")

    @property
    def columns(self) -> Record:
        """The table columns that are not features, by `label`, `qid`, `weight` and `drop`."""
        reader = (self.data or {}).get("reader") or {}
        return {name: reader[name] for name in ("label", "qid", "weight", "drop") if name in reader}

    @property
    def gain(self) -> str | None:
        """The expression from which the labels were computed, or None for plain labels."""
        reader = (self.data or {}).get("reader")
        return reader.get("gain") if isinstance(reader, dict) else None

    @property
    def absent(self) -> str | None:
        """The meaning of absent entries in sparse rows ("zero"), or None if unknown."""
        return (self.data or {}).get("absent")

    @property
    def rounds_before(self) -> int:
        """The number of rounds in the continued model."""
        return (self.training or {}).get("rounds_before") or 0

    @property
    def trained_rounds(self) -> int | None:
        """The number of rounds including the continued model's rounds, or None if unknown."""
        training = self.training or {}
        rounds, earlier = training.get("rounds"), training.get("rounds_before")
        return None if rounds is None or earlier is None else earlier + rounds


class Previous(Struct, kw_only=True):
    """The model that is being replaced, until both new files are written."""

    body_sha256: str
    body_bytes: Count
    said: Record | None


class Seal(Struct, kw_only=True):
    """The checksums of a model and its sidecar."""

    schema_version: Count
    readable_since: str
    body_sha256: str
    body_bytes: Count
    previous: Previous | None = None
    checksum: str | None = None


class CheckpointHeader(Struct, kw_only=True, forbid_unknown_fields=True):
    """The identity and progress of a training, and the sizes of the data that follow."""

    training: Record
    begin: Count
    rounds: Count
    metrics: list[tuple[str, str, bool]]
    model_bytes: Count
    scores: list[Count]
    scores_sha256: str


class PlacesRecord(TypedDict):
    """Where rows stand: (name, lines before it) of each file, and how its rows are counted."""

    files: list[tuple[str, int]]
    header_lines: Count
    by_row: bool


class PropensityRecord(Struct, kw_only=True, forbid_unknown_fields=True):
    """The propensities by position, with null where they are unknown."""

    version: Literal[1] = 1
    examination: list[float | None]
    false_clicks: list[float | None] | UnsetType = UNSET
    errors: list[float | None] | UnsetType = UNSET
    method: str = "given"
    moved: Count = 0


class NoiseMetric(Struct):
    """The smallest difference between two trainings that chance does not explain."""

    matters: Annotated[float, Meta(ge=0)]


class NoiseRecord(Struct):
    """The file of `boostrank study noise`: for each metric, the difference that matters."""

    metrics: Annotated[dict[str, NoiseMetric], Meta(min_length=1)]


def as_record(kind: type[T], content: Any) -> T:
    """Validate plain data against a struct."""
    record = msgspec.convert(content, kind)
    lost = _first_lost(content, record)
    if lost:
        raise ValueError(f"unknown field `{lost}`")
    return record


def load_record(kind: type[T], data: bytes | str, file: str) -> T:
    """Parse a JSON file that boostrank wrote, or raise FileFormatError."""
    try:
        return as_record(kind, from_json(data))
    except ValueError as fault:
        raise FileFormatError(f"not written by boostrank: {fault}", file=file) from None


def _first_lost(content: Any, record: Any, path: str = "$") -> str:
    """Return the path of the first key that a typed dict dropped."""
    if not isinstance(content, Mapping) or not isinstance(record, Struct | dict):
        return ""
    for key, value in content.items():
        if isinstance(record, dict) and key not in record:
            return f"{path}.{key}"
        field_value = getattr(record, key, None) if isinstance(record, Struct) else record[key]
        if lost := _first_lost(value, field_value, f"{path}.{key}"):
            return lost
    return ""


def from_json(text: str | bytes, *, once: bool = False) -> Any:
    """Parse untrusted JSON, which may contain NaN and infinity.

    Args:
        once: whether to refuse repeated keys in an object.

    Raises:
        ValueError: invalid JSON, nested deeper than `MAX_NESTING`, or a repeated key.
    """
    try:
        hook = _unique if once else None
        parsed = json.loads(text, object_pairs_hook=hook)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:  # Python's limit, whose remedy is one for programmers
        if "set_int_max_str_digits" in str(error):
            raise ValueError("a number has too many digits") from None
        raise
    level = [parsed]
    for _ in range(MAX_NESTING):
        # Skip long lists of plain values quickly.
        nested = [
            container.values() if isinstance(container, dict) else container
            for container in level
            if isinstance(container, dict | list)
        ]
        nested = [values for values in nested if not _PLAIN.issuperset(map(type, values))]
        level = [value for values in nested for value in values]
        if not level:
            return parsed
    raise ValueError(_TOO_DEEP)


def _unique(pairs: list[tuple[str, Any]]) -> Record:
    members = dict(pairs)
    if len(members) != len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(
            f"the JSON has an object with the same key twice, {name[:100]!r}, which readers would"
            " interpret differently"
        )
    return members


def jsonable(value: Any, *, digits: int | None = None, other: Callable[[Any], Any] = str) -> Any:
    """Convert a value to JSON data: NumPy numbers to Python numbers, tuples to lists, NaN and
    infinity to null.

    Args:
        value: nested mappings, sequences, arrays, numbers and text.
        digits: number of significant digits in floats, or None to keep all digits.
        other: function that converts objects without a JSON form.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        return {
            str(key): jsonable(element, digits=digits, other=other)
            for key, element in value.items()
        }
    if isinstance(value, list | tuple):
        return [jsonable(element, digits=digits, other=other) for element in value]
    if hasattr(value, "tolist"):  # an array or a NumPy number
        return jsonable(value.tolist(), digits=digits, other=other)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    return value if isinstance(value, int) else other(value)
