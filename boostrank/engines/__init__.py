"""Engine registry: the engines behind one contract, each imported only when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from boostrank.core.errors import MissingDependency, ParameterError, did_you_mean
from boostrank.core.process import with_docstrings

if TYPE_CHECKING:
    from boostrank.engines.base import Backend


@dataclass(frozen=True)
class Engine:
    """What is known of an engine before it is imported.

    Args:
        module: whose `BACKEND` it is.
        install: what to type where it is missing.
        native_objectives: its own ranking objectives, as they are spelt behind "name:".
        default_objective: what is trained when nothing is said; None: what every engine trains.
        routes: of the data: "memory", floats in memory; "bins", streamed into bins; "again", bins from the cache of a
            run before; "external", bins on disk.
    """

    module: str
    install: str = ""
    native_objectives: tuple[str, ...] = ()
    default_objective: str | None = None
    routes: tuple[str, ...] = ("memory",)


DEFAULT_BACKEND = "lightgbm"

ENGINES = {
    "lightgbm": Engine(
        "boostrank.engines.lightgbm.adapter",
        "pip install lightgbm",
        ("lambdarank", "rank_xendcg"),
        routes=("memory", "bins", "again"),
    ),
    "xgboost": Engine(
        "boostrank.engines.xgboost.adapter",
        "pip install xgboost, or the much smaller xgboost-cpu",
        ("rank:ndcg", "rank:map", "rank:pairwise"),
        routes=("memory", "bins", "external"),  # it has no bins that could be loaded again
    ),
    # SmoothRank as published
    "linear": Engine("boostrank.engines.linear.adapter", default_objective="smooth-ndcg"),
}
"""Name -> engine: an entry here, and one in `boostrank.engines.formats.FORMATS`, is all that makes an engine known."""


def get_backend(name: str) -> Backend:
    """The engine of that name.

    Raises:
        ParameterError: unknown.
        MissingDependency: not installed; the message says what to type.
    """
    word = str(name).lower()
    if word not in ENGINES:
        raise ParameterError(f"unknown backend {name!r}.{did_you_mean(word, tuple(ENGINES))}")
    engine = ENGINES[word]
    try:
        with with_docstrings(f"backend {word!r}"):
            module = import_module(engine.module)
    except ModuleNotFoundError as error:
        if error.name != word:
            raise
        raise MissingDependency(f"backend {word!r} is not installed: {engine.install}") from error
    except OSError as error:  # LightGBM's Linux wheel uses the system's OpenMP library, which a bare machine lacks
        raise MissingDependency(
            f"backend {word!r} cannot be loaded: {error}; if memory is limited (ulimit -v), allow more; if OpenMP is "
            "missing: apt-get install libgomp1 (Debian, Ubuntu), brew install libomp (macOS)"
        ) from error
    backend: Backend = module.BACKEND
    return backend
