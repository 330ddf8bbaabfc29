"""A file of a user's own, from its text to a saved model; what is wrong with it is one line with
its place.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pickle
import re
import runpy
import sys
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.checking import Status, check_contract
from boostrank.checking.user_file import load_objective, template_text
from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.kernels.objective import Kernel, ObjectiveSpec
from tests.cli.conftest import invoke, refuse, succeed
from tests.fit.conftest import make_dataset
from tests.objectives.conformance import evaluate, examples

ARGUMENTS = "scores, gains, order, doc_const, query_const, params, grad, hess, scratch, iscratch"
OWN = f"""
import boostrank


def kernel({ARGUMENTS}):
    grad[:] = 0.0
    hess[:] = 0.0
    mean, loss = 0.0, 0.0
    for i in range(scores.shape[0]):
        mean += (scores[i] - gains[i]) / scores.shape[0]
    for i in range(scores.shape[0]):
        grad[i] = params[0] * (scores[i] - gains[i] - mean)
        hess[i] = params[0]
        loss += 0.5 * params[0] * (scores[i] - gains[i] - mean) ** 2
    return loss


SPEC = boostrank.define_objective(
    "centred-squares", kernel, params=[boostrank.Param("weight", 2.0, "of everything", low=0.0)], quadratic=False
)
"""
NAMED = """
import boostrank


def kernel(query, params, grad, hess, scratch):
    mean, loss = 0.0, 0.0
    for i in range(query.scores.size):
        mean += (query.scores[i] - query.gains[i]) / query.scores.size
    for i in range(query.scores.size):
        grad[i] = params.weight * (query.scores[i] - query.gains[i] - mean)
        hess[i] = params.weight
        loss += 0.5 * params.weight * (query.scores[i] - query.gains[i] - mean) ** 2
    return loss


SPEC = boostrank.define_objective(
    "named-squares", kernel, params=[boostrank.Param("weight", 2.0, "of everything", low=0.0)], quadratic=False
)
"""
WILD = f"""
import boostrank


def kernel({ARGUMENTS}):
    grad[:] = 0.0
    hess[:] = 1.0
    loss = 0.0
    for i in range(scores.size):
        grad[i] = scores[i] - gains[i]
    return loss


