"""Private parts of XGBoost, what it does and does not document, and the words of its errors: all that this package
uses, but for the stack of `xgb.train`, which `objective.caller` reads. Tried with XGBoost 3.1 to 3.4.

`tests/engines/test_private.py` holds each of them, and says what a version that lacks one breaks. Its model files are
described in `engines.xgboost.format`.
"""

from __future__ import annotations

from typing import Any


def reseed(booster: Any, tree_method: str, seed: int) -> None:
    """Seed the sampling of rows and features from now on.

    What samples features is seeded when it is made, with the tree method: so that is left, and taken again.
    """
    booster.set_param({"tree_method": "hist" if tree_method == "approx" else "approx"})
    booster.save_config()  # XGBoost takes parameters over when somebody looks
    booster.set_param({"tree_method": tree_method, "seed": seed})


def is_of_connection(error: Exception) -> bool:
    """Whether an `XGBoostError` comes from the workers' connection: its stack trace names the source file."""
    return "/collective/" in str(error)


def last_line(error: Exception) -> str:
    """What the system said: the last line before the stack trace."""
    lines = [line.strip(" -|") for line in str(error).partition("Stack trace")[0].splitlines() if line.strip(" -|")]
    return lines[-1] if lines else type(error).__name__
