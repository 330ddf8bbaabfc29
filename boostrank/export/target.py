"""Target contract: what a program that serves rankers must say of itself, and what it is given to write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import InputError
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.engines.trees import ServedTrees
from boostrank.kernels.trees.curves import rounded_down
from boostrank.kernels.trees.walker import NAN_LEFT, ZERO_IS_MISSING, Forest

# Programs that read nested trees walk them by recursion, as do the libraries that write them.
MOST_NESTED = 200

_LEAST = np.finfo(np.float32).min

Number = Literal["float32", "float64"]
Score = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Scores [n] of rows float32[n, d] or float64[n, d], NaN where a value is missing."""


class ExportError(InputError):
    """A model that a target cannot hold, or would not score alike: why, and what helps."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model on its way out.

    Args:
        name: as the program that serves it will know it.
        engine: that made it.
        body: the engine's file of the rounds that prediction uses.
        trees: all of them; small ones first where the target adds up in float32 and the engine does not, unless the
            target says that it gives the same bits.
        feature_names: d names, in column order, as the program knows them.
    """

    name: str
    engine: str
    body: bytes
    trees: ServedTrees
    feature_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TargetSpec:
    """A program, or a family of them, that serves rankers.

    Args:
        name: as users type it.
        title: what reads the file.
        write: the file.
        read: reads what `write` gave, and scores with it: by the program or library itself, or by `reading.by_rules`.
            Takes the file and the names of the features.
        proved_by: what `read` runs: "XGBoost", "reading the file by the rules of Solr 9.2".
        how: three lines: what to upload and how. `{file}` and `{model}` become the names of the file and the model.
        leaves: the type to which it rounds leaves.
        adds: the type in which it adds them up, a tree after the other.
        gives: the type of its scores.
        exact: engines whose models it scores with the same bits.
        extra: of the package, that holds what `write` or `read` needs.
        resolution: float64[M], how far the target's threshold is from the model's at each node; None: nowhere.
        finite: whether its files and requests cannot spell infinite values; then it is not proved on any.
        most_rows: how many rows it is proved on: `read` may be slow.
        helps: kind of row (`pack.KINDS`) -> what helps where the target has no rule for it.
        aliases: other names that people type.
    """

    name: str
    title: str
    write: Callable[[ServedModel], bytes]
    read: Callable[[bytes, Sequence[str]], Score]
    proved_by: str
    how: tuple[str, str, str]
    leaves: Number = "float32"
    adds: Number = "float32"
    gives: Number = "float32"
    exact: tuple[str, ...] = ()
    extra: str = ""
    resolution: Callable[[Forest], Float64Array] | None = None
    finite: bool = False
    most_rows: int = 150_000
    helps: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


def with_version(title: str, *packages: str) -> str:
    """A program and the version that is installed, of whichever of its packages is."""
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            return f"{title} {version(package)}"
    return title


def cuts(forest: Forest) -> Float32Array:
    """float32[M]: the largest value that goes left of each node, of those that are no sets of categories.

    No float32 value lies between it and the threshold: whoever compares float32 values with `<=` and this, or with
    `<` and `above(cuts)`, or with either and a number between the two, sends every value the same way. NaN, which
    nothing is up to or below: none goes left.
    """
    return np.where(forest.categorical, np.float32(np.nan), rounded_down(forest.threshold))


def above(numbers: Float32Array) -> Float32Array:
    """The next float32 numbers; below all of them where nothing is to be there."""
    with np.errstate(over="ignore"):
        return np.where(np.isnan(numbers), np.float32(-np.inf), np.nextafter(numbers, np.float32(np.inf)))


def shortest(number: Any) -> float:
    """The float32 number, the largest one in place of infinity, as the float with the shortest text of those that are
    rounded to it."""
    return float(str(np.clip(np.float32(number), _LEAST, -_LEAST)))


def java_text(number: Any) -> str:
    """The same as Java's parser of floats takes it, which knows infinity and NaN."""
    if np.isnan(number):
        return "NaN"
    return ("-" if number < 0 else "") + "Infinity" if np.isinf(number) else repr(shortest(number))


def missing_goes_left(forest: Forest) -> npt.NDArray[np.bool_]:
    """bool[M], of trees without zeros that count as missing.

    Raises:
        ExportError: there are some, and zeros do not go where numbers beside them do.
    """
    left = (forest.kind & NAN_LEFT) != 0
    zero = (forest.kind & ZERO_IS_MISSING) != 0
    if bool(np.any(zero & (left != (forest.threshold >= 0.0)))):
        raise ExportError(
            "zeros are missing values to this model (zero_as_missing), and the target knows no such rule: "
            "train without it"
        )
    return np.asarray(left)


def nested(
    forest: Forest, leaf: Callable[[int], Any], node: Callable[[int, Any, Any], Any], most: int = MOST_NESTED
) -> list[Any]:
    """What each tree becomes when leaves and nodes are put into one another.

    Args:
        forest: the trees.
        leaf: what becomes of leaf i.
        node: what becomes of node i, whose children have become the other two.
        most: nodes from a root to a leaf.

    Raises:
        ExportError: a tree is deeper.
    """
    made = []
    for number, root in enumerate(forest.roots.tolist()):
        order, level, depth = [], [root], 0
        while level:
            order += level
            inner = [at for at in level if at >= 0]
            level = [child for at in inner for child in (int(forest.left[at]), int(forest.right[at]))]
            depth += 1
            if depth > most + 1:
                raise ExportError(f"tree {number} is deeper than {most} nodes: train with max_depth below that")
        done: dict[int, Any] = {}
        for at in reversed(order):
            done[at] = (
                leaf(~at) if at < 0 else node(at, done.pop(int(forest.left[at])), done.pop(int(forest.right[at])))
            )
        made.append(done[root])
    return made


def no_categories(forest: Forest, target: str, instead: str) -> None:
    """Refuse a model that splits by sets of categories.

    Raises:
        ExportError: it does.
    """
    if bool(forest.categorical.any()):
        columns: Int64Array = np.unique(forest.feature[forest.categorical]).astype(np.int64)
        raise ExportError(
            f"{columns.size} categorical feature{'s' * (columns.size > 1)} (the first is column {columns[0]}): "
            f"{target} cannot hold splits by categories; {instead}"
        )
