"""The difference by few queries of people and many of a machine, and how many people must judge."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.metrics import BoundMetrics
from boostrank.reporting.comparison import compare
from boostrank.reporting.machine import (
    JudgedDifference,
    by_judges,
    describe_judges,
    plan_of,
    plan_queries,
    power_of,
)
from tests.reference import ppi


def drawn(n: int = 60, size: int = 400, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Differences of n queries by people, and of all by a machine that is too kind to the new."""
    rng = np.random.default_rng(3)
    truth = rng.normal(0.02, 0.2, size)
    machine = 0.1 + 0.8 * truth + noise * 0.2 * rng.normal(size=size)
    return truth[:n], machine


def rows_of(people: np.ndarray, machine: np.ndarray) -> list[JudgedDifference]:
    n = people.size
    return by_judges("x", people, machine, np.arange(n), np.ones(n), np.ones(machine.size))


@pytest.mark.parametrize("noise", [0.3, 2.0, 40.0])
def test_the_estimate_of_both_judges_is_that_of_the_paper(noise: float) -> None:
    people, machine = drawn(noise=noise)
    alone, by_machine, both = rows_of(people, machine)
    sets = [values.tolist() for values in (people, machine[:60], machine[60:])]
    expected, weights = ppi.estimate(*sets)
    error = ppi.error(*sets, weights)
    assert both.mean == pytest.approx(expected, abs=1e-12)
    assert both.error == pytest.approx(error, abs=1e-12)
    assert both.weight == pytest.approx(np.mean(weights), abs=1e-12)
    interval = stats.t.interval(0.95, 59 - np.mean(weights), expected, error)
    assert (both.low, both.high) == pytest.approx(interval, abs=1e-12)
    assert both.worth == pytest.approx(60 * (alone.error / error) ** 2)
    # People and the machine alone are Student's.
    for row, values in ((alone, people), (by_machine, machine)):
        test = stats.ttest_1samp(values, 0.0)
        ends = test.confidence_interval()
        assert (row.mean, row.p) == pytest.approx((values.mean(), test.pvalue))
        assert (row.low, row.high) == pytest.approx((ends.low, ends.high))
    assert by_machine.bias == pytest.approx((machine[:60] - people).mean())


def test_the_estimate_of_both_judges_is_that_of_ppi_python() -> None:
    peer = pytest.importorskip("ppi_py")
    people, machine = drawn(200, 2000)
    both = rows_of(people, machine)[2]
    labelled = people, machine[:200], machine[200:]
    # Its second mean is over the unlabelled queries only.
    weight = both.weight * (1.0 - 200 / 2000)
    point = np.squeeze(peer.ppi_mean_pointestimate(*labelled, lam=weight))
    assert both.mean == pytest.approx(float(point), abs=5e-4 * 0.2)
    low, high = map(np.squeeze, peer.ppi_mean_ci(*labelled, alpha=0.05, lam=weight))
    assert (both.low, both.high) == pytest.approx(
        (float(low), float(high)), abs=0.02 * (high - low)
    )
    tuned = float(np.squeeze(peer.ppi_mean_pointestimate(*labelled)))
    assert both.mean == pytest.approx(tuned, abs=0.1 * both.error)


def test_a_biased_machine_shifts_nothing_and_noise_costs_little() -> None:
    people, machine = drawn()
    alone, _, both = rows_of(people, machine)
    shifted = rows_of(people, machine + 7.0)
    assert shifted[2].mean == pytest.approx(both.mean)
    assert shifted[2].error == pytest.approx(both.error)
    assert shifted[1].bias > 6.9
    assert both.error < 0.75 * alone.error
    noise = np.random.default_rng(0).normal(size=machine.size)
    useless = rows_of(people, noise)
    assert useless[2].error < 1.03 * alone.error
    constant = rows_of(people, 0.0 * machine)[2]
    assert (constant.weight, constant.mean) == (0.0, pytest.approx(people.mean()))
    perfect = machine.copy()
    perfect[:60] = people
    assert rows_of(people, perfect)[2].weight == pytest.approx(1.0)


def test_intervals_cover_the_truth() -> None:
    covered = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        truth = rng.normal(0.0, 1.0, 200)
        both = rows_of(truth[:20], truth + rng.normal(0.3, 0.7, 200))[2]
        covered.append(both.low <= 0.0 <= both.high)
    assert 0.92 <= np.mean(covered) <= 0.98


