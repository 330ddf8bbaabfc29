"""Elasticsearch's learning-to-rank plugin (o19s): models of XGBoost, as the body of `_createmodel`.

From the source of o19s/elasticsearch-learning-to-rank 1.5.12: `XGBoostJsonParser`,
`XGBoostRawJsonParser`, `NaiveAdditiveDecisionTree`, `SparseFeatureVector`, `StoredLtrModel`.
OpenSearch's plugin is a fork of it: `Plugin` says in what they and their versions differ.

Everything is float32: a threshold above the value sends it left, and leaves are added in the order
of the trees. There is no base score. What a document has no value for was 0 in old versions and is
NaN in new ones; whether a split's default direction counts for it is younger still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Float32Array, Float64Array
from tests.consumers.trees import (
    Leaf,
    Node,
    Number,
    Scorer,
    Split,
    check_fields,
    field,
    float32,
    float32_columns,
    integer,
    json_of,
    outputs,
    shallow,
)

Absent = Literal["0", "right", "default"]
Missing = Literal["needed", "a child", "any"]
"""Where a document without a value goes: where 0 goes, right, or where the split's default
direction says.
"""

LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
OBJECTIVES = LOGISTIC | {"binary:logitraw", "rank:ndcg", "rank:map", "rank:pairwise", "reg:linear"}


class Plugin(NamedTuple):
    """What differs between the plugins and their versions.

    Args:
        name: of the engine, for messages.
        absent, absent_raw: the rule for `model/xgboost+json` and `+raw`; None: the type does not
            exist.
        missing: what a split of a dump must say: a node id, a child of the split or nothing, or
            anything.
        objectives: that a dump may have.
        reorders: features of `+raw` are found by name, not by position in the feature set.
        missing_as_zero: a definition may ask for the rule "0".
    """

    name: str
    absent: Absent
    absent_raw: Absent | None
    missing: Missing
    objectives: frozenset[str] = OBJECTIVES
    reorders: bool = True
    missing_as_zero: bool = False


def read(
    body: bytes, feature_names: Sequence[str], *, version: tuple[int, ...] = (1, 5, 12)
) -> Scorer:
    """A function that scores as the plugin does, float32[n].

    Args:
        body: what is posted to `_ltr/_featureset/NAME/_createmodel`.
        feature_names: features of that set: the columns.
        version: of the plugin, not of Elasticsearch.

    Raises:
        ModelError: the plugin refuses the model.
    """
    version = tuple(version)
    absent: Absent = "default"
    missing: Missing = "needed"
    objectives = OBJECTIVES
    if version < (1, 5, 9):
        absent, missing = "0", "any"
        objectives = OBJECTIVES - {"rank:ndcg", "rank:map"}
    absent_raw: Absent | None = None
    if version >= (1, 5, 12):
        absent_raw = "default"
    elif version >= (1, 5, 10):
        absent_raw = "right"
    return scorer(
        body,
        feature_names,
        Plugin(
            "Elasticsearch",
            absent=absent,
            absent_raw=absent_raw,
            missing=missing,
            objectives=objectives,
            # Builds of 1.5.10 for Elasticsearch before 8.17.2 go by position, later ones by name.
            reorders=version >= (1, 5, 11),
        ),
    )


def scorer(body: bytes, feature_names: Sequence[str], plugin: Plugin) -> Scorer:
    """A function that scores the model in the body of `_createmodel` as a plugin does."""
    with shallow(plugin.name):
        kind, definition = model_definition(body, plugin.name)
        if isinstance(definition, str):
            definition = json_of(definition, plugin.name)
        else:
            definition = rewritten(definition)
        columns = {name: column for column, name in enumerate(feature_names)}
        absent, trees, logistic = PARSERS[kind](definition, columns, plugin)

    def left(values: Float32Array, split: Split) -> Any:
        goes = split.threshold > values
        return goes | np.isnan(values) if absent == "default" and split.missing else goes

    def scores(features: Float64Array) -> Float32Array:
        filler = 0.0 if absent == "0" else np.nan
        values = float32_columns(features, absent=filler)
        total = np.zeros(values.shape[1], dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for root in trees:
                total += outputs(root, values, left)
            return (
                (1.0 / (1.0 + np.exp(-total.astype(np.float64)))).astype(np.float32)
                if logistic
                else total
            )

    return scores


def model_definition(body: bytes, engine: str) -> tuple[str, Any]:
    """The type and the definition of the model in the body of `_createmodel`."""
    outer = json_of(body, engine)
    check_fields(outer, {"model", "validation"}, "the body", engine)
    wrapper = outer.get("model")
    check_fields(wrapper, {"name", "model"}, "'model'", engine)
    if not field(wrapper, "name", str, engine):
        raise ModelError(f"{engine}: the model has no name")
    model = wrapper.get("model")
    check_fields(model, {"type", "definition", "feature_normalizers"}, "'model.model'", engine)
    if model.get("feature_normalizers"):
        raise ModelError(f"{engine}: feature normalizers are not emulated")
    kind = field(model, "type", str, engine)
    if kind not in PARSERS:
        raise ModelError(f"{engine}: Unsupported LtrRanker format/type [{kind}]")
    if type(model.get("definition")) not in (str, list, dict):
        raise ModelError(
            f"{engine}: Field [model.definition] is mandatory: a string, an object or an array"
        )
    return kind, model["definition"]


def rewritten(definition: Any) -> Any:
    """A definition that is no string, as the plugin writes it out before it parses it: by way of
    float64 numbers.
    """
    if type(definition) is dict:
        return {name: rewritten(value) for name, value in definition.items()}
    if type(definition) is list:
        return [rewritten(value) for value in definition]
    if type(definition) is Number and not definition.lstrip("-").isdigit():
        return Number(repr(float(definition)))
    return definition


Parsed = tuple[Absent, list[Node], bool]
"""The rule for what is absent, the trees, and whether the sum goes through the logistic function.
"""


def dump(definition: Any, columns: Mapping[str, int], plugin: Plugin) -> Parsed:
    """A definition of type `model/xgboost+json`: XGBoost's dump, or an object that holds it."""
    logistic, absent, splits = False, plugin.absent, definition
    if type(definition) is dict:
        more = {"missing_as_zero"} if plugin.missing_as_zero else set()
        check_fields(definition, {"objective", "splits"} | more, "the definition", plugin.name)
        if "objective" in definition:
            logistic = is_logistic(
                field(definition, "objective", str, plugin.name), plugin.objectives, plugin.name
            )
        if field(definition, "missing_as_zero", bool, plugin.name):
            absent = "0"
        splits = field(definition, "splits", list, plugin.name)
    if type(splits) is not list:
        raise ModelError(f"{plugin.name}: XGBoost model missing required field [splits]")
    if not splits:
        raise ModelError(f"{plugin.name}: XGBoost model must define at least one tree")
    return absent, [dump_node(node, columns, plugin) for node in splits], logistic


