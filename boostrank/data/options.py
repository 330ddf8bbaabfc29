"""Reader options as the readers take them, and the features of a training set."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from boostrank.data.names import numbered_names
from boostrank.options import Option, ReadOptions, declared
from boostrank.options import parse_label_map as parse_label_map
from boostrank.options import typed_names as typed_names

F = TypeVar("F", bound=Callable[..., Any])
Progress = Callable[[int, int | None], None] | None
"""Called with the bytes read and their total, None when that is not known."""

NUMBERED = re.compile(r"f\d+")
"""Names of features that nobody has named."""
_WIDTH = 116


@dataclass(frozen=True, kw_only=True)
class ReaderOptions(ReadOptions):
    """The options of reading, with the names of features read from their file.

    Raises:
        ParameterError: a value that is not allowed.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", numbered_names(self.feature_names))


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
        ignored: names of features that files may have besides: those of other models.
    """

    index_base: int | None
    n_features: int
    feature_names: tuple[str, ...] = ()
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    categories: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    ignored: frozenset[str] = frozenset()


def _reading(*, like: Any = None, threads: int | None = None, progress: Progress = None) -> None:
    """Keywords of a reading beside the options."""


_READING = {
    "like": (
        "The training data (or its `FeatureSpace`): width, names and counting of the features come from it. Features "
        "that it does not have are ignored with a warning; fewer are padded with zeros."
    ),
    "threads": "Threads that read; None for every available core. The result does not depend on it.",
    "progress": "Called with the bytes read and their total, None when that is not known.",
}


def takes_reader_options(function: F) -> F:
    """Decorator: `**options` are those of `ReaderOptions`, `like`, `threads` and `progress`.

    They are put into the signature, and into the docstring at `{options}`.
    """
    signature = inspect.signature(function)
    helps = _READING | {name: _sentence(one) for name, one in declared(ReaderOptions).items()}
    given = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [*inspect.signature(_reading).parameters.values(), *inspect.signature(ReaderOptions).parameters.values()]
    more = [one for one in options if one.name not in signature.parameters]
    function.__signature__ = signature.replace(parameters=[*given, *more])  # type: ignore[attr-defined]
    if function.__doc__:
        margin = next(line for line in function.__doc__.splitlines() if "{options}" in line).partition("{")[0]
        wrapper = textwrap.TextWrapper(
            _WIDTH,
            initial_indent=margin,
            subsequent_indent=margin + "    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines = [wrapper.fill(f"{one.name}: {helps[one.name]}") for one in options]
        function.__doc__ = function.__doc__.replace(margin + "{options}", "\n".join(lines))
    return function


def _sentence(one: Option) -> str:
    words = " | ".join(f'"{choice}"' for choice in one.choices)
    return f"{words}. {one.help}" if words else one.help
