"""Model files in treelite and TL2cgen, which are installed with the extra `test` on Linux, and in
nvForest, which needs gigabytes of CUDA's libraries: `pip install nvforest-cu12`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.export import TARGETS
from tests.export.conftest import KINDS, Example, example

treelite = pytest.importorskip("treelite", minversion="4.8")


def read(body: bytes, folder: Path) -> Any:
    """Treelite's model of a file."""
    path = folder / "model"
    path.write_bytes(body)
    if body.startswith(b"tree"):
        return treelite.frontend.load_lightgbm_model(path)
    return treelite.frontend.load_xgboost_model(path, format_choice="json")


def margins(model: Any, rows: np.ndarray) -> np.ndarray:
    """Scores by treelite's own interpreter."""
    return treelite.gtil.predict(model, rows, pred_margin=True, nthread=1).reshape(-1)


def possible(of: Example) -> np.ndarray:
    """At least 1,000 rows, a tenth of whose values are missing; codes of categories are no numbers
    between -1 and 0, which LightGBM reads as 0 and treelite as unseen.
    """
    rows = np.vstack([of.rows, of.rows[:500]])
    codes = rows[:, 4:]
    return rows[~((codes < 0.0) & (codes > -1.0)).any(axis=1)]


@pytest.mark.parametrize("kind", KINDS)
def test_treelite_gives_the_same_scores_with_and_without_a_start(kind: str, tmp_path: Path) -> None:
    of = example(kind)
    rows = possible(of) if of.served.engine == "lightgbm" else of.single
    scores = margins(read(of.model.to_bytes(), tmp_path), rows)
    np.testing.assert_array_equal(scores, of.expected(rows))
    assert np.unique(scores).size > 20
    target = TARGETS.get(of.served.engine)
    body = target.write(of.served)
    expected = target.scorer(body, of.served.feature_names)(rows)
    np.testing.assert_array_equal(margins(read(body, tmp_path), rows), expected)


def test_zeros_that_are_missing_are_read_as_numbers(tmp_path: Path) -> None:
    of = example("lightgbm-none-zeros")
    scores = margins(read(of.model.to_bytes(), tmp_path), of.rows)
    assert np.any(scores != of.expected(of.rows))  # as the guide says


@pytest.mark.parametrize("kind", ["lightgbm-start-missing", "xgboost-start-missing"])
def test_compiled_trees_give_the_same_scores(kind: str, tmp_path: Path) -> None:
    tl2cgen = pytest.importorskip("tl2cgen")
    if shutil.which("gcc") is None:
        pytest.skip("there is no compiler")
    of, library = example(kind), tmp_path / "model.so"
    tl2cgen.export_lib(
        read(of.model.to_bytes(), tmp_path), toolchain="gcc", libpath=library, params={}
    )
    rows = of.rows if of.served.engine == "lightgbm" else of.single
    rows = np.vstack([rows, rows[:400]])
    matrix = tl2cgen.DMatrix(rows, dtype=rows.dtype.name)
    scores = tl2cgen.Predictor(library, nthread=1).predict(matrix, pred_margin=True).reshape(-1)
    expected = of.expected(rows)
    if of.served.engine == "lightgbm":
        np.testing.assert_array_equal(scores, expected)
    else:  # float32 leaves are summed in another order
        np.testing.assert_allclose(scores, expected, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_nvforest_gives_the_same_scores_on_the_cpu(kind: str, tmp_path: Path) -> None:
    nvforest = pytest.importorskip("nvforest")
    of, path = example(kind), tmp_path / "model"
    path.write_bytes(of.model.to_bytes())
    rows, form, precision = possible(of), "lightgbm", "double"
    if of.served.engine == "xgboost":
        rows, form, precision = rows.astype(np.float32), "xgboost_json", "single"
    # It reads infinite and huge values of categories otherwise.
    rows = rows[~(np.abs(rows[:, 4:]) > 1e10).any(axis=1) | (not kind.endswith("categories"))]
    forest = nvforest.load_model(path, device="cpu", model_type=form, precision=precision)
    scores = np.asarray(forest.predict(rows)).reshape(-1)
    np.testing.assert_array_equal(scores, of.expected(rows))
    assert np.unique(scores).size > 20
