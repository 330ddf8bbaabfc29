"""Scores that were broken in a known way, by a walk of the engine's own dump, are told by that way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.data.libsvm.writer import write_libsvm
from boostrank.engines import get_backend
from boostrank.engines.linear.format import LinearModel, Scaling
from boostrank.export.verification import Verification, verify
from boostrank.kernels.trees.curves import ZERO
from tests.cli.conftest import invoke

pytestmark = pytest.mark.usefixtures("leaves_as_grown")

D, ROUNDS = 12, 14
Goes = Callable[[Any, Any], bool]


def table(rows: int, seed: int = 1) -> np.ndarray:
    """Halves and tenths, which thresholds will be too; zeros, missing values."""
    rng = np.random.default_rng(seed)
    out = rng.integers(-8, 9, (rows, D)) / np.where(np.arange(D) % 2, 10.0, 2.0)
    return np.where(rng.random(out.shape) < 0.1, np.nan, out).astype(np.float32)


def ranking(rows: np.ndarray) -> boostrank.RankingDataset:
    filled = np.nan_to_num(rows)
    labels = np.digitize(filled[:, 0] + 4.0 * filled[:, 1] - filled[:, 2] * filled[:, 3] + filled[:, 10], [-1.0, 1.0])
    return boostrank.RankingDataset.from_arrays(rows, labels, group=[25] * (len(rows) // 25))


@pytest.fixture(scope="module")
def data() -> boostrank.RankingDataset:
    return ranking(table(500, 2))


@pytest.fixture(scope="module")
def model() -> boostrank.RankingModel:
    """Of LightGBM, with a start; the thresholds of its trees are on values of the data."""
    params = {"objective": "auto", "num_leaves": 15, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}
    trained = boostrank.train(params, ranking(table(1500)), ROUNDS)
    engine = get_backend("lightgbm")
    text = engine.format.parse(trained.to_bytes())
    head, grown = text.head, []
    for tree in text.trees:
        if tree.number >= text.start_trees:
            step = [10.0 if int(f) % 2 else 2.0 for f in tree.words(b"split_feature")]
            ends = [np.round(float(t) * s) / s for t, s in zip(tree.words(b"threshold"), step, strict=True)]
            tree.fields[b"threshold"] = b" ".join(repr(float(end) or ZERO).encode() for end in ends)  # type: ignore[index]
        grown.append(tree.to_bytes())
    head = re.sub(rb"tree_sizes=.*", b"tree_sizes=" + b" ".join(b"%d" % len(one) for one in grown), head)
    booster = engine.from_bytes(head + b"\n\n" + b"".join(grown) + text.tail)
    return boostrank.RankingModel(engine, booster, info=trained.info)


@pytest.fixture(scope="module")
def dump(model: boostrank.RankingModel) -> list[dict[str, Any]]:
    return [tree["tree_structure"] for tree in model.booster.dump_model()["tree_info"]]


def walked(
    dump: list[dict[str, Any]], rows: np.ndarray, *, goes: Goes = lambda x, t: x <= t,
    leaf: Callable[[float], float] = float, missing: float | None = None,
) -> np.ndarray:  # fmt: skip
    """Scores by LightGBM's dump, by another comparison and other leaves."""

    def down(node: dict[str, Any], row: list[float]) -> float:
        while "leaf_value" not in node:
            x = row[node["split_feature"]]
            if np.isnan(x) and missing is not None:
                x = missing
            if np.isnan(x) and node["missing_type"] == "NaN":
                left = node["default_left"]
            else:
                left = goes(0.0 if np.isnan(x) else x, node["threshold"])
            node = node["left_child" if left else "right_child"]
        return leaf(node["leaf_value"])

    return np.array([sum(down(tree, row) for tree in dump) for row in rows.astype(np.float64).tolist()])


def start_of(model: boostrank.RankingModel) -> int:
    return model.booster.num_trees() - ROUNDS


def test_the_walk_of_the_tests_is_the_models(model: Any, dump: Any, data: Any) -> None:
    assert start_of(model) > 3
    np.testing.assert_allclose(walked(dump, data.features), model.predict(data), atol=1e-12)
    assert verify(model, data, model.predict(data)).level == "bits"


def named(found: Verification, name: str, words: str = "") -> None:
    assert found.cause is not None
    assert found.cause.name == name
    assert words in found.cause.words
    assert found.cause.share == 1.0


def test_the_start_that_was_dropped(model: Any, dump: Any, data: Any) -> None:
    found = verify(model, data, walked(dump[start_of(model) :], data.features))
    named(found, "start")
    assert (found.level, found.different) == ("different", 500)


def test_fewer_rounds(model: Any, dump: Any, data: Any) -> None:
    named(verify(model, data, walked(dump[:-5], data.features)), "rounds", "the first 9 of 14 rounds were used")


