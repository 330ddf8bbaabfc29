"""Conditions read as they are written, and what does not read is shown where it stands."""

from __future__ import annotations

import pytest

from boostrank.core.errors import ParameterError
from boostrank.reporting.comparison import Condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("ndcg@10 < -0.002 at p<0.05", Condition("ndcg@10", "<", -0.002, 0.05)),
        ("map<=0", Condition("map", "<=", 0.0)),
        ("  NDCG@5>=1e-3  AT P < .01 ", Condition("ndcg@5", ">=", 1e-3, 0.01)),
        ("mrr > +2.", Condition("mrr", ">", 2.0)),
        ("low( ndcg@10 )<-0.01", Condition("ndcg@10", "<", -0.01, None, "low")),
    ],
)
def test_a_condition_reads_as_it_is_written_and_prints_what_reads_the_same(
    text: str, condition: Condition
) -> None:
    assert Condition.parse(text.lower()) == condition
    assert Condition.parse(str(condition)) == condition


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ndgc@10 < 0", "Did you mean 'ndcg'"),
        ("ndcg@1,3 < 0", "one cut-off"),
        ("ndcg@10 < 0 at p<5", "between 0 and 1"),
        ("ndcg@10 < 0 at p<0", "between 0 and 1"),
        *(
            (text, "METRIC < NUMBER")
            for text in (
                "",
                "< 0",
                "ndcg@10",
                "ndcg@10 = 0",
                "ndcg@10 == 0",
                "ndcg@10 << 0",
                "ndcg@10 < -0.002x",
                "ndcg@10 < nan",
                "ndcg@10 < 1_0",
                "ndcg@10 < 0 p<0.05",
                "ndcg@10 < 0 at 0.05",
                "ndcg@10 < 0 at p>0.05",
                "ndcg@10 < 0 at p<",
                "ndcg@10 < 0 at p<0.05 in mobile",
                "ndcg@10 < 0 in any",
                "ndcg@10 < 0 and map < 0",
            )
        ),
    ],
)
def test_text_that_is_no_condition_is_refused(text: str, words: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Condition.parse(text)
    assert f"condition {text!r}: " in str(refused.value)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "difference", "p", "holds"),
    [
        ("map < -0.01", -0.02, 1.0, True),
        ("map < -0.01", -0.01, 0.0, False),
        ("map <= -0.01", -0.01, 0.0, True),
        ("map > 0.01", 0.02, 1.0, True),
        ("map >= 0.01", 0.009, 0.0, False),
        ("map < -0.01 at p<0.05", -0.02, 0.049, True),
        ("map < -0.01 at p<0.05", -0.02, 0.05, False),
        ("map < -0.01 at p<0.05", -0.005, 0.0001, False),
    ],
)
def test_a_condition_holds_beyond_its_bound_and_below_its_p_value(
    text: str, difference: float, p: float, holds: bool
) -> None:
    assert Condition.parse(text).holds(difference, p) is holds
