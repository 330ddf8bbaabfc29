"""The parser of LightGBM's model text, which checks a file before LightGBM's loader reads it.

LightGBM's loader does not check files, so truncated text aborts the process, and wrong child
numbers read foreign memory. The parser accepts v2 to v4 (`GBDT::SaveModelToString` and
`Tree::ToString` in LightGBM's source).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Array, BoolArray, Float64Array, Int64Array
from boostrank.engines.trees import (
    LARGEST_SCORE,
    MAX_DEPTH,
    Leaves,
    balance_steps,
    by_feature,
    depths,
    of_doubles,
    refuse,
)
from boostrank.kernels.curves import LOWEST, Curve
from boostrank.records import from_json

_VERSIONS = ("v2", "v3", "v4")
_REQUIRED = tuple(
    "version num_class label_index max_feature_idx feature_names feature_infos".split()
)
_MAX_TREE_LINES = 22  # LightGBM's loader reads no further in a tree
_INT32_MAX = 2**31 - 1
_CATEGORIES = "pandas_categorical:"
_END = b"\nend of trees\n"
# What follows the trees where LightGBM up to 2.1 wrote no line for their end.
_AFTER = re.compile(rb"\n(?=\n(?:feature[ _]importances:|parameters:|pandas_categorical:.*)\n)")
_WHOLE = re.compile(r"-?[0-9]{1,10}", re.ASCII)
# Numbers as LightGBM reads them, with at most 40 bytes, because NumPy allocates the size of the
# longest for all.
_INTEGER = rb"-?[0-9]{1,18}"
_REAL = rb"(?=[^ ]{1,40}(?: |$))[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|inf|nan)"
_NUMBER = r"[-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|inf|nan)"
_FEATURE_INFO = re.compile(
    rf"none|\[{_NUMBER}:{_NUMBER}\]|-?[0-9]{{1,10}}(?::-?[0-9]{{1,10}})*", re.ASCII
)
_OBJECTIVE = re.compile(r"[a-z0-9_]+(?: [a-z0-9_]+(?::[^ :]+)?)*", re.ASCII)
_LAST_LINE = re.compile(
    rf"end of (trees|parameters|parser)|feature.importances:|.*=[0-9]+|{_CATEGORIES}.*"
)
_PARAMETER = re.compile(r"\[[A-Za-z0-9_]+: .*\]", re.ASCII)


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree whose numbers have not been parsed yet.

    Args:
        number: number of the tree, from 0.
        fields: text after the `=`, by name.
        end: line breaks after the tree.
        leaves, categorical_splits: number of leaves and of categorical splits.
    """

    number: int
    fields: Mapping[bytes, bytes]
    end: bytes
    leaves: int
    categorical_splits: int

    @property
    def is_start(self) -> bool:
        """Whether the tree is part of a linear start: its first split is below all numbers, and no
        split has a gain.
        """
        gains = self.fields.get(b"split_gain", b"1")
        if self.leaves == 1 or self.categorical_splits or gains.strip(b"0 "):
            return False
        first_threshold = self.words(b"threshold")[:1]
        return (
            first_threshold == [repr(LOWEST).encode()]
            and len(set(self.words(b"split_feature"))) == 1
        )

    def words(self, key: bytes) -> list[bytes]:
        """Return the values of a field, or [] if the tree lacks it."""
        return [word for word in self.fields.get(key, b"").split(b" ") if word]

    def tokens(self, key: bytes) -> list[bytes]:
        """Return the words of a required field, where a constant tree needs only its value."""
        tokens = self.words(key)
        if not tokens and self.leaves == 1 and key != b"leaf_value":
            return []
        counts = {
            b"cat_boundaries": self.categorical_splits + 1,
            b"cat_threshold": len(tokens),
            b"shrinkage": 1,
        }
        count = counts.get(key, self.leaves - 1 + key.startswith(b"leaf_"))
        name = key.decode()
        refuse(key not in self.fields, f"tree {self.number} has no {name!r}")
        refuse(
            len(tokens) != count,
            f"tree {self.number}: {name} has {len(tokens)} entries, but needs {count}",
        )
        return tokens

    def with_words(self, key: bytes, words: Iterable[bytes]) -> Tree:
        """Return the tree with other values of a field."""
        return replace(self, fields={**self.fields, key: b" ".join(words)})

    def with_numbers(self, key: bytes, numbers: Float64Array) -> Tree:
        """Return the tree with other numbers in a field."""
        return self.with_words(key, (b"%.17g" % number for number in numbers.tolist()))

    def to_bytes(self) -> bytes:
        """Return the section of the tree in the model text."""
        lines = (key + b"=" + value for key, value in self.fields.items())
        return b"\n".join([b"Tree=%d" % self.number, *lines]) + self.end


