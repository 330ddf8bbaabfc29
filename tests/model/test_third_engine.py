"""A third engine: one format file, one backend folder and its registration, and everything else
works with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset, RankingModel
from boostrank.core.errors import ModelError, ParameterError
from boostrank.engines import ENGINES, Engine
from boostrank.options import TrainOptions
from boostrank.records import jsonable
from boostrank.reporting import report
from boostrank.reporting import why as explain
from boostrank.reporting.sections.learning import learning
from tests.model.conftest import make_named_dataset
from tests.reporting.studies import study

PARAMS = {"objective": "lambdarank", "eval_at": 5, "learning_rate": 0.5}


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            ENGINES,
            "toy",
            Engine("tests.model.toy_engine.backend", "tests.model.toy_engine.format:TOY"),
        )
        option = TrainOptions.__dataclass_fields__["backend"].metadata["option"]
        patch.setitem(vars(option), "choices", tuple(ENGINES))
        yield


@pytest.fixture(scope="module")
def data(registered: None) -> tuple[RankingDataset, RankingDataset]:
    return make_named_dataset(0), make_named_dataset(1)


@pytest.fixture(scope="module")
def model(data: tuple[RankingDataset, RankingDataset]) -> RankingModel:
    return boostrank.train(PARAMS, data[0], 30, valid_sets=[data[1]], backend="toy")


def test_a_third_engine_trains_and_learns(
    model: RankingModel, data: tuple[RankingDataset, RankingDataset]
) -> None:
    curve = model.evals_result["valid_0"]["ndcg@5"]
    assert len(curve) == model.best_iteration == 30
    assert curve[-1] > curve[0] + 0.05
    measured = boostrank.Metric.parse("ndcg@5").evaluate(
        data[1].labels, model.predict(data[1]), data[1].queries
    )
    assert measured.mean == pytest.approx(curve[-1])
    stopped = boostrank.train(
        PARAMS | {"early_stopping_round": 2}, data[0], 200, valid_sets=[data[1]], backend="toy"
    )
    assert (
        stopped.best_iteration
        == int(np.argmax(stopped.evals_result["valid_0"]["ndcg@5"])) + 1
        < 200
    )
    with pytest.raises(ParameterError, match="'num_leaves'"):
        boostrank.train(PARAMS | {"num_leaves": 3}, data[0], 1, backend="toy")


def test_a_model_of_a_third_engine_is_saved_and_loaded(
    model: RankingModel, data: tuple[RankingDataset, RankingDataset], tmp_path: Path
) -> None:
    model.save(tmp_path / "model.toy")
    assert (
        (tmp_path / "model.toy")
        .read_text()
        .startswith("boostrank toy stumps\nfeatures\tage\tprice\tx\ty [m]\n")
    )
    again = RankingModel.load(tmp_path / "model.toy")
    assert repr(again) == repr(model) == "RankingModel(toy, lambdarank, 30 rounds, 4 features)"
    assert again.info == jsonable(model.info)
    np.testing.assert_array_equal(again.predict(data[1]), model.predict(data[1]))
    np.testing.assert_allclose(
        again.contributions(data[1]).sum(axis=1), model.predict(data[1]), rtol=0, atol=1e-12
    )
    again.save(tmp_path / "again.toy")
    assert (tmp_path / "again.toy").read_bytes() == (tmp_path / "model.toy").read_bytes()
    (tmp_path / "damaged.toy").write_bytes(model.to_bytes()[:-2])
    with pytest.raises(ModelError, match="no toy stumps"):
        RankingModel.load(tmp_path / "damaged.toy")
    (tmp_path / "poem").write_text("about trees")
    with pytest.raises(ModelError, match=r"LightGBM.* toy stumps"):
        RankingModel.load(tmp_path / "poem")


def test_a_third_engine_continues_a_model(
    model: RankingModel, data: tuple[RankingDataset, RankingDataset]
) -> None:
    more = boostrank.train(PARAMS, data[0], 5, init_model=model, backend="toy")
    assert more.best_iteration == 35
    np.testing.assert_array_equal(more.predict(data[1], num_iteration=30), model.predict(data[1]))
    assert more.info["training"] == {"rounds": 5, "rounds_before": 30}


def test_models_of_a_third_engine_are_averaged(
    model: RankingModel, data: tuple[RankingDataset, RankingDataset]
) -> None:
    other = boostrank.train(PARAMS | {"learning_rate": 0.1}, data[0], 9, backend="toy")
    mean = (model.predict(data[1]) + other.predict(data[1])) / 2
    np.testing.assert_allclose(
        boostrank.average([model, other]).predict(data[1]), mean, rtol=0, atol=1e-12
    )


def test_a_model_of_a_third_engine_is_reported_by_walking_its_trees(
    model: RankingModel, data: tuple[RankingDataset, RankingDataset], tmp_path: Path
) -> None:
    page = report(model, data[1], ["ndcg@5"]).to_html()
    assert "toy, trained with lambdarank, 30 rounds" in page
    importance = boostrank.reporting.importance(model, data[1])
    assert {row["feature"] for row in importance.table().rows()[:2]} == {"price", "y [m]"}
    qid = data[1].queries.qid[0]
    assert explain(model, data[1], qid, 1, 2).to_dict()
    assert learning(study(data[1], "ndcg@5", model=model)).total == model.best_iteration


def test_trainings_that_a_third_engine_cannot_do_are_refused(
    model: RankingModel, data: tuple[RankingDataset, RankingDataset], tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match="cannot be resumed"):
        boostrank.train(
            PARAMS,
            data[0],
            2,
            backend="toy",
            checkpoint=boostrank.Checkpoint(tmp_path / "c", every=1),
        )
    with pytest.raises(ParameterError, match="toy grows no trees"):
        boostrank.train(PARAMS, data[0], 2, backend="toy", start="linear")
    with pytest.raises(ParameterError, match=r"^start="):
        boostrank.train(PARAMS, data[0], 2, start=model)
    with pytest.raises(ParameterError, match=r"toy .*continued by lightgbm"):
        boostrank.train(PARAMS, data[0], 2, init_model=model)
    with pytest.raises(ParameterError, match=r"model=object.*path"):
        boostrank.train(PARAMS, data[0], 2, init_model=object(), backend="toy")
