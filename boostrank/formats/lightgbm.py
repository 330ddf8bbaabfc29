"""LightGBM's model text: a check before its loader sees a file, and the objective's name for other readers.

LightGBM trusts the files it loads: truncated text aborts the process, a child number out of range reads foreign
memory. `check_lightgbm_text` refuses such files with words. It knows the layout of versions v2 to v4
(`GBDT::SaveModelToString` and `Tree::ToString` in LightGBM's source).
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ModelError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.formats.tree_shape import MAX_DEPTH, depths

_VERSIONS = ("v2", "v3", "v4")
_MAX_TREE_LINES = 22  # LightGBM's loader reads no further in a tree
_MAX_DIGITS = 40  # of one number; LightGBM writes at most 24
_INT32_MAX = 2**31 - 1
_UINT32_MAX = 2**32 - 1

_CATEGORIES = "pandas_categorical:"

_WHOLE = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_NUMBER = r"[-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|inf|nan)"
_FEATURE_INFO = re.compile(rf"none|\[{_NUMBER}:{_NUMBER}\]|-?[0-9]{{1,10}}(?::-?[0-9]{{1,10}})*", re.ASCII)
_LAST_LINE = re.compile(rf"end of (trees|parameters|parser)|feature.importances:|.*=[0-9]+|{_CATEGORIES}.*")
_PARAMETER = re.compile(r"\[[A-Za-z0-9_]+: .*\]", re.ASCII)


def stamp_lightgbm(text: str, objective: str = "lambdarank") -> str:
    """The same model with an objective that other programs understand.

    A model that was trained with a callable has no `objective=` line, and half of the serving tools refuse it. The
    line goes where LightGBM itself writes it, and the parameters say the same. Trees and predictions are untouched
    (as long as the objective leaves raw scores alone, as the ranking ones do); stamping twice changes nothing more.
    """
    header, separator, rest = text.partition("\n\n")
    line = f"objective={objective}"
    if re.search(r"^objective=", header, re.MULTILINE):
        header = re.sub(r"^objective=.*$", lambda _: line, header, count=1, flags=re.MULTILINE)
    else:
        header = re.sub(
            r"^max_feature_idx=.*$", lambda found: f"{found[0]}\n{line}", header, count=1, flags=re.MULTILINE
        )
    before, mark, parameters = rest.rpartition("\nparameters:\n")
    if mark:
        parameters = re.sub(
            r"^\[objective: .*\]$", lambda _: f"[objective: {objective}]", parameters, count=1, flags=re.MULTILINE
        )
    return header + separator + before + mark + parameters


def check_lightgbm_text(text: str) -> None:
    """Refuse model text that LightGBM would not load, or would load and then read outside its memory.

    Raises:
        ModelError: what is wrong, and in which tree.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ModelError(f"model text is not valid Unicode: {error.reason}") from None
    if b"\0" in data:
        raise ModelError(f"model text has a NUL byte at offset {data.index(0)}: the file is damaged")
    if b"\r" in data:
        raise ModelError("model text has carriage returns: its line ends were converted (CRLF), or it is damaged")
    start = data.find(b"\n\n")
    end = data.find(b"\nend of trees\n")
    if not data.startswith(b"tree\n") or start < 0:
        raise ModelError("this is not LightGBM model text: it must begin with a line 'tree' and a header")
    if end < 0:
        raise ModelError("model text has no line 'end of trees': the file is truncated")
    header = _header(data[:start].decode())
    n_features = _check_header(header)
    blocks = _tree_blocks(data[start + 2 : end + 1], header)
    _check_trees([_tree(block, i) for i, block in enumerate(blocks)], n_features)
    _check_tail(data[end + 1 :].decode())


def _header(text: str) -> dict[str, str]:
    header: dict[str, str] = {}
    for line in text.split("\n")[1:]:
        key, _, value = line.partition("=")
        if key in header or key == "Tree" or ("=" in value and key not in ("feature_names", "monotone_constraints")):
            raise ModelError(f"the model's header has a repeated or broken line {line[:80]!r}")
        header[key] = value
    return header


