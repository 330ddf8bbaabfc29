"""The comparison with the peers: no query leaks, equal budgets only, it resumes after a kill, tests
are as defined.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import boostrank
from experiments.peers import engines, report, run, statistics
from experiments.peers.cells import Budget, Cell, Place, Task
from experiments.peers.engines import Length, Stopping
from experiments.peers.methods import METHODS, Method, chosen
from experiments.peers.space import LEAVES, draws
from experiments.peers.splits import PARTS, STAGES, dealt, folds, same_documents
from experiments.peers.store import Store, code_digest, key_of

LENGTH = Length(rounds=12, patience=4)


def make_dataset(queries=40, twins=0, seed=0):
    """Queries of 6 documents; the last `twins` of them have the documents of the first ones, in
    another order.
    """
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(queries, 6, 3)).astype(np.float32)
    for i in range(twins):
        features[queries - 1 - i] = features[i][::-1]
    labels = np.clip(np.round(features[:, :, 0] + 0.3 * rng.normal(size=(queries, 6)) + 1), 0, 3)
    flat = features.reshape(-1, 3)
    return boostrank.RankingDataset.from_arrays(flat, labels.reshape(-1), group=[6] * queries)


def fake(method, trees, train, valid, test, seed, length, threads=1):
    """Stands in for a training: numbers that depend on all that a training depends on."""
    rng = np.random.default_rng(
        int(key_of({"m": method.name, "t": trees.plain(), "s": seed})[:8], 16)
    )
    return {
        "valid": float(rng.random()),
        "rounds": 3,
        "seconds": 0.1,
        "test": rng.random(len(test.queries)).tolist(),
    }


def cells_of(names, data, stage="search"):
    methods = [Method(name, "lightgbm", {"objective": "regression"}) for name in names]
    return [
        Cell(m, dataset, fold, LENGTH, {"name": m.name})
        for dataset in [Place("made", data, stage, 2)]
        for fold in range(2)
        for m in methods
    ]


def work(cells, budget, folder):
    from rich.console import Console

    run.Work(cells, budget, Store(folder), 1, Console(stderr=True, quiet=True)).do(cells, budget)
    return Store(folder)


# Folds


@pytest.mark.parametrize("stage", STAGES)
def test_no_query_is_trained_on_validated_on_and_tested_on(stage):
    data = make_dataset()
    for fold in folds(data, stage, 3):
        for part in range(PARTS):
            train, valid = fold.inner(part)
            everything = np.concatenate([train, valid, fold.test])
            assert len(set(everything.tolist())) == everything.size
            assert min(train.size, valid.size, fold.test.size) > 0


def test_the_search_sees_no_query_of_the_confirmation_and_each_query_is_tested_once():
    data = make_dataset()
    search, confirm = [folds(data, stage, 3) for stage in STAGES]
    seen = {int(q) for fold in search for part in [fold.test, *fold.parts] for q in part}
    tested = [int(q) for fold in confirm for q in fold.test]
    assert not seen & set(tested)
    assert sorted([int(q) for fold in search for q in fold.test] + tested) == list(range(40))
    assert all(len(fold.test) + sum(map(len, fold.parts)) == 40 for fold in confirm)


def test_another_draw_deals_other_folds():
    first, same = folds(make_dataset(), "confirm", 3, 0), folds(make_dataset(), "confirm", 3, 0)
    other = folds(make_dataset(), "confirm", 3, 1)
    assert [f.test.tolist() for f in first] == [f.test.tolist() for f in same]
    assert all(f.test.tolist() != g.test.tolist() for f, g in zip(first, other, strict=True))


def test_queries_with_the_same_documents_are_never_parted():
    data = make_dataset(queries=40, twins=12)
    alike = same_documents(data)
    assert len(np.unique(alike)) == 28
    for stage in STAGES:
        for fold in folds(data, stage, 3):
            for mine in [fold.test, *fold.parts]:
                others = np.concatenate([p for p in [fold.test, *fold.parts] if p is not mine])
                assert not set(alike[mine]) & set(alike[others])
    twice = dealt(np.arange(40), alike, 6, 1)
    assert [p.tolist() for p in twice] == [p.tolist() for p in dealt(np.arange(40), alike, 6, 1)]


# Draws and methods


def test_a_smaller_budget_is_the_beginning_of_a_larger_one_and_stays_in_range():
    many = draws(64, 5)
    assert draws(7, 5) == many[:7]
    assert draws(7, 6) != many[:7]
    assert {t.leaves for t in many} == set(LEAVES)
    assert all(
        0.03 <= t.learning_rate <= 0.2 and 5 <= t.min_docs <= 100 and 0.5 <= t.rows <= 1
        for t in many
    )


def test_every_method_gets_the_same_draws_on_a_fold_and_keys_of_its_own():
    of_a, of_b = cells_of(["a", "b"], make_dataset())[:2]
    assert [of_a.trees(t) for t in range(4)] == [of_b.trees(t) for t in range(4)]
    assert of_a.key(Task(0, 0)) != of_b.key(Task(0, 0))
    assert len({of_a.key(Task(t, p)) for t in range(3) for p in range(3)}) == 9


def test_keys_follow_the_data_the_library_and_the_length():
    data = make_dataset()
    method = Method("m", "lightgbm", {})

    def key(data=data, length=LENGTH, identity="1", stage="search"):
        return Cell(method, Place("made", data, stage, 2), 0, length, {"version": identity}).key(
            Task(0, 0)
        )

    others = [
        key(make_dataset(seed=1)),
        key(length=Length(13, 4)),
        key(identity="2"),
        key(stage="confirm"),
    ]
    assert len({key(), *others}) == 5
    assert key() == key()


def test_methods_have_distinct_names_and_parameters_that_their_library_takes():
    assert len({m.name for m in METHODS}) == len(METHODS)
    assert chosen("rest;lambdaloss")[0].name == "lambdaloss"
    for method in METHODS:
        if method.library == "boostrank":
            assert engines.identity(method)["params"] == method.params
    with pytest.raises(SystemExit, match="no method 'lamdbarank'"):
        chosen("lamdbarank")


def test_a_name_that_stands_for_an_objective_is_keyed_by_what_it_stands_for(monkeypatch):
    method = Method("auto", "boostrank", {"objective": "auto"})
    now = engines.identity(method)
    parse = engines.parse_objective
    monkeypatch.setattr(
        engines,
        "parse_objective",
        lambda text, **options: parse("mix(lambdarank, xe-ndcg, mix=0.3)"),
    )
    assert key_of(engines.identity(method)) != key_of(now)


def test_the_code_digest_follows_code_and_not_words(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "peers_low.py").write_text("A = 1\n")

    def digest(name, body):
        (tmp_path / f"{name}.py").write_text(
            f'"""Words {name}."""\nfrom peers_low import A\n# {name}\n{body}\n'
        )
        return code_digest([name], within=["peers_low"])

    first = digest("peers_top", "B = A")
    assert digest("peers_top", "B = A  # other words") == first
    assert digest("peers_top", "B = A + 1") != first
    digest("peers_top", "B = A")
    (tmp_path / "peers_low.py").write_text("A = 2\n")
    assert code_digest(["peers_top"], within=["peers_low"]) != first


# Training


@pytest.mark.parametrize(
    "method",
    [
        Method("l2", "lightgbm", {"objective": "regression"}),
        Method("lambdarank", "lightgbm", {"objective": "lambdarank"}),
        Method("ndcg", "xgboost", {"objective": "rank:ndcg"}),
        Method("yetirank", "catboost", {"loss_function": "YetiRank"}),
        Method(
            "symmetric", "catboost", {"loss_function": "QueryRMSE", "grow_policy": "SymmetricTree"}
        ),
        Method("ydf", "ydf", {"loss": "LAMBDA_MART_NDCG", "discretize_numerical_columns": True}),
        Method("ours", "boostrank", {"objective": "regression"}),
        Method("started", "lightgbm", {"objective": "lambdarank", "start": "linear"}),
        Method("started", "xgboost", {"objective": "rank:ndcg", "start": "linear"}),
        Method("started", "catboost", {"loss_function": "QueryRMSE", "start": "linear"}),
    ],
    ids=lambda m: f"{m.library} {m.name}",
)
def test_the_model_that_is_kept_is_the_one_of_the_best_round(method):
    from sklearn.metrics import ndcg_score

    pytest.importorskip(method.library)
    data = make_dataset(60)
    train, valid = data.take(np.arange(40)), data.take(np.arange(40, 60))
    trees = draws(3, 2)[2]
    best, rounds, predict = engines._ENGINES[method.library](
        method, trees, train, valid, 1, LENGTH, 1
    )
    scores = np.asarray(predict(valid.features), dtype=np.float64)
    assert boostrank.Metric.parse("ndcg@10").evaluate(
        valid.labels, scores, valid.queries
    ).mean == pytest.approx(best)
    gains = (2.0**valid.labels - 1).reshape(20, 6)
    by_sklearn = ndcg_score(gains[gains.max(1) > 0], scores.reshape(20, 6)[gains.max(1) > 0], k=10)
    assert best == pytest.approx(by_sklearn, abs=1e-6)
    assert 1 <= rounds <= LENGTH.rounds
    assert best > 0.75  # it learnt: chance is about 0.6


def test_the_search_stops_by_its_rule():
    valid = make_dataset(10)
    better = valid.labels
    worse = -valid.labels
    stopping = Stopping(valid, patience=2)
    stopping.read([worse, better, better, worse, better, better])
    assert (stopping.rounds, stopping.best_round, stopping.stalled) == (4, 2, True)


# Budgets and resuming


def test_a_killed_run_goes_on_to_the_same_cells(tmp_path, monkeypatch):
    # A run in another process, killed after five trainings.
    script = f"""
