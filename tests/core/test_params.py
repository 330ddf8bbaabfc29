"""Parameters: one declaration, its types, its words, its messages."""

from __future__ import annotations

import pytest

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param, find_param, resolve_params

SIGMA = Param("sigma", 1.0, "width", low=0.0, open_low=True, aliases=("temperature",))
K = Param("k", 0, "cut", low=0)
SWITCH = Param("norm_query", True, "normalise")
CHOICE = Param("shf_kernel", "softplus", "hinge", choices=("softplus", "tangent"))
BLEND = Param(
    "train_discount", 0.0, "discount", low=0.0, high=1.0, levels=(("log", 0.0), ("linear", 1.0))
)


@pytest.mark.parametrize(
    ("param", "raw", "value"),
    [
        (SIGMA, "0.5", 0.5),
        (SIGMA, 2, 2.0),
        (K, "10", 10),
        (K, 3.0, 3),
        (SWITCH, "off", False),
        (SWITCH, "Yes", True),
        (SWITCH, False, False),
        (CHOICE, " Tangent ", "tangent"),
        (BLEND, "linear", 1.0),
        (BLEND, "LOG", 0.0),
        (BLEND, 0.25, 0.25),
        (Param("form", "L1", "", choices=("L1", "L2")), "l2", "L2"),
        (Param("blend", 0.5, "", levels=(("Log", 0.0),)), "log", 0.0),
        (K, 2**53 - 1, 2**53 - 1),
    ],
)
def test_values_take_the_type_of_the_default(param, raw, value):
    parsed = param.parse(raw)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("param", "raw", "words"),
    [
        (SIGMA, 0, "sigma=0 is out of range; allowed: > 0"),
        (SIGMA, "nan", "out of range"),
        (SIGMA, "inf", "out of range"),
        (SIGMA, "wide", "not a number"),
        (SIGMA, True, "not a number"),
        (SIGMA, None, "not a number"),
        (K, -1, "allowed: >= 0"),
        (K, 2.5, "not a whole number"),
        (K, "inf", "not a whole number"),
        (K, 10**400, "not a number"),
        (K, 2**53 + 1, "out of range"),
        (SWITCH, "perhaps", r"true \| false"),
        (CHOICE, "softmax", r"softplus \| tangent"),
        (BLEND, 1.5, r"log \| linear \| 0 to 1"),
        (BLEND, "steep", r"log \| linear"),
    ],
)
def test_values_out_of_range_are_refused_with_the_range(param, raw, words):
    with pytest.raises(ParameterError, match=words):
        param.parse(raw)


def test_kernels_see_numbers():
    assert CHOICE.encode("tangent") == 1.0
    assert SWITCH.encode(True) == 1.0
    assert BLEND.encode(0.25) == 0.25


def test_names_ignore_case_dashes_and_underscores():
    assert find_param("SHF-Kernel", [SIGMA, CHOICE]) is CHOICE
    assert find_param("Temperature", [SIGMA, CHOICE]) is SIGMA
    assert find_param("sigm", [SIGMA, CHOICE]) is None


def test_names_of_parameters_and_aliases_are_resolved():
    assert resolve_params((SIGMA, K), {"temperature": 2, "K": 3}, owner="x") == {"sigma": 2, "k": 3}
    with pytest.raises(ParameterError, match=r"'sigm'.* 'sigma'.*: k, sigma"):
        resolve_params((SIGMA, K), {"sigm": 2}, owner="x")
    with pytest.raises(ParameterError, match="'sigma' and 'temperature'"):
        resolve_params((SIGMA, K), {"sigma": 1, "temperature": 2}, owner="x")
    with pytest.raises(ParameterError, match="It has none"):
        resolve_params((), {"sigma": 1}, owner="x")


def test_kinds_and_ranges_in_words():
    assert [p.kind for p in (SIGMA, K, SWITCH, CHOICE)] == ["number", "integer", "switch", "choice"]
    assert Param("x", 1.0, "").range == "any"
    assert Param("x", 1.0, "", high=2.0).range == "<= 2"
    assert SWITCH.range == "true | false"