def test_few_queries_that_differ_are_not_trusted() -> None:
    covered, of_student = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        truth = np.where(rng.random(400) < 0.1, rng.gamma(0.5, 1.0, 400), 0.0)
        machine = truth * rng.uniform(0.5, 1.5, 400)
        rows = rows_of(truth[:20], machine)
        people, both = rows[0], rows[2]
        covered.append([row.low <= 0.05 <= row.high for row in (people, both)])
        student = stats.ttest_1samp(truth[:20], 0.0).confidence_interval()
        of_student.append(student.low <= 0.05 <= student.high)
        assert people.differ == np.count_nonzero(truth[:20])
        assert (f"only {people.differ} of 20" in describe_judges(rows)) == (people.differ < 5)
    assert np.mean(of_student) < 0.85
    of_people, of_both = np.mean(covered, axis=0)
    assert 0.94 < of_people < 0.99
    assert of_both > 0.92
    # No difference at all has an interval, too, unless the machine has none.
    zeros = np.zeros(20)
    alone, _, both = rows_of(zeros, np.append(zeros, machine[20:]))
    assert (alone.mean, both.mean) == (0.0, 0.0)
    assert min(alone.high, both.high) > 0.05
    assert rows_of(zeros, np.zeros(400))[0].high == 0.0
    # A machine that judged no other queries knows no more.
    assert rows_of(truth[:20], truth[:20])[0].error == pytest.approx(stats.sem(truth[:20]))


def test_a_machine_narrows_intervals_of_few_differences_only_if_it_sees_them() -> None:
    rng = np.random.default_rng(0)
    people = np.where(np.arange(60) % 6 == 0, rng.normal(0.0, 1.0, 60), 0.0)
    # People's queries differ by more than all others.
    machine = np.append(people, 0.2 * np.tile(people, 9))
    student = stats.sem(people)
    assert rows_of(people, machine)[0].error < 0.7 * student
    elsewhere = np.append(np.roll(people, 1), machine[60:])
    assert rows_of(people, elsewhere)[0].error == pytest.approx(student)
    # They differ by less than all others, also by a machine that sees nothing.
    for seen in (people, np.roll(people, 1)):
        assert rows_of(people, np.append(seen, np.tile(5.0 * people, 9)))[0].error > 2.0 * student
    # With many differences, intervals are Student's.
    many = people + 0.1
    assert rows_of(many, machine)[0].error == pytest.approx(student)


def test_queries_chosen_by_chance_are_weighed() -> None:
    rng, errors = np.random.default_rng(0), []
    truth = rng.gamma(1.0, 1.0, 500)
    chance = np.clip(truth / truth.mean() * 0.15, 0.02, 1.0)
    for _ in range(40):
        at = np.flatnonzero(rng.random(500) < chance)
        people, machine = truth[at], truth + rng.normal(0.0, 0.5, 500)
        both = by_judges("x", people, machine, at, 1.0 / chance[at], np.ones(500))[2]
        errors.append((both.mean - truth.mean()) / both.error)
        assert people.mean() > 1.2 * truth.mean()
    assert abs(np.mean(errors)) < 0.6
    # Unequal weights leave fewer degrees of freedom.
    shares = np.array([1.0] * 59 + [30.0])
    people, machine = drawn()
    row = by_judges("x", people, machine, np.arange(60), shares, np.ones(400))[0]
    free = shares.sum() ** 2 / (shares @ shares) - 1.0
    assert (row.high - row.mean) / row.error == pytest.approx(stats.t.ppf(0.975, free))


def test_queries_chosen_by_disagreement_are_noticed_unless_their_chances_weigh() -> None:
    rng = np.random.default_rng(0)
    truth = rng.gamma(1.0, 1.0, 500)
    chance = np.clip(truth / truth.mean() * 0.15, 0.02, 1.0)
    at, evenly = np.flatnonzero(rng.random(500) < chance), rng.permutation(500)[:75]
    words = []
    for chosen, weights in ((at, at**0.0), (at, 1.0 / chance[at]), (evenly, evenly**0.0)):
        rows = by_judges("x", truth[chosen], truth, chosen, weights, np.ones(500))
        words.append("disagree" in describe_judges(rows))
    assert words == [True, False, False]


def judged(queries: int = 40) -> tuple[RankingDataset, dict[str, Any], list[np.ndarray]]:
    """People judged the first 15 queries, and the machine all of them."""
    rng = np.random.default_rng(1)
    index = QueryIndex.from_sizes([8] * queries)
    truth = rng.integers(0, 4, 8 * queries).astype(float)
    data = RankingDataset(np.zeros((truth.size, 1), np.float32), 0.0 * truth, index)
    label = np.where(np.arange(truth.size) < 8 * 15, truth, np.nan)
    machine = np.clip(truth + rng.integers(-1, 2, truth.size), 0, 3)
    scores = [truth + spread * rng.normal(size=truth.size) for spread in (3.0, 1.5)]
    return data, {"label": label, "machine": machine}, scores


