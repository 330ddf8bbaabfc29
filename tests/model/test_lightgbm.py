"""LightGBM's text is stamped without a change of scores, and damaged or hostile text never reaches
its loader.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import lightgbm as lgb
import numpy as np
import pytest
from packaging.version import Version

from boostrank.core.errors import ModelError
from boostrank.engines.lightgbm.format import LIGHTGBM, stamped
from tests.model.lightgbm_text import make_chain, resize_trees, set_entry, set_header, set_line
from tests.model.real_models import ROWS, SIZE, data, lightgbm_models, squared_error, train_lightgbm

NAMES = sorted(lightgbm_models())


def check_lightgbm_text(text: str) -> None:
    LIGHTGBM.parse(text.encode(errors="surrogateescape"))


def stamp_lightgbm(text: str) -> str:
    return stamped(text.encode()).decode()


@pytest.mark.parametrize("name", NAMES)
def test_what_lightgbm_writes_is_accepted_stamped_or_not(name: str) -> None:
    check_lightgbm_text(lightgbm_models()[name])
    check_lightgbm_text(stamp_lightgbm(lightgbm_models()[name]))


@pytest.mark.parametrize("name", NAMES)
def test_a_text_that_is_taken_apart_is_put_together_without_a_loss(name: str) -> None:
    body = lightgbm_models()[name].encode()
    assert LIGHTGBM.parse(body).to_bytes() == body


@pytest.mark.parametrize("name", NAMES)
def test_a_stamp_tells_readers_the_objective_and_changes_no_score(name: str) -> None:
    text = lightgbm_models()[name]
    stamped = stamp_lightgbm(text)
    assert stamp_lightgbm(stamped) == stamped
    native, ours = lgb.Booster(model_str=text), lgb.Booster(model_str=stamped)
    assert ours.dump_model()["objective"] == "lambdarank"
    # LightGBM finds the parameters of a text since 4.7, and not those of a model without trees.
    if ours.num_trees() and Version(lgb.__version__) >= Version("4.7"):
        assert ours.params["objective"] == "lambdarank"
    X, _ = data()
    np.testing.assert_array_equal(
        ours.predict(X, raw_score=True), native.predict(X, raw_score=True)
    )
    assert len(set(stamped.split("\n")) - set(text.split("\n"))) <= 2


def test_a_stamp_gives_a_model_of_a_callable_the_two_lines_that_a_native_one_has() -> None:
    text = lightgbm_models()["callable"]
    assert "\nobjective=" not in text
    stamped, native = stamp_lightgbm(text).split("\n"), lightgbm_models()["lambdarank"].split("\n")
    line_number = native.index("objective=lambdarank")
    assert stamped.index("objective=lambdarank") == line_number
    assert [line.split("=")[0] for line in stamped[: line_number + 4]] == [
        line.split("=")[0] for line in native[: line_number + 4]
    ]
    assert "[objective: lambdarank]" in stamped
    assert "[objective: custom]" not in stamped


def test_a_stamp_leaves_a_native_ranker_as_it_is() -> None:
    assert stamp_lightgbm(lightgbm_models()["lambdarank"]) == lightgbm_models()["lambdarank"]
    other = lightgbm_models()["lambdarank"].replace("=lambdarank\n", "=rank_xendcg\n")
    assert "\nobjective=lambdarank\n" in stamp_lightgbm(other)


def test_a_stamped_model_can_be_trained_further() -> None:
    X, y = data()
    text = lightgbm_models()["callable"]
    params = {
        "objective": squared_error,
        "num_leaves": 7,
        "verbose": -1,
        "num_threads": 1,
        "seed": 3,
    }

    def further(start: str) -> np.ndarray:
        train = lgb.Dataset(X, y, group=[SIZE] * (ROWS // SIZE))
        booster = lgb.train(params, train, 3, init_model=lgb.Booster(model_str=start))
        assert booster.num_trees() == 7
        return booster.predict(X, raw_score=True)

    np.testing.assert_array_equal(further(stamp_lightgbm(text)), further(text))


HOSTILE: dict[str, tuple[Callable[[str], str], str]] = {
    "child beyond the nodes": (set_entry("left_child", 0, "99999"), "child is out of range"),
    "child beyond the leaves": (set_entry("right_child", 0, "-8"), "child is out of range"),
    "child beyond 32 bits": (set_entry("right_child", 0, "4294967297"), "out of range"),
    "child beyond 64 bits": (set_entry("right_child", 0, "9" * 30), "not a number"),
    "the root as a child": (set_entry("left_child", 1, "0"), "child is out of range"),
    "a node with two parents": (
        set_line("left_child", "1 1 3 -2 -4 -5"),
        "a node or leaf has no parent or two parents",
    ),
    "a leaf with two parents": (
        set_entry("left_child", 5, "-1"),
        "a node or leaf has no parent or two parents",
    ),
    "a cycle": (
        lambda t: set_line("right_child", "-2 2 1 -4 -6 -7")(
            set_line("left_child", "3 -1 -3 4 5 -5")(t)
        ),
        "cycle",
    ),
    "a feature that is not there": (
        set_entry("split_feature", 0, "6"),
        "split_feature is out of range",
    ),
    "a negative feature": (set_entry("split_feature", 0, "-1"), "split_feature is out of range"),
    "a count of leaves beyond the file": (
        set_line("num_leaves", "1000000000"),
        "num_leaves is '1000000000'",
    ),
    "a count of leaves that is one off": (
        set_line("num_leaves", "8"),
        "leaf_value has 7 entries, but needs 8",
    ),
    "a count of leaves below one": (set_line("num_leaves", "0"), "num_leaves"),
    "a count of categories beyond the file": (set_line("num_cat", "1000000000"), "num_cat"),
    "no categories though promised": (set_line("num_cat", "2"), "cat_boundaries"),
    "a categorical split without a set": (set_entry("decision_type", 0, "1"), "set of categories"),
    "an unknown kind of split": (
        set_entry("decision_type", 0, "12"),
        "decision_type is out of range",
    ),
    "a score that is not a number": (set_entry("leaf_value", 3, "nan"), "leaf_value is not finite"),
    "a score beyond float64": (set_entry("leaf_value", 3, "1e999"), "leaf_value is not finite"),
    "a word instead of a number": (
        set_entry("threshold", 3, "0.5x"),
        "threshold has something that is not a number",
    ),
    "a number with an underscore": (
        set_entry("leaf_count", 3, "1_0"),
        "leaf_count has something that is not a number",
    ),
    "a number of ten thousand digits": (set_entry("leaf_value", 0, "1" * 10_000), "not a number"),
    "a missing entry": (set_line("threshold", "1 2 3 4 5"), "threshold has 5 entries, but needs 6"),
    "a missing line": (
        lambda t: resize_trees(t.replace("\nleft_child=", "\nleft_chlid=", 1)),
        "no 'left_child'",
    ),
    "a line twice": (
        lambda t: resize_trees(t.replace("\nnum_cat=0", "\nnum_cat=0\nnum_cat=0", 1)),
        "repeated line",
    ),
    "too many lines": (
        lambda t: resize_trees(
            t.replace("\nnum_cat", "".join(f"\nx{i}=1" for i in range(9)) + "\nnum_cat", 1)
        ),
        "not closed",
    ),
    "a linear tree without its models": (set_line("is_linear", "1"), "linear models"),
    "more trees than there are": (
        set_header(r"^tree_sizes=", "tree_sizes=" + "9 " * 1000),
        "tree_sizes gives 9",
    ),
    "a tree of another size": (
        set_header(r"^tree_sizes=\d+", "tree_sizes=1000000000"),
        "tree_sizes gives 1000000000",
    ),
    "a tree of a smaller size": (
        set_header(r"^tree_sizes=\d+", "tree_sizes=9"),
        "tree_sizes gives 9",
    ),
    "more classes than trees a round": (
        set_header(r"^num_class=1", "num_class=2"),
        "2 outputs per document",
    ),
    "trees out of order": (lambda t: t.replace("Tree=1\n", "Tree=2\n"), "expected 'Tree=1'"),
    "too few names": (
        set_header(r"^max_feature_idx=5", "max_feature_idx=6"),
        "7 features, but feature_names has 6",
    ),
    "more features than memory": (
        set_header(r"^max_feature_idx=5", "max_feature_idx=2147483646"),
        "feature_names has 6",
    ),
    "no features at all": (
        set_header(r"^max_feature_idx=5", "max_feature_idx=-1"),
        "max_feature_idx",
    ),
    "a range that is none": (set_header(r"\[0:39\]", "[0"), "feature_infos of feature 4"),
    "a newer format": (set_header(r"^version=v4", "version=v5"), "v5.*supported: v2, v3, v4"),
    "no format": (set_header(r"^version=v4\n", ""), "no 'version'"),
    "a header line twice": (set_header(r"^num_class=1", "num_class=1\nnum_class=1"), "repeated"),
    "a NUL byte": (lambda t: t.replace("split_gain", "split\0gain", 1), "is not UTF-8 text"),
    "a lone surrogate": (lambda t: t.replace("Column_0", "\udc80", 1), "not UTF-8 text"),
    "converted line ends": (lambda t: t.replace("\n", "\r\n"), "CRLF"),
    "a parameter without a colon": (
        set_header(r"^\[boosting: gbdt\]", "[boosting gbdt]"),
        "broken line '.boosting gbdt.'",
    ),
    "parameters without an end": (
        set_header(r"^end of parameters", ""),
        "no line 'end of parameters'",
    ),
    "categories nested without end": (
        set_header(r"^pandas_categorical:null", "pandas_categorical:" + "[" * 300 + "]" * 300),
        "broken JSON",
    ),
    "leaves beyond all numbers": (
        lambda t: resize_trees(re.sub("leaf_value=[^ ]+", "leaf_value=-5e149", t)),
        "add up to more than 1e.150",
    ),
    "broken categories": (
        set_header(r"^pandas_categorical:null", "pandas_categorical:[["),
        "broken JSON",
    ),
    "text that is cut in its tail": (lambda t: t[:-8], "truncated"),
    "text of something else": (lambda _: "a poem\n\nabout trees\n", "not LightGBM model text"),
    "nothing": (lambda _: "", "not LightGBM model text"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_fault_086_hostile_text_is_refused_with_words(name: str) -> None:
    edit, words = HOSTILE[name]
    good = lightgbm_models()["lambdarank"]
    bad = edit(good)
    assert bad != good
    with pytest.raises(ModelError, match=words):
        check_lightgbm_text(bad)


def test_fault_086_a_tree_may_be_deep_but_not_bottomless() -> None:
    check_lightgbm_text(make_chain(2000))
    with pytest.raises(ModelError, match="deeper than 4096"):
        check_lightgbm_text(make_chain(6000))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (set_entry("cat_boundaries", -1, "99"), "cat_boundaries is out of range"),
        (set_entry("cat_boundaries", 0, "1"), "cat_boundaries do not fit"),
        (set_entry("cat_boundaries", -1, "1"), "cat_boundaries do not fit"),
        (set_entry("cat_threshold", 0, "1 1"), "cat_boundaries do not fit"),
        (set_entry("cat_threshold", 0, "4294967296"), "cat_threshold is out of range"),
        (set_entry("cat_threshold", 0, "-1"), "cat_threshold is out of range"),
    ],
)
def test_fault_086_sets_of_categories_stay_inside_their_list(
    edit: Callable[[str], str], words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        check_lightgbm_text(edit(lightgbm_models()["sets of categories"]))


def test_fault_086_a_categorical_split_names_one_of_the_sets_of_its_tree() -> None:
    text = lightgbm_models()["sets of categories"]
    tree = dict(
        part.split("=", 1) for part in text[text.index("Tree=0") :].split("\n\n")[0].split("\n")
    )
    split = next(i for i, kind in enumerate(tree["decision_type"].split(" ")) if int(kind) & 1)
    for value in (tree["num_cat"], "-1", "0.5", "nan"):
        with pytest.raises(ModelError, match="set of categories"):
            check_lightgbm_text(set_entry("threshold", split, value)(text))


def test_linear_models_in_the_leaves_are_refused() -> None:
    booster = train_lightgbm(linear_tree=True, min_data_in_leaf=30)
    with pytest.raises(ModelError, match="tree 0 has linear models"):
        check_lightgbm_text(booster.model_to_string())


def test_a_multiclass_model_is_not_a_ranker() -> None:
    booster = train_lightgbm(objective="multiclass", num_class=5)
    with pytest.raises(ModelError, match="5 outputs per document"):
        check_lightgbm_text(booster.model_to_string())


def test_text_of_an_older_version_without_tree_sizes_is_accepted() -> None:
    text = re.sub(r"(?m)^tree_sizes=.*\n", "", lightgbm_models()["lambdarank"]).replace(
        "version=v4", "version=v3"
    )
    text = re.sub(r"(?m)^is_linear=0\n", "", text)
    check_lightgbm_text(text)
    X, _ = data()
    expected = lgb.Booster(model_str=lightgbm_models()["lambdarank"]).predict(X)
    np.testing.assert_array_equal(lgb.Booster(model_str=text).predict(X), expected)
