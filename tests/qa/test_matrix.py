"""Other interpreters are found by version, and one that is absent is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from qa import matrix

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_an_interpreter_is_found_by_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["--path", OWN]) == 0
    path = capsys.readouterr().out.strip()
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    assert subprocess.check_output([path, "-c", code], text=True).strip() == OWN


def test_a_short_run_leaves_out_this_python_and_what_is_absent() -> None:
    assert matrix.find_interpreter("2.0") is None
    assert matrix.main(["--short", OWN, "2.0", "--uv", "no-such-program"]) == 0
    with pytest.raises(SystemExit, match=r"2\.0"):
        matrix.main(["2.0"])
