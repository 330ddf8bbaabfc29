"""Names in reports that have changed: the old one gives the new thing, and warns."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from boostrank.report.sections.learning.analysis import Learning
from boostrank.report.sections.verdict.analysis import Verdict

RENAMED = {
    "comparison.analysis": {"Outcome": "ConditionOutcome"},
    "conventions.analysis": {"Change": "ConventionEffect"},
    "explanation.counterfactuals": {
        "Change": "Counterfactual", "Column": "FeatureValues", "smallest_changes": "counterfactuals",
    },
    "html.marks": {"facts": "key_numbers"},
    "html.page": {"Section": "PageSection"},
    "rank_changes": {
        "Move": "RankChange", "Swap": "Inversion", "moves_in": "rank_changes_in",
        "costliest_swap": "costliest_inversion",
    },
    "sections.learning.objective_trace": {
        "Descent": "ObjectiveTrace", "Shares": "GradientShares", "descend": "trace_objective",
    },
    "sections.learning.staged_metrics": {
        "PrefixCurve": "StagedMetric", "Walk": "StagedScores", "walk_prefixes": "staged_scores",
        "prefix_curve": "staged_metric",
    },
    "sections.queries.analysis": {"Part": "SegmentMetric"},
    "sections.shapes.ale": {"Curve": "AleCurve", "local_effects": "accumulated_local_effects"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "old", "new"), [(module, old, new) for module, names in RENAMED.items() for old, new in names.items()]
)
def test_an_old_name_is_the_new_one_and_warns(module: str, old: str, new: str) -> None:
    home = importlib.import_module(f"boostrank.report.{module}")
    with pytest.warns(FutureWarning, match=f"{module}.{old} is now .*{new}"):
        assert getattr(home, old) is getattr(home, new)
    with pytest.raises(AttributeError):
        _ = home.no_such_name


@pytest.mark.parametrize(
    ("kind", "old", "new"), [(Learning, "descent", "objective_trace"), (Verdict, "way", "direction")]
)
def test_an_old_attribute_is_the_new_one_and_warns(kind: type, old: str, new: str) -> None:
    result = SimpleNamespace(**{new: "it"})
    with pytest.warns(FutureWarning, match=f"{old} is now .*{new}"):
        assert kind.__getattr__(result, old) == "it"  # type: ignore[attr-defined]


def test_public_functions_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    from boostrank import report

    names = [getattr(report, name) for name in report.__all__]
    assert all(map(callable, names))
    assert not [warning for warning in recwarn if warning.category is FutureWarning]