def is_logistic(objective: str | None, objectives: frozenset[str], engine: str) -> bool:
    """Whether scores go through the logistic function."""
    if objective not in objectives:
        raise ModelError(f"{engine}: Objective [{objective}] is not a valid XGBoost objective")
    return objective in LOGISTIC


IDS = ("nodeid", "depth", "yes", "no", "missing")


def dump_node(node: Any, columns: Mapping[str, int], plugin: Plugin) -> Node:
    """A node of a dump and what is below it."""
    engine = plugin.name
    check_fields(node, {*IDS, "split", "split_condition", "leaf", "children"}, "a node", engine)
    children = [
        dump_node(child, columns, plugin) for child in field(node, "children", list, engine) or []
    ]
    # A leaf.
    ids = {
        name: integer(field(node, name, Number, engine), name, engine)
        for name in IDS
        if name in node
    }
    if "leaf" in node:
        if "nodeid" not in ids:
            raise ModelError(f"{engine}: This leaf does not have all the required fields")
        return Leaf(float32(field(node, "leaf", Number, engine)))
    # A split, whose children must be those that it names.
    name, threshold = (
        field(node, "split", str, engine),
        field(node, "split_condition", Number, engine),
    )
    if (
        len(children) != 2
        or name is None
        or threshold is None
        or not {"nodeid", "depth", "yes", "no"} <= ids.keys()
    ):
        raise ModelError(f"{engine}: This split does not have all the required fields")
    below = [int(child["nodeid"]) for child in node["children"]]
    if below != [ids["yes"], ids["no"]]:
        raise ModelError(
            f"{engine}: Split structure is invalid, yes, no branches do not point to the proper"
            " children"
        )
    missing = ids.get("missing")
    if missing is None and plugin.missing == "needed":
        raise ModelError(
            f"{engine}: This split has no field 'missing', without which the model does not load"
        )
    if missing not in (None, *below) and plugin.missing == "a child":
        raise ModelError(
            f"{engine}: Split structure is invalid, missing does not point to one of the children"
        )
    if name not in columns:
        raise ModelError(f"{engine}: Unknown feature [{name}]")
    yes, no = children
    return Split(columns[name], float32(threshold), yes, no, missing == ids["yes"])


