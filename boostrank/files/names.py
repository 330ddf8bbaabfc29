"""Names of features, of documents and of queries in files.

A file with feature names has one name per line, in feature order, or lines such as `1 name`, `1:
name` or `1,name` with feature numbers. It can also be an XGBoost feature map (`0 name q`) or JSON:
a list of names or a feature store export. In libsvm text, comments before the first row may name
features, one per line, as in `# f1: name`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.files import path_of, read_text

_PAIR = re.compile(r"[fF]?(\d+)(?:\s*[:=,]\s*|\s+)(\S.*)")
# First lines of tables of names and of CatBoost's column descriptions.
_HEADER = re.compile(
    r"""(".*|,.*|#\s.*|(feature_?)?names?|features?|(index|id|feature\w*),.*|0(?=\r?\n\D)"""
    r"""|\d+\t(Label|GroupId|Num|Categ)\b.*)\r?$""",
    re.IGNORECASE | re.MULTILINE,
)
_FEATURE_MAP = re.compile(r"\d+\s+(\S.*?)\s+(q|i|int|float|c)")
_COMMENT = re.compile(rb"#\s*[fF](\d+)\s*[:=]\s*(\S.*)")
# Comments of LETOR; in other files, the first word is the name.
_DOCID = re.compile(rb"docid\s*=\s*(\S+)")
_QUERY = re.compile(rb"^#[ \t]*qid:(\S+?):(?!\S*:[ \t])[ \t]*(\S[^\r\n]*?)[ \t\r]*$", re.MULTILINE)
_LARGEST = 2**31

Names = Mapping[int, str] | tuple[str, ...]
"""A mapping from feature numbers to names, or the names of all features in order."""


def numbered_names(source: Any) -> Names:
    """Return feature names, which are passed as `Names` or a sequence, or read from a file."""
    path = path_of(source)
    if path is not None:
        return names_in(read_text(path), path)
    is_numbered = isinstance(source, Mapping)
    try:
        pairs = source.items() if is_numbered else enumerate(source)
        names = {int(number): str(name) for number, name in pairs}
    except (TypeError, ValueError):
        names = {}
    values = tuple(names.values())
    if not values or not all(map(str.strip, values)) or len(set(values)) < len(values):
        raise ParameterError(
            "feature_names must be a list of names, or a mapping from feature numbers to names,"
            " which must be distinct and not blank"
        )
    return names if is_numbered else values


def names_in(text: str, path: str, *, skip_blank: bool = False) -> Names:
    """Return the feature names in the text of a file, whose blank lines may be skipped."""
    if text.lstrip().startswith(("[", "{")):
        features = enumerate(map(name_of, features_in_json(text, path)))
        return tuple(_checked([(0, i, name) for i, name in features], path).values())
    by_number = dict(enumerate(map(str.strip, text.rstrip().split("\n")), 1))
    if skip_blank and text.strip():
        by_number = {i: line for i, line in by_number.items() if line}
    lines = list(by_number.values())
    if _HEADER.match("\n".join(lines)):
        raise FileFormatError(
            f"{lines[0]!r} is not a feature name; write one name per line, without a header and"
            " quotes",
            file=path,
            line=next(iter(by_number)),
        )
    # The type ends every line of a feature map, or it is part of a name.
    pairs = [match for match in map(_PAIR.fullmatch, lines) if match]
    mapped = [match[1] for match in map(_FEATURE_MAP.fullmatch, lines) if match]
    if len(pairs) == len(lines):
        names = mapped if len(mapped) == len(lines) else [match[2] for match in pairs]
        numbers = [int(match[1][:18]) for match in pairs]
        return _checked(zip(by_number, numbers, names, strict=True), path)
    for number, line in by_number.items():
        if re.match(r"\d+\s*[:,\t]\s*\S", line):
            raise FileFormatError(
                "some lines have the form `number: name`, but others do not; use one form for all"
                " lines",
                file=path,
                line=number,
            )
    return tuple(_checked([(i, i, line) for i, line in by_number.items()], path).values())


def features_in_json(text: str, path: str) -> tuple[Any, ...]:
    """Return the list of features in JSON data, which are names, objects with a `name` or feature
    extractors."""
    keys = "features", "managedList", "featureset", "_source"
    keys += "inference_config", "learning_to_rank", "feature_extractors"
    try:
        features: Any = json.loads(text)
        while isinstance(features, dict):
            features = next(features[key] for key in keys if key in features)
        if {type(name_of(feature)) for feature in features} != {str}:
            raise TypeError
        return tuple(features)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
        raise FileFormatError(
            "the file has no list of features; write one name per line, or JSON with a list",
            file=path,
        ) from None


def name_of(feature: Any) -> str:
    """Return the name of a feature from the list that `features_in_json` returns."""
    if isinstance(feature, str):
        return feature
    name: str = feature.get("query_extractor", {}).get("feature_name") or feature["name"]
    return name


def name_in(comment: bytes) -> str:
    """Return the name of a document from its row's comment: `docid = NAME`, or else the first word,
    or else ""."""
    match = _DOCID.search(comment)
    tokens = [match[1]] if match else comment.lstrip(b"#").split(None, 1)
    return tokens[0].decode("utf-8", "backslashreplace") if tokens else ""


def words_in(text: bytes | bytearray) -> dict[str, str]:
    """Return the query texts in comment lines such as `# qid:1: red shoe`, which RankLib and Quepid
    use."""
    return {
        qid.decode("utf-8", "backslashreplace"): query_text.decode("utf-8", "backslashreplace")
        for qid, query_text in _QUERY.findall(text)
    }


def names_in_head(head: bytes, file: str) -> dict[int, str]:
    """Return the feature names by number from comments before the first row, such as `# f1:
    name`."""
    features = []
    for line, text in enumerate(head.split(b"\n"), 1):
        text = text.strip()
        if text and not text.startswith(b"#"):
            break
        match = _COMMENT.fullmatch(text)
        if match:
            name = match[2].decode("utf-8", "backslashreplace")
            features.append((line, int(match[1][:18]), name))
    return _checked(features, file)


def same_names(previous_names: dict[int, str], names: dict[int, str], file: str) -> dict[int, str]:
    """Return the `names` in a file, or the previous files' names. Names that differ are
    refused."""
    if previous_names and names and previous_names != names:
        number = min(
            n for n in previous_names.keys() | names.keys() if previous_names.get(n) != names.get(n)
        )
        raise FileFormatError(
            f"feature {number} is called {names.get(number)!r}, but"
            f" {previous_names.get(number)!r} in a previous file",
            file=file,
        )
    return names or previous_names


def _checked(features: Iterable[tuple[int, int, str]], file: str) -> dict[int, str]:
    """Check the line, number and name of each feature, and return the names by number."""
    names: dict[int, str] = {}
    line_of_name: dict[str, int] = {}
    for line, number, text in features:
        name = text.strip()
        reason = ""
        if not name:
            reason = "the line is blank"
        elif name in line_of_name:
            reason = f"{name!r} is also on line {line_of_name[name]}"
        elif number in names or number >= _LARGEST:
            reason = f"feature {number} has a name"
        if reason:
            message = f"{reason}; names must be distinct, one per feature"
            raise FileFormatError(message, file=file, line=line)
        names[number], line_of_name[name] = name, line
    return names
