"""The driver: weights, scale, floor, threads, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.errors import TrainingError
from boostrank.core.queries import QueryIndex
from boostrank.kernels import driver
from boostrank.kernels.driver import (
    HESSIAN_FLOOR,
    LIVE,
    Buffers,
    QueryData,
    finish,
    mix_gradients,
    run_kernel,
)
from boostrank.kernels.objective import ObjectiveSpec, no_constants, objective_kernel
from boostrank.kernels.options import GAUSSIAN, L1, LOG, Composition
from boostrank.objective.description import Objective


@objective_kernel
def echo(scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch):
    """Gradient = score, hessian = gain, loss = the number of documents."""
    for i in range(scores.shape[0]):
        grad[i] = scores[i]
        hess[i] = gains[i]
    return 1.0 * scores.shape[0]


@objective_kernel
def positions(scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch):
    """Gradient = the 1-based rank that the driver's order says."""
    for pos in range(scores.shape[0]):
        grad[order[pos]] = pos + 1.0
        hess[order[pos]] = 1.0
    return 0.0


def drive(
    kernel, scores, gains, sizes, weights=None, unit_hessian=True, threads=1, params=(), **options
):
    s, g = np.asarray(scores, dtype=np.float64), np.asarray(gains, dtype=np.float64)
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    out = Buffers.allocate(s.size, ptr.size - 1)
    w = np.ones(ptr.size - 1) if weights is None else np.asarray(weights, dtype=np.float64)
    none = np.zeros((s.size, 0)), np.zeros((ptr.size - 1, 0))
    run_kernel(
        kernel,
        QueryData(s, g, ptr, w, *none),
        np.asarray(params, dtype=np.float64),
        out,
        threads=threads,
        **options,
    )
    return out, finish(ptr, out, unit_hessian=unit_hessian)


def test_unit_scale_makes_the_mean_hessian_of_live_queries_one():
    out, stats = drive(echo, [1.0, -1.0, 2.0, 0.0, 0.0], [1.0, 3.0, 8.0, 5.0, 5.0], [2, 1, 2])
    assert stats.scale == pytest.approx(3 / 12)
    assert out.hess[:3].mean() == pytest.approx(1.0)
    assert out.grad[:3] == pytest.approx(np.array([1.0, -1.0, 2.0]) / 4)
    assert stats.loss == 5.0


def test_raw_scale_leaves_gradient_and_hessian_alone():
    out, stats = drive(echo, [1.0, -1.0], [1.0, 3.0], [2], unit_hessian=False)
    assert stats.scale == 1.0
    assert list(out.grad) == [1.0, -1.0]
    assert list(out.hess) == [1.0, 3.0]


def test_newton_steps_do_not_depend_on_the_scale():
    raw, _ = drive(echo, [1.0, -1.0, 2.0], [1e-7, 3e-7, 2e-7], [2, 1], unit_hessian=False)
    unit, stats = drive(echo, [1.0, -1.0, 2.0], [1e-7, 3e-7, 2e-7], [2, 1])
    assert unit.grad / unit.hess == pytest.approx(raw.grad / raw.hess, rel=1e-6)
    assert stats.floored == 0
    assert unit.hess.mean() == pytest.approx(1.0)


def test_weights_multiply_gradient_hessian_and_loss():
    plain, _ = drive(echo, [1.0, -1.0, 2.0], [1.0, 3.0, 2.0], [2, 1], unit_hessian=False)
    out, stats = drive(
        echo, [1.0, -1.0, 2.0], [1.0, 3.0, 2.0], [2, 1], weights=[2.0, 0.5], unit_hessian=False
    )
    factor = np.array([2.0, 2.0, 0.5])
    assert out.grad == pytest.approx(plain.grad * factor)
    assert out.hess == pytest.approx(plain.hess * factor)
    assert stats.loss == 2 * 2.0 + 1 * 0.5


