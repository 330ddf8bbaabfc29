"""Files of a release beside the package: each names what pyproject.toml names."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import boostrank
from tests.docs.examples import ROOT, blocks

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_the_package() -> None:
    assert RECIPE["context"]["version"] == boostrank.__version__
    run = dict(map(_split, RECIPE["requirements"]["run"]))
    needed = dict(map(_split, PROJECT["dependencies"]))
    assert run == needed | {"python": PROJECT["requires-python"]}
    (xgboost,) = PROJECT["optional-dependencies"]["xgboost"]
    assert [_split(xgboost)] == [*map(_split, RECIPE["requirements"]["run_constraints"])]


def test_the_conda_recipe_has_the_command_and_the_licence_of_the_package() -> None:
    ((name, function),) = PROJECT["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {function}"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    assert RECIPE["about"]["license"] == PROJECT["license"]


def test_the_image_pins_a_version_of_each_dependency_with_hashes() -> None:
    text = (ROOT / "docker" / "requirements.txt").read_text()
    command = text.splitlines()[1]
    extras = re.findall(r"--extra (\S+)", command)
    pins = dict(re.findall(r"^([\w.-]+)==(\S+) \\\n    --hash=sha256:", text, re.MULTILINE))
    assert len(pins) == text.count("==")
    lines = PROJECT["dependencies"] + [
        line for extra in extras for line in PROJECT["optional-dependencies"][extra]
    ]
    for requirement in map(Requirement, lines):
        pin = pins[requirement.name.replace(".", "-")]
        assert requirement.specifier.contains(pin), f"{requirement}: {pin}: {command}"


def test_the_guide_shows_the_dockerfile() -> None:
    page = blocks(ROOT / "docs" / "guide" / "production.md")
    (dockerfile,) = [block.text for block in page if block.language == "dockerfile"]
    assert dockerfile == (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("workflow", ["ci", "release"])
def test_a_workflow_tries_every_python_that_the_package_names(workflow: str) -> None:
    path = ROOT / ".github" / "workflows" / f"{workflow}.yml"
    jobs = yaml.safe_load(path.read_text())["jobs"]
    matrices = [job["strategy"]["matrix"]["python"] for job in jobs.values() if "strategy" in job]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert [set(matrix) - {"3.14"} for matrix in matrices] == [set(versions)] * len(matrices)
    assert matrices


def _split(requirement: str) -> tuple[str, str]:
    """Its name, and its bounds without blanks."""
    name = re.match(r"[\w.-]+", requirement)[0]
    return name, requirement.removeprefix(name).replace(" ", "")
