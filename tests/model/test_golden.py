"""What earlier versions wrote is read: `golden/VERSION.tar.gz`, which `golden/make.py` made in
their code.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tarfile
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.version import Version

import boostrank
from boostrank import RankingModel
from boostrank.clicks.log import Propensities
from boostrank.clicks.tables import read_clicks
from boostrank.core.errors import ParameterError
from boostrank.engines.linear import format as linear_format
from boostrank.fit import checkpoint as checkpoints
from boostrank.fit import run as provenance
from boostrank.metrics import Conventions
from boostrank.model.files import read_model_files, sidecar_path
from boostrank.model.scores import scores_of
from boostrank.objective.mixture import objective_from_dict
from boostrank.records import SCHEMA_VERSION, ModelInfo, as_record, jsonable
from boostrank.reporting.section import read_matters
from tests.cli.conftest import succeed
from tests.model.golden.make import STUDY, name_columns

FOLDER = Path(__file__).parent / "golden"
SUFFIX = ".tar.gz"
VERSIONS = sorted(
    (path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}")), key=Version
)
NEWEST = VERSIONS[-1]

MEND = "make golden writes one with it"


@cache
def expected(version: str) -> dict[str, Any]:
    """What the version that wrote them made of its files."""
    with tarfile.open(FOLDER / f"{version}{SUFFIX}") as files:
        return dict(json.load(files.extractfile("expected.json")))  # type: ignore[arg-type]


of_each_model = pytest.mark.parametrize(
    ("version", "name"),
    [(version, name) for version in VERSIONS for name in expected(version)["models"]],
)
of_each_checkpoint = pytest.mark.parametrize(
    ("version", "name"),
    [(version, name) for version in VERSIONS for name in expected(version)["checkpoints"]],
)
of_each_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Version -> its files, which nobody changes."""
    folders = {version: tmp_path_factory.mktemp(version) for version in VERSIONS}
    for version, folder in folders.items():
        with tarfile.open(FOLDER / f"{version}{SUFFIX}") as files:
            files.extractall(folder, filter="data")
    return folders


