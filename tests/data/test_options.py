"""Reader options: declared once, for the readers, their documentation and the command line."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import click
import pytest

import boostrank
from boostrank.cli.predict import predict
from boostrank.core.errors import ParameterError
from boostrank.data.feature_space import misfit
from boostrank.options import ReadOptions, declared

DECLARED = declared(ReadOptions)
NAMES = [field.name for field in dataclasses.fields(ReadOptions)]
OF_COMMANDS = [name for name in NAMES if DECLARED[name].flag is not None]


@pytest.mark.parametrize("read", [boostrank.read, boostrank.stream])
def test_readers_show_every_option_with_its_default(read: Callable[..., Any]) -> None:
    parameters = inspect.signature(read).parameters
    assert {name: parameters[name].default for name in NAMES} == {
        field.name: field.default for field in dataclasses.fields(ReadOptions)
    }


def test_commands_have_those_that_are_theirs() -> None:
    options = {param.name: param for param in predict.params if isinstance(param, click.Option)}
    assert [name for name in options if name in NAMES] == OF_COMMANDS
    for name in OF_COMMANDS:
        assert (options[name].help or "").startswith(DECLARED[name].help)


def test_what_differs_from_the_defaults_decides_what_is_read() -> None:
    assert ReadOptions().changed == {}
    assert ReadOptions(zero_based=None, missing_tokens=[], label_map={}).changed == {}
    options = ReadOptions(zero_based=True, missing_tokens="NA", label_map="-1=0,2=1", strict=True)
    assert options.changed == {
        "missing_tokens": ("NA",),
        "zero_based": "true",
        "label_map": {-1.0: 0.0, 2.0: 1.0},
        "strict": True,
    }
    assert ReadOptions(**options.changed) == options == pickle.loads(pickle.dumps(options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inf": "ignore"}, "inf='ignore' is not known"),
        ({"zero_based": "maybe"}, "zero_based='maybe' is not known"),
        ({"max_bad_share": 1.5}, "max_bad_share=1.5 is out of range; allowed: 0 to 1"),
        ({"missing_tokens": "a b"}, "missing token 'a b'"),
        ({"n_features": 0}, "n_features=0 is out of range"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ReadOptions(**options)


@pytest.mark.parametrize("read", [boostrank.read, boostrank.stream])
def test_an_unknown_option_is_refused_with_the_nearest_known_one(read: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"missing_token.* 'missing_tokens'"):
        read("train.txt", missing_token="NULL")


@pytest.mark.parametrize("name", ["max_feature", "n_features", "max_bad_share"])
def test_fault_113_a_word_in_place_of_a_number_is_refused_by_name(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name}='7' is not a (whole )?number"):
        ReadOptions(**{name: "7"})


def test_a_model_of_an_array_says_why_its_columns_are_missing() -> None:
    assert "array" in misfit(["Column_0", "Column_1"], [])
    assert "array" not in misfit(["Column_0", "price"], [])
