"""What pages are made of: tables, charts, parts with names, and what is said when something is
missing.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup

from boostrank.core.errors import MissingDependency, TrainingError
from boostrank.reporting import html as pages
from boostrank.reporting.html import (
    Chart,
    data_text,
    environment,
    fixed,
    need_report_extra,
    table_html,
    theme,
    vega_script,
)
from boostrank.reporting.section import PageSection, page
from boostrank.reporting.sections.importance import SPEC, Effect, Importance
from boostrank.reporting.table import Cell, Column, Table

EVIL = "</script><img src=x onerror=alert(1)>"


def chart(name: str = "lines", values: Any = (1.0, 1 / 3, np.nan)) -> Chart:
    frame = pd.DataFrame({"series": [EVIL] * len(values), "x": range(len(values)), "y": values})
    figure = (
        alt.Chart(frame)
        .mark_line()
        .encode(x="x:Q", y="y:Q", color="series:N")
        .properties(height=100)
    )
    return Chart(name, frame, figure, "Lines", "They go up.")


def block(of: Chart) -> Any:
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', Markup(of))
    return json.loads(text)


def test_a_page_carries_the_numbers_of_a_chart_once_and_rounded() -> None:
    kept = block(chart())
    points = zip([EVIL] * 3, [0, 1, 2], [1.0, 0.333333333, None], strict=True)
    rows = [{"series": series, "x": x, "y": y} for series, x, y in points]
    assert kept["spec"]["datasets"] == {kept["numbers"]: rows}


@pytest.mark.parametrize(
    ("child", "words"),
    [
        ("import os; os.abort()", "cannot be built; .*ulimit -v.*SIGABRT"),
        (
            "raise ValueError('no such mark')",
            "cannot be built; .*ValueError: no such mark",
        ),
    ],
)
def test_a_script_that_is_not_built_ends_no_process(
    child: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vega_script.cache_clear()
    monkeypatch.setattr(pages, "_CHILD", child)
    with pytest.raises(TrainingError, match=words):
        vega_script()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(TrainingError, match="No such file"):
        vega_script()


def test_what_lies_in_the_current_folder_draws_no_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    vega_script.cache_clear()
    assert "window.vegaEmbed" in vega_script()


@pytest.mark.parametrize("module", ["altair", "vl_convert", "pandas"])
def test_without_the_extra_the_error_says_what_to_install(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=rf"{module}: pip install 'boostrank\[report\]'"):
        need_report_extra()


def test_a_page_without_charts_needs_no_library() -> None:
    text = page("Words", [PageSection("a", "A", Markup("<p>{}</p>").format("<b>"))])
    assert len(text) < 50_000
    assert "&lt;b&gt;" in text
    assert "<nav" not in text


def test_cells_are_shown_and_sorted_as_told() -> None:
    columns = [Column("name"), Column("x", format="+.2f"), Column("n", format="")]
    data = {"name": [EVIL, "b", "c"], "x": [1 / 3, float("nan"), Cell(0.5, "half", "better")]}
    details = [Markup("<p>inside</p>"), None, None]
    text = table_html(
        Table("t", data | {"n": [123456789, None, np.int64(7)]}, columns),
        details=details,
        order="-x",
    )
    assert text.count('<tr class="detail" id="t-0">') == text.count('class="detail"') == 1
    assert '<td class="number" data-value="0.333333333333"><bdi>+0.33</bdi></td>' in text
    assert '<td class="number" data-value="123456789"><bdi>123,456,789</bdi></td>' in text
    assert text.count('<td class="number" data-value=""><bdi>–</bdi></td>') == 2  # noqa: RUF001
    assert '<td class="number better" data-value="0.5"><bdi>half</bdi></td>' in text
    assert EVIL not in text
    assert text.count("aria-sort") == text.count('data-name="x" aria-sort="descending"') == 1


def test_a_column_of_fixed_format_has_three_digits_of_its_largest_value() -> None:
    assert [fixed([x, float("nan")]) for x in (0.0, 12345.0, 12.3, -1.0, 0.0123)] == [
        ".0f",
        ".0f",
        ".1f",
        ".2f",
        ".4f",
    ]
    assert fixed([0.5, -3.0], sign=True) == "+.2f"
    assert fixed([]) == ".0f"


def test_a_whisker_stays_on_its_scale_and_leaves_out_what_is_not_a_number() -> None:
    whisker = environment().globals["whisker"]
    drawn = whisker(0.0, -5.0, 1.0, (-2.0, 2.0))
    assert 'x1="0.0" x2="90.0"' in drawn
    assert 'cx="60.0"' in drawn
    assert "span" not in whisker(1.0, float("nan"), float("nan"), (-2.0, 2.0))
    assert 'cx="120.0"' in whisker(1.0, 0.0, 1.0, (-0.5, 1.0))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_row_without_a_mean_has_no_whisker(missing: float | None) -> None:
    data = {"mean": [0.5, missing], "low": [0.0, missing], "high": [1.0, missing]}
    column = Column("mean", format="+.2f", ends=("low", "high"), drawn=True)
    html = table_html(Table("t", {"name": ["a", "b"], **data}, ["name", column]))
    assert html.count("<svg") == 1
    assert html.count("–") == 4  # noqa: RUF001


def contrast(foreground: str, background: str) -> float:
    """WCAG 2.2's ratio of two colours written as #rrggbb."""

    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(foreground), luminance(background)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_and_marks_are_told_from_their_ground_in_both_themes() -> None:
    style = files("boostrank.reporting").joinpath("templates", "style.css").read_text("utf-8")
    pairs = {
        name: both
        for name, *both in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", style)
    }
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    for side in (0, 1):
        for name in ("text", "faint", "main", "better", "worse"):
            for ground in ("back", "soft"):
                assert contrast(pairs[name][side], pairs[ground][side]) >= 4.5, (name, ground, side)
        for colour in theme()["range"]["category"]:
            assert contrast(colour, pairs["back"][side]) >= 3.0, (colour, side)
        assert theme(dark=bool(side))["background"] == pairs["back"][side]