@dataclass(frozen=True, eq=False)
class LightGBMText:
    """A parsed and checked model text.

    Args:
        head: text before the trees.
        trees: all trees, including those of a start.
        tail: text that starts with `end of trees`.
        nodes: values at the nodes of all trees in order, by name: left_child, right_child,
            split_feature, decision_type, threshold, split_gain (0 if absent).
        leaf_value: float64[L], values of all leaves.
        sets: the category sets of all trees in order, which go left, as bits of words.
    """

    head: bytes
    trees: Sequence[Tree]
    tail: bytes
    nodes: Mapping[str, Array]
    leaf_value: Float64Array
    sets: Sequence[Int64Array]

    @cached_property
    def start_trees(self) -> int:
        """The number of leading trees that form a linear start."""
        return next((tree.number for tree in self.trees if not tree.is_start), len(self.trees))

    @property
    def start(self) -> dict[int, Curve]:
        """The functions of the linear start, by feature."""
        return by_feature(map(_read_curve, self.trees[: self.start_trees]))

    @property
    def grown_trees(self) -> Sequence[Tree]:
        """The trees after the linear start."""
        return self.trees[self.start_trees :]

    def split(self, column: Array, *, at_nodes: bool = False) -> list[Array]:
        """Return the part of a column of leaves, or of nodes, for each grown tree."""
        sizes = np.array([tree.leaves - at_nodes for tree in self.trees], np.int64)
        return np.split(column, np.cumsum(sizes) - sizes)[1 + self.start_trees :]

    def to_bytes(self) -> bytes:
        """Return the model text, with the offsets of the trees in its head."""
        return join_trees(self.head, self.trees, self.tail)


def _read_curve(tree: Tree) -> tuple[int, Curve]:
    def read_numbers(name: bytes, dtype: type = float) -> Any:
        return np.array(tree.tokens(name), dtype=np.float64).astype(dtype)

    try:
        values, documents = read_numbers(b"leaf_value"), read_numbers(b"leaf_count")
        thresholds = read_numbers(b"threshold")[1:]
        bounds = np.sort(thresholds)
        children = [read_numbers(name, int).tolist() for name in (b"left_child", b"right_child")]
        if (thresholds.tolist(), *children) != balance_steps(bounds):
            raise ValueError
        curve = Curve(bounds, values[1:], float(values[0]), np.roll(documents, -1))
        return int(read_numbers(b"split_feature", int)[0]), curve
    except (ValueError, IndexError) as error:
        raise ModelError(
            f"tree {tree.number} resembles a linear start but is not a function of one feature"
        ) from error


def join_trees(head: bytes, trees: Iterable[Tree], tail: bytes) -> bytes:
    """Return a model text that consists of these trees, numbers them and lists their sizes."""
    texts = [replace(tree, number=number).to_bytes() for number, tree in enumerate(trees)]
    sizes = b"tree_sizes=" + b" ".join(b"%d" % len(text) for text in texts)
    head = re.sub(rb"^tree_sizes=.*$", sizes, head, flags=re.MULTILINE)
    return head + b"\n\n" + b"".join(texts) + tail


