"""Current round of the engine that calls an objective, read from its stack frame.

Tested with LightGBM 4.3 to 4.7 and XGBoost 3.1 to 3.4 in `tests/engines/test_private.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


def round_of_caller() -> int | None:
    """Return the engine's current round, including rounds of a continued model.

    No engine passes it: LightGBM passes scores and data only, and `xgb.train` restarts at 0 on continuation. The
    calling
    booster knows it, and is the `self` of an `update` a few frames up.
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
    """Return True if called from `lgb.cv`."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "cv" and frame.f_globals.get("__name__") == "lightgbm.engine":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
