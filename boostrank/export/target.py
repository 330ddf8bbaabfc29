"""Declaration of export targets, and helpers for writing trees."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any

import numpy as np

from boostrank.core.errors import InputError
from boostrank.core.text import count_of
from boostrank.core.types import (
    Array,
    BoolArray,
    Float32Array,
    Float64Array,
    Int64Array,
    ParamValues,
)
from boostrank.data.feature_space import quoted
from boostrank.engines import get_backend
from boostrank.engines.served.linear import LinearFile, LinearScore
from boostrank.engines.served.rules import SINGLE, Rules
from boostrank.engines.served.trees import TreeFile
from boostrank.engines.trees import ServedTrees, depths
from boostrank.export.declared import Declared, default_of, name_fault
from boostrank.files.names import name_of
from boostrank.kernels.curves import rounded_down
from boostrank.kernels.forest import NAN_LEFT, ZERO_IS_MISSING, Forest
from boostrank.options import typed_names

REMEDY = "train with --fill median"
"""What to do about missing values, if a target has none."""

_LEAST = np.finfo(np.float32).min

Score = Callable[[Array], Array]
"""Function that scores rows, float32[n, d] or float64[n, d] with NaN for missing values, and
returns [n] scores.
"""


class ExportError(InputError):
    """Error for a model that a target cannot represent or would score differently."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that is prepared for export.

    Args:
        name: name of the model in the serving program.
        engine: engine that trained the model.
        body: the engine's model file, with the rounds that prediction uses.
        trees: all trees. Trees with small leaves come first if the target sums in float32 and the
            engine does not, unless the target's scores are bit-identical.
        feature_names: d names in column order, as used in the serving program.
        declared: the program's declaration of features by name (a feature store, a feature set), if
            the user gave it.
        defaults: float64[d], the value of each feature that the program gives to documents without
            it, or NaN.
        fill: values by name that the program must give to documents without a feature.
        linear: the score of a linear model, which has no trees.
    """

    name: str
    engine: str
    body: bytes
    trees: ServedTrees
    feature_names: tuple[str, ...]
    declared: Mapping[str, Mapping[str, Any]]
    defaults: Float64Array
    fill: Mapping[str, float]
    linear: LinearScore

    @property
    def is_linear(self) -> bool:
        """Whether the model has weights instead of trees."""
        return self.linear.weights.size > 0


@dataclass(frozen=True)
class Objection:
    """A reason why a target cannot represent a model.

    Args:
        kind: within-query, engine, categories, names, trees or missing.
        words, fix: texts with the reason and the remedy.
        final: whether no export option can help.
        options: options of training that help, or "".
    """

    kind: str
    words: str
    fix: str
    final: bool = True
    options: str = ""


@dataclass(frozen=True, kw_only=True)
class TargetSpec:
    """An export target, which is a serving program or a family of programs.

    Args:
        name: name of the target, as typed by users.
        title: name of the program that reads the file.
        write: function that returns the file.
        proved_by: description of the scorer: "XGBoost", "reading the file by the rules of Solr
            9.2".
        how: three lines of instructions, with the file's name (`{file}`, in double quotes
            `{quoted}`), its path for a shell (`{path}`) and for Python (`{literal}`), and the
            model's name for JSON in single quotes of a shell (`{model}`).
        rules: number types of leaves, sums and scores, or all of the program's rules if there is a
            `parse`.
        read: function that takes the file and feature names and returns a scorer, if the program
            can run here.
        parse: function that takes the file's JSON and the feature names, and returns its model, if
            the program cannot run here.
        exact: engines whose models get bit-identical scores.
        extra: the boostrank extra that `write` or `read` needs.
        resolution: function that returns the distance of the target's from the model's thresholds,
            float64[M].
        unset: value that documents without a feature have if its declaration sets none; NaN for a
            missing value.
        default: what declares the value, `{value}`, for documents without a feature.
        finite: whether the format has no infinite values, in which case the proof omits them.
        most_rows: maximum number of rows in the proof.
        no_missing: how the target reads missing values, if it has none.
        engine: the only engine whose models the target supports; empty for any engine of trees.
        linear: the fields with other values in the target of the same name for linear models, if
            there is one.
        normalises: whether the program computes columns within queries, and adds them with
            weights whose sum is 1, so that only ranks are equal.
        categories: whether the target supports categorical splits.
        zeros: whether the target supports zeros as missing values.
        one_store: whether a model reads the features of one feature store only.
        name_fault: function that takes the feature names and returns why the target refuses them,
            or None.
    """

    name: str
    title: str
    write: Callable[[ServedModel], bytes]
    proved_by: str
    how: str
    rules: Rules = SINGLE
    read: Callable[[bytes, Sequence[str]], Score] | None = None
    parse: Callable[[Any, Sequence[str]], TreeFile | LinearFile] | None = None
    exact: tuple[str, ...] = ()
    extra: str = ""
    resolution: Callable[[Forest], Float64Array] = lambda forest: np.zeros(forest.feature.size)
    unset: float = math.nan
    default: str = "no `missing` and no `default_score` in its query"
    finite: bool = False
    most_rows: int = 150_000
    no_missing: str = ""
    aliases: tuple[str, ...] = ()
    engine: str = ""
    categories: bool = True
    zeros: bool = False
    one_store: bool = False
    linear: Mapping[str, Any] | None = None
    normalises: bool = False
    most_trees: int | None = None
    name_fault: Callable[[Sequence[str]], str | None] = lambda names: None

    def serving(self, engine: str) -> TargetSpec:
        """Return the target for models of an engine."""
        if self.linear is None or not engine or get_backend(engine).grows_trees:
            return self
        return replace(self, engine="linear", finite=True, linear=None, **self.linear)

    def scorer(self, body: bytes, feature_names: Sequence[str]) -> Score:
        """Return a function that scores rows with a file."""
        if self.read is not None:
            return self.read(body, feature_names)
        assert self.parse is not None
        file = replace(self.parse(json.loads(body), feature_names), rules=self.rules)
        columns = [list(feature_names).index(name) for name in file.names]
        return lambda rows: file.scores(rows[:, columns])

    def objections(
        self,
        *,
        engine: str = "",
        names: Sequence[str] = (),
        categorical: Sequence[str] = (),
        within: str = "",
        trees: int = 0,
        missing: Collection[str] = (),
        declared: Declared = (),
        params: ParamValues = MappingProxyType({}),
    ) -> Iterator[Objection]:
        """Yield the reasons why the target cannot represent a model, or a model that is yet to be
        trained.

        Args:
            missing: features with missing values in the data.
            declared: the program's declaration of features.
            params: the engine's parameters by their main names.
        """
        if within and not self.normalises:
            yield Objection(
                "within-query",
                f"the model computes {within} within each query, but {self.title} scores one"
                " document at a time",
                "train without --within-query, or score with boostrank predict",
            )
        # What trained it: the engine and its parameters.
        if engine not in ("", self.engine):
            yield from self._object_to_engine(engine)
        zero_as_missing = str(params.get("zero_as_missing")).lower()
        unserved = {
            "boosting=rf": params.get("boosting") in ("rf", "random_forest"),
            "zero_as_missing": zero_as_missing in ("true", "+") and not self.zeros,
        }
        for name in filter(unserved.get, unserved):
            reason = f"{self.title} does not support models of {name}"
            yield Objection("engine", reason, "train without this parameter")
        # What it has: categories, names, trees, missing values.
        if categorical and not self.categories:
            feature_count = count_of(len(categorical), "categorical feature")
            option = f"--drop {typed_names(*categorical)}"
            yield Objection(
                "categories",
                f"the model has {feature_count} ({quoted(categorical)}), but {self.title} does"
                " not support categorical splits",
                f"replace the categories by numbers, train with {option}, or choose another target"
                " (c, sql)",
                options=option,
            )
        if name_problem := self.name_fault(list(map(name_of, declared)) or names):
            remedy = "pass other names with --feature-names when you export"
            yield Objection("names", name_problem, remedy, final=False)
        if self.most_trees is not None and trees > self.most_trees:
            option = f"--max-trees {self.most_trees}"
            yield Objection(
                "trees",
                f"the model has {trees:,} trees, more than the limit of {self.title},"
                f" {self.most_trees:,}",
                f"train with {option}, or choose another target (c; onnx without categories)",
                options=option,
            )
        yield from self._object_to_missing(names, missing, declared)

    def _object_to_engine(self, engine: str) -> Iterator[Objection]:
        """Yield why the target takes no models of an engine other than its own."""
        if not get_backend(engine).grows_trees:
            yield Objection(
                "engine",
                f"{engine} models have no trees",
                "choose a target for them (solr, elasticsearch, vespa, onnx, sql, c), or train with"
                " --backend lightgbm or xgboost",
            )
        elif self.engine:
            reason = f"{self.title} takes {self.engine} models only"
            remedy = (
                f"train with --backend {self.engine}, or choose another target (c; onnx without"
                " categories)"
            )
            yield Objection("engine", reason, remedy)

    def _object_to_missing(
        self, names: Sequence[str], missing: Collection[str], declared: Declared
    ) -> Iterator[Objection]:
        """Yield why missing values, or the declared features, would not be those of the model."""
        if missing and self.no_missing:
            reason = f"the data have missing values; {self.no_missing}"
            yield Objection("missing", reason, REMEDY, options="--fill median")
        if not names or not declared:
            return
        if name_problem := name_fault(declared, names, one_store=self.one_store):
            remedy = "pass the features of the model with --feature-names"
            yield Objection("names", name_problem, remedy)
        for feature in declared:
            if self.no_missing or isinstance(feature, str):  # a name declares no default
                continue
            default = default_of(feature, self.unset)
            if name_of(feature) in missing and not math.isnan(default):
                yield Objection(
                    "missing",
                    f"{name_of(feature)!r} has missing values in the data, but would be"
                    f" {default:g} in {self.title}",
                    f"give it {self.default.format(value='NaN')}, or train with --fill",
                )


def with_version(title: str, *packages: str) -> str:
    """Return the title with the version of the first of the packages that is installed."""
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            return f"{title} {version(package)}"
    return title


def cuts(forest: Forest) -> Float32Array:
    """Return the largest float32 value that goes left at each node, float32[M]; NaN if none does
    and for categories.

    No float32 value lies between it and the threshold. Therefore, float32 values go in the same
    direction with `<=` and this value, with `<` and `above(cuts)`, and with either comparison and a
    number in between.
    """
    return np.where(forest.categorical, np.float32(np.nan), rounded_down(forest.threshold))


def above(numbers: Float32Array) -> Float32Array:
    """Return the next larger float32 numbers, or -inf for NaN, so that no value is below."""
    with np.errstate(over="ignore"):
        return np.where(np.isnan(numbers), np.float32(-np.inf), np.nextafter(numbers, np.inf))


def shortest(number: Any) -> float:
    """Return the float with the shortest text that rounds to a float32 number, which is clipped to
    the finite range.
    """
    return float(str(np.float32(np.clip(number, _LEAST, -_LEAST))))


def exactly(number: Any) -> float:
    """Return a float32 number, clipped to the finite range, for programs that read float64."""
    return float(np.float32(shortest(number)))


def java_text(number: Any) -> str:
    """Return the shortest text in the syntax of Java's float parser, including infinity and NaN."""
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(shortest(number))


