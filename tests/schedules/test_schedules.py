"""Schedules: their ends, their text, and eq (19)'s numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.core.errors import ParameterError
from boostrank.core.types import Schedule
from boostrank.schedules import Joined, Shape, is_schedule_text, parse_schedule


@pytest.mark.fault(72)
@pytest.mark.parametrize(
    ("schedule", "first", "last"),
    [
        ("constant(0.5)", 0.5, 0.5),
        ("geometric(64, 0.015625)", 64.0, 1 / 64),
        ("linear(1, 0)", 1.0, 0.0),
        ("steps(3, 2, 1)", 3.0, 1.0),
    ],
)
def test_ends_are_met_and_held_afterwards(schedule, first, last):
    over = parse_schedule(schedule).scale_to(100)
    assert over(0) == pytest.approx(first, rel=1e-15)
    assert over(99) == pytest.approx(last, rel=1e-15)
    assert over(10_000) == pytest.approx(last, rel=1e-15)
    assert not over.needs_total


def test_geometric_multiplies_by_the_same_factor_each_round():
    schedule = parse_schedule("geometric(64, 0.015625, rounds=13)")
    assert [schedule(m) for m in range(13)] == pytest.approx([2.0 ** (6 - m) for m in range(13)])


def test_linear_and_steps_in_between():
    linear, steps = map(parse_schedule, ("linear(1, 0, rounds=5)", "steps(1, 2, rounds=5)"))
    assert [linear(m) for m in range(5)] == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    assert [steps(m) for m in range(6)] == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(("total", "theta"), [(250, 8.9754), (600, 21.6423)])
def test_logistic_is_the_papers_mixing_schedule(total, theta):
    mix = parse_schedule("logistic").scale_to(total)
    assert mix(0) == pytest.approx(0.999999, abs=1e-12)
    assert mix(total // 2 - 1) == pytest.approx(0.5, abs=1e-12)
    assert mix(total - 1) == pytest.approx(9e-7, rel=0.1)
    # One theta after the middle the odds have fallen by e.
    slope = math.log(1 / mix(total // 2) - 1)
    assert 1 / slope == pytest.approx(theta, rel=1e-4)


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5])
def test_logistic_is_defined_and_falls_in_the_shortest_trainings(total):
    mix = parse_schedule("logistic").scale_to(total)
    values = [mix(m) for m in range(total + 3)]
    assert all(0 <= v <= 1 for v in values)
    assert all(a > b for a, b in pairwise(values) if a > 0)


def test_logistic_long_past_its_end_is_zero_and_does_not_overflow():
    assert parse_schedule("logistic(rounds=10)")(10**6) == 0.0


def test_joined_counts_the_second_part_from_its_start_and_gives_it_the_remaining_rounds():
    schedule = parse_schedule("joined(constant(64); geometric(64, 1); at=20)").scale_to(30)
    assert schedule(0) == schedule(19) == schedule(20) == 64.0
    assert schedule(29) == pytest.approx(1.0)
    assert parse_schedule("joined(constant(1); constant(0); at=0)")(0) == 0.0
    assert parse_schedule("joined(constant(1); linear(1, 0); at=50)").scale_to(20)(60) == 0.0


def test_joined_schedules_nest():
    text = "joined(constant(3); joined(constant(2); constant(1); at=5); at=10)"
    schedule = parse_schedule(text)
    assert [schedule(m) for m in (9, 10, 14, 15)] == [3, 2, 2, 1]
    assert str(schedule) == text


numbers = st.floats(1e-6, 1e6)
rounds = st.none() | st.integers(1, 5000)
simple = (
    st.builds(Shape, st.just("constant"), st.tuples(numbers))
    | st.builds(
        Shape, st.sampled_from(["geometric", "linear"]), st.tuples(numbers, numbers), rounds
    )
    | st.builds(Shape, st.just("logistic"), st.just(()), rounds)
    | st.builds(
        Shape, st.just("steps"), st.lists(numbers, min_size=1, max_size=4).map(tuple), rounds
    )
)


@given(
    st.recursive(
        simple, lambda part: st.builds(Joined, part, part, st.integers(0, 100)), max_leaves=4
    )
)
def test_text_parses_back_to_the_same_schedule(schedule):
    again = parse_schedule(str(schedule))
    assert again == schedule
    assert isinstance(again, Schedule)
    assert is_schedule_text(str(schedule))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("geometrc(1, 2)", "Did you mean 'geometric'"),
        ("geometric(1)", "cannot be read: geometric takes start, stop"),
        ("geometric(1, 0)", "above 0"),
        ("geometric(-1, 2)", "above 0"),
        ("linear(1, x)", "cannot be read"),
        ("linear(1, inf)", "finite"),
        ("linear(1, 0, rounds=0)", "at least 1"),
        ("linear(1, 0, length=5)", "rounds=N"),
        ("steps()", "cannot be read: steps takes one or more"),
        ("constant(1, 2)", "cannot be read"),
        ("joined(constant(1); at=3)", "cannot be read"),
        ("joined(constant(1); constant(2); at=-1)", "at least 0"),
    ],
)
def test_text_that_is_no_schedule_is_refused_with_the_reason(text, words):
    with pytest.raises(ParameterError, match=words.replace("(", r"\(")):
        parse_schedule(text)


def test_a_schedule_without_length_says_so():
    for text in ("geometric(1, 2)", "linear(0, 1)", "logistic", "steps(1)"):
        schedule = parse_schedule(text)
        assert schedule.needs_total
        with pytest.raises(ParameterError, match="length of"):
            schedule(0)


@pytest.mark.parametrize("word", ["log", "linear", "0.5", "softplus", "constant", 3, None])
def test_plain_words_are_not_schedules(word):
    assert not is_schedule_text(word)
