"""The page of a comparison: whole, quiet, and deaf to what files try to say to a browser."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import MissingDependency
from boostrank.data.dataset import RankingDataset
from boostrank.reporting.comparison import Comparison, compare
from boostrank.reporting.rank_changes import Ranker

EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
VOID = {"meta"}


class Page(HTMLParser):
    """Elements, attributes and text of a page whose elements must nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append((self.elements[-1][1].get("type"), data))
        else:
            self.texts.append(data)

    def count(self, name: str, /, **attributes: str) -> int:
        return sum(n == name and attributes.items() <= a.items() for n, a in self.elements)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Queries, documents, segments, features and rankers, all with names that are markup."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=600)), 0, 2)
    qid = [f"{EVIL}{i // 15}" for i in range(600)]
    names = [f"{EVIL}f{i}" for i in range(3)]
    data = RankingDataset.from_arrays(X, y, qid=qid, feature_names=names)
    data = replace(data, document_names=[EVIL] * 600)
    model = boostrank.train({"objective": "regression", "num_threads": 1, "verbose": -1}, data, 3)
    old = Ranker(f"{EVIL}old", model.predict(data))
    new = Ranker(f"{EVIL}new", rng.normal(size=600))
    return compare(
        old,
        new,
        data,
        ["ndcg@10", "map"],
        segments={q: f"{EVIL}{q[-1]}" for q in qid},
        fail_if=["ndcg@10 < 0", "map > 0"],
    )


@pytest.fixture(scope="module")
def text(comparison: Comparison) -> str:
    return comparison.to_html(f"{EVIL}data")


def policy_of(page: Page) -> str:
    return next(str(a["content"]) for n, a in page.elements if n == "meta" and "http-equiv" in a)


def test_nothing_that_comes_from_files_becomes_markup(text: str) -> None:
    page = Page(text)
    names = {name for name, _ in page.elements}
    assert names.isdisjoint({"img", "iframe", "object", "link", "form"})
    assert not [
        key for _, attributes in page.elements for key in attributes if key.startswith("on")
    ]
    assert text.count("<script") == page.count("script") == len(page.scripts)
    # Ours alone may name it.
    assert "<img" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    for what in ("old", "new", "data"):
        assert any(f"{EVIL}{what}" in fragment for fragment in page.texts), what
    assert any(f"{EVIL}1" in fragment for fragment in page.texts)


def test_only_our_scripts_run_and_the_page_asks_for_nothing(text: str) -> None:
    page = Page(text)
    policy = policy_of(page)
    assert policy.startswith(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src 'sha256-"
    )
    assert "unsafe-eval" not in policy
    run = [script for kind, script in page.scripts if kind is None]
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in run}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes
    assert {kind for kind, _ in page.scripts} == {None}
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(
        r"\b(src|href)=(?!\"#)|url\(|@import|https?:", markup.replace("&lt;img src=x", "")
    )


def test_the_page_is_readable_on_a_phone_in_the_dark_and_by_keyboard(text: str) -> None:
    page = Page(text)
    assert page.count("meta", name="viewport", content="width=device-width, initial-scale=1") == 1
    assert "color-scheme: light dark" in text
    assert page.count("tr", **{"class": "detail"}) == 20
    assert all(
        a.get("aria-label") for n, a in page.elements if n == "svg" or a.get("role") == "img"
    )


def test_everything_is_there_without_a_script(text: str, comparison: Comparison) -> None:
    page = Page(text)
    segments = [s for s in comparison.segments if s.metric == "ndcg@10"]
    assert sum(
        str(a.get("class")).startswith("whisker") for n, a in page.elements if n == "svg"
    ) == 2 + len(segments)
    assert sum(fragment.startswith(("Fails", "Passes")) for fragment in page.texts) == 2
    numbers = [
        float(str(a[key])) for n, a in page.elements for key in ("x1", "x2", "cx") if key in a
    ]
    assert np.isfinite(numbers).all()
    assert min(numbers) >= 0
    assert max(numbers) <= 120
    page_text = "\t".join(filter(str.strip, page.texts))
    for r in comparison.regressions:
        assert f"{r.old:.4f}\t{r.new:.4f}\t{r.new - r.old:+.4f}" in page_text
    assert f"{comparison.metrics['map'].mean:+.4f}" in page_text
    assert f"new in the top 10\t{comparison.churn.changed:.1%}" in page_text


def test_the_page_has_no_charts_and_is_small(text: str) -> None:
    assert len(text) < 200_000
    assert "vegaEmbed" not in text.replace("window.vegaEmbed", "")


def test_without_the_extra_the_error_says_what_to_install(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependency, match="boostrank\\[report\\]"):
        comparison.to_html()


def test_rankers_that_agree_make_a_page_too() -> None:
    data = RankingDataset.from_arrays(np.zeros((4, 1)), [1, 0, 1, 0], group=[2, 2])
    page = Page(compare([1, 2, 1, 2], [1, 2, 1, 2], data).to_html())
    page_text = "".join(page.texts)
    assert "is not significantly different" in page_text
    assert "No query got worse." in page_text
    assert "new in the top 10" not in page_text
