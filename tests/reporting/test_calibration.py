"""The section about calibrated scores."""

from __future__ import annotations

import pytest

import boostrank
from boostrank.core.errors import ModelError
from boostrank.model.calibration import reliability
from boostrank.reporting import report
from boostrank.reporting.sections.calibration import SPEC, calibration
from tests.model.conftest import CALIBRATION, make_graded_dataset
from tests.reporting.studies import study, words_of


@pytest.fixture(scope="module")
def model() -> boostrank.RankingModel:
    return boostrank.train(CALIBRATION, make_graded_dataset(0), num_boost_round=5)


def test_bins_and_parts_compare_predictions_with_grades(model: boostrank.RankingModel) -> None:
    calibrated, data = boostrank.calibrate(model, make_graded_dataset(1)), make_graded_dataset(2)
    segments = {int(q): "many" if q % 3 else "few" for q in data.queries.qid}
    calibration_report = calibration(study(data, model=calibrated, segments=segments))
    values, grades = calibrated.predict(data, calibrated=True), data.labels
    bins = reliability(values, grades, data.queries)
    assert calibration_report.bins.error == bins.error
    assert calibration_report.to_frame()["observed"].tolist() == bins.observed.tolist()
    parts = {
        (part["by"], part["part"]): part
        for part in calibration_report.table("calibration-parts").rows()
    }
    assert {kind for kind, _ in parts} == {"segment", "list length"}
    inside = data.queries.of_rows() % 3 > 0
    part = parts["segment", "many"]
    assert (part["queries"], part["documents"]) == (40, inside.sum())
    assert [part["predicted"], part["observed"]] == pytest.approx(
        [values[inside].mean(), grades[inside].mean()]
    )
    assert part["low"] < part["observed"] < part["high"]
    text = words_of(SPEC.on_page(calibration_report))
    assert f"{bins.error[0]:.4f} [{bins.error[1]:.4f}, {bins.error[2]:.4f}]" in text
    assert "fitted" not in text
    assert "fitted" in words_of(
        SPEC.on_page(calibration(study(make_graded_dataset(1), model=calibrated)))
    )


def test_only_calibrated_models_have_the_section(model: boostrank.RankingModel) -> None:
    calibrated = boostrank.calibrate(model, make_graded_dataset(1))
    assert not SPEC.applies(study(make_graded_dataset(2), model=model))
    assert SPEC.applies(study(make_graded_dataset(2), model=calibrated))
    with pytest.raises(ModelError, match="calibrate"):
        report(model, make_graded_dataset(2), only=["calibration"])
    assert (
        report(
            calibrated, make_graded_dataset(2), only=["calibration"]
        ).calibration.bins.documents.sum()
        == make_graded_dataset(2).n_documents
    )
