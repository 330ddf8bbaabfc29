"""LightGBM's dart with a gradient of ours: the same trees in every process."""

from __future__ import annotations

import os
import subprocess
import sys

TRAINING = """
import warnings, boostrank
from boostrank.data.synthetic import make_ranking_data

warnings.simplefilter("ignore")
params = {"objective": "regression", "boosting": "dart", "drop_rate": 0.5, "num_threads": 1, "verbosity": -1}
model = boostrank.train(params, make_ranking_data(30, seed=3).dataset, 8, start="none")
print(model.booster.model_to_string())
"""


def test_trees_do_not_depend_on_memory_that_lightgbm_leaves_unset() -> None:
    # glibc fills what is allocated by the variable; elsewhere both are alike anyway.
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINING],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"MALLOC_PERTURB_": byte},
        )
        for byte in ("0", "165")
    ]
    filled_with_zeros, filled_with_bits = [process.communicate()[0] for process in processes]
    assert filled_with_zeros == filled_with_bits
    assert filled_with_zeros.count("Tree=") == 8