import sys, time
sys.path[:0] = {[str(Path(__file__).parents[2]), str(Path(__file__).parent)]!r}
import test_peers as t
from experiments.peers import engines
def slow(*given):
    time.sleep(0.02)
    return t.fake(*given)
engines.trained = slow
t.work(t.cells_of(["a", "b"], t.make_dataset()), t.Budget(4, 2, 3), t.Path({str(tmp_path / "killed")!r}))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "killed").glob("runs/*.json"))) < 5 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(list((tmp_path / "killed").glob("runs/*.json")))
    budget, cells = Budget(4, 2, 3), cells_of(["a", "b"], make_dataset())
    assert 5 <= kept < budget.runs * len(cells)

    # The next one trains the others only, and gives what an undisturbed one gives.
    calls = []
    monkeypatch.setattr(engines, "trained", lambda *arguments: calls.append(1) or fake(*arguments))
    resumed = work(cells, budget, tmp_path / "killed")
    assert len(calls) == budget.runs * len(cells) - kept
    whole = work(cells, budget, tmp_path / "whole")
    for cell in cells:
        (values, runs), (expected, expected_runs) = (
            cell.outcome(budget, resumed),
            cell.outcome(budget, whole),
        )
        np.testing.assert_array_equal(values, expected)
        assert runs == expected_runs
    files = [
        sorted(p.name for p in (tmp_path / name / "runs").glob("*.json"))
        for name in ("killed", "whole")
    ]
    assert files[0] == files[1]


