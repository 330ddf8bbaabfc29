"""A few faults of `make io-sweep`."""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from qa.io_faults import in_process
from qa.io_sweep import CASES, Sweep, contents
from tests.cli.conftest import data as data

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="paths of descriptors are read from /proc"
)


@pytest.mark.parametrize(("name", "every"), [("split", 4), ("shard", 7), ("sample", 5)])
def test_fault_077_a_failure_of_any_call_of_a_command_loses_nothing(
    name: str, every: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # which the sweep changes
    monkeypatch.setattr(tempfile, "tempdir", None)
    sweep = Sweep(tmp_path, in_process, every)
    sweep.data.mkdir()
    for file in ("train.txt", "valid.txt"):
        shutil.copy(data / file, sweep.data / file)
    sweep.inputs = contents(sweep.data)
    case = next(case for case in CASES if case.name == name)
    outcomes = list(sweep.sweep(case, math.inf))
    assert not [(what, broken) for what, _, broken in outcomes if broken]
    # A file whose format could not be looked up by content is read as libsvm, which it is: status
    # 0.
    assert {status for _, status, _ in outcomes} - {0} == {2, 3}
