"""C file: what a program that includes it sees."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from boostrank.export import TARGETS
from tests.export.conftest import example

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is here")


@pytest.mark.parametrize(
    "kind", ["lightgbm-start-categories", "xgboost-start-missing", "lightgbm-none-zeros"]
)
def test_the_file_is_c99_without_a_warning(kind: str, tmp_path: Path) -> None:
    (tmp_path / "model.c").write_bytes(TARGETS.get("c").write(example(kind).served))
    command = [
        "cc",
        "-std=c99",
        "-pedantic",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wconversion",
        "-c",
        "model.c",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_one_row_has_the_score_that_it_has_among_many(tmp_path: Path) -> None:
    model_example = example("xgboost-start-categories")
    main = (
        "#include <stdio.h>\ndouble toy_score(const double *row);\nconst char *const"
        " *toy_feature_names(void);\n"
    )
    main += "int main(void) { double row[6] = {%s}; "
    main += 'printf("%%.17g %%s", toy_score(row), toy_feature_names()[5]); return 0; }\n'
    row = np.nan_to_num(model_example.rows[3])
    (tmp_path / "main.c").write_text(main % ", ".join(map(repr, row.tolist())))
    (tmp_path / "model.c").write_bytes(TARGETS.get("c").write(model_example.served))
    subprocess.run(
        ["cc", "-ffp-contract=off", "main.c", "model.c", "-o", "run"], cwd=tmp_path, check=True
    )
    printed = subprocess.run(
        [tmp_path / "run"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert float(printed[0]) == model_example.expected(row[None])[0]
    assert printed[1] == model_example.served.feature_names[5]
