"""RankLib's emulator against a file written as RankLib writes it, a scalar twin, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from tests.consumers import elasticsearch, opensearch
from tests.consumers.forests import documents, forest, text
from tests.consumers.ranklib import read

F = np.float32
FILE = """## LambdaMART
## No. of trees = 2
## Learning rate = 0.1

<ensemble>
\t<tree id="1" weight="0.1">
\t\t<split>
\t\t\t<feature> 2 </feature>
\t\t\t<threshold> 0.5 </threshold>
\t\t\t<split pos="left">
\t\t\t\t<output> -1.5 </output>
\t\t\t</split>
\t\t\t<split pos="right">
\t\t\t\t<feature> 1 </feature>
\t\t\t\t<threshold> -3.0 </threshold>
\t\t\t\t<split pos="left">
\t\t\t\t\t<output> 2.0 </output>
\t\t\t\t</split>
\t\t\t\t<split pos="right">
\t\t\t\t\t<output> 4.0 </output>
\t\t\t\t</split>
\t\t\t</split>
\t\t</split>
\t</tree>
\t<tree id="2" weight="2.0">
\t\t<split>
\t\t\t<output> 10.0 </output>
\t\t</split>
\t</tree>
</ensemble>
"""


def added(*terms: tuple[float, float]) -> np.float32:
    """The sum of outputs times weights, as `Ensemble.eval` adds."""
    total = F(0)
    for output, weight in terms:
        total = F(float(total) + float(F(output)) * float(F(weight)))
    return total


def test_the_file_that_ranklib_writes() -> None:
    rows = np.array([[0.0, 0.5], [-3.0, 0.6], [-2.9, 0.6], [np.nan, 0.6], [9.0, np.nan]])
    expected = [added((output, 0.1), (10.0, 2.0)) for output in (-1.5, 2.0, 4.0, 4.0, -1.5)]
    assert read(FILE, 2)(rows).tolist() == expected
    for engine in (elasticsearch, opensearch):
        model = {"name": "m", "model": {"type": "model/ranklib", "definition": FILE}}
        scores = engine.read(json.dumps({"model": model}).encode(), ["x", "y"])(rows)
        assert scores.dtype == F
        assert scores.tolist() == expected


def test_a_value_up_to_the_threshold_goes_left_and_has_no_slack() -> None:
    rows = np.array([[0.0, float(x)] for x in (F(0.5), np.nextafter(F(0.5), F(1)))])
    assert read(FILE, 2)(rows).tolist() == [added((-1.5, 0.1), (10.0, 2.0)), added((4.0, 0.1), (10.0, 2.0))]


def test_products_are_float64_and_the_sum_float32() -> None:
    outputs = [(0.33, 0.7), (1.58, 0.9), (0.63, 0.1), (0.05, 0.9)]
    lines = [f'<tree weight="{w}">\n<split>\n<output>{value}</output>\n</split>\n</tree>' for value, w in outputs]
    scores = read("\n".join(["## MART", "<ensemble>", *lines, "</ensemble>"]), 1)(np.zeros((1, 1)))
    plain = F(0)
    for value, weight in outputs:
        plain = F(plain + F(F(value) * F(weight)))
    double = F(sum(float(F(value)) * float(F(weight)) for value, weight in outputs))
    assert scores.tolist() == [added(*outputs)]
    assert added(*outputs) not in (plain, double)


@pytest.mark.filterwarnings("ignore:overflow")
def test_scores_are_those_of_a_scalar_twin() -> None:
    def written(node: Any) -> list[str]:
        if not isinstance(node, tuple):
            return [f"<output> {text(node)} </output>"]
        column, threshold, _, left, right = node
        return [
            f"<feature> {column + 1} </feature>", f"<threshold> {text(threshold)} </threshold>",
            '<split pos="left">', *written(left), "</split>", '<split pos="right">', *written(right), "</split>",
        ]  # fmt: skip

    def twin(node: Any, document: Any) -> np.float32:
        while isinstance(node, tuple):
            value = F(document[node[0]])
            node = node[3] if (F(0) if np.isnan(value) else value) <= F(node[1]) else node[4]
        return F(node)

    trees = forest(7)
    lines = [
        line for tree in trees for line in ('<tree weight="0.3">', "<split>", *written(tree), "</split>", "</tree>")
    ]
    rows = documents(8, trees)
    scores = read("\r\n  ".join(["## lambdamart", "<ensemble>", *lines, "</ensemble>"]), 3)(rows)
    assert scores.tolist() == [added(*((float(twin(tree, row)), 0.3) for tree in trees)) for row in rows]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("", "first line"),
        (FILE.replace("LambdaMART", "LightGBM"), "first line"),
        (FILE.replace("</ensemble>", ""), "no XML"),
        (FILE.replace("<ensemble>", "<!DOCTYPE e><ensemble>"), "DOCTYPE"),
        (FILE.replace("<split>\n", "<split> "), "white space or text between"),
        (FILE.replace("</feature>\n", "</feature> "), "white space or text between"),
        (FILE.replace(' weight="2.0"', ""), "no weight"),
        (FILE.replace("<feature> 2 ", "<feature> 3 "), "feature 3 is none of 1 to 2"),
        (FILE.replace("<feature> 2 ", "<feature> 0 "), "feature 0 is none of 1 to 2"),
        (FILE.replace("<feature> 2 ", "<feature> x "), "feature x is none"),
        (FILE.replace(" -3.0 ", " low "), "'low' is no number"),
        (FILE.replace("<output> 10.0 </output>", "<output></output>"), "<output> is empty"),
        (FILE.replace("<output> 10.0 </output>\n", ""), "must hold 1 elements, and holds 0"),
        (FILE.replace("<threshold> 0.5 </threshold>\n", ""), "must hold 4 elements, and holds 3"),
    ],
)  # fmt: skip
def test_what_ranklib_refuses(file: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(file, 2)
