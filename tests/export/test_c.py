"""C file: the engine's bits, once compiled."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostrank.export.target import ExportError
from boostrank.export.targets import c
from boostrank.export.targets.c import SPEC
from tests.export.conftest import Example, example

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler is here")


@needs_compiler
def test_bits_are_those_of_the_engine(each: Example) -> None:
    score = SPEC.read(SPEC.write(each.served), each.served.feature_names)
    np.testing.assert_array_equal(score(each.rows), each.expected(each.rows))
    np.testing.assert_array_equal(score(each.rows[:1]), each.expected(each.rows[:1]))


@needs_compiler
def test_zeros_may_be_missing() -> None:
    zeros = example("lightgbm-none-zeros")
    score = SPEC.read(SPEC.write(zeros.served), zeros.served.feature_names)
    np.testing.assert_array_equal(score(zeros.rows), zeros.expected(zeros.rows))


@needs_compiler
@pytest.mark.parametrize("kind", ["lightgbm-start-categories", "xgboost-start-missing", "lightgbm-none-zeros"])
def test_the_file_is_c99_without_a_warning(kind: str, tmp_path: Path) -> None:
    (tmp_path / "model.c").write_bytes(SPEC.write(example(kind).served))
    command = [c.compiler(), "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-c", "model.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


@needs_compiler
def test_one_row_has_the_score_that_it_has_among_many(tmp_path: Path) -> None:
    one = example("xgboost-start-categories")
    main = "#include <stdio.h>\ndouble toy_score(const double *row);\nint main(void) { double row[6] = {%s}; "
    main += 'printf("%%.17g", toy_score(row)); return 0; }\n'
    row = np.nan_to_num(one.rows[3])
    (tmp_path / "main.c").write_text(main % ", ".join(map(repr, row.tolist())))
    (tmp_path / "model.c").write_bytes(SPEC.write(one.served))
    subprocess.run([c.compiler(), "-ffp-contract=off", "main.c", "model.c", "-o", "run"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "run"], capture_output=True, text=True, check=True).stdout
    assert float(printed) == one.expected(row[None])[0]


@needs_compiler
def test_names_may_be_anything() -> None:
    one = example("lightgbm-none-whole")
    names = ('say "so"', "back\\slash", "größe ???/", "a */", "tab\t", "%d")
    served = replace(one.served, name="9 lives */ äh", feature_names=names)
    score = SPEC.read(SPEC.write(served), names)
    np.testing.assert_array_equal(score(one.rows), one.expected(one.rows))
    with pytest.raises(ExportError, match="different feature names"):
        SPEC.read(SPEC.write(served), names[::-1])


def test_without_a_compiler_it_is_refused_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    c.compiler.cache_clear()
    with pytest.raises(ExportError, match=r"no C compiler .* install one"):
        SPEC.read(b"", ())
    c.compiler.cache_clear()