def parse_text(data: bytes) -> LightGBMText:
    """Parse a model text.

    Raises:
        ModelError: LightGBM would not load the file, or would read beyond its memory.
    """
    # Detect bytes that no model text of LightGBM has, such as NUL.
    try:
        data.replace(b"\0", b"\xff").decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"byte {error.start} is not UTF-8 text: the file is damaged") from None
    refuse(
        b"\r" in data,
        "model text has carriage returns: its line ends were converted (CRLF), or it is damaged;"
        r" `tr -d '\r' < FILE > model.txt` converts them back",
    )
    # Find the header and the trees, also in files of versions that do not mark the end.
    lacks_end = _END not in data
    if lacks_end:
        data = _AFTER.sub(_END, data, 1)
    # Sizes in the header tell whether an old text without importances has all its trees.
    has_sizes = re.search(rb"\ntree_sizes=\d[\d ]*\n", data) is not None
    is_old = lacks_end and b"\nversion=v4\n" not in data
    # The names of categories would follow the importances.
    is_old &= re.search(rb"\nfeature_infos=(?:[^\n]* )?-?\d", data) is None
    if _END not in data and has_sizes and is_old and data.endswith(b"\n\n\n"):
        data, lacks_end = data[:-1] + _END, False
    header_end, trees_end = data.find(b"\n\n"), data.find(_END)
    refuse(
        not data.startswith(b"tree\n") or header_end < 0,
        "this is not LightGBM model text: it must begin with a line 'tree' and a header",
    )
    reason = "model text has no line 'end of trees': the file is truncated"
    if not has_sizes:
        reason += (
            r"; if it has all its trees, `printf '\n\nend of trees\n' >> FILE` marks their end"
        )
    refuse(trees_end < 0, reason)
    # Parse the parts, and check each against the header's numbers.
    header = _header(data[:header_end].decode())
    n_features = _check_header(header)
    _check_sizes(_blocks(data), header)
    parsed = _check_trees(
        data[:header_end], list(_trees(data)), tail=data[trees_end + 1 :], n_features=n_features
    )
    _check_tail(parsed.tail.decode())
    if lacks_end:
        _check_importances(parsed)
    return parsed


def start_trees(data: bytes) -> list[Tree]:
    """Return the leading trees of a model text that form a linear start, without parsing the
    others.
    """
    return list(itertools.takewhile(lambda tree: tree.is_start, _trees(data)))


def count_documents(trees: Iterable[Tree]) -> Float64Array:
    """Return the number of documents in each leaf, or 0 if the text does not tell."""
    counts = [tree.words(b"leaf_count") or [b"0"] * tree.leaves for tree in trees]
    return np.array([*itertools.chain(*counts)], np.float64)


def with_even_leaves(data: bytes) -> bytes:
    """Replace the thresholds of an unchecked text that LightGBM wrote by those of `of_doubles`, and
    round the leaves as `Leaves.in_units` does.

    The leaves stay if scores are not their sums, or if rounding would matter.
    """
    header, trees = data[: data.find(b"\n\n")], list(_trees(data))
    values = [*itertools.chain(*(tree.words(b"leaf_value") for tree in trees))]
    tree_of_leaf = np.repeat(np.arange(len(trees)), [tree.leaves for tree in trees])
    leaves = Leaves(tree_of_leaf, np.array(values, np.float64), count_documents(trees)).in_units()
    if b"\naverage_output" in header:
        leaves = None
    changed_trees, first_leaf = [], 0
    for tree in trees:
        if leaves is not None:
            leaf_value = leaves.value[first_leaf : first_leaf + tree.leaves]
            tree = tree.with_numbers(b"leaf_value", leaf_value)
            first_leaf += tree.leaves
        if tree.leaves > 1:
            threshold = np.array(tree.words(b"threshold"), np.float64)
            is_set = np.array(tree.words(b"decision_type"), int) & 1
            new_thresholds = np.where(is_set, threshold, of_doubles(threshold))
            tree = tree.with_numbers(b"threshold", new_thresholds)
        changed_trees.append(tree)
    return join_trees(header, changed_trees, data[data.find(_END) + 1 :])


def _trees(data: bytes) -> Iterator[Tree]:
    return (_tree(block, i) for i, block in enumerate(_blocks(data)))


def _header(text: str) -> dict[str, str]:
    header: dict[str, str] = {}
    for line in text.split("\n")[1:]:
        key, _, value = line.partition("=")
        if (
            key in header
            or key == "Tree"
            or ("=" in value and key not in ("feature_names", "monotone_constraints"))
        ):
            raise ModelError(f"the model's header has a repeated or broken line {line[:80]!r}")
        header[key] = value
    return header


