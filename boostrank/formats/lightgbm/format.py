"""LightGBM model format: recognise, parse, trees, merge and stamp."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Int64Array
from boostrank.formats.base import ModelFormat
from boostrank.formats.lightgbm.parser import LightGBMText, Tree, parse_text
from boostrank.formats.lightgbm.start import mean_start, read_start, write_start
from boostrank.formats.trees import TreeArrays, Trees
from boostrank.kernels.trees.curves import ZERO, Curve, Curves
from boostrank.kernels.trees.walker import CATEGORICAL, NAN_LEFT, ZERO_IS_MISSING

# What is in units of the score in the text of a tree.
_IN_SCORE = (b"leaf_value", b"internal_value", b"leaf_const", b"leaf_coeff", b"shrinkage")
_IMPORTANCES = b"\nfeature_importances:\n"
_BELOW_ZERO = float(np.nextafter(np.float32(-ZERO), np.float32(-1.0)))


@dataclass(frozen=True, eq=False)
class LightGBMModel:
    """What a model text says.

    Args:
        text: taken apart and checked.
    """

    text: LightGBMText

    @cached_property
    def start_trees(self) -> int:
        """How many trees at its head are a start's, and no rounds."""
        return next((tree.number for tree in self.text.trees if not tree.is_start), len(self.text.trees))

    @cached_property
    def start(self) -> Mapping[int, Curve]:
        """Feature -> what a start adds.

        Raises:
            ModelError: trees that only look like a start.
        """
        return read_start(self.text.trees[: self.start_trees])

    @property
    def grown(self) -> tuple[Tree, ...]:
        """The trees of the rounds."""
        return self.text.trees[self.start_trees :]

    def to_bytes(self) -> bytes:
        """The file."""
        return self.text.to_bytes()

    def trees(self, n_features: int) -> Trees:
        """As `ParsedModel.trees`."""
        text, grown = self.text, self.grown
        leaves = np.array([tree.leaves for tree in grown], np.int64)
        first_leaf = text.leaf_value.size - int(leaves.sum())
        feature, threshold, decision, left, right, gain = (
            text.nodes[name][first_leaf - self.start_trees :]
            for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child", "split_gain")
        )
        # Bits 2 and 3: what is missing. 0: nothing, NaN is read as 0; 1: zero, and NaN as zero; 2: NaN.
        missing = decision >> 2 & 3
        categorical = (decision & 1) != 0  # its threshold is the number of a set; what is missing goes right
        # What is that near to 0 is 0 to LightGBM: such values stay together, left of what is not below 0.
        ordered = np.where((threshold >= 0.0) & (threshold < ZERO), ZERO, threshold)
        ordered = np.where((threshold < 0.0) & (threshold >= -ZERO), _BELOW_ZERO, ordered)
        nan_left = np.where(missing == 0, ordered >= 0.0, decision & 2)
        kind = np.where(nan_left, NAN_LEFT, 0) | np.where(missing == 1, ZERO_IS_MISSING, 0)
        sets = [text.sets[tree.number] for tree in grown if tree.categorical_splits]
        linear = [text.leaf_features[tree.number] for tree in grown if tree.linear]
        none: Int64Array = np.zeros(0, np.int64)
        return TreeArrays(
            nodes=leaves - 1,
            leaves=leaves,
            feature=feature,
            threshold=np.where(categorical, threshold, ordered),
            kind=np.where(categorical, CATEGORICAL, kind).astype(np.uint8),
            left=left,
            right=right,
            gain=gain,
            value=text.leaf_value[first_leaf:],
            sets=np.concatenate([none, *(words for words, _ in sets)]).astype(np.uint32),
            set_sizes=np.concatenate([none, *(sizes for _, sizes in sets)]),
            tree_sets=np.array([tree.categorical_splits for tree in grown], np.int64),
        ).joined(
            n_features,
            start=Curves.of(list(self.start.items())) if self.start else None,
            also_used=np.concatenate([none, *linear]),
            why_not="linear models in the leaves" if linear else "",
            double=True,
        )


class LightGBMFormat(ModelFormat):
    """LightGBM's model text."""

    name = "lightgbm"
    title = "LightGBM's model text"

    def recognises(self, body: bytes) -> bool:
        return body.startswith(b"tree")

    def parse(self, body: bytes) -> LightGBMModel:
        return LightGBMModel(parse_text(body))

    def stamp(self, body: bytes) -> bytes:
        """As `stamped`, where no objective is named, as after a training with a callable."""
        return body if b"\nobjective=" in body.partition(b"\n\n")[0] else stamped(body)

    def merge(self, models: Sequence[LightGBMModel]) -> bytes:
        start = write_start(mean_start([model.start for model in models]))
        trees = [tree.encode() for tree in start]
        importances = Counter[bytes]()
        for model in models:
            if b"\naverage_output" in model.text.head:
                raise ModelError("a random forest of LightGBM's averages its trees by itself, and cannot be averaged")
            trees += [_divided(tree, len(models), len(trees) + i).to_bytes() for i, tree in enumerate(model.grown)]
            for line in _importances(model.text.tail):
                name, _, count = line.rpartition(b"=")
                importances[name] += int(count)
        sizes = b"tree_sizes=" + b" ".join(b"%d" % len(tree) for tree in trees)
        head = _replaced(rb"^tree_sizes=.*$", sizes, models[0].text.head)
        before, mark, after = models[0].text.tail.partition(_IMPORTANCES)
        if mark:
            after = after[sum(len(line) + 1 for line in _importances(models[0].text.tail)) :]
            after = b"".join(b"%s=%d\n" % counted for counted in importances.most_common()) + after
        return head + b"\n\n" + b"".join(trees) + before + mark + after


LIGHTGBM = LightGBMFormat()


def stamped(body: bytes, objective: bytes = b"lambdarank") -> bytes:
    """The same model with an objective that other programs understand: half of the serving tools refuse one without.

    The line goes where LightGBM itself writes it, and the parameters say the same. Trees and predictions are untouched
    (as long as the objective leaves raw scores alone, as the ranking ones do); stamping twice changes nothing more.
    """
    head, separator, rest = body.partition(b"\n\n")
    line = b"objective=" + objective
    if re.search(rb"^objective=", head, re.MULTILINE):
        head = _replaced(rb"^objective=.*$", line, head)
    else:
        last = re.search(rb"^max_feature_idx=.*$", head, re.MULTILINE)
        head = head if last is None else head[: last.end()] + b"\n" + line + head[last.end() :]
    before, mark, parameters = rest.rpartition(b"\nparameters:\n")
    if mark:
        parameters = _replaced(rb"^\[objective: .*\]$", b"[objective: " + objective + b"]", parameters)
    return head + separator + before + mark + parameters


def _replaced(pattern: bytes, line: bytes, text: bytes) -> bytes:
    return re.sub(pattern, lambda _: line, text, count=1, flags=re.MULTILINE)


def _importances(tail: bytes) -> list[bytes]:
    """The lines that count the splits of each feature."""
    return list(itertools.takewhile(bool, tail.partition(_IMPORTANCES)[2].split(b"\n")))


def _divided(tree: Tree, parts: int, number: int) -> Tree:
    """The tree with its scores divided by this, and another number."""
    fields = {
        key: b" ".join(repr(float(word) / parts).encode() for word in value.split())
        if key in _IN_SCORE and value.strip()
        else value
        for key, value in tree.fields.items()
    }
    return replace(tree, number=number, fields=fields)
