"""Environment of the engines, set before they are loaded."""

from __future__ import annotations

import os

from boostrank.core.machine import openmp_environment


def prepare_engines() -> None:
    """Set OpenMP's environment, which it reads once, when the first engine is imported. What the user set stays.

    Only the command line does this: the environment of a process that imports boostrank is its own.
    """
    os.environ.update(openmp_environment())
