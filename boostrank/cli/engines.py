"""What the engines must be told before they are loaded."""

from __future__ import annotations

import os


def prepare_engines() -> None:
    """Set OpenMP's environment, which it reads once, when the first engine is imported. What the user set stays.

    A thread of XGBoost's that waits for the others spins. Beside one busy process on two cores that makes a round
    6 to 7 times slower, and our own kernels run on the same cores in between. Passive waiting costs a factor of 1.2 to
    1.8 in XGBoost's part on a quiet machine, and is the same under load.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if hasattr(os, "sched_getaffinity"):
        # OpenMP counts the cores of the machine in some builds; the mask is what a container or `taskset` allows.
        os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