def _check_header(header: dict[str, str]) -> int:
    """Check the header and return the number of features."""
    for key in _REQUIRED:
        refuse(
            key not in header,
            f"the model's header has no {key!r}: lightgbm.Booster(model_file='FILE').save_model"
            "('model.txt') writes it",
        )
    refuse(
        header["version"] not in _VERSIONS,
        f"the model is in LightGBM's format version {header['version'][:20]!r}; supported:"
        f" {', '.join(_VERSIONS)}",
    )
    outputs = max(
        _parse_whole(header.get(key, "1"), key, 1)
        for key in ("num_class", "num_tree_per_iteration")
    )
    refuse(
        outputs > 1,
        f"the model has {outputs} outputs per document: a multiclass model is not a ranker",
    )
    objective = header.get("objective", "custom")
    refuse(
        not _OBJECTIVE.fullmatch(objective),  # the loader reads the first word
        f"the header's objective is {objective[:80]!r}, which is not a valid name",
    )
    _parse_whole(header["label_index"], "label_index", -1)
    n_features = _parse_whole(header["max_feature_idx"], "max_feature_idx", 0) + 1
    for key in ("feature_names", "feature_infos", "monotone_constraints"):
        if key in header and (n_words := len(_words(header[key]))) != n_features:
            raise ModelError(
                f"max_feature_idx gives {n_features} features, but {key} has {n_words}"
            )
    for i, info in enumerate(_words(header["feature_infos"])):
        refuse(
            not _FEATURE_INFO.fullmatch(info),
            f"feature_infos of feature {i} is {info[:80]!r}, not a range or a list of categories",
        )
    for direction in _words(header.get("monotone_constraints", "")):
        _parse_whole(direction, "monotone_constraints", -1, 1)
    return n_features


def _words(line: str) -> list[str]:
    return [word for word in line.split(" ") if word]


def _parse_whole(word: str, field: str, low: int, high: int = _INT32_MAX) -> int:
    if not _WHOLE.fullmatch(word) or not low <= int(word) <= high:
        raise ModelError(f"{field} is {word[:80]!r}, not a whole number from {low} to {high}")
    return int(word)


def _blocks(data: bytes) -> list[bytes]:
    """Return the text of each tree."""
    text = data[data.find(b"\n\n") : data.find(_END) + 1].lstrip(b"\n")
    # No text has the byte NUL.
    return text.replace(b"\nTree=", b"\n\0Tree=").split(b"\0") if text else []


def _check_sizes(blocks: Sequence[bytes], header: Mapping[str, str]) -> None:
    """Compare the sizes of the trees with the header, because the loader jumps by sizes."""
    if "tree_sizes" in header:
        sizes = [_parse_whole(word, "tree_sizes", 1) for word in _words(header["tree_sizes"])]
        pairs = itertools.zip_longest(sizes, map(len, blocks), fillvalue=0)
        for i, (size, length) in enumerate(pairs):
            refuse(size != length, f"tree {i} has {length} bytes, but tree_sizes gives {size}")


def _tree(block: bytes, number: int) -> Tree:
    body = block.rstrip(b"\n")
    lines = body.split(b"\n")
    refuse(lines[0] != b"Tree=%d" % number, f"expected 'Tree={number}', found {lines[0][:40]!r}")
    if len(block) - len(body) < 2 or len(lines) - 1 > _MAX_TREE_LINES:
        raise ModelError(f"tree {number} is not closed by an empty line")
    fields: dict[bytes, bytes] = {}
    for line in lines[1:]:
        key, separator, value = line.partition(b"=")
        refuse(
            not separator or key in fields,
            f"tree {number} has a broken or repeated line {line[:80]!r}",
        )
        fields[key] = value

    def parse_field(key: str, low: int, high: int, default: bytes = b"") -> int:
        word = fields.get(key.encode(), default).strip(b" ").decode("latin-1")
        return _parse_whole(word, f"tree {number}: {key}", low, high)

    # A count cannot exceed the size of the text.
    leaves = parse_field("num_leaves", 1, len(block))
    categorical_splits = parse_field("num_cat", 0, len(block))
    linear = parse_field("is_linear", 0, 1, default=b"0") == 1
    refuse(linear, f"tree {number} has linear models in its leaves, which boostrank does not read")
    return Tree(number, fields, block[len(body) :], leaves, categorical_splits)