def test_queries_without_gradient_are_counted_and_stay_out_of_the_scale():
    out, stats = drive(echo, [0.0, 0.0, 1.0, -1.0], [0.0, 0.0, 4.0, 4.0], [2, 2])
    assert stats.dead_queries == 1
    assert not out.grad[:2].any()
    assert not out.hess[:2].any()
    assert out.hess[2:].mean() == pytest.approx(1.0)


@pytest.mark.fault(69)
def test_small_hessians_of_live_queries_are_lifted_to_the_floor_and_counted():
    out, stats = drive(echo, [1.0, -1.0, 3.0], [0.0, 1.0, 1e-12], [2, 1])
    assert stats.floored == 2
    assert out.hess.min() == pytest.approx(HESSIAN_FLOOR)
    assert out.hess[1] == pytest.approx(3.0)


def test_without_any_curvature_steps_are_plain_gradient_steps():
    out, stats = drive(echo, [1.0, -1.0], [0.0, 0.0], [2])
    assert list(out.hess) == [1.0, 1.0]
    assert list(out.grad) == [1.0, -1.0]
    assert stats.floored == 2


@pytest.mark.parametrize(
    ("name", "options", "scores"), [("sdcg", {}, [92, 0]), ("shf-sdcg", {"sigma": 1e20}, [0, 0])]
)
def test_curvature_that_float32_can_hardly_hold_is_no_curvature(name, options, scores):
    result = Objective(name, **options).bind([1, 0], QueryIndex.from_sizes([2])).gradient(scores, 1)
    assert np.isfinite(result.grad).all()
    assert list(result.hess) == [1.0, 1.0]
    assert result.grad[0] < 0


def test_what_overflows_once_it_is_scaled_is_broken():
    out = Buffers.allocate(4, 2)
    out.grad[:], out.hess[:] = [0, 0, 1e30, -1e30], [1e-20, 1e-20, 1e-20, 1e-20]
    out.hess_sum[:] = 2e-20
    assert finish(np.array([0, 2, 4]), out).broken_query == 1


def test_raw_gradients_are_not_floored():
    out, stats = drive(echo, [1.0, -1.0], [0.0, 1.0], [2], unit_hessian=False)
    assert list(out.hess) == [0.0, 1.0]
    assert stats.floored == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_a_gradient_that_float32_cannot_hold_is_broken(bad):
    out, stats = drive(echo, [1.0, -1.0, bad, 0.0, 1.0], [1.0] * 5, [2, 2, 1])
    assert stats.broken_query == 1
    assert out.state[0] == LIVE


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_broken_even_if_the_kernel_would_hide_it(bad):
    _, stats = drive(positions, [1.0, -1.0, bad, 0.0], np.zeros(4), [2, 2])
    assert stats.broken_query == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e-3])
def test_a_negative_or_infinite_hessian_is_broken(bad):
    _, stats = drive(echo, [1.0, -1.0, 1.0], [1.0, 1.0, bad], [2, 1])
    assert stats.broken_query == 1


def test_kernels_get_documents_by_descending_score_ties_in_input_order():
    rng = np.random.default_rng(0)
    sizes = [1, 23, 24, 25, 60, 200]
    scores = rng.integers(0, 9, sum(sizes)).astype(float)
    out, _ = drive(positions, scores, np.zeros(sum(sizes)), sizes, unit_hessian=False)
    expected, start = [], 0
    for size in sizes:
        order = np.argsort(-scores[start : start + size], kind="stable")
        expected += list(np.argsort(order) + 1.0)
        start += size
    assert list(out.grad) == expected


def test_empty_queries_and_no_queries_pass():
    assert drive(echo, [1.0], [1.0], [0, 1, 0])[1].dead_queries == 2
    assert drive(echo, [], [], [])[1].scale == 1.0