def missing_goes_left(forest: Forest) -> BoolArray:
    """Return whether missing values go left at each node, bool[M]."""
    goes_left: BoolArray = (forest.kind & NAN_LEFT) != 0
    zero_is_missing = (forest.kind & ZERO_IS_MISSING) != 0
    if np.any(zero_is_missing & (goes_left != (forest.threshold >= 0.0))):
        raise ExportError(
            "the model treats zeros as missing values (zero_as_missing), which the target does not"
            " support: train without this parameter"
        )
    return goes_left


def parents(forest: Forest) -> Int64Array:
    """Return the parent of each node, int64[M]. Roots are their own parents."""
    parent = np.arange(forest.feature.size)
    for child in (forest.left, forest.right):
        nodes_above = np.flatnonzero(child >= 0)
        parent[child[nodes_above]] = nodes_above
    return parent


def nested(
    forest: Forest,
    leaf: Callable[[float], Any],
    node: Callable[[int, Any, Any], Any],
    base: float = 0.0,
    depth_limit: int = 200,
) -> list[Any]:
    """Build a nested value for each tree, from its leaves up.

    Args:
        leaf, node: functions that take the value of a leaf, or the number of a node and its
            children's values.
        base: initial score, which becomes a first tree with one leaf unless it is 0.
        depth_limit: maximum number of nodes on a path from a root to a leaf, because programs
            that read or write nested trees recurse.
    """
    depth = depths(parents(forest))
    if depth.max(initial=0) >= depth_limit:
        deepest_tree = forest.tree[np.argmax(depth)]
        raise ExportError(
            f"tree {deepest_tree} is deeper than {depth_limit} nodes: train with a smaller"
            " max_depth"
        )
    subtrees: dict[int, Any] = {}

    def built(node: int) -> Any:
        return leaf(forest.value[~node]) if node < 0 else subtrees.pop(node)

    for number in np.argsort(-depth, kind="stable").tolist():
        subtrees[number] = node(number, built(forest.left[number]), built(forest.right[number]))
    base_tree = [leaf(base)] if base else []
    return base_tree + list(map(built, forest.roots))