class _Column:
    """One field of many trees, which are parsed together because a loop over trees is slow."""

    def __init__(self, key: bytes, trees: Sequence[Tree]) -> None:
        tokens = [tree.tokens(key) for tree in trees]
        numbers, lengths = [tree.number for tree in trees], list(map(len, tokens))
        self.key, self.tokens = key.decode(), [*itertools.chain(*tokens)]
        self.tree = np.repeat(numbers, lengths).astype(np.int64)

    def parse_whole(self, low: int, high: int | Int64Array) -> Int64Array:
        values = self._parse(_INTEGER).astype(np.int64)
        _refuse_tree((values < low) | (values > high), self.tree, f"{self.key} is out of range")
        return values

    def real(self, *, finite: bool = True) -> Float64Array:
        values = self._parse(_REAL).astype(np.float64)
        if finite:
            _refuse_tree(~np.isfinite(values), self.tree, f"{self.key} is not finite")
        return values

    def _parse(self, pattern: bytes) -> Array:
        if not re.fullmatch(
            rb"(?:%b )*" % pattern, b"".join(token + b" " for token in self.tokens)
        ):
            is_wrong = np.array([not re.fullmatch(pattern, token) for token in self.tokens])
            _refuse_tree(is_wrong, self.tree, f"{self.key} has something that is not a number")
        return np.array(self.tokens, dtype=np.bytes_)


def _refuse_tree(is_wrong: BoolArray, tree: Int64Array, reason: str) -> None:
    if bool(is_wrong.any()):
        raise ModelError(f"tree {tree[np.argmax(is_wrong)]}: {reason}")


def _check_trees(head: bytes, trees: list[Tree], tail: bytes, n_features: int) -> LightGBMText:
    """Check the fields of all trees, each of which becomes one column, and return the text."""
    leaf_column = _Column(b"leaf_value", trees)
    leaf_value = leaf_column.real()
    with np.errstate(over="ignore"):
        largest = np.zeros(len(trees))
        np.maximum.at(largest, leaf_column.tree, np.abs(leaf_value))
        refuse(
            float(largest.sum()) > LARGEST_SCORE,
            f"the leaves of its trees add up to more than {LARGEST_SCORE:g}",
        )
    # The tree that the children form, and what its splits test.
    child_columns = [_Column(key, trees) for key in (b"left_child", b"right_child")]
    nodes: dict[str, Array] = {
        column.key: column.parse_whole(-_INT32_MAX, _INT32_MAX) for column in child_columns
    }
    tree_of_node = child_columns[0].tree
    _check_shape(np.concatenate([*nodes.values()]), tree_of_node, leaf_column.tree)
    # Bit 0: categorical; bit 1: missing goes left; bits 2 and 3: meaning of missing (none, zero,
    # NaN).
    for key, highest in ((b"split_feature", n_features - 1), (b"decision_type", 11)):
        nodes[key.decode()] = _Column(key, trees).parse_whole(0, highest)
    # Thresholds are finite, or sets of categories that the tree has.
    decision, threshold = nodes["decision_type"], _Column(b"threshold", trees).real(finite=False)
    n_sets = np.array([tree.categorical_splits for tree in trees], np.int64)[tree_of_node]
    is_set = (threshold >= 0) & (threshold < n_sets) & (threshold == np.floor(threshold))
    _refuse_tree(
        (decision % 2 == 1) & ~is_set,
        tree_of_node,
        "a categorical split names a set of categories that the tree does not have",
    )
    # LightGBM itself writes infinity only where missing values, and nothing else, go right.
    is_infinite = (threshold == np.inf) & np.isin(decision, (4, 8))
    _refuse_tree(~np.isfinite(threshold) & ~is_infinite, tree_of_node, "threshold is not finite")
    nodes |= {"threshold": threshold, "split_gain": _parse_other_fields(trees, tree_of_node)}
    sets = [words for tree in trees if tree.categorical_splits for words in _parse_sets(tree)]
    return LightGBMText(head, trees, tail, nodes, leaf_value, sets)


def _parse_other_fields(trees: list[Tree], tree_of_node: Int64Array) -> Float64Array:
    """Check that the fields that scores do not need are numbers, and return the split gains.

    Older versions do not have these fields.
    """

    def column_of(key: bytes) -> _Column:
        return _Column(key, [tree for tree in trees if key in tree.fields])

    for key in (b"internal_value", b"internal_weight", b"leaf_weight"):
        column_of(key).real(finite=False)
    for key in (b"leaf_count", b"internal_count"):
        column_of(key).parse_whole(-_INT32_MAX, _INT32_MAX)
    column_of(b"shrinkage").real()
    gain_column = column_of(b"split_gain")
    gains = np.zeros(tree_of_node.size)
    gains[np.isin(tree_of_node, gain_column.tree)] = gain_column.real(finite=False)
    return gains


