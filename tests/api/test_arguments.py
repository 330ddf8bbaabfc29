"""Public functions refuse arguments of another kind by name, before they do anything with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError

DATA = boostrank.RankingDataset.from_arrays(
    np.arange(12.0).reshape(6, 2), [0, 1] * 3, group=[2, 2, 2]
)
ODD: tuple[Any, ...] = (object(), np.array(3), np.array("x"), {1}, len, np.zeros((2, 3)))
NO_TEXT = (None, 1, float("nan"), ["a"])


def model() -> boostrank.RankingModel:
    return boostrank.train(
        {"num_threads": 1, "verbosity": -1, "min_data_in_leaf": 1}, DATA, 1, start="none"
    )


@pytest.mark.parametrize(
    ("function", "arguments", "wrong"),
    [
        (boostrank.verify, (None, DATA, [0.0] * 6), {"model": NO_TEXT, "data": NO_TEXT}),
        (boostrank.compare, (None, None, DATA), {"data": NO_TEXT}),
        (boostrank.reporting.report, (None, DATA), {"data": NO_TEXT}),
        (boostrank.calibrate, (None, DATA), {"data": NO_TEXT}),
        (boostrank.export_model, (None, "out.py", "python"), {"model": NO_TEXT}),
    ],
    ids=lambda argument: getattr(argument, "__name__", ""),
)
def test_arguments_of_another_kind(
    function: Callable[..., Any], arguments: tuple[Any, ...], wrong: dict[str, Any]
) -> None:
    names = list(inspect.signature(function).parameters)
    first = {
        name: model() if name == "model" else argument
        for name, argument in zip(names, arguments, strict=False)
    }
    for name, values in wrong.items():
        for value in (*values, *ODD):
            with pytest.raises(ParameterError, match=rf"^{name}=.*: expected "):
                function(**(first | {name: value}))


@pytest.mark.parametrize(
    ("function", "unknown", "near"),
    [
        (boostrank.train, "fold", "folds"),
        (boostrank.train, "rounds", ""),
        (boostrank.tune, "trails", "trials"),
        (boostrank.tune, "quality", ""),
    ],
)
def test_keywords_that_are_not_known(function: Callable[..., Any], unknown: str, near: str) -> None:
    with pytest.raises(TypeError) as caught:
        function({}, DATA, **{unknown: 1})
    assert f"{function.__name__}() got an unexpected keyword argument {unknown!r}" in str(
        caught.value
    )
    assert str(caught.value).count("'") == (4 if near else 2)
    assert near in str(caught.value)


def test_a_value_that_is_no_dimension_of_the_search_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"sigma=1: .*Span"):
        boostrank.tune(None, DATA, folds=2, space={"sigma": 1})  # type: ignore[dict-item]
