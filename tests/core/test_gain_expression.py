"""Expressions of gains: NumPy's values, and nothing else gets through."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.core.conventions import (
    FUNCTIONS,
    MOST_CHARACTERS,
    GainExpression,
    expression_of,
    parse_gain,
    rule_of,
)
from boostrank.core.errors import ParameterError

LABEL, MARGIN = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.5, 7.0])
COLUMNS = {
    "label": LABEL,
    "margin": MARGIN,
    "über preis-2": MARGIN * 2,
    "f.1": LABEL,
    "if": LABEL,
    "lambda": LABEL,
    "ﬁ": 2 * LABEL - LABEL**2,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.7*label + 0.3*log1p(margin)", 0.7 * LABEL + 0.3 * np.log1p(MARGIN)),
        ("label", LABEL),
        ("2**label**0.5", 2 ** (LABEL**0.5)),
        ("-label**2", -(LABEL**2)),
        ("2**-label", 2.0**-LABEL),
        ("--label", LABEL),
        ("8/2/2*label - 1 - 1", 2 * LABEL - 2),
        ("1e-2*(label+.5) - +1.", 0.01 * (LABEL + 0.5) - 1.0),
        ("`über preis-2` + f.1", MARGIN * 2 + LABEL),
        ("(label >= 2) * margin", (LABEL >= 2) * MARGIN),
        ("label + 1 < margin", (LABEL + 1 < MARGIN) * 1.0),
        ("where(label == 0, 0, exp2(label) - 1)", np.exp2(LABEL) - 1),
        (
            "max(label, margin, 1) - min(margin, 2)",
            np.maximum(np.maximum(LABEL, MARGIN), 1) - np.minimum(MARGIN, 2),
        ),
        ("clip(margin, 1, 3)", np.clip(MARGIN, 1, 3)),
        (
            "sqrt(margin) + abs(-label) + exp(label) + log(1+label)",
            np.sqrt(MARGIN) + LABEL + np.exp(LABEL) + np.log(1 + LABEL),
        ),
        ("+".join(["label"] * 80), 80 * LABEL),
        ("-" * 80 + "label", LABEL),
        ("if*lambda + ﬁ", 2 * LABEL),
        ("(abs)(-label)", LABEL),
    ],
)
def test_values_are_numpys(text, expected):
    assert GainExpression(text).evaluate(COLUMNS) == pytest.approx(expected, rel=1e-14)


_LEAVES = st.one_of(st.sampled_from(["label", "margin"]), st.floats(0.0, 100.0).map(repr))
_TEXTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        inner.map(lambda t: f"-{t}"),
        st.tuples(st.sampled_from(["abs", "exp", "log1p", "sqrt"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
    ),
    max_leaves=12,
)
_NUMPY = {name: getattr(np, name) for name in ("abs", "exp", "log1p", "sqrt")} | {
    "max": np.maximum,
    "min": np.minimum,
}


@given(_TEXTS)
def test_values_are_those_that_python_gives_the_same_text(text):
    text = f"{text} + label"
    with np.errstate(all="ignore"):
        expected = eval(
            text,
            {"__builtins__": {}},
            {**_NUMPY, "label": LABEL, "margin": MARGIN, "inf": math.inf},
        )
    np.testing.assert_array_equal(GainExpression(text).evaluate(COLUMNS), expected)


@given(st.text("labelmaxf1() +-*/<>=.,`'[]#_0é", max_size=30))
def test_any_text_is_an_expression_or_refused(text):
    try:
        expression = GainExpression(text)
    except ParameterError:
        return
    assert expression.columns


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os')", "cannot read"),
        ("label.__class__()", "no function 'label.__class__'"),
        ("label.real(1)", "no function 'label.real'"),
        ("eval(label)", "no function 'eval'"),
        ("log2(label)", "Did you mean"),
        ("label[0]", "cannot read '\\['"),
        ("lambda: label", "cannot read ':'"),
        ("label if 1 else 0", "an expression has numbers"),
        ("label; 1", "cannot read ';'"),
        ("label # 1", "cannot read '#'"),
        ("label // 2", "'label // 2' is not allowed"),
        ("(label, 1)", "is not allowed"),
        ("max(*label)", "not 1"),
        ("max(label, *label)", "'\\*label' is not allowed"),
        ("max(a=label)", "is not allowed"),
        ("not label", "an expression has numbers"),
        ("(label", "an expression has numbers"),
        ("label +", "an expression has numbers"),
        ("1 < label < 2", "'1 < label < 2' is not allowed"),
        ("min(label)", "takes 2 to 20 arguments, not 1"),
        ("clip(label, 1)", "takes 3 arguments, not 2"),
        ("log(label, 2)", "takes 1 arguments, not 2"),
        ("2label", "an expression has numbers"),
        ("0x10 + label", "an expression has numbers"),
        ("1_000 * label", "an expression has numbers"),
        ("1j * label", "an expression has numbers"),
        ("1 + 2", "names no column"),
        ("(" * 990 + "label" + ")" * 990, "nested"),
        ("label+" * 300 + "1", "nested"),
        ("label+" * MOST_CHARACTERS + "1", "12,001 characters"),
        ("", "an expression has numbers"),
    ],
)
def test_text_that_is_no_expression_is_refused(text, words):
    with pytest.raises(ParameterError, match=words):
        GainExpression(text)


def test_huge_powers_overflow_and_nothing_more():
    assert np.isinf(GainExpression("(label+2)**99999**99").evaluate(COLUMNS)).all()
    assert np.isinf(GainExpression("9**9**9**9*label").evaluate(COLUMNS)[1:]).all()


def test_what_is_missing_stays_missing_and_isnan_tells():
    columns = {"label": LABEL, "margin": np.array([np.nan, 1.0, 2.0, 3.0])}
    for text in (
        "margin",
        "margin > 0",
        "margin == margin",
        "where(margin, 1, 2)",
        "max(margin, 0)",
        "clip(margin, 0, 1)",
        "margin ** 0",
        "1 ** margin",
    ):
        values = GainExpression(text).evaluate(columns)
        assert np.isnan(values[0])
        assert np.isfinite(values[1:]).all()
    assert list(GainExpression("where(isnan(margin), 0, margin)").evaluate(columns)) == [
        0.0,
        1.0,
        2.0,
        3.0,
    ]


def test_words_and_tables_are_no_expressions():
    assert [
        expression_of(gain) for gain in ("linear", "EXPONENTIAL", "0,1,3", "5", [0, 1], None, "")
    ] == [None] * 7
    assert rule_of("label + f1") == "linear"
    assert rule_of("0,1,3") == (0.0, 1.0, 3.0)
    with pytest.raises(ParameterError, match=r"with_gain"):
        parse_gain("label + f1")
    with pytest.raises(ParameterError, match=r"gain='lineer': .*'linear'"):
        parse_gain("lineer")
    assert set(FUNCTIONS) >= {
        "log1p",
        "log",
        "exp",
        "exp2",
        "sqrt",
        "min",
        "max",
        "abs",
        "clip",
        "where",
    }
