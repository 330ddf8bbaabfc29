"""The engine that calls an objective: its round, read from its stack frame. Tried with LightGBM 4.3 to 4.7, XGBoost 3.1
to 3.4; `tests/engines/test_private.py` holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


def round_of_caller() -> int | None:
    """The round that the engine is in, earlier rounds of a continued model included.

    No engine hands it over: LightGBM passes scores and data alone, and `xgb.train` counts from 0 again on
    continuation. The booster that is calling knows it, and is the `self` of an `update` some frames up.
    """
    frame = sys._getframe(2)
    for _ in range(6):
        if frame is None:
            return None
        if frame.f_code.co_name == "update":
            booster = frame.f_locals.get("self")
            for attribute in ("num_boosted_rounds", "current_iteration"):
                count: Callable[[], int] | None = getattr(booster, attribute, None)
                if count is not None:
                    return int(count())
        frame = frame.f_back  # type: ignore[assignment]
    return None


def in_cross_validation() -> bool:
    """Whether `lgb.cv` is calling."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "cv" and frame.f_globals.get("__name__") == "lightgbm.engine":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
