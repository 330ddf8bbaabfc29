"""What the papers' equations say and the objectives did not, or the page did not."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.objectives import OBJECTIVES
from tests.objectives.conformance import close, evaluate, make_query, twin_of
from tests.objectives.conftest import evaluate_named

# The cut-off's parameter, and whether k above the length means the length; else it is k in the
# equation.
CUT_OFFS = {
    "sdcg": False,
    "approx-ndcg": False,
    "shf-sdcg": True,
    "reg-shf-sdcg": True,
    "smooth-ndcg": True,
    "margin-ndcg": True,
    "lambdarank": True,
    "yetirank": True,
}
LISTS = [
    ([2, 1, 0], [1.0, 0.0, -1.0]),
    ([0, 2, 1, 0, 2], [1.0, -1.0, 1.0, 0.0, 0.0]),
    ([0, 1, 3], [0.5, 0.5, 0.5]),
    ([1, 0], [-2.0, 3.0]),
    ([2], [0.3]),
]


def cut_off(spec):
    """The name of the parameter that is the cut-off; None without one."""
    return next((p.name for p in spec.params if p.name in ("k", "truncation_level")), None)


def test_report_01_sdcg_beyond_the_list_is_the_equation():
    ranks = 1 + np.array(
        [sum(1 / (1 + np.exp(s - t)) for t in (1, 0, -1) if t != s) for s in (1, 0, -1)]
    )
    gains, z = np.array([3, 1, 0]), 3 + 1 / np.log2(3)
    value = np.sum(gains / z / np.log2(1 + ranks) / (1 + np.exp(ranks - 10)))
    assert value == pytest.approx(0.8315, abs=5e-5)
    assert evaluate_named("sdcg", [2, 1, 0], [1.0, 0.0, -1.0], k=10)[0] == pytest.approx(
        -value, rel=1e-12
    )


def test_report_01_every_objective_with_a_cut_off_says_what_it_is_beyond_the_list():
    names = {spec.name for spec in OBJECTIVES if cut_off(spec)}
    assert names == CUT_OFFS.keys()


OTHERS = [("smooth-ndcg", {"metric": metric}) for metric in ("map", "mrr", "err")]
OTHERS.append(("margin-ndcg", {"rank_weights": "root"}))


@pytest.mark.parametrize(("name", "changed"), [*((name, {}) for name in CUT_OFFS), *OTHERS])
def test_report_01_a_cut_off_beyond_the_list_has_the_documented_value(name, changed):
    spec, twin = OBJECTIVES.get(name), twin_of(name)
    values = {p.name: p.default for p in spec.params} | changed
    for labels, scores in LISTS:
        query, s, n = make_query(labels), np.array(scores), len(labels)
        at_length = evaluate(spec, query, s, values | {cut_off(spec): n})
        for k in (n + 1, n + 7, 1000):
            chosen = values | {cut_off(spec): k}
            loss, grad, hess = evaluate(spec, query, s, chosen)
            if CUT_OFFS[name]:
                assert loss == at_length[0]
                assert grad.tolist() == at_length[1].tolist()
                assert hess.tolist() == at_length[2].tolist()
            close(grad, twin.gradient(query, s, chosen), 1e-9, f"gradient at {k}")
            close(hess, twin.hessian(query, s, chosen), 1e-9, f"hessian at {k}")
            if not CUT_OFFS[name] and n > 1:
                assert loss < at_length[0]  # the last documents have more than half their weight
    # No order of a list that fits above the cut-off is better than another.
    assert not evaluate_named("smooth-ndcg", [1, 0, 0], [0.0, 1.0, 2.0], k=3, metric="precision")[
        1
    ].any()


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 1e3])
def test_report_05_a_query_without_relevant_documents_in_the_first_k_has_a_gradient(scale):
    rng = np.random.default_rng(4)
    for n in (12, 40):
        labels, scores = np.zeros(n), scale * np.sort(rng.normal(size=n))[::-1]
        labels[10:] = rng.integers(0, 3, n - 10)
        labels[-1] = 2
        grad = evaluate_named("margin-ndcg", labels, scores)[1]
        assert grad @ labels < 0
        assert not evaluate_named("margin-ndcg", labels, scores, bound="tight")[1].any()


def test_report_06_ten_tied_documents_have_the_ndcg_of_a_random_order_with_sinkhorn():
    labels = [0, 2, 0, 1, 0, 0, 0, 1, 0, 0]
    gains, d = np.exp2(labels) - 1, 1 / np.log2(2 + np.arange(10))
    random = gains.sum() * d.mean() / (np.sort(gains)[::-1] @ d)
    unscaled = -evaluate_named("soft-ndcg", labels, np.zeros(10), ranks="binomial")[0]
    scaled = -evaluate_named("soft-ndcg", labels, np.zeros(10), ranks="sinkhorn")[0]
    assert scaled == pytest.approx(random, rel=1e-12)
    assert unscaled / random == pytest.approx(0.6446 / 0.7618, abs=1e-4)


def test_report_12_the_descriptions_name_the_deviations_and_equations():
    margin = OBJECTIVES.get("margin-ndcg")
    assert all(words in margin.deviation for words in ("margin 1", "min(k, n)", "grades"))
    assert "(11)" in OBJECTIVES.get("approx-ndcg").reference