def test_one_thread_too_comes_back_between_blocks_of_queries_to_hear_of_ctrl_c(monkeypatch):
    blocks = []

    def interrupted(work, items, threads):
        blocks.extend(items)
        return [work(item) for item in items]

    monkeypatch.setattr(driver, "_DOCUMENTS_A_TASK", 4)
    monkeypatch.setattr(driver, "run_parallel", interrupted)
    drive(echo, np.zeros(12), np.arange(12.0), [3, 3, 3, 3], threads=1)
    assert len(set(blocks)) > 1


def test_threads_share_the_work_and_give_the_same_bytes():
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 90, 1500)
    scores, gains = rng.normal(size=sizes.sum()), rng.random(sizes.sum())
    single, stats_single = drive(echo, scores, gains, sizes)
    for threads in (2, 7):
        many, stats_many = drive(echo, scores, gains, sizes, threads=threads)
        assert single.grad.tobytes() == many.grad.tobytes()
        assert single.hess.tobytes() == many.hess.tobytes()
        assert (stats_single.loss, stats_single.scale, stats_single.floored) == (
            stats_many.loss,
            stats_many.scale,
            stats_many.floored,
        )


def spec_of(kernel):
    return ObjectiveSpec("broken-on-purpose", kernel, prepare=no_constants)


def test_the_docstring_of_a_module_describes_only_what_a_declaration_leaves_out():
    spec = ObjectiveSpec(
        "own", nan_from_three_on, equation="s_i", deviation="none", prepare=no_constants
    )
    assert (spec.equation, spec.deviation) == ("s_i", "none")


@objective_kernel
def nan_from_three_on(
    scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch
):
    """NaN in queries of three documents."""
    for i in range(scores.shape[0]):
        grad[i] = np.nan if scores.shape[0] == 3 else 1.0
        hess[i] = 1.0
    return 0.0


def test_a_broken_kernel_stops_training_and_is_named_with_round_query_and_scores():
    index = QueryIndex(np.array([0, 2, 5]), np.array([41, 42]))
    bound = Objective(spec_of(nan_from_three_on)).bind([0, 1, 0, 1, 2], index)
    with pytest.raises(
        TrainingError,
        match=r"'broken.*round 7, query 42 .* 2 to 4",
    ):
        bound.gradient([0.0, 1.0, 2.0, 3.0, 4.0], 7)


def test_scores_that_are_not_finite_are_named_as_the_cause():
    bound = Objective("sdcg").bind([0, 1, 0, 1], QueryIndex.from_sizes([2, 2]))
    with pytest.raises(TrainingError, match=r"query 1 .*1 of its 2 scores"):
        bound.gradient([0.0, 1.0, np.nan, 3.0], 3)


def test_nothing_to_learn_at_the_start_is_an_error_with_its_cause():
    with pytest.raises(TrainingError, match="the same gain"):
        Objective("sdcg").bind([1, 1, 0, 0], QueryIndex.from_sizes([2, 2])).gradient(np.zeros(4), 0)
    cold = Objective("smooth-ndcg", mix=0.0, sigma=1.0)
    with pytest.raises(TrainingError, match="needs a warm start"):
        cold.bind([1, 0], QueryIndex.from_sizes([2])).gradient(np.zeros(2), 0)


@objective_kernel
def slot(scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch):
    """Gradient = the first parameter."""
    for i in range(scores.shape[0]):
        grad[i] = params[0]
        hess[i] = 1.0
    return params[0]


def test_a_slot_of_the_parameters_may_have_a_value_a_query_and_the_others_stay():
    params = np.array([7.0, 1.0])
    out, _ = drive(
        slot,
        np.zeros(5),
        np.zeros(5),
        [2, 3],
        params=params,
        unit_hessian=False,
        slot=0,
        slot_values=np.array([4, 9]),
    )
    assert list(out.grad) == [4, 4, 9, 9, 9]
    assert list(out.loss) == [4, 9]
    assert list(params) == [7.0, 1.0]


