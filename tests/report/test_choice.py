"""Choice among candidates: what a preset tried, as the report shows it, and records of strangers."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.backends import get_backend
from boostrank.core.errors import ModelError
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.report import report
from boostrank.report.html.page import page
from boostrank.report.html.tables import Table
from boostrank.report.sections.choice import SPEC, Choice, choice
from boostrank.report.sections.learning.page import SPEC as LEARNING
from boostrank.training.model import RankingModel
from boostrank.training.price import count_trees

for _module in ("pandas", "altair", "vl_convert"):
    pytest.importorskip(_module, reason="the page's charts need the extra `report`")

PARAMS = {"objective": "lambdarank", "num_threads": 1, "verbosity": -1, "min_data_in_leaf": 5, "metric": "ndcg"}


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(60, seed=6, mean_length=8).dataset


@pytest.fixture(scope="module")
def trained(data: RankingDataset, tmp_path_factory: pytest.TempPathFactory) -> RankingModel:
    """By `good`, read from its file."""
    model = boostrank.train(
        PARAMS, data.take(np.arange(30)), 5, quality="good", valid_sets=[data.take(np.arange(30, 45))]
    )
    path = tmp_path_factory.mktemp("choice") / "model.txt"
    model.save(path)
    return RankingModel.load(path)


@pytest.fixture(scope="module")
def plain(data: RankingDataset) -> RankingModel:
    return boostrank.train(PARAMS, data.take(np.arange(30)), 3)


def interval(value: float, queries: int = 90) -> dict[str, Any]:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "queries": queries}


def record(**more: Any) -> dict[str, Any]:
    """As a training would write it."""
    made = [
        {"name": "slow", "parameters": {"objective": "yetirank"}, "start": "linear", "rounds": [7, 11], "weight": 0.25,
         "difference": {"mean": -0.2, "low": -0.3, "high": -0.1}, **interval(0.5)},
        {"name": "<b>quick", "parameters": {}, "start": "none", "rounds": [1200, 1200], "weight": 0.75,
         "difference": {}, **interval(0.7)},
        {"name": "none", "parameters": {}, "start": "none", "rounds": [3, 4], "weight": 0.0,
         "difference": {"mean": -0.1, "low": -0.3, "high": 0.1}, **interval(0.6)},
    ]  # fmt: skip
    return {
        "preset": "best", "folds": 2, "metric": "ndcg@10", "trees": {"num_leaves": 15}, "patience": 50,
        "left": ["rare & dear", "last"], "candidates": made,
        "held_out": {"ndcg@10": interval(0.72), "map": interval(0.4)}, "valid": [],
    } | more  # fmt: skip


def with_records(model: RankingModel, quality: Any, price: Any = None) -> RankingModel:
    info = dict(model.info) | {"quality": quality} | ({} if price is None else {"price": price})
    return RankingModel(get_backend(model.backend), model.booster, info=info)


def text_of(model: RankingModel) -> str:
    return page("Report", [SPEC.on_page(choice(model))])


def test_a_trained_preset_has_its_section(trained: RankingModel, data: RankingDataset) -> None:
    found = report(trained, data.take(np.arange(45, 60)), only=("choice",), threads=1)
    made, written = found.choice, trained.info.quality
    assert written is not None
    assert trained.info.price is not None
    assert found.missing == {}
    assert [one.name for one in made.candidates] == [
        one["name"] for one in sorted(written["candidates"], key=lambda one: -one["value"])
    ]
    assert made.models == len(trained.info.averaged or ()) >= 4
    assert made.rounds == trained.best_iteration
    assert sum(one.weight for one in made.candidates) == pytest.approx(1.0)
    assert math.isnan(made.candidates[0].difference.value)
    assert made.candidates[1].difference.high >= made.candidates[1].difference.value
    html = found.to_html()
    assert f"The model is the average of {made.models} models</b>, {made.rounds:,} rounds in all" in html
    assert f"the choice among {len(made.candidates)} candidates went by the same queries" in html
    assert "Validation sets were dealt into the folds" in html
    value = written["held_out"][written["metric"]]
    assert f"of held-out queries is {value['value']:.4f} [{value['low']:.4f}, {value['high']:.4f}] over" in html
    assert [point.trees for point in made.curve] == [point["trees"] for point in trained.info.price["curve"]]
    assert made.curve[-1].trees == count_trees(trained)
    assert all(point.microseconds > 0.0 for point in made.curve)
    frame = found.frames["candidates"]
    assert frame["value"].tolist() == [one.held_out.value for one in made.candidates]
    assert "choice-candidates" in found.charts
    assert found.charts["choice-candidates"].to_svg().startswith("<svg")
    plain_data = json.loads(json.dumps(found.to_dict(), allow_nan=False))["choice"]
    assert plain_data["candidates"][0]["difference"]["value"] is None
    assert plain_data["held_out"][made.metric]["queries"] == value["queries"]


def test_a_model_without_a_record_hears_nothing(plain: RankingModel, data: RankingDataset) -> None:
    found = report(plain, data.take(np.arange(45, 60)), only=("verdict",), threads=1)
    assert "choice" not in [section.name for section in found.sections]
    assert "#choice" not in found.to_html()
    whole = report(plain, data.take(np.arange(45, 60)), skip=("importance", "shapes", "learning"), threads=1)
    assert whole.missing == {}
    assert whole.choice is None
    names = ["verdict", "ranking", "importance", "shapes", "learning", "queries"]
    assert [section.name for section in whole.sections] == names
    assert whole.to_dict()["choice"] is None


def test_who_asks_for_it_by_name_hears_why_there_is_none(plain: RankingModel, data: RankingDataset) -> None:
    with pytest.raises(ModelError, match="no record of candidates"):
        report(plain, data, only=("choice",), threads=1)
    found = report(plain, data, only=("choice", "verdict"), threads=1)
    assert "no record of candidates" in found.missing["choice"]
    assert "Not available: the model&#x27;s file has no record" in found.to_html()


def test_what_was_tried_and_left_is_shown(plain: RankingModel) -> None:
    model = with_records(plain, record())
    found = choice(model)
    assert [one.name for one in found.candidates] == ["<b>quick", "none", "slow"]
    html = text_of(model)
    assert "by weight: <bdi>&lt;b&gt;quick</bdi> (0.75); <bdi>slow</bdi> (0.25)." in html
    assert "Not tried for want of time: <bdi>rare &amp; dear</bdi>; <bdi>last</bdi>." in html
    assert "Early stopping and the choice among 3 candidates went by the same queries" in html
    assert "of one of 2 folds, and stops after 50 rounds without gain on them. Each candidate leaves out" in html
    assert "num_leaves=15" in html
    table = next(part for part in SPEC.on_page(found).parts if getattr(part, "name", "") == "candidates")
    rows = {row[0]: row for row in table.rows}  # type: ignore[union-attr]
    assert [cell.look for cell in (rows["slow"][4], rows["none"][4])] == ["worse", ""]
    assert [rows[name][7].shown for name in ("slow", "<b>quick")] == ["7 to 11", "1,200"]
    assert found.to_frame()["rounds_most"].tolist() == [1200, 4, 11]
    kinds = SPEC.on_page(found).parts[2].frame["kind"].tolist()  # type: ignore[union-attr]
    assert kinds == ["the average", "in the average", "left out", "in the average"]


def test_an_average_has_no_first_rounds_to_tell_of(trained: RankingModel, data: RankingDataset) -> None:
    queries = data.take(np.arange(45, 60))
    found = report(trained, queries, only=("choice", "importance"), threads=1)
    names = [one["name"] for one in trained.info.quality["candidates"] if one["weight"]]  # type: ignore[index]
    members = len(trained.info.averaged or ())
    assert found.about.startswith(f"lightgbm, the average of {members} models ({'; '.join(names)}), ")
    assert not LEARNING.applies(trained)
    with pytest.raises(ModelError, match=f"the average of {members}, whose rounds stand one model after another"):
        report(trained, queries, only=("learning",), threads=1)


def test_the_page_names_the_parts_of_a_mixture(plain: RankingModel, data: RankingDataset) -> None:
    parts = {"name": "mixture", "first": {"name": "lambdarank"}, "second": {"name": "xe-ndcg"}}
    for objective, words in ((parts, "a mixture of lambdarank and xe-ndcg"), ({"name": "sdcg"}, "sdcg")):
        info = dict(plain.info) | {"objective": objective, "quality": None}
        model = RankingModel(get_backend(plain.backend), plain.booster, info=info)
        about = report(model, data.take(np.arange(45, 60)), only=("importance",), threads=1).about
        assert f", trained with {words}, " in about


def test_candidates_that_were_beaten_early_are_not_charted_beside_the_average(plain: RankingModel) -> None:
    model = with_records(plain, record(held_out={"ndcg@10": interval(0.72, 180)}, patience=0, left=[]))
    found = choice(model)
    assert found.raced
    html = text_of(model)
    assert "unless those before have shown that another is better" in html
    assert "without gain" not in html
    assert "The choice among 3 candidates went by" in html
    assert "Not tried" not in html
    assert "the average" not in SPEC.on_page(found).parts[2].frame["kind"].tolist()  # type: ignore[union-attr]


CURVE = [
    {"trees": 400, "value": 0.72, "rounds": 100, "of": ["slow", "quick"], "single": False},
    {"trees": 12, "value": 0.61, "rounds": 12, "of": ["quick"], "single": True},
]


def price_table(found: Choice) -> Table:
    return next(part for part in SPEC.on_page(found).parts if isinstance(part, Table) and part.name == "price")


def test_a_curve_of_trees_is_drawn(plain: RankingModel, data: RankingDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_records(plain, record(), {"trees": 400, "curve": CURVE})
    monkeypatch.setattr("boostrank.report.sections.choice.microseconds", lambda *_: 6.0)  # of 3 trees
    made = report(model, data.take(np.arange(45, 60)), only=("choice",), threads=1)
    assert made.tables["price"].rows[0] == [12, 24.0, 0.61, 12, "one model of quick"]
    assert made.frames["price"]["microseconds"].tolist() == [24.0, 800.0]
    found = choice(model)
    assert [column.name for column in price_table(found).columns] == ["trees", "value", "rounds", "of"]
    assert [point.trees for point in found.curve] == [12, 400]
    shown = SPEC.on_page(found)
    chart = next(part for part in shown.parts if getattr(part, "name", "") == "choice-price")
    assert chart.to_svg().startswith("<svg")  # type: ignore[union-attr]
    html = page("Report", [shown])
    assert "one model of quick" in html
    assert SPEC.frames(found)["price"]["of"].tolist() == ["quick", "slow; quick"]
    cut = {"trees": 12, "rounds": 12, "value": 0.61, "of": ["quick"], "single": True, "max_trees": 15}
    html = text_of(with_records(plain, record(), cut))
    assert ", of <bdi>quick</bdi>, at most 12 rounds each: 12 trees, where at most 15 were asked for." in html
    assert "Made of 1 of 3 candidates" in html


BROKEN: tuple[Any, ...] = (None, True, -1, 10**400, math.nan, math.inf, "text", "", [], [None, {}], {}, {"value": "x"})


def test_no_record_of_a_stranger_breaks_the_page(plain: RankingModel) -> None:
    """Every key with every kind of junk, and half of the others beside it."""
    whole, first = record(), record()["candidates"][0]
    price = {"trees": 400, "max_trees": 400, "of": ["slow"], "rounds": 5, "curve": CURVE}
    for shift, part in itertools.product(range(len(BROKEN)), (0, 1)):

        def broken(of: dict[str, Any], shift: int = shift, part: int = part) -> dict[str, Any]:
            return of | {key: BROKEN[(i + shift) % len(BROKEN)] for i, key in enumerate(of) if i % 2 == part}

        candidates = [broken(first), {}, *whole["candidates"]]
        curve = [broken(CURVE[0]), {}, *CURVE]
        quality = broken(whole) | {"candidates": candidates}
        model = with_records(plain, quality, broken(price) | {"curve": curve})
        found = choice(model)
        assert len(found.candidates) == 5
        text_of(model)
        SPEC.frames(found)
        json.dumps(found.to_dict(), allow_nan=False)
    beyond = {"value": math.inf, "low": -math.inf, "weight": 10**400}
    odd = choice(with_records(plain, {"candidates": [None, beyond]}, {"curve": [{"trees": 0}, *CURVE]}))
    assert [(one.held_out.value, one.held_out.low, one.weight) for one in odd.candidates] == [
        pytest.approx((math.nan,) * 3, nan_ok=True)
    ]
    assert len(odd.curve) == 2
    found = choice(with_records(plain, {"candidates": [{}]}))
    assert found.candidates[0].name == found.preset == found.metric == "unknown"
    assert "<b>The model is the average of several models</b>" in text_of(with_records(plain, {"candidates": [{}]}))
    for junk in BROKEN[:-2]:
        choice(with_records(plain, whole, {"trees": 3, "curve": junk}))
        assert with_records(plain, junk).info.quality is None
        assert not SPEC.applies(with_records(plain, junk))
        if junk != BROKEN[-3]:
            with pytest.raises(ModelError, match="names none"):
                choice(with_records(plain, whole | {"candidates": junk}))