def raw(definition: Any, columns: Mapping[str, int], plugin: Plugin) -> Parsed:
    """A definition of type `model/xgboost+json+raw`: a model as XGBoost saves it."""
    engine = plugin.name
    if plugin.absent_raw is None:
        raise ModelError(f"{engine}: Unsupported LtrRanker format/type [model/xgboost+json+raw]")
    if type(definition) is not dict or "learner" not in definition:
        raise ModelError(f"{engine}: XGBoost model missing required field [learner]")
    learner = field(definition, "learner", dict, engine)
    names = field(learner, "feature_names", list, engine)
    kinds = field(learner, "feature_types", list, engine)
    objective = field(learner, "objective", dict, engine)
    booster = field(learner, "gradient_booster", dict, engine)
    model = field(booster or {}, "model", dict, engine)
    trees = field(model or {}, "trees", list, engine)
    if names is None or kinds is None or objective is None or trees is None:
        raise ModelError(
            f"{engine}: the learner lacks feature_names, feature_types, objective or trees"
        )
    unknown = [str(name) for name in names if name not in columns]
    if unknown:
        raise ModelError(f"{engine}: Unknown features in model: [{', '.join(unknown)}]")
    if len(names) != len(kinds):
        raise ModelError(
            f"{engine}: Feature names list and feature types list must have the same length"
        )
    if any(kind != "float" for kind in kinds):
        raise ModelError(f"{engine}: The LTR plugin only supports float feature types")
    if not plugin.reorders and names != list(columns)[: len(names)]:
        raise ModelError(
            f"{engine}: old versions take features by position: feature_names must begin the"
            " feature set"
        )
    # What the trees become.
    logistic = is_logistic(field(objective, "name", str, engine), OBJECTIVES, engine)
    zero = plugin.missing_as_zero and field(definition, "missing_as_zero", bool, engine)
    places = [columns[name] for name in names]
    default = "needed" if plugin.missing == "needed" and plugin.absent_raw == "default" else "any"
    return (
        "0" if zero else plugin.absent_raw,
        [raw_tree(tree, places, default, engine) for tree in trees],
        logistic,
    )


def raw_tree(tree: Any, places: Sequence[int], default: str, engine: str) -> Node:
    """A tree of arrays; the value of a leaf is its base weight."""

    def numbers(name: str, read: Any) -> list[Any] | None:
        content = field(tree, name, list, engine)
        if any(type(number) is not Number for number in content or []):
            raise ModelError(f"{engine}: {name!r} must hold numbers alone")
        return None if content is None else [read(number) for number in content]

    def integers(name: str) -> list[int] | None:
        return numbers(name, lambda number: integer(number, name, engine))

    if type(tree) is not dict:
        raise ModelError(f"{engine}: a tree must be an object")
    lefts, rights, features, defaults = map(
        integers, ("left_children", "right_children", "split_indices", "default_left")
    )
    thresholds, weights = numbers("split_conditions", float32), numbers("base_weights", float32)
    if lefts is None or rights is None or features is None or thresholds is None or weights is None:
        raise ModelError(f"{engine}: a tree lacks one of its arrays")
    if defaults is None:
        if default == "needed":
            raise ModelError(f"{engine}: a tree lacks default_left")
        defaults = [0] * len(lefts)
    seen: set[int] = set()

    def parsed(at: int) -> Node:
        if not 0 <= at < min(len(lefts), len(rights)):
            raise ModelError(f"{engine}: Child node reference ID [{at}] is invalid")
        if at in seen:  # The plugin would read it once more, without an end in a circle.
            raise ModelError(f"{engine}: node {at} is the child of two nodes")
        seen.add(at)
        if lefts[at] == -1 or rights[at] == -1:
            return Leaf(weights[at])
        return Split(
            places[features[at]],
            thresholds[at],
            parsed(lefts[at]),
            parsed(rights[at]),
            defaults[at] == 1,
        )

    try:
        return parsed(0)
    except IndexError as error:
        raise ModelError(
            f"{engine}: an array of a tree is too short, or a feature has no name"
        ) from error


PARSERS = {"model/xgboost+json": dump, "model/xgboost+json+raw": raw}