def test_missing_values_as_zero(model: Any, dump: Any, data: Any) -> None:
    named(verify(model, data, walked(dump, data.features, missing=0.0)), "missing", "missing values were taken for 0")


def test_zero_as_missing_values(model: Any, dump: Any, data: Any) -> None:
    rows = np.where(data.features == 0.0, np.nan, data.features)
    named(verify(model, data, walked(dump, rows)), "missing", "0 was taken for a missing value")


def test_less_in_place_of_less_or_equal(model: Any, dump: Any, data: Any) -> None:
    named(verify(model, data, walked(dump, data.features, goes=lambda x, t: x < t)), "comparison", "compared by `<`")


@pytest.mark.filterwarnings("ignore:overflow")  # the first split of a start is below all float32 numbers
def test_comparisons_in_float32(model: Any, dump: Any, data: Any) -> None:
    in_float32 = walked(dump, data.features, goes=lambda x, t: np.float32(x) <= np.float32(t), leaf=np.float32)
    named(verify(model, data, in_float32), "float32", "float32")


@pytest.mark.filterwarnings("ignore:overflow")
def test_solrs_slack(model: Any, dump: Any) -> None:
    def goes(x: float, t: float) -> bool:
        return bool(np.float32(x) <= np.float32(np.float32(t) + np.float32(1e-6)))

    rows = table(500, 3)
    rows[:, ::2] += np.float32(6e-7)  # above the thresholds, by less than the slack
    near = ranking(rows)
    named(verify(model, near, walked(dump, near.features, goes=goes).astype(np.float32)), "slack", "Solr")


@pytest.mark.parametrize(("digits", "words"), [(2, "2 decimals"), (3, "3 decimals")])
def test_rounded_leaves(model: Any, dump: Any, data: Any, digits: int, words: str) -> None:
    found = verify(model, data, walked(dump, data.features, leaf=lambda v: round(v, digits)))
    named(found, "leaves", f"leaf values were rounded to {words}")


def test_features_in_another_order(model: Any, dump: Any, data: Any) -> None:
    by_name = sorted(range(D), key=lambda j: f"f{j + 1}")
    named(verify(model, data, walked(dump, data.features[:, by_name])), "features", "in the order of their names")
    late = np.column_stack([np.zeros(500), data.features[:, :-1]])
    named(verify(model, data, walked(dump, late)), "features", "numbered one too high")
    swapped = data.features.copy()
    swapped[:, [1, 2]] = swapped[:, [2, 1]]
    named(verify(model, data, walked(dump, swapped)), "features", "f2 and f3 are taken for each other")
    dead = data.features.copy()
    dead[:, 1] = 0.0
    found = verify(model, data, walked(dump, dead))
    named(found, "feature", "f2 was 0 for every document")
    assert 0 < found.moved < found.different < 500


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        (lambda s: s + 0.5, "bias", "+0.5 was added"),
        (lambda s: 0.1 * s, "factor", "multiplied by 0.1"),
        (lambda s: 2.0 * s - 3.0, "factor", "multiplied by 2, and -3 added"),
        (lambda s: 1.0 / (1.0 + np.exp(-s)), "sigmoid", "sigmoid"),
        (lambda s: s**3, "monotone", "keeps their order"),
        (lambda s: np.round(s, 3), "rounded", "3 decimals"),
    ],
)
def test_numbers_after_the_sum(model: Any, data: Any, change: Callable[[Any], Any], name: str, words: str) -> None:
    own = model.predict(data)
    found = verify(model, data, change(own))
    named(found, name, words)
    assert (found.level == "ranking") == (found.moved == 0)
    assert name == "rounded" or found.equal("ranking")
    assert not found.equal()


def test_rows_in_another_order(model: Any, data: Any) -> None:
    own = model.predict(data)
    named(verify(model, data, np.roll(own, 1)), "order", "one row too late")
    ranked = np.concatenate([np.sort(part)[::-1] for part in np.split(own, 20)])
    named(verify(model, data, ranked), "order", "the scores of each query are the model's, in another order")
    shuffled = np.random.default_rng(1).permutation(own)
    named(verify(model, data, shuffled), "order", "the scores are the model's, in another order")


def test_what_nobody_knows_has_no_cause(model: Any, data: Any) -> None:
    rng, own = np.random.default_rng(1), model.predict(data)
    assert verify(model, data, rng.normal(size=500)).cause is None
    assert verify(model, data, own + rng.normal(size=500)).cause is None
    assert verify(model, data, np.round(rng.normal(size=500), 1), precision=0.05).cause is None
    few = data.take([0]).sample(25, 1)
    assert verify(model, few, rng.normal(size=25)).cause is None
    named(verify(model, data, np.full(500, 0.25)), "constant")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_model_whose_scores_are_all_the_same_has_no_factor(data: Any) -> None:
    names, zeros = tuple(f"f{i}" for i in range(1, 13)), np.zeros(12)
    constant = LinearModel(names, Scaling("none", zeros, np.ones(12)), 1, np.array([[*zeros, 1000.1]]))
    level = boostrank.RankingModel(get_backend("linear"), constant)
    own = level.predict(data)
    assert np.ptp(own) == 0.0 < own.std(), "equal scores, and a standard deviation by rounding"
    found = verify(level, data, np.random.default_rng(1).normal(size=500))
    assert (found.different, found.cause) == (500, None)


