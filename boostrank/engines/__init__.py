"""The registry of engines and their model formats, each of which is imported on first use."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from boostrank.core.errors import (
    MissingDependency,
    ModelError,
    ParameterError,
    UnknownParameter,
    did_you_mean,
)
from boostrank.core.files import LOGGED, foreign_kind
from boostrank.records import from_json

if TYPE_CHECKING:
    from boostrank.engines.base import Backend, Booster
    from boostrank.engines.trees import ModelFormat


@dataclass(frozen=True)
class Engine:
    """The properties of an engine that are available without importing it.

    Args:
        module: module that defines its `BACKEND`.
        format: "module:name" of its `ModelFormat`, which can be imported without the engine.
        install: command that installs the engine.
        native_objectives: names of the engine's own ranking objectives.
        default_objective: objective that is used by default; None for the default of all engines.
        routes: supported data routes: "memory" holds the features as floats, "bins" streams them
            into bins, and "external" keeps bins on disk.
    """

    module: str
    format: str
    install: str = ""
    native_objectives: tuple[str, ...] = ()
    default_objective: str | None = None
    routes: tuple[str, ...] = ("memory",)


ENGINES = {
    "lightgbm": Engine(
        "boostrank.engines.lightgbm.adapter",
        "boostrank.engines.lightgbm.format:LIGHTGBM",
        "pip install lightgbm",
        ("lambdarank", "rank_xendcg"),
        routes=("memory", "bins"),
    ),
    "xgboost": Engine(
        "boostrank.engines.xgboost.adapter",
        "boostrank.engines.xgboost.format:XGBOOST",
        "pip install xgboost, or the much smaller xgboost-cpu",
        ("rank:ndcg", "rank:map", "rank:pairwise"),
        routes=("memory", "bins", "external"),
    ),
    # SmoothRank as published
    "linear": Engine(
        "boostrank.engines.linear.adapter",
        "boostrank.engines.linear.format:LINEAR",
        default_objective="smooth-ndcg",
    ),
}
"""The registered engines by name."""

_SERVED = "boostrank.engines.served.adapter"


def of_engine(objective: str) -> tuple[str, str] | None:
    """Return the engine and the name of an objective of its own, or None for boostrank's.

    The name may contain the engine: "xgboost:rank:ndcg". Without it, lambdarank is boostrank's.
    """
    name, _, own_name = objective.partition(":")
    if own_name and name in ENGINES and ENGINES[name].native_objectives:
        return name, own_name
    for name, engine in ENGINES.items():
        if objective in engine.native_objectives and objective != "lambdarank":
            return name, objective
    return None


def workers_of(engine: str) -> Any:
    """Return the module that runs a training with this engine on several workers."""
    if engine not in ("xgboost", "lightgbm"):
        raise ParameterError(
            f"backend={engine!r} cannot train on several workers: use xgboost or lightgbm"
        )
    get_backend(engine)
    return import_module(f"boostrank.engines.{engine}.workers")


def get_backend(name: str) -> Backend:
    """Import an engine, or raise ParameterError (unknown name) or MissingDependency (with a command
    to install it).
    """
    lower_name = str(name).lower()
    if lower_name not in ENGINES:
        raise ParameterError(f"unknown backend {name!r}.{did_you_mean(lower_name, tuple(ENGINES))}")
    engine = ENGINES[lower_name]
    try:
        module = import_module(engine.module)
    except ModuleNotFoundError as error:
        if error.name != lower_name:
            raise
        raise MissingDependency(
            f"backend {lower_name!r} is not installed: {engine.install}"
        ) from error
    except OSError as error:
        # LightGBM's Linux wheel needs the system's OpenMP library, which may be missing.
        raise MissingDependency(
            f"backend {lower_name!r} cannot be loaded: {error}; if memory is limited (ulimit -v),"
            " allow more; if OpenMP is missing: apt-get install libgomp1 (Debian, Ubuntu), brew"
            " install libomp (macOS)"
        ) from error
    backend: Backend = module.BACKEND
    return backend


def engines_with(parameter: str) -> list[str]:
    """Return the names of the installed engines that have this parameter."""
    names = []
    for name in ENGINES:
        try:
            get_backend(name).params.check({parameter: "1"})
        except (UnknownParameter, MissingDependency):
            continue
        except ParameterError:  # the engine knows the parameter, but not the value
            pass
        names.append(name)
    return names


def formats() -> list[ModelFormat]:
    """Return the model formats of all engines, without importing the engines."""
    return [resolve_name(engine.format) for engine in ENGINES.values()]


# Other files in place of a model, which may begin as data or scores do.
_OTHERS = (
    (
        rb'\s*\{\s*"file"\s*:\s*\{\s*"schema_version"',
        "the record of a model: pass the file without .meta.json",
    ),
    (rb"boostrank checkpoint", "a checkpoint: --checkpoint FILE --resume continues its training"),
    (rb"______LightGBM_Binary", "a data set of LightGBM (save_binary)"),
    (
        rb"""(?x)\s*(//|/\*|--|"{3}|"use[ ]strict|\w+[ ]<-|
        \#(!|include|pragma|[ ]-\*-|[ ]Code[ ]generated)|
        (import|from|def|class|package|public|double|float|export|function|namespace)[ ])""",
        "program code: pass the model file that it was made from",
    ),
    (rb"\s*[\[{]", "JSON of another program"),
)


def format_of(body: bytes) -> ModelFormat:
    """Detect the format of a model file from its first bytes."""
    model_formats = formats()
    for model_format in reversed(model_formats):
        if model_format.recognises(body):
            return model_format
        if model_format.recognises(body.removeprefix(codecs.BOM_UTF8)):
            raise ModelError(
                "the file begins with a byte order mark (BOM): `tail -c +4 FILE > model.txt`"
                " removes it"
            )
    kind = _kind_of(body) if body else "empty"
    if kind in (None, LOGGED):
        kind = next(
            (description for pattern, description in _OTHERS if re.match(pattern, body[:1000])),
            None,
        )
    elif ": " not in kind and re.match(rb"\s*[\[{]", body):  # others have a remedy of their own
        try:
            from_json(body)
        except ValueError as error:
            kind = f"{kind}, but its JSON is damaged or cut: {error}"
    reason = f": it is {kind}" if kind else ""
    titles = [model_format.title for model_format in model_formats]
    raise ModelError(f"the file is not {', '.join(titles[:-1])} or {titles[-1]}{reason}")


def parse_model(body: bytes) -> Any:
    """Parse a model file in the format of its own engine or of a serving program, and check it.

    Raises:
        ModelError: nothing recognises the file, or it is damaged.
    """
    served = _read_served(body)
    return format_of(body).parse(body) if served is None else served


def load_booster(body: bytes) -> Booster:
    """Check a model file, and load it with its engine. Models of serving programs score as there.

    Raises:
        ModelError: as `parse_model`. The engine may raise errors of its own.
    """
    served = _read_served(body)
    if served is not None:
        booster: Booster = import_module(_SERVED).load(served)
        return booster
    model_format = format_of(body)
    model_format.parse(body)
    return get_backend(model_format.name).load(body)


def _read_served(body: bytes) -> Any:
    """Read a model of a serving program, or return None for other files."""
    if any(model_format.recognises(body) for model_format in formats()):
        return None
    try:
        return import_module(_SERVED).parse(body)
    except ModelError as error:
        # A dump has a remedy of its own: the model itself.
        _, _, remedy = (_kind_of(body) or "").partition(": save the model, ")
        advice = f"use {remedy}, or " if remedy else ""
        raise ModelError(
            f"{error}; {advice}to compare its ranking, pass its scores, one per row"
        ) from None


def _kind_of(body: bytes) -> str | None:
    """Return which other file this is, by its begin and its end."""
    return foreign_kind(body[:100_000] + body[-1000:])


def booster_of(native: Any) -> Booster | None:
    """Wrap a `lightgbm.Booster` or `xgboost.Booster`, or return None for any other type.

    Raises:
        ModelError: a model of this kind could not be read from its file.
    """
    exposed: Booster | None = getattr(native, "boostrank_model", None)
    if exposed is not None:
        return exposed
    name = type(native).__module__.partition(".")[0]
    if name not in ENGINES:
        return None
    engine = get_backend(name)
    if not isinstance(native, engine.booster_type):
        return None
    booster: Booster = engine.booster(native)
    try:
        first_round = booster.to_bytes(1)
    except engine.error_types:  # not all kinds have rounds
        first_round = booster.to_bytes()
    engine.format.parse(first_round)
    return booster
