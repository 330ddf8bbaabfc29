"""An Objective: names, parameters, schedules, copies, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.objective.bound import MAX_QUADRATIC_DOCUMENTS
from boostrank.objective.description import Objective, objective_constructor
from boostrank.objectives import OBJECTIVES, _template
from boostrank.schedules import parse_schedule
from tests.objectives.declared import FILE, declared

LABELS, QUERIES = np.array([0.0, 2.0, 1.0, 0.0, 1.0]), QueryIndex.from_sizes([3, 2])
SCORES = np.array([0.3, 0.1, 0.2, 0.0, -0.5])


def gradient(objective, round=0):
    result = objective.bind(LABELS, QUERIES).gradient(SCORES, round)
    return result.grad.copy(), result.hess.copy()


def test_what_objectives_declare_changes_only_on_purpose():
    now = declared()
    for entry in FILE.read_text(encoding="utf-8").strip().split("\n\n"):
        assert entry in now, f"if it is meant: python -m {declared.__module__}"


def test_defaults_lie_in_the_declared_ranges():
    for spec in (*OBJECTIVES, _template.SPEC):
        for param in spec.params:
            assert param.parse(param.default) == param.default, f"{spec.name} {param.name}"


def test_constructors_are_called_as_the_objective_in_capwords():
    construct = objective_constructor("RegShfSdcg")
    assert construct is not None
    assert (construct.__name__, construct.__qualname__) == ("RegShfSdcg", "RegShfSdcg")
    assert construct(sigma=0.5).name == "reg-shf-sdcg"
    assert "sigma (> 0; default" in construct.__doc__
    assert objective_constructor("NoSuchObjective") is None


def test_aliases_of_objectives_and_parameters():
    objective = Objective("SHF", Sigma="0.5", truncation=3, train_discount="linear")
    assert objective.name == "shf-sdcg"
    assert objective.params["sigma"] == 0.5
    assert objective.params["k"] == 3
    assert objective.params["train_discount"] == 1.0


def test_unknown_parameters_get_a_suggestion():
    with pytest.raises(ParameterError, match=r"'sdcg' .*'sigm'.* 'sigma'"):
        Objective("sdcg", sigm=1)


def test_the_name_of_a_file_is_no_objective_and_the_message_says_what_loads_it():
    with pytest.raises(ParameterError, match=r"load_objective.* --check"):
        Objective("my.py")


@pytest.mark.parametrize(
    "options",
    [
        {"gain": "cubic"},
        {"hessian_scale": "huge"},
        {"sigma": 0},
        {"sigma": -1},
        {"k": "linear(1, 2)"},
    ],
)
def test_bad_options_are_refused_at_once(options):
    with pytest.raises(ParameterError):
        Objective("sdcg", **options)


def test_a_parameter_may_follow_a_schedule_given_as_text_or_object():
    by_text = Objective("sdcg", sigma="geometric(4, 1, rounds=3)")
    by_object = Objective("sdcg", sigma=parse_schedule("geometric(4, 1, rounds=3)"))
    assert [by_text.values(m)["sigma"] for m in range(4)] == pytest.approx([4, 2, 1, 1])
    for m in range(4):
        assert np.array_equal(gradient(by_text, m)[0], gradient(by_object, m)[0])


def test_a_schedule_that_leaves_the_range_is_refused_when_it_does():
    objective = Objective("sdcg", sigma="linear(1, -1, rounds=5)")
    assert objective.values(1)["sigma"] == 0.5
    with pytest.raises(ParameterError, match=r"sigma=0\.0 .*range"):
        objective.values(2)


def test_a_schedule_over_the_whole_training_needs_its_length():
    objective = Objective("reg-shf-sdcg")
    with pytest.raises(
        ParameterError,
        match=r"mix=logistic .*total_rounds=N",
    ):
        objective.values(0)
    with_length = objective.scale_to(250)
    assert with_length.values(0)["mix"] == pytest.approx(0.999999)
    assert with_length.values(124)["mix"] == pytest.approx(0.5)
    assert objective.total_rounds is None


def test_reg_shf_settles_in_the_middle_unless_its_mix_is_fixed():
    assert Objective("reg-shf-sdcg").settled_round(600) == 300
    assert Objective("reg-shf-sdcg", mix=0.5).settled_round(600) == 0
    assert Objective("shf-sdcg").settled_round(600) == 0


def test_smooth_ndcg_warms_up_by_regression_and_then_sharpens():
    objective = Objective("smooth-ndcg", warm_rounds=5, total_rounds=18)
    assert [objective.values(m)["mix"] for m in (0, 4, 5, 17)] == [1, 1, 0, 0]
    assert [objective.values(m)["sigma"] for m in (0, 5, 6, 17)] == pytest.approx(
        [64, 64, 32, 1 / 64]
    )
    assert objective.settled_round(18) == 5
    regression = Objective("smooth-ndcg", mix=1.0, sigma=1.0)
    assert np.array_equal(gradient(objective)[0], gradient(regression)[0])
    cold = Objective("smooth-ndcg", warm_rounds=0, total_rounds=13)
    assert cold.values(0) == cold.values(0) | {"mix": 0.0, "sigma": 64.0}


def test_a_given_value_replaces_the_default_schedule():
    objective = Objective("smooth-ndcg", sigma=2.0)
    assert objective.values(100)["sigma"] == 2.0
    assert objective.values(100)["mix"] == 0.0


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_copies_pickles_and_dictionaries_are_the_same_objective(name):
    objective = Objective(name, gain="0,1,5", total_rounds=40)
    expected = gradient(objective, 3)
    for twin in (
        copy.deepcopy(objective),
        pickle.loads(pickle.dumps(objective)),
        Objective.from_dict(objective.to_dict()),
    ):
        assert twin.to_dict() == objective.to_dict()
        got = gradient(twin, 3)
        assert np.array_equal(got[0], expected[0])
        assert np.array_equal(got[1], expected[1])


def test_a_pickle_names_a_registered_objective_and_carries_no_code():
    assert b"kernel" not in pickle.dumps(Objective("sdcg"))


def test_a_users_own_spec_works_without_registration():
    grad, hess = gradient(Objective(_template.SPEC, sigma=2.0))
    assert grad.any()
    assert hess.all()


def test_sigma_alone_changes_no_newton_step_from_a_zero_start():
    steps = []
    for sigma in (0.1, 1.0, 10.0):
        bound = Objective("shf-sdcg", sigma=sigma, hessian_scale="raw").bind(LABELS, QUERIES)
        result = bound.gradient(np.zeros(5), 0)
        steps.append(result.grad / result.hess / sigma)
    assert steps[0] == pytest.approx(steps[1], rel=1e-5)
    assert steps[0] == pytest.approx(steps[2], rel=1e-5)


def test_an_engine_gets_gradients_in_the_shape_of_its_scores():
    data = xgb.DMatrix(np.zeros((5, 1)), LABELS, group=[3, 2])
    expected = gradient(Objective("sdcg"))
    for scores in (SCORES.astype(np.float32), SCORES.astype(np.float32).reshape(-1, 1), SCORES):
        for actual, expected_part in zip(Objective("sdcg")(scores, data), expected, strict=True):
            assert actual.shape == scores.shape
            assert actual.ravel() == pytest.approx(expected_part, rel=1e-5)


def test_query_weights_count_relative_to_their_mean():
    plain = (
        Objective("sdcg", hessian_scale="raw").bind(LABELS, QUERIES).gradient(SCORES, 0).grad.copy()
    )
    weighted = QueryIndex.from_sizes([3, 2], weights=[30.0, 10.0])
    grad = Objective("sdcg", hessian_scale="raw").bind(LABELS, weighted).gradient(SCORES, 0).grad
    assert grad == pytest.approx(plain * np.array([1.5, 1.5, 1.5, 0.5, 0.5]), rel=1e-6)


def test_lengths_that_differ_are_refused():
    with pytest.raises(DataError, match="group sizes must sum"):
        Objective("sdcg").bind(LABELS[:4], QUERIES)


def test_the_parameters_of_an_objective_by_a_user_may_be_called_as_those_of_others():
    neighbors = boostrank.Param("neighbors", 0, "documents", low=0)

    def kernel(query, params, grad, hess, scratch):
        return 0.0

    spec = boostrank.define_objective("mine", kernel, params=[neighbors])
    assert Objective(spec).bind(LABELS, QUERIES).total_queries == 2


@pytest.mark.parametrize(
    "declared",
    [
        {"params": [boostrank.Param("top k", 3, "rank")]},
        {"params": [boostrank.Param("_rank", 3, "rank")]},
        {"scratch": "ranks, work"},
    ],
)
def test_names_that_a_kernel_cannot_read_are_refused(declared):
    def kernel(query, params, grad, hess, scratch):
        return 0.0

    with pytest.raises(ParameterError, match=r"top k|_rank|ranks,"):
        boostrank.define_objective("mine", kernel, **declared)


def test_a_list_too_long_for_a_pair_loop_is_refused_with_the_numbers_and_a_way_out():
    n = MAX_QUADRATIC_DOCUMENTS + 1
    index = QueryIndex.from_sizes([2, n])
    with pytest.raises(DataError, match=r"query 1 .*50,001 .*2\.5e\+09 pairs.*lambdarank"):
        Objective(replace(OBJECTIVES.get("sdcg"), quadratic=True)).bind(np.zeros(n + 2), index)
    Objective("lambdarank").bind(np.zeros(n + 2), index)


def test_fault_050_sums_pair_by_pair_are_refused_where_they_would_not_end():
    index = QueryIndex.from_sizes([2, MAX_QUADRATIC_DOCUMENTS + 1])
    with pytest.raises(DataError, match=r"query 1 .*50,001 .*=direct .*sums=fast"):
        Objective("sdcg", sums="direct").bind(np.zeros(index.n_documents), index)
    Objective("sdcg").bind(np.zeros(index.n_documents), index)


@pytest.mark.parametrize(
    ("name", "params", "mended"),
    [
        ("lambdarank", {"truncation_level": 80_000}, {"truncation_level": 31_250}),
        (
            "yetirank",
            {"mode": "ndcg", "neighbors": 0},
            {"mode": "ndcg", "neighbors": 0, "k": 31_250},
        ),
    ],
)
def test_parameters_that_compare_too_many_pairs_are_refused_with_the_largest_that_is_not(
    name, params, mended
):
    index = QueryIndex.from_sizes([2, 80_000])
    with pytest.raises(DataError, match=r"query 1 .*80,000 .*6\.4e\+09 pairs.* 31,250"):
        Objective(name, **params).bind(np.zeros(index.n_documents), index)
    Objective(name, **mended).bind(np.zeros(index.n_documents), index)


@pytest.mark.parametrize("weights", ["ndcg-loss2", "ndcg-loss2++"])
def test_a_loss_that_nobody_asks_for_changes_no_gradient_and_is_not_taken(weights):
    bound = Objective("lambdaloss", weights=weights).bind(LABELS, QUERIES)
    asked = bound.gradient(SCORES, 0)
    kept = asked.grad.tobytes(), asked.hess.tobytes()
    assert asked.stats.loss == pytest.approx(bound.evaluate(SCORES, 0).stats.loss, rel=1e-14)
    assert asked.stats.loss > 0.0
    plain = bound.gradient(SCORES, 0, loss=False)
    assert (plain.grad.tobytes(), plain.hess.tobytes()) == kept
    assert plain.stats.loss == 0.0
