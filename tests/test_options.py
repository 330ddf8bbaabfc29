"""Options declared once: names, defaults, bounds and what does not go together."""

from __future__ import annotations

import inspect

import pytest

import boostrank
from boostrank.core.conventions import PRESETS
from boostrank.core.errors import ParameterError
from boostrank.engines import ENGINES
from boostrank.options import BACKENDS, CONVENTIONS, ReadOptions, TrainOptions, declared

UNDECLARED = dict.fromkeys(("train_set", "valid_sets", "valid_names", "keep_training_booster"), "")
POSITIONAL = {"params": "params", "num_boost_round": "rounds", **UNDECLARED}


def test_keywords_of_train_are_declared_options_with_the_same_defaults() -> None:
    options = declared(TrainOptions)
    for name, parameter in inspect.signature(boostrank.train).parameters.items():
        field = POSITIONAL.get(name, name)
        if field:
            expected = None if name == "params" else options[field].default
            assert parameter.default in (expected, inspect.Parameter.empty), name


def test_every_option_of_a_training_is_a_keyword_of_train_or_a_parameter() -> None:
    keywords = inspect.signature(boostrank.train).parameters
    names = [
        name
        for name, option in declared(TrainOptions).items()
        if not option.params and name not in ("settings", "of")
    ]
    assert [name for name in names if name not in keywords] == []


def test_words_that_other_modules_define_agree() -> None:
    assert tuple(ENGINES) == BACKENDS
    assert tuple(PRESETS) == CONVENTIONS


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        ({"folds": 1}, ["folds=1", "at least 2"]),
        ({"max_trees": 2.5}, ["max_trees=2.5", "whole"]),
        ({"quality": "best"}, ["quality='best'", "good, plain, quick"]),
        ({"rounds": True}, ["rounds=True"]),
        ({"num_leaves": 10**400}, ["num_leaves=1000", "out of range", "at least 2"]),
        ({"of": "f1"}, ["of", "within_query"]),
        ({"init_model": "m.txt", "folds": 3}, ["init_model", "folds"]),
    ],
)
def test_values_that_are_not_allowed_are_refused_by_name(
    values: dict[str, object], tokens: list[str]
) -> None:
    with pytest.raises(ParameterError) as caught:
        TrainOptions(**values)  # type: ignore[arg-type]
    assert all(token in str(caught.value) for token in tokens), caught.value


def test_flat_is_one_dictionary_and_refuses_a_parameter_given_twice() -> None:
    options = TrainOptions(
        objective="shf-sdcg", settings={"sigma": 0.5}, params={"min_data_in_leaf": 5}, threads=2
    )
    assert options.flat() == {
        "objective": "shf-sdcg",
        "sigma": 0.5,
        "min_data_in_leaf": 5,
        "num_threads": 2,
    }
    with pytest.raises(ParameterError, match="nthread"):
        TrainOptions(params={"nthread": 1}, threads=2).flat()


def test_changed_lists_only_what_differs_from_the_defaults() -> None:
    assert ReadOptions(drop="a,b", inf="stop", zero_based=True).changed == {
        "zero_based": "true",
        "drop": ("a", "b"),
    }
