"""C, Go, Java and JavaScript: the engine's bits, by the language where it is installed, and by the
file's tables.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostrank.engines.trees import ServedTrees
from boostrank.export import TARGETS
from boostrank.export.target import ExportError, TargetSpec
from boostrank.kernels.forest import Forest
from tests.export.conftest import Example, example

PROGRAMS = {"c": "cc", "go": "go", "java": "javac", "javascript": "node"}
RUN = ["lightgbm-start-categories", "lightgbm-none-zeros", "xgboost-start-categories"]
WORDS = {"c": "double", "go": "func", "java": "Math", "javascript": "class"}


@pytest.fixture(params=PROGRAMS)
def target(request: pytest.FixtureRequest) -> TargetSpec:
    if not shutil.which(PROGRAMS[request.param]):
        pytest.skip(f"{PROGRAMS[request.param]} is not installed")
    return TARGETS.get(request.param)


@pytest.mark.parametrize("kind", RUN)
def test_bits_are_those_of_the_engine(target: TargetSpec, kind: str) -> None:
    model_example = example(kind)
    score = target.read(target.write(model_example.served), model_example.served.feature_names)
    np.testing.assert_array_equal(
        score(model_example.rows), model_example.expected(model_example.rows)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_the_language_is_not_installed_its_tables_are_read(
    name: str, each: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    body = TARGETS.get(name).write(each.served)
    score = TARGETS.get(name).read(body, each.served.feature_names)
    np.testing.assert_array_equal(score(each.rows), each.expected(each.rows))
    with pytest.raises(ExportError, match="different feature names"):
        TARGETS.get(name).read(body, each.served.feature_names[::-1])


def test_names_may_be_anything(target: TargetSpec) -> None:
    model_example = example("lightgbm-none-whole")
    names = (
        'say "so"',
        "back\\slash\\u0041",
        "größe \U0001f600",
        "*/ ${x} `",
        "tables() = {1};",
        "%d ??/ NAMES WIDTH",
    )
    served = replace(model_example.served, name="9 lives */ äh", feature_names=names)
    score = target.read(target.write(served), names)
    np.testing.assert_array_equal(
        score(model_example.rows), model_example.expected(model_example.rows)
    )


def test_words_of_a_language_are_no_names(target: TargetSpec) -> None:
    model_example, name = example("lightgbm-none-whole"), WORDS[target.name]
    body = target.write(replace(model_example.served, name=name))
    assert f"model_{name}".encode() in body or target.name == "javascript"
    np.testing.assert_array_equal(
        target.read(body, model_example.served.feature_names)(model_example.rows),
        model_example.expected(model_example.rows),
    )


def test_large_models_fit(target: TargetSpec) -> None:
    """Literals and methods of Java hold 64 KB; these trees take 2 MB."""
    # A hundred full trees with random splits of 2,000 features.
    trees, depth = 100, 8
    nodes = 2**depth - 1
    at = np.arange(nodes)
    left = np.where(at < nodes // 2, 2 * at + 1, -1 - (2 * at + 1 - nodes))
    right = np.where(at < nodes // 2, 2 * at + 2, -1 - (2 * at + 2 - nodes))
    shift = np.repeat(np.arange(trees), nodes)
    rng = np.random.default_rng(0)
    children = (
        np.where(child < 0, child - shift * (nodes + 1), child + shift * nodes)
        for child in np.tile([left, right], trees)
    )
    forest = Forest(
        rng.integers(0, 2_000, trees * nodes).astype(np.int32),
        rng.normal(size=trees * nodes),
        np.ones(trees * nodes, np.uint8),
        *(child.astype(np.int32) for child in children),
        rng.normal(size=trees * (nodes + 1)),
        (nodes * np.arange(trees)).astype(np.int32),
        shift.astype(np.int32),
        np.zeros(0, np.uint32),
        np.zeros(1, np.int64),
    )
    # Long names, which do not fit into single lines or literals.
    names = tuple(f"größe {i:,} der ähnlichen Dinge" for i in range(2_000))
    served = replace(
        example("lightgbm-none-whole").served,
        trees=ServedTrees(forest, np.zeros(trees * (nodes + 1))),
        feature_names=names,
    )
    body = target.write(served)
    assert target.name == "c" or max(map(len, body.split(b"\n"))) < 65_536 < len(body)
    # Compiled, the file gives the scores of its Python reading.
    rows = rng.normal(size=(50, 2_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "which", lambda program: None)
        expected = target.read(body, names)(rows)
    np.testing.assert_array_equal(target.read(body, names)(rows), expected)


def test_rows_of_another_width_are_refused(target: TargetSpec) -> None:
    model_example = example("lightgbm-none-whole")
    score = target.read(target.write(model_example.served), model_example.served.feature_names)
    if target.name == "c":
        return  # which does not know the width of a row
    with pytest.raises(ExportError, match="expected 6 features"):
        score(model_example.rows[:, :5])


def test_source_that_does_not_compile_is_refused_with_the_reason(
    target: TargetSpec, tmp_path: Path
) -> None:
    model_example = example("lightgbm-none-whole")
    body = target.write(model_example.served).replace(b"node = ", b"mode = ")
    with pytest.raises(ExportError, match="mode"):
        target.read(body, model_example.served.feature_names)(model_example.rows)
