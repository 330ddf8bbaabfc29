"""The engines behind one contract. Each engine is imported by one module, and only when it is asked for."""

from __future__ import annotations

from importlib import import_module

from boostrank.backends.base import Backend
from boostrank.core.errors import MissingDependency, ParameterError, did_you_mean

_MODULES = {
    "lightgbm": "boostrank.backends.lightgbm.backend",
    "xgboost": "boostrank.backends.xgboost.backend",
    "linear": "boostrank.backends.linear.backend",
}
_INSTALL = {"lightgbm": "pip install lightgbm", "xgboost": "pip install xgboost, or the much smaller xgboost-cpu"}

BACKENDS = tuple(_MODULES)


def get_backend(name: str) -> Backend:
    """The engine of that name.

    Raises:
        ParameterError: unknown.
        MissingDependency: not installed; the message says what to type.
    """
    word = name.lower()
    if word not in _MODULES:
        raise ParameterError(f"unknown backend {name!r}.{did_you_mean(name, BACKENDS)}")
    try:
        module = import_module(_MODULES[word])
    except ModuleNotFoundError as error:
        if error.name != word:
            raise
        raise MissingDependency(f"backend {word!r} is not installed: {_INSTALL[word]}") from error
    except OSError as error:  # LightGBM's Linux wheel uses the system's OpenMP library, which a bare machine lacks
        raise MissingDependency(
            f"backend {word!r} cannot be loaded: {error}; if OpenMP is missing: apt-get install libgomp1 (Debian, "
            "Ubuntu), brew install libomp (macOS)"
        ) from error
    backend: Backend = module.BACKEND
    return backend
