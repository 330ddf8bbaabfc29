"""What people hold in their hands goes where a model goes: boosters and rankers of the engines,
files, our own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank import reporting
from boostrank.core.errors import ModelError, ParameterError
from boostrank.model.ranking_model import as_model

RNG = np.random.default_rng(0)
X, Y, GROUP = RNG.random((200, 3)).astype(np.float32), RNG.integers(0, 3, 200), [10] * 20
QID = np.repeat(np.arange(20), 10)
KINDS = (
    "LGBMRanker",
    "lightgbm.Booster",
    "XGBRanker",
    "xgboost.Booster",
    "path",
    "BoostRanker",
    "RankingModel",
)


def make_model(kind: str, folder: Path) -> tuple[Any, Any]:
    """What somebody holds, and the scores that it gives."""
    if kind in ("LGBMRanker", "lightgbm.Booster"):
        ranker = lgb.LGBMRanker(n_estimators=3, verbosity=-1).fit(X, Y, group=GROUP)
        return (ranker if kind == "LGBMRanker" else ranker.booster_), ranker.predict(X)
    if kind in ("XGBRanker", "xgboost.Booster", "path"):
        xgb_ranker = xgb.XGBRanker(n_estimators=3).fit(X, Y, qid=QID)
        xgb_ranker.save_model(folder / "m.json")
        return {"XGBRanker": xgb_ranker, "path": folder / "m.json"}.get(
            kind, xgb_ranker.get_booster()
        ), xgb_ranker.predict(X)
    ours = boostrank.BoostRanker(n_estimators=3, verbosity=-1).fit(X, Y, qid=QID)
    return (ours if kind == "BoostRanker" else ours.model_), ours.predict(X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_what_people_hold(kind: str, tmp_path: Path) -> None:
    model, scores = make_model(kind, tmp_path)
    np.testing.assert_allclose(as_model(model).predict(X), scores, atol=1e-6)
    assert boostrank.export_model(model, tmp_path / "scorer.py", "python").nodes


@pytest.mark.parametrize("kind", KINDS)
def test_every_function_takes_models_of_each_kind(kind: str, tmp_path: Path) -> None:
    model, scores = make_model(kind, tmp_path)
    data = boostrank.RankingDataset.from_arrays(X, Y, qid=QID)
    assert boostrank.compare(model, scores, data).metrics["ndcg@10"].mean == pytest.approx(
        0.0, abs=1e-6
    )
    assert boostrank.verify(model, data, scores).documents == len(X)
    assert reporting.importance(model, data, repeats=1).value > 0.5
    assert np.isfinite(reporting.why(model, data, 3, "@1", "@2").parts).all()
    page = reporting.report(model, data, baseline=model, only=["verdict"], threads=1)
    assert page.verdict.baselines[0].standings["ndcg@10"].lead == 0.0


def test_something_else_is_refused_with_what_is_wanted() -> None:
    with pytest.raises(ParameterError, match="LGBMRanker"):
        as_model(3)
    with pytest.raises(ParameterError, match="RankingModel"):
        boostrank.export_model(X, "scorer.py", "python")


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"booster": "dart", "one_drop": 1}, "dart"),  # XGBoost 3.4 writes gbtree if none drops
        ({"booster": "gblinear"}, "gblinear"),
        ({"num_parallel_tree": 3}, "one tree per round.*num_parallel_tree"),
    ],
    ids=["dart", "gblinear", "parallel trees"],
)
def test_a_booster_whose_file_could_not_be_read_is_refused(
    params: dict[str, Any], reason: str
) -> None:
    matrix = xgb.DMatrix(X, Y)
    booster = xgb.train({"nthread": 1, **params}, matrix, 2)
    data = boostrank.RankingDataset.from_arrays(X, Y, qid=QID)
    with pytest.raises(ModelError, match=reason):
        boostrank.train({}, data, 1, backend="xgboost", init_model=booster)


@pytest.mark.parametrize("kind", ["LGBMRanker", "XGBRanker"])
def test_scores_of_one_row_count_no_cores(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting the cores of a machine takes longer than the scores of a row."""
    ranker, scores = make_model(kind, tmp_path)
    model, count_cores = as_model(ranker), Mock(return_value=1)
    monkeypatch.setattr("boostrank.core.machine.available_threads", count_cores)
    assert model.predict(X[:1]) == pytest.approx(scores[:1])
    assert not count_cores.called
