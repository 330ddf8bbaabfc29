"""What composes over any objective: noise, normalisation, scale control, k per query, and mixtures."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.core.conventions import above_least
from boostrank.core.errors import DataError, ParameterError, TrainingError
from boostrank.core.params import find_param
from boostrank.core.queries import QueryIndex
from boostrank.kernels.objective import ObjectiveSpec, no_constants, objective_kernel
from boostrank.objective.description import Objective
from boostrank.objective.mixture import Mixture, objective_from_dict, parse_objective
from boostrank.objectives import OBJECTIVES
from tests.fit.conftest import make_dataset
from tests.objectives.conformance import make_query
from tests.reference import sdcg as sdcg_twin
from tests.reference._ranking import descending

SIZES = np.array([3, 40, 1, 25, 12])
RNG = np.random.default_rng(5)
LABELS, SCORES = RNG.integers(0, 5, SIZES.sum()), RNG.normal(size=SIZES.sum())
QUERIES = QueryIndex.from_sizes(SIZES)
ROWS = [slice(a, b) for a, b in zip(QUERIES.ptr, QUERIES.ptr[1:], strict=False)]


def gradient(objective, round=3, scores=SCORES, queries=QUERIES, labels=LABELS):
    result = objective.bind(labels, queries).gradient(scores, round)
    return result.grad.astype(np.float64), result.hess.astype(np.float64)


def raw(name, **options):
    return Objective(name, hessian_scale="raw", **options)


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


# --- noise
# ------------------------------------------------------------------------------------------------------------

NOISE = {"gumbel": np.random.Generator.gumbel, "logistic": np.random.Generator.logistic}
NOISE["gaussian"] = np.random.Generator.normal


@pytest.mark.parametrize("kind", NOISE)
def test_the_noisy_gradient_is_on_average_the_twins_average_over_noisy_scores(kind):
    labels, scores, sizes = (
        np.array([0, 2, 1, 0]),
        np.array([0.5, 0.0, 0.3, -0.4]),
        QueryIndex.from_sizes([4] * 500),
    )
    objective = raw("sdcg", score_noise=kind, noise_temperature=0.7, noise_draws=8)
    tiled = gradient(
        objective, scores=np.tile(scores, 500), queries=sizes, labels=np.tile(labels, 500)
    )
    query, values = make_query(labels), Objective("sdcg").values(0)
    drawn = scores + 0.7 * NOISE[kind](np.random.default_rng(0), size=(4000, 4))
    for ours, twin in zip(tiled, (sdcg_twin.gradient, sdcg_twin.hessian), strict=True):
        theirs = np.array([twin(query, s, values) for s in drawn])
        # Averages of eight draws: 500 of ours, 4,000 single ones of theirs.
        error = np.hypot(theirs.std(0) / np.sqrt(4000), ours.reshape(-1, 4).std(0) / np.sqrt(500))
        assert (np.abs(ours.reshape(-1, 4).mean(0) - theirs.mean(0)) < 4.5 * error).all()
        quiet = twin(query, scores, values)
        assert (np.abs(theirs.mean(0) - quiet) > 10 * error).any()
        assert (ours.reshape(-1, 4).std(0) < theirs.std(0) / 2).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_noise_is_the_same_on_any_number_of_threads(threads):
    sizes = np.random.default_rng(0).integers(1, 90, 1500)
    labels, scores = np.arange(sizes.sum()) % 4, np.sin(np.arange(sizes.sum()))
    options = {"score_noise": "gumbel", "noise_draws": 2, "seed": 9}
    results = [
        gradient(
            Objective("sdcg", threads=n, **options), 1, scores, QueryIndex.from_sizes(sizes), labels
        )
        for n in (1, threads)
    ]
    assert same(*results)


def test_another_process_draws_the_same_noise():
    code = (
        "import numpy as np, boostrank; q = boostrank.QueryIndex.from_sizes([3, 3]);"
        "o = boostrank.Objective('sdcg', score_noise='logistic', seed=4);"
        "print(o.bind([0, 1, 2, 2, 0, 1], q).gradient(np.arange(6.0), 7).grad.tobytes().hex())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    objective = Objective("sdcg", score_noise="logistic", seed=4)
    evaluation = objective.bind([0, 1, 2, 2, 0, 1], QueryIndex.from_sizes([3, 3])).gradient(
        np.arange(6.0), 7
    )
    assert printed == evaluation.grad.tobytes().hex()


def test_seed_round_query_and_draw_each_bring_fresh_noise():
    noisy = {"score_noise": "gaussian", "noise_temperature": 0.5}
    first = gradient(raw("sdcg", seed=1, **noisy))
    assert same(first, gradient(raw("sdcg", seed=1, **noisy)))
    for other in (
        gradient(raw("sdcg", seed=2, **noisy)),
        gradient(raw("sdcg", seed=1, **noisy), round=4),
        gradient(raw("sdcg", seed=1, noise_draws=2, **noisy)),
    ):
        assert not same(first, other)
    twice = gradient(
        raw("sdcg", **noisy),
        0,
        np.tile(SCORES[:3], 2),
        QueryIndex.from_sizes([3, 3]),
        np.array([0, 1, 2] * 2),
    )
    assert not np.array_equal(twice[0][:3], twice[0][3:])


def test_temperature_zero_is_no_noise_and_it_may_follow_a_schedule():
    quiet = gradient(raw("sdcg"))
    assert same(
        quiet, gradient(raw("sdcg", score_noise="gumbel", noise_temperature=0, noise_draws=3))
    )
    cooling = raw("sdcg", score_noise="gumbel", noise_temperature="linear(1, 0, rounds=4)")
    assert same(quiet, gradient(cooling, 3))
    assert not same(quiet, gradient(cooling, 2))


@objective_kernel
def places(scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch):
    """Gradient = the rank that the driver says, less its mean; loss = 1 where `order` does not
    descend.
    """
    n = scores.shape[0]
    wrong = 0.0
    for pos in range(n):
        grad[order[pos]] = pos - 0.5 * (n - 1)
        hess[order[pos]] = 1.0
        if pos > 0 and scores[order[pos]] > scores[order[pos - 1]]:
            wrong = 1.0
    return wrong


def test_the_order_is_that_of_the_noisy_scores_in_every_draw():
    spec = ObjectiveSpec("places", places, prepare=no_constants)
    bound = Objective(spec, score_noise="gumbel", noise_draws=8).bind(LABELS, QUERIES)
    assert bound.gradient(SCORES, 0).stats.loss == 0.0
    grad = gradient(
        Objective(spec, hessian_scale="raw", score_noise="gumbel", noise_temperature=3)
    )[0]
    ranks = np.empty(40)
    ranks[descending(SCORES[3:43])] = np.arange(40) - 19.5
    assert sorted(grad[3:43]) == sorted(ranks)
    assert not np.array_equal(grad[3:43], ranks)


# --- normalisation, scale control, k
# ----------------------------------------------------------------------------------


def test_l1_makes_every_querys_forces_sum_to_one_and_log_to_their_logarithm():
    plain, bent = gradient(raw("ranknet"))
    for kind, of in (("l1", lambda s: 1.0), ("log", np.log2)):
        grad, hess = gradient(raw("ranknet", normalize_query=kind))
        for rows in ROWS:
            pull = np.abs(plain[rows]).sum()
            if pull == 0.0:
                assert not grad[rows].any()
                continue
            factor = of(1 + pull) / pull
            assert grad[rows] == pytest.approx(plain[rows] * factor, rel=1e-5, abs=1e-9)
            assert hess[rows] == pytest.approx(bent[rows] * factor, rel=1e-5, abs=1e-9)


def test_full_scale_control_leaves_no_force_along_the_scores_and_half_of_it_half():
    plain, bent = gradient(raw("approx-ndcg"))
    along = [plain[rows] @ (SCORES[rows] - SCORES[rows].mean()) for rows in ROWS]
    assert max(map(abs, along)) > 0.01
    for control in (0.5, 1.0):
        grad, hess = gradient(raw("approx-ndcg", scale_control=control, scale_control_nu=0))
        left = [grad[rows] @ (SCORES[rows] - SCORES[rows].mean()) for rows in ROWS]
        assert left == pytest.approx([(1 - control) * a for a in along], abs=1e-6)
        assert [grad[rows].sum() for rows in ROWS] == pytest.approx([0] * 5, abs=1e-6)
        assert np.array_equal(hess, bent)


def test_scale_control_follows_its_formula_with_nu_and_fades_where_scores_are_equal():
    plain = gradient(raw("sdcg"))[0]
    grad = gradient(raw("sdcg", scale_control=0.8, scale_control_nu=2.0))[0]
    for rows in ROWS:
        z = SCORES[rows] - SCORES[rows].mean()
        expected = plain[rows] - 0.8 * (plain[rows] @ z) * z / (np.linalg.norm(z) + 2.0) ** 2
        assert grad[rows] == pytest.approx(expected, abs=1e-7)
    tied = np.zeros(SCORES.size)
    assert same(
        gradient(raw("sdcg"), scores=tied), gradient(raw("sdcg", scale_control=1), scores=tied)
    )


@pytest.mark.parametrize("name", [s.name for s in OBJECTIVES if find_param("k", s.params)])
def test_k_of_each_query_is_that_of_an_objective_of_its_own(name):
    ks = [2, 10, 0, 1, 40]
    objective = raw(name, total_rounds=40)
    cutoff = find_param("k", objective.spec.params).name
    together = objective.bind(
        LABELS, QueryIndex(QUERIES.ptr, QUERIES.qid, k=np.array(ks))
    ).gradient(SCORES, 30)
    for rows, k in zip(ROWS, ks, strict=True):
        # 0 is the whole list, whose length says the same where 0 is no value of the parameter.
        k = k or find_param("k", objective.spec.params).low * len(LABELS)
        # The other queries stay: noise that an objective draws by itself depends on the query's
        # number.
        alone = raw(name, total_rounds=40, **{cutoff: k}).bind(LABELS, QUERIES).gradient(SCORES, 30)
        assert np.array_equal(together.grad[rows], alone.grad[rows])
        assert np.array_equal(together.hess[rows], alone.hess[rows])


def test_k_comes_from_arrays_stays_with_its_query_and_is_refused_without_a_cutoff():
    data = make_dataset()
    ks = np.arange(len(data.queries)) % 4
    by_query = boostrank.RankingDataset.from_arrays(
        data.features, data.labels, group=data.queries.sizes, k=ks
    )
    by_row = boostrank.RankingDataset.from_arrays(
        data.features, data.labels, qid=data.queries.row_ids(), k=np.repeat(ks, data.queries.sizes)
    )
    assert np.array_equal(by_query.queries.k, ks)
    assert np.array_equal(by_row.queries.k, ks)
    assert list(by_row.take([3, 2]).queries.k) == [3, 2]
    with pytest.raises(DataError, match=r"k.*'regression'.*cut-off"):
        Objective("regression").bind(by_row.labels, by_row.queries)
    cut = boostrank.train({"objective": "sdcg", "num_leaves": 4, "verbosity": -1}, by_query, 2)
    whole = boostrank.train({"objective": "sdcg", "num_leaves": 4, "verbosity": -1}, data, 2)
    assert not np.array_equal(cut.predict(data), whole.predict(data))


# --- what gains count from
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["sdcg", "approx-ndcg(k=3)", "xe-ndcg", "lambdarank", "smooth-ndcg", "lambdaloss"]
)
def test_gains_above_the_least_are_those_of_labels_that_begin_at_zero(name):
    """Real labels as gains, so that taking away and shifting are the same thing."""
    begin = np.concatenate([LABELS[row] - LABELS[row].min() for row in ROWS]).astype(float)
    lift = np.repeat([0.0, 1.5, 2.0, 0.25, 7.0], SIZES)

    def at(labels, base):
        objective = parse_objective(
            name, gain="linear", gain_base=base, hessian_scale="raw", total_rounds=40
        )
        return gradient(objective, labels=labels)

    assert same(at(begin + lift, "least"), at(begin, "zero"))
    assert same(at(begin, "least"), at(begin, "zero"))
    assert not same(at(begin + lift, "zero"), at(begin, "zero"))


def test_gains_count_from_the_least_where_the_objective_says_so_and_queries_may_be_empty():
    lifted = {spec.name for spec in OBJECTIVES if Objective(spec).options["gain_base"] == "least"}
    assert {"sdcg", "shf-sdcg", "reg-shf-sdcg", "approx-ndcg", "xe-ndcg"} <= lifted
    assert "lambdarank" not in lifted  # it is LightGBM's
    assert Objective("sdcg", gain_base="zero").options["gain_base"] == "zero"
    with_empty = QueryIndex(np.array([0, 0, 3, 3, 5, 5]), np.arange(5))
    assert np.array_equal(above_least(np.array([3.0, 1, 2, 7, 7]), with_empty), [2, 0, 1, 0, 0])


# --- mixtures
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("round", [0, 24, 49])
def test_reg_shf_sdcg_is_one_instance_of_the_mixture(round):
    ours = Mixture(
        "regression(per_query=true)", "shf-sdcg", mix="logistic", balance="raw", total_rounds=50
    )
    paper = Objective("reg-shf-sdcg", total_rounds=50)
    for got, expected in zip(gradient(ours, round), gradient(paper, round), strict=True):
        # Float32, rounded once in either.
        assert got == pytest.approx(expected, rel=3e-7, abs=1e-12)
    assert ours.settled_round(50) == paper.settled_round(50)
    raws = Mixture(
        ours.first, ours.second, mix="logistic", balance="raw", total_rounds=50, hessian_scale="raw"
    )
    loss = raws.bind(LABELS, QUERIES).gradient(SCORES, round).stats.loss
    assert loss == pytest.approx(
        paper.bind(LABELS, QUERIES).gradient(SCORES, round).stats.loss, rel=1e-14
    )


def test_balanced_parts_weigh_alike_whatever_their_scale():
    a, b = gradient(raw("regression")), gradient(raw("sdcg"))
    sizes = [np.abs(part[0]).mean() for part in (a, b)]
    assert sizes[0] > 10 * sizes[1]
    got = gradient(Mixture("regression", "sdcg", mix=0.25, hessian_scale="raw"))
    for i in range(2):
        assert got[i] == pytest.approx(
            0.25 * a[i] / sizes[0] + 0.75 * b[i] / sizes[1], rel=1e-5, abs=1e-7
        )


def test_the_ends_of_a_mixture_are_its_parts():
    for share, name in ((1, "sdcg"), (0, "lambdarank")):
        got = gradient(Mixture("sdcg", "lambdarank", mix=share))
        for ours, alone in zip(got, gradient(Objective(name)), strict=True):
            assert ours == pytest.approx(alone, rel=1e-5, abs=2e-6)


def test_a_part_without_any_gradient_stays_out_of_the_round():
    scores = LABELS.astype(float)
    got = gradient(Mixture("regression", "sdcg"), scores=scores)
    assert got[0] == pytest.approx(
        gradient(Objective("sdcg"), scores=scores)[0], rel=1e-5, abs=1e-7
    )


def test_dead_queries_weights_and_threads_are_those_of_a_mixture_too():
    weighted = QueryIndex.from_sizes(SIZES, weights=[1, 2, 3, 4, 5])
    results = [
        Mixture("sdcg(score_noise=gumbel)", "shf-sdcg", threads=n)
        .bind(LABELS, weighted)
        .gradient(SCORES, 1)
        for n in (1, 2)
    ]
    assert results[0].grad.tobytes() == results[1].grad.tobytes()
    assert results[0].stats == results[1].stats
    assert results[0].stats.dead_queries == 1
    live = ~np.repeat(SIZES == 1, SIZES)
    assert results[0].hess[live].mean() == pytest.approx(1.0, rel=1e-5)
    heavy = Mixture("sdcg", "shf-sdcg", balance="raw", hessian_scale="raw")
    factors = np.repeat(np.array([1, 2, 3, 4, 5]) / 3, SIZES)
    assert gradient(heavy, queries=weighted)[0] == pytest.approx(
        factors * gradient(heavy)[0], rel=1e-5
    )


@objective_kernel
def broken(scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch):
    """NaN everywhere."""
    grad[:] = np.nan
    hess[:] = 1.0
    return 0.0


def test_a_broken_part_is_named():
    spec = ObjectiveSpec("broken", broken, prepare=no_constants)
    with pytest.raises(TrainingError, match="'broken', round 2, query 0"):
        Mixture("sdcg", Objective(spec)).bind(LABELS, QUERIES).gradient(SCORES, 2)
    flat = QueryIndex.from_sizes([2])
    with pytest.raises(TrainingError, match="the same gain"):
        Mixture("sdcg", "shf-sdcg").bind([1, 1], flat).gradient(np.zeros(2), 0)


TEXT = (
    "mix(shf-sdcg(sigma=0.5, score_noise=gumbel), regression(target=gains), mix=linear(0, 1),"
    " balance=raw)"
)


def test_text_objects_dictionaries_copies_and_pickles_are_the_same_mixture():
    by_object = Mixture(
        Objective("shf-sdcg", sigma=0.5, score_noise="gumbel"),
        Objective("regression", target="gains"),
        mix="linear(0, 1)",
        balance="raw",
    ).scale_to(9)
    expected = gradient(by_object)
    for other in (
        parse_objective(TEXT).scale_to(9),
        objective_from_dict(by_object.to_dict()),
        copy.deepcopy(by_object),
        pickle.loads(pickle.dumps(by_object)),
    ):
        assert other.to_dict() == by_object.to_dict()
        assert repr(other) == repr(by_object)
        assert same(gradient(other), expected)
    assert b"boostrank.kernels" not in pickle.dumps(by_object)
    kept = objective_from_dict(Objective("sdcg", normalize_query="l1").to_dict())
    assert kept.options["normalize_query"] == "l1"


@pytest.mark.parametrize(
    "changed",
    [
        {"name": 5},
        {"name": ["sdcg"]},
        {"params": True},
        {"options": 3},
        {"params": {"sigma": []}},
        {"gain": {}},
        {"total_rounds": "x"},
        {"total_rounds": 1e400},
        {"source": 1},
        {"name": "mixture", "first": None},
    ],
)
def test_fault_086_what_a_file_says_of_an_objective_is_one_or_refused(
    changed: dict[str, object],
) -> None:
    with pytest.raises(ParameterError):
        objective_from_dict(Objective("sdcg").to_dict() | changed)
    with pytest.raises(ParameterError, match="KeyError: 'name'"):
        objective_from_dict({"params": {}})


def test_a_record_with_the_noise_that_yetirank_still_has_is_read_and_no_other_noise():
    recorded = Objective("yetirank", mode="ndcg").to_dict()
    noisy = recorded | {"params": {**recorded["params"], "noise": "logistic"}}
    assert objective_from_dict(noisy).to_dict() == recorded
    noisy["params"]["noise"] = "gumbel"
    with pytest.raises(ParameterError, match="'noise'"):
        objective_from_dict(noisy)


def test_what_is_said_beside_a_mixture_goes_to_the_parts_that_take_it_and_brackets_win():
    mixture = parse_objective(
        "mix(shf-sdcg(sigma=0.5), sdcg, mix=0.2)", sigma=2, score_noise="gumbel", gain="linear", k=3
    )
    assert mixture.to_dict() == (
        Mixture(
            Objective("shf-sdcg", sigma=0.5, score_noise="gumbel", gain="linear", k=3),
            Objective("sdcg", sigma=2, score_noise="gumbel", gain="linear", k=3),
            mix=0.2,
        ).to_dict()
    )
    assert parse_objective("mix(sdcg, regression)", sigma=2).first.params["sigma"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mix(sdcg)", "two objectives"),
        ("mix(sdcg, sdcgg)", "Did you mean 'sdcg'"),
        ("mix(sdcg, mix(sdcg, regression))", "mixture"),
        ("mix(sdcg, regression, mix=2)", "out of range"),
        ("mix(sdcg, regression, sigma=2)", "no parameter 'sigma'.* balance, hessian_scale, mix"),
        ("sdcg(2)", "not name=value"),
        ("sdcg(sigma=1", "is not an objective"),
        ("sdcg(sigma=1, sigma=2)", "'sigma' is set twice"),
        ("sdcg(threads=2)", "'sdcg' has no parameter 'threads'"),
        ("sdcg(name=listnet)", "'sdcg' has no parameter 'name'"),
    ],
)
def test_text_that_cannot_be_meant_is_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        parse_objective(text)


def test_mix_is_written_in_any_case_and_its_parts_in_catboosts_form():
    mixture = parse_objective("Mix(LambdaMart:metric=MAP;sigmoid=2, xe-ndcg)")
    assert mixture.name == "mix(lambdarank, xe-ndcg)"
    assert (mixture.first.params["metric"], mixture.first.params["sigmoid"]) == ("map", 2.0)


def test_a_schedule_of_a_mixture_needs_the_length_of_the_training():
    mixture = Mixture("sdcg", "regression", mix="logistic")
    with pytest.raises(ParameterError, match=r"'mix\(sdcg, regression\)': mix="):
        gradient(mixture)
    with pytest.raises(ParameterError, match="spans the whole"):
        gradient(Mixture("sdcg(sigma=linear(2, 1))", "regression"))
    gradient(Mixture("sdcg", "regression"))
    gradient(mixture.scale_to(7))
    assert Mixture("smooth-ndcg(warm_rounds=5)", "sdcg").settled_round(50) == 5
    assert (
        Mixture("sdcg", "regression", mix="joined(constant(1); constant(0); at=20)").settled_round(
            50
        )
        == 20
    )


# --- in training
# ------------------------------------------------------------------------------------------------------

QUIET = {"verbosity": -1, "num_leaves": 7, "deterministic": True, "force_col_wise": True}


def test_options_reach_training_and_the_sidecar_and_the_seed_is_the_trees_too(tmp_path):
    data = make_dataset()
    params = {
        "objective": "sdcg",
        "score_noise": "gumbel",
        "normalise_query": "log",
        "seed": 3,
        **QUIET,
    }
    model = boostrank.train(params, data, 4)
    recorded = model.info["objective"]
    assert recorded["options"] == Objective("sdcg").options | {
        "score_noise": "gumbel",
        "normalize_query": "log",
        "seed": 3,
    }
    again = boostrank.train(params, data, 4)
    assert np.array_equal(model.predict(data), again.predict(data))
    other = boostrank.train(params | {"seed": 4}, data, 4)
    assert not np.array_equal(model.predict(data), other.predict(data))
    with pytest.raises(ParameterError, match=r"'score_noise' .*both"):
        boostrank.train({"objective": Objective("sdcg"), "score_noise": "gumbel"}, data, 1)


@pytest.mark.usefixtures("leaves_as_grown_here")
def test_a_mixture_trains_by_name_by_itself_in_both_engines_and_learns(tmp_path):
    xgb = pytest.importorskip("xgboost")
    data = make_dataset()
    text = "mix(shf-sdcg(sigma=0.5), regression, mix=0.4)"
    model = boostrank.train(
        {"objective": text, "metric": "ndcg@5", **QUIET}, data, 8, valid_sets=[data]
    )
    curve = model.evals_result["training"]["ndcg@5"]
    assert curve[-1] > curve[0]
    model.save(tmp_path / "model.txt")
    loaded = boostrank.RankingModel.load(tmp_path / "model.txt")
    assert objective_from_dict(loaded.info["objective"]).to_dict() == model.info["objective"]
    alone = parse_objective(text)
    dataset = lgb.Dataset(data.features, data.labels, group=data.queries.sizes)
    booster = lgb.train({"objective": alone, "metric": "None", **QUIET}, dataset, 8)
    np.testing.assert_array_equal(booster.predict(data.features), model.predict(data))
    ranker = lgb.LGBMRanker(objective=Mixture("sdcg", "regression"), n_estimators=2, verbose=-1)
    assert (
        np.ptp(
            ranker.fit(data.features, data.labels, group=data.queries.sizes).predict(data.features)
        )
        > 0
    )
    matrix = xgb.DMatrix(data.features, data.labels, group=data.queries.sizes)
    assert np.ptp(xgb.train({"base_score": 0}, matrix, 2, obj=alone).predict(matrix)) > 0


def test_auto_is_the_mixture_that_it_stands_for_and_takes_what_its_parts_take() -> None:
    from boostrank.objective.mixture import AUTO

    assert parse_objective("Auto", seed=3).to_dict() == parse_objective(AUTO, seed=3).to_dict()
    assert parse_objective("auto", mix=0.3).to_dict()["mix"] == 0.3
    assert (
        parse_objective("auto", truncation_level=5).to_dict()["first"]["params"]["truncation_level"]
        == 5
    )