def test_a_cause_of_most_documents_is_named_with_its_share(model: Any, dump: Any, data: Any) -> None:
    logged = walked(dump[start_of(model) :], data.features)
    logged[::5] = np.random.default_rng(1).normal(size=100)
    found = verify(model, data, logged)
    assert found.cause is not None
    assert (found.cause.name, found.cause.share) == ("start", 0.8)


def test_xgboost_is_read_by_its_own_rules(data: Any) -> None:
    params = {"objective": "auto", "max_depth": 4, "num_threads": 1}
    model = boostrank.train(params, ranking(table(1500)), 10, backend="xgboost", start="none")
    trees = [json.loads(text) for text in model.booster.get_dump(dump_format="json")]

    def score(row: np.ndarray) -> np.float32:
        total = np.float32(0.0)
        for node in trees:
            while "leaf" not in node:
                x = row[model.feature_names.index(node["split"])]
                left = x <= np.float32(node["split_condition"])  # and not `<`
                to = node["missing"] if np.isnan(x) else node["yes"] if left else node["no"]
                node = next(child for child in node["children"] if child["nodeid"] == to)
            total += np.float32(node["leaf"])
        return total

    logged = np.array([score(row) for row in data.features])
    named(verify(model, data, logged), "comparison", "compared by `<=`, where XGBoost compares by `<`")
    assert verify(model, data, model.predict(data)).level == "bits"


@pytest.mark.parametrize("form", ["lines", "json", "csv"])
def test_the_command_reads_what_was_logged(model: Any, dump: Any, tmp_path: Path, form: str) -> None:
    rows = np.nan_to_num(table(100, 4))
    write_libsvm(tmp_path / "d.txt", ranking(rows))
    text = "# a comment\n\n" + (tmp_path / "d.txt").read_text()
    (tmp_path / "d.txt").write_text(text)
    model.save(tmp_path / "m.txt")
    own = boostrank.RankingModel.load(tmp_path / "m.txt").predict(ranking(rows))

    def run(scores: np.ndarray, *more: str) -> Any:
        lines = {
            "lines": [f"{s:.6f}" for s in scores],
            "json": [json.dumps({"id": i, "score": float(f"{s:.7g}")}) for i, s in enumerate(scores)],
            "csv": ["query,_score,rank", *(f"{i // 25},{np.float32(s)!s},7" for i, s in enumerate(scores))],
        }[form]
        (tmp_path / "s.txt").write_text("\n".join(lines) + "\n")
        options = ("--zero-based", "false", *more)
        return invoke(
            "verify", tmp_path / "m.txt", "--against", tmp_path / "s.txt", "--data", tmp_path / "d.txt", *options
        )

    same = run(own)
    assert (same.exit_code, "equal" in same.stdout) == (0, True), same.stdout + same.stderr
    dropped = walked(dump[start_of(model) :], rows)
    dropped[:30] = own[:30]
    result = run(dropped)
    assert result.exit_code == 1
    assert f"the first: {tmp_path / 'd.txt'}:33, query 1: " in result.stdout
    assert "cause: the start is missing" in result.stdout
    printed = json.loads(run(dropped, "--json").stdout)
    assert (printed["different"], printed["cause"]["name"], printed["equal"]) == (70, "start", False)
    assert run(own + 0.25).exit_code == 1
    assert run(own + 0.25, "--tolerance", "ranking").exit_code == 0


def test_other_files_than_scores_are_refused(model: Any, tmp_path: Path) -> None:
    write_libsvm(tmp_path / "d.txt", ranking(np.nan_to_num(table(25, 4))))
    model.save(tmp_path / "m.txt")
    for lines, words in (
        ("1\n2\n", "2 scores, but the data has 25 rows"), ("1\nx\n", "s.txt:2: 'x' has no finite score"),
        ('{"id": 3}\n', "s.txt:1: "),
    ):  # fmt: skip
        (tmp_path / "s.txt").write_text(lines)
        result = invoke("verify", tmp_path / "m.txt", "--against", tmp_path / "s.txt", "--data", tmp_path / "d.txt")
        assert result.exit_code == 2
        assert words in result.stderr


def test_models_without_trees_are_compared_too(data: Any) -> None:
    linear = boostrank.train({"objective": "approx-ndcg"}, ranking(np.nan_to_num(table(500))), 3, backend="linear")
    own = linear.predict(data)
    assert verify(linear, data, own).level == "bits"
    named(verify(linear, data, own + 1.0), "bias")
