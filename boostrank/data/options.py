"""Feature names and feature numbers, and the signatures of `read` and `stream`.

A file with feature names has one name per line, in feature order, or lines such as `1 name`, `1: name` or `1,name` with
feature numbers. It can also be an XGBoost feature map (`0 name q`) or JSON: a list of names or a feature store export.
In libsvm text, comments before the first row may name features, one per line, as in `# f1: name`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.files import read_text
from boostrank.options import Option, ReadOptions, declared, takes_options

Progress = Callable[[int, int | None], None] | None
"""Function that is called with the number of bytes read and the total number, which is None if it is unknown."""

NUMBERED = re.compile(r"f\d+")  # generated feature names
_PAIR = re.compile(r"[fF]?(\d+)(?:\s*[:=,]\s*|\s+)(\S.*)")
# First lines of tables of names and of CatBoost's column descriptions.
_HEADER = re.compile(
    r"""(".*|,.*|(feature_?)?names?|features?|(index|id|feature\w*),.*|0(?=\r?\n\D)|\d+\t(Label|GroupId|Num|Categ)\b.*)\r?$""",
    re.IGNORECASE | re.MULTILINE,
)
_FEATURE_MAP = re.compile(r"\d+\s+(\S.*?)\s+(q|i|int|float|c)")
_COMMENT = re.compile(rb"#\s*[fF](\d+)\s*[:=]\s*(\S.*)")
_DOCID = re.compile(rb"docid\s*=\s*(\S+)")  # comments of LETOR; in other files, the first word is the name
_QUERY = re.compile(rb"^#[ \t]*qid:(\S+?):[ \t]*(\S[^\r\n]*?)[ \t\r]*$", re.MULTILINE)
_LARGEST = 2**31

Names = Mapping[int, str] | tuple[str, ...]
"""A mapping from feature numbers to names, or the names of all features in order."""


@dataclass(frozen=True)
class FeatureSpace:
    """The features of a training set, which later files are read with.

    Args:
        index_base: number of the first feature in the training file, 0 or 1; None for arrays, whose features are
            numbered from 1 unless `zero_based` is given.
        n_features: number of features.
        feature_names: names of the features; empty if they are `f1`, `f2`, ...
        columns: `label`, `qid`, `weight`, `id` and `drop` of a training table, which are the defaults for later tables.
        categories: `boostrank.data.categories.Categories` of each categorical feature.
        ignored: names of other features that files may contain.
    """

    index_base: int | None
    n_features: int
    feature_names: tuple[str, ...] = ()
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    categories: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    ignored: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"FeatureSpace({self.n_features:,} features, {len(self.categories):,} categorical)"


_READING = (Option(name="like", help=""), Option(name="threads", help=""), Option(name="progress", help=""))
takes_reader_options = takes_options((*_READING, *declared(ReadOptions).values()), alone=False)
"""Decorator that shows `like`, `threads`, `progress` and the fields of `ReadOptions` in place of `**options`."""


# Names ---------------------------------------------------------------------------------------------------------------


def numbered_names(given: str | os.PathLike[str] | Sequence[str] | Mapping[int, str]) -> Names:
    """Return feature names, which are passed as such or read from a file."""
    if isinstance(given, str | os.PathLike):
        return read_names(os.fspath(given))
    names: Names = dict(given) if isinstance(given, Mapping) else tuple(map(str, given))
    values = list(names.values()) if isinstance(names, Mapping) else names
    if not values or not all(name.strip() for name in values) or len(set(values)) < len(values):
        raise ParameterError("feature_names must be distinct and not blank")
    return names


def read_names(path: str) -> Names:
    """Return the feature names in a file."""
    text = read_text(path)
    if text.lstrip().startswith(("[", "{")):
        found = map(name_of, features_in_json(text, path))
        return tuple(_checked([(0, i, name) for i, name in enumerate(found)], path).values())
    lines = text.rstrip().split("\n")
    if _HEADER.match(text):
        words = f"{lines[0].strip()!r} is not a feature name; write one name per line, without a header and quotes"
        raise FileFormatError(words, file=path, line=1)
    pairs = [(line, _PAIR.fullmatch(text.strip())) for line, text in enumerate(lines, 1)]
    if all(pair for _, pair in pairs):
        maps = [_FEATURE_MAP.fullmatch(text.strip()) for text in lines]
        named = [found[1] for found in maps if found]  # the type ends every line, or it is part of a name
        named = named if len(named) == len(pairs) else [pair[2] for _, pair in pairs if pair]
        numbered = zip(pairs, named, strict=True)
        return _checked([(line, int(pair[1][:18]), name) for (line, pair), name in numbered if pair], path)
    odd = next((line for line, pair in pairs if pair and re.match(r"\d+\s*[:,\t]", lines[line - 1].strip())), None)
    if odd is not None:
        words = "some lines have the form `number: name`, but others do not; use one form for all lines"
        raise FileFormatError(words, file=path, line=odd)
    return tuple(_checked([(line, line, text) for line, text in enumerate(lines, 1)], path).values())


