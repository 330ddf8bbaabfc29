"""Data frames: pandas, imported when one is asked for."""

from __future__ import annotations

from typing import Any

from boostrank.core.errors import MissingDependency


def pandas() -> Any:
    """The module.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import pandas as module
    except ImportError as error:
        raise MissingDependency("data frames need pandas: pip install 'boostrank[report]'") from error
    return module
