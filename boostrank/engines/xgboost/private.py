"""Private and undocumented parts of XGBoost that this package uses, tested with XGBoost 3.1 to 3.4.

`objective.description` reads one more: the stack of `xgb.train`. `tests/engines/test_private.py` checks each part and
says what breaks without it. Model files are described in `engines.xgboost.format`.
"""

from __future__ import annotations

from typing import Any


def reseed(booster: Any, tree_method: str, seed: int) -> None:
    """Seed the sampling of rows and features from now on.

    XGBoost seeds the feature sampler when it creates the tree method, so this leaves the method and selects it again.
    """
    booster.set_param({"tree_method": "hist" if tree_method == "approx" else "approx"})
    booster.save_config()  # XGBoost applies parameters when its configuration is read
    booster.set_param({"tree_method": tree_method, "seed": seed})


def is_of_connection(error: Exception) -> bool:
    """Return True if an `XGBoostError` comes from the workers' connection; its stack trace names the source file."""
    return "/collective/" in str(error)


def last_line(error: Exception) -> str:
    """Return the last line before the stack trace, which holds the system's error."""
    lines = [line.strip(" -|") for line in str(error).partition("Stack trace")[0].splitlines() if line.strip(" -|")]
    return lines[-1] if lines else type(error).__name__