def _check_shape(child: Int64Array, tree_of_node: Int64Array, tree_of_leaf: Int64Array) -> None:
    """Check that every leaf and every node but the root has exactly one parent and can be reached
    from the root.

    Args:
        child: int64[2M], the left children of all nodes, and then the right ones, or ~leaf.
        tree_of_node, tree_of_leaf: int64[M] and int64[L], tree of each node and each leaf.
    """
    leaves = np.bincount(tree_of_leaf)
    n_nodes, tree = leaves - 1, np.tile(tree_of_node, 2)
    _refuse_tree(
        (child == 0) | (child >= n_nodes[tree]) | (~child >= leaves[tree]),
        tree,
        "a child is out of range",
    )

    # Number all nodes and then all leaves, and count their parents. A root is its own parent.
    first_node, first_leaf = np.cumsum(n_nodes) - n_nodes, np.cumsum(leaves) - leaves
    first_leaf += tree_of_node.size
    number = np.where(child > 0, first_node[tree] + child, first_leaf[tree] + ~child)
    n_parents = np.bincount(number, minlength=tree_of_node.size + tree_of_leaf.size)
    n_parents[np.where(n_nodes > 0, first_node, first_leaf)] += 1
    tree = np.concatenate([tree_of_node, tree_of_leaf])
    _refuse_tree(n_parents != 1, tree, "a node or leaf has no parent or two parents")

    parent = np.arange(tree.size)
    parent[number] = np.tile(np.arange(tree_of_node.size), 2)
    depth = depths(parent)
    _refuse_tree(depth < 0, tree, "its nodes form a cycle")
    _refuse_tree(depth > MAX_DEPTH, tree, f"it is deeper than {MAX_DEPTH} nodes")


def _parse_sets(tree: Tree) -> list[Int64Array]:
    """Return the words of each set of categories."""
    most_words = len(tree.words(b"cat_threshold"))
    set_ends = _Column(b"cat_boundaries", [tree]).parse_whole(0, most_words)
    words = _Column(b"cat_threshold", [tree]).parse_whole(0, 2**32 - 1)
    is_ascending = set_ends.size and set_ends[0] == 0 and np.all(np.diff(set_ends) >= 0)
    if not is_ascending or set_ends[-1] != words.size:
        raise ModelError(f"tree {tree.number}: cat_boundaries do not fit cat_threshold")
    return np.split(words, set_ends[1:-1])


def _check_importances(parsed: LightGBMText) -> None:
    """Check that importances at the end of a text count every split, as cut ones do not."""
    tail, gains = parsed.tail.decode(), parsed.nodes["split_gain"]
    n_counted = sum(map(int, re.findall("(?m)^.*=([0-9]{1,10})$", tail)))
    is_cut = not re.search(f"\n(parameters|{_CATEGORIES[:-1]}):", tail)
    is_cut &= n_counted not in (gains.size, (gains > 0).sum())
    refuse(
        is_cut,
        f"the importances count {n_counted} splits, but the trees have {gains.size}: the file is"
        " truncated",
    )


def _check_tail(tail: str) -> None:
    """Check the text after the trees, whose parameters the loader parses without checks."""
    _, separator, parameters = tail.partition("\nparameters:\n")
    if separator:
        parameter_lines, end_mark, _ = parameters.partition("\nend of parameters\n")
        refuse(
            not end_mark, "the parameters have no line 'end of parameters': the file is truncated"
        )
        for line in parameter_lines.split("\n"):
            refuse(
                bool(line) and not _PARAMETER.fullmatch(line),
                f"the parameters have a broken line {line[:80]!r}",
            )
    last_line = tail.rstrip("\n").rpartition("\n")[2]
    refuse(
        not _LAST_LINE.fullmatch(last_line),
        f"the last line is {last_line[:80]!r}: the file is truncated",
    )
    if last_line.startswith(_CATEGORIES):
        try:
            from_json(last_line.removeprefix(_CATEGORIES))
        except ValueError:
            raise ModelError(
                f"{_CATEGORIES} is followed by broken JSON: the file is damaged"
            ) from None