@pytest.fixture
def folder(
    version: str, extracted: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The files of a version where they may be changed, in the working directory, as they were
    made.
    """
    shutil.copytree(extracted[version], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.fault(87)
@of_each_model
def test_a_model_of_every_version_gives_the_scores_it_gave_to_the_bit(
    version: str, name: str, extracted: dict[str, Path]
) -> None:
    folder, then = extracted[version], dict(expected(version)["models"][name])
    rows = boostrank.read(folder / "rows.txt")
    rows = boostrank.read(folder / "new.txt", like=rows)
    model = RankingModel.load(folder / name)
    table = name_columns(rows) if "-frame" in name else rows
    scores = model.predict(table)
    np.testing.assert_array_equal(scores, then.pop("scores"))
    names = tuple(then.pop("feature_names"))
    assert (model.feature_names, model.info.objective_name) == (names, then.pop("objective"))
    assert model.info.index_base == then.pop("index_base")
    assert {key: getattr(model, key) for key in then} == then


@pytest.mark.fault(87)
@of_each_model
def test_every_field_of_a_sidecar_of_every_version_is_read(
    version: str, name: str, extracted: dict[str, Path], tmp_path: Path
) -> None:
    path = extracted[version] / name
    content = read_model_files(path)[1]
    assert content is not None
    info = as_record(
        ModelInfo, {key: value for key, value in content.items() if key != "evals_result"}
    )
    assert {**info, "evals_result": content["evals_result"]} == content
    if info.objective is not None and ":" not in info.objective["name"]:
        assert objective_from_dict(info.objective).to_dict() == info.objective
    if info.conventions is not None:
        assert jsonable(dataclasses.asdict(Conventions(**info.conventions))) == info.conventions
    model = RankingModel.load(path)
    assert model.best_score.keys() == content["evals_result"].keys()
    model.save(tmp_path / name)
    again = json.loads(sidecar_path(tmp_path / name).read_text())
    del again["file"]
    assert again == content


def test_the_newest_files_have_every_field_and_every_version_of_the_formats(
    extracted: dict[str, Path],
) -> None:
    folder, models = extracted[NEWEST], expected(NEWEST)["models"]
    sidecars = [json.loads(sidecar_path(folder / name).read_text()) for name in models]
    recorded = {
        key for content in sidecars for key in ModelInfo.__struct_fields__ if content.get(key)
    }
    fields = set(ModelInfo.__struct_fields__)
    assert fields <= recorded, f"no sidecar of {NEWEST} has these: {MEND}"
    schema = max(content["file"]["schema_version"] for content in sidecars)
    versions = [
        json.loads((folder / name).read_text())["version"]
        for name in ("linear.json", "propensities.json")
    ]
    there = (schema, *versions, heads(folder))
    beginnings = {checkpoints._MAGIC + b"%d" % checkpoints._VERSION}
    now = (SCHEMA_VERSION, linear_format._VERSION, 1, beginnings)
    assert there == now, f"the files of {NEWEST} are of other formats: {MEND}"


def heads(folder: Path) -> set[bytes]:
    """First lines of checkpoints."""
    return {file.read_bytes().partition(b"\n")[0] for file in folder.glob("*.checkpoint")}


def resume(folder: Path, version: str, name: str) -> tuple[RankingModel, boostrank.Checkpoint]:
    """Go on as the training of a checkpoint was called."""
    settings = expected(version)["checkpoints"][name]
    data = boostrank.read(folder / "rows.txt")
    new = boostrank.read(folder / "new.txt", like=data)
    state = boostrank.Checkpoint(folder / name, resume=True)
    model = boostrank.train(
        settings["params"],
        data,
        settings["rounds"],
        valid_sets=[new],
        backend=settings["backend"],
        checkpoint=state,
    )
    return model, state


def identity_in(checkpoint: Path) -> dict[str, Any]:
    return dict(json.loads(checkpoint.read_bytes().split(b"\n", 3)[2])["training"])


@pytest.mark.fault(120)
@of_each_checkpoint
def test_a_checkpoint_of_another_version_is_refused_with_both(
    version: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = identity_in(folder / name)["versions"]["boostrank"]
    monkeypatch.setattr(provenance, "__version__", "99.0")
    words = rf"{name}: .*versions\.boostrank {then} then, 99\.0 now.*remove the"
    with pytest.raises(ParameterError, match=words):
        resume(folder, version, name)


@pytest.mark.parametrize("name", expected(NEWEST)["checkpoints"])
@pytest.mark.parametrize("version", [NEWEST])
def test_a_checkpoint_of_this_version_goes_on_to_the_same_model(
    version: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = identity_in(folder / name)["versions"]
    monkeypatch.setattr(provenance, "_versions", lambda engine: then)
    engine = expected(version)["checkpoints"][name]["backend"]
    model, state = resume(folder, version, name)
    assert state.resumed_at == 4
    data = boostrank.read(folder / "rows.txt")
    whole = RankingModel.load(folder / f"{name}.model").predict(data)
    same_engine = boostrank.engines.get_backend(engine).version == then[engine]
    # Another processor or engine may round otherwise, and another engine choose other splits in the
    # rounds to come.
    if same_engine:
        np.testing.assert_allclose(model.predict(data), whole, atol=1e-4 * whole.std())
    assert model.best_iteration == 6


@pytest.mark.fault(120)
@pytest.mark.usefixtures("folder")
@of_each_version
def test_a_training_beside_a_cache_of_another_version_is_one_without(version: str) -> None:
    params = {"objective": "lambdarank", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
    with_cache = boostrank.train(params, boostrank.stream("rows.txt", cache="cache"), 1)
    without = boostrank.train(params, boostrank.stream("rows.txt", cache=False), 1)
    assert with_cache.to_bytes() == without.to_bytes()


@pytest.mark.usefixtures("folder")
@of_each_version
def test_a_configuration_of_every_version_is_taken_by_train(version: str) -> None:
    data = ("rows.txt", "--valid", "new.txt")
    succeed(
        "train",
        *data,
        "--config",
        "tune.toml",
        "--model",
        "new.model",
        "--rounds",
        1,
        "--threads",
        1,
    )
    with open("tune.toml", "rb") as file:
        tuned = tomllib.load(file)
    info = RankingModel.load("new.model").info
    assert info.objective is not None
    assert info.parameters is not None
    assert info.objective["params"].items() >= tuned["set"].items()
    assert info.parameters.items() >= tuned["param"].items()


@pytest.mark.fault(120)
@pytest.mark.usefixtures("folder")
@of_each_version
def test_a_study_of_every_version_goes_on(version: str) -> None:
    then = Path("tune.toml").read_text()
    done = succeed("tune", *STUDY, "--trials", "2", "--resume", "-o", "tune.toml")
    assert "2/2" not in done.stderr  # no trial is run again
    assert tomllib.loads(Path("tune.toml").read_text()) == tomllib.loads(then)


@of_each_version
def test_clicks_and_propensities_of_every_version_are_read(
    version: str, extracted: dict[str, Path], tmp_path: Path
) -> None:
    folder = extracted[version]
    read_clicks(folder / "clicks.txt").write(tmp_path / "clicks.txt")
    assert (tmp_path / "clicks.txt").read_text() == (folder / "clicks.txt").read_text()
    then = json.loads((folder / "propensities.json").read_text())
    propensities = Propensities.read(folder / "propensities.json").to_dict()
    assert propensities | {"version": then["version"]} == then


@of_each_version
def test_a_measure_of_noise_of_every_version_is_read(
    version: str, extracted: dict[str, Path]
) -> None:
    then = json.loads((extracted[version] / "noise.json").read_text())["metrics"]
    assert read_matters(str(extracted[version] / "noise.json")) == {
        name: noise["matters"] for name, noise in then.items()
    }


@of_each_version
def test_scores_of_every_version_are_read_to_the_bit(
    version: str, extracted: dict[str, Path]
) -> None:
    data = boostrank.read(extracted[version] / "new.txt")
    scores = scores_of(str(extracted[version] / "scores.txt"), None, data, None)
    np.testing.assert_array_equal(scores, expected(version)["models"]["lightgbm.txt"]["scores"])
