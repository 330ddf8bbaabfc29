"""Tables in notebooks: small, and names in them are text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np

import boostrank
from boostrank.core.text import small_table
from boostrank.diagnosis import Finding, Findings, Severity
from boostrank.reporting import compare, why
from boostrank.reporting.page import Report

HOSTILE = "<script>alert('x')</script>\"&"


class Tags(HTMLParser):
    """Tags and text of a fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def check(displayed: Any, *also: str) -> None:
    html = displayed._repr_html_()
    tags = Tags(html)
    assert tags.names <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert tags.attributes <= {"style"}
    assert len(html) < 8000
    for text in (HOSTILE, *also):
        assert text in tags.text


def data() -> boostrank.RankingDataset:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    return boostrank.RankingDataset.from_arrays(
        X, np.digitize(X[:, 0], [0.0, 1.0]), group=[20] * 10, feature_names=[HOSTILE, "b"]
    )


def test_a_comparison_prints_as_html() -> None:
    rows = data()
    comparison = compare(rows.labels, np.arange(200.0), rows, fail_if="ndcg@10 < 0")
    object.__setattr__(comparison, "old", HOSTILE)
    check(comparison, f"{comparison.metrics['ndcg@10'].new:.4g}", "holds")


def test_a_report_prints_as_html() -> None:
    params = {"objective": "regression", "verbosity": -1, "num_threads": 1}
    model = boostrank.train(params, data(), 1)
    check(Report(HOSTILE, "d", "about", {}, {"verdict": HOSTILE}, model), "no verdict")


def test_findings_print_as_html() -> None:
    findings = [Finding(HOSTILE, Severity.WARNING, HOSTILE, 3, 0, 1, HOSTILE, "costly", "mend it")]
    check(Findings(findings * 30), "warning", "mend it", "and 10 more")
    assert Findings(findings) == findings
    assert "nothing found" in Findings()._repr_html_()


def test_long_text_is_cut() -> None:
    assert len(small_table("t", [("x" * 10_000,)])) < 600


def test_why_shows_the_two_documents_and_what_each_feature_adds() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    X[3, 1] = np.nan
    data = boostrank.RankingDataset.from_arrays(
        X, X[:, 0] > 0, qid=np.repeat([HOSTILE, "2", "3", "4"], 10), feature_names=[HOSTILE, "b"]
    )
    params = {"objective": "lambdarank", "min_data_in_leaf": 2, "verbose": -1, "num_threads": 1}
    model = boostrank.train(params, data, 2)
    explanation = why(model, data, HOSTILE, "@1", "@10", threads=1)
    check(explanation, "rank", f"{explanation.difference:+.4g}", "part of A")
