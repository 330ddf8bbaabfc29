"""Reader options, and the features of a training set."""

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
"""Called with the bytes read and their total, None if unknown."""

NUMBERED = re.compile(r"f\d+")
"""Pattern of generated feature names."""
_WIDTH = 116


@dataclass(frozen=True, kw_only=True)
class ReaderOptions(ReadOptions):
    """Validated reader options, with feature names read from their file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", numbered_names(self.feature_names))


@dataclass(frozen=True)
class FeatureSpace:
    """Features of a training set, for reading later files.

    Args:
        index_base: number of the first feature in the training file, 0 or 1; None (arrays) means 1, unless `zero_based`
            is given.
        n_features: number of features.
        feature_names: their names; empty for `f1`, `f2`, ...
        columns: `label`, `qid`, `weight`, `id` and `drop` of a training table, the defaults of later tables.
        categories: categorical feature -> `boostrank.data.categories.Categories`.
        ignored: further features allowed in files, from other models.
    """

    index_base: int | None
    n_features: int
    feature_names: tuple[str, ...] = ()
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    categories: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    ignored: frozenset[str] = frozenset()


def _reading(*, like: Any = None, threads: int | None = None, progress: Progress = None) -> None:
    """Declare the keywords of a reader in addition to its options."""


_READING = {
    "like": (
        "The training data (or its `FeatureSpace`), which defines number, names and numbering of the features. Other "
        "features are ignored with a warning; absent ones are zero."
    ),
    "threads": "Reader threads; None means every available core. The result does not depend on it.",
    "progress": "Called with the bytes read and their total, None if unknown.",
}


def takes_reader_options(function: F) -> F:
    """Decorator: `**options` are the fields of `ReaderOptions`, `like`, `threads` and `progress`.

    They are added to the signature, and to the docstring at `{options}`.
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
