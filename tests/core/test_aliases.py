"""Names of version 0.1.0 still work, and warn."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import warnings

import pytest

from boostrank.core.aliases import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_a_module_of_an_old_name_is_the_new_one_and_warns(old: str) -> None:
    sys.modules.pop(f"boostrank.{old}", None)
    try:
        with pytest.warns(FutureWarning, match=f"boostrank.{old} is now boostrank.{MOVED[old]}"):
            found = importlib.import_module(f"boostrank.{old}")
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    assert found is importlib.import_module(f"boostrank.{MOVED[old]}")


def test_old_names_are_found_in_packages_that_were_modules() -> None:
    from boostrank.objective.description import Objective

    with pytest.warns(FutureWarning, match="boostrank.objective.Objective is now boostrank.objective.description"):
        from boostrank.objective import Objective as Old
    assert Old is Objective
    with pytest.raises(ImportError):
        from boostrank.objective import Nothing  # noqa: F401


@pytest.mark.parametrize(
    "name",
    [
        "core.types.QueryIndex",
        "kernels.driver.HESSIAN_FLOOR",
        "kernels.composition.control_scale",
        "report.comparison.Regression",
        "report.noise.SOURCES",
    ],
)
def test_a_name_that_moved_is_found_in_its_old_module(name: str) -> None:
    module, _, attribute = f"boostrank.{name}".rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        old = importlib.import_module(module)
    with pytest.warns(FutureWarning, match=f"{attribute} is now boostrank"):
        assert getattr(old, attribute) is not None


def test_an_unknown_module_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("boostrank.kernels.nothing")


def test_the_new_names_do_not_warn() -> None:
    code = "import boostrank, boostrank.cli; boostrank.train, boostrank.Objective, boostrank.data, boostrank.report"
    subprocess.run([sys.executable, "-W", "error::FutureWarning", "-c", code], check=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        importlib.import_module("boostrank.report.noise.analysis")


def test_an_old_attribute_gives_the_new_one_and_warns() -> None:
    from boostrank.checking.findings import Finding, Status

    finding = Finding("order", Status.PASS, "well")
    with pytest.warns(FutureWarning, match=r"Finding\.told is now Finding\.message"):
        assert finding.told == "well"
    with pytest.raises(AttributeError, match="no attribute 'tale'"):
        finding.tale  # noqa: B018
    assert pickle.loads(pickle.dumps(finding)) == finding