def _check_header(header: dict[str, str]) -> int:
    """The number of features, when the header agrees with itself."""
    for key in ("version", "num_class", "label_index", "max_feature_idx", "feature_names", "feature_infos"):
        if key not in header:
            raise ModelError(f"the model's header has no {key!r}")
    if header["version"] not in _VERSIONS:
        raise ModelError(
            f"the model is in LightGBM's format version {header['version'][:20]!r}; known are {', '.join(_VERSIONS)}"
        )
    outputs = _whole(header["num_class"], "num_class", 1)
    outputs = max(outputs, _whole(header.get("num_tree_per_iteration", "1"), "num_tree_per_iteration", 1))
    if outputs > 1:
        raise ModelError(f"the model gives {outputs} numbers a document: a multiclass model is not a ranker")
    _whole(header["label_index"], "label_index", -1)
    n_features = _whole(header["max_feature_idx"], "max_feature_idx", 0) + 1
    for key in ("feature_names", "feature_infos", "monotone_constraints"):
        if key in header and len(_words(header[key])) != n_features:
            raise ModelError(f"max_feature_idx says {n_features} features, {key} has {len(_words(header[key]))}")
    for i, info in enumerate(_words(header["feature_infos"])):
        if not _FEATURE_INFO.fullmatch(info):
            raise ModelError(f"feature_infos of feature {i} is {info[:80]!r}, not a range or a list of categories")
    for word in _words(header.get("monotone_constraints", "")):
        _whole(word, "monotone_constraints", -1, 1)
    return n_features


def _words(line: str) -> list[str]:
    return [word for word in line.split(" ") if word]


def _whole(word: str, what: str, low: int, high: int = _INT32_MAX) -> int:
    if not _WHOLE.fullmatch(word) or not low <= int(word) <= high:
        raise ModelError(f"{what} is {word[:80]!r}, not a whole number from {low} to {high}")
    return int(word)


def _tree_blocks(region: bytes, header: dict[str, str]) -> list[bytes]:
    """The text of each tree; its sizes must be those of the header, by which the loader jumps."""
    if region and not region.startswith(b"Tree="):
        raise ModelError(f"expected 'Tree=0' after the model's header, found {region[:40]!r}")
    starts = [0, *(found.start() + 1 for found in re.finditer(rb"\nTree=", region))] if region else []
    blocks = [region[a:b] for a, b in itertools.pairwise([*starts, len(region)])]
    if "tree_sizes" in header:
        sizes = [_whole(word, "tree_sizes", 1) for word in _words(header["tree_sizes"])]
        if len(sizes) != len(blocks):
            raise ModelError(f"tree_sizes promises {len(sizes)} trees, the file has {len(blocks)}")
        for i, (size, block) in enumerate(zip(sizes, blocks, strict=True)):
            if size != len(block):
                raise ModelError(f"tree {i} has {len(block)} bytes, tree_sizes says {size}")
    return blocks


@dataclass(frozen=True)
class _Tree:
    """One tree, taken apart; its numbers are still text."""

    number: int
    fields: dict[bytes, list[bytes]]
    leaves: int
    categorical_splits: int
    linear: bool

    def tokens(self, key: bytes, count: int) -> list[bytes]:
        """The numbers of one field, as text. Of a constant the loader reads the value only; the rest may be absent."""
        tokens = self.fields.get(key)
        if not tokens and self.leaves == 1 and not self.linear and key != b"leaf_value":
            return []
        if tokens is None:
            raise ModelError(f"tree {self.number} has no {key.decode()!r}")
        if len(tokens) != count:
            raise ModelError(f"tree {self.number}: {key.decode()} has {len(tokens)} entries, needs {count}")
        return tokens


def _tree(block: bytes, number: int) -> _Tree:
    body = block.rstrip(b"\n")
    lines = body.split(b"\n")
    if lines[0] != b"Tree=%d" % number:
        raise ModelError(f"expected 'Tree={number}', found {lines[0][:40]!r}")
    if len(block) - len(body) < 2 or len(lines) - 1 > _MAX_TREE_LINES:
        raise ModelError(f"tree {number} is not closed by an empty line")
    fields: dict[bytes, list[bytes]] = {}
    for line in lines[1:]:
        key, equals, value = line.partition(b"=")
        if not equals or key in fields:
            raise ModelError(f"tree {number} has a broken or repeated line {line[:80]!r}")
        fields[key] = [word for word in value.split(b" ") if word]

    def single(key: bytes, low: int, high: int) -> int:
        return _whole(b" ".join(fields.get(key, [])).decode("latin-1"), f"tree {number}: {key.decode()}", low, high)

    # No count is believed that the text cannot hold.
    leaves, categorical_splits = single(b"num_leaves", 1, len(block)), single(b"num_cat", 0, len(block))
    linear = b"is_linear" in fields and single(b"is_linear", 0, 1) == 1
    return _Tree(number, fields, leaves, categorical_splits, linear)