def test_the_best_trial_is_chosen_by_validation_and_its_models_are_averaged(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "trained", fake)
    budget, cells = Budget(3, 2, 3), cells_of(["a"], make_dataset())
    store = work(cells, budget, tmp_path)
    cell = cells[1]
    valid = [[store.get(cell.key(Task(t, p)))["valid"] for p in range(2)] for t in range(3)]
    best = int(np.argmax(np.mean(valid, axis=1)))
    values, runs = cell.outcome(budget, store)
    scores_of_best = [store.get(cell.key(Task(best, seed)))["test"] for seed in range(3)]
    np.testing.assert_allclose(values, np.mean(scores_of_best, axis=0))
    assert len(runs) == 3
    assert run.done(cell, budget, store) == budget.runs == 7


def test_the_best_setting_is_tried_at_further_rates_and_trained_at_its_best_one(
    tmp_path, monkeypatch
):
    def steep(method, trees, *arguments):
        return fake(method, trees, *arguments) | {"valid": trees.learning_rate}

    monkeypatch.setattr(engines, "trained", steep)
    cells, plain = cells_of(["a"], make_dataset()), Budget(3, 2, 3)
    store = work(cells, plain, tmp_path)
    cell = cells[1]
    best = cell.best(plain, store)
    assert cell.trees(best).learning_rate == max(cell.trees(t).learning_rate for t in range(3))
    for rates, rate in (((0.01, 0.02), None), ((0.01, 0.9, 0.5), 0.9)):
        budget = Budget(3, 2, 3, rates)
        store = work(cells, budget, tmp_path)
        assert run.done(cell, budget, store) == budget.runs == 7 + 2 * len(rates)
        values, _ = cell.outcome(budget, store)
        of_models = [store.get(cell.key(Task(best, seed, rate)))["test"] for seed in range(3)]
        np.testing.assert_allclose(values, np.mean(of_models, axis=0))
        assert (cell.trees(best, rate).learning_rate == 0.9) == (rate == 0.9)


