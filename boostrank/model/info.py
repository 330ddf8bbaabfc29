"""Model info: how a model was made, as the sidecar beside its file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from boostrank.core.jsonable import is_number, is_whole

SCHEMA_VERSION = 2
READABLE_SINCE = "0.2.0"
"""The first boostrank that reads it: what an older one tells its user to install."""


@dataclass(frozen=True, eq=False)
class ModelInfo(Mapping[str, Any]):
    """What is known of a training. A mapping too, of what there is: `info["objective"]` is `info.objective`.

    Args:
        backend: name of the engine.
        objective: `name`, parameters and options; see `objective_from_dict`.
        metrics: measured each round.
        conventions: of the metrics.
        parameters: as they were given, the seed among them.
        training: `rounds` that were asked for, `rounds_before` of the model that was continued.
        data: `rows`, `queries`, and of our own data sets files, features, fingerprint, and what codes of categories
            stand for.
        versions: program -> version.
        start: the linear ranker that trees began with.
        averaged: of a model that is the mean of several, `rounds` and `params` of each.
        folds: of a model that is the average over folds: `members`, `rounds` of each, and metrics of
            `held_out` queries.
        within_query: the columns within queries: `kinds`, `of` (names of features), and the `choice` that
            cross-validation made, where it was asked.
        price: `trees` that prediction walks, and the `max_trees` that were asked for.
        extra: what else a sidecar holds, of a later version or another program.
    """

    backend: str | None = None
    objective: Mapping[str, Any] | None = None
    metrics: list[Any] | None = None
    conventions: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    training: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    versions: Mapping[str, Any] | None = None
    start: Mapping[str, Any] | None = None
    averaged: list[Any] | None = None
    folds: Mapping[str, Any] | None = None
    within_query: Mapping[str, Any] | None = None
    price: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> ModelInfo:
        """From plain data of any version so far; a key that is unknown, or not of its type, is extra."""
        known: dict[str, Any] = {key: value for key, value in content.items() if isinstance(value, _TYPES.get(key, ()))}
        return cls(**known, extra={key: value for key, value in content.items() if key not in known})

    def __getitem__(self, key: str) -> Any:
        value = getattr(self, key) if key in _TYPES else None
        return self.extra[key] if value is None else value

    def __iter__(self) -> Iterator[str]:
        yield from (key for key in _TYPES if getattr(self, key) is not None)
        yield from self.extra

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __or__(self, other: Mapping[str, Any]) -> ModelInfo:
        """The same with other values."""
        return ModelInfo.read({**self, **other})

    @property
    def objective_name(self) -> str | None:
        """Name of the objective; "engine:name" of an engine's own."""
        return (self.objective or {}).get("name")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features as the user has them; none where they are not told."""
        return tuple((self.data or {}).get("feature_names") or ())

    @property
    def index_base(self) -> int | None:
        """Number of the first feature in its file; None for arrays or when unknown."""
        base = (self.data or {}).get("index_base")
        return None if base is None else int(base)

    @property
    def columns(self) -> dict[str, Any]:
        """Columns beside features of a table that it was trained on: `label`, `qid`, `weight`, `drop`."""
        reader = (self.data or {}).get("reader") or {}
        return {name: reader[name] for name in ("label", "qid", "weight", "drop") if name in reader}

    @property
    def gain(self) -> str | None:
        """The expression over columns whose values the labels were; None where they were labels."""
        return ((self.data or {}).get("reader") or {}).get("gain")

    @property
    def absent(self) -> str | None:
        """What an entry was that a sparse row did not name: "zero", None where it is not told."""
        return (self.data or {}).get("absent")

    @property
    def rounds_before(self) -> int:
        """Rounds of the model that was continued."""
        return int((self.training or {}).get("rounds_before") or 0)

    @property
    def trained_rounds(self) -> int | None:
        """Rounds that the training was asked for, earlier ones included."""
        asked, before = ((self.training or {}).get(name) for name in ("rounds", "rounds_before"))
        return None if asked is None or before is None else int(before) + int(asked)


def fault_of(content: Any) -> str | None:
    """What in a sidecar is not of its kind, in words; None where all is. What this version does not know may be
    anything."""
    if not isinstance(content, Mapping):
        return "it is no table"
    for place, kind in _KINDS.items():
        value: Any = content
        for key in place.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        right = is_whole(value) if kind == "whole number" else isinstance(value, _PYTHON[kind])
        if value is not None and not right:
            return f"{place!r} is {str(value)[:40]!r}, not a {kind}"
    if not all(isinstance(name, str) for name in (content.get("data") or {}).get("feature_names") or ()):
        return "'data.feature_names' holds what is no text"
    if not all(map(_is_categories, ((content.get("data") or {}).get("categories") or {}).values())):
        return "'data.categories' holds something else than tables with lists of text or numbers"
    for metrics in (content.get("evals_result") or {}).values():
        if not isinstance(metrics, Mapping) or not all(_are_numbers(values) for values in metrics.values()):
            return "'evals_result' holds something else than lists of numbers"
    if content.get("within_query") is not None and content["within_query"].get("kinds") is None:
        return "'within_query' has no 'kinds'"
    return None


def _is_categories(one: Any) -> bool:
    values = (one.get("values") or []) if isinstance(one, Mapping) else 0  # none: only the codes are known
    return isinstance(values, list) and all(isinstance(value, str | int | float) for value in values)


def _are_numbers(values: Any) -> bool:
    # None: a metric that was not a number.
    return isinstance(values, list) and all(value is None or is_number(value) for value in values)


_TYPES: dict[str, type] = {
    one.name: Mapping if "Mapping" in one.type else list if "list" in one.type else str
    for one in fields(ModelInfo) if one.name != "extra"
}  # fmt: skip
_PYTHON: dict[str, type] = {"table": Mapping, "list": list, "text": str}
_KINDS: dict[str, str] = {
    **{name: {Mapping: "table", list: "list", str: "text"}[kind] for name, kind in _TYPES.items()},  # type: ignore[index]
    "evals_result": "table", "objective.name": "text", "data.feature_names": "list", "data.index_base": "whole number",
    "data.reader": "table", "data.reader.gain": "text", "data.absent": "text", "data.categories": "table",
    "training.rounds": "whole number", "training.rounds_before": "whole number", "within_query.kinds": "list",
    "folds.members": "list",
}  # fmt: skip