def features_in_json(text: str, path: str) -> tuple[Any, ...]:
    """Return the list of features in JSON data, which are names, objects with a `name` or feature extractors."""
    keys = "features", "managedList", "featureset", "_source"
    keys += "inference_config", "learning_to_rank", "feature_extractors"
    try:
        found: Any = json.loads(text)
        while isinstance(found, dict):
            found = next(found[key] for key in keys if key in found)
        if not {type(name_of(one)) for one in found} <= {str}:
            raise TypeError
        return tuple(found)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
        words = "the file has no list of features; write one name per line, or JSON with a list"
        raise FileFormatError(words, file=path) from None


def name_of(feature: Any) -> str:
    """Return the name of a feature from the list that `features_in_json` returns."""
    if isinstance(feature, str):
        return feature
    name: str = feature["query_extractor"]["feature_name"] if "query_extractor" in feature else feature["name"]
    return name


def name_in(comment: bytes) -> str:
    """Return the name of a document from its row's comment: `docid = NAME`, or else the first word, or else ""."""
    named = _DOCID.search(comment)
    words = [named[1]] if named else comment.lstrip(b"#").split(None, 1)
    return words[0].decode("utf-8", "backslashreplace") if words else ""


def words_in(text: bytes | bytearray) -> dict[str, str]:
    """Return the query texts in comment lines such as `# qid:1: red shoe`, which RankLib and Quepid use."""
    found = ((qid.decode("utf-8", "backslashreplace"), words) for qid, words in _QUERY.findall(text))
    return {qid: words.decode("utf-8", "backslashreplace") for qid, words in found}


def names_in_head(head: bytes, file: str) -> dict[int, str]:
    """Return the feature names by number from comments before the first row, such as `# f1: name`."""
    found = []
    for line, text in enumerate(head.split(b"\n"), 1):
        text = text.strip()
        if text and not text.startswith(b"#"):
            break
        named = _COMMENT.fullmatch(text)
        if named:
            found.append((line, int(named[1][:18]), named[2].decode("utf-8", "backslashreplace")))
    return _checked(found, file)


def same_names(before: dict[int, str], found: dict[int, str], file: str) -> dict[int, str]:
    """Return the names `found` in a file, or the previous files' names. Names that differ are refused."""
    if before and found and before != found:
        number = min(n for n in before.keys() | found.keys() if before.get(n) != found.get(n))
        words = f"feature {number} is called {found.get(number)!r}, but {before.get(number)!r} in a previous file"
        raise FileFormatError(words, file=file)
    return found or before


def _checked(found: Iterable[tuple[int, int, str]], file: str) -> dict[int, str]:
    """Check the line, number and name of each feature, and return the names by number."""
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    for line, number, text in found:
        name = text.strip()
        if not name:
            raise FileFormatError("the line is blank, but must name a feature", file=file, line=line)
        if name in seen or number in names or number >= _LARGEST:
            what = f"feature {number} has a name" if name not in seen else f"{name!r} is also on line {seen[name]}"
            raise FileFormatError(f"{what}; names must be distinct, one per feature", file=file, line=line)
        names[number], seen[name] = name, line
    return names


def misfit(missing: Sequence[str], more: Sequence[str], mend: str = "") -> str:
    """Return the message about missing and additional columns."""
    found = []
    if missing:
        found.append(f"lacks {quoted(missing)}, which the model or its training data has{unnamed(missing)}")
    if more:
        found.append(f"has {quoted(more)}, which the model or its training data lacks{mend}")
    return "; ".join(found)


def unnamed(missing: Sequence[str]) -> str:
    """Return a hint if the missing names are those that LightGBM gives to array columns, or "" otherwise."""
    numbered = all(re.fullmatch(r"Column_\d+", name) for name in missing)
    return " (it was trained on an array: train it on named columns, or score an array)" if numbered else ""


def quoted(names: Sequence[str], most: int = 5) -> str:
    """Return the first few names, quoted and joined."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")