def test_a_table_shows_no_method_that_has_not_spent_the_whole_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "trained", fake)
    cells, small, large = (
        cells_of(["a", "b", "c"], make_dataset()),
        Budget(2, 1, 1),
        Budget(6, 1, 1),
    )
    of_method = {name: [cell for cell in cells if cell.method.name == name] for name in "abc"}
    a, b, c = of_method["a"], of_method["b"], of_method["c"]
    work(a, large, tmp_path)
    work(b, large, tmp_path)
    work(c, small, tmp_path)
    store = Store(tmp_path)
    assert set(report.collect(cells, large, store).measured) == {"a", "b"}
    assert report.collect(cells, large, store).open == {"c": "0 of 2 cells"}
    table = report.collect(cells, small, store)
    assert set(table.measured) == {"a", "b", "c"}
    # What a and b tried beyond the small budget does not help them in its table.
    for cell in a:
        within = [store.get(cell.key(Task(t, 0)))["valid"] for t in range(2)]
        assert cell.best(small, store) == int(np.argmax(within))
    text = report.write(
        tmp_path / "t.md", cells, large, store, "a", {"d": "skipped, lib is not installed"}
    )
    assert "* c: 0 of 2 cells" in text
    assert "* d: skipped" in text
    assert "| c " not in text


def test_what_a_library_raises_is_told_and_keeps_the_method_out(tmp_path, monkeypatch):
    def failing(method, *arguments):
        if method.name == "b":
            raise ValueError("no such loss")
        return fake(method, *arguments)

    monkeypatch.setattr(engines, "trained", failing)
    cells, budget = cells_of(["a", "b"], make_dataset()), Budget(2, 1, 1)
    store = work(cells, budget, tmp_path)
    assert report.collect(cells, budget, store).open == {"b": "failed: ValueError: no such loss"}
    monkeypatch.setattr(engines, "trained", fake)
    store.forget_failures()
    assert not report.collect(cells, budget, work(cells, budget, tmp_path)).open


def test_two_processes_do_not_train_the_same_cell(tmp_path):
    first, second = Store(tmp_path), Store(tmp_path)
    with (
        first.claim("cell") as mine,
        second.claim("cell") as theirs,
        second.claim("other") as other,
    ):
        assert (mine, theirs, other) == (True, False, True)
    with second.claim("cell") as free:
        assert free


