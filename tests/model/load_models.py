"""Run as a program: let an engine load and use many models, one after the other; prints the number
of each.

    python load_models.py lightgbm models.pickle

If the engine dies, the last number printed is the model that killed it. Errors that the engine
raises are fine.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np


def use_lightgbm(body: bytes, rows: np.ndarray) -> None:
    import lightgbm as lgb

    booster = lgb.Booster(model_str=body.decode())
    table = np.resize(rows, (len(rows), booster.num_feature()))
    booster.predict(table, num_threads=1)
    booster.dump_model()
    booster.feature_importance("gain")
    booster.model_to_string()
    booster.predict(table, pred_leaf=True, num_threads=1)
    booster.predict(table, pred_contrib=True, num_threads=1)


def use_xgboost(body: bytes, rows: np.ndarray) -> None:
    import xgboost as xgb

    booster = xgb.Booster(params={"nthread": 1, "verbosity": 0})
    booster.load_model(bytearray(body))
    table = np.resize(rows, (len(rows), booster.num_features()))
    matrix = xgb.DMatrix(
        table,
        feature_names=booster.feature_names,
        feature_types=booster.feature_types,
        enable_categorical=True,
        nthread=1,
    )
    booster.predict(matrix)
    booster.get_dump(with_stats=True)
    booster.get_score(importance_type="gain")
    booster.save_raw("json")
    booster.predict(matrix, pred_leaf=True)
    booster.predict(matrix, pred_contribs=True)


if __name__ == "__main__":
    engine, path = sys.argv[1:]
    use = {"lightgbm": use_lightgbm, "xgboost": use_xgboost}[engine]
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    rows = np.where(rng.random((20, 6)) < 0.2, np.nan, rng.normal(size=(20, 6)) * 10)
    rows[:, 4:] = rng.integers(0, 60, (20, 2))
    used = 0
    for number, body in enumerate(pickle.loads(Path(path).read_bytes())):
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        try:
            use(body, rows)
            used += 1
        except Exception as error:
            sys.stderr.write(f"{number}: {type(error).__name__}: {str(error)[:200]}\n")
    sys.stdout.write(f"used {used}\n")
