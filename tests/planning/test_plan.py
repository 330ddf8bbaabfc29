"""Plan of a training: which route is chosen, and in which words one is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boostrank.core.errors import InputError, ParameterError
from boostrank.core.text import parse_size, size_words
from boostrank.planning import plan as planning
from boostrank.planning.plan import Work, make_plan, peak_of
from boostrank.planning.sample import Survey

MB = 1e6


def a_survey(rows: int | None, features: int = 136) -> Survey:
    return Survey(
        files=1, disk_bytes=None if rows is None else rows * 1110, exact=False, sampled_rows=10_000, refused_rows=0,
        text_bytes=None if rows is None else 1110.0 * rows, rows=rows, queries=None if rows is None else rows // 120,
        longest=240, features=features, used=features, present=1.0, nonzero=0.7, grades={0.0: 0.6, 1.0: 0.4},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 GB are free."""
    monkeypatch.setattr(planning, "free_memory", lambda: 10e9)


def peak(rows: int, route: str, backend: str = "lightgbm", **others: int) -> float:
    found = peak_of(backend, route, Work(a_survey(rows), **others))
    assert found is not None
    return found


def test_what_fits_in_half_of_the_free_memory_stays_in_memory() -> None:
    plan = make_plan(a_survey(1_000_000))
    assert plan.check().name == "memory"
    assert plan.why == "the quickest that fits in half of the 10.00 GB that are free"


def test_what_does_not_is_streamed() -> None:
    plan = make_plan(a_survey(10_000_000))
    assert plan.check().name == "bins"
    assert "floats in memory would take" in plan.why


def test_a_limit_that_is_said_may_be_used_up() -> None:
    limit = peak(1_000_000, "memory") + 1
    assert make_plan(a_survey(1_000_000), limit=limit).check().name == "memory"
    assert make_plan(a_survey(1_000_000), limit=limit - 2).check().name == "bins"


def test_xgboost_goes_on_to_external_memory() -> None:
    limit = peak(5_000_000, "bins", "xgboost") - 1
    assert make_plan(a_survey(5_000_000), backend="xgboost", limit=limit).check().name == "external"


def test_the_second_start_is_told_but_never_chosen() -> None:
    plan = make_plan(a_survey(1_000_000))
    again = next(route for route in plan.routes if route.name == "again")
    assert again.peak is not None
    assert not again.peak > plan.check().peak_bytes


def test_a_refusal_names_the_number_and_the_mode_that_fits() -> None:
    rows, limit = 4_000_000, 1e9
    assert peak(rows, "external", "xgboost") < limit < peak(rows, "bins")
    with pytest.raises(InputError) as refused:
        make_plan(a_survey(rows), limit=limit).check()
    words = str(refused.value)
    assert words.startswith(f"training would take about {size_words(peak(rows, 'bins'))} (--backend lightgbm")
    assert "--memory-limit is 1.00 GB" in words
    external = size_words(peak(rows, "external", "xgboost"))
    assert words.endswith(f"--backend xgboost --route external would take about {external}")


def test_a_route_that_is_asked_for_is_refused_when_it_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"only 10\.00 GB are free: --backend lightgbm --route bins would take about"):
        make_plan(a_survey(15_000_000), route="memory").check()


def test_a_part_of_the_queries_is_offered_when_no_route_fits() -> None:
    with pytest.raises(InputError, match=r"boostrank data sample --queries \d+%\) would take about"):
        make_plan(a_survey(50_000_000), limit=1e9).check()


def test_less_than_the_program_itself_is_refused_as_such() -> None:
    with pytest.raises(InputError, match="the program alone takes"):
        make_plan(a_survey(1_000_000), limit=50 * MB).check()


def test_a_pipe_is_taken_into_memory_or_under_a_limit_streamed() -> None:
    assert make_plan(a_survey(None)).check().name == "memory"
    assert make_plan(a_survey(None), limit=1e9).check().name == "bins"
    assert make_plan(a_survey(None), backend="xgboost", limit=1e9).check().name == "external"


def test_validation_sets_rows_leaves_and_bins_cost_memory() -> None:
    data = a_survey(1_000_000)

    def peak_of_bins(work: Work, backend: str) -> float:
        found = peak_of(backend, "bins", work)
        assert found is not None
        return found

    for backend in ("lightgbm", "xgboost"):
        plain = peak_of_bins(Work(data), backend)
        assert peak_of_bins(Work(data, valid=(data,)), backend) > plain
        assert peak_of_bins(Work(replace(data, rows=2_000_000)), backend) > plain
        assert peak_of_bins(Work(data, leaves=1000), backend) > plain
        assert peak_of_bins(Work(data, leaves=1000, max_bin=15), backend) < peak_of_bins(
            Work(data, leaves=1000), backend
        )


@pytest.mark.parametrize(
    ("text", "size"),
    [("800MB", 800_000_000), ("1.5 GB", 1_500_000_000), ("2GiB", 2 << 30), ("1000000", 1_000_000), ("64k", 64_000)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1 parsec", "0", "nan", "1e400"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="is not a size such as 800MB"):
        parse_size(text)


def test_folds_of_a_preset_take_more_and_validation_rows_are_held_twice() -> None:
    train, valid = a_survey(1_000_000), a_survey(200_000)

    def memory(*others: Survey, folds: bool) -> float:
        plan = make_plan(train, others, route="memory", folds=folds)
        assert plan.chosen is not None
        return plan.chosen.peak_bytes

    alone = memory(folds=True) - memory(folds=False)
    assert 100 * MB < alone < 300 * MB  # 188 MB were measured
    joined = memory(valid, folds=True) - memory(valid, folds=False)
    assert joined == pytest.approx(1.2 * alone + 4 * 136 * 1.2e6)


def test_copies_of_the_rows_are_planned_where_these_are_in_memory() -> None:
    train = a_survey(1_000_000)
    for route, copied in (("memory", 2.5 * 1e6 * 136 * 4), ("bins", 0.0)):
        one, other = (make_plan(train, route=route, copies=copies).chosen for copies in (0.0, 2.5))
        assert one is not None
        assert other is not None
        assert other.peak_bytes - one.peak_bytes == pytest.approx(copied)
