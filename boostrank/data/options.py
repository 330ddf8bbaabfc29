"""Reader options: declared once, for the readers' signatures and documentation, the command line, caches and workers.

Nothing heavy is imported: `boostrank COMMAND --help` is made from these declarations.
"""

from __future__ import annotations

import csv
import dataclasses
import inspect
import io
import math
import numbers
import re
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from boostrank.core.errors import ParameterError
from boostrank.data.names import numbered_names

F = TypeVar("F", bound=Callable[..., Any])
Progress = Callable[[int, int | None], None] | None
"""Called with the bytes read and their total, None when that is not known."""

LARGEST_MAX_FEATURE = 2**31 - 2
NUMBERED = re.compile(r"f\d+")
"""Names of features that nobody has named."""
_WIDTH = 116


@dataclass(frozen=True)
class Declared:
    """Declaration of a reader option, beside its name, type and default.

    Args:
        help: a sentence.
        choices: the allowed words.
        low, high: closed bounds of a number.
        metavar: what stands for the value in the command's help; None: not an option of the commands.
    """

    help: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    metavar: str | None = ""

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that is not allowed.

        Raises:
            ParameterError: it is none of the choices, or out of range.
        """
        if self.choices and value not in self.choices:
            raise ParameterError(f"{name}={value!r} is not one of {', '.join(self.choices)}")
        if self.low is not None and value is not None:
            high = math.inf if self.high is None else self.high
            if not isinstance(value, numbers.Real):
                raise ParameterError(f"{name}={value!r} is not a number")
            if not self.low <= float(value) <= high:
                allowed = f"at least {self.low}" if high == math.inf else f"{self.low} to {high}"
                raise ParameterError(f"{name}={value!r} is out of range; allowed: {allowed}")


def _declare(default: Any, help: str, **declared: Any) -> Any:
    return dataclasses.field(default=default, metadata={"declared": Declared(help, **declared)})


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """Options that change what is read, checked; every field is a keyword of the readers.

    Raises:
        ParameterError: a value that is not allowed.
    """

    missing_tokens: str | Sequence[str] = _declare(
        (), "Words that stand for a missing value (NaN), exactly as they are in the file: NULL, NA.", metavar="WORD"
    )
    zero_based: bool | str | None = _declare(
        "auto", "Whether the first feature has number 0; auto: if number 0 occurs, or as in the training data.",
        choices=("auto", "true", "false"),
    )  # fmt: skip
    inf: str = _declare(
        "stop", "Infinite values: refuse, keep, or read as missing.", choices=("stop", "keep", "missing")
    )
    on_bad_line: str = _declare(
        "stop", "Stop at the first row that cannot be read, or skip such rows and count them.", choices=("stop", "skip")
    )
    max_bad_share: float = _declare(
        0.001, "Refuse the data when more than this share of the rows would be skipped.", low=0, high=1, metavar="X"
    )
    regroup: bool = _declare(False, "Bring the scattered rows of a query together, stably.")
    label_map: Mapping[float, float] | str | None = _declare(
        None, "Replace labels, others stay: -1=0,2=1.", metavar="OLD=NEW,..."
    )
    strict: bool = _declare(False, "Refuse what is otherwise warned of.")
    max_feature: int = _declare(
        2**24, "Largest feature number that is believed.", low=1, high=LARGEST_MAX_FEATURE, metavar="N"
    )
    max_bytes: int | None = _declare(
        None, "Refuse more text than this, counted as it is unpacked, all files together.", low=1, metavar="N"
    )
    n_features: int | None = _declare(
        None, "Width of the data; larger numbers are refused. None: the largest number in the files decides.",
        metavar=None,
    )  # fmt: skip
    layout: str = _declare(
        "auto", "auto: dense when at least half of the cells are present. The numbers are the same.",
        choices=("auto", "dense", "csr"), metavar=None,
    )  # fmt: skip
    label: str | None = _declare(
        None, "Column of the labels in CSV, TSV, Parquet and Arrow files: label or relevance, where the name says it.",
        metavar="COLUMN",
    )  # fmt: skip
    qid: str | None = _declare(
        None, "Column of the query ids there: qid or query_id, where the name says it.", metavar="COLUMN"
    )
    weight: str | None = _declare(
        None,
        "Column of the weights of queries there, one number for all rows of a query; where they differ, of documents.",
        metavar="COLUMN",
    )
    drop: str | Sequence[str] | None = _declare(
        None,
        "Columns there that are no features: doc_id,url; a name with commas in double quotes.",
        metavar="COLUMN,...",
    )
    categorical: str | Sequence[str] | None = _declare(
        None, "Columns there that hold categories, as text; those that a Parquet or Arrow file declares are known.",
        metavar="COLUMN,...",
    )  # fmt: skip
    gain: str | None = _declare(
        None, "Expression over columns, 0.7*label + 0.3*log1p(margin), whose values take the place of the labels; "
        "columns of a table that are no features (`drop`) among them.", metavar=None,
    )  # fmt: skip
    feature_names: str | Sequence[str] | Mapping[int, str] | None = _declare(
        None, "File with the names of the features of libsvm text: a name a line, or lines `1: name`.", metavar="FILE"
    )
    keep_comments: bool = _declare(False, "Keep what stands behind `#`, without the blanks around it.", metavar=None)

    def __post_init__(self) -> None:
        word = {None: "auto", False: "false", True: "true"}
        if not isinstance(self.zero_based, str):
            object.__setattr__(self, "zero_based", word[None if self.zero_based is None else bool(self.zero_based)])
        for name, declared in DECLARED.items():
            declared.check(name, getattr(self, name))
        for name in ("max_feature", "max_bytes", "n_features"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, numbers.Real):
                raise ParameterError(f"{name}={value!r} is not a number")
            if isinstance(value, bool) or not float(value).is_integer():
                raise ParameterError(f"{name}={value!r} is no whole number")
            object.__setattr__(self, name, int(value if isinstance(value, numbers.Integral) else float(value)))
        if self.n_features is not None and not 1 <= self.n_features <= self.max_feature + 1:
            raise ParameterError(f"n_features={self.n_features!r} is out of range; allowed: 1 to max_feature + 1")
        tokens = (self.missing_tokens,) if isinstance(self.missing_tokens, str) else tuple(self.missing_tokens)
        for token in tokens:
            if not token or any(c.isspace() or c in "#:" or not c.isprintable() for c in token):
                raise ParameterError(f"missing token {token!r} must be a word without blanks, ':' and '#'")
        object.__setattr__(self, "missing_tokens", tokens)
        for name in ("drop", "categorical"):
            given = getattr(self, name)
            try:
                words = listed_names(given) if isinstance(given, str) else given or ()
            except ValueError as error:
                raise ParameterError(f"{name}={error}") from None
            object.__setattr__(self, name, tuple(map(str, words)) or None)
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", numbered_names(self.feature_names))
        object.__setattr__(self, "label_map", parse_label_map(self.label_map))
        if self.gain is not None:
            from boostrank.core.gains import expression_of

            expression = expression_of(self.gain)
            if expression is None:
                raise ParameterError(f"gain={self.gain!r} is no expression over columns: train and metrics take it")
            object.__setattr__(self, "gain", expression.text)

    @property
    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        default = ReaderOptions()
        return {name: value for name in DECLARED if (value := getattr(self, name)) != getattr(default, name)}


DECLARED: dict[str, Declared] = {one.name: one.metadata["declared"] for one in dataclasses.fields(ReaderOptions)}
"""Name -> declaration, in the order in which help lists them."""


@dataclass(frozen=True)
class FeatureSpace:
    """The features of a training set, which later files are read into.

    Args:
        index_base: number of the first feature in the training file, 0 or 1; None (it was an array): 1, unless
            `zero_based` is given.
        n_features: columns.
        feature_names: their names; empty for `f1`, `f2`, ...
        columns: `label`, `qid`, `weight` and `drop` of the training file, if it was a table: what later ones take where
            nothing else is said.
        categories: feature -> `boostrank.data.categories.Categories` of those that hold codes of categories.
    """

    index_base: int | None
    n_features: int
    feature_names: tuple[str, ...] = ()
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    categories: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)


def _reading(*, like: Any = None, threads: int | None = None, progress: Progress = None) -> None:
    """Keywords of a reading beside the options."""


_READING = {
    "like": Declared(
        "The training data (or its `FeatureSpace`): width, names and counting of the features come from it. Features "
        "that it does not have are ignored with a warning; fewer are padded with zeros."
    ),
    "threads": Declared("Threads that read; None for every available core. The result does not depend on it."),
    "progress": Declared("Called with the bytes read and their total, None when that is not known."),
}


def takes_reader_options(function: F) -> F:
    """Decorator: `**options` are those of `ReaderOptions`, `like`, `threads` and `progress`.

    They are put into the signature, and into the docstring at `{options}`.
    """
    signature, declared = inspect.signature(function), _READING | DECLARED
    given = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [*inspect.signature(_reading).parameters.values(), *inspect.signature(ReaderOptions).parameters.values()]
    more = [one for one in options if one.name not in signature.parameters]
    function.__signature__ = signature.replace(parameters=[*given, *more])  # type: ignore[attr-defined]
    if function.__doc__:
        margin = next(line for line in function.__doc__.splitlines() if "{options}" in line).partition("{")[0]
        lines = [
            textwrap.fill(f"{one.name}: {_sentence(declared[one.name])}", _WIDTH, initial_indent=margin,
                          subsequent_indent=margin + "    ", break_long_words=False, break_on_hyphens=False)
            for one in options
        ]  # fmt: skip
        function.__doc__ = function.__doc__.replace(margin + "{options}", "\n".join(lines))
    return function


def _sentence(declared: Declared) -> str:
    words = " | ".join(f'"{choice}"' for choice in declared.choices)
    return f"{words}. {declared.help}" if words else declared.help


def listed_names(text: str) -> tuple[str, ...]:
    """Names between commas, as in a line of CSV: `url,"price, EUR"`.

    Raises:
        ValueError: quotes that do not close, or a name that is empty.
    """
    try:
        names = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"{text!r}: {error}; names with commas stand in double quotes") from None
    if not names or not all(names):
        raise ValueError(f"{text!r} has an empty name; names with commas stand in double quotes")
    return tuple(names)


def typed_names(*names: str) -> str:
    """What a shell takes for the text that `listed_names` makes the names of."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return shlex.quote(line.getvalue())


def parse_label_map(label_map: Mapping[float, float] | str | None) -> dict[float, float]:
    """Old label -> new label, from a mapping or from text such as "-1=0,2=1".

    Raises:
        ParameterError: not of that form, or not finite numbers.
    """
    if label_map is None:
        return {}
    try:
        if isinstance(label_map, str):
            pairs = [(float(old), float(new)) for old, new in (part.split("=") for part in label_map.split(","))]
        else:
            pairs = [(float(old), float(new)) for old, new in label_map.items()]
    except (TypeError, ValueError, AttributeError):
        raise ParameterError(f"label_map={label_map!r}: give old=new pairs, e.g. --label-map=-1=0,2=1") from None
    if not all(math.isfinite(number) for pair in pairs for number in pair) or len(dict(pairs)) < len(pairs):
        raise ParameterError(f"label_map={label_map!r}: labels must be finite numbers, each mapped once")
    return dict(pairs)
