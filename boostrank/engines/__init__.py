"""Registry of engines and their model formats; each is imported on first use."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from boostrank.core.errors import MissingDependency, ModelError, ParameterError, UnknownParameter, did_you_mean
from boostrank.core.files import foreign_kind

if TYPE_CHECKING:
    from boostrank.engines.base import Backend, Booster
    from boostrank.engines.trees import ModelFormat


@dataclass(frozen=True)
class Engine:
    """Facts about an engine that are known without importing it.

    Args:
        module: module that defines its `BACKEND`.
        format: "module:name" of its `ModelFormat`, which needs no engine.
        install: command that installs it.
        native_objectives: names of its own ranking objectives, as in "name:objective".
        default_objective: objective trained by default; None: the default of all engines.
        routes: supported data routes: "memory", floats in memory; "bins", streamed into bins; "again", bins from the
            cache of an earlier run; "external", bins on disk.
    """

    module: str
    format: str
    install: str = ""
    native_objectives: tuple[str, ...] = ()
    default_objective: str | None = None
    routes: tuple[str, ...] = ("memory",)


_ON_WORKERS = ("xgboost", "lightgbm")

ENGINES = {
    "lightgbm": Engine(
        "boostrank.engines.lightgbm.adapter",
        "boostrank.engines.lightgbm.format:LIGHTGBM",
        "pip install lightgbm",
        ("lambdarank", "rank_xendcg"),
        routes=("memory", "bins", "again"),
    ),
    "xgboost": Engine(
        "boostrank.engines.xgboost.adapter",
        "boostrank.engines.xgboost.format:XGBOOST",
        "pip install xgboost, or the much smaller xgboost-cpu",
        ("rank:ndcg", "rank:map", "rank:pairwise"),
        routes=("memory", "bins", "external"),  # XGBoost cannot load bins again
    ),
    # SmoothRank as published
    "linear": Engine(
        "boostrank.engines.linear.adapter",
        "boostrank.engines.linear.format:LINEAR",
        default_objective="smooth-ndcg",
    ),
}
"""Name -> engine; an entry here registers an engine."""


def of_engine(objective: str) -> bool:
    """Return True for an engine's own objective, "lightgbm:lambdarank"."""
    engine = ENGINES.get(objective.partition(":")[0])
    return ":" in objective and engine is not None and bool(engine.native_objectives)


def workers_of(engine: str) -> Any:
    """Return the module by which several workers train with this engine."""
    if engine not in _ON_WORKERS:
        raise ParameterError(f"backend={engine!r}: workers of a cluster train {' or '.join(_ON_WORKERS)}")
    return import_module(f"boostrank.engines.{engine}.workers")


def get_backend(name: str) -> Backend:
    """Return the engine with this name.

    Raises:
        ParameterError: the name is unknown.
        MissingDependency: the engine is not installed; the message names the command to install it.
    """
    word = str(name).lower()
    if word not in ENGINES:
        raise ParameterError(f"unknown backend {name!r}.{did_you_mean(word, tuple(ENGINES))}")
    engine = ENGINES[word]
    try:
        module = import_module(engine.module)
    except ModuleNotFoundError as error:
        if error.name != word:
            raise
        raise MissingDependency(f"backend {word!r} is not installed: {engine.install}") from error
    except OSError as error:  # LightGBM's Linux wheel needs the system's OpenMP library, which may be missing
        raise MissingDependency(
            f"backend {word!r} cannot be loaded: {error}; if memory is limited (ulimit -v), allow more; if OpenMP is "
            "missing: apt-get install libgomp1 (Debian, Ubuntu), brew install libomp (macOS)"
        ) from error
    backend: Backend = module.BACKEND
    return backend


def engines_with(parameter: str) -> list[str]:
    """Return the names of the engines that have a parameter of this name."""
    found = []
    for name in ENGINES:
        try:
            get_backend(name).params.check({parameter: "1"})
        except (UnknownParameter, MissingDependency):
            continue
        except ParameterError:  # the value, which is another question
            pass
        found.append(name)
    return found


def formats() -> list[ModelFormat]:
    """Return the model format of every engine, without importing the engines."""
    places = (engine.format.split(":") for engine in ENGINES.values())
    return [getattr(import_module(module), name) for module, name in places]


def format_of(body: bytes) -> ModelFormat:
    """Return the format of a model file, judged by its first bytes."""
    known = formats()
    for one in reversed(known):
        if one.recognises(body):
            return one
    kind = foreign_kind(body[:1000])
    first, *others = (one.title for one in known)
    what = "the file is empty" if not body else f"it is {kind}" if kind else ""
    raise ModelError(f"neither {first} nor {' nor '.join(others)}" + (f": {what}" if what else ""))


def parse_model(body: bytes) -> Any:
    """Parse and check a model file."""
    return format_of(body).parse(body)


def booster_of(native: Any) -> Booster | None:
    """Return the `Booster` of a `lightgbm.Booster` or `xgboost.Booster`; None for other types."""
    name = type(native).__module__.partition(".")[0]
    engine = get_backend(name) if name in ENGINES else None
    if engine is None or engine.booster_type is None or not isinstance(native, engine.booster_type):
        return None
    return engine.booster(native)