SPEC = boostrank.define_objective("wild", kernel, quadratic=False)
"""
ARRAYS = Path(__file__).with_name("template_arrays.py")
QUIET = {"verbosity": -1, "metric": "None", "num_leaves": 7, "num_threads": 1}


@pytest.fixture(scope="module")
def objective_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("own") / "centred_squares.py"
    path.write_text(OWN)
    return path


@pytest.mark.usefixtures("leaves_as_grown_here")
def test_one_function_trains_on_every_engine_in_their_own_functions(
    objective_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(objective_file.parent)
    # The objective of the file, as LightGBM and XGBoost take it.
    module = importlib.import_module(objective_file.stem)
    data = make_dataset()
    dataset = lgb.Dataset(data.features, data.labels, group=data.queries.sizes)
    objective = boostrank.Objective(module.SPEC, weight=1.0)
    assert pickle.loads(pickle.dumps(objective)).spec.kernel.py_func is module.kernel

    # The same trees as by LightGBM itself; nearly the same order by its ranker and by XGBoost.
    ours = boostrank.train({"objective": module.SPEC, "weight": 1.0, **QUIET}, data, 4)
    expected = ours.predict(data)
    alone = lgb.train(
        {"objective": objective, "deterministic": True, "force_col_wise": True, **QUIET}, dataset, 4
    )
    np.testing.assert_array_equal(alone.predict(data.features), expected)
    ranker = lgb.LGBMRanker(objective=objective, n_estimators=4, num_leaves=7, verbose=-1, n_jobs=1)
    ranker.fit(data.features, data.labels, group=data.queries.sizes)
    assert np.corrcoef(ranker.predict(data.features), expected)[0, 1] > 0.9
    matrix = xgb.DMatrix(data.features, data.labels, group=data.queries.sizes)
    boosted = xgb.train({"base_score": 0, "max_depth": 3, "nthread": 1}, matrix, 4, obj=objective)
    assert np.corrcoef(boosted.predict(matrix), expected)[0, 1] > 0.8

    # The record names the file and its hash, and cannot be taken for the function.
    described = ours.info["objective"]
    digest = hashlib.sha256(objective_file.read_bytes()).hexdigest()
    assert described["name"] == "centred-squares"
    assert described["source"] == {"file": objective_file.name, "sha256": digest}
    assert described["params"] == {"weight": 1.0}
    with pytest.raises(ParameterError, match=r"centred_squares\.py"):
        boostrank.Objective.from_dict(described)
    with pytest.raises(ParameterError, match="kernel"):
        boostrank.train({"objective": module.SPEC.kernel}, data, 1)


def test_a_kernel_with_names_and_one_of_ten_arrays_train_the_same(
    objective_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_squares.py").write_text(NAMED)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("named_squares")
    data = make_dataset()
    by_name = boostrank.train({"objective": module.SPEC, **QUIET}, data, 3)
    by_arrays = boostrank.train({"objective": load_objective(objective_file), **QUIET}, data, 3)
    np.testing.assert_array_equal(by_name.predict(data), by_arrays.predict(data))
    copied = pickle.loads(pickle.dumps(module.SPEC)).kernel
    assert copied.body is module.kernel
    assert copied.scratch_per_document == module.SPEC.scratch_per_document == 0


def test_the_template_of_ten_arrays_is_the_same_objective() -> None:
    arrays = load_objective(ARRAYS)
    named_spec = importlib.import_module("boostrank.objectives._template").SPEC
    assert arrays.params == named_spec.params
    values = {p.name: p.default for p in named_spec.params}
    for query, scores in examples():
        from_names = evaluate(named_spec, query, scores, values)
        from_arrays = evaluate(arrays, query, scores, values)
        for array, other_array in zip(from_names, from_arrays, strict=True):
            np.testing.assert_array_equal(array, other_array)


def test_a_kernel_that_writes_beyond_its_arrays_is_stopped_before_anything_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "my.py"
    path.write_text(
        OWN.replace("    return loss", "    grad[scores.shape[0]] = 1.0\n    return loss")
    )
    result = invoke("objectives", "--check", path)
    assert result.exit_code == 3
    heading, failed, *explained, last = result.stdout.splitlines()
    assert heading.startswith("centred-squares: ")
    assert failed == "  FAIL  memory    line 15: index 0 is out of bounds for axis 0 with size 0"
    assert [line.split(":")[0].strip() for line in explained if ": " in line][:2] == [
        "example",
        "why",
    ]
    assert last == "centred-squares fails: memory"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("grad[scores.size] = 1.0", "beyond an end of grad"),
        ("grad[0] += scores[scores.size]", "beyond an end"),
    ],
)
def test_a_compiled_function_that_leaves_the_arrays_is_found(
    data: Path, tmp_path: Path, statement: str, reason: str
) -> None:
    helper = (
        f"@numba.njit\ndef helper(scores, grad):\n    if scores.size:\n        {statement}\n\n\n"
    )
    text = OWN.replace("import boostrank\n", f"import boostrank\nimport numba\n\n{helper}", 1)
    path = tmp_path / "my.py"
    path.write_text(text.replace("    return loss", "    helper(scores, grad)\n    return loss"))
    result = invoke("objectives", "--check", path)
    assert result.exit_code == 3
    assert reason in result.stdout
    assert result.stdout.endswith("fails: memory\n")
    refused = refuse(
        "train", data / "train.txt", "--objective", path, "--model", tmp_path / "model.txt"
    )
    assert str(path) in refused.stderr
    assert reason in refused.stderr


def test_the_command_line_trains_with_a_file_and_says_so_in_the_sidecar(
    data: Path, objective_file: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.txt"
    succeed(
        "train",
        data / "train.txt",
        "--quality",
        "plain",
        "--objective",
        f"{objective_file}",
        "--set",
        "weight=3",
        "--rounds",
        3,
        "--model",
        model,
    )
    # The record names the file; a parameter that it lacks is refused.
    described = json.loads(Path(f"{model}.meta.json").read_text())["objective"]
    assert described["source"]["file"] == objective_file.name
    assert described["params"] == {"weight": 3.0}
    refused = refuse(
        "train",
        data / "train.txt",
        "--objective",
        objective_file,
        "--set",
        "sigma=3",
        "--model",
        model,
    )
    assert "no parameter 'sigma'" in refused.stderr


def test_the_printed_template_passes(tmp_path: Path) -> None:
    printed = invoke("objectives", "--template").stdout
    assert printed == template_text()
    path = tmp_path / "my.py"
    path.write_text(printed)
    result = succeed("objectives", "--check", path)
    words = [line.split()[:2] for line in result.stdout.splitlines() if line.startswith("  ")]
    assert {"lightgbm", "xgboost"} <= {check for _, check in words}
    assert {status for status, _ in words} == {"pass"}
    assert result.stdout.endswith("keeps the contract\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (1,\n", "my.py:1:5: '(' was never closed"),
        (
            "import math\n\nx = math.nosuch\n",
            "my.py:3: AttributeError: module 'math' has no attribute 'nosuch'",
        ),
        (
            "x = 1\n",
            "my.py: it has no objective: end the file with SPEC = boostrank.define_objective(",
        ),
        (
            OWN.replace(", scratch, iscratch", ""),
            "gains, order, doc_const, query_const, params, grad, hess): write def kernel(query,",
        ),
        (
            NAMED.replace("grad, hess", "hess, grad"),
            "my.py:5: kernel takes (query, params, hess, grad, scratch): write def kernel(query, params, ",
        ),
        (
            NAMED.replace("    return loss\n", ""),
            "it returns nothing on some path; a kernel returns its loss",
        ),
        (
            NAMED.replace("params.weight", "params.wait"),
            "my.py:10: the kernel cannot be compiled: params has no 'wait'",
        ),
        (
            NAMED.replace("+= 0.5", "+= nosuch"),
            "my.py:12: the kernel cannot be compiled: NameError: name 'nosuch'",
        ),
        (
            OWN.replace("grad, hess", "hess, grad"),
            "params, hess, grad, scratch, iscratch): write def kernel(scores,",
        ),
        (
            OWN.replace("quadratic=False", "hessian='best'"),
            "my.py:18: hessian='best' is not one of exact | majoriser",
        ),
        (
            OWN.replace("centred-squares", "sdcg"),
            "my.py: the name 'sdcg' is taken by boostrank's own objective",
        ),
        (
            OWN.replace("    return loss\n", ""),
            "it returns nothing on some path; a kernel returns its loss",
        ),
        (
            OWN.replace("loss += 0.5", "loss += nosuch"),
            "my.py:14: the kernel cannot be compiled: NameError: name 'nosuch'",
        ),
    ],
)
def test_a_wrong_objectives_file_gives_one_line_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "my.py"
    path.write_text(text)
    with pytest.raises(FileFormatError) as error:
        load_objective(path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}:")
    assert "\n" not in str(error.value)


def test_a_file_with_several_objectives_is_asked_for_a_name(tmp_path: Path) -> None:
    path = tmp_path / "my.py"
    path.write_text(OWN.replace("SPEC =", "A =") + "B = A\n")
    with pytest.raises(FileFormatError, match=r"it has 2 objectives \(A, B\): .*SPEC"):
        load_objective(path)


def test_a_missing_file_and_an_unknown_name_are_usage_errors(tmp_path: Path) -> None:
    for argument, message in (
        (tmp_path / "no.py", "No such file"),
        ("nosuch", "unknown objective"),
        (None, "--check"),
    ):
        arguments = [] if argument is None else [argument]
        result = refuse("objectives", "--check", *arguments)
        assert message in result.stderr


@pytest.mark.parametrize("name", ["my.py", "softmax.py"])
def test_the_files_in_the_guide_keep_the_contract(name: str, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "own-objective.md").read_text(
        encoding="utf-8"
    )
    (block,) = re.findall(
        rf'^```python title="{name}"\n(.*?)^```$', guide, re.DOTALL | re.MULTILINE
    )
    path = tmp_path / name
    path.write_text(block)
    spec = runpy.run_path(str(path))["SPEC"]
    statuses = {f.check: f.status for f in check_contract(spec, spec.kernel.in_python)}
    without_proof = {"curvature": Status.SKIP} if name == "softmax.py" else {}  # a proxy
    assert statuses == dict.fromkeys(statuses, Status.PASS) | without_proof


def test_the_docstring_of_the_kernel_or_else_of_the_file_describes_the_objective(
    tmp_path: Path,
) -> None:
    file = '"""Squares: of everything.\n\n    L = sum (s - g)^2\n\nDeviation: none. """\n' + NAMED
    inner = '    """Centred squares.\n\n        L = 2 sum\n\n    More."""\n    mean, loss'
    both = file.replace("    mean, loss", inner, 1)
    for number, (text, summary, equation) in enumerate(
        [
            (NAMED, "an objective of", ""),
            (file, "of everything", "L = sum (s - g)^2"),
            (both, "Centred squares", "L = 2 sum"),
        ]
    ):
        path = tmp_path / f"{number}.py"
        path.write_text(text)
        spec = load_objective(path, checked=False)
        assert spec.summary.startswith(summary)
        assert spec.equation == equation
    with pytest.raises(ParameterError, match=r"sumary=.* 'summary'"):
        boostrank.define_objective("x", spec.kernel, sumary="y")


OUT_OF_BOUNDS = [
    ("    return loss", "    grad[scores.size * 1000] = 1.0\n    return loss", "out of bounds"),
    ("    return loss", "    loss += hess[scores.size]\n    return loss", "out of bounds"),
    ("grad[i] = ", "grad[i - 1 - 10**6] = ", "out of bounds"),
    ("    hess[:] = 1.0\n", "    hess[1:] = 1.0\n", "hess is not written"),
    ("    loss = 0.0\n", "    loss = 0.0 * scratch[0]\n", "scratch|out of bounds"),
    (
        "    loss = 0.0\n",
        "    loss = 1.0 / scores.size\n    hess[scores.size] = 1.0\n",
        "out of bounds",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), OUT_OF_BOUNDS)
def test_fault_107_a_kernel_that_leaves_its_arrays_is_refused_before_it_is_compiled(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = WILD.replace(old, new)
    assert text != WILD
    path = tmp_path / "wild.py"
    path.write_text(text)
    monkeypatch.setattr(Kernel, "compiled", property(lambda _: pytest.fail("it is compiled")))
    with pytest.raises(FileFormatError, match=message):
        load_objective(path)
    (tmp_path / "t.txt").write_text("1 qid:1 1:2\n0 qid:1 1:1\n")
    refused = refuse("train", tmp_path / "t.txt", "-m", tmp_path / "m", "--objective", path)
    assert re.search(message, refused.stderr)


@pytest.mark.parametrize(("old", "new", "message"), OUT_OF_BOUNDS)
def test_fault_107_check_objective_says_so_and_lives(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "wild.py"
    path.write_text(WILD.replace(old, new))
    spec = load_objective(path, checked=False)
    results = list(boostrank.checking.check_objective(spec))
    assert [result.status for result in results] == [Status.FAIL]
    assert re.search(message, results[0].message)


def _load_text(folder: Path, text: str) -> ObjectiveSpec:
    path = folder / "mine.py"
    path.write_text(text)
    return load_objective(f"{path}")


def test_an_objective_that_learns_against_the_labels_is_found_out(tmp_path: Path) -> None:
    """Trees that follow it make the ranking worse, by the metric of the training set."""
    against = OWN.replace("scores[i] - gains[i] - mean", "scores[i] + gains[i] - mean")
    against = against.replace("(scores[i] - gains[i]) / scores", "(scores[i] + gains[i]) / scores")
    spec = _load_text(tmp_path, against.replace("centred-squares", "against"))
    by_engine = {result.check: result for result in boostrank.checking.learning(spec)}
    assert by_engine["lightgbm"].status is Status.FAIL
    assert by_engine["lightgbm"].message.startswith("training made the ranking worse")


def test_a_kernel_that_breaks_ends_its_check_with_the_reason(tmp_path: Path) -> None:
    """Long lists alone are broken here, which none of the small examples is."""
    broken = OWN.replace(
        "    return loss",
        "    if scores.shape[0] > 11:\n        grad[0] = math.nan\n    return loss",
    )
    spec = _load_text(tmp_path, "import math\n" + broken)
    for result in boostrank.checking.learning(spec):
        assert result.status is Status.FAIL, result
        assert "not finite" in result.message
        assert "above" in result.mend


def test_loading_a_file_leaves_the_folders_of_imports_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    for searched in ([str(tmp_path.resolve()), *sys.path], list(sys.path)):
        monkeypatch.setattr(sys, "path", list(searched))
        load_objective(path, checked=False)
        assert sys.path == searched


def test_the_only_objective_of_a_file_needs_no_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN.replace("SPEC =", "MINE ="))
    assert load_objective(str(path)).name == "centred-squares"


def test_a_majoriser_that_bounds_the_loss_passes(tmp_path: Path) -> None:
    text = OWN.replace("quadratic=False", 'quadratic=False, hessian="majoriser"')
    by_check = {result.check: result for result in check_contract(_load_text(tmp_path, text))}
    assert by_check["curvature"].status is Status.PASS