class _Column:
    """One field of many trees, read in one go: a loop over trees would cost more than the numbers."""

    def __init__(self, key: bytes, trees: list[_Tree], tokens: list[list[bytes]]) -> None:
        self.key = key.decode()
        self.tokens = list(itertools.chain.from_iterable(tokens))
        self.tree = np.repeat([t.number for t in trees], [len(t) for t in tokens]).astype(np.int64)

    def whole(self, low: int, high: int | Int64Array) -> Int64Array:
        """int64, each within its bounds."""
        values = self._parse(np.int64, b"-0123456789")
        _refuse((values < low) | (values > high), self.tree, f"{self.key} is out of range")
        return values

    def real(self, *, finite: bool = True) -> Float64Array:
        """float64, each finite where the engine computes with it."""
        values = self._parse(np.float64, b"-+.0123456789eEinfa")
        if finite:
            _refuse(~np.isfinite(values), self.tree, f"{self.key} is not finite")
        return values

    def _parse(self, dtype: type[np.generic], alphabet: bytes) -> npt.NDArray[Any]:
        if not self.tokens:
            return np.zeros(0, dtype)
        # The alphabet keeps out what Python reads as a number and LightGBM does not ("1_0"); the length keeps one
        # giant token from making NumPy allocate its size for all.
        text = np.array([token if len(token) <= _MAX_DIGITS else b"?" for token in self.tokens])
        try:
            if b"".join(self.tokens).translate(None, alphabet):
                raise ValueError
            return text.astype(dtype)
        except (ValueError, OverflowError):
            wrong = np.array([not _reads(token, dtype, alphabet) for token in self.tokens])
            _refuse(wrong, self.tree, f"{self.key} has something that is not a number")
            raise


def _reads(token: bytes, dtype: type[np.generic], alphabet: bytes) -> bool:
    try:
        np.array([token[: _MAX_DIGITS + 1]]).astype(dtype)
    except (ValueError, OverflowError):
        return False
    return len(token) <= _MAX_DIGITS and not token.translate(None, alphabet)


def _refuse(wrong: npt.NDArray[np.bool_], tree: Int64Array, reason: str) -> None:
    if bool(wrong.any()):
        raise ModelError(f"tree {tree[np.argmax(wrong)]}: {reason}")


def _check_trees(trees: list[_Tree], n_features: int) -> None:
    def at_leaves(key: bytes, of: list[_Tree] = trees) -> _Column:
        return _Column(key, of, [t.tokens(key, t.leaves) for t in of])

    def at_nodes(key: bytes, of: list[_Tree] = trees) -> _Column:
        return _Column(key, of, [t.tokens(key, t.leaves - 1) for t in of])

    def having(key: bytes) -> list[_Tree]:
        return [t for t in trees if key in t.fields]

    at_leaves(b"leaf_value").real()
    _check_shape(at_nodes(b"left_child"), at_nodes(b"right_child"), np.array([t.leaves for t in trees], np.int64))
    at_nodes(b"split_feature").whole(0, n_features - 1)
    # Bit 0: categorical, bit 1: missing goes left, bits 2 and 3: what counts as missing (nothing, zero, NaN).
    kind = at_nodes(b"decision_type").whole(0, 11)
    # LightGBM itself writes an infinite threshold now and then, the upper edge of the last bin.
    column = at_nodes(b"threshold")
    threshold = column.real(finite=False)
    sets = np.array([t.categorical_splits for t in trees], np.int64)[column.tree]
    no_set = (kind % 2 == 1) & ~((threshold >= 0) & (threshold < sets) & (threshold == np.floor(threshold)))
    _refuse(no_set, column.tree, "a categorical split names a set of categories that the tree does not have")

    # Not needed to score, and older versions lack some; they only have to be numbers.
    for key in (b"split_gain", b"internal_value", b"internal_weight"):
        at_nodes(key, having(key)).real(finite=False)
    at_leaves(b"leaf_weight", having(b"leaf_weight")).real(finite=False)
    at_leaves(b"leaf_count", having(b"leaf_count")).whole(-_INT32_MAX, _INT32_MAX)
    at_nodes(b"internal_count", having(b"internal_count")).whole(-_INT32_MAX, _INT32_MAX)
    shrunk = having(b"shrinkage")
    _Column(b"shrinkage", shrunk, [t.tokens(b"shrinkage", 1) for t in shrunk]).real()

    for tree in trees:
        if tree.categorical_splits:
            _check_categories(tree)
        if tree.linear:
            _check_linear(tree, n_features)