def test_draws_average_loss_gradient_and_hessian():
    noise = {"noise": GAUSSIAN, "temperature": 2.0}
    scores, gains = np.array([1.0, -1.0, 2.0]), np.array([1.0, 3.0, 2.0])
    out, _ = drive(
        echo, scores, gains, [3], unit_hessian=False, composition=Composition(draws=2, **noise)
    )
    drawn = np.empty((2, 3))
    for draw in range(2):
        for i in range(3):
            u = hashed_uniform(0.0, 0, 2 * (3 * draw + i))
            v = hashed_uniform(0.0, 0, 2 * (3 * draw + i) + 1)
            drawn[draw, i] = scores[i] + 2.0 * np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    assert out.grad == pytest.approx(drawn.mean(0), rel=1e-6)  # echo gives the scores that it sees
    assert list(out.hess) == [1.0, 3.0, 2.0]
    assert out.loss[0] == 3.0


def hashed_uniform(seed, stream, index):
    """`noise.uniform` in Python's own integers."""
    gamma, first, second, full = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 2**64

    def mix(z):
        z = ((z ^ (z >> 30)) * first) % full
        z = ((z ^ (z >> 27)) * second) % full
        return z ^ (z >> 31)

    key = mix((mix((int(seed) + gamma) % full) + (stream + 1) * gamma) % full)
    return ((mix((key + (index + 1) * gamma) % full) >> 12) + 0.5) / 2**52


def test_control_comes_before_normalisation_and_both_before_weights():
    scores = np.array([3.0, 1.0, -1.0])
    overlay = {"control": 1.0, "normalize": L1}
    out, _ = drive(
        positions,
        scores,
        np.zeros(3),
        [3],
        [5.0],
        unit_hessian=False,
        composition=Composition(**overlay),
    )
    # Ranks 1, 2, 3 against centred scores 2, 0, -2: only the mean is left, and three equal
    # gradients of a third.
    assert out.grad == pytest.approx([5 / 3] * 3)
    assert out.hess == pytest.approx([5 / 6] * 3)
    logged, _ = drive(
        echo,
        [3.0, 4.0],
        [1.0, 2.0],
        [2],
        unit_hessian=False,
        composition=Composition(normalize=LOG),
    )
    assert logged.grad == pytest.approx(np.array([3, 4]) * 3 / 7)
    assert logged.hess == pytest.approx(np.array([1, 2]) * 3 / 7)
    nothing, _ = drive(
        echo, [0.0, 0.0], [1.0, 2.0], [2], unit_hessian=False, composition=Composition(normalize=L1)
    )
    assert list(nothing.hess) == [1, 2]


def test_mixed_forces_are_added_in_float64_and_judged_anew():
    ptr, parts = np.array([0, 2, 3]), []
    for scores in ([1.0, -1.0, 1e39], [1.0, 1.0, -1e39]):
        part = Buffers.allocate(3, 2, np.float64)
        s = np.array(scores)
        run_kernel(
            echo,
            QueryData(s, np.ones(3), ptr, np.ones(2), np.zeros((3, 0)), np.zeros((2, 0))),
            np.zeros(0),
            part,
        )
        parts.append(part)
    assert parts[0].broken_query == 1  # float32 cannot hold it
    assert parts[0].magnitude[0] == 2.0
    out = Buffers.allocate(3, 2)
    mix_gradients(parts, (0.25, 0.75), ptr, out)
    assert list(out.grad[:2]) == [1.0, 0.5]
    assert list(out.hess[:2]) == [1.0, 1.0]
    assert list(out.loss) == [2.0, 1.0]
    assert list(out.magnitude[:1]) == [1.5]
    assert finish(ptr, out).broken_query == 1
    parts[0].grad[2], parts[1].grad[2] = 2.0, 3.0
    mix_gradients(parts, (1.0, 0.0), ptr, out)
    assert finish(ptr, out, unit_hessian=False).broken_query == -1
    assert list(out.grad) == [1.0, -1.0, 2.0]