def test_data_cannot_leave_their_element() -> None:
    assert "</script><" not in data_text({"name": EVIL})
    with pytest.raises(ValueError, match="not JSON compliant"):
        data_text([float("nan")])
    assert "&lt;img" in environment().globals["key"](EVIL, EVIL, EVIL)


@pytest.fixture
def importances() -> Importance:
    """Six features of all kinds, with names that are markup."""
    names = tuple(f"{EVIL}{i}" for i in range(6))
    loss, none = np.array([0.2, 0.05, 0.0, -0.0001, 0.03, 0.0]), np.full(6, np.nan)
    # Losses with their intervals, gains, splits, words, clusters and counts.
    return Importance(
        "ndcg@10",
        0.75,
        0.7,
        0.8,
        names,
        loss,
        loss - 0.001,
        loss + 0.0005,
        none,
        np.array([9.0, 4.0, 3.0, 3.0, 1.0, 0.0]),
        np.array([9, 4, 3, 3, 1, 0]),
        np.full(6, 0.1),
        ("useful", "useful", "redundant", "removable", "query-level", "unused"),
        (Effect("cluster 1", names[1:3], 0.06, 0.05, 0.07, 0.95),),
        Effect("removable", names[3:4], 0.004, -0.001, 0.009),
        0.001,
        0.9,
        50,
        600,
        1200,
        0,
        2,
    )


def test_importance_is_told_with_its_intervals_and_what_is_removable(
    importances: Importance,
) -> None:
    text = page("importance", [SPEC.on_page(importances)])
    words = " ".join(re.sub(r"<script.*?</script>|<[^>]*>", "", text, flags=re.DOTALL).split())
    assert (
        "ndcg@10 is 0.7460 instead of 0.7500: a loss of +0.0040, -0.0010 to +0.0090 (95%)" in words
    )
    assert "Together they may matter" in words
    assert "a sample of whole queries out of 1,200 documents" in words
    assert "query-level: constant within each query" in words


@pytest.mark.parametrize(
    ("high", "low", "words"),
    [
        (0.0009, 0.0, "and also"),
        (0.009, -0.001, "but perhaps not"),
        (0.009, 0.002, "but not"),
    ],
)
def test_the_page_tells_removal_of_each_feature_from_removal_of_all(
    importances: Importance, high: float, low: float, words: str
) -> None:
    removed = Effect("removable", importances.feature_names[2:4], 0.004, low, high)
    brief = str(SPEC.on_page(replace(importances, removed=removed)).brief)
    assert (
        f" could be removed one at a time, {words} all together: without them, ndcg@10 is"
        " 0.7460, not" in brief
    )


def test_a_model_that_uses_nothing_has_a_page_too(importances: Importance) -> None:
    zeros = np.zeros(6)
    idle = replace(
        importances,
        verdicts=("unused",) * 6,
        gain=zeros,
        splits=zeros.astype(int),
        removed=None,
        clusters=(),
    )
    assert "in the model</dt><dd><b>0</b><span>of 6 features" in page(
        "importance", [SPEC.on_page(idle)]
    )


def test_rows_that_paper_leaves_out_are_counted() -> None:
    thirteen = table_html(Table("t", {"a": range(13)}))
    fourteen = table_html(Table("t", {"a": range(14)}))
    assert "1 more row on screen." in thirteen
    assert "2 more rows on screen." in fourteen


def test_a_table_is_declared_once_for_the_terminal_pages_frames_and_json() -> None:
    ends = {"low": [0.1, float("nan")], "high": [0.4, float("nan")]}
    data = {
        "kind": ["all", "one"],
        "name": ["a\x1b", "b"],
        "mean": [0.25, -1.0],
        "none": [None, None],
        **ends,
    }
    columns = [
        Column("kind"),
        Column("name", "Name"),
        Column("mean", "Mean", "+.2f", ends=("low", "high"), drawn=True),
        Column("none", format=""),
    ]
    table = Table("t", data, columns, {"name": [Cell("a\x1b", look="chip better"), "b"]})
    # Columns without values are left out, and what controls a terminal is escaped.
    assert [line.split() for line in table.lines()] == [
        ["kind", "Name", "Mean", "95%", "interval"],
        ["all", r"a\x1b", "+0.25", "+0.10", "to", "+0.40"],
        ["one", "b", "-1.00", "-"],
    ]
    assert len(table.lines(1)) == 2
    assert table.rows()[0] == {
        "kind": "all",
        "name": "a\x1b",
        "mean": 0.25,
        "none": None,
        "low": 0.1,
        "high": 0.4,
    }
    assert list(table.to_frame()) == list(data)
    assert [line.split()[0] for line in table.select(kind="one").lines()] == ["Name", "b"]
    html = table_html(table)
    assert html.count("<svg") == 2
    assert html.count('data-name="low"') == html.count('<span class="chip better">') == 1