def last(values: np.ndarray) -> float:
    return float(values[-1])


def test_compare_takes_any_metric_and_conditions_read_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, grades, scores = judged()

    def top_label(labels: np.ndarray, scores: np.ndarray) -> float:
        return last(labels[np.argsort(scores)])

    # By people, by the machine and by both: each metric that is asked for or in a condition.
    texts = ["ndcg@10 < 9", "low(map) > -9"]
    comparison = compare(*scores, data, ["ndcg@10", top_label], machine=grades, fail_if=texts)
    names = ["ndcg@10", "top_label", "map"]
    assert [row.metric for row in comparison.judges] == [name for name in names for _ in range(3)]
    assert all(outcome.holds for outcome in comparison.outcomes)
    assert len(comparison.qids) == 15
    for name in names:
        people, machine, both = comparison.judges_of(name)
        assert people.mean == pytest.approx(comparison.metrics[name].mean)
        assert (people.queries, machine.queries, both.queries) == (15, 40, 15)
    # The machine's row is the metric with its grades as labels.
    by_machine = BoundMetrics(["ndcg@10"], grades["machine"], data.queries)
    values = [by_machine.per_query(each)["ndcg@10"] for each in scores]
    expected = np.nanmean(values[1]) - np.nanmean(values[0])
    assert comparison.judges_of("ndcg@10")[1].mean == pytest.approx(expected)
    # Conditions read the row of both.
    both = comparison.judges_of("ndcg@10")[2]
    bound = (both.low + comparison.metrics["ndcg@10"].low) / 2.0
    outcome = compare(*scores, data, machine=grades, fail_if=f"low(ndcg@10) < {bound}").outcomes[0]
    assert outcome.holds == (both.low < bound)
    # In the record and on the page.
    table = comparison.to_dict()["judges"]
    assert [row["judges"] for row in table[:3]] == ["people", "machine", "both"]
    assert "judges" not in compare(*scores, replace(data, labels=grades["machine"])).to_dict()
    pytest.importorskip("altair")
    monkeypatch.setattr("boostrank.reporting.section.vega_script", lambda: "")
    page = comparison.to_html()
    assert 'id="judges-of-metrics"' in page
    assert "are worth" in page
    assert f"{comparison.judges[2].mean:+.4f}" in comparison.opening.numbers
    assert comparison.opening.numbers in page


def test_judgements_by_name_are_columns(tmp_path: Path) -> None:
    data, grades, scores = judged()
    names = np.array([f"d{i}" for i in range(data.n_documents)], object)
    with_names = replace(data, document_names=names)
    qids = data.queries.row_ids().tolist()
    judgements: dict[str, dict[str, dict[str, float]]] = {"label": {}, "machine": {}}
    for judge, of_query in judgements.items():
        for qid, name, grade in zip(qids, names, grades[judge], strict=True):
            of_query.setdefault(str(qid), {})[name] = float(grade)
    expected = compare(*scores, data, machine=grades).judges
    # Some numbers are NaN, which differ from themselves.
    assert repr(compare(*scores, with_names, machine=judgements).judges) == repr(expected)
    # A path has the machine's, and people's are the labels.
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(judgements["machine"]))
    labelled = replace(with_names, labels=np.nan_to_num(grades["label"]))
    by_labels = compare(*scores, labelled, machine={**grades, "label": labelled.labels}).judges
    assert repr(compare(*scores, labelled, machine=path).judges) == repr(by_labels)


def test_several_trainings_widen_all_intervals() -> None:
    data, grades, scores = judged()
    rng = np.random.default_rng(5)
    again = [scores[1] + 2.0 * rng.normal(size=scores[1].size) for _ in range(3)]
    several = compare([scores[0]], again, data, machine=grades)
    luck = several.metrics["ndcg@10"].luck
    assert luck > 0.0
    assert all(row.error > luck for row in several.judges)


