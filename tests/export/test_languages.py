"""C, Go, Java and JavaScript: the engine's bits, by the compiled code where the language is
installed, and by the file's tables, which the check of an export reads.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostrank.engines.trees import ServedTrees
from boostrank.export import TARGETS
from boostrank.export.target import ExportError, TargetSpec
from boostrank.kernels.forest import Forest
from tests.export.compiled import COMPILERS, compiled, need_compiler
from tests.export.conftest import Example, example

RUN = ["lightgbm-start-categories", "lightgbm-none-zeros", "xgboost-start-categories"]
WORDS = {"c": "double", "go": "func", "java": "Math", "javascript": "class"}


@pytest.fixture(params=COMPILERS)
def target(request: pytest.FixtureRequest) -> TargetSpec:
    need_compiler(request.param)
    return TARGETS.get(request.param)


@pytest.mark.parametrize("kind", RUN)
def test_bits_are_those_of_the_engine(target: TargetSpec, kind: str, tmp_path: Path) -> None:
    model_example = example(kind)
    score = compiled(target.name, target.write(model_example.served), tmp_path)
    np.testing.assert_array_equal(
        score(model_example.rows), model_example.expected(model_example.rows)
    )


@pytest.mark.parametrize("name", COMPILERS)
def test_the_tables_have_the_bits_of_the_engine(name: str, each: Example) -> None:
    body = TARGETS.get(name).write(each.served)
    score = TARGETS.get(name).read(body, each.served.feature_names)
    np.testing.assert_array_equal(score(each.rows), each.expected(each.rows))
    with pytest.raises(ExportError, match="different feature names"):
        TARGETS.get(name).read(body, each.served.feature_names[::-1])


def test_names_may_be_anything(target: TargetSpec, tmp_path: Path) -> None:
    model_example = example("lightgbm-none-whole")
    names = (
        'say "so"',
        "back\\slash\\u0041",
        "größe \U0001f600",
        "*/ ${x} `",
        "tables() = {1};",
        "%d ??/ NAMES = ints(7)",
    )
    served = replace(model_example.served, name="9 lives = doubles(3) */ äh", feature_names=names)
    body, expected = target.write(served), model_example.expected(model_example.rows)
    np.testing.assert_array_equal(target.read(body, names)(model_example.rows), expected)
    score = compiled(target.name, body, tmp_path)
    np.testing.assert_array_equal(score(model_example.rows), expected)


def test_words_of_a_language_are_no_names(target: TargetSpec, tmp_path: Path) -> None:
    model_example, name = example("lightgbm-none-whole"), WORDS[target.name]
    body = target.write(replace(model_example.served, name=name))
    assert f"model_{name}".encode() in body or target.name == "javascript"
    np.testing.assert_array_equal(
        compiled(target.name, body, tmp_path)(model_example.rows),
        model_example.expected(model_example.rows),
    )


@pytest.mark.parametrize("name", ["Arrays", "IllegalArgumentException", "null", "record", "true"])
def test_words_of_java_name_no_class(name: str) -> None:
    body = TARGETS.get("java").write(replace(example("lightgbm-none-whole").served, name=name))
    assert f"public final class model_{name} {{".encode() in body


def test_large_models_fit(target: TargetSpec, tmp_path: Path) -> None:
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
    # Compiled, the file gives the scores of its tables.
    rows = rng.normal(size=(50, 2_000))
    expected = target.read(body, names)(rows)
    np.testing.assert_array_equal(compiled(target.name, body, tmp_path)(rows), expected)


def test_rows_of_another_width_are_refused(target: TargetSpec, tmp_path: Path) -> None:
    model_example = example("lightgbm-none-whole")
    if target.name == "c":
        return  # which does not know the width of a row
    score = compiled(target.name, target.write(model_example.served), tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        score(model_example.rows[:, :5])
    assert "expected 6 features" in refusal.value.stderr
