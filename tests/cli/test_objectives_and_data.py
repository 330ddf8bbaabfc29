"""`boostrank objectives` and `boostrank data make`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boostrank.data.synthetic import make_ranking_data
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.objective.mixture import AUTO
from boostrank.objectives import OBJECTIVES
from tests.cli.conftest import invoke

# The generated data have missing values, which the reader mentions.
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_everything_an_objective_declares_is_told(name: str) -> None:
    spec = OBJECTIVES.get(name)
    # Lines break at blanks and hyphens.
    printed = "".join(invoke("objectives", name).stdout.split())
    weighed = {"gain": "multiplies its gain", "loss": "multiplies its loss", None: "is refused"}[
        spec.document_weights
    ]
    for words in (
        f"document weight {weighed}",
        spec.summary,
        spec.equation,
        spec.reference,
        spec.deviation,
        spec.hessian.value,
        *(f"{option}={value} by default" for option, value in spec.default_options.items()),
        "boostrank objectives describes the options that every objective takes",
    ):
        assert "".join(words.split()) in printed
    for param in spec.params:
        assert f"{param.name}=" in printed
        assert "".join(param.range.split()) in printed


def test_auto_is_told_as_what_it_stands_for() -> None:
    page = " ".join(invoke("objectives", "AUTO").stdout.split())
    assert page.startswith("auto: the default")
    assert page.endswith(f"stands for {AUTO}")


def test_the_list_has_the_registry() -> None:
    printed = invoke("objectives").stdout.split()
    assert {"auto", *OBJECTIVES.names()} <= set(printed)


def test_generated_files_hold_what_the_generator_made(data: Path) -> None:
    truth = make_ranking_data(60, mean_length=15)
    for name, part in truth.split()._asdict().items():
        read = read_libsvm(data / f"{name}.txt", n_features=part.dataset.n_features)
        assert read.fingerprint == part.dataset.fingerprint
    np.testing.assert_allclose(
        np.loadtxt(data / "test-relevance.txt"), truth.split().test.relevance, rtol=1e-8
    )


def test_the_same_seed_gives_the_same_bytes(data: Path, tmp_path: Path) -> None:
    result = invoke("data", "make", tmp_path, "--queries", 60, "--mean-length", 15)
    names = ["train.txt", "valid.txt", "test.txt", "test-relevance.txt"]
    assert result.stdout.split() == [str(tmp_path / name) for name in names]
    assert [(tmp_path / name).read_bytes() for name in names] == [
        (data / name).read_bytes() for name in names
    ]
