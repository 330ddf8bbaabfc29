"""People's and a machine's judgements: agreement, expected gains, and what to judge next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.reporting.choice import chances_of, choose
from boostrank.reporting.judges import Judges, agreement, confusion, learn_gains


def graded(n: int = 600, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People's grades, a machine's, and queries of ten documents."""
    rng = np.random.default_rng(0)
    people = rng.integers(0, 4, n).astype(float)
    machine = np.clip(np.round(people + spread * rng.normal(size=n)), 0, 3)
    return people, machine, np.repeat(np.arange(n // 10), 10)


def test_kappa_is_scikit_learns_over_all_and_in_each_segment() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    people, machine, query = graded()
    segments = np.where(query < 20, "head", "tail").astype(object)
    table = agreement(people, machine, query, np.ones(people.size), segments)
    assert table.data["segment"] == ["all", "head", "tail"]
    parts = [query >= 0, query < 20, query >= 20]
    for kappa, inside in zip(table.data["kappa"], parts, strict=True):
        expected = metrics.cohen_kappa_score(people[inside], machine[inside], weights="quadratic")
        assert kappa == pytest.approx(expected, abs=1e-12)
    assert all(np.less(table.data["low"], table.data["kappa"]))
    assert all(np.less(table.data["kappa"], table.data["high"]))
    counts = metrics.confusion_matrix(people, machine)
    for grade in range(4):
        assert confusion(people, machine).data[f"machine {grade}"].tolist() == [*counts[:, grade]]


def test_documents_stand_for_as_many_as_their_weights_say() -> None:
    people, machine, query = graded()
    segments, times = np.full(people.size, "", object), query % 3 + 1
    weighted = agreement(people, machine, query, times.astype(float), segments)
    repeated = [np.repeat(each, times) for each in (people, machine, query)]
    ones = np.ones(times.sum())
    expected = agreement(*repeated, ones, np.full(ones.size, "", object))
    assert weighted.data["kappa"] == pytest.approx(expected.data["kappa"])
    learnt = learn_gains(machine, people, query, times.astype(float))
    again = learn_gains(repeated[1], repeated[0], repeated[2], ones)
    np.testing.assert_allclose(learnt.gains, again.gains)
    assert learnt.explained == pytest.approx(again.explained)


def test_the_gain_of_a_machine_grade_is_the_mean_of_gains_and_never_falls() -> None:
    people, machine, query = graded()
    gains = 2.0**people - 1.0
    learnt = learn_gains(machine, gains, query, np.ones(gains.size))
    means = [gains[machine == grade].mean() for grade in range(4)]
    assert means == sorted(means)
    np.testing.assert_allclose(learnt.gains, means)
    assert 0.2 < learnt.explained < np.corrcoef(gains, learnt.expected(machine))[0, 1] ** 2 + 0.01
    # Between grades the gain is linear, and beyond them that of the last.
    halfway = learnt.expected(np.array([0.5, 9.0]))
    np.testing.assert_allclose(halfway, [(means[0] + means[1]) / 2.0, means[3]])
    falling = learn_gains(3.0 - machine, gains, query, np.ones(gains.size))
    assert np.ptp(falling.gains) == falling.explained == 0.0


def test_segments_have_maps_of_their_own_where_they_explain_more() -> None:
    people, machine, query = graded(1200, 0.3)
    hard = query % 3 == 0
    machine[hard] = np.random.default_rng(7).permutation(machine[hard])
    gains, ones = 2.0**people - 1.0, np.ones(people.size)
    segments = np.where(hard, "rare", "often").astype(object)
    one, learnt = (learn_gains(machine, gains, query, ones, each) for each in (None, segments))
    rare, often = learnt.of_segment["rare"], learnt.of_segment["often"]
    assert rare.explained < 0.1 < one.explained < learnt.explained < often.explained
    # Ten documents of all segments count in each.
    inside = hard & (machine == 0)
    drawn = (gains[inside].sum() + 10.0 * one.gains[0]) / (inside.sum() + 10.0)
    assert often.gains[0] < learnt.gains[0] == one.gains[0] < rare.gains[0]
    assert rare.gains[0] == pytest.approx(min(drawn, rare.gains[1]), rel=0.2)
    # Segments that people did not judge have the map and the share of all.
    names = np.array(["rare", "often", "new"], object)
    expected = [rare.gains[0], often.gains[0], one.gains[0]]
    assert learnt.expected(np.zeros(3), names).tolist() == expected
    assert learnt.share(names).tolist() == [rare.explained, often.explained, learnt.explained]
    assert list(dict.fromkeys(learnt.table().data["segment"])) == ["all", "often", "rare"]
    # Where a machine is the same in all, one map serves.
    alike = np.array([f"{q % 9}" for q in query], object)
    people, machine, query = graded(300)
    same = learn_gains(machine, people, query, ones[:300], alike[:300])
    assert same.of_segment == {}
    assert set(same.table().data["segment"]) == {"all"}


def test_queries_weigh_what_a_machine_explains_in_their_segment() -> None:
    pa = pytest.importorskip("pyarrow")
    people, machine, query = graded(1200, 0.3)
    hard = query % 3 == 0
    machine[hard] = np.random.default_rng(7).permutation(machine[hard])
    people[query > 99] = np.nan
    label = pa.array(people, from_pandas=True)
    table = pa.table({"qid": query, "doc_id": query, "label": label, "machine": machine})
    segments = {str(q): "often" if q % 3 else "rare" for q in range(120)}
    judges = Judges(segments=segments)
    weight = judges.add(table)["weight"].to_numpy()
    assert weight[:1000].tolist() == [1.0] * 1000
    assert weight[1000:][hard[1000:]].max() < 0.2
    assert weight[1000:][~hard[1000:]].min() > 0.5
    assert "rare" in judges.words[1]
    # A machine of one grade explains nothing, whatever the segments.
    constant = table.set_column(3, "machine", pa.array(np.ones(machine.size)))
    judges = Judges(segments=segments)
    assert judges.add(constant)["weight"].to_numpy()[1000:].max() < 0.01
    assert "map" not in judges.words[1]


def test_segments_are_a_table_or_a_file_whose_queries_are_those_of_the_data(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    people, machine, query = graded()
    table = pa.table({"qid": query, "doc_id": query, "label": people, "machine": machine})
    (tmp_path / "segments.csv").write_text("".join(f"{q},{q % 2}\n" for q in range(60)))
    for segments in ({q: q % 2 for q in range(60)}, tmp_path / "segments.csv"):
        judges = Judges(segments=segments)
        judges.add(table)
        assert judges.tables[0].data["segment"] == ["all", "0", "1"]
    with pytest.raises(DataError, match="60 queries"):
        Judges(segments={"other": "a"}).add(table)


def test_grades_that_say_nothing_have_equal_gains() -> None:
    people, machine, query = graded()
    noise = np.random.default_rng(5).permutation(machine)
    learnt = learn_gains(noise, people, query, np.ones(people.size))
    assert learnt.explained < 0.02
    assert learnt.explained > 0.0 or np.ptp(learnt.gains) == 0.0


def test_chances_sum_to_the_number_and_are_at_most_1() -> None:
    sizes = np.array([0.0, 0.0, 1.0, 2.0, 50.0])
    for count in range(1, 6):
        chances = chances_of(sizes, count)
        assert chances.sum() == pytest.approx(count)
        assert chances.min() > 0.0
        assert chances.max() <= 1.0
        assert np.all(np.diff(chances) >= 0.0)
    np.testing.assert_allclose(chances_of(np.zeros(4), 2), 0.5)


@pytest.mark.parametrize("whole", [True, False])
def test_a_draw_has_the_recorded_chances(whole: bool) -> None:
    people, machine, query = graded(200)
    queries, rng = QueryIndex.from_sizes([10] * 20), np.random.default_rng(1)
    scores = [rng.normal(size=200), rng.normal(size=200)]
    scores[1][query < 5] = scores[0][query < 5]  # both order these alike
    people[query % 2 == 0] = np.nan
    drawn, chance = np.zeros(200), np.zeros(200)
    for seed in range(400):
        rows, chances = choose(scores, queries, (people, machine), 4, whole=whole, seed=seed)
        drawn[rows] += 1.0 / 400.0
        chance[rows] = chances
        units = np.unique(query[rows]) if whole else rows
        assert units.size == 4
        assert np.isnan(people[rows]).all()
    assert not drawn[query % 2 == 1].any()
    np.testing.assert_allclose(drawn[chance > 0.0], chance[chance > 0.0], atol=0.1)
    alike = chance[(query < 5) & (query % 2 == 0)]
    assert alike[alike > 0.0].max() < chance[query >= 5].max() / 2.0


def test_a_query_that_people_judged_in_part_is_listed_whole() -> None:
    queries, scores = QueryIndex.from_sizes([10, 10]), [np.arange(20.0), -np.arange(20.0)]
    nobody, people = np.full(20, np.nan), np.zeros(20)
    people[13] = np.nan
    rows, chances = choose(scores, queries, (people, nobody), 9, whole=True)
    assert rows.tolist() == [*range(10, 20)]
    assert chances.tolist() == [1.0] * 10
    with pytest.raises(DataError, match="everything"):
        choose(scores, queries, (np.zeros(20), nobody), 9, whole=True)