def _check_shape(left: _Column, right: _Column, leaves: Int64Array) -> None:
    """Every node but the root, and every leaf, is the child of exactly one node, and the root reaches all.

    Children >= 0 are nodes, children < 0 are leaves: ~child is the leaf's number.
    """
    nodes = leaves - 1
    first_node, first_leaf = np.cumsum(nodes) - nodes, np.cumsum(leaves) - leaves
    tree = np.concatenate([left.tree, right.tree])
    child = np.concatenate([c.whole(-_INT32_MAX, _INT32_MAX) for c in (left, right)])
    _refuse((child == 0) | (child >= nodes[tree]) | (~child >= leaves[tree]), tree, "a child is out of range")

    inner = child > 0
    at_node = child[inner] + first_node[tree[inner]]
    at_leaf = ~child[~inner] + first_leaf[tree[~inner]]
    parents_of_node = np.bincount(at_node, minlength=int(nodes.sum()))
    parents_of_node[first_node[nodes > 0]] = 1  # roots: child 0 is refused above
    parents_of_leaf = np.bincount(at_leaf, minlength=int(leaves.sum()))
    parents_of_leaf[first_leaf[nodes == 0]] = 1
    _refuse(parents_of_node != 1, left.tree, "a node has no parent, or two")
    _refuse(parents_of_leaf != 1, np.repeat(np.arange(leaves.size), leaves), "a leaf has no parent, or two")

    parent = np.repeat(first_node, nodes)
    parent[at_node] = np.tile(np.arange(left.tree.size), 2)[inner]
    depth = depths(parent)
    _refuse(depth < 0, left.tree, "its nodes form a cycle")
    _refuse(depth >= MAX_DEPTH, left.tree, f"it is deeper than {MAX_DEPTH} nodes")


def _check_categories(tree: _Tree) -> None:
    """Set i of the categories that go left is the bits of cat_threshold[cat_boundaries[i] : cat_boundaries[i + 1]]."""
    words = tree.fields.get(b"cat_threshold", [])
    _Column(b"cat_threshold", [tree], [words]).whole(0, _UINT32_MAX)
    boundaries = tree.tokens(b"cat_boundaries", tree.categorical_splits + 1)
    ends = _Column(b"cat_boundaries", [tree], [boundaries]).whole(0, len(words))
    if not ends.size or ends[0] != 0 or ends[-1] != len(words) or np.any(np.diff(ends) < 0):
        raise ModelError(f"tree {tree.number}: cat_boundaries do not fit cat_threshold")


def _check_linear(tree: _Tree, n_features: int) -> None:
    """A linear tree adds, in each leaf, a constant and some features times their coefficients."""
    fields = {
        key: tree.fields.get(key, []) for key in (b"leaf_const", b"num_features", b"leaf_features", b"leaf_coeff")
    }
    columns = {key: _Column(key, [tree], [tokens]) for key, tokens in fields.items()}
    columns[b"leaf_const"].real()
    columns[b"leaf_coeff"].real()
    columns[b"leaf_features"].whole(0, n_features - 1)
    used = int(columns[b"num_features"].whole(0, n_features).sum())
    lengths = [len(tokens) for tokens in fields.values()]
    if lengths != [tree.leaves, tree.leaves, used, used]:
        raise ModelError(f"tree {tree.number}: the lengths of its linear models do not fit each other")


def _check_tail(tail: str) -> None:
    """What follows the trees: the loader takes the parameters apart without looking."""
    _, mark, rest = tail.partition("\nparameters:\n")
    if mark:
        block, end, _ = rest.partition("\nend of parameters\n")
        if not end:
            raise ModelError("the parameters have no line 'end of parameters': the file is truncated")
        for line in block.split("\n"):
            if line and not _PARAMETER.fullmatch(line):
                raise ModelError(f"the parameters have a broken line {line[:80]!r}")
    last = tail.rstrip("\n").rpartition("\n")[2]
    if not _LAST_LINE.fullmatch(last):
        raise ModelError(f"the last line is {last[:80]!r}: the file is truncated")
    if last.startswith(_CATEGORIES):
        try:
            json.loads(last.removeprefix(_CATEGORIES))
        except (ValueError, RecursionError):
            raise ModelError(f"{_CATEGORIES} is followed by broken JSON: the file is damaged") from None
