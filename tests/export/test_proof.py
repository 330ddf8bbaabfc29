"""Proof of an export: what scores otherwise is refused, by the kind of row; documents that move are
counted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.core.errors import FileFormatError, InputError, ParameterError
from boostrank.engines.served.rules import Rules, scores
from boostrank.export import TARGETS, target_lines
from boostrank.export.proof import FLOAT32, _compare_scores, moved_line, prove
from boostrank.export.target import ExportError, TargetSpec
from boostrank.export.writing import export_model, how_to, read_feature_names
from boostrank.files.names import name_of
from boostrank.model.ranking_model import RankingModel
from tests.export.conftest import Example, example, table

NAMES = ("bm25", "clicks", "age", "links", "shop", "colour")


def toy(**options) -> TargetSpec:
    """A target whose file is empty, and which computes in float64."""
    return TargetSpec(
        name="toy",
        title="Toy",
        write=lambda model: b"",
        read=lambda body, names: None,
        proved_by="a toy",
        how="{file}\n{model}\n",
        rules=Rules(),
        **options,
    )


@pytest.fixture
def to_toy(monkeypatch: pytest.MonkeyPatch):
    """Export by some rules to nowhere."""

    def export(of: Example, rules: Rules, path: Path, **options):
        target = options.pop("target", {})
        spec = replace(
            toy(**target),
            read=lambda body, names: lambda rows: scores(of.served.trees, rows, rules),
        )
        monkeypatch.setitem(TARGETS._added, "toy", spec)
        return export_model(of.model, path, "toy", **options)

    return export


def test_equal_scores_are_proved(to_toy, tmp_path: Path) -> None:
    proof = to_toy(example("lightgbm-start-missing"), Rules(), tmp_path / "m")
    assert proof.same_bits
    assert proof.largest == 0.0
    assert proof.nodes == proof.of_nodes
    assert (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        (Rules(missing=0.0), "missing"),
        (Rules(slack=1e-3), "thresholds"),
        (Rules(values=np.float16), "thresholds"),
    ],
)
def test_other_rules_are_refused_and_nothing_is_written(
    to_toy, tmp_path: Path, rules: Rules, kind: str
) -> None:
    path = tmp_path / "m"
    path.write_text("before")
    with pytest.raises(ExportError, match=f"of kind '{kind}'"):
        to_toy(example("lightgbm-none-missing"), rules, path)
    assert path.read_text() == "before"


def test_allow_names_the_kind_of_row(to_toy, tmp_path: Path) -> None:
    of = example("lightgbm-none-missing")
    proof = to_toy(of, Rules(missing=0.0), tmp_path / "m", allow=("missing", "infinite"))
    assert proof.other_leaves["missing"] > 0
    assert set(proof.other_leaves) <= {"missing", "infinite"}
    with pytest.raises(ExportError, match="'missing'"):
        to_toy(of, Rules(missing=0.0), tmp_path / "n", allow=("zeros",))
    with pytest.raises(ParameterError, match="needs data"):
        to_toy(of, Rules(), tmp_path / "n", allow=("moved",))
    with pytest.raises(ParameterError, match="allow must be from"):
        to_toy(of, Rules(), tmp_path / "n", allow=("mising",))


def test_the_reason_says_what_helps(to_toy, tmp_path: Path) -> None:
    of = example("lightgbm-none-missing")
    with pytest.raises(ExportError, match=r"reads 0: .*--fill median; "):
        to_toy(
            of,
            Rules(missing=0.0),
            tmp_path / "m",
            target={"no_missing": "it reads 0"},
        )


def test_documents_that_move_are_refused_by_query(to_toy, tmp_path: Path) -> None:
    X, y = table("missing")
    data = boostrank.RankingDataset.from_arrays(
        X.astype(np.float32), y, qid=np.repeat(np.arange(30) + 100, 20)
    )
    of = example("lightgbm-none-missing")
    rules, allow = Rules(missing=0.0), ("missing", "infinite")
    with pytest.raises(ExportError, match=r"change rank.* row \d+, query 1\d\d"):
        to_toy(of, rules, tmp_path / "m", data=data, allow=allow)
    proof = to_toy(of, rules, tmp_path / "m", data=data, allow=(*allow, "moved"))
    before = data.queries.ranks(of.model.predict(data))
    after = data.queries.ranks(scores(of.served.trees, data.features, rules))
    assert proof.moves.moved == (before != after).sum() > 0
    assert proof.moves.largest > 0
    assert to_toy(of, Rules(), tmp_path / "m", data=data).moves.level == "equal"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: replace(t, base=t.base + 0.1),
        lambda t: replace(t, forest=replace(t.forest, value=np.roll(t.forest.value, 1))),
        lambda t: replace(t, forest=replace(t.forest, threshold=t.forest.threshold + 1e-3)),
        lambda t: replace(t, forest=replace(t.forest, kind=t.forest.kind ^ 1)),
    ],
    ids=["base", "leaves", "thresholds", "missing"],
)
@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_a_model_that_is_read_wrongly_is_refused_though_its_file_says_the_same(
    engine: str, wrong
) -> None:
    of = example(f"{engine}-none-missing")
    served = replace(of.served, trees=wrong(of.served.trees))
    for target in map(TARGETS.get, ("sql", "elasticsearch", "vespa")):
        prove(of.model, of.served, target, target.write(of.served))
        with pytest.raises(ExportError, match="get different scores"):
            prove(of.model, served, target, target.write(served))


def test_one_unit_of_float32_in_one_leaf_is_noticed() -> None:
    of = example("lightgbm-none-missing")
    forest = of.served.trees.forest
    value = forest.value.astype(np.float32).astype(np.float64)
    value[np.argmax(np.abs(value))] *= 1 + 2.0**-23
    changed = replace(
        of.served, trees=replace(of.served.trees, forest=replace(forest, value=value))
    )
    for target in map(TARGETS.get, ("elasticsearch", "solr", "vespa", "c")):
        with pytest.raises(ExportError, match="get different scores"):
            prove(of.model, of.served, target, target.write(changed))


def test_a_refusal_says_what_moves_in_the_users_data(to_toy, tmp_path: Path) -> None:
    X, y = table("missing")
    data = boostrank.RankingDataset.from_arrays(X.astype(np.float32), y, group=[20] * 30)
    with pytest.raises(ExportError, match=r"'missing'.* \d+ of 600 .*change rank"):
        to_toy(example("lightgbm-none-missing"), Rules(missing=0.0), tmp_path / "m", data=data)


def test_documents_that_move_by_rounding_are_counted() -> None:
    data = boostrank.RankingDataset.from_arrays(np.eye(2, dtype=np.float32), [0, 1], group=[2])
    moves = _compare_scores(np.array([1.0, 1.0 + 1e-9]), np.ones(2), data, slack=1e-6)
    assert (moves.level, moves.moved, moves.first) == (FLOAT32, 2, None)
    assert moved_line(moves).startswith("2 of 2 documents")
    assert moved_line(replace(moves, moved=0)).startswith("none of 2 documents")


def test_rows_may_be_those_of_an_engine(tmp_path: Path) -> None:
    X, y = table("missing")
    model = example("lightgbm-none-missing").model
    rows = lgb.Dataset(X, y, group=[20] * 30, free_raw_data=False)
    proof = export_model(model, tmp_path / "m", "solr", data=rows)
    assert proof.moves.documents == 600
    with pytest.raises(ParameterError, match="data=<ndarray>"):
        export_model(model, tmp_path / "m", "solr", data=X)


@pytest.mark.parametrize(
    ("value", "refused"),
    [(True, True), ("true", True), ("+", True), ("false", False), ("-", False)],
)
def test_zeros_are_missing_if_the_parameter_is_true(value: bool | str, refused: bool) -> None:
    objections = TARGETS.get("solr").objections(params={"zero_as_missing": value})
    assert any(objections) == refused


def test_leaves_beyond_float32_are_refused(tmp_path: Path) -> None:
    of = example("lightgbm-none-whole")
    booster = lgb.Booster(model_str=of.served.body.decode())
    booster.set_leaf_output(0, 0, -1e39)
    (tmp_path / "model.txt").write_text(booster.model_to_string())
    model = RankingModel.load(tmp_path / "model.txt")
    for target in ("elasticsearch", "solr", "vespa"):
        with pytest.raises(ExportError, match=r"get different scores.*choose another target"):
            export_model(model, tmp_path / "m", target)
    assert export_model(model, tmp_path / "m", "python").same_bits


@pytest.mark.parametrize(
    "name", ["exp(price)", "max(a,b)", "if(a,b,c)", "isNan(a)", "attribute()", "a(b,)", "a b"]
)
def test_what_vespa_takes_for_a_function_names_no_feature(name: str, tmp_path: Path) -> None:
    model = example("lightgbm-none-whole").model
    with pytest.raises(ExportError, match="not a rank feature"):
        export_model(model, tmp_path / "m", "vespa", feature_names=[name, *NAMES[1:]])
    export_model(
        model,
        tmp_path / "m",
        "vespa",
        feature_names=["fieldMatch(title).completeness", "max", *NAMES[2:]],
    )


def test_a_file_that_its_engine_refuses_is_called_the_exported_file(tmp_path: Path) -> None:
    names = ["=", *NAMES[1:]]
    with pytest.raises(ExportError, match=r"^the exported file: "):
        export_model(
            example("lightgbm-none-whole").model, tmp_path / "m", "lightgbm", feature_names=names
        )


def test_rows_that_everybody_has_are_not_offered_to_be_allowed(to_toy, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"'thresholds'.*another target$"):
        to_toy(example("lightgbm-none-missing"), Rules(slack=1e-3), tmp_path / "m")


@pytest.mark.parametrize(
    ("threshold", "untried"), [(0.5, False), (-1e-7, True), (1e-35, False), (-1e-35, True)]
)
def test_values_that_are_too_near_to_a_threshold_are_told(
    tmp_path: Path, threshold: float, untried: bool
) -> None:
    of = example("lightgbm-none-whole")
    forest = replace(
        of.served.trees.forest, threshold=np.full_like(of.served.trees.forest.threshold, threshold)
    )
    served = replace(of.served, trees=replace(of.served.trees, forest=forest))
    solr = TARGETS.get("solr")
    allow = ("thresholds", "random", "zeros", "missing", "infinite")
    assert (prove(of.model, served, solr, solr.write(served), allow=allow).untried > 0) == untried


def test_wrong_targets_and_names_are_refused(tmp_path: Path) -> None:
    model = example("lightgbm-none-whole").model
    with pytest.raises(ParameterError, match=r"unknown target 'sollr'.*solr"):
        export_model(model, tmp_path / "m", "sollr")
    with pytest.raises(ParameterError, match=r"2 feature names .*6"):
        export_model(model, tmp_path / "m", "solr", feature_names=["a", "b"])
    with pytest.raises(ParameterError, match=r"two features .*'a'"):
        export_model(model, tmp_path / "m", "solr", feature_names=list("abcdea"))
    for name in ("", "a\nb", "a\0", "a\u2028b", "\ud800", "\x85"):
        with pytest.raises(ParameterError, match="valid feature name"):
            export_model(model, tmp_path / "m", "solr", feature_names=[*"abcde", name])
        with pytest.raises(ParameterError, match="valid model name"):
            export_model(model, tmp_path / "m", "solr", name=name or "\t")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "bm25\nclicks\n\nage\n",
        json.dumps(["bm25", "clicks", "age"]),
        json.dumps([{"name": "bm25", "class": "x"}, {"name": "clicks"}, {"name": "age"}]),
        json.dumps(
            {
                "featureset": {
                    "name": "s",
                    "features": [{"name": "bm25"}, {"name": "clicks"}, {"name": "age"}],
                }
            }
        ),
        json.dumps(
            {
                "learning_to_rank": {
                    "feature_extractors": [
                        {"query_extractor": {"feature_name": name, "query": {}}}
                        for name in ("bm25", "clicks", "age")
                    ]
                }
            }
        ),
    ],
)
def test_feature_names_are_read_from_lines_and_feature_stores(tmp_path: Path, text: str) -> None:
    path = tmp_path / "names"
    path.write_text(text)
    assert tuple(map(name_of, read_feature_names(str(path)))) == ("bm25", "clicks", "age")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1, 2]",
        '[{"name": null}]',
        '[{"name": {}}]',
        '[{"class": "x"}]',
        "[" * 100_000,
        '{"features": 3}',
        '[{"query_extractor": {}}]',
        '[{"query_extractor": 1}]',
        '[{"query_extractor": {"feature_name": 1}}]',
    ],
)
def test_other_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "names"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="one name per line"):
        read_feature_names(str(path))


def test_a_feature_store_in_another_order_keeps_the_names_of_the_columns(tmp_path: Path) -> None:
    model = RankingModel(example("lightgbm-none-whole").model.booster)
    default_path = tmp_path / "own.json"
    export_model(model, default_path, "solr", name="m")
    export_model(
        model, tmp_path / "m.json", "solr", name="m", feature_names=model.feature_names[::-1]
    )
    assert default_path.read_bytes() == (tmp_path / "m.json").read_bytes()


def test_features_without_a_store_are_in_solrs_default_one(tmp_path: Path) -> None:
    model = example("lightgbm-none-whole").model
    features = [{"name": name, "params": {"defaultValue": "NaN"}} for name in NAMES]
    export_model(model, tmp_path / "m", "solr", feature_names=features)
    assert "store" not in json.loads((tmp_path / "m").read_bytes())
    features[2]["store"] = "shop"
    with pytest.raises(ParameterError, match=r"_DEFAULT_, shop"):
        export_model(model, tmp_path / "n", "solr", feature_names=features)


def test_a_model_is_not_overwritten_by_its_export(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    example("lightgbm-none-whole").model.save(path)
    before = path.read_bytes()
    for output in (path, f"{path}.meta.json"):
        with pytest.raises(InputError, match=r"would be overwritten"):
            export_model(path, output, "solr")
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["a\n\na\n", "a\n\n1: b\n", "\n\nname\nage\n"])
def test_a_line_that_names_no_feature_is_counted_with_blank_ones(tmp_path: Path, text: str) -> None:
    path = tmp_path / "names"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="names:3: "):
        read_feature_names(str(path))


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "names"
    path.write_bytes(b"a\nb\xff\n")
    with pytest.raises(FileFormatError, match="byte 3 is not UTF-8"):
        read_feature_names(str(path))


def test_docstrings_describe_each_target() -> None:
    lines = dict(target_lines())
    assert list(lines) == TARGETS.names()
    assert all(len(line) < 120 for line in lines.values())


def test_how_names_the_file_and_the_model() -> None:
    for spec in TARGETS._specs_by_name.values():
        lines = how_to(spec, "folder/my model.json")
        assert len(lines) == 3
        assert not any(word in line for word in ("{file}", "{model}", "{{") for line in lines)
        assert any("my model.json" in line or "my_model" in line for line in lines)
    lines = how_to(TARGETS.get("vespa"), 'my "model".json')
    assert any(r'xgboost("my \"model\".json")' in line for line in lines)


def test_small_trees_first_leave_less_rounding() -> None:
    of = example("lightgbm-start-missing")
    X, _ = table("missing", seed=5)
    single = Rules(leaves=np.float32, sums=np.float32)
    forest = of.served.trees.forest
    # No longer in units.
    trees = replace(of.served.trees, forest=replace(forest, value=0.1 * forest.value))
    ordered = trees.small_first()
    exact = scores(trees, X, Rules())
    assert np.allclose(scores(ordered, X, Rules()), exact, rtol=0, atol=1e-12)
    before = np.square(scores(trees, X, single) - exact).mean()
    after = np.square(scores(ordered, X, single) - exact).mean()
    assert after < before
    owner = ordered.forest.leaf_trees()
    added = [
        np.average(
            ordered.forest.value[owner == tree] ** 2, weights=ordered.leaf_count[owner == tree]
        )
        for tree in range(ordered.forest.roots.size)
    ]
    assert added == sorted(added)


def test_programs_that_add_in_float32_get_small_trees_first(tmp_path: Path) -> None:
    of = example("lightgbm-none-whole")
    for target, first in (("solr", True), ("c", False)):
        seen = []
        spec = TARGETS.get(target)
        TARGETS._added["spy"] = replace(
            spec, name="spy", write=lambda model, s=spec, k=seen: k.append(model) or s.write(model)
        )
        try:
            export_model(of.model, tmp_path / "m", "spy", feature_names=NAMES)
        finally:
            del TARGETS._added["spy"]
        trees = seen[0].trees
        assert (trees.forest.roots.tolist() == trees.small_first().forest.roots.tolist()) == first


@pytest.mark.parametrize(
    "target",
    [
        "c",
        "elastic",
        "elasticsearch",
        "javascript",
        "onnx",
        "python",
        "solr",
        "sql",
        "vespa",
    ],
)
def test_zeros_between_two_thresholds_stay_by_themselves(target: str, tmp_path: Path) -> None:
    if target == "onnx":
        pytest.importorskip(target, reason=f"the extra {target} is not installed")
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, (600, 2)).astype(np.float32)
    data = boostrank.RankingDataset.from_arrays(X, 2.0 * (X[:, 0] == 0), group=[20] * 30)
    model = boostrank.train(
        {"num_leaves": 4, "num_threads": 1, "objective": "lambdarank"}, data, 3, start="none"
    )
    assert {1e-35, -1e-35} <= {round(t, 36) for t in model.trees().forest.threshold.tolist()}
    proof = export_model(model, tmp_path / "m", target, feature_names=["a", "b"], data=data)
    assert not proof.other_leaves
    assert proof.moves.moved == 0


@pytest.mark.parametrize(
    "target",
    [
        "c",
        "elastic",
        "elasticsearch",
        "javascript",
        "python",
        "solr",
        "sql",
        "vespa",
        "xgboost",
    ],
)
def test_splits_that_no_number_passes(target: str, tmp_path: Path) -> None:
    """XGBoost 3.4 tells what is missing from all numbers by a threshold of -infinity."""
    document = json.loads(example("xgboost-none-missing").model.to_bytes())
    tree = document["learner"]["gradient_booster"]["model"]["trees"][2]
    inner = next(node for node, left in enumerate(tree["left_children"]) if left >= 0 and node > 0)
    tree["split_conditions"][inner], tree["default_left"][inner] = -float("inf"), 1
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    model = boostrank.RankingModel.load(path)
    assert np.isnan(model.trees().forest.threshold).sum() == 1
    assert not export_model(model, tmp_path / "m", target, feature_names=NAMES).other_leaves


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_solr_has_each_threshold_or_the_next_number_that_can_be_had(
    engine: str, tmp_path: Path
) -> None:
    """With 1e-6 added in float32, not every number can be had: few near 0, and every other one near
    -3e-5.
    """
    rng = np.random.default_rng(0)
    for next_to_it, moves in ((-2.9e-5, False), (-2.9947547e-05, True)):
        values = np.array([-3.05e-5, -2.9947549e-05, next_to_it, 0.0, 6e-8, 1e-3, 20.0], np.float32)
        X = rng.choice(values, (600, 1))
        data = boostrank.RankingDataset.from_arrays(
            X, np.searchsorted(values, X[:, 0]) % 5, group=[20] * 30
        )
        params = {"num_leaves": 7, "num_threads": 1}
        model = boostrank.train(params, data, 3, backend=engine, start="linear")
        if moves:
            with pytest.raises(ExportError, match="documents change rank"):
                export_model(model, tmp_path / "m", "solr", feature_names=["a"], data=data)
            continue
        proof = export_model(model, tmp_path / "m", "solr", feature_names=["a"], data=data)
        assert proof.moves.largest < 1e-5  # values that occur go where they did
        assert proof.untried > 1e-13


@pytest.mark.parametrize(
    "target",
    [
        "elastic",
        "opensearch",
        "opensearch-2",
    ],
)
def test_a_target_has_the_same_bits_or_refuses_and_leaves_no_file(
    target: str, tmp_path: Path
) -> None:
    """What is missing is 0 to older versions; `allow` writes the file anyway."""
    assert export_model(
        example("lightgbm-none-whole").model, tmp_path / "whole", target, feature_names=NAMES
    ).same_bits
    # Missing values.
    for kind in ("lightgbm-start-missing", "xgboost-none-missing"):
        path = tmp_path / kind
        if target == "opensearch-2":
            with pytest.raises(ExportError, match="of kind 'missing'"):
                export_model(example(kind).model, path, target, feature_names=NAMES)
            assert not path.exists()
            proof = export_model(
                example(kind).model, path, target, feature_names=NAMES, allow=("missing",)
            )
            assert set(proof.other_leaves) == {"missing"}
        else:
            assert export_model(example(kind).model, path, target, feature_names=NAMES).same_bits
    with pytest.raises(ExportError, match=r"2 categorical features .*--drop"):
        export_model(
            example("lightgbm-none-categories").model,
            tmp_path / "c",
            target,
            feature_names=NAMES,
        )
    assert not (tmp_path / "c").exists()
