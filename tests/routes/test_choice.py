"""Choice of a training: which route is chosen, and in which words one is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from boostrank import routes
from boostrank.core.errors import InputError, ParameterError
from boostrank.core.text import parse_size, size_words
from boostrank.routes import Route, Survey, Work, find_route, peak_of

MB = 1e6


def a_survey(rows: int | None, features: int = 136) -> Survey:
    return Survey(
        exact=False,
        sampled_rows=10_000,
        refused_rows=0,
        rows=rows,
        features=features,
        used=features,
        present=1.0,
        nonzero=0.7,
    )


@pytest.fixture(autouse=True)
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 GB are free."""
    monkeypatch.setattr(routes, "free_memory", lambda: 10e9)


def peak(rows: int, route: str, backend: str = "lightgbm") -> float:
    return peak_of(backend, route, Work(train=a_survey(rows)))


def route_of(rows: int | None, **options: Any) -> Route:
    return find_route(Work(train=a_survey(rows)), **options)


def test_rows_that_fit_in_half_of_the_free_memory_stay_in_memory() -> None:
    route = route_of(1_000_000)
    assert route.name == "memory"
    assert "half of the 10.00 GB that are free" in route.why


def test_rows_that_do_not_fit_in_memory_are_streamed() -> None:
    route = route_of(10_000_000)
    assert route.name == "bins"
    assert "floats in memory would take" in route.why


def test_a_limit_that_is_said_may_be_used_up() -> None:
    limit = peak(1_000_000, "memory") + 1
    assert route_of(1_000_000, limit=limit).name == "memory"
    assert route_of(1_000_000, limit=limit - 2).name == "bins"


def test_xgboost_goes_on_to_external_memory() -> None:
    limit = peak(5_000_000, "bins", "xgboost") - 1
    assert route_of(5_000_000, backend="xgboost", limit=limit).name == "external"


def test_a_refusal_names_the_number_and_the_mode_that_fits() -> None:
    rows, limit = 4_000_000, 1e9
    assert peak(rows, "external", "xgboost") < limit < peak(rows, "bins")
    with pytest.raises(InputError) as refused:
        route_of(rows, limit=limit)
    words = str(refused.value)
    assert f"{size_words(peak(rows, 'bins'))} (--backend lightgbm" in words
    assert "--memory-limit is 1.00 GB" in words
    external = size_words(peak(rows, "external", "xgboost"))
    assert words.endswith(f"--backend xgboost --route external would take about {external}")


def test_a_route_that_is_asked_for_is_refused_when_it_does_not_fit() -> None:
    with pytest.raises(
        InputError,
        match=r"10\.00 .*--backend lightgbm --route bins",
    ):
        route_of(15_000_000, route="memory")


def test_a_part_of_the_queries_is_offered_when_no_route_fits() -> None:
    with pytest.raises(InputError, match=r"boostrank data sample --queries \d+%"):
        route_of(50_000_000, limit=1e9)


def test_less_than_the_program_itself_is_refused_as_such() -> None:
    with pytest.raises(InputError, match="the program alone takes"):
        route_of(1_000_000, limit=50 * MB)


def test_a_pipe_is_taken_into_memory_or_under_a_limit_streamed() -> None:
    assert route_of(None).name == "memory"
    assert route_of(None, limit=1e9).name == "bins"
    assert route_of(None, backend="xgboost", limit=1e9).name == "external"


def test_validation_sets_and_rows_cost_memory() -> None:
    data = a_survey(1_000_000)
    for backend in ("lightgbm", "xgboost"):
        plain = peak_of(backend, "bins", Work(train=data))
        valid = peak_of(backend, "bins", Work(train=data, valid=(data,)))
        rows = peak_of(backend, "bins", Work(train=replace(data, rows=2_000_000)))
        assert min(valid, rows) > plain


def test_bin_bounds_histograms_and_folds_cost_memory() -> None:
    # A training of 20,000 rows x 2,000 features took 1,021 MB; histograms are 1 MB a feature of
    # 255 leaves.
    wide = a_survey(20_000, 2_000)
    assert peak_of("lightgbm", "memory", Work(train=wide)) == pytest.approx(1_021 * MB, rel=0.2)
    for backend in ("lightgbm", "xgboost"):
        assert peak_of(backend, "bins", Work(train=wide, leaves=255)) > 2_000 * MB
    narrow = a_survey(20_000_000, 5)
    plain, folds = (
        peak_of("lightgbm", "memory", Work(train=narrow, folds=folds)) for folds in (False, True)
    )
    assert folds > 1.5 * plain


def test_linear_models_store_no_absent_values() -> None:
    sparse = replace(a_survey(1_000_000, 10_000), present=0.01, nonzero=0.01)
    assert peak_of("linear", "memory", Work(train=sparse)) < 2e9


def test_xgboost_stores_zeros_of_streamed_rows_and_of_columns_that_rows_name() -> None:
    wide = replace(a_survey(20_000, 300_000), used=1000, present=3e-5, nonzero=3e-5)
    assert find_route(Work(train=wide), backend="xgboost").name == "memory"
    assert peak_of("xgboost", "memory", Work(train=wide)) < 1e9
    # The route streams all columns, and most are named.
    assert peak_of("xgboost", "bins", Work(train=wide)) > 1e10
    used = replace(wide, used=200_000)
    with pytest.raises(InputError, match="--backend lightgbm"):
        find_route(Work(train=used), backend="xgboost", limit=8e9)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("800MB", 800_000_000),
        ("1.5 GB", 1_500_000_000),
        ("2GiB", 2 << 30),
        ("1000000", 1_000_000),
        ("64k", 64_000),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1 parsec", "0", "nan", "1e400"])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="not a size"):
        parse_size(text)


def test_copies_of_the_rows_are_planned_where_these_are_in_memory() -> None:
    train = a_survey(1_000_000)
    for route, copied in (("memory", 2.5 * 1e6 * 136 * 4), ("bins", 0.0)):
        without_copies = find_route(Work(train=train, copies=0.0), route=route).peak
        with_copies = find_route(Work(train=train, copies=2.5), route=route).peak
        assert with_copies - without_copies == pytest.approx(copied)
