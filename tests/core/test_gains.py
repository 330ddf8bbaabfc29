"""Labels to gains."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.conventions import gains_from_labels, parse_gain
from boostrank.core.errors import DataError, ParameterError


def test_linear_exponential_and_listed_gains():
    assert list(gains_from_labels([0, 1, 2, 4])) == [0, 1, 3, 15]
    assert list(gains_from_labels([0, 0.5, 3], "linear")) == [0, 0.5, 3]
    assert list(gains_from_labels([2, 0, 1], "0,1,10")) == [10, 0, 1]
    assert list(gains_from_labels([2, 0], [0, 1, 10])) == [10, 0]
    assert gains_from_labels([0.5])[0] == pytest.approx(2**0.5 - 1)
    assert gains_from_labels([]).size == 0


def test_the_result_is_never_the_callers_array():
    labels = np.array([1.0, 2.0])
    labels.setflags(write=False)
    gains = gains_from_labels(labels, "linear")
    gains[0] = 9.0
    assert labels[0] == 1.0


def test_words_have_any_case():
    assert parse_gain(" Exponential ") == "exponential"


@pytest.mark.parametrize(
    "gain",
    [
        "cubic",
        "exp",
        "identity",
        "",
        "0,-1",
        "0,3,1",
        "0,nan",
        [],
        [0, np.inf],
        None,
        3,
        {0: 0, 1: 9},
    ],
)
def test_a_wrong_gain_is_refused(gain):
    with pytest.raises(ParameterError):
        parse_gain(gain)


@pytest.mark.parametrize(
    ("labels", "gain", "words"),
    [
        ([0, np.nan], "linear", "row 1 .*label nan"),
        ([0, -1], "linear", r"row 1 \(from 0\): label -1 is negative"),
        ([0, 32], "exponential", "above 31"),
        ([0, 3], "0,1,2", r"row 1 .*label 3 has no entry"),
        ([0.5], "0,1,2", "no entry"),
    ],
)
def test_labels_that_a_rule_cannot_take_are_named(labels, gain, words):
    with pytest.raises(DataError, match=words):
        gains_from_labels(labels, gain)
