"""Tables of coefficients that kernels compute with. `qa.kernel_tables` fits and writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix(".npz")

with np.load(FILE) as _archive:
    TABLES = dict(_archive)
"""The tables by name."""