def test_queries_that_people_judged_in_part_are_left_out_with_a_note() -> None:
    data, grades, scores = judged()
    grades["label"][3] = np.nan
    grades["machine"][-8:] = np.nan
    comparison = compare(*scores, data, machine=grades)
    assert [row.queries for row in comparison.judges] == [14, 39, 14]
    assert "1 query judged by people in part" in " ".join(comparison.notes)
    assert "1 query without a machine's grade" in " ".join(comparison.notes)
    assert "nothing" not in " ".join(comparison.notes)
    # A machine that judged no query but people's adds nothing.
    grades["machine"][8 * 15 :] = np.nan
    assert "nothing" in " ".join(compare(*scores, data, machine=grades).notes)


def test_wrong_judgements_of_two_judges_are_refused() -> None:
    data, grades, scores = judged()
    with pytest.raises(DataError, match="'machine'"):
        compare(*scores, data, machine={"label": grades["label"]})
    with pytest.raises(DataError, match="320"):
        compare(*scores, data, machine={**grades, "machine": [1.0]})
    with pytest.raises(DataError, match="'chance'"):
        compare(*scores, data, machine={**grades, "chance": 0.0 * grades["machine"]})
    for bad, words in (("good", "'good'"), (np.inf, "infinite"), (-1.0, "the machine's grades")):
        column = np.array(grades["machine"], object)
        column[5] = bad
        with pytest.raises(DataError, match=words):
            compare(*scores, data, machine={**grades, "machine": column})
    few = np.where(np.arange(320) < 8 * 9, grades["label"], np.nan)
    with pytest.raises(DataError, match="9 whole queries"):
        compare(*scores, data, machine={**grades, "label": few})


def test_chances_weigh_people_in_every_table() -> None:
    data, grades, scores = judged()
    chance = np.repeat(np.linspace(0.1, 1.0, 40), 8)
    comparison = compare(*scores, data, machine={**grades, "chance": chance})
    values = comparison.per_query["ndcg@10"]
    change, weights = values[:, 1] - values[:, 0], 1.0 / chance[::8][:15]
    counted = ~np.isnan(change)
    expected = np.average(change[counted], weights=weights[counted])
    assert comparison.metrics["ndcg@10"].mean == pytest.approx(expected)
    assert comparison.judges[0].mean == pytest.approx(expected)


def test_power_is_that_of_the_t_test() -> None:
    for n, difference in ((10, 0.9), (64, 0.3), (500, 0.13)):
        free, shift = n - 1, difference * math.sqrt(n)
        limit = stats.t.ppf(0.975, free)
        expected = stats.nct.sf(limit, free, shift) + stats.nct.cdf(-limit, free, shift)
        assert power_of(difference, 1.0 / math.sqrt(n), n) == pytest.approx(expected, abs=1e-9)
    assert power_of(1.0, 1e-4, 10**6) == 1.0
    # Cohen's d of .5 takes 34 pairs, as in his table.
    people = drawn(100, 1000)[0]
    rows = rows_of(people, people)
    alone = plan_queries(rows, 0.5 * rows[0].error * 10.0)
    assert (alone.people, alone.both) == (34, None)


def test_a_machine_saves_queries_unless_people_judge_all() -> None:
    rows = rows_of(*drawn(100, 1000))
    plan = plan_queries(rows, 0.05)
    assert plan.both is not None
    assert plan.both < 0.6 * plan.people
    errors = [rows[0].error * math.sqrt(100 / n) for n in (plan.people - 1, plan.people)]
    powers = [power_of(0.05, errors[i], plan.people - 1 + i) for i in range(2)]
    assert powers[0] < 0.8 <= powers[1]
    beyond = plan_queries(rows, 0.01)
    assert beyond.people > 1000
    assert beyond.both == beyond.people
    with pytest.raises(DataError, match="detect"):
        plan_queries(rows, 1e-9)


def test_a_plan_weighs_queries_with_and_without_a_machine() -> None:
    rng = np.random.default_rng(3)
    queries = QueryIndex.from_sizes([6] * 80, weights=np.where(np.arange(80) < 4, 50.0, 1.0))
    labels = rng.integers(1, 4, 480).astype(float)
    data = RankingDataset(np.zeros((480, 1), np.float32), labels, queries)
    old, new = rng.normal(size=(2, 480))
    people = np.where(queries.of_rows() < 40, labels, np.nan)
    alone = plan_of(compare(old, new, data), 0.05)
    equal = plan_of(compare(old, new, replace(data, queries=replace(queries, weights=None))), 0.05)
    assert alone.people > equal.people
    first = data.take(np.arange(40))
    alone = plan_of(compare(old[:240], new[:240], first), 0.05)
    grades = {"label": people, "machine": labels}
    assert alone.people == plan_of(compare(old, new, data, machine=grades), 0.05).people
