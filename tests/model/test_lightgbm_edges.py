"""Each check of LightGBM's text at its edge: the last that is taken, and the first that is refused,
with words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from boostrank.engines.lightgbm.format import LIGHTGBM
from tests.model.lightgbm_text import make_chain, resize_trees, set_entry, set_header, set_line
from tests.model.real_models import lightgbm_models

LARGEST = 2**31 - 1
Text = Callable[[str], str]


def refused(parse: Callable[[bytes], Any], body: bytes, words: str) -> None:
    """The message begins with these words."""
    with pytest.raises(ModelError) as caught:
        parse(body)
    assert str(caught.value).startswith(words), f"{caught.value} != {words}"


def text_of(edit: Text, model: str = "lambdarank") -> bytes:
    before = lightgbm_models()[model]
    after = edit(before)
    assert after != before
    return after.encode()


def more_lines(number: int) -> Text:
    """The first tree with so many lines more; it has 16, and the loader reads 22."""
    lines = "".join(f"x{i}=1\n" for i in range(number))
    return lambda text: resize_trees(text.replace("num_cat=0\n", f"num_cat=0\n{lines}", 1))


def without(key: str) -> Text:
    return lambda text: resize_trees(re.sub(rf"(?m)^{key}=.*\n", "", text, count=1))


def tail(before: str, after: str) -> Text:
    return lambda text: (
        text[: text.index("end of trees")]
        + text[text.index("end of trees") :].replace(before, after)
    )


def ending(last: str) -> Text:
    """The text up to the parameters, which end with this line."""
    return lambda text: text[: text.index("\nparameters:")] + "\n" + last + "\n"


FEATURES = set_header(
    r"^feature_infos=.*$", "feature_infos=none [-1e+300:+.5E-3] [-inf:nan] 1:-2:2147483647 7 [0:2]"
)
TAKEN: dict[str, Text] = {
    "an older format": set_header("^version=v4", "version=v3"),
    "the oldest format": set_header("^version=v4", "version=v2"),
    "no label": set_header("^label_index=0", "label_index=-1"),
    "the last label": set_header("^label_index=0", f"label_index={LARGEST}"),
    "no trees a round": set_header("^num_tree_per_iteration=1\n", ""),
    "no objective": set_header("^objective=lambdarank\n", ""),
    "an objective with words": set_header(
        "^objective=lambdarank", "objective=lambda_rank2 sqrt sigmoid:0.5"
    ),
    "features of every kind": FEATURES,
    "constraints": set_header(
        "^feature_names", "monotone_constraints=-1 0 1 0  1 -1\nfeature_names"
    ),
    "names with a sign": set_header("Column_0", "a=b=c"),
    "no sizes": set_header("^tree_sizes=.*\n", ""),
    "as many lines as the loader reads": more_lines(6),
    **{
        f"{key} {s}": set_entry(key, 0, f"{s}{LARGEST}")
        for key in ("leaf_count", "internal_count")
        for s in ("", "-")
    },
    "the last feature": set_entry("split_feature", 0, "5"),
    "the last kind of split": set_entry("decision_type", 1, "10"),
    **{
        f"missing values {word} {kind}": lambda text, word=word, kind=kind: set_entry(
            "decision_type", 0, kind
        )(set_entry("threshold", 0, word)(text))
        for word, kind in (("inf", "8"), ("1e999", "4"))
    },
    "values of nodes that are not finite": lambda text: set_line(
        "internal_value", "inf nan 1 2 3 4"
    )(
        set_line("internal_weight", "inf nan 1 2 3 4")(
            set_line("leaf_weight", "nan inf 1 2 3 4 5")(text)
        )
    ),
    "gains that are not finite": set_line("split_gain", "inf nan 1 2 3 4"),
    "a number of 40 digits": set_entry("leaf_value", 0, "0." + "1" * 38),
    "no gains": without("split_gain"),
    "no values of nodes": without("internal_value"),
    "no weights of nodes": without("internal_weight"),
    "no counts of nodes": without("internal_count"),
    "no weights of leaves": without("leaf_weight"),
    "no counts of leaves": without("leaf_count"),
    "no shrinkage": without("shrinkage"),
    "an end of the trees": lambda text: text[: text.index("end of trees")] + "end of trees\n",
    "an end of the importances": ending("feature importances:"),
    "an end of other importances": ending("feature_importances:"),
    "an end in an importance": ending("Column_0=11"),
    "an end of a parser": ending("end of parser"),
    "an end of parameters": lambda text: text[: text.index("\npandas_categorical")],
    "categories": set_header("^pandas_categorical:null", 'pandas_categorical:[["a", "b"]]'),
    "a parameter without a value": tail("[boosting: gbdt]", "[boosting_2: ]"),
}


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_files_that_lightgbm_can_just_read_are_accepted(name: str) -> None:
    body = text_of(TAKEN[name])
    assert LIGHTGBM.parse(body).to_bytes() == body


LONG = "y" * 100
HEADER = "the model's header has "
REFUSED: dict[str, tuple[Text, str]] = {
    **{
        f"no {key}": (set_header(f"^{key}=.*\n", ""), f"{HEADER}no {key!r}")
        for key in (
            "version",
            "num_class",
            "label_index",
            "max_feature_idx",
            "feature_names",
            "feature_infos",
        )
    },
    "a long line twice": (
        set_header("^num_class", f"{LONG}=1\n{LONG}=1\nnum_class"),
        f"{HEADER}a repeated or broken line '{LONG[:80]}'",
    ),
    "a tree in the head": (
        set_header("^num_class", "Tree=0\nnum_class"),
        f"{HEADER}a repeated or broken line 'Tree=0'",
    ),
    "a sign in a value": (
        set_header("^objective=", "objective=a="),
        f"{HEADER}a repeated or broken line 'objective=a=lam",
    ),
    "a long version": (
        set_header("^version=v4", f"version={LONG}"),
        f"the model is in LightGBM's format version '{LONG[:20]}'; supported: v2, v3, v4",
    ),
    "no class": (
        set_header("^num_class=1", "num_class=0"),
        f"num_class is '0', not a whole number from 1 to {LARGEST}",
    ),
    "several classes": (
        set_header("^num_class=1", "num_class=3"),
        "the model has 3 outputs per document: a multiclass",
    ),
    "no tree a round": (
        set_header("^num_tree_per_iteration=1", "num_tree_per_iteration=0"),
        "num_tree_per_iteration is '0'",
    ),
    "trees a round": (
        set_header("^num_tree_per_iteration=1", "num_tree_per_iteration=2"),
        "the model has 2 outputs per ",
    ),
    "a long objective": (
        set_header("^objective=.*$", f"objective=A{LONG}"),
        f"the header's objective is 'A{LONG[:79]}', which is not a valid name",
    ),
    "an objective of nothing": (
        set_header("^objective=.*$", "objective="),
        "the header's objective is '', which is",
    ),
    "a label below none": (
        set_header("^label_index=0", "label_index=-2"),
        "label_index is '-2', not a whole number from -1",
    ),
    "a label beyond all": (
        set_header("^label_index=0", f"label_index={LARGEST + 1}"),
        f"label_index is '{LARGEST + 1}'",
    ),
    "a long label": (
        set_header("^label_index=0", f"label_index={LONG}"),
        f"label_index is '{LONG[:80]}', not a whole",
    ),
    "no last feature": (
        set_header("^max_feature_idx=5", "max_feature_idx=-1"),
        "max_feature_idx is '-1', not a whole number f",
    ),
    "too few features": (
        set_header("^feature_infos=.*$", "feature_infos=none none"),
        "max_feature_idx gives 6 features, but feature_infos",
    ),
    "too few constraints": (
        set_header("^feature_infos", "monotone_constraints=1\nfeature_infos"),
        "max_feature_idx gives 6 features, but monotone_constraints has 1",
    ),
    "a constraint that is none": (
        set_header("^feature_infos", "monotone_constraints=0 0 2 0 0 0\nfeature_infos"),
        "monotone_constraints is '2', not a whole number from -1 to 1",
    ),
    "a constraint below all": (
        set_header("^feature_infos", "monotone_constraints=0 0 0 0 0 -2\nfeature_infos"),
        "monotone_constraints is '-2', not",
    ),
    "a long range": (
        set_header(r"\[0:39\]", LONG),
        f"feature_infos of feature 4 is '{LONG[:80]}', not a range or a list",
    ),
    "a tree of no size": (
        set_header(r"^tree_sizes=\d+", "tree_sizes=0"),
        "tree_sizes is '0', not a whole number from 1 to",
    ),
    "words before the trees": (
        lambda text: text.replace("\n\nTree=0", f"\n\n{LONG}\nTree=0", 1),
        "tree 0 has 101 bytes, but tree_sizes gives",
    ),
    "a tree of a long name": (
        lambda text: resize_trees(text.replace("Tree=1\n", f"Tree={LONG}\n")),
        f"expected 'Tree=1', found b'Tree={LONG[:35]}'",
    ),
    "one line more than the loader reads": (more_lines(7), "tree 0 is not closed by an empty line"),
    "a tree that ends in one line end": (
        lambda text: resize_trees(text.replace("\n\n\nTree=1", "\nTree=1")),
        "tree 0 is not closed by an empty line",
    ),
    "a line without a sign": (
        lambda text: resize_trees(text.replace("num_cat=0\n", f"num_cat=0\n{LONG}\n", 1)),
        f"tree 0 has a broken or repeated line b'{LONG[:80]}'",
    ),
    "no number of leaves": (without("num_leaves"), "tree 0: num_leaves is ''"),
    "more leaves than entries": (
        set_line("num_leaves", "800"),
        "tree 0: leaf_value has 7 entries, but needs 800",
    ),
    "a count of sets below none": (
        set_line("num_cat", "-1"),
        "tree 0: num_cat is '-1', not a whole number from 0 to ",
    ),
    "leaves that are linear twice": (
        set_line("is_linear", "2"),
        "tree 0: is_linear is '2', not a whole number from 0 to 1",
    ),
    "the node behind the last": (
        set_entry("left_child", 0, "6"),
        "tree 0: a child is out of range",
    ),
    "the leaf behind the last": (
        set_entry("right_child", 0, "-8"),
        "tree 0: a child is out of range",
    ),
    "a child beyond 32 bits": (
        set_entry("left_child", 0, f"{LARGEST + 1}"),
        "tree 0: left_child is out of range",
    ),
    "a child below 32 bits": (
        set_entry("right_child", 0, f"-{LARGEST + 1}"),
        "tree 0: right_child is out of range",
    ),
    "a fault in another tree": (
        set_line("left_child", "6 6 6 6 6 6", tree=1),
        "tree 1: a child is out of range",
    ),
    "a kind of split below all": (
        set_entry("decision_type", 0, "-1"),
        "tree 0: decision_type is out of range",
    ),
    "a count of a leaf beyond 32 bits": (
        set_entry("leaf_count", 0, f"{LARGEST + 1}"),
        "tree 0: leaf_count is out of range",
    ),
    "a count of a leaf below 32 bits": (
        set_entry("leaf_count", 0, f"-{LARGEST + 1}"),
        "tree 0: leaf_count is out of range",
    ),
    "a count of a node beyond 32 bits": (
        set_entry("internal_count", 0, f"{LARGEST + 1}"),
        "tree 0: internal_count is out of range",
    ),
    "a count of a node below 32 bits": (
        set_entry("internal_count", 0, f"-{LARGEST + 1}"),
        "tree 0: internal_count is out of range",
    ),
    **{
        f"a threshold {word} of kind {kind}": (
            lambda text, word=word, kind=kind: set_entry("decision_type", 0, kind)(
                set_entry("threshold", 0, word)(text)
            ),
            "tree 0: threshold is not finite",
        )
        for word, kind in (
            ("inf", "2"),
            ("1e999", "0"),
            ("inf", "10"),
            ("-inf", "8"),
            ("nan", "8"),
            ("-nan", "2"),
        )
    },
    "shrinkage that is not finite": (
        set_line("shrinkage", "inf"),
        "tree 0: shrinkage is not finite",
    ),
    "shrinkage of two numbers": (
        set_line("shrinkage", "1 2"),
        "tree 0: shrinkage has 2 entries, but needs 1",
    ),
    "a number of 41 digits": (
        set_entry("leaf_value", 0, "0." + "1" * 39),
        "tree 0: leaf_value has something that is not a ",
    ),
    "a word for a gain": (
        set_entry("split_gain", 0, "x"),
        "tree 0: split_gain has something that is not a number",
    ),
    "a word for a value of a node": (
        set_entry("internal_value", 0, "x"),
        "tree 0: internal_value has something that is",
    ),
    "a word for a weight of a node": (
        set_entry("internal_weight", 0, "x"),
        "tree 0: internal_weight has something that is",
    ),
    "a word for a weight of a leaf": (
        set_entry("leaf_weight", 0, "x"),
        "tree 0: leaf_weight has something that is not",
    ),
    "a gain too few": (
        set_line("split_gain", "1 2 3 4 5"),
        "tree 0: split_gain has 5 entries, but needs 6",
    ),
    "a weight of a leaf too few": (
        set_line("leaf_weight", "1 2 3 4 5 6"),
        "tree 0: leaf_weight has 6 entries, but needs",
    ),
    "parameters without an end": (
        tail("\nend of parameters\n", "\n"),
        "the parameters have no line 'end of parameters': the file is truncated",
    ),
    "a long parameter": (
        tail("[boosting: gbdt]", LONG),
        f"the parameters have a broken line '{LONG[:80]}'",
    ),
    "a long last line": (ending(LONG), f"the last line is '{LONG[:80]}': the file is truncated"),
    "nested categories": (
        set_header("^pandas_categorical:null", "pandas_categorical:" + "[" * 100_000),
        "pandas_categorical: is followed by broken JSON: the file is damaged",
    ),
}


@pytest.mark.fault(86)
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_files_that_lightgbm_can_just_not_read_are_refused(name: str) -> None:
    edit, words = REFUSED[name]
    refused(LIGHTGBM.parse, text_of(edit), words)


def test_no_count_is_believed_that_the_text_of_a_tree_cannot_hold() -> None:
    text = lightgbm_models()["lambdarank"]
    size = int(re.search(r"(?m)^tree_sizes=(\d+)", text)[1])
    assert 100 < size < 990
    size += 2  # in three digits for one
    for key in ("num_leaves", "num_cat"):
        words = (
            f"tree 0: {key} is '{size + 1}', not a whole number from {int(key == 'num_leaves')} to"
            f" {size}"
        )
        refused(LIGHTGBM.parse, text_of(set_line(key, str(size + 1))), words)
    refused(
        LIGHTGBM.parse,
        text_of(set_line("num_leaves", str(size))),
        "tree 0: leaf_value has 7 entries",
    )
    refused(
        LIGHTGBM.parse, text_of(set_line("num_cat", str(size))), "tree 0 has no 'cat_boundaries'"
    )
    one_more = text_of(set_header(r"^tree_sizes=\d+", f"tree_sizes={size - 1}"))
    refused(
        LIGHTGBM.parse, one_more, f"tree 0 has {size - 2} bytes, but tree_sizes gives {size - 1}"
    )


def test_a_text_says_where_it_is_no_text() -> None:
    body = lightgbm_models()["lambdarank"].encode()
    refused(
        LIGHTGBM.parse, b"tree\nabc\xff" + body, "byte 8 is not UTF-8 text: the file is damaged"
    )
    refused(
        LIGHTGBM.parse,
        b"tree\nabc\0" + body,
        "byte 8 is not UTF-8 text: the file is damaged",
    )
    refused(
        LIGHTGBM.parse,
        b"tree\n",
        "this is not LightGBM model text: it must begin with a line 'tree' and a header",
    )
    refused(
        LIGHTGBM.parse,
        b"x" + body,
        "this is not LightGBM model text: it must begin with a line 'tree'",
    )
    refused(LIGHTGBM.parse, body.replace(b"end of trees", b"end of it"), "tree 3 has")
    refused(
        LIGHTGBM.parse, body[: body.index(b"end of trees")], "model text has no line 'end of trees'"
    )


def test_a_tree_may_have_4096_nodes_one_below_the_other() -> None:
    LIGHTGBM.parse(make_chain(4096).encode())
    refused(LIGHTGBM.parse, make_chain(4097).encode(), "tree 0: it is deeper than 4096 nodes")


@pytest.mark.parametrize("value", [0, 2**32 - 1])
def test_words_of_sets_of_categories_may_be_of_32_bits(value: int) -> None:
    body = text_of(set_entry("cat_threshold", 0, str(value)), "sets of categories")
    assert LIGHTGBM.parse(body).sets[0][0] == value


def test_the_tree_with_the_broken_number_is_named_not_the_one_with_the_longest() -> None:
    words = re.search(r"(?m)^leaf_value=(.*)$", lightgbm_models()["lambdarank"])[1].split()
    long = set_line("leaf_value", " ".join(["0." + "1" * 38, *words[1:]]))
    for bad in ("0." + "1" * 39, "0.5x", "1e5e5"):
        body = text_of(
            lambda text, bad=bad: set_line("leaf_value", " ".join([bad, *words[1:]]), tree=1)(
                long(text)
            )
        )
        refused(LIGHTGBM.parse, body, "tree 1: leaf_value has something that is not a number")


def test_a_set_of_categories_may_be_empty() -> None:
    text = lightgbm_models()["sets of categories"]
    words = re.search(r"(?m)^cat_boundaries=(.*)$", text)[1].split()
    assert len(words) > 2
    assert int(words[1]) > 0
    before = LIGHTGBM.parse(text.encode()).sets
    after = LIGHTGBM.parse(
        set_line("cat_boundaries", " ".join(["0", "0", *words[2:]]))(text).encode()
    ).sets
    sizes = [words.size for words in before]
    assert [words.size for words in after] == [0, sizes[0] + sizes[1], *sizes[2:]]
    falling = set_line("cat_boundaries", " ".join(["0", words[-1], *words[2:]]))(text).encode()
    refused(LIGHTGBM.parse, falling, "tree 0: cat_boundaries do not fit cat_threshold")


def test_a_model_without_trees_can_be_filled_and_refitted() -> None:
    """A training that a callback stops before its first round has no trees."""
    text = lightgbm_models()["sets of categories"]
    head, tail = text.partition("\n\nTree=0")[0], text[text.index("\nend of trees\n") :]
    body = (re.sub("(?m)^tree_sizes=.*$", "tree_sizes=", head) + "\n\n" + tail[1:]).encode()
    model = LIGHTGBM.parse(body)
    assert LIGHTGBM.leaf_values(model) == []
    assert LIGHTGBM.with_leaves(model, []) == model.to_bytes()
    n_features = int(re.search("max_feature_idx=(.*)", head)[1]) + 1
    assert LIGHTGBM.filled(body, np.zeros(n_features)) == model.to_bytes()