def test_the_command_runs_on_a_file_of_its_own(tmp_path, monkeypatch, capsys):
    # A file of 32 queries, and an engine that trains nothing.
    data = make_dataset(32)
    rows = zip(data.labels, np.repeat(np.arange(32), 6), data.features, strict=True)
    lines = [
        f"{y:.0f} qid:{q} " + " ".join(f"{i}:{v:.6g}" for i, v in enumerate(x, 1))
        for y, q, x in rows
    ]
    (tmp_path / "own.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(engines, "trained", fake)
    argv = [
        "run",
        "--sets",
        "",
        "--set",
        f"own={tmp_path / 'own.txt'}",
        "--inner",
        "1",
        "--seeds",
        "1",
    ]
    monkeypatch.setattr(
        sys,
        "argv",
        [
            *argv,
            "--trials",
            "2",
            "--stage",
            "confirm",
            "--methods",
            "lightgbm l2;lightgbm lambdarank",
            "--out",
            str(tmp_path),
        ],
    )
    # Half of the queries confirm what the others chose.
    run.main()
    out = capsys.readouterr().out
    assert "minus lightgbm lambdarank, every set alike" in out
    assert "own (16 queries)" in out


# Statistics


def test_mean_ranks_count_better_methods_and_half_of_the_equal_ones():
    values = [
        np.array([0.5, np.nan, 0.2, 0.9]),
        np.array([0.5, np.nan, 0.3, 0.1]),
        np.array([0.1, np.nan, 0.3, 0.5]),
    ]
    ranks = [
        [
            1 + sum(o[q] > v[q] for o in values) + 0.5 * (sum(o[q] == v[q] for o in values) - 1)
            for q in (0, 2, 3)
        ]
        for v in values
    ]
    np.testing.assert_allclose(statistics.mean_ranks(values), np.mean(ranks, axis=1))
    weighted = statistics.mean_ranks(values, np.array([1.0, 9.0, 2.0, 1.0]))
    np.testing.assert_allclose(weighted, np.array(ranks) @ [0.25, 0.5, 0.25])


def test_pooling_by_sets_is_the_mean_of_the_sets_and_by_queries_that_of_all():
    rng = np.random.default_rng(5)
    sizes = {"small": 20, "large": 200}
    measured = {m: {s: rng.random(n) + 0.1 * (m == "b") for s, n in sizes.items()} for m in "abc"}
    for method in measured.values():
        method["small"][3] = np.nan
    models = {
        m: [(s, np.stack([v, v + 0.01])) for s, v in sets.items()] for m, sets in measured.items()
    }
    comparisons = statistics.against(measured, models, "a")
    differences = {s: np.nanmean(measured["b"][s] - measured["a"][s]) for s in sizes}
    assert comparisons["b"].by_set.mean == pytest.approx(np.mean(list(differences.values())))
    assert comparisons["b"].by_query.mean == pytest.approx(
        (19 * differences["small"] + 200 * differences["large"]) / 219
    )
    assert comparisons["b"].each["small"].mean == pytest.approx(differences["small"])
    assert set(comparisons) == {"b", "c"}
    both = sorted((comparisons["b"].by_query.p, comparisons["c"].by_query.p))
    assert sorted(
        (comparisons["b"].holm_by_query, comparisons["c"].holm_by_query)
    ) == pytest.approx([min(1, 2 * both[0]), min(1, max(2 * both[0], both[1]))])


def test_the_luck_of_the_models_is_the_spread_of_their_pooled_means():
    rng = np.random.default_rng(6)
    spread, sizes = 0.02, {"small": [5, 7], "large": [60]}
    folds = [(name, n) for name, counts in sizes.items() for n in counts]
    # Models that differ by one number on all queries of a fold: the spread of their means is known.
    models = {
        f"m{m}": [(name, rng.normal(0, spread, (4, 1)) + np.zeros((4, n))) for name, n in folds]
        for m in range(400)
    }
    shares = {"query": [5 / 72, 7 / 72, 60 / 72], "set": [5 / 24, 7 / 24, 1 / 2]}
    for which, sets in (("query", None), ("set", ["small", "large"])):
        pooled = np.array(
            [
                sum(w * v.mean() for w, (_, v) in zip(shares[which], method, strict=True))
                for method in models.values()
            ]
        )
        estimate = statistics.luck(models, sets)
        assert estimate == pytest.approx(
            spread * np.sqrt(np.square(shares[which]).sum() / 4), rel=0.05
        )
        assert estimate == pytest.approx(pooled.std(), rel=0.1)
    assert statistics.luck(models, ["large"], count=1) == pytest.approx(spread, rel=0.05)
    assert np.isnan(statistics.luck({"a": [("small", np.zeros((1, 5)))]}, None))


def test_p_with_luck_is_right_as_often_as_it_says():
    rng = np.random.default_rng(7)
    luck, queries = 0.05, 100
    weights = np.ones(queries)
    # Two methods that are level: queries differ, and so do the models of both.
    p_values = [
        statistics.p_with_luck(
            rng.normal(0, 0.5, queries) + rng.normal(0, luck) - rng.normal(0, luck), weights, luck
        )
        for _ in range(2000)
    ]
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.015)
    without = [
        statistics.p_with_luck(rng.normal(0, 0.1, queries) + rng.normal(0, luck), weights, 0.0)
        for _ in range(200)
    ]
    assert np.mean(np.array(without) < 0.05) > 0.5
    assert statistics.p_with_luck(np.array([0.0, np.nan, 0.0]), np.ones(3), 0.1) == 1.0
